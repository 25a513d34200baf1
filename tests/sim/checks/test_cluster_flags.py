"""Flags between the blocks of a cluster order what these do in each other's shared memory, and in global memory."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

THREADS = 64


@mo.kernel
def by_global_flag(out, flag, fault: mo.Constexpr):
    """A release and an acquire of a flag in global memory; the reader answers by another, and nobody meets."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, THREADS)
    if fault != "early":
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    if rank == 0:
        s[tid] = 1.0 * tid
        if fault != "no barrier before":
            mo.sync_threads()
        if tid == 0:
            mo.store(flag, bx, 1, order="relaxed" if fault == "relaxed store" else "release",
                     scope="cta" if fault == "block" else "cluster")
            while fault != "end" and mo.load(flag, bx + 1, order="acquire", scope="cluster") == 0:
                pass
        mo.sync_threads()
        if fault != "end":
            s[tid] = 2.0
    else:
        if tid == 0:
            while mo.load(flag, bx - 1, order="relaxed" if fault == "relaxed load" else "acquire",
                          scope="cluster") == 0:
                pass
        if fault != "no barrier after":
            mo.sync_threads()
        out[tid, bx] = mo.map_shared_rank(s, 0)[tid]
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, bx, 1, order="relaxed" if fault == "relaxed answer" else "release", scope="cluster")


@pytest.mark.parametrize(("fault", "found"), [
    ("", set()), ("early", set()), ("no barrier before", {"C1"}), ("relaxed store", {"C1"}),
    ("block", {"C1"}), ("relaxed load", {"C1"}), ("no barrier after", {"C1"}), ("relaxed answer", {"C2", "D18"}),
    ("end", {"D18"})])
@pytest.mark.parametrize("grid", [2, 6])
def test_a_flag_in_global_memory(fault, found, grid):
    out, flag = np.zeros((THREADS, grid), np.float32), np.zeros(grid, np.int32)
    report = mo.check(by_global_flag, lints=False).launch(out, flag, fault, grid=grid, block=THREADS, cluster=2)
    assert bool(report.findings) == bool(found), str(report)
    assert {finding.code for finding in report.findings} <= found | {"D19"}, str(report)


@mo.kernel
def by_atomic(out, x, where: mo.Constexpr, fault: mo.Constexpr):
    """An atomic update of a word of shared memory between two fences, there or here, by a thread that polls it here or
    there."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    s, f = mo.shared_array(mo.float32, THREADS), mo.shared_array(mo.int32, 1)
    if tid == 0:
        f[0] = 0
    mo.cluster_sync()
    if rank == 0:
        s[tid] = 1.0 * tid
        x[tid, bx] = 1.0 * tid
        mo.sync_threads()
        if tid == 0:
            if fault != "no fence before":
                mo.fence(scope="cta" if fault == "block" else "cluster")
            mo.atomic_add(mo.map_shared_rank(f, 1) if where == "there" else f, 0, 1, scope="cluster")
    else:
        if tid == 0:
            there = f if where == "there" else mo.map_shared_rank(f, 0)
            while mo.atomic_add(there, 0, 0, scope="cluster") == 0:
                pass
            if fault != "no fence after":
                mo.fence(scope="cluster")
        mo.sync_threads()
        out[tid, bx] = mo.map_shared_rank(s, 0)[tid] + x[tid, bx - 1]
    mo.cluster_sync()


@pytest.mark.parametrize("fault", ["", "no fence before", "no fence after", "block"])
@pytest.mark.parametrize("where", ["there", "here"])
def test_an_atomic_in_shared_memory(where, fault):
    out, x = (np.zeros((THREADS, 4), np.float32) for _ in range(2))
    report = mo.check(by_atomic, lints=False).launch(out, x, where, fault, grid=4, block=THREADS, cluster=2)
    found = {finding.code for finding in report.findings}
    assert found in ([{"C1", "G3"}, {"C1", "G5"}] if fault else [set()]), str(report)
    if not fault:
        np.testing.assert_array_equal(out[:, 1], 2 * np.arange(THREADS))


@mo.kernel
def polled_by_acquire(out, fault: mo.Constexpr):
    """Words that blocks write into each other's memory, each lane with a flag of its own, which an acquire polls."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    s, f = mo.shared_array(mo.float32, 32), mo.shared_array(mo.int32, 32)
    f[tid] = 0
    mo.cluster_sync()
    mo.map_shared_rank(s, rank ^ 1)[tid] = 1.0 * tid
    if fault != "no fence":
        mo.fence(scope="cluster")
    mo.atomic_exch(mo.map_shared_rank(f, rank ^ 1), tid, 1, scope="cluster")
    while mo.load(f, tid, order="relaxed" if fault == "relaxed" else "acquire", scope="cluster") == 0:
        pass
    out[tid, bx] = s[tid ^ 1 if fault == "another's" else tid]
    mo.cluster_sync()


