"""Faults of clusters and dependent launches, D18 to D20 and G3, and their twins."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
TILE = mo.make_layout((16, 32), (32, 1))


def load(*shape, multicast=1):
    """A TMA load of tiles of (16, 32)."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE, multicast=multicast)


@table.faulty("D18", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def leaves_while_read(out, x, bad: mo.Constexpr):
    """A block may end while its neighbour still reads its shared memory."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_sync()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[31 - tid]
    if not bad:
        mo.cluster_sync()


@table.faulty("D18 C1", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def reaches_before_start(out, x, bad: mo.Constexpr):
    """The first store goes to a block that may not have started."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    if not bad:
        mo.cluster_sync()
    mo.map_shared_rank(s, rank ^ 1)[tid] = x[tid, rank]
    mo.cluster_sync()
    out[tid, rank] = s[31 - tid]


@table.faulty("D19", lambda: (zeros(64, 2), ramp(64, 2)), block=64, grid=2, cluster=2)
@mo.kernel
def block_barrier_between_blocks(out, x, bad: mo.Constexpr):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 64)
    mo.cluster_sync()
    s[tid] = x[tid, rank]
    if bad:
        mo.sync_threads()
    else:
        mo.cluster_sync()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[63 - tid]
    mo.cluster_sync()


@table.faulty("D19", lambda: (zeros(1, dtype=np.int32), zeros(4, dtype=np.int32)), block=32, grid=4)
@mo.kernel
def counter_of_block_scope(total, out, bad: mo.Constexpr):
    if mo.thread_idx().x == 0:
        if bad:
            mo.atomic_add(total, 0, 1, scope="cta")
        else:
            mo.atomic_add(total, 0, 1)
        out[mo.block_idx().x] = 1


@table.faulty("C4", lambda: (zeros(64, 2), ramp(64, 2)), block=64, grid=2, cluster=2)
@mo.kernel
def cluster_barrier_by_a_warp(out, x, bad: mo.Constexpr):
    """Only warp 0 of each block comes to the cluster's barrier."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid, rank]
    if bad:
        if tid < 32:
            mo.cluster_sync()
    else:
        mo.cluster_sync()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[63 - tid]
    mo.cluster_sync()


@table.faulty("C4", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def arrives_twice(out, x, bad: mo.Constexpr):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_arrive()
    if bad:
        mo.cluster_arrive()
    mo.cluster_wait()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[tid]
    mo.cluster_arrive()
    mo.cluster_wait()


@table.faulty("C1 D19", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def relaxed_arrival(out, x, bad: mo.Constexpr):
    """A relaxed arrival orders no memory."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_arrive(relaxed=bad)
    mo.cluster_wait()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[31 - tid]
    mo.cluster_sync()


@table.faulty("D20", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def rank_too_high(out, x, bad: mo.Constexpr):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_sync()
    there = rank + 1 if bad else (rank + 1) % 2
    out[tid, rank] = mo.map_shared_rank(s, there)[31 - tid]
    mo.cluster_sync()


@table.faulty("D20 D7", lambda: (zeros(64, 2), load(16, 32)), block=64, grid=2, cluster=2)
@mo.kernel
def multicast_to_one(out, tma, bad: mo.Constexpr):
    """Block 0 loads for both, but its mask names itself alone: block 1 waits for ever."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
    mo.cluster_sync()
    if tid == 0 and rank == 0:
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0), multicast=1 if bad else 3)
    mo.mbarrier_wait(full, 0, 0)
    out[tid, rank] = s[tid % 16, tid // 16]
    mo.cluster_sync()


@table.faulty("D20 D7", lambda: (zeros(64, 2), load(16, 32)), block=64, grid=2, cluster=2)
@mo.kernel
def mask_beyond_the_cluster(out, tma, bad: mo.Constexpr):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
    mo.cluster_sync()
    if tid == 0 and rank == 1:
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0), multicast=6 if bad else 3)
    mo.mbarrier_wait(full, 0, 0)
    out[tid, rank] = s[tid % 16, tid // 16]
    mo.cluster_sync()


@table.faulty("D10", lambda: (zeros(64, 2), load(16, 32)), block=64, grid=2, cluster=2)
@mo.kernel
def peer_barrier_not_ready(out, tma, bad: mo.Constexpr):
    """A multicast load arrives at the barrier of a block that has met nobody since it initialised it."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if not bad:
        mo.cluster_sync()
    else:
        mo.cluster_sync()
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
    if bad:
        mo.sync_threads()
    else:
        mo.cluster_sync()
    if tid == 0 and rank == 0:
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0), multicast=3)
    mo.mbarrier_wait(full, 0, 0)
    out[tid, rank] = s[tid % 16, tid // 16]
    mo.cluster_sync()


@table.faulty("D13 C2 F1", lambda: (zeros(64, 2), load(16, 128)), block=64, grid=2, cluster=2)
@mo.kernel
def multicast_over_a_reader(out, tma, bad: mo.Constexpr):
    """Block 0 loads the next tile for both when its own threads are done; those of block 1 may still read."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    total = 0.0
    for k in range(4):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        if tid == 0 and rank == 0:
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0), multicast=3)
        mo.mbarrier_wait(full, 0, k % 2)
        total += s[tid % 16, tid // 16]
        if bad:
            mo.sync_threads()
        else:
            mo.cluster_sync()
    out[tid, rank] = total
    mo.cluster_sync()


@table.faulty("C1 D19", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def signal_of_one_thread(out, x, bad: mo.Constexpr):
    """Each thread writes to the neighbour; one thread's arrival speaks for the warp without a sync_warp."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, bar = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    mo.map_shared_rank(s, rank ^ 1)[tid] = x[tid, rank]
    if not bad:
        mo.sync_warp()
    if tid == 0:
        mo.mbarrier_arrive(bar, 0, cta=rank ^ 1)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid, rank] = s[31 - tid]
    mo.cluster_sync()


