"""A double-buffered product whose loop always reads stage 0.

Every access is ordered and in bounds. No rule is broken, and the result is wrong.  `expect=` finds it: class V1.

The report:

V1: C(0, 0) is 35 and 15 is expected: 1006 of 1024 elements are wrong, all of them in [0:32, 0:32]; thread 0 of block (0, 0, 0) stored it from register tCrC(0, 0, 0); the accumulator is right up to k-step 0 and wrong from k-step 1 on (of 4, counted from 0): it is 8 after that step, and what the block read for it makes 9; the step adds nothing
  examples/broken/v1_stage_not_switched.py:41 in matmul_kernel
    mo.copyto(tCgC, tCrC)
    ^^^^^^^^^^^^^^^^^^^^^
  examples/broken/v1_stage_not_switched.py:39 in matmul_kernel
    mo.gemm(mma, thr_mma.partition_A(sA[:, :, 0]), thr_mma.partition_B(sB[:, :, stage]), tCrC)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, B, C, copy, mma):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float32, (32, 8, 2)), mo.shared_array(mo.float32, (32, 8, 2))   # (bM, bK, stage)
    gA, gB = mo.tile(A, (32, 8), (0, None)), mo.tile(B, (32, 8), (0, None))                     # (bM, bK, k)
    thr_copy, thr_mma = copy.get_slice(tid), mma.get_slice(tid)
    tAgA, tAsA = thr_copy.partition_S(gA), thr_copy.partition_D(sA)     # (CPY, CPY_M, CPY_K, k), (..., stage)
    tBgB, tBsB = thr_copy.partition_S(gB), thr_copy.partition_D(sB)
    tCgC = thr_mma.partition_C(mo.tile(C, (32, 32), (0, 0)))            # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        stage = k % 2
        mo.copyto(copy, tAsA[:, :, :, stage], tAgA[:, :, :, k])
        mo.copyto(copy, tBsB[:, :, :, stage], tBgB[:, :, :, k])
        mo.sync_threads()
        mo.gemm(mma, thr_mma.partition_A(sA[:, :, 0]), thr_mma.partition_B(sB[:, :, stage]), tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((32, 2)))
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 8)))
    return kernel[1, 64](A, B, C, copy, mma)


def main(K=32):
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.integers(-3, 4, (32, K)).astype(np.float32)) for _ in range(2))
    C = np.full((32, 32), np.nan, np.float32, order="F")
    report = matmul(A, B, C, mo.check(matmul_kernel, expect=lambda A, B: A.astype(np.float64) @ B.T))
    print(report)
    return report


if __name__ == "__main__":
    main()
