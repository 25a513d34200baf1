"""The product of example 10 with `ldmatrix`: four (two) 8x4 parts of a tf32 tile arrive in one instruction of the warp.

`make_tiled_copy_A/B(atom, mma)` is the tiled copy whose threads receive what the MMA wants of them.  It has another
order of a thread's values than the MMA has, so the fragments are regrouped for it by `retile_D`.  ldmatrix reads 16
bytes along k: an A that is K-major takes it, one that is M-major is copied element by element.  It moves bits, so tf32
is float32 cut off, not rounded, and the error is 2.7 times that of example 10.
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, read_A, B, sB_layout, copy_B, read_B, C, mma_C):
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
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K), tf32
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K), tf32
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)

    thr_read_A = read_A.get_slice(tid)
    tXsA = thr_read_A.partition_S(sA)                   # (CPY, CPY_M, CPY_K)
    tXrA = thr_read_A.retile_D(tCrA)                    # (CPY, CPY_M, CPY_K): the registers of tCrA
    thr_read_B = read_B.get_slice(tid)
    tXsB = thr_read_B.partition_S(sB)                   # (CPY, CPY_N, CPY_K)
    tXrB = thr_read_B.retile_D(tCrB)                    # (CPY, CPY_N, CPY_K): the registers of tCrB

    for k in range(mo.size(tAgA, 3)):
        mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
        mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.copyto(read_A, tXrA, tXsA)
        mo.copyto(read_B, tXrB, tXsB)
        mo.gemm(mma_C, tCrC, tCrA, tCrB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, major="k", kernel=matmul_kernel):
    """``major``: "k" for a row-major A, "m" for a column-major one.  B is row-major."""
    bM, bN, bK = 16, 8, 8                               # one instruction
    sA_layout = mo.make_layout((bM, bK), (bK, 1) if major == "k" else (1, bM))
    sB_layout = mo.make_layout((bN, bK), (bK, 1))
    thr, val = (mo.make_layout((16, 2), (2, 1)), (1, 4)) if major == "k" else (mo.make_layout((4, 8)), (4, 1))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32), thr, mo.make_layout(val))
    copy_B = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32),
                                mo.make_layout((8, 4), (4, 1)), mo.make_layout((1, 2)))
    mma_C = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN)
    read = mo.LdMatrix(4) if major == "k" else mo.UniversalCopy(mo.float32)
    read_A = mo.make_tiled_copy_A(mo.CopyAtom(read, mo.float32), mma_C)
    read_B = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(2), mo.float32), mma_C)
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, read_A, B, sB_layout, copy_B, read_B, C, mma_C)


def main(M=128, N=96, K=64):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((M, K), np.float32), rng.standard_normal((N, K), np.float32)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    for major, order in (("k", "C"), ("m", "F")):
        C = mo.testing.array(np.full((M, N), np.nan, np.float32, order="F"))
        matmul(mo.testing.array(A, order=order), mo.testing.array(B), C, major)
        error = np.linalg.norm(mo.testing.host(C) - expected) / np.linalg.norm(expected)
        assert error < 2e-3, f"relative error {error:.1e}"
        print(f"matmul {M}x{N}x{K}, tf32, A {major.upper()}-major: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
