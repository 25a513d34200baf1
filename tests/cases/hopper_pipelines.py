"""Small kernels of sm_90 whose order is known: rings of bulk copies, sequences of stores, loads and products.

In: nothing.  Out: kernels, and ``ends``, the rule of PTX about groups.
"""

from __future__ import annotations

import numpy as np

import moye as mo

RUN, RING = 32, 96
MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 8), mo.make_layout((1, 1)))
ATOM = mo.smem_layout_atom(mo.bfloat16, "k")
SA, SB = mo.tile_to_shape(ATOM, (64, 64)), mo.tile_to_shape(ATOM, (8, 64))


@mo.kernel
def ring(out, x, stages: mo.Constexpr, late: mo.Constexpr = 0):
    """Warp 0 loads runs of 32, the last one ragged; warps 1 and 2 add them, ``late`` after the other has waited."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(x.dtype, (RUN, 1, stages))
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    mo.assume(mo.size(x) % 4 == 0)
    gX = mo.tile(x, (RUN,), (None,), ragged=True)                       # (RUN, k)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        if tid == 0:
            for k in range(mo.size(gX, 1)):
                mo.mbarrier_wait(empty, k % stages, (k // stages & 1) ^ 1)
                left = mo.min(mo.size(x) - k * RUN, RUN)
                mo.mbarrier_arrive_expect_tx(full, k % stages, left * 4)
                mo.copyto(mo.BulkCopy(), smem[:, 0, k % stages], gX[:, k], barrier=(full, k % stages), size=left)
    else:
        total = mo.float32(0)
        for k in range(mo.size(gX, 1)):
            if late and tid // 32 == late:
                mo.barrier_sync(1, 64)
            mo.mbarrier_wait(full, k % stages, k // stages & 1)
            if late and tid // 32 == 3 - late:
                mo.barrier_arrive(1, 64)
            if tid % 32 < mo.size(x) - k * RUN:
                total += smem[tid % 32, 0, k % stages]
            mo.sync_warp()
            if tid % 32 == 0:
                mo.mbarrier_arrive(empty, k % stages)
            if late:
                mo.barrier_sync(2, 64)
        out[tid - 32] = total


@mo.kernel
def stores(out: mo.Static, steps: mo.Constexpr):
    """One thread: "store", "commit", an int for tma_store_wait, "read" for one of pending 0 that lets reads pass."""
    smem, tid = mo.shared_array(mo.float32, 32), mo.thread_idx().x
    smem[tid] = 1.0
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        for n, step in enumerate(steps):
            if step == "store":
                mo.copyto(mo.BulkCopy(), mo.tile(out, (32,), (n,)), smem)
            elif step == "commit":
                mo.tma_store_arrive()
            elif step == "read":
                mo.tma_store_wait(0, read=True)
            else:
                mo.tma_store_wait(step, read=False)


@mo.kernel
def products(out: mo.Static, x: mo.Static, steps: mo.Constexpr):
    """A warpgroup: "mma", "commit", an int for warpgroup_wait; ("load", barrier), ("wait", barrier, parity)."""
    sA, sB = mo.shared_array(mo.bfloat16, SA), mo.shared_array(mo.bfloat16, SB)
    smem, bars, tid = mo.shared_array(mo.float32, (32, 1, 2)), mo.mbarrier_array(2), mo.thread_idx().x
    for i in range(32):
        sA[tid + 128 * i] = 1.0
    for i in range(4):
        sB[tid + 128 * i] = 1.0
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = MMA.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)     # (MMA, MMA_M or MMA_N, MMA_K)
    tCrC = MMA.partition_fragment_C((64, 8))
    tCrC.fill(0)
    mo.warpgroup_arrive()
    for step in steps:
        if step == "mma":
            mo.gemm(MMA, tCrA[:, :, 0], tCrB[:, :, 0], tCrC)
        elif step == "commit":
            mo.warpgroup_commit_batch()
        elif isinstance(step, int):
            mo.warpgroup_wait(step)
        elif step[0] == "wait":
            mo.mbarrier_wait(bars, step[1], step[2])
        elif tid == 0:
            mo.mbarrier_arrive_expect_tx(bars, step[1], 128)
            mo.copyto(mo.BulkCopy(), smem[:, 0, step[1]], mo.tile(x, (32,), (0,)), barrier=(bars, step[1]))
    mo.copyto(thr.partition_C(out), tCrC)


@mo.kernel
def to_others(out, x: mo.Static, mask: mo.Constexpr):
    """Block 0 of a cluster of two loads a run for the blocks of ``mask``; each of them waits for it, block 1 last."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    smem, bars = mo.shared_array(x.dtype, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, 128)
    mo.cluster_sync()
    if rank == 0 and tid == 0:
        mo.copyto(mo.BulkCopy(), smem, mo.tile(x, (32,), (0,)), barrier=(bars, 0), multicast=mask)
    if rank == 1:
        mo.cluster_sync()
    if mask >> rank & 1 == 1:
        mo.mbarrier_wait(bars, 0, 0)
        out[tid, rank] = smem[tid]
    if rank == 0:
        mo.cluster_sync()
    mo.cluster_sync()


@mo.kernel
def by_lanes(out, x: mo.Static, order: mo.Constexpr):
    """Two lanes load a run each, on a barrier each; the warp waits for them in this order."""
    tid = mo.thread_idx().x
    smem, bars = mo.shared_array(x.dtype, (32, 1, 2)), mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_warp()
    if tid < 2:
        mo.mbarrier_arrive_expect_tx(bars, tid, 128)
        mo.copyto(mo.BulkCopy(), smem[:, 0, tid], mo.tile(x, (32,), (tid,)), barrier=(bars, tid))
    for i in order:
        mo.mbarrier_wait(bars, i, 0)
    for i in mo.static_range(2):
        out[tid, i] = smem[tid, 0, i]


@mo.kernel
def sends(out):
    """Each block of a cluster of two sends what it has to the other one."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    mine, comes, bars = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, 128)
    mine[tid] = mo.float32(rank)
    mo.fence_proxy_async()
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), mo.map_shared_rank(comes, rank ^ 1), mine, barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    out[tid, rank] = comes[tid]
    mo.cluster_sync()


def operands():
    """Of ``products``."""
    return np.zeros((64, 8), np.float32), np.ones(32, np.float32)


def ends(program, begins):
    """Place of each ``begins`` -> place of the wait that ends it: groups are numbered, a wait leaves the newest."""
    groups, found = [[]], {}
    for at, step in enumerate(program):
        if step == begins:
            groups[-1].append(at)
        elif step == "commit":
            groups.append([])
        elif isinstance(step, int) or step == "read":
            while len(groups) - 1 > (0 if step == "read" else step):
                found.update(dict.fromkeys(groups.pop(0), at))
    return found


def run_ring(n, stages, late=0, **options):
    """(report, whether the sums are right)."""
    x, out = np.arange(n, dtype=np.float32), np.full(64, np.nan, np.float32)
    report = mo.check(ring, timeline=True, **options)[1, RING](out, x, stages, late)
    wanted = np.pad(x, (0, -n % RUN)).reshape(-1, RUN).sum(axis=0)
    return report, bool((out.reshape(2, RUN) == wanted).all())
