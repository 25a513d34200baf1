"""Layouts: functions from coordinates to offsets, given by a shape and a congruent stride.

In: integer tuples, or notation.  Out: ``Layout``, its size, the offset of a coordinate, and its slices.

>>> layout = make_layout((4, 8), (8, 1))
>>> layout(1, 2), size(layout), str(layout[:, 2]), str(Layout.parse("(4,8):(8,1)").mode(0))
(10, 32, '(4):(8)', '4:8')

Coordinates are not checked against the shape: an integer past the end continues the last mode, as in CuTe.
Combining layouts is in algebra.py, divide.py and product.py.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar, overload

from moye.display import Drawable
from moye.errors import LayoutError
from moye.layout import tuples
from moye.layout.basis import ArithmeticTuple, ScaledBasis, as_arithmetic_tuple, has_basis
from moye.layout.ints import DynInt, Int, add, is_const, mul, prod
from moye.layout.notation import read_layout
from moye.layout.tuples import Coord, IntTuple, Major, Modes, text


class Layout(Drawable):
    """An immutable function from coordinates of ``shape`` to offsets, linear in the natural coordinate."""

    __slots__ = ("shape", "stride")

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: IntTuple, stride: IntTuple) -> None:
        extent, step = tuples.as_int_tuple(shape, "the shape of a layout"), tuples.as_int_tuple(stride, "its stride")
        if not tuples.congruent_tuples(extent, step):
            raise LayoutError(f"shape {text(extent)} and stride {text(step)} of a layout have different structures")
        for leaf in tuples.flatten_tuple(extent):
            if isinstance(leaf, int) and leaf < 0:
                raise LayoutError(f"shape {text(extent)} of a layout has a negative extent")
            if isinstance(leaf, ScaledBasis):
                raise LayoutError(f"shape {text(extent)} of a layout has the extent {leaf}, which is a coordinate")
        object.__setattr__(self, "shape", extent)
        object.__setattr__(self, "stride", step)

    @staticmethod
    def of(shape: IntTuple, stride: IntTuple) -> Layout:
        """The layout of a shape and a stride that were parts of layouts before, so they are not checked again."""
        new = object.__new__(Layout)
        object.__setattr__(new, "shape", shape)
        object.__setattr__(new, "stride", stride)
        return new

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"layouts are immutable: cannot set {name!r} of {self}")

    def __reduce__(self) -> tuple[type[Layout], tuple[IntTuple, IntTuple]]:
        return Layout, (self.shape, self.stride)

    @staticmethod
    def parse(source: str) -> Layout:
        """Read a layout: ``Layout.parse(str(layout)) == layout``; a shape alone is column-major."""
        return make_layout(*read_layout(source))

    def __call__(self, *crd: Coord) -> Int:
        """The offset of a coordinate: an index, a coordinate tuple, or one argument per mode.  Under basis strides it
        is a coordinate, an ``ArithmeticTuple``.
        """
        whole = crd[0] if len(crd) == 1 else crd
        try:
            offset = tuples.crd_to_offset(whole, self.shape, self.stride)
        except (AttributeError, TypeError):
            offset = tuples.crd_to_offset(_integers(whole, whole), self.shape, self.stride)
        if isinstance(offset, float):
            _integers(whole, whole)
        if offset == 0 if isinstance(offset, int) else isinstance(offset, (ScaledBasis, ArithmeticTuple)):
            return as_coordinate(offset, self.stride)  # type: ignore[no-any-return]
        return offset

    def __getitem__(self, crd: Coord) -> Layout:
        """The sublayout of the open modes (``:`` or ``None``) of a coordinate; its offset is dropped."""
        return self.slice_and_offset(crd)[0]

    def slice_and_offset(self, crd: Coord) -> tuple[Layout, Int]:
        """The sublayout of the open modes and the offset of the others."""
        crd = _expand_ellipsis(crd, len(self))
        if not tuples.has_slice(crd):
            raise LayoutError(f"coordinate {crd!r} leaves no mode of {self} open, so it selects no sublayout",
                              hint="layout(coordinate) is its offset, layout.mode(i) its mode")
        if not isinstance(crd, tuple):
            _check_open(crd)
            return self, 0
        kept, offset = _slice(crd, self.shape, self.stride)
        return Layout.of(tuple([s for s, _ in kept]), tuple([d for _, d in kept])), offset

    def mode(self, *path: int) -> Layout:
        """The layout of one mode; more indices go deeper."""
        if not tuples.has_mode(self.shape, path):
            raise LayoutError(f"mode {', '.join(map(str, path))} of {self} does not exist: it has {len(self)}")
        return Layout.of(_at(self.shape, path), _at(self.stride, path))

    def __len__(self) -> int:
        return tuples.tuple_rank(self.shape)

    def __iter__(self) -> Iterator[Layout]:
        return (self.mode(i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether shape and stride are provably the same, with the same structure."""
        if not isinstance(other, Layout):
            return NotImplemented
        return tuples.same_tuple(self.shape, other.shape) and tuples.same_tuple(self.stride, other.stride)

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    __repr__ = __str__


