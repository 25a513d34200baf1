"""Blocks that cannot go on: every group with what it waits for, who could bring it, and who has left."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import moye as mo
from moye.errors import Frame, Loc
from moye.ir import ops
from moye.sim.findings.deadlock import Deadlock, Exited, Waiter

LANES = 32


def stuck(kernel, block=128):
    """The one finding of a kernel whose blocks cannot go on, with ``line(text)``: where its source says ``text``."""
    report = mo.check(kernel)[1, block](np.zeros(block, np.float32))
    (finding,) = report.findings
    lines, first = inspect.getsourcelines(kernel.function)
    return finding, lambda text: next(first + i for i, line in enumerate(lines) if text in line)


@mo.kernel
def three_roles(x):
    warp = mo.warp_idx()
    if warp == 0:
        mo.barrier_sync(1, 64)          # the first
        mo.barrier_arrive(2, 64)
    elif warp == 1:
        mo.barrier_sync(2, 64)          # the second
        mo.barrier_arrive(3, 96)
    else:
        mo.barrier_sync(3, 96)          # the third
        mo.barrier_arrive(1, 96)


def test_a_cycle_names_every_group():
    finding, line = stuck(three_roles)
    assert finding.code == "F4" and finding.block == (0, 0, 0) and finding.threads == (0, 32, 64)
    assert finding.message == (
        "block (0, 0, 0) is deadlocked: "
        f"warp 0 waits at named barrier 1 (line {line('the first')}) for 32 more arrivals, which only warps 1-3 could "
        f"bring; warp 1 waits at named barrier 2 (line {line('the second')}) for 32 more arrivals, which only warps "
        f"0 and 2-3 could bring; warps 2-3 wait at named barrier 3 (line {line('the third')}) for 32 more arrivals, "
        "which only warps 0-1 could bring")
    assert [loc.line for loc in finding.locs] == [line("the first"), line("the second"), line("the third")]
    assert finding.hint == "one of them must arrive before it waits"


@mo.kernel
def the_others_return(x):
    tid = mo.thread_idx().x
    if tid >= 96:
        return
    if tid < 64:
        mo.barrier_sync(1, 128)
        x[tid] = 1


def test_who_has_left_is_told_with_where():
    finding, line = stuck(the_others_return)
    assert finding.code == "C5"
    assert finding.message == (
        f"block (0, 0, 0) is deadlocked: warps 0-1 wait at named barrier 1 (line {line('barrier_sync')}) for 64 more "
        f"arrivals, and no other thread is left to bring them; warp 3 has returned (line {line('    return')}); warp 2 "
        f"has come to the end of the kernel")
    assert [loc.line for loc in finding.locs] == [line("barrier_sync"), line("    return")]


@mo.kernel
def more_than_the_block(x):
    mo.barrier_sync(1, 160)
    x[0] = 1


@mo.kernel
def count_of_one_thread(x):
    if mo.warp_idx() == 0:
        mo.barrier_sync(1, 64)
        x[0] = 1
    elif mo.lane_idx() == 0:
        mo.barrier_arrive(1, 64)        # one thread arrives, not the warp


@pytest.mark.parametrize(("kernel", "missing"), [(more_than_the_block, "32 more arrivals"),
                                                 (count_of_one_thread, "29 more arrivals")])
def test_a_count_that_cannot_be_met(kernel, missing):
    finding, _ = stuck(kernel)
    assert finding.code == "C5" and missing in finding.message and "no other thread is left" in finding.message


@mo.kernel
def role_with_a_block_barrier(x):
    tid = mo.thread_idx().x
    if tid < 48:
        mo.sync_threads()
        x[tid] = 1
    else:
        mo.barrier_sync(1, 128)
        x[tid] = 2


def test_a_block_barrier_names_the_threads_that_are_missing():
    finding, line = stuck(role_with_a_block_barrier)
    assert finding.code == "C4" and finding.message.startswith(
        f"block (0, 0, 0) is deadlocked: threads 0-47 wait at sync_threads (line {line('sync_threads')}) for threads "
        f"48-127; threads 48-127 wait at named barrier 1 (line {line('barrier_sync')}) for 48 more arrivals, which "
        "only threads 0-47 could bring")


@mo.kernel
def role_with_a_barrier_of_its_own(x, inner: mo.Constexpr, outer: mo.Constexpr):
    """Warps 0-1 fill what warps 2-3 read; ``outer``: all meet at the end."""
    tid = mo.thread_idx().x
    part, full, empty = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 64)
        mo.mbarrier_init(empty, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if mo.warp_idx() < 2:               # who fills
        for k in range(3):
            mo.mbarrier_wait(empty, 0, k % 2 ^ 1)
            part[tid] = x[tid]
            mo.mbarrier_arrive(full, 0)
    else:
        for k in range(3):
            mo.mbarrier_wait(full, 0, k % 2)
            x[tid] = part[127 - tid]
            if inner == "block":
                mo.sync_threads()       # of the block
            else:
                mo.barrier_sync(1, 64)
            if tid == 64:
                mo.mbarrier_arrive(empty, 0)
    if outer:
        mo.sync_threads()               # at the end


def role(inner, outer=False):
    report = mo.check(role_with_a_barrier_of_its_own, lints=False)[1, 128](np.ones(128, np.float32), inner, outer)
    lines, first = inspect.getsourcelines(role_with_a_barrier_of_its_own.function)
    return report, lambda text: next(first + i for i, line in enumerate(lines) if text in line)


def test_a_block_barrier_inside_one_role():
    report, line = role("block")
    (finding,) = report.findings
    assert finding.code == "F7" and finding.hint == "barrier_sync(id, count) among the threads of the role"
    assert (f"warps 2-3 wait at sync_threads (line {line('# of the block')}), which is inside of one role (the branch "
            f"at line {line('# who fills')}), for warps 0-1") in finding.message
    assert [loc.line for loc in finding.locs] == [line("wait(empty"), line("# of the block"), line("# who fills")]
    for outer in (False, True):
        assert role("named", outer)[0].ok


def test_a_block_barrier_inside_one_role_that_meets_another_one():
    @mo.kernel
    def kernel(x):
        tid = mo.thread_idx().x
        if tid < 32:                    # two roles
            mo.barrier_arrive(1, 64)
        else:
            mo.barrier_sync(1, 64)
            mo.sync_threads()           # inside
        x[tid] = 1
        mo.sync_threads()               # behind

    finding, line = stuck(kernel, 64)
    assert finding.code == "F7"
    assert f"warp 0 at sync_threads at line {line('# behind')}" in finding.message
    assert f"warp 1 at sync_threads at line {line('# inside')}" in finding.message
    assert f"the branch at line {line('# two roles')} makes one of them part of one role" in finding.message


@pytest.mark.parametrize("warps", [True, False])
def test_a_condition_that_is_no_role(warps):
    """On data, or through the middle of a warp."""
    @mo.kernel
    def kernel(x, warps: mo.Constexpr):
        tid = mo.thread_idx().x
        if x[tid] > 0 if warps else tid < 40:
            mo.barrier_arrive(1, 64)
            mo.sync_threads()
        else:
            mo.barrier_sync(2, 64)
            x[tid] = 1

    report = mo.check(kernel, lints=False)[1, 64](np.repeat([1.0, 0.0], 32).astype(np.float32), warps)
    assert [finding.code for finding in report.findings] == ["C4"], str(report)


@mo.kernel
def named_barrier_0(x):
    tid = mo.thread_idx().x
    if tid < 64:
        mo.barrier_sync(0, 64)
        x[tid] = 1
    mo.sync_threads()
    x[tid] = 2


def test_named_barrier_0_is_that_of_sync_threads():
    """No deadlock here, but warps 2-3 could arrive first and let a warp of the others pass."""
    finding, line = stuck(named_barrier_0)
    assert finding.code == "C5" and "barrier 0, which is that of sync_threads" in finding.message
    assert [loc.line for loc in finding.locs] == [line("barrier_sync"), line("sync_threads")]


def test_counts_and_numbers_that_no_barrier_has():
    @mo.kernel
    def counted(x, count: mo.Constexpr):
        mo.barrier_sync(1, count)

    @mo.kernel
    def numbered(x, n):
        mo.barrier_sync(n, 128)

    with pytest.raises(mo.MoyeError, match="a multiple of 32 up to 1024") as caught:
        counted[1, 128](np.zeros(1, np.float32), 48)
    assert caught.value.code == "C5"
    (finding,) = mo.check(numbered)[1, 128](np.zeros(1, np.float32), 16).findings
    assert finding.code == "C5" and "arrive at named barrier 16 at line" in finding.message
    assert finding.message.endswith("; barriers are 0 to 15") and mo.check(numbered)[1, 128](np.zeros(1), 15).ok


@mo.kernel
def half_a_warp_shuffles(x):
    lane = mo.lane_idx()
    if lane < 16:
        x[lane] = mo.shuffle_down(1.0, 1)
    else:
        mo.sync_warp()
        x[lane] = 2


def test_a_warp_operation_names_the_lanes_that_are_missing():
    finding, line = stuck(half_a_warp_shuffles, LANES)
    assert finding.code == "C6"
    assert f"threads 0-15 wait at a shuffle (line {line('shuffle_down')}) for threads 16-31" in finding.message
    assert f"threads 16-31 wait at sync_warp (line {line('sync_warp')}) for threads 0-15" in finding.message


@mo.kernel
def in_an_unrolled_loop(x):
    for k in mo.static_range(3):
        if mo.warp_idx() <= k:
            mo.barrier_sync(1, 64)
    x[mo.thread_idx().x] = 1


def test_the_trip_of_an_unrolled_loop_is_told():
    finding, line = stuck(in_an_unrolled_loop, 64)
    assert f"warp 0 waits at named barrier 1 (line {line('barrier_sync')}, k = 2)" in finding.message


# --- the graph -------------------------------------------------------------------------------------------------------


def waiter(threads, needs, line, kind="named", **fields):
    op = ops.SyncWarp(loc=Loc((Frame("kernel.py", line),)))
    return Waiter(kind, f"barrier of line {line}", tuple(threads), op, tuple(needs), **fields)


def test_the_cycle_is_told_first_and_waiters_behind_it_after_it():
    behind = waiter(range(32), range(32, 64), 1, missing=32)
    one, two = waiter(range(32, 64), range(64, 96), 2, missing=32), waiter(range(64, 96), range(32, 64), 3, missing=32)
    dead = Deadlock((0, 0, 0), 96, (behind, one, two))
    assert dead.cycle() == (one, two) and dead.told == (one, two, behind) and dead.code == "F4"
    assert [loc.line for loc in dead.locs] == [2, 3, 1]


def test_no_cycle_without_a_way_back():
    waiters = waiter(range(32), range(32, 64), 1, missing=32), waiter(range(32, 64), (), 2, missing=1)
    dead = Deadlock((0, 0, 0), 64, waiters, (Exited((3,), None),))
    assert dead.cycle() == () and dead.code == "C5"
    assert str(dead).endswith("for 1 more arrival, and no other thread is left to bring them; thread 3 has come to the "
                              "end of the kernel")


def test_many_groups_are_counted():
    dead = Deadlock((0, 0, 0), 1024, tuple(waiter([t], [], t + 1, kind="warp") for t in range(9)))
    assert "; 3 more groups wait" in str(dead) and dead.code == "C6"


@mo.kernel
def a_lane_of_an_arriving_warp_waits(out, how: mo.Constexpr):
    """bar.arrive is an instruction of whole warps: nobody of warp 0 goes past it before thread 0 comes."""
    tid = mo.thread_idx().x
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
    mo.sync_threads()
    if tid < 32:
        if tid == 0:
            mo.mbarrier_wait(bars, 0, 0)
        mo.barrier_arrive(1, 64)
        if tid == 1 and how == "behind":
            mo.mbarrier_arrive(bars, 0)
    else:
        if tid == 32 and how == "other warp":
            mo.mbarrier_arrive(bars, 0)
        mo.barrier_sync(1, 64)
    out[tid] = tid


def test_a_warp_arrives_as_a_whole():
    assert mo.check(a_lane_of_an_arriving_warp_waits, lints=False)[1, 64](np.zeros(64, np.int32), "other warp").ok
    report = mo.check(a_lane_of_an_arriving_warp_waits, lints=False)[1, 64](np.zeros(64, np.int32), "behind")
    (finding,) = report.findings
    assert finding.code == "F4"
    assert "thread 0 waits for phase 0 of bars(0)" in finding.message
    assert re.search(r"threads 1-31 wait at barrier_arrive \(line \d+\) for thread 0", finding.message)


@mo.kernel
def nobody_waits_where_it_opens(out, told: mo.Constexpr):
    """Warps 0 and 1 open barrier 1 and go on; then warps 2 and 3 meet there."""
    tid = mo.thread_idx().x
    warp = tid // 32
    if warp < 2:
        mo.barrier_arrive(1, 64)
        if told == "both" or (told == "one" and warp == 0):
            mo.barrier_arrive(2, 128 if told == "both" else 96)
    if told == "block":
        mo.sync_threads()
    if warp >= 2:
        if told in ("both", "one"):
            mo.barrier_sync(2, 128 if told == "both" else 96)
        mo.barrier_sync(1, 64)
    out[tid] = tid


@pytest.mark.parametrize(("told", "strangers"), [
    ("block", None), ("both", None), ("", "warps 0-1"), ("one", "warp 1")])
def test_an_opening_that_nobody_waits_for(told, strangers):
    """An arrival of the next use may count for the one before, unless it comes after all arrivals of that."""
    report = mo.check(nobody_waits_where_it_opens, lints=False)[2, 128](np.zeros(128, np.int32), told)
    found = [finding for finding in report.findings if finding.code != "G1"]
    assert [finding.code for finding in found] == ["C5"] * (strangers is not None), str(report)
    if strangers is not None:
        assert re.match(
            rf"warps 2-3 of block \(0, 0, 0\) and {strangers} use named barrier 1 in an order that nothing decides: "
            rf"nobody waits where it opens at line \d+, and no barrier is between {strangers} arriving there and "
            r"warps 2-3 arriving at line \d+", found[0].message)
        assert found[0].hint is not None and found[0].hint.startswith("let somebody wait where it opens")


@mo.kernel
def passes_an_operation_of_its_warp(y, op: mo.Constexpr, behind: mo.Constexpr, where: mo.Constexpr):
    """Some lanes come to ``op``, or to what is behind it, and the other lanes of their warps go past."""
    tid, bar, v = mo.thread_idx().x, mo.mbarrier_array(1), mo.int32(0)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 64)
    mo.sync_threads()
    for _ in range(2):
        if where != "op" or tid % 32 < 8:
            if op == "shuffle":
                v = mo.shuffle_xor(v, 1)
            elif op == "vote":
                v += 1 if mo.vote_any(v > 3) else 0
            else:
                mo.sync_warp()
        if where != "behind" or tid % 32 < 8:
            if behind == "block":
                mo.sync_threads()
            elif behind == "named":
                mo.barrier_sync(1, 64)
            else:
                mo.mbarrier_arrive(bar, 0)
                mo.mbarrier_wait(bar, 0, 0)
    y[tid] = v


@pytest.mark.parametrize("op", ["shuffle", "vote", "sync_warp"])
@pytest.mark.parametrize(("behind", "code"), [("block", "C4"), ("named", "F4"), ("mbarrier", "D9")])
def test_lanes_that_go_past_an_operation_of_their_warp(op, behind, code):
    """C6, whatever they wait for behind it; where they go past a barrier it is the barrier's class."""
    found = mo.check(passes_an_operation_of_its_warp, lints=False)[1, 64](np.zeros(64, np.int32), op, behind, "op")
    assert [finding.code for finding in found.findings] == ["C6"]
    found = mo.check(passes_an_operation_of_its_warp, lints=False)[1, 64](np.zeros(64, np.int32), op, behind, "behind")
    assert code in {finding.code for finding in found.findings} and "C6" not in str(found), found
