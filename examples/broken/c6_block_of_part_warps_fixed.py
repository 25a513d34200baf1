"""c6_block_of_part_warps.py with whole warps.
"""

import numpy as np

import moye as mo


@mo.kernel
def product_kernel(C: mo.Static, A: mo.Static, B: mo.Static, mma):
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid % 32)
    tCrA = thr_mma.partition_fragment_A(A)              # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.partition_fragment_B(B)              # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(C)                       # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    mo.copyto(tCrA, thr_mma.partition_A(A))
    mo.copyto(tCrB, thr_mma.partition_B(B))
    tCrC.fill(0)
    mo.gemm(mma, tCrA, tCrB, tCrC)
    if tid < 32:
        mo.copyto(tCgC, tCrC)


def product(C, A, B, kernel=product_kernel):
    return kernel[1, 64](C, A, B, mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN))


def main():
    A, B = np.ones((16, 16), np.float16), np.ones((8, 16), np.float16)
    C = np.zeros((16, 8), np.float32)
    report = product(C, A, B, mo.check(product_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
