"""Mixed structures: rings of TMA and wgmma, sends within clusters, divergent warps, registers that keep a tile."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
WGMMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
HALF = mo.smem_layout_atom(mo.float16, "k")
TILE = mo.make_layout((16, 32), (32, 1))


def half_load(rows, columns):
    """A TMA load of tiles of (64, 64) float16."""
    x = (np.arange(rows * columns).reshape(rows, columns) % 5 - 2).astype(np.float16)
    return mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(HALF, (64, 64)))


def load(*shape):
    """A TMA load of tiles of (16, 32)."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE)


@table.faulty("E3 F1", lambda: (zeros(64, 64), half_load(64, 192), half_load(64, 192)), block=256)
@mo.kernel
def released_before_the_product_is_done(C: mo.Static, A, B, bad: mo.Constexpr):
    """A ring of two stages; the consumer releases each stage before or after the wait for its products."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    pipe = mo.PipelineTma(2, A.bytes + B.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if tid >= 128:
        if tid == 128:
            state = pipe.producer_start()
            for k in range(3):
                pipe.producer_acquire(state)
                mo.copyto(A, sA[:, :, state.stage], mo.tile(A.tensor, (64, 64), (0, k)), barrier=pipe.barrier(state))
                mo.copyto(B, sB[:, :, state.stage], mo.tile(B.tensor, (64, 64), (0, k)), barrier=pipe.barrier(state))
                state = state.next()
    else:
        thr = WGMMA.get_slice(tid)
        tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
        acc = WGMMA.partition_fragment_C((64, 64))
        acc.fill(0)
        state = pipe.consumer_start()
        for _ in range(3):
            pipe.consumer_wait(state)
            mo.warpgroup_arrive()
            mo.gemm(WGMMA, tA[:, :, :, state.stage], tB[:, :, :, state.stage], acc)
            mo.warpgroup_commit_batch()
            if not bad:
                mo.warpgroup_wait(0)
            mo.barrier_sync(1, 128)
            if tid == 0:
                pipe.consumer_release(state)
            state = state.next()
        mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(C), acc)


@table.faulty("D6", lambda: (zeros(64, 2), ramp(64, 2)), block=64, grid=2, cluster=2)
@mo.kernel
def received_without_wait(out, x, bad: mo.Constexpr):
    """A run from the neighbour is read after a barrier of the cluster, which is no wait for it."""
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
        mo.cluster_sync()
    else:
        mo.mbarrier_wait(bar, 0, 0)
    out[tid, rank] = r[63 - tid]
    mo.mbarrier_wait(bar, 0, 0)
    mo.cluster_sync()


@table.faulty("G3", lambda: (zeros(32, 2), zeros(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def global_by_remote_arrival(out, work, bad: mo.Constexpr):
    """An arrival at the neighbour's mbarrier hands over no global memory without fences."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    bar = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    work[tid, rank] = 1.0 * tid
    if not bad:
        mo.fence(scope="cluster")
    mo.mbarrier_arrive(bar, 0, cta=rank ^ 1)
    mo.mbarrier_wait(bar, 0, 0)
    if not bad:
        mo.fence(scope="cluster")
    out[tid, rank] = work[31 - tid, rank ^ 1]
    mo.cluster_sync()


