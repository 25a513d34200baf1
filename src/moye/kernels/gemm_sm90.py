"""Matrix products on Hopper's warpgroup instructions: C = A @ B.T, float32 sums; sm_90a.

In: A (M, K), B (N, K), C (M, N) that TMA can describe.  Out: C, written in place.

>>> gemm_sm90(A, B, C)

A persistent grid.  One warp loads tiles by TMA into a ring of stages, two warpgroups multiply them and store their
results through shared memory by TMA.  Edges need no predicates: TMA reads zeros outside and drops what it would store.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.arguments import configured, matrices, same_problem, tma_mode
from moye.kernels.gemm_sm80 import gemm_sm80
from moye.kernels.operands import raster
from moye.kernels.simt_config import SMS
from moye.kernels.warpgroup_plan import CHUNK, CONSUMERS, DTYPES, THREADS, WarpgroupConfig, choose, make_plan


@mo.jit
def produce(plan, A, B, ring, k_tiles, m_tiles, n_tiles):
    """One thread fills the stages, tile after tile, as they become free."""
    sA, sB, full, empty = ring
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    grid = mo.grid_dim().x
    gA = mo.tile(A.tensor, (bM, bK), (None, None), ragged=True)         # (bM, bK, m, k)
    gB = mo.tile(B.tensor, (bN, bK), (None, None), ragged=True)         # (bN, bK, n, k)
    stage, phase, tile = 0, 1, mo.block_idx().x
    while tile < m_tiles * n_tiles:
        bx, by = raster(tile, m_tiles, n_tiles)
        for k in range(k_tiles):
            mo.mbarrier_wait(empty, stage, phase)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, bx, k], barrier=(full, stage))
            mo.copyto(B, sB[:, :, stage], gB[:, :, by, k], barrier=(full, stage))
            stage += 1
            if stage == plan.config.stages:
                stage, phase = 0, phase ^ 1
        tile += grid


@mo.jit
def mainloop(plan, ring, acc, tCrA, tCrB, stage, phase, k_tiles):
    """acc = A * B over all k tiles; the stage and phase after them.  A stage is free one step after its products."""
    _, _, full, empty = ring
    first, before = mo.thread_idx().x % 128 == 0, stage
    for k in range(k_tiles):
        mo.mbarrier_wait(full, stage, phase)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(plan.mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], acc, accumulate=kk > 0 or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
        if k > 0 and first:
            mo.mbarrier_arrive(empty, before)
        before = stage
        stage += 1
        if stage == plan.config.stages:
            stage, phase = 0, phase ^ 1
    mo.warpgroup_wait(0)
    if first:
        mo.mbarrier_arrive(empty, before)
    return stage, phase


@mo.jit
def store(plan, C, sC, acc, bx, by):
    """The warpgroup's 64 rows to C, CHUNK columns at a time, through two buffers of shared memory."""
    tid = mo.thread_idx().x
    group, first = tid // 128, tid % 128 == 0
    gC = mo.tile(C.tensor, (64, CHUNK), (None, None), ragged=True)      # (64, CHUNK, m, n)
    sums = acc.with_layout(mo.make_layout((CHUNK // 2, mo.size(acc) // (CHUNK // 2))))      # (values, chunk)
    part = mo.make_fragment_like(plan.chunk.partition_fragment_C((128, CHUNK)), plan.out)  # (MMA, MMA_M, MMA_N)
    thr_store = plan.store.get_slice(tid % CONSUMERS)
    tRsC, tRrC = thr_store.partition_D(sC), thr_store.retile_S(part)    # (CPY, CPY_M, CPY_N, buffers), (CPY, ...)
    chunks = mo.size(sums, 1)
    for c in mo.static_range(chunks):
        if first:                                       # after an odd number the last store was from this buffer
            mo.tma_store_wait(0 if c == 0 and chunks % 2 else 1)
        mo.barrier_sync(1 + group, 128)
        mo.copyto(part.with_layout(mo.make_layout(CHUNK // 2)), sums[:, c])
        mo.copyto(plan.store, tRsC[:, :, :, c % 2], tRrC)
        mo.fence_proxy_async()
        mo.barrier_sync(1 + group, 128)
        if first:
            sD = mo.tile(sC, (64, CHUNK, 1), (group, 0, c % 2))[:, :, 0]
            mo.copyto(C, gC[:, :, 2 * bx + group, chunks * by + c], sD)
            mo.tma_store_arrive()


@mo.kernel
def gemm_sm90_kernel(A, B, C, M, N, K, plan: mo.Constexpr):
    """Tiles of C, block after block of the persistent grid."""
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    tid, stages = mo.thread_idx().x, plan.config.stages
    sA = mo.shared_array(plan.dtype, plan.sA)                           # (bM, bK, stages)
    sB = mo.shared_array(plan.dtype, plan.sB)                           # (bN, bK, stages)
    sC = mo.shared_array(plan.out, plan.sC)                             # (bM, CHUNK, 2)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    ring = (sA, sB, full, empty)
    m_tiles, n_tiles, k_tiles = mo.ceil_div(M, bM), mo.ceil_div(N, bN), mo.ceil_div(K, bK)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)
        if tid == CONSUMERS:
            produce(plan, A, B, ring, k_tiles, m_tiles, n_tiles)
    else:
        mo.warpgroup_reg_alloc(232)
        thr_mma = plan.mma.get_slice(tid % CONSUMERS)
        tCrA = thr_mma.partition_fragment_A(sA)                         # (MMA, MMA_M, MMA_K, stages)
        tCrB = thr_mma.partition_fragment_B(sB)                         # (MMA, MMA_N, MMA_K, stages)
        stage, phase, tile = 0, 0, mo.block_idx().x
        while tile < m_tiles * n_tiles:
            bx, by = raster(tile, m_tiles, n_tiles)
            acc = plan.mma.partition_fragment_C((bM, bN))               # (MMA, MMA_M, MMA_N)
            stage, phase = mainloop(plan, ring, acc, tCrA, tCrB, stage, phase, k_tiles)
            store(plan, C, sC, acc, bx, by)
            tile += mo.grid_dim().x
        if tid % 128 == 0:
            mo.tma_store_wait(0)


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_sm90(A: Any, B: Any, C: Any, *, config: WarpgroupConfig | None = None) -> Any:
    """C = A @ B.T, in place; returns C.  sm_90a.

    A is (M, K), B (N, K), C (M, N) with N contiguous and a multiple of 8, float16 or bfloat16; A and B with either mode
    contiguous, M and K of any extents.  Other strides are multiples of 16 bytes (LayoutError otherwise).  ``config``
    overrides the choice.  ArgumentError for other arguments.
    """
    a, b, c = matrices("gemm_sm90", A, B, C)
    _check_dtypes(a, b, c)
    same_problem("gemm_sm90", a, b, c)
    configured("gemm_sm90", config, WarpgroupConfig)
    (M, K), N = a.shape, b.shape[0]
    if 0 in (M, N):
        return C
    if K == 0:                                          # TMA has no maps of empty arrays
        return gemm_sm80(A, B, C)
    majors = [("mn", "k")[tma_mode("gemm_sm90", letter, info)] for letter, info in (("A", a), ("B", b))]
    _check_stores(c)
    config = config or choose(M, N, K)
    plan = make_plan(config, a.dtype, c.dtype, *majors)
    tiles = -(-M // config.bM) * -(-N // config.bN)
    tma_A = mo.make_tma_copy(mo.TmaLoad(), A, plan.sA_tile)
    tma_B = mo.make_tma_copy(mo.TmaLoad(), B, plan.sB_tile)
    tma_C = mo.make_tma_copy(mo.TmaStore(), C, plan.sC_tile)
    gemm_sm90_kernel[min(tiles, SMS), THREADS](tma_A, tma_B, tma_C, M, N, K, plan)
    return C


def suits(A: Any, B: Any, C: Any) -> bool:
    """Whether ``gemm_sm90`` takes these arrays and is the faster kernel for them: 16-bit types, large M and N."""
    infos = [mo.describe(x) for x in (A, B, C)]
    if any(info is None or len(info.shape) != 2 or info.dtype not in DTYPES or info.ptr % 16 for info in infos):
        return False
    apart = all(step == 1 or (step > 0 and step % 8 == 0) for info in infos for step in info.strides)
    c = infos[2]
    return apart and all(info.strides.count(1) == 1 for info in infos) and c.strides[1] == 1 and c.shape[1] % 8 == 0 \
        and min(c.shape) >= 256 and infos[0].dtype == infos[1].dtype and infos[0].shape[1] > 0


def _check_dtypes(a: Any, b: Any, c: Any) -> None:
    if a.dtype != b.dtype:
        raise mo.ArgumentError(f"gemm_sm90: A holds {a.dtype} and B {b.dtype}; they must be the same")
    for letter, info in (("A", a), ("C", c)):
        if info.dtype not in DTYPES:
            raise mo.ArgumentError(f"gemm_sm90: {letter} holds {info.dtype}; it may hold {', '.join(map(str, DTYPES))}",
                                   hint="mo.kernels.gemm takes other dtypes")


def _check_stores(c: Any) -> None:
    """LayoutError where TMA cannot store C, along N and in whole parts of 16 bytes."""
    M, N = c.shape
    if c.strides[0] == 1 and c.strides[1] != 1:
        raise mo.LayoutError(f"gemm_sm90: C ({M},{N}):(1,{c.strides[1]}) is contiguous along M, and it is stored along "
                             "N", hint="gemm_sm90(B, A, C.T) is the same product", code="B5")
    tma_mode("gemm_sm90", "C", c, (1,))
    if N * c.dtype.bytes % 16:
        raise mo.LayoutError(f"gemm_sm90: the rows of C ({M},{N}) have {N * c.dtype.bytes} bytes, and TMA stores "
                             "multiples of 16", hint="use gemm_sm80, which takes any extents", code="B5")
