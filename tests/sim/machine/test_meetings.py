"""Barriers and warp operations that only a part comes to are found; who has returned may be absent."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from meeting_kernels import CASES


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel.__name__)
def test_a_part_is_found_and_all_are_clean(case):
    wrong = case.run(False)
    assert wrong.findings and {finding.code for finding in wrong.findings} <= case.codes, str(wrong)
    right = case.run(True)
    assert right.ok, str(right)


def test_who_has_gone_past_is_told():
    (finding,) = next(case for case in CASES if case.kernel.__name__ == "half_a_warp").run(False).findings
    assert finding.message == (
        f"threads 0-15 of block (0, 0, 0) wait at sync_threads at line {finding.locs[0].line}, which threads 16-31 of "
        "block (0, 0, 0) have gone past, and have come to the end of the kernel")
    assert finding.threads == (0, 16)


def test_a_cluster_names_who_has_not_come():
    (finding,) = next(case for case in CASES if case.kernel.__name__ == "cluster_by_one_block").run(False).findings
    assert finding.message.startswith("warps 0-3 of block (0, 0, 0) wait at the cluster's barrier")
    assert "which warps 0-3 of block (1, 0, 0) have gone past" in finding.message


# --- right, though it looks otherwise --------------------------------------------------------------------------------


@mo.kernel
def early_return(x, n):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    if tid >= n:
        return
    s[tid] = x[tid]
    mo.sync_threads()
    x[tid] = s[n - 1 - tid]


@mo.kernel
def returns_pass_by_pass(x, n):
    """Warp after warp leaves the loop behind its barrier."""
    tid = mo.thread_idx().x
    for k in range(n):
        x[tid] += 1.0
        mo.sync_threads()
        if k == tid // 32:
            return


@mo.kernel
def returns_before_the_barrier_of_a_pass(x, n):
    tid = mo.thread_idx().x
    for k in range(n):
        if k == tid // 32:
            return
        x[tid] += 1.0
        mo.sync_threads()


@mo.kernel
def trips_without_a_barrier(x, n):
    """The passes of a loop differ, those of its barrier do not."""
    tid = mo.thread_idx().x
    for _ in range(3):
        for k in range(tid % 5 + 1):
            if k == 0:
                mo.sync_threads()
            x[tid] += 1.0


@mo.kernel
def a_role_returns(x, n):
    """The producer's warp has returned; the others use the barrier of the block."""
    tid = mo.thread_idx().x
    if mo.warp_idx() == 3:
        x[tid] = 1.0
        return
    s = mo.shared_array(mo.float32, 96)
    s[tid] = x[tid]
    mo.sync_threads()
    x[tid] = s[95 - tid]


@mo.kernel
def named_after_a_return(x, n):
    """Warp 1 comes with eight lanes, and counts as a whole."""
    tid = mo.thread_idx().x
    if tid >= n:
        return
    mo.barrier_sync(1, 64)
    x[tid] = 2.0


@mo.kernel
def lanes_come_late(x, n):
    tid, k = mo.thread_idx().x, mo.thread_idx().x % 7
    while k > 0:
        k -= 1
    x[tid] = k
    mo.barrier_sync(1, 128)
    mo.sync_warp()
    x[tid] += 2.0


@mo.kernel
def shuffle_after_a_return(x, n):
    """Nobody reads a lane that has returned."""
    tid = mo.thread_idx().x
    if tid >= n:
        return
    x[tid] = mo.shuffle_xor(x[tid], 1)


@mo.kernel
def elected_in_one_warp(x, n):
    tid = mo.thread_idx().x
    if mo.warp_idx() == 0 and mo.elect():
        x[tid] = 3.0
    x[tid] += 1.0


@mo.kernel
def counts_down_together(x, n):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, 1)
    if tid == 0:
        s[0] = n
    mo.sync_threads()
    left = s[0]
    while left > 0:
        mo.sync_threads()
        if tid == 0:
            s[0] = left - 1
        mo.sync_threads()
        left = s[0]
    x[tid] = left


