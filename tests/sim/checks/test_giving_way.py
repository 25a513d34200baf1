"""Stores of flags that come late and undo what others have made of them meanwhile, and looks that come too late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import moye as mo


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def codes(kernel: Any, blocks: int, *arguments: Any) -> set[str]:
    return {finding.code for finding in mo.check(kernel, lints=False)[blocks, 32](*arguments).findings}


@mo.kernel
def generations(count, generation, fault: mo.Constexpr):
    """A barrier of the grid, twice: the last to come sets the count back, and then tells the generation."""
    if mo.thread_idx().x == 0:
        for _ in range(2):
            g = mo.int32(0)
            if fault != "looks late":
                g = mo.load(generation, 0, order="relaxed")
            old = mo.atomic_add(count, 0, 1, order="acq_rel")
            if fault == "looks late":
                g = mo.load(generation, 0, order="relaxed")
            if old == 2:
                if fault != "told first":
                    mo.store(count, 0, 0, order="relaxed")
                mo.store(generation, 0, g + 1, order="release")
                if fault == "told first":
                    mo.store(count, 0, 0, order="relaxed")
            else:
                while mo.load(generation, 0, order="acquire") == g:
                    pass


@pytest.mark.parametrize("fault, found", [("", set()), ("told first", {"F4"}), ("looks late", {"F4"})])
def test_a_barrier_of_the_grid(fault, found):
    assert codes(generations, 3, ints(0), ints(0), fault) == found


@mo.kernel
def answered(flag, answer, late: mo.Constexpr):
    """Who has been told sets the flag back for the next time, and then answers."""
    if mo.thread_idx().x == 0:
        for _ in range(2):
            if mo.block_idx().x == 0:
                mo.store(flag, 0, 1, order="release")
                while mo.load(answer, 0, order="acquire") == 0:
                    pass
                mo.store(answer, 0, 0, order="relaxed")
            else:
                while mo.load(flag, 0, order="acquire") == 0:
                    pass
                if not late:
                    mo.store(flag, 0, 0, order="relaxed")
                mo.store(answer, 0, 1, order="release")
                if late:
                    mo.store(flag, 0, 0, order="relaxed")


@pytest.mark.parametrize("late, found", [(False, set()), (True, {"G3"})])
def test_a_flag_that_is_set_back(late, found):
    assert codes(answered, 2, ints(0), ints(0), late) == found


@mo.kernel
def announced(go, ready, order: mo.Constexpr, looks: mo.Constexpr):
    """A block clears its flag, says that it waits, and is told by who finds that."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            mo.store(go, 0, 0, order="relaxed")
            mo.store(ready, 0, 1, order=order)
            while mo.load(go, 0, order="acquire") == 0:
                pass
        else:
            while mo.load(ready, 0, order=looks) == 0:
                pass
            mo.store(go, 0, 1, order="release")


@pytest.mark.parametrize("order, looks, found", [
    ("release", "acquire", set()), ("relaxed", "acquire", {"G3"}), ("release", "relaxed", {"G3"})])
def test_a_flag_that_its_waiter_clears_first(order, looks, found):
    report = mo.check(announced, lints=False)[2, 32](ints(-1), ints(0), order, looks)
    assert {finding.code for finding in report.findings} == found
    assert not found or "stores 0 in go" in str(report)


@mo.kernel
def hints(hint, y):
    """Who stores in each pass, too, does not wait for what others store."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            seen = mo.int32(0)
            for k in range(4):
                mo.store(hint, 0, k, order="relaxed")
                seen = mo.max(seen, mo.load(hint, 0, order="relaxed"))
                if seen > 9:
                    break
            y[0] = seen
        else:
            mo.store(hint, 0, 7, order="relaxed")


def test_a_hint_may_be_lost():
    assert codes(hints, 2, ints(0), ints(0)) == set()


@mo.kernel
def works_while_it_waits(flag, work):
    """Others change memory in each pass while a store waits for them to get no further: it comes all the same."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            mo.store(flag, 0, 1, order="release")
        else:
            while mo.load(flag, 0, order="acquire") == 0:
                mo.atomic_add(work, 0, 1)


def test_a_store_is_not_late_for_ever():
    assert codes(works_while_it_waits, 2, ints(0), ints(0)) == set()
