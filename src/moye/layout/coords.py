"""Coordinates: converted to indices and back, moved to another shape, sliced and diced by open modes.

In: coordinates (integers and tuples; ``None`` is an open mode) and shapes or layouts.  Out: indices, coordinates, and
the open or closed part of a tuple or layout.

>>> idx2crd((4, 8), 7), crd2idx((3, 1), (4, 8)), slice_((None, 2), (4, 8)), dice((None, 2), (4, 8))
((3, 1), 7, (4,), (8,))

Source: cute/stride.hpp, cute/underscore.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, overload

from moye.errors import FactError, LayoutError
from moye.layout import tuples
from moye.layout.ints import DynInt, Int, add, floor_div, known_less, mod, mul
from moye.layout.layout import Layout, as_coordinate, make_layout
from moye.layout.tuples import Coord, IntTuple, flatten_tuple, has_slice, text, unflatten_tuple
from moye.layout.wrapped import L, WrappedLayout


class OffsetMap(Protocol):
    """A layout, plain or swizzled."""

    def __call__(self, *crd: Coord) -> Int: ...


def crd2idx(crd: Coord, layout: OffsetMap | IntTuple, stride: IntTuple | None = None) -> Int:
    """The offset of a coordinate in a layout, or its column-major index in a shape (cute/stride.hpp).

    Law: ``crd2idx(idx2crd(s, i), s) == i``; with a stride, ``crd2idx(c, s, d) == inner_product(c, d)`` for natural c.
    """
    if callable(layout):
        return layout(crd)
    if stride is not None:
        return make_layout(layout, stride)(crd)
    steps: list[Int] = [1]  # modes of extent 1 included: no stride is rounded to 0
    for leaf in flatten_tuple(layout):
        steps.append(mul(steps[-1], leaf))
    return tuples.crd_to_offset(crd, layout, unflatten_tuple(steps[:-1], layout))


def idx2crd(shape: IntTuple, idx: IntTuple, stride: IntTuple | None = None) -> IntTuple:
    """The natural coordinate of an index in a shape, or of an offset in a compact layout (cute/stride.hpp).

    Law: ``crd2idx(idx2crd(s, i), s) == i``; with a stride, ``crd2idx(idx2crd(s, o, d), s, d) == o`` for each offset o
    of a layout s:d whose modes nest.
    """
    if isinstance(idx, tuple):
        if not isinstance(shape, tuple) or len(shape) != len(idx):
            raise LayoutError(f"idx2crd: index {text(idx)} has other modes than shape {text(shape)}")
        strides = (None,) * len(shape) if stride is None else stride
        if not isinstance(strides, tuple) or len(strides) != len(idx):
            raise LayoutError(f"idx2crd: stride {strides} has other modes than shape {text(shape)}")
        return tuple([idx2crd(s, i, d) for i, s, d in zip(idx, shape, strides, strict=True)])
    if stride is not None:
        return _divided(idx, shape, stride)
    if not isinstance(shape, tuple):
        return idx
    leaves: list[Int] = []
    for extent in flatten_tuple(shape):
        leaves.append(mod(idx, extent))
        idx = floor_div(idx, extent)
    return unflatten_tuple(leaves, shape)


def _divided(offset: Int, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Each leaf as offset // stride % extent; 0 where the stride is 0."""
    if isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) == len(stride):
        return tuple([_divided(offset, s, d) for s, d in zip(shape, stride, strict=True)])
    if isinstance(shape, tuple) or isinstance(stride, tuple):
        raise LayoutError(f"idx2crd: shape {text(shape)} and stride {text(stride)} have different structures")
    return 0 if isinstance(stride, int) and stride == 0 else mod(floor_div(offset, stride), shape)


def crd2crd(crd: Coord, dst_shape: IntTuple, src_shape: IntTuple | None = None) -> IntTuple:
    """The coordinate of the same index in another shape (cute/stride.hpp).

    Law: ``crd2idx(crd2crd(c, t, s), t) == crd2idx(c, s)`` for shapes s and t of one size.
    """
    if src_shape is not None:
        return idx2crd(dst_shape, crd2idx(crd, src_shape))
    if isinstance(crd, tuple):
        if not isinstance(dst_shape, tuple) or len(crd) != len(dst_shape):
            raise LayoutError(f"crd2crd of {crd!r} to shape {text(dst_shape)}: without the shape that it comes from, "
                              "both must have the same modes")
        return tuple(map(crd2crd, crd, dst_shape))
    if not isinstance(crd, (int, DynInt)):
        raise LayoutError(f"crd2crd of {crd!r}: an open mode has no index")
    return idx2crd(dst_shape, crd)


