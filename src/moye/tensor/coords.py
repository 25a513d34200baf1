"""Coordinate tensors: element (i, j) of an identity tensor is (i, j), and stays so through every partition.

In: a shape.  Out: ``CoordTensor``, which takes the same tiles, partitions and slices as the tensor that it shadows.

>>> cA = mo.identity_tensor(mo.shape(A)); tAcA = thr_copy.partition_S(mo.tile(cA, (bM, bK), (bx, None), ragged=True))
>>> row, k = tAcA[0, i, j, k_tile]        # the coordinates in A of that element of the thread

It occupies no memory: one integer layout per coordinate.  Source: CuTe cute/tensor.hpp, make_identity_tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moye.errors import TensorError
from moye.layout import Int, IntTuple, Layout, crd2idx, make_layout, rank, slice_and_offset
from moye.tensor.context import locate
from moye.tensor.tensor import Tensor, is_slice, normalise


class CoordTensor:
    """Coordinates as a function of a coordinate: one (offset, layout) pair per axis, all of one shape."""

    __slots__ = ("layouts", "name", "offsets")

    def __init__(self, layouts: tuple[Layout, ...], offsets: tuple[Int, ...], name: str = "") -> None:
        self.layouts = layouts
        self.offsets = offsets
        self.name = name

    @property
    def layout(self) -> Layout:
        """A layout of the right shape (its strides are those of the first coordinate)."""
        return self.layouts[0]

    @property
    def shape(self) -> IntTuple:
        return self.layouts[0].shape

    @property
    def label(self) -> str:
        return self.name or "the identity tensor"

    def each(self, fn: Callable[[Layout], tuple[Layout, Int]]) -> CoordTensor:
        """Apply a view, (layout) -> (layout, offset), to every coordinate."""
        moved = [fn(layout) for layout in self.layouts]
        return CoordTensor(tuple(layout for layout, _ in moved),
                           tuple(base + more for base, (_, more) in zip(self.offsets, moved, strict=True)), self.name)

    def __getitem__(self, coordinate: Any) -> Any:
        """A view where the coordinate has open modes, else the tuple of coordinates."""
        coordinate = normalise(coordinate, rank(self.layout))
        if is_slice(coordinate):
            return self.each(lambda layout: slice_and_offset(coordinate, layout))
        return tuple(base + crd2idx(coordinate, layout)
                     for base, layout in zip(self.offsets, self.layouts, strict=True))

    def __setitem__(self, coordinate: Any, value: Any) -> None:
        raise TensorError(f"{self.label} holds coordinates and cannot be written", locs=(locate(),))

    def __repr__(self) -> str:
        return f"{self.label}: coordinates {self.shape}"


def apply_view(x: Tensor | CoordTensor, fn: Callable[[Layout], tuple[Layout, Int]]) -> Any:
    """A view of a tensor or of coordinates: ``fn`` maps a layout to (layout, offset to add)."""
    if isinstance(x, CoordTensor):
        return x.each(fn)
    layout, offset = fn(x.layout)
    return Tensor(x.buffer, x.offset + offset, layout, x.dtype, x.swizzle, x.name)


def identity_tensor(shape: IntTuple) -> CoordTensor:
    """The coordinate tensor of a shape: element (i, j, ...) is the tuple (i, j, ...).

    One coordinate per top-level mode; a nested mode counts its linear index.
    """
    modes = shape if isinstance(shape, tuple) else (shape,)
    layouts = []
    for axis in range(len(modes)):
        parts = [make_layout(mode) if i == axis else _still(mode) for i, mode in enumerate(modes)]
        layouts.append(make_layout(*parts))
    return CoordTensor(tuple(layouts), (0,) * len(modes))


def _still(mode: IntTuple) -> Layout:
    """A mode along which the coordinate does not move."""
    return Layout(mode, _zeros(mode))


def _zeros(shape: IntTuple) -> IntTuple:
    return tuple(_zeros(s) for s in shape) if isinstance(shape, tuple) else 0