def as_coordinate(offset: Any, stride: IntTuple) -> Any:
    """An offset under basis strides, as a coordinate with every position that the strides know; others as they are."""
    if not has_basis(stride):
        return offset
    positions = ArithmeticTuple(())
    for step in tuples.flatten_tuple(stride):
        if isinstance(step, ScaledBasis):
            positions = positions + ScaledBasis(0, step.path)
    return positions if is_const(offset, 0) else positions + as_arithmetic_tuple(offset)


def _check_open(crd: Coord) -> None:
    if isinstance(crd, slice) and not (crd.start is None and crd.stop is None and crd.step is None):
        raise LayoutError(f"{crd} is not a coordinate of a layout: only the full slice ':' is",
                          hint="divide the layout and take a tile of it")


def _expand_ellipsis(crd: Coord, rank: int) -> Coord:
    items: tuple[object, ...] = crd if isinstance(crd, tuple) else (crd,)
    where = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(where) != 1:
        return crd
    fill = (None,) * (rank - len(items) + 1)
    return items[: where[0]] + fill + items[where[0] + 1:]  # type: ignore[return-value]


def _slice(crd: Coord, shape: IntTuple, stride: IntTuple) -> tuple[list[tuple[IntTuple, IntTuple]], Int]:
    """The open modes, in one list whatever their nesting is (as in CuTe), and the offset of the others."""
    if not isinstance(crd, tuple):
        if crd is None or isinstance(crd, slice):
            _check_open(crd)
            return [(shape, stride)], 0
        return [], tuples.crd_to_offset(crd, shape, stride)
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        if len(crd) != 1:
            raise LayoutError(f"coordinate {crd!r} has {len(crd)} modes, but the extent {text(shape)} is an integer")
        return _slice(crd[0], shape, stride)
    if len(crd) != len(shape):
        raise LayoutError(f"coordinate {crd!r} has {len(crd)} modes, but {text(shape)}:{text(stride)} has {len(shape)}")
    kept: list[tuple[IntTuple, IntTuple]] = []
    offset: Int = 0
    for c, s, d in zip(crd, shape, stride, strict=True):
        open_modes, step = _slice(c, s, d)
        kept += open_modes
        offset = add(offset, step)
    return kept, offset


def _at(x: IntTuple, path: Sequence[int]) -> IntTuple:
    for i in path:
        modes = x if isinstance(x, tuple) else (x,)
        if not -len(modes) <= i < len(modes):
            raise LayoutError(f"mode {i} of {text(x)} does not exist: it has {len(modes)}")
        x = modes[i]
    return x


@overload
def make_layout(shape: IntTuple, stride: IntTuple | Major | None = None, /) -> Layout: ...


@overload
def make_layout(layout: Layout, /, *layouts: Layout) -> Layout: ...


def make_layout(*args: Layout | IntTuple | Major | None) -> Layout:
    """A layout from a shape and strides, or ``LayoutLeft`` (the default) or ``LayoutRight``; or from layouts as modes.

    Law: ``make_layout(s)(i) == i`` for every index, and ``make_layout(A, B)(i, j) == A(i) + B(j)`` (cute/layout.hpp).
    """
    if not args:
        raise LayoutError("make_layout takes a shape, a shape and a stride, or layouts")
    layouts = [arg for arg in args if isinstance(arg, Layout)]
    if layouts:
        if len(layouts) != len(args):
            raise LayoutError(f"make_layout takes layouts, or a shape and a stride, not a mixture: {args!r}")
        return Layout.of(tuple([x.shape for x in layouts]), tuple([x.stride for x in layouts]))
    if len(args) > 2:
        raise LayoutError(f"make_layout takes a shape and a stride, but got {len(args)} arguments",
                          hint="put the extents into one tuple: make_layout((32, 8))")
    shape = tuples.as_int_tuple(args[0], "the shape of a layout")
    stride = args[1] if len(args) == 2 else None
    if stride is None or isinstance(stride, Major):
        right = stride is tuples.LayoutRight
        return Layout(shape, tuples.compact_row_major(shape) if right else tuples.compact_col_major(shape))
    return Layout(shape, stride)  # type: ignore[arg-type]


def from_modes(modes: Modes) -> Layout:
    """The layout of flat modes: an integer layout for a single mode, and ``1:0`` for no mode."""
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout.of(*modes[0])
    return Layout.of(tuple([s for s, _ in modes]), tuple([d for _, d in modes]))


def _form(x: object, attribute: str) -> IntTuple:
    """The shape or stride of a layout or of an object that has one; for shapes also an integer tuple itself."""
    if isinstance(x, Layout):
        return x.shape if attribute == "shape" else x.stride
    inner = getattr(x, "layout", None)
    if hasattr(inner, attribute):
        return _form(inner, attribute)
    if attribute == "stride":
        raise LayoutError(f"{x!r} has no stride: a layout or a tensor has one")
    found = getattr(x, "shape", x)
    if not isinstance(found, (tuple, list, DynInt)) and not hasattr(found, "__index__"):
        raise LayoutError(f"{x!r} has no shape: a layout, a tensor, a tiled copy, a tiled MMA and integers have one")
    return tuples.as_int_tuple(found, "a shape")