@mo.kernel
def last_warp(x, n):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    mo.sync_threads()
    if tid < 64:
        s[tid] = s[tid] + s[tid + 64]
    mo.sync_threads()
    if tid < 32:
        v = s[tid] + s[tid + 32]
        for d in (16, 8, 4, 2, 1):
            v += mo.shuffle_down(v, d)
        if tid == 0:
            x[0] = v


@mo.kernel
def two_pairs_of_warps(x, n):
    tid = mo.thread_idx().x
    for _ in range(n):
        if tid < 64:
            mo.barrier_sync(1, 64)
            x[tid] += 1.0
            mo.barrier_sync(1, 64)
        else:
            mo.barrier_sync(2, 64)
            x[tid] += 2.0
        mo.sync_threads()


@mo.kernel
def handed_over(x, n):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    if tid < 64:
        for k in range(n):
            mo.barrier_sync(1, 128)
            s[tid] = x[tid] + k
            mo.barrier_arrive(2, 128)
    else:
        for _ in range(n):
            mo.barrier_arrive(1, 128)
            mo.barrier_sync(2, 128)
            x[tid] = s[127 - tid]


@pytest.mark.parametrize("n", [40, 64, 128])
@pytest.mark.parametrize("kernel", [early_return, shuffle_after_a_return])
def test_threads_that_returned_need_not_come(kernel, n):
    report = mo.check(kernel, lints=False)[1, 128](np.ones(128, np.float32), n)
    assert report.ok, str(report)


@pytest.mark.parametrize("kernel", [returns_pass_by_pass, returns_before_the_barrier_of_a_pass, trips_without_a_barrier,
                                    a_role_returns, lanes_come_late, elected_in_one_warp, counts_down_together,
                                    last_warp, two_pairs_of_warps, handed_over])
def test_all_who_should_come_do(kernel):
    report = mo.check(kernel, lints=False)[1, 128](np.ones(128, np.float32), 4)
    assert report.ok, str(report)


@pytest.mark.parametrize(("block", "n"), [(128, 40), (128, 64), (48, 48)])
def test_a_warp_counts_as_a_whole_at_a_named_barrier(block, n):
    report = mo.check(named_after_a_return, lints=False)[1, block](np.ones(block, np.float32), n)
    assert report.ok, str(report)


@mo.kernel
def roles_of_a_cluster(x):
    tid = mo.thread_idx().x
    if tid >= 96:
        return
    if tid >= 64:
        x[mo.block_idx().x * 128 + tid] = 1.0
        mo.cluster_sync()
    else:
        for _ in range(1):
            mo.cluster_sync()
    x[mo.block_idx().x * 128 + tid] = 2.0


def test_roles_may_meet_their_cluster_at_different_statements():
    report = mo.check(roles_of_a_cluster, lints=False).launch(np.ones(256, np.float32), grid=2, block=128, cluster=2)
    assert report.ok, str(report)


@mo.kernel
def hands_over(x, kind: mo.Constexpr):
    """Warp 0 arrives at a named barrier at the end, for warp 1, or for nobody."""
    tid = mo.thread_idx().x
    if tid < 32:
        mo.barrier_sync(2, 64)
    else:
        mo.barrier_arrive(2, 64)
    x[tid] = 1.0
    if kind == "all arrive" or tid < 32:
        mo.barrier_arrive(1, 64)
    elif kind == "heard":
        mo.barrier_sync(1, 64)


@pytest.mark.parametrize(("kind", "said"), [
    ("heard", ""), ("nobody", "nobody waits there until the block ends: 32 of the 64 threads that it counts have come"),
    ("all arrive", "and nobody waits where it opens")])
def test_arrivals_that_nobody_waits_for(kind, said):
    for strict in (False, True):
        report = mo.check(hands_over, strict=strict)[2, 64](np.zeros(64, np.float32), kind)
        told = [one for one in (report.findings if strict else report.lints) if one.code == "C5"]
        assert len(told) == bool(said) and all(said in one.message for one in told), str(report)
        assert strict or report.ok
