"""Loads that miss stores: two threads each store and then load what the other stores, and both may find nothing.

What follows from it is told where it breaks a rule: a race of the two, or a wait without end.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

MISSED = "a load may miss a store that nothing orders before it, and does here"


def ints(n):
    return np.zeros(n, np.int32)


@mo.jit
def between(how, me):
    """What stands between the store and the load."""
    if how == "sc" or (how == "one side" and me == 0):
        mo.fence("seq_cst")
    elif how == "acq_rel":
        mo.fence()
    elif how == "block scope":
        mo.fence("seq_cst", "cta")


@mo.kernel
def entered(data, flags, how: mo.Constexpr):
    """Each block raises its flag, and enters if the other's is down (Dekker)."""
    me, ordered = mo.block_idx().x, how == "release, acquire"
    mo.store(flags, me, 1, order="release" if ordered else "relaxed")
    between(how, me)
    if mo.load(flags, 1 - me, order="acquire" if ordered else "relaxed") == 0:
        data[0] = data[0] + 1


HOWS = {"sc": True, "": False, "release, acquire": False, "acq_rel": False, "one side": False, "block scope": False}


@pytest.mark.parametrize(("how", "right"), HOWS.items())
@pytest.mark.parametrize("schedules", [None, 1])
def test_two_blocks_enter(how, right, schedules):
    report = mo.check(entered, lints=False, schedules=schedules)[2, 1](ints(1), ints(2), how)
    assert report.ok is right, str(report)
    if not right:
        (finding,) = report.findings
        assert finding.code == "G3" and finding.message.endswith(MISSED)
        assert finding.hint is not None and finding.hint.startswith('mo.fence("seq_cst") in both threads')


@mo.kernel
def entered_by_warps(out, how: mo.Constexpr):
    """The same of two warps, with flags in shared memory."""
    tid = mo.thread_idx().x
    me, lane = tid // 32, tid % 32
    s, flags = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 2)
    if tid == 0:
        s[0] = 0
        flags[0] = 0
        flags[1] = 0
    mo.sync_threads()
    if lane == 0:
        mo.store(flags, me, 1, order="relaxed", scope="cta")
        if how == "sc":
            mo.fence("seq_cst", "cta")
        elif how == "acq_rel":
            mo.fence("acq_rel", "cta")
        if mo.load(flags, 1 - me, order="relaxed", scope="cta") == 0:
            s[0] = s[0] + 1
    mo.sync_threads()
    out[tid] = s[0]


@pytest.mark.parametrize(("how", "codes"), [("sc", set()), ("acq_rel", {"C1", "C2"}), ("", {"C1", "C2"})])
def test_two_warps_enter(how, codes):
    report = mo.check(entered_by_warps, lints=False)[1, 64](ints(64), how)
    assert {finding.code for finding in report.findings} <= codes and report.ok is not bool(codes), str(report)
    assert all(MISSED in finding.message for finding in report.findings)


@mo.kernel
def woken(out, waiting, ready, wake, how: mo.Constexpr):
    """Block 0 waits to be woken if nothing is ready, and block 1 wakes whom it finds waiting."""
    me = mo.block_idx().x
    if me == 0:
        mo.store(waiting, 0, 1, order="relaxed")
        between(how, me)
        if mo.load(ready, 0, order="relaxed") == 0:
            while mo.load(wake, 0, order="acquire") == 0:
                pass
    else:
        mo.store(ready, 0, 1, order="relaxed")
        between(how, me)
        if mo.load(waiting, 0, order="relaxed") == 1:
            mo.store(wake, 0, 1)
    out[me] = me


@pytest.mark.parametrize(("how", "right"), HOWS.items())
def test_nobody_is_woken(how, right):
    report = mo.check(woken, lints=False)[2, 1](ints(2), ints(1), ints(1), ints(1), how)
    assert report.ok is right, str(report)
    if not right:
        (finding,) = report.findings
        assert finding.code == "F4" and "polls memory forever" in finding.message and MISSED in finding.message


@mo.kernel
def gives_up_early(out, found, x, n, how: mo.Constexpr):
    """A hint that others are through already: who misses it works on in vain, and that is all."""
    me = mo.block_idx().x
    for i in range(n):
        if mo.load(found, 1 - me, order="relaxed") != 0:
            break
        if x[me, i] == 3:
            mo.store(found, me, 1, order="relaxed")
    out[me] = me


def test_a_hint_may_be_missed():
    x = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(2, 6) % 5)
    assert mo.check(gives_up_early, lints=False)[2, 1](ints(2), ints(2), x, 6, "").ok


