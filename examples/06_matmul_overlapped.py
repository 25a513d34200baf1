"""Matrix product that computes on one tile while the next one is on its way.

The operands of a tile are first copied from shared memory to registers.  Then shared memory is free, the asynchronous
copies of the next tile are issued into it, and the products run from registers meanwhile.
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C, four: mo.Constexpr):
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

    mo.copyto(copy_A, tAsA, tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB, tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA)                # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB)                # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    k_max = mo.size(tAgA, 3)
    for k in range(k_max):
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(tCrA, tCsA)
        mo.copyto(tCrB, tCsB)
        mo.sync_threads()
        if k < k_max - 1:
            mo.copyto(copy_A, tAsA, tAgA[:, :, :, k + 1])
            mo.copyto(copy_B, tBsB, tBgB[:, :, :, k + 1])
        if four:                                        # static: one of the two is traced
            mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)      # D = A * B + C
        else:
            mo.gemm(mma_C, tCrA, tCrB, tCrC)            # C += A * B
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, atoms=(32, 8), four=True, kernel=matmul_kernel):
    """``atoms`` arranges the threads along M and N; ``four`` takes the four-tensor form of gemm."""
    bM, bN, bK = 128, 128, 8
    sA_layout = mo.make_layout((bM, bK), (1, bM + 2))
    sB_layout = mo.make_layout((bN, bK), (1, bN + 2))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64, cache="always"), mo.float32),
                                mo.make_layout((32, 8)), mo.make_layout((2, 1)))
    copy_B = copy_A                                     # the tiles of A and B have one shape
    mma_C = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout(atoms))
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C, four)


def main(M=256, N=384, K=64):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((M, K), np.float32), rng.standard_normal((N, K), np.float32)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    for atoms, four in (((16, 16), False), ((16, 16), True), ((32, 8), False), ((32, 8), True)):
        C = mo.testing.array(np.full((M, N), np.nan, np.float32), order="F")
        matmul(mo.testing.array(A, order="F"), mo.testing.array(B, order="F"), C, atoms, four)
        error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
        assert error < 1e-5, f"relative error {error:.1e}"
        print(f"matmul {M}x{N}x{K}, atoms {atoms}, {4 if four else 3} tensors: "
              f"relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
