"""C = A * B^T on tensor cores, the Hopper way: TMA loads, warpgroups multiply straight from shared memory (wgmma).

float16 operands, contiguous along K; float32 result.  One thread fills a ring of stages as they become empty, two
warpgroups multiply each stage as it becomes full: an mbarrier per stage and direction says when.  M and N are multiples
of the tile; K is of any length, as TMA reads zeros beyond its end.
"""

import numpy as np

import moye as mo

BM, BN, BK, STAGES = 128, 128, 64, 4
CONSUMERS, THREADS = 256, 384                           # two warpgroups multiply, one thread of a third loads


@mo.jit
def next_stage(stage, phase):
    """Around the ring: every time it starts anew, the parity that waits are for changes."""
    stage += 1
    if stage == STAGES:
        stage, phase = 0, phase ^ 1
    return stage, phase


@mo.jit
def produce(A, B, ring):
    """Load a tile of A and of B into every stage that has become empty."""
    sA, sB, full, empty = ring
    bx, by, _ = mo.block_idx()
    gA = mo.tile(A.tensor, (BM, BK), (bx, None))                        # (BM, BK, k), coordinates in A
    gB = mo.tile(B.tensor, (BN, BK), (by, None))                        # (BN, BK, k)
    stage, phase = 0, 1                                 # a barrier starts in phase 0: waiting for 1 does not block
    for k in range(mo.size(gA, 2)):
        mo.mbarrier_wait(empty, stage, phase)
        mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
        mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
        mo.copyto(B, sB[:, :, stage], gB[:, :, k], barrier=(full, stage))
        stage, phase = next_stage(stage, phase)


@mo.jit
def consume(gC, mma, ring, k_tiles):
    """Multiply every stage that has become full, and store the sums."""
    sA, sB, full, empty = ring
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid % CONSUMERS)
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N): registers
    stage, phase, before = 0, 0, 0
    for k in range(k_tiles):
        mo.mbarrier_wait(full, stage, phase)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):    # one instruction deep in K; the first product overwrites
            mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], tCrC, accumulate=kk > 0 or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)                            # all but the products of this stage are done
        if k > 0 and tid % 128 == 0:
            mo.mbarrier_arrive(empty, before)           # so the stage before it is empty, for this warpgroup
        before = stage
        stage, phase = next_stage(stage, phase)
    mo.warpgroup_wait(0)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def matmul_kernel(A, sA_layout, B, sB_layout, C, mma, K):
    tid = mo.thread_idx().x
    bx, by, _ = mo.block_idx()
    gC = mo.tile(C, (BM, BN), (bx, by))                 # (BM, BN)
    sA = mo.shared_array(A.dtype, sA_layout)            # (BM, BK, stages)
    sB = mo.shared_array(B.dtype, sB_layout)            # (BN, BK, stages)
    full, empty = mo.mbarrier_array(STAGES), mo.mbarrier_array(STAGES)
    if tid == 0:
        for stage in mo.static_range(STAGES):
            mo.mbarrier_init(full, stage, 1)            # the producer arrives; the bytes it expects count too
            mo.mbarrier_init(empty, stage, 2)           # a thread of each warpgroup arrives
        mo.fence_mbarrier_init()
    mo.sync_threads()
    ring = (sA, sB, full, empty)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)                    # registers that the other two take
        if tid == CONSUMERS:
            produce(A, B, ring)
    else:
        mo.warpgroup_reg_alloc(232)
        consume(gC, mma, ring, mo.ceil_div(K, BK))


ATOM = mo.smem_layout_atom(mo.float16, "k")             # rows of 128 bytes, swizzled as TMA and wgmma have it
SA, SB = (mo.tile_to_shape(ATOM, (rows, BK, STAGES)) for rows in (BM, BN))
TILE_A, TILE_B = (mo.tile_to_shape(ATOM, (rows, BK)) for rows in (BM, BN))
MMA = mo.make_tiled_mma(mo.mma.SM90_64x128x16_F32F16F16_SS, mo.make_layout((2, 1)))


def matmul(A, B, C, kernel=matmul_kernel):
    grid = (mo.ceil_div(A.shape[0], BM), mo.ceil_div(B.shape[0], BN))
    tma_A, tma_B = mo.make_tma_copy(mo.TmaLoad(), A, TILE_A), mo.make_tma_copy(mo.TmaLoad(), B, TILE_B)
    return kernel[grid, THREADS](tma_A, SA, tma_B, SB, C, MMA, A.shape[1])


def main(M=512, N=512, K=1000):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
    C = mo.testing.array(np.full((M, N), np.nan, np.float32), arch="sm_90a")
    matmul(mo.testing.array(A, arch="sm_90a"), mo.testing.array(B, arch="sm_90a"), C)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 1e-5, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K} by TMA and wgmma, {STAGES} stages: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