@pytest.mark.parametrize("fault", ["", "no fence", "relaxed", "another's"])
def test_a_flag_for_each_lane(fault):
    out = np.zeros((32, 4), np.float32)
    report = mo.check(polled_by_acquire, lints=False).launch(out, fault, grid=4, block=32, cluster=2)
    assert {finding.code for finding in report.findings} == ({"C1"} if fault else set()), str(report)
    if not fault:
        np.testing.assert_array_equal(out, np.arange(32)[:, None] * np.ones(4))


@mo.kernel
def passed_on(out, flag, how: mo.Constexpr, fault: mo.Constexpr):
    """Block 0 tells block 1 by an mbarrier or a flag, and that block 2 by the other of the two."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, bars = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    if rank == 0:
        s[tid] = 1.0 * tid
        mo.sync_warp()
        if tid == 0:
            if how == "mbarrier first":
                mo.mbarrier_arrive(bars, 0, cta=1)
            else:
                mo.store(flag, 0, 1, order="release", scope="cluster")
    elif rank == 1:
        if tid == 0:
            if how == "mbarrier first":
                mo.mbarrier_wait(bars, 0, 0)
                mo.store(flag, 0, 1, order="relaxed" if fault else "release", scope="cluster")
            else:
                while mo.load(flag, 0, order="relaxed" if fault else "acquire", scope="cluster") == 0:
                    pass
                mo.mbarrier_arrive(bars, 0, cta=2)
    else:
        if tid == 0:
            if how == "mbarrier first":
                while mo.load(flag, 0, order="acquire", scope="cluster") == 0:
                    pass
            else:
                mo.mbarrier_wait(bars, 0, 0)
        mo.sync_warp()
        out[tid] = mo.map_shared_rank(s, 0)[tid]
    mo.cluster_sync()


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("how", ["mbarrier first", "flag first"])
def test_a_block_passes_on_what_it_was_told(how, fault):
    out, flag = np.zeros(32, np.float32), np.zeros(1, np.int32)
    report = mo.check(passed_on, lints=False).launch(out, flag, how, fault, grid=3, block=32, cluster=3)
    assert [finding.code for finding in report.findings] == (["C1"] if fault else []), str(report)


@mo.kernel
def counted(out, how: mo.Constexpr, owner: mo.Constexpr, scope: mo.Constexpr, between: mo.Constexpr):
    """A word that a block uses atomically, and another block of the cluster, too."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    s, found = mo.shared_array(mo.int32, 2), mo.int32(0)
    if tid == 0:
        s[0] = 0
    mo.cluster_sync()
    if tid == 0 and rank == owner:
        if how == "adds":
            mo.atomic_add(s, 0, 1, scope=scope)
        elif how == "loads":
            found = mo.load(s, 0, order="relaxed", scope=scope)
        else:
            mo.store(s, 0, 1, order="relaxed", scope=scope)
    if between:
        mo.cluster_sync()
    if tid == 0 and rank != owner:
        mo.atomic_add(mo.map_shared_rank(s, owner), 0, 1, scope="cluster")
    mo.cluster_sync()
    if tid == 0:
        out[bx] = s[0] + found


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("how", ["adds", "loads", "stores"])
@pytest.mark.parametrize(("scope", "between", "found"), [
    ("cta", False, ["D19"]), ("cluster", False, []), ("gpu", False, []), ("cta", True, [])])
def test_the_scope_of_atomics_that_meet_those_of_another_block(how, owner, scope, between, found):
    report = mo.check(counted, lints=False).launch(np.zeros(4, np.int32), how, owner, scope, between, grid=4, block=32,
                                                   cluster=2)
    assert [finding.code for finding in report.findings] == found, str(report)
    if found:
        message = report.findings[0].message
        assert "is accessed atomically by thread 0 of block" in message and "scope of one of the two ends" in message
