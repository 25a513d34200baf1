"""TMA copies as arguments of kernels: an array, and the tiles in which it is copied.

In: an operation, an array, the layout of one tile in shared memory.  Out: ``TmaCopy``.

    tma_A = make_tma_copy(TmaLoad(), A, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (128, 64)))

Its static part belongs to the specialisation.  The array is a runtime argument like any other, and its tensor map is
encoded at launch.
"""

from __future__ import annotations

import functools
from typing import Any

from moye.atoms.tma import TmaOp
from moye.dtypes import DType
from moye.errors import ArgumentError, LayoutError
from moye.layout import ComposedLayout, Layout, make_layout
from moye.runtime import arrays
from moye.runtime.arrays import ArrayInfo
from moye.tensor.tma_boxes import TmaTiling, tma_tiling

_PART = 16


class TmaCopy:
    """A TMA copy of one array; in the kernel it has ``.tensor``, the coordinates, and ``.bytes`` of one tile."""

    __slots__ = ("array", "multicast", "op", "smem_layout", "tile")

    def __init__(self, op: TmaOp, array: Any, smem_layout: Layout | ComposedLayout, tile: tuple[int, ...] | None,
                 multicast: int) -> None:
        self.op = op
        self.array = array
        self.smem_layout = smem_layout
        self.tile = tile
        self.multicast = multicast

    @property
    def key(self) -> tuple[object, ...]:
        """Everything except the array."""
        return self.op, self.smem_layout, self.tile, self.multicast

    def describe(self) -> tuple[ArrayInfo, TmaTiling]:
        """The array as it is now, and its boxes; LayoutError (B5) if TMA cannot copy it."""
        info = arrays.describe(self.array)
        if info is None:
            raise ArgumentError(f"make_tma_copy({self.op}) takes an array, not a {type(self.array).__qualname__}")
        if 0 in info.strides or info.strides.count(1) > 1:
            info = info._replace(strides=arrays.natural_strides(info.shape, info.strides))
        return info, _tiling(self.op, info.dtype, info.shape, info.strides, info.ptr % _PART, self.smem_layout,
                             self.tile, self.multicast)

    def __repr__(self) -> str:
        return f"TmaCopy({self.op}, tiles {self.smem_layout})"


def make_tma_copy(atom: TmaOp, array: Any, smem_layout: Layout | ComposedLayout | Any,
                  tile: tuple[int, ...] | None = None, multicast: int = 1) -> TmaCopy:
    """A TMA copy of an array, for a kernel to take; ``smem_layout`` says how a tile lies in shared memory.

    Mode i of the tile runs along mode i of the array, unless ``tile`` says otherwise.  ``tile`` is the extent of a tile
    along each mode of the array, and the layout takes the tile's elements in the order of their coordinates.  The
    layout is plain, or has a swizzle as ``mo.smem_layout_atom`` makes it.  It must be contiguous along the mode that
    the array is contiguous along.  Along a mode of stride 0 a tile has one element, the same for every coordinate, and
    can only be loaded. With ``multicast`` n, each of n blocks of a cluster loads an n-th of a tile for all of them.
    """
    if not isinstance(atom, TmaOp):
        raise ArgumentError(f"make_tma_copy: {atom!r} is no TMA operation",
                            hint="mo.TmaLoad(), mo.TmaStore() or mo.TmaReduceAdd()")
    if not isinstance(smem_layout, (Layout, ComposedLayout)):
        smem_layout = make_layout(smem_layout)
    if tile is not None and not (isinstance(tile, tuple) and all(isinstance(x, int) and x > 0 for x in tile)):
        raise ArgumentError(f"make_tma_copy: the tile {tile!r} is no tuple of positive integers")
    if not isinstance(multicast, int) or not 1 <= multicast <= 16:
        raise ArgumentError(f"make_tma_copy: multicast to 1 to 16 blocks, not {multicast!r}")
    if multicast > 1 and atom.kind != "load":
        raise ArgumentError(f"make_tma_copy: only loads are multicast, not {atom}")
    copy = TmaCopy(atom, array, smem_layout, tile, multicast)
    copy.describe()
    return copy


@functools.lru_cache(4096)
def _tiling(op: TmaOp, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], above: int,
            layout: Layout | ComposedLayout, tile: tuple[int, ...] | None, multicast: int) -> TmaTiling:
    """The boxes of an array that begins ``above`` bytes after a multiple of 16; made once for each."""
    classes = tuple(s if s == 1 or (s == 0 and n > 1) else None for n, s in zip(shape, strides, strict=True))
    tiling = tma_tiling(op, dtype, classes, layout, tile, multicast)
    asked = f"make_tma_copy({op}) of a {dtype} array ({','.join(map(str, shape))}):({','.join(map(str, strides))})"
    _require_reachable(asked, dtype, shape, strides, tiling.map.modes[0])
    if op.kind != "load" and 0 in classes:
        raise LayoutError(f"{asked}: mode {classes.index(0)} has stride 0, and several tiles would be written to one "
                          "place", code="B5", hint="write into an array of its own, and add up")
    row = shape[tiling.map.modes[0]] * dtype.bits // 8
    if op.kind != "load" and row % _PART:
        raise LayoutError(f"{asked}: its rows have {row} bytes, and TMA writes whole parts of {_PART} bytes: what lies "
                          f"behind each row would be overwritten", code="B5",
                          hint=f"store a multiple of {_PART * 8 // dtype.bits} elements, the padding included")
    if above:
        raise LayoutError(f"{asked}: its first element lies {above} bytes behind a multiple of {_PART}, and TMA needs "
                          "it at one", code="B5", hint="pass a copy, or a slice that begins at such a place")
    return tiling


def _require_reachable(asked: str, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> None:
    """B5: what a tensor map requires of extents and strides."""
    for mode, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if not 1 <= extent < 1 << 31:
            raise LayoutError(f"{asked}: extent {extent} of mode {mode}, and TMA takes 1 to 2147483647", code="B5")
        apart = stride * dtype.bits // 8
        if mode == unit or extent == 1 or stride == 0:
            continue
        if apart % _PART or not 0 < apart < 1 << 40:
            pad = f"pad its rows to a multiple of {_PART * 8 // dtype.bits} elements"
            raise LayoutError(f"{asked}: stride {stride} of mode {mode} is {apart} bytes, and TMA takes multiples of "
                              f"{_PART} below 2^40", code="B5", hint="pass a copy" if stride < 0 else pad)
