"""mbarriers, TMA, clusters and wgmma with loops that break, lanes that leave and blocks that return early."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros
from sim.holdout.tensor_copies import load, store

table = Table()
TILE = mo.make_layout((16, 32), (32, 1))
WGMMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
HALF = mo.smem_layout_atom(mo.float16, "k")


def half_load(rows, columns):
    """A TMA load of tiles of (64, 64) float16."""
    x = (np.arange(rows * columns).reshape(rows, columns) % 5 - 2).astype(np.float16)
    return mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(HALF, (64, 64)))


# --- mbarriers, TMA, clusters ----------------------------------------------------------------------------------------


@table.faulty("D8 D6 B6", lambda: (zeros(16, 32), load(16, 128)), block=64)
@mo.kernel
def phase_kept_over_break(out, tma, bad: mo.Constexpr):
    """The parity of a second loop begins again at 0, though the first one ended behind an odd number of phases."""
    tid, s, bar = mo.thread_idx().x, mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = mo.float32(0)
    for k in range(4):
        if k == 1:
            break
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, (16, 32), (0, k)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, k % 2)
        total += s[tid % 16, tid // 16]
        mo.sync_threads()
    for k in range(2):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, (16, 32), (0, k + 1)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, (k if bad else k + 1) % 2)
        total += s[tid % 16, tid // 16]
        mo.sync_threads()
    out[tid % 16, tid // 16] = total


@table.faulty("D4 D13 F1", lambda: (zeros(64, 2), load(16, 128)), block=64, grid=2, cluster=2)
@mo.kernel
def multicast_into_a_tile_in_use(out, tma, bad: mo.Constexpr):
    """Block 0 sends the second tile to both; block 1 may still read the first."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, bar = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    total = mo.float32(0)
    for k in range(2):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, tma.bytes)
        if bad:
            mo.sync_threads()
        else:
            mo.cluster_sync()
        if tid == 0 and rank == 0:
            mo.copyto(tma, s, mo.tile(tma.tensor, (16, 32), (0, k)), barrier=(bar, 0), multicast=3)
        mo.mbarrier_wait(bar, 0, k % 2)
        total += s[tid % 16, tid // 16]
    out[tid, rank] = total
    mo.cluster_sync()


@table.faulty("D18", lambda: (zeros(32, 4), ramp(32, 4)), block=32, grid=4, cluster=4)
@mo.kernel
def atomics_on_a_block_that_has_left(out, x, bad: mo.Constexpr):
    """All add to the counter of rank 0, who returns once it has seen its own value."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.int32, 1)
    if tid == 0:
        s[0] = 0
    mo.cluster_sync()
    if tid == 0:
        mo.atomic_add(mo.map_shared_rank(s, 0), 0, 1, order="relaxed", scope="cluster")
    out[tid, rank] = x[tid, rank]
    if not bad:
        mo.cluster_sync()


@table.faulty("D18 C4", lambda: (zeros(32, 2), ramp(32, 2), 0), block=32, grid=2, cluster=2)
@mo.kernel
def block_returns_before_the_last_read(out, x, quiet, bad: mo.Constexpr):
    """The block with nothing to do returns at once, though its neighbour reads its tile."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_sync()
    if bad:
        if rank == 1 + quiet:
            return
        out[tid, rank] = mo.map_shared_rank(s, 1)[31 - tid]
    else:
        out[tid, rank] = mo.map_shared_rank(s, 1)[31 - tid]
        mo.cluster_sync()


@table.faulty("D9 D8 F4 F3 F5", lambda: (zeros(64), ramp(64), 48), block=64)
@mo.kernel
def arrivals_of_those_that_stay(out, x, n, bad: mo.Constexpr):
    """The mbarrier counts 64 threads, and those from n on have returned before they arrive."""
    tid, s, bar = mo.thread_idx().x, mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 64)
        mo.fence_mbarrier_init()
    s[tid] = x[tid]
    mo.sync_threads()
    if not bad:
        mo.mbarrier_arrive(bar, 0)
    if tid >= n:
        return
    if bad:
        mo.mbarrier_arrive(bar, 0)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid] = s[63 - tid]


