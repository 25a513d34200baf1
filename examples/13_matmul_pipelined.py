"""C = A * B^T on tensor cores, the Ampere way: a pipeline of cp.async stages, swizzled shared memory, ldmatrix.

float16 operands, contiguous along K; float32 accumulators.  While one stage is multiplied, the next ones are on their
way; `mo.Pipeline` keeps the stage indices and the wait counts that example 09 writes out by hand.
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, load_A, B, sB_layout, copy_B, load_B, C, mma, pipe):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK, stages)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A, thr_copy_B = copy_A.get_slice(tid), copy_B.get_slice(tid)
    tAgA, tAsA = thr_copy_A.partition_S(gA), thr_copy_A.partition_D(sA)     # (CPY, CPY_M, CPY_K, k), (..., stages)
    tBgB, tBsB = thr_copy_B.partition_S(gB), thr_copy_B.partition_D(sB)     # (CPY, CPY_N, CPY_K, k), (..., stages)

    thr_mma, thr_load_A, thr_load_B = mma.get_slice(tid), load_A.get_slice(tid), load_B.get_slice(tid)
    tCsA, tCsB = thr_load_A.partition_S(sA), thr_load_B.partition_S(sB)     # (LDSM, LDSM_M, LDSM_K, stages)
    tCrA = thr_mma.partition_fragment_A(sA[:, :, 0])    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.partition_fragment_B(sB[:, :, 0])    # (MMA, MMA_N, MMA_K)
    tXrA, tXrB = thr_load_A.retile_D(tCrA), thr_load_B.retile_D(tCrB)       # the same registers as ldmatrix fills them
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    k_tiles = mo.size(gA, 2)
    for k_tile in mo.static_range(pipe.ahead):          # fill all stages but one
        if k_tile < k_tiles:
            mo.copyto(copy_A, tAsA[:, :, :, k_tile], tAgA[:, :, :, k_tile])
            mo.copyto(copy_B, tBsB[:, :, :, k_tile], tBgB[:, :, :, k_tile])
        pipe.commit()
    state = pipe.start()
    for k_tile in range(k_tiles):                       # a loop of the kernel, which carries the state
        pipe.wait()                                     # state.read has arrived, state.write is free
        if k_tile + pipe.ahead < k_tiles:
            mo.copyto(copy_A, tAsA[:, :, :, state.write], tAgA[:, :, :, k_tile + pipe.ahead])
            mo.copyto(copy_B, tBsB[:, :, :, state.write], tBgB[:, :, :, k_tile + pipe.ahead])
        pipe.commit()
        for k in mo.static_range(mo.size(tCrA, 2)):     # unrolled: one instruction deep in K
            mo.copyto(load_A, tXrA[:, :, k], tCsA[:, :, k, state.read])
            mo.copyto(load_B, tXrB[:, :, k], tCsB[:, :, k, state.read])
            mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], tCrC)
        state = state.next()
    mo.copyto(tCgC, tCrC)


BM, BN, BK, PIPE = 64, 64, 64, mo.Pipeline(stages=3)
ATOM = mo.smem_layout_atom(mo.float16, "k")             # rows of 128 bytes, swizzled
SA, SB = (mo.tile_to_shape(ATOM, (rows, BK, PIPE.stages)) for rows in (BM, BN))
MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 2)), (32, 32, 16))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float16),
                          mo.make_layout((16, 8), (8, 1)), mo.make_layout((1, 8)))
LDMATRIX = mo.CopyAtom(mo.LdMatrix(4), mo.float16)
LOAD_A, LOAD_B = mo.make_tiled_copy_A(LDMATRIX, MMA), mo.make_tiled_copy_B(LDMATRIX, MMA)


def matmul(A, B, C, kernel=matmul_kernel):
    grid = (mo.ceil_div(A.shape[0], BM), mo.ceil_div(B.shape[0], BN))
    return kernel[grid, mo.size(MMA)](A, SA, COPY, LOAD_A, B, SB, COPY, LOAD_B, C, MMA, PIPE)


def main(M=512, N=512, K=512):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
    C = mo.testing.array(np.full((M, N), np.nan, np.float32))
    matmul(mo.testing.array(A), mo.testing.array(B), C)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 1e-5, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K} on tensor cores, {PIPE.stages} stages: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
