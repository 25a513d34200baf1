"""Tensor copies of rows at any indices: the boxes of a tile, four rows each, and the rows that a kernel names.

In: a ``TmaGather4`` or ``TmaScatter4``, the layout of a tile; the indices of its rows.  Out: ``TmaTiling``, ``Rows``.

    mo.copyto(tma, sA, tma.rows(indices, column), barrier=(full, 0))    # row i of the tile is row indices[i] of A

Source: PTX ISA, Tensors, tiled::gather4 and tiled::scatter4 modes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moye.atoms.tma import ROWS, TmaOp
from moye.dtypes import DType
from moye.errors import DTypeError, LayoutError, TensorError
from moye.layout import size
from moye.tensor.context import locate
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor
from moye.tensor.tma_boxes import AnyLayout, TmaBox, TmaTiling, tma_tiling

_ALIGN = 128


def rows_tiling(op: TmaOp, dtype: DType, strides: tuple[int | None, ...], layout: AnyLayout,
                tile: tuple[int, ...] | None) -> TmaTiling:
    """The boxes of a tile of rows; LayoutError (B5) if TMA cannot copy it.

    ``strides`` are those of the matrix, 1 where it is contiguous.  The map's boxes have one row, and the tiling's four.
    """
    asked = f"make_tma_copy({op}) of a {dtype} array and tiles {layout}"
    if len(strides) != 2:
        raise LayoutError(f"{asked}: the array has {len(strides)} modes, and rows are of a matrix, which has 2",
                          code="B5")
    plain = tma_tiling(op, dtype, strides, layout, tile, 1)
    wide, together = plain.map.box[0], plain.map.box[1]
    part = ROWS * wide * dtype.bits // 8
    if together % ROWS or part % _ALIGN:
        raise LayoutError(f"{asked}: {ROWS} rows go together, as a run of shared memory that is a multiple of {_ALIGN} "
                          f"bytes, and the tile has {together} rows of {wide * dtype.bits // 8} bytes one after the "
                          "other", code="B5", hint="let the rows of a tile be a multiple of 4, of 32 bytes or more")
    boxes = tuple(TmaBox((box.coordinates[0], box.coordinates[1] + i), box.offset + i * wide)
                  for box in plain.boxes for i in range(0, together, ROWS))
    return replace(plain, map=replace(plain.map, box=(wide, 1)), boxes=boxes)


class Rows:
    """The rows of a tile: ``indices`` along the mode of rows, and the first element of each."""

    __slots__ = ("indices", "start")

    def __init__(self, indices: tuple[Any, ...], start: Any) -> None:
        self.indices, self.start = indices, start

    def __repr__(self) -> str:
        return f"{len(self.indices)} rows at any indices"


def rows_of(name: str, tiling: TmaTiling, indices: object, start: Any) -> Rows:
    """The rows that a kernel names for a copy; TensorError if they are no rows of its tiles."""
    wanted = tiling.tile[_mode(tiling)]
    if isinstance(indices, Tensor):
        count = size(indices.layout)
        if not isinstance(count, int):
            raise TensorError(f"{name}.rows: the extent of {indices.label} is known only while the kernel runs, and a "
                              f"tile has {wanted} rows", locs=(locate(),))
        found = tuple(indices[i] for i in range(wanted)) if count == wanted else (0,) * count
    elif isinstance(indices, (tuple, list)):
        found = tuple(indices)
    else:
        raise TensorError(f"{name}.rows takes a tensor or a tuple of the indices of rows, not a "
                          f"{type(indices).__name__}", locs=(locate(),))
    if len(found) != wanted:
        raise TensorError(f"{name}.rows: {len(found)} indices, and a tile has {wanted} rows", locs=(locate(),),
                          hint=f"the tile of make_tma_copy is {tiling.tile}")
    for what, each in (*((f"index {i}", x) for i, x in enumerate(found)), ("the first element", start)):
        _require_integer(name, what, each)
    return Rows(found, start)


def _require_integer(name: str, what: str, x: Any) -> None:
    if isinstance(x, Expr):
        if not x.dtype.is_integer:
            raise DTypeError(f"{name}.rows: {what} is {x.dtype}, and an index is an integer", locs=(locate(),))
    elif isinstance(x, bool) or not hasattr(x, "__index__"):
        raise DTypeError(f"{name}.rows: {what} is {x!r}, and an index is an integer", locs=(locate(),))


def _mode(tiling: TmaTiling) -> int:
    """The mode of the array that rows are counted along."""
    mode = tiling.along[1]
    assert isinstance(mode, int), "the modes of a matrix are not merged"
    return mode
