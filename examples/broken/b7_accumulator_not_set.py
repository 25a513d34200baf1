"""A product whose accumulators start with what their registers happen to hold: `tCrC.fill(0)` is missing.  Class B7.

The report:

B7: thread 0 of block (0, 0, 0) uses tCrC(0, 0, 0) at line 30 before it was set
  examples/broken/b7_accumulator_not_set.py:30 in matmul_kernel
    mo.gemm(mma, tCrA, tCrB, tCrC)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: set it first, for example with tCrC.fill(0)
"""


import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, B, C, mma):
    bx, by, _ = mo.block_idx()
    gA, gB = mo.tile(A, (16, 16), (bx, 0)), mo.tile(B, (8, 16), (by, 0))
    gC = mo.tile(C, (16, 8), (bx, by))
    thr_mma = mma.get_slice(mo.thread_idx().x)
    tCgA, tCgB = thr_mma.partition_A(gA), thr_mma.partition_B(gB)   # (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(gC)                                  # (MMA, MMA_M, MMA_N)
    tCrA, tCrB = thr_mma.make_fragment_A(tCgA), thr_mma.make_fragment_B(tCgB)
    tCrC = thr_mma.make_fragment_C(tCgC)
    mo.copyto(tCrA, tCgA)
    mo.copyto(tCrB, tCgB)
    mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
    return kernel[(A.shape[0] // 16, B.shape[0] // 8), mo.size(mma)](A, B, C, mma)


def main():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((8, 16)).astype(np.float16)
    C = np.zeros((16, 8), np.float32)
    report = matmul(A, B, C, mo.check(matmul_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