@table.faulty("D15", lambda: (zeros(64, 2), ramp(64, 2)), block=64, grid=2, cluster=2)
@mo.kernel
def sent_source_reused(out, x, bad: mo.Constexpr):
    """A run sent to the neighbour is written again before the neighbour has waited."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, r, bar = mo.shared_array(mo.float32, 64), mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bar, 0, 256)
    s[tid] = x[tid, rank]
    mo.fence_proxy_async()
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), mo.map_shared_rank(r, rank ^ 1), s, barrier=(bar, 0))
    if bad:
        mo.sync_threads()
        s[tid] = 0.0
    mo.mbarrier_wait(bar, 0, 0)
    mo.cluster_sync()
    if not bad:
        s[tid] = 0.0
    out[tid, rank] = r[63 - tid] + s[tid]


@mo.kernel
def writes_y(y, z, x):
    mo.griddepcontrol_launch_dependents()
    tid = mo.thread_idx().x
    y[tid] = x[tid] + z[tid]


@table.faulty("G3", lambda: (Y, Z, X), block=64, first=writes_y)
@mo.kernel
def dependent_without_wait(y, z, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if not bad:
        mo.griddepcontrol_wait()
    x[tid + 64] = y[tid]


@table.faulty("G3", lambda: (Y, Z, X), block=64, first=writes_y)
@mo.kernel
def dependent_reads_early(y, z, x, bad: mo.Constexpr):
    """One of two values is read before the wait."""
    tid = mo.thread_idx().x
    value = y[tid] if bad else x[tid]
    mo.griddepcontrol_wait()
    x[tid + 64] = y[63 - tid] + value


@table.faulty("G3", lambda: (Y, Z, X), block=64, first=writes_y)
@mo.kernel
def dependent_writes_early(y, z, x, bad: mo.Constexpr):
    """z, which the launch before reads, is cleared before the wait."""
    tid = mo.thread_idx().x
    if bad:
        z[tid] = 0.0
    mo.griddepcontrol_wait()
    if not bad:
        z[tid] = 0.0


@table.faulty("G3", lambda: (Y, Z, X), block=64, first=writes_y)
@mo.kernel
def one_warp_waits(y, z, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid < 32:
        mo.griddepcontrol_wait()
    if not bad:
        mo.sync_threads()
    x[tid + 64] = y[tid]


@table.faulty("G3", lambda: (Y, Z, X), block=64, first=writes_y)
@mo.kernel
def dependent_async_prefetch(y, z, x, bad: mo.Constexpr):
    """A cp.async of what the launch before writes is issued before the wait."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    if not bad:
        mo.griddepcontrol_wait()
    mo.copyto(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.tile(s, (1,), (tid,)), mo.tile(y, (1,), (tid,)))
    if bad:
        mo.griddepcontrol_wait()
    mo.cp_async_wait()
    mo.sync_threads()
    x[tid + 64] = s[63 - tid]


Y, Z, X = zeros(64), ramp(64), ramp(128)


@table.faulty("F4", lambda: (zeros(32, 2), load(64, 32, multicast=2)), block=64, grid=2, cluster=2)
@mo.kernel
def releases_one_of_two(out, tma, bad: mo.Constexpr):
    """Both blocks load a half of each tile for both, but only block 0 hears that its stage is free."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, full, free = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1), mo.mbarrier_array(1)
    gX = mo.tile(tma.tensor, tma.tile, (None, 0))                       # (16, 32, k)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(free, 0, 2)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    if tid == 32:
        for k in range(4):
            mo.mbarrier_wait(free, 0, k % 2 ^ 1)
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, gX[:, :, k], barrier=(full, 0), multicast=3)
    elif tid < 32:
        total = mo.float32(0)
        for k in range(4):
            mo.mbarrier_wait(full, 0, k % 2)
            total += s[k, tid]
            mo.sync_warp()
            if tid < (1 if bad else 2):
                mo.mbarrier_arrive(free, 0, cta=tid)
        out[tid, rank] = total
    mo.cluster_sync()
