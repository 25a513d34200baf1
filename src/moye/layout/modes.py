"""Rearranging modes: flatten, group, select, append; nothing here changes where an element lies.

In: a layout (or, for ``flatten``, an integer tuple).  Out: one with other modes.

>>> layout = Layout.parse("((2,3),4,5):((1,2),6,24)")
>>> str(flatten(layout)), str(group_modes(layout, 1, 3)), str(select(layout, 2, 0))
('(2,3,4,5):(1,2,6,24)', '((2,3),(4,5)):((1,2),(6,24))', '(5,(2,3)):(24,(1,2))')

Merging modes that continue each other is ``coalesce``, in algebra.py.
"""

from __future__ import annotations

from typing import overload

from moye.errors import LayoutError
from moye.layout import tuples
from moye.layout.algebra import make_modes
from moye.layout.layout import Layout, make_layout, shape
from moye.layout.tuples import IntTuple
from moye.layout.verb import L, WrappedLayout, verb


@overload
def flatten(x: L) -> L: ...


@overload
def flatten(x: IntTuple) -> IntTuple: ...


def flatten(x: Layout | WrappedLayout | IntTuple) -> Layout | WrappedLayout | IntTuple:
    """The same function with depth 1: nested modes laid open; an integer stays one (cute/layout.hpp)."""
    if isinstance(x, WrappedLayout):
        return x.with_layout(flatten(x.layout))
    if isinstance(x, Layout):
        return Layout(flatten(x.shape), flatten(x.stride))
    return tuples.flatten_tuple(x) if isinstance(x, tuple) else x


@verb
def unflatten(layout: Layout, profile: IntTuple) -> Layout:
    """``unflatten(flatten(l), l.shape) == l``: the modes in the structure of a profile (cute/layout.hpp)."""
    modes = list(layout)
    return Layout(tuples.unflatten_tuple([m.shape for m in modes], profile),
                  tuples.unflatten_tuple([m.stride for m in modes], profile))


@verb
def group_modes(layout: Layout, begin: int, end: int) -> Layout:
    """The modes begin..end-1 as one mode: same function of the index (cute/layout.hpp, group)."""
    modes = list(layout)
    if not 0 <= begin <= end <= len(modes):
        raise LayoutError(f"group_modes of {layout}: {begin}..{end} is no range of its {len(modes)} modes")
    return make_modes([*modes[:begin], make_modes(modes[begin:end]), *modes[end:]])


@verb
def select(layout: Layout, *modes: int) -> Layout:
    """The layout of the given modes, in the given order (cute/layout.hpp)."""
    return make_modes([layout.mode(i) for i in modes])


@verb
def take(layout: Layout, begin: int, end: int) -> Layout:
    """The layout of modes begin..end-1 (cute/layout.hpp)."""
    if not 0 <= begin <= end <= len(layout):
        raise LayoutError(f"take of {layout}: {begin}..{end} is no range of its {len(layout)} modes")
    return make_modes(list(layout)[begin:end])


@verb
def append(layout: Layout, mode: Layout | None = None, rank: int | None = None) -> Layout:
    """The layout with a mode at the end (1:0 unless given), or with as many as make its rank (cute/layout.hpp)."""
    count = _missing(layout, rank)
    extra = [Layout(1, 0) if mode is None else mode] * count
    return make_modes([*layout, *extra]) if rank is None or count else layout


@verb
def prepend(layout: Layout, mode: Layout | None = None, rank: int | None = None) -> Layout:
    """The layout with a mode in front (1:0 unless given), or with as many as make its rank (cute/layout.hpp)."""
    count = _missing(layout, rank)
    extra = [Layout(1, 0) if mode is None else mode] * count
    return make_modes([*extra, *layout]) if rank is None or count else layout


def _missing(layout: Layout, rank: int | None) -> int:
    if rank is None:
        return 1
    if rank < len(layout):
        raise LayoutError(f"{layout} has rank {len(layout)} already: it cannot be padded to {rank}")
    return rank - len(layout)


def zip_modes(a: Layout, b: Layout) -> Layout:
    """((a0, b0), (a1, b1), ...): the modes of two layouts of one rank in pairs (cute/layout.hpp, zip)."""
    if len(a) != len(b):
        raise LayoutError(f"zip_modes of {a} and {b}: ranks {len(a)} and {len(b)} differ")
    return make_modes([make_layout(x, y) for x, y in zip(a, b, strict=True)])


def congruent(a: object, b: object) -> bool:
    """Whether two shapes, layouts or tensors have the same profile (cute/int_tuple.hpp)."""
    return tuples.congruent_tuples(shape(a), shape(b))


def weakly_congruent(a: object, b: object) -> bool:
    """Whether the profile of b refines that of a (cute/int_tuple.hpp)."""
    return tuples.weakly_congruent_tuples(shape(a), shape(b))


def compatible(a: object, b: object) -> bool:
    """Whether every coordinate of a is one of b: b refines a, and sizes agree mode by mode (cute/int_tuple.hpp)."""
    return tuples.compatible_tuples(shape(a), shape(b))
