"""Kernels in which only a part of a warp, block or cluster comes to where all should meet; ``ok``: the right twin.

In: ``x`` (one element for each thread of the grid), ``ok``.  Out: ``CASES``: what is wrong, and how it is launched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import moye as mo

FULL, HALF = 0xFFFFFFFF, 0xFFFF


@dataclass(frozen=True)
class Case:
    kernel: Any
    codes: frozenset[str]
    block: int
    grid: int
    cluster: int
    arguments: tuple[Any, ...]

    def run(self, ok, **options):
        x = np.ones(self.block * self.grid, np.float32)
        check = mo.check(self.kernel, lints=False, **options)
        return check.launch(x, *self.arguments, ok, grid=self.grid, block=self.block, cluster=self.cluster)


CASES: list[Case] = []


def case(*codes, block=128, grid=1, cluster=1, arguments=()):
    """The kernel is launched so, and has a fault of one of these classes and of no other."""
    def register(kernel):
        CASES.append(Case(kernel, frozenset(codes), block, grid, cluster, arguments))
        return kernel
    return register


# --- sync_threads ----------------------------------------------------------------------------------------------------


@case("C4", block=32)
@mo.kernel
def half_a_warp(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < (32 if ok else 16):
        mo.sync_threads()
    x[tid] = 1.0


@case("C4")
@mo.kernel
def two_warps_of_four(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if mo.warp_idx() < 2 or ok:
        mo.sync_threads()
    x[tid] = 1.0


@case("C4", arguments=(40,))
@mo.kernel
def guard_around_all(x, n, ok: mo.Constexpr):
    """Who is beyond the end skips the whole kernel; the twin returns."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    if ok:
        if tid >= n:
            return
        s[tid] = x[tid]
        mo.sync_threads()
        x[tid] = s[n - 1 - tid]
    elif tid < n:
        s[tid] = x[tid]
        mo.sync_threads()
        x[tid] = s[n - 1 - tid]


