"""A warp-specialised matrix product by TMA and wgmma, with a place for one fault; and smaller kernels with one.

In: ``fault``, the name of what is wrong ("" for nothing).  Out: kernels and their arguments.
"""

from __future__ import annotations

import numpy as np

import moye as mo

BM, BN, BK = 128, 128, 64
CONSUMERS, PRODUCER = 256, 256


def layouts(bM, bN, bK, stages, dtype=mo.bfloat16):
    atom = mo.smem_layout_atom(dtype, "k")
    return mo.tile_to_shape(atom, (bM, bK, stages)), mo.tile_to_shape(atom, (bN, bK, stages))


@mo.kernel
def gemm(C, A, B, mma, sA_layout, sB_layout, fault: mo.Constexpr = ""):
    """C = A * B^T: one warp loads, two warpgroups multiply, through a ring of stages."""
    stages = mo.size(sA_layout, 2)
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, block = mo.thread_idx().x, mo.block_idx()
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    gA = mo.tile(A.tensor, (bM, bK), (block.x, None), ragged=True)      # (bM, bK, k)
    gB = mo.tile(B.tensor, (bN, bK), (block.y, None), ragged=True)      # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (block.x, block.y))
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 3 if fault == "count" else 2)
        if fault != "init-fence":
            mo.fence_mbarrier_init()
    if fault != "init-barrier":
        mo.sync_threads()
    stage, phase = 0, 0
    if tid >= PRODUCER:
        mo.warpgroup_reg_dealloc(40)
        if (tid < PRODUCER + 32) if fault == "every-lane" else (tid == PRODUCER):
            for k in range(tiles):
                if fault != "no-empty-wait":
                    mo.mbarrier_wait(empty, stage, phase if fault == "producer-parity" else phase ^ 1)
                extra = -A.bytes if fault == "few-bytes" else 16 if fault == "many-bytes" else 0
                mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes + extra)
                mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
                mo.copyto(B, sB[:, :, stage], gB[:, :, k], barrier=(full, stage))
                stage += 1
                if stage == stages:
                    stage, phase = 0, phase ^ 1
    else:
        mo.warpgroup_reg_alloc(232)
        thr = mma.get_slice(tid % CONSUMERS)
        tCrA = thr.partition_fragment_A(sA)                             # (MMA, MMA_M, MMA_K, stages)
        tCrB = thr.partition_fragment_B(sB)                             # (MMA, MMA_N, MMA_K, stages)
        acc = mma.partition_fragment_C((bM, bN))
        for k in range(tiles + 1 if fault == "trips" else tiles):
            if fault != "no-full-wait":
                mo.mbarrier_wait(full, stage, phase ^ 1 if fault == "consumer-parity" else phase)
            if fault != "no-arrive":
                mo.warpgroup_arrive()
            for kk in mo.static_range(mo.size(tCrA, 2)):
                first = True if fault == "first-k" else kk > 0 or k > 0
                mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], acc, accumulate=first)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(1 if fault == "early-release" else 0)
            if tid % 128 == 0:
                mo.mbarrier_arrive(empty, stage)
            stage += 1
            if stage == stages:
                stage, phase = 0, phase ^ 1
        if fault != "early-release":
            mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(gC), acc)
        if fault == "early-release":
            mo.warpgroup_wait(0)


def run_gemm(shape, tile=(BM, BN, BK), stages=4, fault="", check=True, **options):
    """(report or None, C, expected in float64)."""
    (M, N, K), (bM, bN, bK) = shape, tile
    rng = np.random.default_rng(0)
    import ml_dtypes
    A, B = (rng.standard_normal((rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    C = np.full((M, N), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, bN), mo.make_layout((2, 1)))
    sA, sB = layouts(bM, bN, bK, stages)
    copies = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (rows, bK)))
              for x, rows in ((A, bM), (B, bN))]
    arguments = (C, *copies, mma, sA, sB, fault)
    grid = (M // bM, N // bN)
    expected = A.astype(np.float64) @ B.astype(np.float64).T
    if check:
        return mo.check(gemm, **options)[grid, CONSUMERS + 128](*arguments), C, expected
    gemm[grid, CONSUMERS + 128](*arguments)
    return None, C, expected
