"""What sm_90 adds, for ``CASES``: mbarriers within a block and across a cluster, register budgets, elections, fences.

In: nothing.  Out: cases in ``CASES``, whose sizes count tiles, or are 1 where there is nothing to count.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import add, poison

WARPGROUP = 128
STAGES = 3
CLUSTERS = ((2, 1, 1), (2, 2, 2), (1, 4, 1))


# --- one block -------------------------------------------------------------------------------------------------------


@mo.kernel
def ring_kernel(out, x, stages: mo.Constexpr):
    """Warp group 0 fills a ring of stages, warp group 1 adds up what it reads there, other threads' elements."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    lane = tid % WARPGROUP
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    ring = mo.shared_array(x.dtype, (WARPGROUP, stages))
    tiles = mo.size(x, 1)
    if tid == 0:
        for s in mo.static_range(stages):
            mo.mbarrier_init(full, s, WARPGROUP)
            mo.mbarrier_init(empty, s, WARPGROUP)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase = 0, 0
    if mo.warpgroup_idx() == 0:
        mo.warpgroup_reg_dealloc(40)
        for k in range(tiles):
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            ring[lane, stage] = x[lane, k, bx]
            mo.mbarrier_arrive(full, stage)
            stage += 1
            if stage == stages:
                stage, phase = 0, phase ^ 1
    else:
        mo.warpgroup_reg_alloc(160)
        total = x.dtype(0)
        for _ in range(tiles):
            mo.mbarrier_wait(full, stage, phase)
            total += ring[WARPGROUP - 1 - lane, stage]
            mo.mbarrier_arrive(empty, stage)
            stage += 1
            if stage == stages:
                stage, phase = 0, phase ^ 1
        out[lane, bx] = total


add("hopper-ring", ring_kernel,
    lambda rng, n: [poison((WARPGROUP, 2), dt.int32),
                    np.asfortranarray(rng.integers(-99, 99, (WARPGROUP, n, 2), np.int32)), STAGES],
    lambda args: {0: args[1][::-1].sum(axis=1, dtype=np.int32)}, sizes=(8, 2, 0), block=2 * WARPGROUP,
    grid=lambda n: 2)


@mo.kernel
def expected_bytes_kernel(out):
    """Bytes that are expected, none of them here, and arrivals complete a phase together."""
    tid = mo.thread_idx().x
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for phase in range(3):
        if tid == 0:
            mo.mbarrier_expect_tx(bars, 0, 0)
            mo.mbarrier_arrive_expect_tx(bars, 0, 0)
        elif tid == 33:
            mo.mbarrier_arrive(bars, 0)
        mo.mbarrier_wait(bars, 0, phase % 2)
        mo.sync_threads()
    out[tid] = tid


add("hopper-expected-bytes", expected_bytes_kernel, lambda rng, n: [poison(64, dt.int32)],
    lambda args: {0: np.arange(64, dtype=np.int32)}, sizes=(1,), grid=lambda n: 1)


@mo.kernel
def alone_kernel(elected, out):
    """What concerns one thread or one warp: elections, fences, empty bulk groups, the launches around this one."""
    tid = mo.thread_idx().x
    mo.griddepcontrol_wait()
    elected[tid] = mo.popcount(mo.ballot(mo.elect()))
    mo.fence_proxy_async()
    if tid < 32 and mo.elect():
        mo.tma_store_arrive()
        mo.tma_store_wait(1)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)
        out[0] = 7
    mo.griddepcontrol_launch_dependents()


add("hopper-alone", alone_kernel, lambda rng, n: [poison(64, dt.int32), poison(1, dt.int32)],
    lambda args: {0: np.ones(64, np.int32), 1: np.full(1, 7, np.int32)}, sizes=(1,), grid=lambda n: 1)


# --- clusters --------------------------------------------------------------------------------------------------------


@mo.kernel
def cluster_kernel(out):
    """Every block arrives at a barrier of every block of its cluster; each then tells where it is."""
    tid, block = mo.thread_idx().x, mo.block_idx()
    x, y, z = mo.cluster_dim()
    bars = mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, x * y * z)
        mo.mbarrier_init(bars, 1, x * y * z)
        mo.fence_mbarrier_init()
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    if tid < x * y * z:
        mo.mbarrier_arrive(bars, 0, cta=tid)
        mo.mbarrier_arrive_expect_tx(bars, 1, 0, cta=tid)
    mo.mbarrier_wait(bars, 0, 0)
    mo.mbarrier_wait(bars, 1, 0)
    inside, cluster = mo.block_in_cluster_idx(), mo.cluster_idx()
    values = (mo.cluster_rank(), *inside, *cluster)
    if tid == 0:
        for i in mo.static_range(7):
            out[i, block.x, block.y, block.z] = values[i]
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()


def _places(cluster):
    grid = tuple(2 * extent for extent in cluster)
    places = np.zeros((7, *grid), np.int32)
    for block in np.ndindex(*grid):
        inside = tuple(b % c for b, c in zip(block, cluster, strict=True))
        rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
        places[:, *block] = (rank, *inside, *(b // c for b, c in zip(block, cluster, strict=True)))
    return places


@mo.kernel
def exchange_kernel(out, scratch, rounds):
    """Blocks of a cluster pass values on through global memory, with a barrier of the cluster in between."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    peer = bx ^ 1
    value = bx * 1000 + tid
    for _ in range(rounds):
        scratch[tid, bx] = value
        mo.cluster_sync()
        value = scratch[tid, peer] + 1
        mo.cluster_sync()
    out[tid, bx] = value


def _exchanged(args):
    out, _, rounds = args
    tid, bx = np.indices(out.shape, np.int32)
    return {0: (bx ^ rounds % 2) * 1000 + tid + rounds, 1: (bx ^ (rounds - 1) % 2) * 1000 + tid + rounds - 1}


for _cluster in CLUSTERS:
    add(f"hopper-cluster-{'x'.join(map(str, _cluster))}", cluster_kernel,
        lambda rng, n, c=_cluster: [poison(_places(c).shape, dt.int32)], lambda args, c=_cluster: {0: _places(c)},
        sizes=(1,), block=32, grid=lambda n, c=_cluster: tuple(2 * extent for extent in c), cluster=_cluster)
add("hopper-cluster-exchange", exchange_kernel,
    lambda rng, n: [poison((64, 4), dt.int32), poison((64, 4), dt.int32), n], _exchanged, sizes=(1, 4), block=64,
    grid=lambda n: 4, cluster=(2, 1, 1))
