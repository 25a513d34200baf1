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
ORDER = "order"
"""In place of a dtype: integers as wide as what computes."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction.  ``fill`` is the element that changes nothing; ``parts`` are the dtypes of a state's parts, None for
    the dtype that computes, or ORDER; ``finish`` takes a state and the number of elements.

    ``follow`` is a shorter ``join`` with one element whose index is larger than those before, and ``gather`` one of a
    state of scalars with all elements of register tensors.
    """

    name: str
    fill: float
    take: Callable[[Any, Any], State]
    join: Callable[[State, State], State]
    finish: Callable[[State, Any], State]
    parts: tuple[Any, ...] = (None,)
    follow: Callable[[State, State], State] | None = None
    gather: Callable[[State, list[Any]], State] | None = None

    @property
    def adds(self) -> bool:
        """Whether states are added up."""
        return self.join is _sum

    @property
    def indexed(self) -> bool:
        return mo.int32 in self.parts

    def dtypes(self, compute: Any) -> tuple[Any, ...]:
        order = mo.int64 if compute is mo.float64 else mo.int32
        return tuple(order if part is ORDER else part or compute for part in self.parts)


def _value(x: Any, index: Any) -> State:
    return (x,)


def _magnitude(x: Any, index: Any) -> State:
    return (mo.abs(x),)


def _square(x: Any, index: Any) -> State:
    return (x * x,)


def _order(x: Any) -> Any:
    """Signed integers in the order of a register tensor's elements: one compares them without a case for NaN, which is
    the largest; zeros are equal."""
    integer = mo.int64 if x.dtype is mo.float64 else mo.int32
    most = (1 << (integer.bits - 1)) - 1
    bits = mo.recast(x + 0.0, integer)
    return mo.where(mo.isnan(x), most, bits ^ ((bits >> (integer.bits - 1)) & most))


def _with_index(x: Any, index: Any) -> State:
    return _order(x), index


def _negated_with_index(x: Any, index: Any) -> State:
    return _order(-x), index


def _with_one(x: Any, index: Any) -> State:
    return x, mo.where(mo.isnan(x), x, 1.0)


def _sum(a: State, b: State) -> State:
    return (a[0] + b[0],)


def _largest(a: State, b: State) -> State:
    """NaN if one is NaN, as in PyTorch."""
    return (mo.where((a[0] > b[0]) | mo.isnan(a[0]), a[0], b[0]),)


def _least(a: State, b: State) -> State:
    return (mo.where((a[0] < b[0]) | mo.isnan(a[0]), a[0], b[0]),)


def _first_of_equals(a: State, b: State) -> State:
    """The larger number of two (order, index) pairs, the lower index of equals."""
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return mo.where(first, a[0], b[0]), mo.where(first, a[1], b[1])


def _larger_behind(a: State, b: State) -> State:
    """The same where b's index is larger."""
    found = b[0] > a[0]
    return mo.where(found, b[0], a[0]), mo.where(found, b[1], a[1])


def _sum_of_exponentials(a: State, b: State) -> State:
    """(m, s) stands for s * exp(m), of which the larger m is kept: one exponential, of what is not above 0.

    There the hardware's approximation is as good as the accurate function: its error grows with the exponent, and the
    result falls faster.  Equal infinities differ by nothing.
    """
    m, = _largest(a[:1], b[:1])
    apart = mo.exp(mo.where(a[0] == b[0], 0.0, -mo.abs(a[0] - b[0])), fast=True)
    above = a[0] > b[0]
    return m, mo.where(above, a[1], b[1]) + mo.where(above, b[1], a[1]) * apart


def _exponentials_together(state: State, parts: list[Any]) -> State:
    """(m, s) with many elements: one exponential for each, and one for what was there.

    They are taken of differences to the largest, or to 0 where that is infinite: infinities come out as they should.
    """
    m = state[0]
    for part in parts:
        m = mo.max(m, part.reduce("max"))
    base = mo.where(mo.abs(m) == INFINITY, 0.0, m)
    s = state[1] * mo.exp(state[0] - base, fast=True)
    for part in parts:
        s = s + mo.exp(part - base, fast=True).reduce("add")
    return m, s


def _first(state: State, count: Any) -> State:
    return (state[0],)


def _mean(state: State, count: Any) -> State:
    return (state[0] / count,)


def _root(state: State, count: Any) -> State:
    return (mo.sqrt(state[0]),)


def _index(state: State, count: Any) -> State:
    return (state[1],)


def _logarithm(state: State, count: Any) -> State:
    return (mo.log(state[1]) + state[0],)


INFINITY = float("inf")
FOLDS = {fold.name: fold for fold in (
    Fold("sum", 0.0, _value, _sum, _first),
    Fold("mean", 0.0, _value, _sum, _mean),
    Fold("max", -INFINITY, _value, _largest, _first),
    Fold("min", INFINITY, _value, _least, _first),
    Fold("norm1", 0.0, _magnitude, _sum, _first),
    Fold("norm2", 0.0, _square, _sum, _root),
    Fold("norminf", 0.0, _magnitude, _largest, _first),
    Fold("argmax", -INFINITY, _with_index, _first_of_equals, _index, (ORDER, mo.int32), _larger_behind),
    Fold("argmin", INFINITY, _negated_with_index, _first_of_equals, _index, (ORDER, mo.int32), _larger_behind),
    Fold("logsumexp", -INFINITY, _with_one, _sum_of_exponentials, _logarithm, (None, None),
         gather=_exponentials_together))}
