"""Integer tuples: nested tuples of integers, the form of every shape, stride and coordinate.

In: ``Int`` or nested tuples of them.  Out: their leaves, products, profiles, and indices of coordinates.

>>> flatten_tuple(((2, 2), 4)), product(((2, 2), 4)), text(((2,), 4))
((2, 2, 4), 16, '((2),4)')

Tuples have structure but no strides of their own; layouts are in layout.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

from moye.errors import LayoutError
from moye.layout import ints
from moye.layout.ints import DynInt, Int, add, floor_div, is_const, mod, mul, same

IntTuple: TypeAlias = "Int | tuple[IntTuple, ...]"
Coord: TypeAlias = "Int | slice | tuple[Coord, ...] | None"
Modes: TypeAlias = list[tuple[Int, Int]]


class Major(Enum):
    """Which mode of a compact layout is fastest: ``LayoutLeft`` or ``LayoutRight`` (cute/stride.hpp)."""

    LEFT = "LayoutLeft"
    RIGHT = "LayoutRight"

    def __repr__(self) -> str:
        return self.value

    __str__ = __repr__


LayoutLeft = Major.LEFT
LayoutRight = Major.RIGHT


def as_int_tuple(x: object, what: str) -> IntTuple:
    """x with lists turned into tuples and integer-likes into ints; LayoutError if a leaf is not an integer."""
    if isinstance(x, (tuple, list)):
        return tuple(as_int_tuple(item, what) for item in x)
    if type(x) is int or isinstance(x, DynInt):
        return x
    try:
        return operator.index(x)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"{what} has the leaf {x!r}, which is not an integer") from None


def text(x: IntTuple) -> str:
    """The tuple in CuTe's notation: no spaces, and a one-tuple as ``(4)``."""
    return f"({','.join(map(text, x))})" if isinstance(x, tuple) else str(x)


def flatten_tuple(x: IntTuple) -> tuple[Int, ...]:
    """The leaves, left to right."""
    if not isinstance(x, tuple):
        return (x,)
    leaves: list[Int] = []
    for item in x:
        if isinstance(item, tuple):
            leaves += flatten_tuple(item)
        else:
            leaves.append(item)
    return tuple(leaves)


def product(x: IntTuple) -> Int:
    """The product of all leaves (cute/int_tuple.hpp).

    Law: ``product((a, b)) == product(a) * product(b)``, and 1 for the empty tuple.
    """
    return ints.prod(flatten_tuple(x)) if isinstance(x, tuple) else x


def product_each(x: IntTuple) -> tuple[Int, ...]:
    """The product of each mode (cute/int_tuple.hpp).

    Law: ``product_each((a, b)) == (product(a), product(b))``.
    """
    return tuple(map(product, x)) if isinstance(x, tuple) else (x,)


def tuple_rank(x: IntTuple) -> int:
    """The number of modes; an integer has one."""
    return len(x) if isinstance(x, tuple) else 1


def tuple_depth(x: IntTuple) -> int:
    """The nesting: 0 for an integer, 1 for a flat tuple."""
    return 1 + max(map(tuple_depth, x), default=0) if isinstance(x, tuple) else 0


def map_leaves(f: Callable[[Int], Int], x: IntTuple) -> IntTuple:
    """Apply f to every leaf, and keep the profile."""
    return tuple(map_leaves(f, item) for item in x) if isinstance(x, tuple) else f(x)


def same_tuple(a: IntTuple, b: IntTuple) -> bool:
    """Whether two tuples have one profile and provably equal leaves."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_tuple, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple) and same(a, b)


def congruent_tuples(a: IntTuple, b: IntTuple) -> bool:
    """Whether two tuples have the same profile."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent_tuples, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent_tuples(a: IntTuple, b: IntTuple) -> bool:
    """Whether b's profile refines a's: an integer of a may stand for a whole mode of b."""
    if not isinstance(a, tuple):
        return True
    return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent_tuples, a, b))


def compatible_tuples(a: IntTuple, b: IntTuple) -> bool:
    """Whether every coordinate of shape a is one of shape b: b refines a and sizes agree mode by mode."""
    if not isinstance(a, tuple):
        return same(a, product(b))
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible_tuples, a, b))


def unflatten_tuple(flat: Sequence[IntTuple], profile: IntTuple) -> IntTuple:
    """The items of ``flat`` in the structure of ``profile``; inverse of ``flatten_tuple``."""
    rest = list(flat)

    def build(like: IntTuple) -> IntTuple:
        if isinstance(like, tuple):
            return tuple(build(item) for item in like)
        if not rest:
            raise LayoutError(f"unflatten of {len(flat)} modes: the profile {text(profile)} has more leaves")
        return rest.pop(0)

    result = build(profile)
    if rest:
        used = len(flat) - len(rest)
        raise LayoutError(f"unflatten of {len(flat)} modes: the profile {text(profile)} has only {used}")
    return result


def zip_leaves(shape: IntTuple, stride: IntTuple) -> Modes:
    """The flat modes (extent, stride) of a shape and a congruent stride."""
    if not isinstance(shape, tuple) and not isinstance(stride, tuple):
        return [(shape, stride)]
    return list(zip(flatten_tuple(shape), flatten_tuple(stride), strict=True))