@mo.kernel
def ordered_otherwise(out, flag, ticket, how: mo.Constexpr):
    """The load cannot miss a store that the block has heard of, by a barrier or by an atomic."""
    tid, me = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.store(flag, me, 1, order="relaxed")
        if how == "ticket":
            mo.atomic_add(ticket, 0, 1, order="acq_rel")
    mo.sync_threads()
    if tid == 33:
        if how == "own block" and mo.load(flag, me, order="relaxed") == 0:
            out[0] = out[0] + 1
        if how == "ticket" and mo.atomic_add(ticket, 0, 0, order="acq_rel") == 2 and \
                mo.load(flag, 1 - me, order="relaxed") == 0:
            out[0] = out[0] + 1


@pytest.mark.parametrize("how", ["own block", "ticket"])
def test_what_a_load_cannot_miss(how):
    assert mo.check(ordered_otherwise, lints=False)[2, 64](ints(1), ints(2), ints(1), how).ok


@mo.kernel
def looks_twice(out, data, flag, how: mo.Constexpr):
    """A pass of the loop looks at one flag by two loads, and both find what the other block has set."""
    tid = mo.thread_idx().x
    if mo.block_idx().x == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1, order=how)
    else:
        first, second = 0, 0
        while first == 0 or second == 0:
            first = mo.load(flag, 0)
            second = mo.load(flag, 0)
        out[tid] = data[tid]


@pytest.mark.parametrize(("how", "found"), [("release", []), ("relaxed", ["G3"])])
def test_two_loads_that_look_at_one_flag_in_each_pass(how, found):
    report = mo.check(looks_twice, lints=False)[2, 32](ints(32), ints(32), ints(1), how)
    assert [finding.code for finding in report.findings] == found


@mo.kernel
def looks_back(out, state, places: mo.Constexpr, waits: mo.Constexpr):
    """Blocks in the order of a ticket add up what stands in the words of those before, until one says it is all."""
    place = mo.atomic_add(state, places, 1)
    total, at = place, place - 1
    if place > 0:
        mo.store(state, place, 4 * place + 1, order="relaxed")
        more = 1
        while more > 0:
            word = mo.load(state, at, order="relaxed")
            if waits:
                while word == 0:
                    word = mo.load(state, at, order="relaxed")
            total += word // 4
            if word % 4 == 2:
                more = 0
            at -= 1
    mo.store(state, place, 4 * total + 2, order="relaxed")
    out[place] = total


@pytest.mark.parametrize(("waits", "found"), [(True, []), (False, ["B1"])])
def test_relaxed_words_are_old_too_where_nothing_is_ordered(waits, found):
    out = ints(4)
    report = mo.check(looks_back, lints=False)[4, 1](out, ints(5), 4, waits)
    assert sorted({finding.code for finding in report.findings}) == found, str(report)
    assert not waits or out.tolist() == [0, 1, 3, 6]


@mo.kernel
def two_tell(out, flag, threads: mo.Constexpr, order: mo.Constexpr):
    """Threads of block 0 set a flag, and block 1, which has found it, sets the next value."""
    if mo.block_idx().x == 0:
        if mo.thread_idx().x in threads:
            mo.store(flag, 0, 1, order="relaxed" if order == "relaxed" else "release")
    elif mo.thread_idx().x == 0:
        while mo.load(flag, 0, order="relaxed" if order == "relaxed" else "acquire") == 0:
            pass
        mo.store(flag, 0, 2, order="relaxed")
        out[0] = 1


@pytest.mark.parametrize("order", ["relaxed", "release"])
@pytest.mark.parametrize(("threads", "found"), [((0,), []), ((0, 32), ["G3"]), ((31, 32, 63), ["G3"])])
def test_whichever_of_two_warps_was_found_the_other_may_be_late(threads, found, order):
    report = mo.check(two_tell, lints=False)[2, 64](ints(1), ints(1), threads, order)
    assert sorted({finding.code for finding in report.findings}) == found, str(report)


@mo.kernel
def waits_in_a_loop_that_ends(y, x, flags):
    if mo.thread_idx().x == 0:
        k = mo.block_idx().x
        while k < 3:
            if mo.block_idx().x == 0:
                x[k] = 1.0
                mo.store(flags, k, 1, order="release")
            else:
                while mo.load(flags, k, order="acquire") == 0:
                    pass
                y[k] = x[k]
            k += 1


def test_a_wait_in_a_loop_that_ends_is_a_wait():
    """The loop around it is left whatever is read, and the wait is not."""
    report = mo.check(waits_in_a_loop_that_ends, lints=False)[2, 32](
        *(np.zeros(3, np.float32) for _ in range(2)), np.zeros(3, np.int32))
    assert report.ok, str(report)
