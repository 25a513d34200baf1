"""Relaxed accesses that tell because of another one at their place; threads that give way before a fence.sc; flags of
one array that threads find set one before the other."""

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
def written_twice(y, data, flag, scope: mo.Constexpr, late: mo.Constexpr):
    """A release, and then a relaxed store at the same place, which is what the other block waits for."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1, order="release", scope=scope)
            if late:
                data[0] = 6
            mo.store(flag, 0, 2, order="relaxed")
        else:
            while mo.load(flag, 0, order="acquire") < 2:
                pass
            y[0] = data[0]


@pytest.mark.parametrize("scope, late, found", [
    ("gpu", False, set()), ("gpu", True, {"G3"}), ("cta", False, {"G3"})])
def test_a_release_and_a_write_at_one_place(scope, late, found):
    assert codes(written_twice, 2, ints(0), ints(0), ints(0), scope, late) == found


@mo.kernel
def by_another(y, data, flag):
    """The relaxed store is another block's, so that the release before it says nothing."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1, order="release")
        elif mo.block_idx().x == 1:
            while mo.load(flag, 0, order="relaxed") < 1:
                pass
            mo.store(flag, 0, 2, order="relaxed")
        else:
            while mo.load(flag, 0, order="acquire") < 2:
                pass
            y[0] = data[0]


def test_a_write_of_another_thread_is_no_pattern():
    assert codes(by_another, 3, ints(0), ints(0), ints(0)) == {"G3"}


@mo.kernel
def read_twice(y, data, flag, seen, again: mo.Constexpr):
    """A relaxed look, and then an acquire of the same place, which may find another block's value."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1, order="release")
        elif mo.block_idx().x == 1:
            while mo.load(seen, 0, order="relaxed") == 0:
                pass
            mo.store(flag, 0, 2, order="relaxed")
        else:
            while mo.load(flag, 0, order="relaxed") != 1:
                pass
            mo.store(seen, 0, 1, order="relaxed")
            while mo.load(flag, 0, order="relaxed") != 2:
                pass
            got = mo.load(flag, 0, order="acquire" if again else "relaxed")
            y[0] = data[0] + 0 * got


@pytest.mark.parametrize("again, found", [(True, set()), (False, {"G3"})])
def test_a_look_and_an_acquire_at_one_place(again, found):
    assert codes(read_twice, 3, ints(0), ints(0), ints(0), ints(0), again) == found


@mo.kernel
def each_lane(y, data, flags, way: mo.Constexpr):
    """Each lane has a flag of its own; a warp waits for all of them, or for any."""
    lane = mo.thread_idx().x
    if mo.block_idx().x == 0:
        data[lane] = lane
        mo.store(flags, lane, 1, order="release")
    else:
        seen = mo.load(flags, lane, order="relaxed")
        while not (mo.vote_any(seen == 1) if way == "any" else mo.vote_all(seen == 1)):
            seen = mo.load(flags, lane, order="relaxed")
        mo.fence()
        mo.sync_warp()
        y[lane] = data[31 - lane]


@pytest.mark.parametrize("way, found", [("all", set()), ("any", {"G3"})])
def test_lanes_that_find_their_flags_set_one_before_the_other(way, found):
    y, data, flags = np.zeros((3, 32), np.int32)
    assert codes(each_lane, 2, y, data, flags, way) == found


@mo.kernel
def reclaimed(y, slots, newest, hazard, fault: mo.Constexpr):
    """A reader says which slot it reads, and looks again; the writer looks for that before it writes a slot again."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            for v in range(3):
                mo.fence("seq_cst")
                if fault != "no look":
                    while mo.load(hazard, 0, order="acquire" if fault != "looks relaxed" else "relaxed") == v % 2:
                        pass
                slots[v % 2] = v
                mo.store(newest, 0, v + 1, order="release")
        else:
            seen = mo.int32(0)
            while seen < 3:
                now = mo.load(newest, 0, order="acquire")
                if now > seen:
                    mo.store(hazard, 0, (now - 1) % 2, order="relaxed")
                    if fault != "no fence":
                        mo.fence("seq_cst")
                    if mo.load(newest, 0, order="acquire") == now:
                        y[0] = slots[(now - 1) % 2]
                        seen = now
                    mo.store(hazard, 0, -1, order="release" if fault != "leaves relaxed" else "relaxed")


@pytest.mark.parametrize("fault, found", [
    ("", set()), *((fault, {"G3"}) for fault in ("no look", "looks relaxed", "no fence", "leaves relaxed"))])
def test_threads_that_give_way_before_a_fence(fault, found):
    assert codes(reclaimed, 2, ints(0), ints(0, 0), ints(0), ints(-1), fault) == found


@mo.kernel
def fences_for_ever(flag):
    while mo.load(flag, 0, order="relaxed") == 0:
        mo.fence("seq_cst")


def test_who_fences_and_waits_for_ever_is_found_out():
    assert codes(fences_for_ever, 2, ints(0)) == {"F4"}
    assert {finding.code for finding in mo.check(fences_for_ever, seed=2)[2, 32](ints(0)).findings} == {"F4"}