def merge(modes: Modes, keep_last: bool = False) -> Modes:
    """The fewest flat modes with the same map; with ``keep_last``, also past the last mode."""
    merged: Modes = []
    for i, (extent, step) in enumerate(modes):
        last = keep_last and i == len(modes) - 1
        # The one index of such a mode is 0, whatever its stride; but past the end the last stride is what goes on.
        if is_const(extent, 1) and not last:
            continue
        # The mode begins where the one before it ends, so the two count on as one.
        if merged and same(step, mul(*merged[-1])):
            merged[-1] = (mul(merged[-1][0], extent), merged[-1][1])
        else:
            merged.append((extent, step))
    return merged


def compact_col_major(shape: IntTuple, start: Int = 1) -> IntTuple:
    """The strides of a shape whose leftmost mode is fastest; a static extent 1 gets stride 0, as in CuTe.

    Law: the layout ``shape:compact_col_major(shape)`` is the identity on indices (cute/stride.hpp).
    """
    step = start

    def build(extent: IntTuple) -> IntTuple:
        nonlocal step
        if isinstance(extent, tuple):
            return tuple([build(item) for item in extent])
        if is_const(extent, 1):
            return 0
        here, step = step, mul(step, extent)
        return here

    return build(shape)


def compact_row_major(shape: IntTuple, start: Int = 1) -> IntTuple:
    """The strides of a shape whose rightmost mode is fastest; a static extent 1 gets stride 0, as in CuTe.

    Law: reversed leaves have the reversed strides of ``compact_col_major`` (cute/stride.hpp).
    """
    leaves = flatten_tuple(shape)
    steps = flatten_tuple(compact_col_major(leaves[::-1], start))[::-1]
    return unflatten_tuple(steps, shape)


def compact_order(shape: IntTuple, order: IntTuple | Major) -> IntTuple:
    """The strides of a shape whose modes are fastest in ascending order; ties go left to right, dynamic ones last.

    Law: the layout ``shape:compact_order(shape, order)`` is a bijection onto 0 .. size-1, and a mode of lower order
    has smaller strides (cute/stride.hpp).
    """
    if isinstance(order, Major):
        return compact_col_major(shape) if order is LayoutLeft else compact_row_major(shape)
    ranks: list[tuple[Int, Int]] = []

    def visit(s: IntTuple, o: IntTuple, path: str) -> None:
        if not isinstance(o, tuple):
            ranks.extend([(leaf, o) for leaf in flatten_tuple(s)])
        elif isinstance(s, tuple) and len(s) == len(o):
            for i, (item, item_order) in enumerate(zip(s, o, strict=True)):
                visit(item, item_order, f"{path} {i}")
        else:
            raise LayoutError(f"order {text(order)} does not fit the shape {text(shape)}"
                              f"{' at mode' + path if path else ''}: {text(o)} orders {len(o)} modes, "
                              f"{text(s)} has {tuple_rank(s)}")

    visit(shape, order, "")
    steps: list[Int] = [0] * len(ranks)
    step: Int = 1
    for i in sorted(range(len(ranks)), key=lambda i: _rank_key(ranks[i][1])):
        if not is_const(ranks[i][0], 1):
            steps[i], step = step, mul(step, ranks[i][0])
    return unflatten_tuple(steps, shape)


def _rank_key(order: Int) -> tuple[bool, int]:
    return (False, order) if isinstance(order, int) else (True, 0)


def has_mode(x: IntTuple, path: Sequence[int]) -> bool:
    """Whether a tuple has a mode at a path; an integer has mode 0."""
    for i in path:
        modes = x if isinstance(x, tuple) else (x,)
        if not -len(modes) <= i < len(modes):
            return False
        x = modes[i]
    return True


def has_slice(crd: Coord) -> bool:
    """Whether a coordinate leaves a mode open (``None`` or ``:``)."""
    if isinstance(crd, tuple):
        return any(map(has_slice, crd))
    return crd is None or isinstance(crd, slice)


def crd_to_offset(crd: Coord, shape: IntTuple, step: IntTuple) -> Int:
    """The inner product of the natural coordinate of ``crd`` with the strides; integers count modes left to right."""
    if type(crd) is int and type(step) is int and type(shape) is int:
        return crd * step                               # most coordinates come down to this
    if isinstance(crd, tuple):
        if not isinstance(shape, tuple) or not isinstance(step, tuple):
            if len(crd) == 1:
                return crd_to_offset(crd[0], shape, step)
            raise LayoutError(f"coordinate {crd!r} has {len(crd)} modes, but the extent {text(shape)} is an integer")
        if len(crd) != len(shape):
            raise LayoutError(f"coordinate {crd!r} has {len(crd)} modes, but shape {text(shape)} has {len(shape)}")
        total: Int = 0
        for c, s, d in zip(crd, shape, step, strict=True):
            total = add(total, crd_to_offset(c, s, d))
        return total
    if crd is None or isinstance(crd, slice):
        raise LayoutError(f"an open mode of shape {text(shape)} has no offset", hint="slice with layout[...]")
    modes = zip_leaves(shape, step)
    if isinstance(crd, DynInt):
        modes = merge(modes, keep_last=True)
    return _index_to_offset(crd, modes)


def _index_to_offset(index: Int, modes: Modes) -> Int:
    total: Int = 0
    for extent, step in modes[:-1]:
        if type(index) is int and type(extent) is int and extent:
            index, rest = divmod(index, extent)
            total = add(total, mul(rest, step))
            continue
        if not is_const(step, 0):
            total = add(total, mul(mod(index, extent), step))
        index = floor_div(index, extent)
    return add(total, mul(index, modes[-1][1])) if modes else 0