def _path(mode: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if mode is None else mode if isinstance(mode, tuple) else (mode,)


def shape(x: object, mode: int | tuple[int, ...] | None = None) -> IntTuple:
    """The shape of a layout, tensor or shape, or of one mode of it (cute/layout.hpp).

    Law: ``shape(make_layout(s, d)) == s``, and ``shape(l, i) == shape(l.mode(i))``.
    """
    return _at(_form(x, "shape"), _path(mode))


def stride(x: object, mode: int | tuple[int, ...] | None = None) -> IntTuple:
    """The stride of a layout or tensor, or of one mode of it (cute/layout.hpp).

    Law: ``stride(make_layout(s, d)) == d``, and ``stride(l, i) == stride(l.mode(i))``.
    """
    return _at(_form(x, "stride"), _path(mode))


def size(x: object, mode: int | tuple[int, ...] | None = None) -> Int:
    """The number of coordinates (cute/layout.hpp).

    Law: ``size(l)`` is the product of the extents.
    """
    return tuples.product(shape(x, mode))


def rank(x: object, mode: int | tuple[int, ...] | None = None) -> int:
    """The number of modes (cute/layout.hpp).

    Law: ``rank(make_layout(A, B, C)) == 3``; an integer shape has one mode.
    """
    return tuples.tuple_rank(shape(x, mode))


def depth(x: object, mode: int | tuple[int, ...] | None = None) -> int:
    """The nesting of the shape: 0 for an integer, 1 for a flat tuple (cute/layout.hpp).

    Law: ``depth(make_layout(A, B)) == 1 + max(depth(A), depth(B))``.
    """
    return tuples.tuple_depth(shape(x, mode))


def coshape(x: object, mode: int | tuple[int, ...] | None = None) -> IntTuple:
    """The smallest shape that all offsets lie in: an integer, or a tuple under basis strides (cute/layout.hpp).

    Law: ``elem_less(l(c), coshape(l))`` for every coordinate c, for no smaller one, and ``size(coshape(l)) ==
    cosize(l)``; 0 for a layout without elements.
    """
    extents, steps = shape(x, mode), stride(x, mode)
    total: Any = 0
    for extent, step in tuples.zip_leaves(extents, steps):
        if is_const(extent, 0):
            return 0
        if not is_const(extent, 1):
            distance: Any = abs(step) if isinstance(step, (int, ScaledBasis)) else step
            # The last offset; strides count as positive, so that a reversed layout needs as much memory.
            total = add(total, mul(add(extent, -1), distance))
    reach: IntTuple = as_coordinate(total, steps)
    return tuples.map_leaves(lambda last: add(last, 1), reach)


def coprofile(x: object, mode: int | tuple[int, ...] | None = None) -> IntTuple:
    """A zero of the structure of the offsets: 0, or a tuple of zeros under basis strides (cute/layout.hpp).

    Law: ``congruent(coprofile(l), l(i))`` for every index i.
    """
    zero: IntTuple = as_coordinate(0, stride(x, mode))
    return zero


def cosize(x: object, mode: int | tuple[int, ...] | None = None) -> Int:
    """One more than the largest offset, with all strides taken as positive (cute/layout.hpp).

    Law: ``cosize(l) == max(l(i)) + 1`` for strides >= 0; for swizzled layouts it bounds every offset.
    """
    bound = getattr(x, "cosize_bound", None)
    if bound is not None and mode is None:
        return bound()  # type: ignore[no-any-return]
    return prod(tuples.flatten_tuple(coshape(x, mode)))


def need_numbers(layout: Layout, what: str) -> None:
    """Refuse basis strides if a function needs offsets that are numbers."""
    if has_basis(layout.stride):
        raise LayoutError(f"{what} of {layout} needs offsets that are numbers, but its strides are coordinates")


class Sliceable(Protocol):
    """A layout, plain or wrapped."""

    def slice_and_offset(self, crd: Coord) -> tuple[Self, Int]: ...


S = TypeVar("S", bound=Sliceable)


def slice_and_offset(crd: Coord, layout: S) -> tuple[S, Int]:
    """The sublayout of the open modes of a coordinate, and the offset of the others (cute/layout.hpp).

    Law: for ``sub, offset = slice_and_offset(crd, l)``, ``l(crd filled with c) == sub(c) + offset``.
    """
    return layout.slice_and_offset(crd)


def _integers(crd: Any, whole: Any) -> Any:
    """A coordinate with NumPy's integers turned into Python's; LayoutError if it has anything else."""
    if isinstance(crd, (tuple, list)):
        return tuple(_integers(item, whole) for item in crd)
    if hasattr(crd, "divisor"):                             # a traced integer
        return crd
    try:
        return operator.index(crd)
    except TypeError:
        raise LayoutError(f"a coordinate is made of integers, not {whole!r}") from None
