"""Accumulators of one tiled MMA, stored with the partition of another.

Both have 8 x 8 values per thread, but `mma_out` runs its threads along the rows: class A8.

The report:

A8: tCrC holds accumulators of TiledMMA(UniversalFMA(float32), atoms (4,4,1):(1,4,0)) and tCgC is a part of TiledMMA(UniversalFMA(float32), atoms (4,4,1):(4,1,0)): value 0 of thread 1 is element (1,0) of the tile in tCrC and (0,1) in tCgC
  examples/broken/a8_other_mma.py:31 in product_kernel
    mo.copyto(tCgC, tCrC)
    ^^^^^^^^^^^^^^^^^^^^^
hint: partition the output with the tiled MMA of the gemm
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def product_kernel(C: mo.Static, A: mo.Static, B: mo.Static, mma, mma_out):
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid)
    tCgA = thr_mma.partition_A(A)                       # (MMA, MMA_M, MMA_K)
    tCgB = thr_mma.partition_B(B)                       # (MMA, MMA_N, MMA_K)
    tCrC = mma.partition_fragment_C((32, 32))           # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.gemm(mma, tCgA, tCgB, tCrC)
    tCgC = mma_out.get_slice(tid).partition_C(C)        # (MMA, MMA_M, MMA_N)
    mo.copyto(tCgC, tCrC)


def product(C, A, B, kernel=product_kernel):
    fma = mo.UniversalFMA(mo.float32)
    mma = mo.make_tiled_mma(fma, mo.make_layout((4, 4)))
    mma_out = mo.make_tiled_mma(fma, mo.make_layout((4, 4), (4, 1)))
    return kernel[1, 16](C, A, B, mma, mma_out)


def main():
    A, B = ((np.arange(256, dtype=np.float32).reshape(32, 8)) for _ in range(2))
    C = np.zeros((32, 32), np.float32)
    report = product(C, A, B, mo.check(product_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
