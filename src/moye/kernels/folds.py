"""What a reduction does: how a state begins, takes elements in, is joined with another, and gives the result.

In: register tensors or scalars, of float32 or float64.  Out: the same.  A state is a tuple of them.

    fold = FOLDS["logsumexp"]
    state = fold.take(x, None)                  # of one element: (x, 1)
    m, s = fold.join(state, other)              # of all that both have seen

Sums are taken in an order that the plan of a launch fixes, so each run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import moye as mo

State = tuple[Any, ...]
LAST = (1 << 31) - 1
"""The index of what is no element."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction.  ``fill`` is the element that changes nothing; ``parts`` are the dtypes of a state's parts, None for
    the dtype that computes; ``finish`` takes a state and the number of elements."""

    name: str
    fill: float
    take: Callable[[Any, Any], State]
    join: Callable[[State, State], State]
    finish: Callable[[State, Any], State]
    parts: tuple[Any, ...] = (None,)

    @property
    def indexed(self) -> bool:
        return mo.int32 in self.parts

    def dtypes(self, compute: Any) -> tuple[Any, ...]:
        return tuple(part or compute for part in self.parts)


def _value(x: Any, index: Any) -> State:
    return (x,)


def _magnitude(x: Any, index: Any) -> State:
    return (mo.abs(x),)


def _square(x: Any, index: Any) -> State:
    return (x * x,)


def _with_index(x: Any, index: Any) -> State:
    return x, index


def _with_one(x: Any, index: Any) -> State:
    return x, mo.where(mo.isnan(x), x, 1.0)


def _sum(a: State, b: State) -> State:
    return (a[0] + b[0],)


def _largest(a: State, b: State) -> State:
    """NaN if one is NaN, as in PyTorch."""
    return (mo.where((a[0] > b[0]) | mo.isnan(a[0]), a[0], b[0]),)


def _least(a: State, b: State) -> State:
    return (mo.where((a[0] < b[0]) | mo.isnan(a[0]), a[0], b[0]),)


def _choose(beats: Any, a: State, b: State) -> State:
    """The one that beats the other, where NaN beats all numbers; the lower index of equals."""
    (x, i), (y, j) = a, b
    equal = (x == y) | (mo.isnan(x) & mo.isnan(y))
    first = mo.where(equal, i < j, beats | (mo.isnan(x) & ~mo.isnan(y)))
    return mo.where(first, x, y), mo.where(first, i, j)


def _largest_index(a: State, b: State) -> State:
    return _choose(a[0] > b[0], a, b)


def _least_index(a: State, b: State) -> State:
    return _choose(a[0] < b[0], a, b)


def _reference(m: Any) -> Any:
    """What exponents are taken against: the largest element, or 0 where that is infinite."""
    return mo.where(mo.isinf(m), 0.0, m)


def _sum_of_exponentials(a: State, b: State) -> State:
    """(m, s) stands for s * exp(m), with 0 for an infinite m."""
    m, = _largest(a[:1], b[:1])
    return m, a[1] * mo.exp(_minus(a[0], m)) + b[1] * mo.exp(_minus(b[0], m))


def _minus(x: Any, m: Any) -> Any:
    return x - _reference(m)


def _first(state: State, count: Any) -> State:
    return (state[0],)


def _mean(state: State, count: Any) -> State:
    return (state[0] / count,)


def _root(state: State, count: Any) -> State:
    return (mo.sqrt(state[0]),)


def _index(state: State, count: Any) -> State:
    return (state[1],)


def _logarithm(state: State, count: Any) -> State:
    return (mo.log(state[1]) + _reference(state[0]),)


INFINITY = float("inf")
FOLDS = {fold.name: fold for fold in (
    Fold("sum", 0.0, _value, _sum, _first),
    Fold("mean", 0.0, _value, _sum, _mean),
    Fold("max", -INFINITY, _value, _largest, _first),
    Fold("min", INFINITY, _value, _least, _first),
    Fold("norm1", 0.0, _magnitude, _sum, _first),
    Fold("norm2", 0.0, _square, _sum, _root),
    Fold("norminf", 0.0, _magnitude, _largest, _first),
    Fold("argmax", -INFINITY, _with_index, _largest_index, _index, (None, mo.int32)),
    Fold("argmin", INFINITY, _with_index, _least_index, _index, (None, mo.int32)),
    Fold("logsumexp", -INFINITY, _with_one, _sum_of_exponentials, _logarithm, (None, None)))}
