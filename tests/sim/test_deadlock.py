"""Blocks that cannot go on: every group with what it waits for, who could bring it, and who has left."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import moye as mo
from moye.errors import Frame, Loc
from moye.ir import ops
from moye.sim.deadlock import Deadlock, Exited, Waiter

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