def increment(crd: IntTuple, shape: IntTuple) -> IntTuple:
    """The next coordinate of a shape, leftmost leaf fastest; the first follows the last (cute/stride.hpp).

    Law: ``crd2idx(increment(c, s), s) == (crd2idx(c, s) + 1) % size(s)``.
    """
    if not tuples.congruent_tuples(crd, shape):
        raise LayoutError(f"increment of {text(crd)} in shape {text(shape)}: they have different structures")
    leaves = list(flatten_tuple(crd))
    for i, extent in enumerate(flatten_tuple(shape)):
        more = add(leaves[i], 1)
        inside = known_less(more, extent)
        if inside is None:
            raise FactError(f"increment of {text(crd)} in shape {text(shape)} needs a bound that tells whether "
                            f"{more} < {extent}")
        if inside:
            leaves[i] = more
            break
        leaves[i] = 0
    return unflatten_tuple(leaves, crd)


def make_coord_iterator(shape: IntTuple) -> Iterator[IntTuple]:
    """Every coordinate of a static shape, leftmost leaf fastest (cute/stride.hpp).

    Law: the i-th is ``idx2crd(shape, i)``.
    """
    count = tuples.product(shape)
    if not isinstance(count, int):
        raise FactError(f"make_coord_iterator needs the static size of {text(shape)}, not {count}")
    return (idx2crd(shape, i) for i in range(count))


@overload
def slice_(crd: Coord, x: L) -> L: ...


@overload
def slice_(crd: Coord, x: IntTuple) -> IntTuple: ...


def slice_(crd: Coord, x: Any) -> Any:
    """The open part of a layout or tuple: the parts where the coordinate is ``None`` (cute/underscore.hpp).

    Law: ``slice_(c, l) == l[c]``, and ``rank(slice_(c, x)) + rank(dice(c, x)) == rank(x)`` for flat coordinates.
    """
    if isinstance(x, (Layout, WrappedLayout)):
        whole: Any = x
        return whole[crd] if has_slice(crd) else _marked(crd, x, False)
    found = tuple(_parts(crd, x, True))
    return x if not isinstance(crd, tuple) and found else found


@overload
def dice(crd: Coord, x: L) -> L: ...


@overload
def dice(crd: Coord, x: IntTuple) -> IntTuple: ...


def dice(crd: Coord, x: Any) -> Any:
    """The closed part of a layout or tuple: the parts where the coordinate is a number (cute/underscore.hpp).

    Law: ``dice(c, l)(dice(c, c)) + slice_(c, l)(d) == l(c filled with d)``.
    """
    if isinstance(x, (Layout, WrappedLayout)):
        return _marked(crd, x, True)
    found = tuple(_parts(crd, x, False))
    return x if not isinstance(crd, tuple) and found else found


def _marked(crd: Coord, x: Any, closed: bool) -> Any:
    if isinstance(x, WrappedLayout):
        return x.applied(lambda layout: _marked(crd, layout, closed))
    if isinstance(crd, tuple):
        parts = [tuple(_parts(crd, form, not closed)) for form in (x.shape, x.stride)]
        return Layout.of(*parts)
    return x if closed == (not has_slice(crd)) else Layout.of((), ())


def _parts(crd: Any, x: Any, is_open: bool) -> Iterator[Any]:
    """The items of x that stand beside an open (or a closed) entry of a coordinate."""
    if not isinstance(crd, tuple):
        if has_slice(crd) == is_open:
            yield x
        return
    if not isinstance(x, tuple):
        x = (x,)
    if len(crd) != len(x):
        raise LayoutError(f"coordinate {crd!r} has {len(crd)} modes, but {text(x)} has {len(x)}")
    for c, item in zip(crd, x, strict=True):
        yield from _parts(c, item, is_open)


def has_none(crd: Coord) -> bool:
    """Whether a coordinate leaves a mode open (pycute/int_tuple; has_underscore of CuTe).

    Law: ``has_none(c)`` means that ``layout[c]`` is a sublayout, not an offset.
    """
    return has_slice(crd)


def domain_offset(crd: Coord, layout: Any) -> Any:
    """The layout from another origin, and the distance to it; for a tensor, the moved tensor (cute/layout.hpp).

    Law: for ``moved, offset = domain_offset(c, l)``, ``moved(i) + offset == l(c + i)`` for coordinates within a mode.
    """
    if isinstance(layout, WrappedLayout):
        return layout.shifted(crd)
    if not isinstance(layout, Layout):
        raise LayoutError(f"domain_offset takes a layout, not {layout!r}")
    return layout, as_coordinate(layout(crd), layout.stride)