@table.faulty("C7 C6", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def shuffle_in_a_loop_by_data(out, x, bad: mo.Constexpr):
    """Lanes leave the loop one by one; those that stay shuffle with all."""
    tid = mo.thread_idx().x
    value = x[tid]
    count = 0
    while mo.vote_any(value > 4.0) if not bad else value > 4.0:
        value = mo.min(value, mo.shuffle_xor(value, 1)) * 0.5
        count += 1
    out[tid] = value + count


@table.faulty("C6", lambda: (zeros(32, dtype=np.int32), ramp(32)), block=32)
@mo.kernel
def ballot_in_a_branch(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if bad:
        if tid % 2 == 0:
            out[tid] = mo.where(mo.ballot(x[tid] > 5.0) != 0, 1, 0)
    else:
        mask = mo.ballot(x[tid] > 5.0)
        if tid % 2 == 0:
            out[tid] = mo.where(mask != 0, 1, 0)


@table.faulty("B8", lambda: (zeros(32, 3), ramp(32, 3), 2), block=32)
@mo.kernel
def register_keeps_a_tile(out, x, n, bad: mo.Constexpr):
    """A fragment that a predicated copy does not fill past the end has the last column still."""
    tid = mo.thread_idx().x
    part = mo.fragment((1,), mo.float32)
    part.fill(0)
    for k in range(3):
        mo.copyto(part, mo.tile(x, (1, 1), (tid, k))[:, 0], pred=k * 32 + tid < n * 32, zero_fill=not bad)
        out[tid, k] = mo.warp_reduce(part[0], "add")


@table.faulty("D8 F4 F1", lambda: (zeros(32), ramp(32, 4)), block=64)
@mo.kernel
def empty_begins_with_zero(out, x, bad: mo.Constexpr):
    """The producer's first wait for "empty" has parity 0, which nobody completes."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(full, i, 32)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        for k in range(4):
            mo.mbarrier_wait(empty, k % 2, (k // 2) % 2 if bad else (k // 2 + 1) % 2)
            s[tid, k % 2] = x[tid, k]
            mo.mbarrier_arrive(full, k % 2)
    else:
        total = 0.0
        for k in range(4):
            mo.mbarrier_wait(full, k % 2, k // 2 % 2)
            total += s[63 - tid, k % 2]
            mo.mbarrier_arrive(empty, k % 2)
        out[tid - 32] = total


@table.faulty("F7 C4", lambda: (zeros(64), ramp(64)), block=96)
@mo.kernel
def sync_threads_of_consumers(out, x, bad: mo.Constexpr):
    """Two warps of three meet by sync_threads, the third waits for them elsewhere."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s, done = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(done, 0, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if warp < 2:
        s[tid] = x[tid]
        if bad:
            mo.sync_threads()
        else:
            mo.barrier_sync(1, 64)
        out[tid] = s[63 - tid]
        mo.mbarrier_arrive(done, 0)
    else:
        mo.mbarrier_wait(done, 0, 0)
        if tid == 64:
            s[0] = 0.0


@table.faulty("D18 D1 B9", lambda: (zeros(64, 2), ramp(64, 2)), block=64, grid=2, cluster=2)
@mo.kernel
def ends_before_it_is_sent(out, x, bad: mo.Constexpr):
    """Block 0 sends a run to block 1 and may end before it has left."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, r, bar = mo.shared_array(mo.float32, 64), mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
        if rank == 1:
            mo.mbarrier_arrive_expect_tx(bar, 0, 256)
    s[tid] = x[tid, rank]
    mo.fence_proxy_async()
    mo.cluster_sync()
    if rank == 0:
        if tid == 0:
            mo.copyto(mo.BulkCopy(), mo.map_shared_rank(r, 1), s, barrier=(bar, 0))
    else:
        mo.mbarrier_wait(bar, 0, 0)
        out[tid, rank] = r[63 - tid]
    if not bad:
        mo.cluster_sync()


@table.faulty("C2 D13 F1", lambda: (zeros(64), load(16, 96)), block=64)
@mo.kernel
def named_barrier_of_one_warp(out, tma, bad: mo.Constexpr):
    """The readers meet before the refill, but one of two warps only."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = 0.0
    for k in range(3):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, k % 2)
        total += s[tid % 16, tid // 16]
        if bad:
            mo.barrier_sync(1 + warp, 32)
        else:
            mo.barrier_sync(1, 64)
    out[tid] = total


@table.right(lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def named_barriers_in_rotation(out, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    for k in range(6):
        s[tid, k % 2] = x[tid, k]
        mo.barrier_sync(1 + k % 3, 64)
        total += s[63 - tid, k % 2]
    out[tid] = total


@table.right(lambda: (zeros(64, 3), ramp(64)), block=64, grid=3)
@mo.kernel
def barriers_by_block(out, x):
    """Each block takes its own arm, with its own barriers."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if bx == 0:
        mo.sync_threads()
        out[tid, bx] = s[63 - tid]
    elif bx == 1:
        mo.sync_threads()
        value = s[63 - tid]
        mo.sync_threads()
        s[tid] = value
        out[tid, bx] = s[tid]
    else:
        out[tid, bx] = s[tid]


@table.right(lambda: (zeros(32), load(16, 64)), block=64)
@mo.kernel
def store_thread_signals(out, tma):
    """The reader's release goes through a sync_warp and one arrival; the ring is used once more after it."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    full, empty = mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(empty, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 32:
        for k in range(2):
            if k > 0:
                mo.mbarrier_wait(empty, 0, (k + 1) % 2)
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0))
    if tid < 32:
        total = 0.0
        for k in range(2):
            mo.mbarrier_wait(full, 0, k)
            total += s[3, tid]
            mo.sync_warp()
            if tid == 0:
                mo.mbarrier_arrive(empty, 0)
        out[tid] = total
