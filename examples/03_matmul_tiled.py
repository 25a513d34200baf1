"""Matrix product C = A * B^T, tile by tile, with plain copies from global to shared memory.

Each block computes a 128x128 tile of C.  Along K it takes 8 columns of A and B at a time: all threads copy them to
shared memory, a barrier makes them visible, every thread multiplies, and a second barrier keeps the next copies away
until all have read.  A tiled copy says which thread copies what; a tiled MMA says which thread computes what.
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
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.sync_threads()
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    bM, bN, bK = 128, 128, 8
    sA_layout = mo.make_layout((bM, bK), (1, bM + 1))
    sB_layout = mo.make_layout((bN, bK), (1, bN + 1))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32),
                                mo.make_layout((32, 8)), mo.make_layout((1, 1)))
    copy_B = copy_A                                     # the tiles of A and B have one shape
    mma_C = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)))
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C)


def main(M=256, N=384, K=64):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((M, K), np.float32), rng.standard_normal((N, K), np.float32)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    C = mo.testing.array(np.full((M, N), np.nan, np.float32), order="F")
    matmul(mo.testing.array(A, order="F"), mo.testing.array(B, order="F"), C)
    error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
    assert error < 1e-5, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K}: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
