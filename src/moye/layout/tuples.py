"""Integer tuples: nested tuples of integers, the form of every shape, stride and coordinate.

In: ``Int`` or nested tuples of them.  Out: their leaves, products, profiles, and indices of coordinates.

>>> flatten_tuple(((2, 2), 4)), product(((2, 2), 4)), text(((2,), 4))
((2, 2, 4), 16, '((2),4)')

Tuples have structure but no strides of their own: layouts are one file up.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias, overload

from moye.errors import LayoutError
from moye.layout import ints
from moye.layout.ints import DynInt, Int, add, floor_div, is_const, mod, mul, same

IntTuple: TypeAlias = "Int | tuple[IntTuple, ...]"
Coord: TypeAlias = "Int | slice | tuple[Coord, ...] | None"
Modes: TypeAlias = list[tuple[Int, Int]]


def as_int_tuple(x: object, what: str) -> IntTuple:
    """x with lists made tuples and integer-likes made ints; LayoutError where a leaf is no integer."""
    if isinstance(x, (tuple, list)):
        return tuple(as_int_tuple(item, what) for item in x)
    if isinstance(x, DynInt) or type(x) is int:
        return x
    try:
        return operator.index(x)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"{what} has the leaf {x!r}, which is not an integer") from None


def text(x: IntTuple) -> str:
    """CuTe's notation: no spaces, a one-tuple as ``(4)``."""
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
    """The product of all leaves; 1 for the empty tuple."""
    return ints.prod(flatten_tuple(x)) if isinstance(x, tuple) else x


def product_each(x: IntTuple) -> tuple[Int, ...]:
    """The product of each mode: ``product_each(((2, 2), 4)) == (4, 4)``."""
    return tuple(map(product, x)) if isinstance(x, tuple) else (x,)


def tuple_rank(x: IntTuple) -> int:
    """The number of modes; an integer has one."""
    return len(x) if isinstance(x, tuple) else 1


def tuple_depth(x: IntTuple) -> int:
    """The nesting: 0 for an integer, 1 for a flat tuple."""
    return 1 + max(map(tuple_depth, x), default=0) if isinstance(x, tuple) else 0


def map_leaves(f: Callable[[Int], Int], x: IntTuple) -> IntTuple:
    """f of every leaf, in the same profile."""
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
    return list(zip(flatten_tuple(shape), flatten_tuple(stride), strict=True))


def merge(modes: Modes, keep_last: bool = False) -> Modes:
    """Fewest flat modes with the same map; with ``keep_last`` the continuation past the last mode is the same, too."""
    merged: Modes = []
    for i, (extent, step) in enumerate(modes):
        last = keep_last and i == len(modes) - 1
        if is_const(extent, 1) and not last:
            continue
        if merged and same(step, mul(*merged[-1])):
            merged[-1] = (mul(merged[-1][0], extent), merged[-1][1])
        else:
            merged.append((extent, step))
    return merged


def compact_stride(shape: IntTuple, start: Int = 1) -> IntTuple:
    """Column-major strides of a shape, the first one ``start``; a static extent 1 gets stride 0, as in CuTe."""
    step = start

    def build(extent: IntTuple) -> IntTuple:
        nonlocal step
        if isinstance(extent, tuple):
            return tuple(build(item) for item in extent)
        if is_const(extent, 1):
            return 0
        here, step = step, mul(step, extent)
        return here

    return build(shape)


def has_slice(crd: Coord) -> bool:
    """Whether a coordinate leaves a mode open (``None`` or ``:``)."""
    if isinstance(crd, tuple):
        return any(map(has_slice, crd))
    return crd is None or isinstance(crd, slice)


def crd_to_offset(crd: Coord, shape: IntTuple, step: IntTuple) -> Int:
    """Inner product of the natural coordinate of ``crd`` with the strides; integers count modes left to right."""
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
        if not is_const(step, 0):
            total = add(total, mul(mod(index, extent), step))
        index = floor_div(index, extent)
    return add(total, mul(index, modes[-1][1])) if modes else 0


def idx2crd(shape: IntTuple, idx: IntTuple) -> IntTuple:
    """The natural coordinate of an index: ``crd2idx(idx2crd(shape, i), shape) == i`` (cute/stride.hpp)."""
    if isinstance(idx, tuple):
        if not isinstance(shape, tuple) or len(shape) != len(idx):
            raise LayoutError(f"index {text(idx)} has other modes than shape {text(shape)}")
        return tuple(map(idx2crd, shape, idx))
    if not isinstance(shape, tuple):
        return idx
    leaves: list[Int] = []
    for extent in flatten_tuple(shape):
        leaves.append(mod(idx, extent))
        idx = floor_div(idx, extent)
    return unflatten_tuple(leaves, shape)


@overload
def ceil_div(a: Int, b: Int) -> Int: ...


@overload
def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple: ...


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Least n with n * b >= a, by mode; an integer b divides a tuple from the left (cute/int_tuple.hpp)."""
    if isinstance(b, tuple):
        if not isinstance(a, tuple) or len(a) < len(b):
            raise LayoutError(f"ceil_div of {text(a)} by {text(b)}: the divisor has more modes")
        return tuple(map(ceil_div, a, b)) + a[len(b):]
    if isinstance(a, tuple):
        result: list[IntTuple] = []
        for item in a:
            result.append(ceil_div(item, b))
            b = ints.ceil_div(b, product(item))
        return tuple(result)
    return ints.ceil_div(a, b)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """What is left of shape a after b elements: a / b, or 1 where a divides b (cute/int_tuple.hpp)."""
    if isinstance(b, tuple):
        if not isinstance(a, tuple):
            return shape_div(a, product(b))
        if len(a) != len(b):
            raise LayoutError(f"shape_div of {text(a)} by {text(b)}: ranks {len(a)} and {len(b)} differ")
        return tuple(map(shape_div, a, b))
    if isinstance(a, tuple):
        result: list[IntTuple] = []
        for item in a:
            result.append(shape_div(item, b))
            rest = shape_div(b, product(item))
            assert not isinstance(rest, tuple), "the quotient of integers is an integer"
            b = rest
        return tuple(result)
    if ints.divides(b, a) is not True and ints.divides(a, b):
        return 1
    return ints.exact_div(a, b, f"shape_div of {a} by {b}")
