"""Rearranging modes: flatten, group, select, append.  Nothing here changes where an element lies.

In: a layout or an integer tuple.  Out: one with other modes.

>>> layout = Layout.parse("((2,3),4,5):((1,2),6,24)")
>>> str(flatten(layout)), str(group_modes(layout, 1, 3)), str(select(layout, 2, 0))
('(2,3,4,5):(1,2,6,24)', '((2,3),(4,5)):((1,2),(6,24))', '(5,(2,3)):(24,(1,2))')

Merging modes that continue each other is ``coalesce``, in algebra.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from moye.errors import LayoutError
from moye.layout import tuples
from moye.layout.algebra import make_modes
from moye.layout.layout import Layout, make_layout, shape
from moye.layout.tuples import IntTuple
from moye.layout.wrapped import L, WrappedLayout, verb

MOST_MODES = 1 << 16


@overload
def flatten(x: L) -> L: ...


@overload
def flatten(x: IntTuple) -> IntTuple: ...


def flatten(x: Layout | WrappedLayout | IntTuple) -> Layout | WrappedLayout | IntTuple:
    """A layout without nested modes; an integer stays an integer (cute/layout.hpp).

    Law: ``flatten(l)(i) == l(i)`` for every index i, and ``depth(flatten(l)) <= 1``.
    """
    if isinstance(x, WrappedLayout):
        return x.applied(flatten)
    if isinstance(x, Layout):
        return Layout(flatten(x.shape), flatten(x.stride))
    return tuples.flatten_tuple(x) if isinstance(x, tuple) else x


@overload
def unflatten(x: L, profile: IntTuple) -> L: ...


@overload
def unflatten(x: IntTuple, profile: IntTuple) -> IntTuple: ...


def unflatten(x: Layout | WrappedLayout | IntTuple, profile: IntTuple) -> Layout | WrappedLayout | IntTuple:
    """The modes of a layout or a tuple in the structure of a profile (cute/layout.hpp, cute/int_tuple.hpp).

    Law: ``unflatten(flatten(l), l.shape) == l``, and ``unflatten(flatten(t), t) == t`` for a tuple t.
    """
    if isinstance(x, WrappedLayout):
        return x.applied(lambda layout: unflatten(layout, profile))
    if isinstance(x, Layout):
        return Layout(tuples.unflatten_tuple([m.shape for m in x], profile),
                      tuples.unflatten_tuple([m.stride for m in x], profile))
    return tuples.unflatten_tuple(_items(x), profile)


@verb
def group_modes(layout: Layout, begin: int, end: int) -> Layout:
    """The modes begin..end-1 as one mode (cute/layout.hpp, group; cute/tensor_impl.hpp).

    Law: ``group_modes(l, b, e)(i) == l(i)`` for every index i, and its mode b is ``take(l, b, e)``.
    """
    modes = list(layout)
    if not 0 <= begin <= end <= len(modes):
        raise LayoutError(f"group_modes of {layout}: {begin}..{end} is no range of its {len(modes)} modes")
    return make_modes([*modes[:begin], make_modes(modes[begin:end]), *modes[end:]])


@verb
def select(layout: Layout, *modes: int) -> Layout:
    """The layout of the given modes, in the given order (cute/layout.hpp).

    Law: ``select(l, i, j).mode(0) == l.mode(i)``, and so on.
    """
    for i in modes:
        if not 0 <= i < len(layout):
            raise LayoutError(f"select of {layout}: mode {i} does not exist, it has {len(layout)}")
    return make_modes([layout.mode(i) for i in modes])


@verb
def take(layout: Layout, begin: int, end: int) -> Layout:
    """The layout of modes begin..end-1 (cute/layout.hpp).

    Law: ``take(l, b, e) == select(l, b, b + 1, ..., e - 1)``.
    """
    if not 0 <= begin <= end <= len(layout):
        raise LayoutError(f"take of {layout}: {begin}..{end} is no range of its {len(layout)} modes")
    return make_modes(list(layout)[begin:end])


@overload
def append(x: L, mode: Layout | None = None, rank: int | None = None) -> L: ...


@overload
def append(x: IntTuple, mode: IntTuple, rank: int | None = None) -> IntTuple: ...


def append(x: Layout | WrappedLayout | IntTuple, mode: Layout | IntTuple | None = None,
           rank: int | None = None) -> Layout | WrappedLayout | IntTuple:
    """A layout or tuple with a mode at the end (1:0 for layouts unless given), or enough for a rank (cute/layout.hpp).

    Law: ``append(l, m)(c, j) == l(c) + m(j)``, and ``append(l, rank=n)(i) == l(i)``; ``append(t, x) == (*t, x)``.
    """
    if isinstance(x, WrappedLayout):
        return x.applied(lambda layout: append(layout, _mode("append", x, mode), rank))
    extra = _extra("append", x, mode, rank)
    if rank is not None and not extra:
        return x
    if isinstance(x, Layout):
        return make_modes([*x, *extra])
    return (*_items(x), *extra)


@overload
def prepend(x: L, mode: Layout | None = None, rank: int | None = None) -> L: ...


@overload
def prepend(x: IntTuple, mode: IntTuple, rank: int | None = None) -> IntTuple: ...


def prepend(x: Layout | WrappedLayout | IntTuple, mode: Layout | IntTuple | None = None,
            rank: int | None = None) -> Layout | WrappedLayout | IntTuple:
    """A layout or tuple with a mode in front (1:0 for layouts unless given), or enough for a rank (cute/layout.hpp).

    Law: ``prepend(l, m)(j, c) == m(j) + l(c)``, and ``prepend(l, rank=n)(i) == l(i)``; ``prepend(t, x) == (x, *t)``.
    """
    if isinstance(x, WrappedLayout):
        return x.applied(lambda layout: prepend(layout, _mode("prepend", x, mode), rank))
    extra = _extra("prepend", x, mode, rank)
    if rank is not None and not extra:
        return x
    if isinstance(x, Layout):
        return make_modes([*extra, *x])
    return (*extra, *_items(x))


@overload
def replace(x: L, index: int, mode: Layout) -> L: ...


@overload
def replace(x: IntTuple, index: int, mode: IntTuple) -> IntTuple: ...


def replace(x: Layout | WrappedLayout | IntTuple, index: int,
            mode: Layout | IntTuple) -> Layout | WrappedLayout | IntTuple:
    """A layout or a tuple with one mode replaced by another (cute/layout.hpp).

    Law: ``replace(l, i, m).mode(i) == m``, and every other mode is that of l; for tuples ``replace(t, i, x)[i] == x``.
    """
    if isinstance(x, WrappedLayout):
        return x.applied(lambda layout: replace(layout, index, _mode("replace", x, mode)))
    count = len(x) if isinstance(x, Layout) else len(_items(x))
    if not 0 <= index < count:
        raise LayoutError(f"replace in {_text(x)}: mode {index} does not exist, it has {count}")
    given = _mode("replace", x, mode)
    if isinstance(x, Layout):
        return make_modes([given if i == index else old for i, old in enumerate(x)])
    return tuple([given if i == index else old for i, old in enumerate(_items(x))])


def _items(x: IntTuple) -> tuple[IntTuple, ...]:
    return x if isinstance(x, tuple) else (x,)


def _text(x: Any) -> str:
    return str(x) if isinstance(x, Layout | WrappedLayout) else tuples.text(x)


def _mode(name: str, x: Any, mode: Any) -> Any:
    """A mode for x, checked: a layout for layouts, and an integer or a tuple for tuples."""
    if isinstance(x, Layout | WrappedLayout):
        if mode is not None and not isinstance(mode, Layout):
            raise LayoutError(f"{name} of {x}: the mode of a layout is a layout, not {mode!r}")
        return mode
    if mode is None:
        raise LayoutError(f"{name} of {_text(x)}: a tuple needs the item to add",
                          hint="1 leaves a shape as it is, 0 a stride")
    if isinstance(mode, Layout | WrappedLayout):
        raise LayoutError(f"{name} of {_text(x)}: the mode of a tuple is an integer or a tuple, not the layout {mode}")
    return mode


def _extra(name: str, x: Any, mode: Any, rank: int | None) -> list[Any]:
    """The modes to add: one, or as many as x lacks."""
    given = _mode(name, x, mode)
    have = len(x) if isinstance(x, Layout) else len(_items(x))
    if rank is not None and rank < have:
        raise LayoutError(f"{_text(x)} has rank {have} already: it cannot be padded to {rank}")
    if rank is not None and rank > MOST_MODES:
        raise LayoutError(f"{_text(x)} padded to rank {rank}: layouts of more than {MOST_MODES} modes are not made")
    return [Layout(1, 0) if given is None else given] * (1 if rank is None else rank - have)


def zip_modes(a: Layout, b: Layout) -> Layout:
    """The modes of two layouts of one rank in pairs, ((a0, b0), (a1, b1), ...) (cute/layout.hpp, zip).

    Law: ``zip_modes(a, b).mode(i) == make_layout(a.mode(i), b.mode(i))``.
    """
    if len(a) != len(b):
        raise LayoutError(f"zip_modes of {a} and {b}: ranks {len(a)} and {len(b)} differ")
    return make_modes([make_layout(x, y) for x, y in zip(a, b, strict=True)])


@verb
def transform_layout(layout: Layout, f: Callable[..., Layout], other: Layout | None = None) -> Layout:
    """Apply f to every mode, or to every pair of modes of two layouts; modes without a partner stay (cute/layout.hpp).

    Law: ``transform_layout(l, f).mode(i) == f(l.mode(i))``.
    """
    if other is None:
        return make_modes([f(mode) for mode in layout])
    both = min(len(layout), len(other))
    done = [f(x, y) for x, y in zip(layout, other, strict=False)]
    return make_modes([*done, *list(layout)[both:], *list(other)[both:]])


def congruent(a: object, b: object) -> bool:
    """Whether two shapes, layouts or tensors have the same profile (cute/int_tuple.hpp).

    Law: an equivalence: structures are equal, extents do not matter.
    """
    return tuples.congruent_tuples(shape(a), shape(b))


def weakly_congruent(a: object, b: object) -> bool:
    """Whether the profile of b refines that of a (cute/int_tuple.hpp).

    Law: a partial order on profiles; ``congruent(a, b)`` where it holds both ways.
    """
    return tuples.weakly_congruent_tuples(shape(a), shape(b))


def compatible(a: object, b: object) -> bool:
    """Whether b refines a and their sizes agree mode by mode (cute/int_tuple.hpp).

    Law: every coordinate of a is one of b with the same index; a partial order.
    """
    return tuples.compatible_tuples(shape(a), shape(b))
