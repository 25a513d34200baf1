"""Coordinate tensors: element (i, j) of an identity tensor is (i, j), and this holds through every partition.

In: a shape, or a layout with basis strides.  Out: ``CoordTensor``, which takes the same tiles, partitions, slices and
layout functions as the tensor that it shadows.

    cA = mo.identity_tensor(mo.shape(A)); tAcA = thr_copy.partition_S(mo.tile(cA, (bM, bK), (bx, None), ragged=True))
    row, k = tAcA[0, i, j, k_tile]        # the coordinates in A of that element of the thread

It occupies no memory.  Source: CuTe cute/tensor_impl.hpp, make_identity_tensor, make_coord_tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye.errors import LayoutError, TensorError
from moye.layout import (
    ArithmeticTuple,
    E,
    Int,
    IntTuple,
    Layout,
    WrappedLayout,
    as_arithmetic_tuple,
    compact_col_major,
    coprofile,
    crd2idx,
    rank,
    slice_and_offset,
)
from moye.tensor.context import locate
from moye.tensor.slices import cut, is_slice, normalise
from moye.tensor.tensor import Tensor
from moye.tensor.value_order import Order, Partition


class CoordTensor(WrappedLayout):
    """Coordinates as a function of a coordinate: ``offset + layout(coordinate)``, with basis strides.

    ``ragged`` means that its tiles may always reach past its extents, because TMA checks bounds itself.
    """

    __slots__ = ("layout", "name", "offset", "ragged")

    def __init__(self, layout: Layout, offset: ArithmeticTuple, name: str = "", ragged: bool = False) -> None:
        self.layout = layout
        self.offset = offset
        self.name = name
        self.ragged = ragged

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def label(self) -> str:
        return self.name or "the identity tensor"

    def with_layout(self, layout: Layout) -> CoordTensor:
        """The same origin with another layout."""
        return CoordTensor(layout, self.offset, self.name, self.ragged)

    def moved(self, offset: Any) -> CoordTensor:
        """The same layout from an origin ``offset`` further on."""
        return CoordTensor(self.layout, self.offset + offset, self.name, self.ragged)

    def contiguous_run(self) -> int:
        return 0

    def each(self, fn: Callable[[Layout], tuple[Layout, Int]]) -> CoordTensor:
        """Apply a view, (layout) -> (layout, offset)."""
        layout, offset = fn(self.layout)
        return CoordTensor(layout, self.offset + offset, self.name, self.ragged)

    def __getitem__(self, coordinate: Any) -> Any:
        """A view if the coordinate has open modes, else the tuple of coordinates."""
        step, coordinate = cut(coordinate, self.layout, self.label)
        if step is not None:
            return self.each(step)[coordinate]
        coordinate = normalise(coordinate, rank(self.layout))
        if is_slice(coordinate):
            return self.each(lambda layout: slice_and_offset(coordinate, layout))
        return _plain(self.offset + crd2idx(coordinate, self.layout))

    def __iter__(self) -> None:
        raise TensorError(f"{self.label} cannot be iterated over; loop over coordinates", locs=(locate(),))

    def __setitem__(self, coordinate: Any, value: Any) -> None:
        raise TensorError(f"{self.label} holds coordinates and cannot be written", locs=(locate(),))

    def __repr__(self) -> str:
        return f"{self.label}: coordinates {self.shape}"


def _plain(coordinate: Any) -> Any:
    return tuple(map(_plain, coordinate)) if isinstance(coordinate, tuple) else coordinate


def apply_view(x: Tensor | CoordTensor, fn: Callable[[Layout], tuple[Layout, Int]],
               partition: Partition | None = None, read_only: bool = False) -> Any:
    """A view of a tensor or of coordinates; ``fn`` maps a layout to (layout, offset to add).

    ``partition`` says in which order the values are, and ``read_only`` that registers are not written through the view.
    """
    if isinstance(x, CoordTensor):
        return x.each(fn)
    part = x.derived(fn, order=None if partition is None else Order(partition))
    if not read_only:
        x.unordered()
    return part


def make_coord_tensor(layout: Layout) -> CoordTensor:
    """The tensor of the coordinates that a layout with basis strides maps to (cute/tensor_impl.hpp)."""
    zero: Any = coprofile(layout)
    if not isinstance(zero, tuple):
        raise LayoutError(f"make_coord_tensor of {layout}: its strides are numbers, so it maps to no coordinates",
                          hint="mo.make_identity_layout(shape) maps to coordinates")
    return CoordTensor(layout, as_arithmetic_tuple(zero))


def identity_tensor(shape: IntTuple) -> CoordTensor:
    """The coordinate tensor of a shape: element (i, j, ...) is the tuple (i, j, ...).

    There is one coordinate per top-level mode; a nested mode counts its linear index.  A mode of extent 1 counts, too:
    a ragged tile of it has the coordinates 0, 1, 2, ...
    """
    modes = shape if isinstance(shape, tuple) else (shape,)
    strides = tuple([compact_col_major(mode, E(axis)) if isinstance(mode, tuple) else E(axis)
                     for axis, mode in enumerate(modes)])
    return CoordTensor(Layout(modes, strides), ArithmeticTuple((0,) * len(modes)))