@table.faulty("D12 D14", lambda: (store(zeros(16, 32, order="C")), ramp(16, 32)), block=64)
@mo.kernel
def fence_in_one_arm(tma, x, bad: mo.Constexpr):
    """The threads of one warp fence what they wrote, those of the other do not; then one stores the tile."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, TILE)
    for i in mo.static_range(8):
        s[tid // 32 * 8 + i, tid % 32] = x[tid // 32 * 8 + i, tid % 32]
    if bad:
        if tid < 32:
            mo.fence_proxy_async()
    else:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(tma, mo.tile(tma.tensor, (16, 32), (0, 0)), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


# --- wgmma over turns of a loop --------------------------------------------------------------------------------------


@table.faulty("E3 D13 F1 D4", lambda: (zeros(64, 64), half_load(64, 256), half_load(64, 256)), block=128)
@mo.kernel
def product_in_flight_over_the_turn(C: mo.Static, A, B, bad: mo.Constexpr):
    """Two stages, one product in flight: the stage that is filled anew is that of the last product, or the one before.
    """
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    bar = mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.mbarrier_init(bar, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = WGMMA.partition_fragment_C((64, 64))
    acc.fill(0)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bar, 0, A.bytes + B.bytes)
        mo.copyto(A, sA[:, :, 0], mo.tile(A.tensor, (64, 64), (0, 0)), barrier=(bar, 0))
        mo.copyto(B, sB[:, :, 0], mo.tile(B.tensor, (64, 64), (0, 0)), barrier=(bar, 0))
    for k in range(4):
        mo.mbarrier_wait(bar, k % 2, k // 2 % 2)
        mo.warpgroup_arrive()
        mo.gemm(WGMMA, tA[:, :, :, k % 2], tB[:, :, :, k % 2], acc)
        mo.warpgroup_commit_batch()
        if not bad:
            mo.warpgroup_wait(1)
            mo.sync_threads()
        if k < 3 and tid == 0:
            to = (k + 1) % 2
            mo.mbarrier_arrive_expect_tx(bar, to, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, to], mo.tile(A.tensor, (64, 64), (0, k + 1)), barrier=(bar, to))
            mo.copyto(B, sB[:, :, to], mo.tile(B.tensor, (64, 64), (0, k + 1)), barrier=(bar, to))
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E2 E1", lambda: (zeros(64, 64), half_load(64, 128), half_load(64, 128)), block=128)
@mo.kernel
def scaled_between_products(C: mo.Static, A, B, bad: mo.Constexpr):
    """Accumulators are scaled between two products, as in attention; in the faulty one before the first is over."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(HALF, (64, 64, 2)))
    bar = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bar, 0, 2 * (A.bytes + B.bytes))
        for k in mo.static_range(2):
            mo.copyto(A, sA[:, :, k], mo.tile(A.tensor, (64, 64), (0, k)), barrier=(bar, 0))
            mo.copyto(B, sB[:, :, k], mo.tile(B.tensor, (64, 64), (0, k)), barrier=(bar, 0))
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = WGMMA.partition_fragment_C((64, 64))
    acc.fill(0)
    mo.mbarrier_wait(bar, 0, 0)
    for k in range(2):
        mo.warpgroup_arrive()
        mo.gemm(WGMMA, tA[:, :, :, k], tB[:, :, :, k], acc)
        mo.warpgroup_commit_batch()
        if not bad or k == 1:
            mo.warpgroup_wait(0)
        acc[...] = acc * 0.5
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("D12 D14", lambda: (zeros(64, 64), ramp(64, 64, dtype=np.float16)), block=128)
@mo.kernel
def operands_rewritten_each_turn(C: mo.Static, x, bad: mo.Constexpr):
    """Threads write the operands of every product themselves; only those of the first turn are fenced."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(mo.float16, mo.tile_to_shape(HALF, (64, 64)))
    sB = mo.shared_array(mo.float16, mo.tile_to_shape(HALF, (64, 64)))
    thr = WGMMA.get_slice(tid)
    tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = WGMMA.partition_fragment_C((64, 64))
    acc.fill(0)
    for k in range(2):
        for i in range(32):
            e = tid + 128 * i
            sA[e % 64, e // 64] = x[e % 64, e // 64]
            sB[e % 64, e // 64] = x[e // 64, e % 64]
        if not bad or k == 0:
            mo.fence_proxy_async()
        mo.sync_threads()
        mo.warpgroup_arrive()
        mo.gemm(WGMMA, tA, tB, acc)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.sync_threads()
    mo.copyto(thr.partition_C(C), acc)
