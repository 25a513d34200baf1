"""From which k-step on is an accumulator wrong?  Its values after each product are compared with partial sums.

In: the order in which a block first read its inputs, the values of an accumulator, the reference.  Out: one sentence.

The reference's sum after s steps is its result if the inputs are zero where the block had not read by then.  That says
something only if the result is linear in what is read step by step, and if the kernel goes through k in the order of
its reads.  This is tested first, with a right element of the same block and with the sum of both parts.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.runtime.check.reference import Array, Reference
from moye.sim.operations.provenance import Trace

MOST_STEPS = 1024
SECONDS = 20.0
"""How long the reference may take for all partial sums; if it takes longer, they are bisected."""
_NOT_LINEAR = "its k-step is not known: the reference's partial sums are not those of the kernel"


@dataclass(slots=True)
class Element:
    """An element of the result by coordinate, and its accumulator: before the first product, then after each."""

    coordinate: tuple[int, ...]
    values: list[Any]


class Steps:
    """The k-steps of a block: how many there are, how many products each has, and what is read by the end of each."""

    def __init__(self, reference: Reference, count: int, products: int, order: dict[str, tuple[Array, int]],
                 regular: bool) -> None:
        self.reference, self.count, self.products, self.order = reference, count, products, order
        self.regular = regular
        """Whether there are equally many products between any two reads that have some between them."""
        self._sums: dict[tuple[int, bool], dict[str, Array]] = {}
        self.seconds = 0.0

    @classmethod
    def of(cls, trace: Trace, reference: Reference, products: int) -> Steps | str:
        """The steps, or why there are none."""
        written = {operand.name for operand in reference.written}
        order: dict[str, tuple[Array, int]] = {}
        before: list[list[int]] = []
        for name, numbers in trace.first_read.items():
            reads = _steps_of(np.array(trace.reads.get(name, ())), np.unique(numbers[numbers > 0]), products)
            early = any(trace.products_before[int(n)] < trace.products for n in reads)
            if len(reads) > 1 and early and name not in written:
                order[name] = (np.searchsorted(reads, numbers, side="right"), len(reads))
                before.append([trace.products_before[int(n)] for n in reads])
        shared = [math.gcd(reads, products) for _, reads in order.values()]
        whole = [n for n, (_, reads) in zip(shared, order.values(), strict=True) if n in (reads, products)]
        if not whole or min(whole) < 2:
            return "the block does not read its inputs step by step with the products"
        if min(whole) > MOST_STEPS:
            return f"it has more than {MOST_STEPS} steps"
        count = min(whole)
        between = {b - a for done in before if len(done) == count for a, b in itertools.pairwise(done)} - {0}
        return cls(reference, count, products, order, between <= {products // count})

    def _limit(self, reads: int, step: int) -> int:
        """How many of an array's reads belong to the first ``step`` steps."""
        if reads % self.count == 0 or self.count % reads == 0:
            return -(-step * reads // self.count)
        return min(step, reads)

    def sums(self, step: int, *, rest: bool = False) -> dict[str, Array]:
        """The reference's result of the first ``step`` steps, or of the steps after them."""
        key = (step, rest)
        if key not in self._sums:
            kept = {}
            for name, (turns, reads) in self.order.items():
                limit = self._limit(reads, step)
                kept[name] = turns > limit if rest else (turns > 0) & (turns <= limit)
            before = time.perf_counter()
            found = self.reference(kept)
            self.seconds = max(self.seconds, time.perf_counter() - before)
            if len(self._sums) > 4:                     # of large results only a few are kept
                self._sums.pop(next(iter(self._sums)))
            self._sums[key] = found
        return self._sums[key]

    def value(self, element: Element, step: int) -> Any:
        """The accumulator after ``step`` steps."""
        return element.values[step * self.products // self.count]


def _steps_of(all_: Array, new: Array, products: int) -> Array:
    """The reads that count: all of them, or those that bring something new, if only these fit the products."""
    fits = [math.gcd(len(reads), products) in (len(reads), products) for reads in (all_, new)]
    return new if fits[1] and not fits[0] else all_


class _Judge:
    """Compares an accumulator with the reference's partial sums."""

    def __init__(self, steps: Steps, name: str, rtol: float) -> None:
        self.steps, self.name, self.rtol = steps, name, rtol

    def partial(self, element: Element, step: int, *, rest: bool = False) -> float:
        return float(self.steps.sums(step, rest=rest)[self.name][element.coordinate])

    def bound(self, element: Element, step: int) -> float:
        """The allowed error of the accumulator, relative to the largest value that it had by then."""
        had = np.abs(np.array(element.values[: step * self.steps.products // self.steps.count + 1], np.float64))
        return self.rtol * float(had[np.isfinite(had)].max(initial=0.0))

    def close(self, element: Element, a: float, b: float, step: int) -> bool:
        return abs(a - b) <= self.rtol * abs(b) + self.bound(element, step)

    def right(self, element: Element, step: int) -> bool:
        return self.close(element, float(self.steps.value(element, step)), self.partial(element, step), step)

    def linear(self, element: Element, step: int) -> bool:
        """Whether the two parts add up to the whole."""
        last = self.steps.count
        parts = self.partial(element, step) + self.partial(element, step, rest=True) - self.partial(element, 0)
        return self.close(element, parts, self.partial(element, last), last)

    def first_wrong(self, element: Element) -> tuple[int, int] | None:
        """The last step after which it is right and the first after which it is wrong, one by one or by bisection."""
        last = self.steps.count
        if not self.right(element, 0):
            return -1, 0
        if self.steps.seconds * last <= SECONDS:
            wrong = next((step for step in range(1, last + 1) if not self.right(element, step)), None)
            return None if wrong is None else (wrong - 1, wrong)
        if self.right(element, last):
            return None
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.right(element, middle) else (low, middle)
        return low, high


def k_step(steps: Steps, name: str, element: Element, control: Element | None, expected: Array, rtol: float) -> str:
    """What is known of an accumulator's k-steps; they count from 0."""
    judge, last = _Judge(steps, name, rtol), steps.count
    if control is not None and len(control.values) != len(element.values):
        return f"its accumulator gets {len(element.values) - 1} matrix products, and that of {name}" \
               f"{control.coordinate}, which is right, {len(control.values) - 1}"
    if control is None and not steps.regular:
        return "its k-step is not known: the products are not evenly spread over what the block reads"
    found = judge.first_wrong(element)
    asked = last if found is None else found[1]
    if control is not None and not judge.right(control, asked):
        return _NOT_LINEAR
    if not judge.linear(element, max(1, last // 2 if found is None else found[0])) or \
            judge.close(element, judge.partial(element, 0), judge.partial(element, last), last):
        return _NOT_LINEAR
    if found is None:
        whole = float(expected[element.coordinate])
        if judge.close(element, judge.partial(element, last), whole, last):
            return f"the accumulator is right after each of the {last} k-steps: what follows the products is wrong"
        return f"the accumulator is right for each of the {last} k-steps that the block loads: the expected value " \
               f"takes more than these"
    right, wrong = found
    got, sum_ = float(steps.value(element, wrong)), judge.partial(element, wrong)
    if wrong == 0:
        return f"the accumulator is {got:.9g} before the first k-step, and {sum_:.9g} is expected there"
    upto = "" if right == 0 else f"right up to k-step {right - 1} and "
    return f"the accumulator is {upto}wrong from k-step {wrong - 1} on (of {last}, counted from 0): it is {got:.9g} " \
           f"after that step, and what the block read for it makes {sum_:.9g}{_instead(judge, element, wrong)}"


def _instead(judge: _Judge, element: Element, wrong: int) -> str:
    """What the wrong step adds, if that is nothing, or what a step near it should add."""
    steps = judge.steps
    added = float(steps.value(element, wrong)) - float(steps.value(element, wrong - 1))
    tight = judge.bound(element, wrong)
    if added == 0.0:
        return "; the step adds nothing"
    for other in (wrong - 1, wrong + 1):
        if 1 <= other <= steps.count:
            due = judge.partial(element, other) - judge.partial(element, other - 1)
            if abs(added - due) <= tight:
                return f"; it adds what k-step {other - 1} is to add"
    return ""
