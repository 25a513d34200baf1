"""Matrix product on tensor cores, float32 operands taken as tf32: one instruction's tile of C for each warp.

The tiled MMA is made of `SM80_16x8x8_F32TF32TF32F32_TN`, and the rest is example 04's: only the fragments differ, which
hold what each thread of the warp must bring.  Plain copies fill them, and round float32 to the 10 bits that tf32 keeps.
A is column-major (M-major) and B row-major (K-major): a copy of any operand to a fragment is a plain copy.
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K)

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA)                # (MMA, MMA_M, MMA_K), tf32
    tCrB = thr_mma.make_fragment_B(tCsB)                # (MMA, MMA_N, MMA_K), tf32
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(tCrA, tCsA)
        mo.copyto(tCrB, tCsB)
        mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    bM, bN, bK = 16, 8, 8                               # one instruction
    sA_layout = mo.make_layout((bM, bK), (1, bM))
    sB_layout = mo.make_layout((bN, bK), (bK, 1))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32),
                                mo.make_layout((4, 8)), mo.make_layout((4, 1)))
    copy_B = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32),
                                mo.make_layout((8, 4), (4, 1)), mo.make_layout((1, 2)))
    mma_C = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN)
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C)


def main(M=128, N=96, K=64):
    rng = np.random.default_rng(0)
    A, B = np.asfortranarray(rng.standard_normal((M, K), np.float32)), rng.standard_normal((N, K), np.float32)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    C = mo.testing.array(np.full((M, N), np.nan, np.float32, order="F"))
    matmul(mo.testing.array(A), mo.testing.array(B), C)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 1e-3, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K}, tf32: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