@case("C4", arguments=(64,))
@mo.kernel
def returns_behind_the_barrier(x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if ok and tid >= n:
        return
    if tid < n:
        mo.sync_threads()
    if tid >= n:
        return
    x[tid] = 2.0


@case("C4")
@mo.kernel
def by_data(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if x[tid] > (0.0 if ok else mo.where(tid < 5, 2.0, 0.0)):
        mo.sync_threads()
    x[tid] = 2.0


@case("C4")
@mo.kernel
def another_barrier_later(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64:
        x[tid] = 2.0
        if not ok:
            mo.sync_threads()
    mo.sync_threads()
    x[tid] = 3.0


@case("C4")
@mo.kernel
def a_barrier_in_each_arm(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16:
        x[tid] = 2.0
        if not ok:
            mo.sync_threads()
    else:
        x[tid] = 3.0
        if not ok:
            mo.sync_threads()
    if ok:
        mo.sync_threads()
    x[tid] += 3.0


@case("C4")
@mo.kernel
def trips_by_warp(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for _ in range(4 if ok else tid // 32 + 1):
        x[tid] += 1.0
        mo.sync_threads()


@case("C4")
@mo.kernel
def trips_by_lane(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for _ in range(tid % 2 + 1):
        x[tid] += 1.0
        if not ok:
            mo.sync_threads()
    mo.sync_threads()


@case("C4")
@mo.kernel
def breaks_before_the_barrier(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for k in range(4):
        if k == (2 if ok else tid // 32):
            break
        mo.sync_threads()
    x[tid] = 1.0


@case("C4")
@mo.kernel
def continues_past_the_barrier(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for k in range(4):
        if (k + (0 if ok else tid // 32)) % 2 == 0:
            continue
        mo.sync_threads()
    x[tid] = 1.0


@case("C4")
@mo.kernel
def takes_turns(x, ok: mo.Constexpr):
    """As many barriers for all, but in different passes."""
    tid = mo.thread_idx().x
    for k in range(4):
        if (k + (0 if ok else tid // 32)) % 2 == 0:
            mo.sync_threads()
    x[tid] = 1.0


@case("C4")
@mo.kernel
def leaves_a_loop_it_skipped(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for _ in range(4):
        if tid < 64 or ok:
            mo.sync_threads()
        if tid >= 64:
            return
        x[tid] += 1.0


@case("C4")
@mo.kernel
def an_inner_loop(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for _ in range(2):
        for k in range(3):
            if k < 2 or tid < 96 or ok:
                mo.sync_threads()
        x[tid] += 1.0


@mo.jit
def staged(x, tid, first):
    if tid < first:
        return
    mo.sync_threads()
    x[tid] = 2.0


@case("C4")
@mo.kernel
def a_callee_returns(x, ok: mo.Constexpr):
    """To come back from a function is not to leave the kernel."""
    tid = mo.thread_idx().x
    staged(x, tid, 0 if ok else 16)
    x[tid] += 1.0


@case("F7", "C4")
@mo.kernel
def inside_of_a_role(x, ok: mo.Constexpr):
    """The other role has come to its end when this one meets; the twin meets among its own warps."""
    tid = mo.thread_idx().x
    part, full = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 64:
        part[tid] = x[tid]
        mo.mbarrier_arrive(full, 0)
    else:
        mo.mbarrier_wait(full, 0, 0)
        x[tid] = part[127 - tid]
        if ok:
            mo.barrier_sync(1, 64)
        else:
            mo.sync_threads()


@case("C4")
@mo.kernel
def passes_by_data(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    n = x[0] + 2.0 if ok else x[tid] + mo.where(tid == 77, 2.0, 1.0)
    mo.sync_threads()
    while n > 0:
        n = n - 1.0
        mo.sync_threads()
    x[tid] = n


@case("C4", arguments=(64,))
@mo.kernel
def tree(x, n, ok: mo.Constexpr):
    """The sum of a block, whose barrier belongs to all."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    mo.sync_threads()
    d = n
    while d > 0:
        if tid < d:
            s[tid] = s[tid] + s[tid + d]
            if not ok:
                mo.sync_threads()
        if ok:
            mo.sync_threads()
        d = d // 2
    if tid == 0:
        x[0] = s[0]


@case("C4", arguments=(100,))
@mo.kernel
def strides_of_threads(x, n, ok: mo.Constexpr):
    """The last stride is not for all."""
    tid = mo.thread_idx().x
    for t in range(tid, 1024 if ok else 8 * n, 128):
        x[tid] += t
        mo.sync_threads()


@case("C4")
@mo.kernel
def breaks_by_data(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    n = 2.0 if ok else x[tid] + tid % 3
    while True:
        mo.sync_threads()
        n = n - 1.0
        if n < 0:
            break
    x[tid] = n


@case("C4", "F7")
@mo.kernel
def number_nought(x, ok: mo.Constexpr):
    """Named barrier 0 is that of the block, but not for half of the warps each."""
    tid = mo.thread_idx().x
    if tid < 64 and not ok:
        mo.barrier_sync(0, 128)
    else:
        mo.sync_threads()
    x[tid] = 1.0


# --- named barriers --------------------------------------------------------------------------------------------------


@case("C5")
@mo.kernel
def named_by_half_warps(x, ok: mo.Constexpr):
    """64 threads come, of four warps; a warp counts as a whole."""
    tid = mo.thread_idx().x
    if tid % 32 < (32 if ok else 16):
        mo.barrier_sync(1, 128 if ok else 64)
    x[tid] = 2.0


@case("C5")
@mo.kernel
def named_in_both_arms(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16 and not ok:
        mo.barrier_sync(1, 128)
    else:
        mo.barrier_sync(1, 128)
    x[tid] = 2.0


@case("C5")
@mo.kernel
def arrives_with_a_part(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64:
        mo.barrier_sync(1, 128 if ok else 96)
    elif tid % 32 < 16 or ok:
        mo.barrier_arrive(1, 128 if ok else 96)
    x[tid] = 2.0


@case("C5")
@mo.kernel
def named_counts_too_few(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    mo.barrier_sync(2, 128 if ok else 96)
    x[tid] = 2.0


@case("C5")
@mo.kernel
def named_counts_too_many(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64:
        mo.barrier_sync(2, 64 if ok else 96)
    x[tid] = 2.0


@case("C5", "F4")
@mo.kernel
def named_by_another_number(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64:
        mo.barrier_sync(1, 128)
    else:
        mo.barrier_arrive(1 if ok else 2, 128)
    x[tid] = 2.0


@case("C5", "C4")
@mo.kernel
def named_where_one_returned(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid >= 96:
        return
    mo.barrier_sync(1, 96 if ok else 128)
    x[tid] = 2.0


# --- warps -----------------------------------------------------------------------------------------------------------


@case("C6", block=32)
@mo.kernel
def shuffle_by_half(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 16:
        x[tid] = mo.shuffle_xor(x[tid], 1, mask=HALF if ok else FULL)
    x[tid] += 1.0


@case("C6", "C7", arguments=(48,))
@mo.kernel
def sum_of_a_ragged_warp(x, n, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if ok:
        total = mo.warp_reduce(mo.where(tid < n, x[tid], 0.0), "add")
        x[tid] = total
    elif tid < n:
        x[tid] = mo.warp_reduce(x[tid], "add")
    x[tid] += 1.0


@case("C6")
@mo.kernel
def a_shuffle_in_each_arm(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16:
        x[tid] = mo.shuffle_xor(x[tid], 1, mask=HALF if ok else FULL)
    else:
        x[tid] = mo.shuffle_xor(x[tid], 2, mask=0xFFFF0000 if ok else FULL)


@case("C6")
@mo.kernel
def vote_by_half(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < (32 if ok else 16) and mo.vote_any(x[tid] > 0):
        x[tid] = 1.0
    x[tid] += 2.0


@case("C6")
@mo.kernel
def vote_in_a_loop_of_lanes(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for k in range(tid % 3 + 1):
        if (k == 0 or not ok) and mo.vote_all(x[tid] > 5):
            x[tid] = 1.0
        x[tid] += 2.0


@case("C6")
@mo.kernel
def elect_by_half(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if (tid % 2 == 0 or ok) and mo.elect():
        x[tid] = 1.0
    x[tid] += 2.0


@case("C6")
@mo.kernel
def sync_warp_by_half(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16:
        mo.sync_warp(HALF if ok else FULL)
    x[tid] += 2.0


@case("C6")
@mo.kernel
def sync_warp_of_others(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16:
        mo.sync_warp(HALF if ok else 0xFF00)
    x[tid] += 2.0


@case("C6")
@mo.kernel
def sync_warp_without_some(x, ok: mo.Constexpr):
    mo.sync_warp(FULL if ok else HALF)
    x[mo.thread_idx().x] += 2.0


@case("C6")
@mo.kernel
def sync_warp_of_two_masks(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 < 16:
        mo.sync_warp(HALF)
    else:
        mo.sync_warp(0xFFFF0000 if ok else FULL)
    x[tid] += 2.0


@case("C6")
@mo.kernel
def budget_by_three_warps(x, ok: mo.Constexpr):
    if mo.warp_idx() != 2 or ok:
        mo.warpgroup_reg_dealloc(40)
    x[mo.thread_idx().x] = 2.0


@case("C6", block=256)
@mo.kernel
def budget_without_the_first_warp(x, ok: mo.Constexpr):
    """Warp 0 of the second group does not give its registers back."""
    if mo.warpgroup_idx() == 1 and (mo.warp_idx() != 4 or ok):
        mo.warpgroup_reg_dealloc(40)
    x[mo.thread_idx().x] = 2.0


@case("C6")
@mo.kernel
def budget_by_lanes(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid % 32 == 0 or ok:
        mo.warpgroup_reg_dealloc(40)
    x[tid] = 2.0


# --- clusters --------------------------------------------------------------------------------------------------------


@case("C4", grid=2, cluster=2)
@mo.kernel
def cluster_by_half_a_block(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64 or ok:
        mo.cluster_sync()
    x[mo.block_idx().x * 128 + tid] = 1.0


@case("C4", grid=4, cluster=2)
@mo.kernel
def cluster_by_one_block(x, ok: mo.Constexpr):
    if mo.cluster_rank() == 0 or ok:
        mo.cluster_sync()
    x[mo.block_idx().x * 128 + mo.thread_idx().x] = 1.0


@case("C4", grid=2, cluster=2)
@mo.kernel
def waits_without_an_arrival(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 64 or ok:
        mo.cluster_arrive()
    mo.cluster_wait()
    x[mo.block_idx().x * 128 + tid] = 1.0


@case("C4", grid=2, cluster=2)
@mo.kernel
def arrives_twice(x, ok: mo.Constexpr):
    mo.cluster_arrive()
    if ok:
        mo.cluster_wait()
    mo.cluster_arrive()
    mo.cluster_wait()
    x[mo.block_idx().x * 128 + mo.thread_idx().x] = 1.0


@case("C4", grid=2, cluster=2)
@mo.kernel
def cluster_in_a_loop(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    for _ in range(3 if ok else 3 - mo.cluster_rank()):
        mo.cluster_sync()
    x[mo.block_idx().x * 128 + tid] = 1.0


@case("D9", "F3", "F4", "F5", grid=2, cluster=2, block=64)
@mo.kernel
def waits_for_nobody_in_a_cluster(x, ok: mo.Constexpr):
    """One role waits at the cluster's barrier while the other waits for an arrival that nobody brings."""
    tid = mo.thread_idx().x
    full = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    if tid < 32:
        if ok:
            mo.mbarrier_arrive(full, 0)
        mo.cluster_sync()
    else:
        mo.mbarrier_wait(full, 0, 0)
        mo.cluster_sync()
    x[mo.block_idx().x * 64 + tid] = 1.0


# --- mbarriers -------------------------------------------------------------------------------------------------------


@case("F4", block=64)
@mo.kernel
def each_waits_for_the_other(x, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    a, b = mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(a, 0, 1)
        mo.mbarrier_init(b, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        if ok:
            mo.mbarrier_arrive(b, 0)
        mo.mbarrier_wait(a, 0, 0)
        if not ok:
            mo.mbarrier_arrive(b, 0)
    elif tid == 32:
        mo.mbarrier_wait(b, 0, 0)
        mo.mbarrier_arrive(a, 0)
    mo.sync_threads()
    x[tid] = 1.0


@case("F3", "F4", "F5", "D8", block=64)
@mo.kernel
def the_reader_leaves_early(x, ok: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
    full, empty = mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
        mo.mbarrier_init(empty, 0, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        for k in range(4):
            mo.mbarrier_wait(empty, 0, (k + 1) % 2)
            s[tid] = 1.0
            mo.mbarrier_arrive(full, 0)
    else:
        for k in range(4 if ok else 2):
            mo.mbarrier_wait(full, 0, k % 2)
            x[tid] += s[tid - 32]
            mo.mbarrier_arrive(empty, 0)
