"""C = A * B^T with a warp for each role: ``mo.PipelineTma`` says when a stage is full and when it is empty again.

float16, sums in float32, any extents whose rows are multiples of 16 bytes.  One warp loads by TMA, two warpgroups
multiply by wgmma and store by TMA.  Nowhere does the block wait as a whole once it has begun: whoever is ahead waits
for an mbarrier of one stage.  TMA reads zeros beyond the edges and writes nothing there, so there are no predicates.
"""

import numpy as np

import moye as mo

BM, BN, BK, STAGES = 128, 128, 64, 5
CONSUMERS, THREADS = 256, 384                           # two warpgroups; a warp of the third loads


@mo.jit
def produce(A, B, sA, sB, pipe):
    """Fill every stage as soon as both warpgroups have released it."""
    bx, by, _ = mo.block_idx()
    gA = mo.tile(A.tensor, (BM, BK), (bx, None))                        # (BM, BK, k), coordinates in A
    gB = mo.tile(B.tensor, (BN, BK), (by, None))                        # (BN, BK, k)
    state = pipe.producer_start()
    for k in range(mo.size(gA, 2)):
        pipe.producer_acquire(state)                    # and expect the bytes of both tiles
        mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
        mo.copyto(B, sB[:, :, state.stage], gB[:, :, k], barrier=pipe.barrier(state))
        state = state.next()


@mo.jit
def consume(mma, sA, sB, pipe, k_tiles):
    """The sums of this warpgroup's 64 rows.  A stage is released one step after its products were begun."""
    tid = mo.thread_idx().x
    thr_mma, first = mma.get_slice(tid % CONSUMERS), tid % 128 == 0
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    tCrC = mma.partition_fragment_C((BM, BN))           # (MMA, MMA_M, MMA_N): registers
    state = pipe.consumer_start()
    before = state
    for k in range(k_tiles):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):    # one instruction deep in K; the first product overwrites
            mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], tCrC, accumulate=kk > 0 or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)                            # the products of the stage before are done
        if k > 0 and first:
            pipe.consumer_release(before)               # one arrival of each warpgroup
        before, state = state, state.next()
    mo.warpgroup_wait(0)
    return tCrC


@mo.jit
def store(C, sC, copy_C, tCrC):
    """Through shared memory, where the tile lies as TMA stores it."""
    tid = mo.thread_idx().x
    bx, by, _ = mo.block_idx()
    thr_copy = copy_C.get_slice(tid % CONSUMERS)
    part = tCrC.to(sC.dtype)                            # (MMA, MMA_M, MMA_N): rounds to float16
    mo.copyto(copy_C, thr_copy.partition_D(sC), thr_copy.retile_S(part))
    mo.fence_proxy_async()                              # what this thread wrote is visible to TMA
    mo.barrier_sync(1, CONSUMERS)
    if tid == 0:
        mo.copyto(C, mo.tile(C.tensor, (BM, BN), (bx, by)), sC)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@mo.kernel
def matmul_kernel(A, sA_layout, B, sB_layout, C, sC_layout, mma, copy_C, K):
    sA = mo.shared_array(A.dtype, sA_layout)            # (BM, BK, stages)
    sB = mo.shared_array(B.dtype, sB_layout)            # (BN, BK, stages)
    sC = mo.shared_array(C.dtype, sC_layout)            # (BM, BN)
    pipe = mo.PipelineTma(STAGES, A.bytes + B.bytes, consumers=2)
    pipe.init()
    mo.sync_threads()
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)                    # registers that the other two take
        if mo.warp_idx() == CONSUMERS // 32 and mo.elect():
            produce(A, B, sA, sB, pipe)
    else:
        mo.warpgroup_reg_alloc(232)
        store(C, sC, copy_C, consume(mma, sA, sB, pipe, mo.ceil_div(K, BK)))


ATOM = mo.smem_layout_atom(mo.float16, "k")             # rows of 128 bytes, swizzled as TMA and wgmma have it
SA, SB = (mo.tile_to_shape(ATOM, (rows, BK, STAGES)) for rows in (BM, BN))
TILE_A, TILE_B, TILE_C = (mo.tile_to_shape(ATOM, shape) for shape in ((BM, BK), (BN, BK), (BM, BN)))
MMA = mo.make_tiled_mma(mo.mma.SM90_64x128x16_F32F16F16_SS, mo.make_layout((2, 1)))
COPY_C = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), mo.float16), MMA)


def matmul(A, B, C, kernel=matmul_kernel):
    grid = (mo.ceil_div(A.shape[0], BM), mo.ceil_div(B.shape[0], BN))
    tma_A, tma_B = mo.make_tma_copy(mo.TmaLoad(), A, TILE_A), mo.make_tma_copy(mo.TmaLoad(), B, TILE_B)
    tma_C = mo.make_tma_copy(mo.TmaStore(), C, TILE_C)
    return kernel[grid, THREADS](tma_A, SA, tma_B, SB, tma_C, TILE_C, MMA, COPY_C, A.shape[1])


def main(M=1000, N=520, K=1000):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
    C = mo.testing.array(np.full((M, N), np.nan, np.float16), arch="sm_90a")
    matmul(mo.testing.array(A, arch="sm_90a"), mo.testing.array(B, arch="sm_90a"), C)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 3e-4, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K} with a warp for each role, {STAGES} stages: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
