"""The first kernel of MoYe's page on asynchronous copies, as printed there: it waits, but no barrier follows.

`cp_async_wait` covers the copies of one's own thread.  The products read what other threads have copied, and nothing
says that those copies are finished: class D3.  d3_missing_barrier_fixed.py has one line more and is clean.

The report:

D3: sA(0, 0) of block (0, 0, 0) may be read before the asynchronous copy by thread 0 at line 61 has arrived: no barrier between the wait of thread 0 at line 63 and the read by thread 16 at line 64
  examples/broken/d3_missing_barrier.py:61 in matmul_kernel
    mo.copyto(copy_A, tAsA, tAgA[:, :, :, k])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d3_missing_barrier.py:64 in matmul_kernel
    mo.gemm(mma_C, tCsA, tCsB, tCrC)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: sync_threads() after cp_async_wait()

D3: sB(0, 0) of block (0, 0, 0) may be read before the asynchronous copy by thread 0 at line 62 has arrived: no barrier between the wait of thread 0 at line 63 and the read by thread 15 at line 64
  examples/broken/d3_missing_barrier.py:62 in matmul_kernel
    mo.copyto(copy_B, tBsB, tBgB[:, :, :, k])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d3_missing_barrier.py:64 in matmul_kernel
    mo.gemm(mma_C, tCsA, tCsB, tCrC)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: sync_threads() after cp_async_wait()
"""

# ruff: noqa: E501

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
        mo.cp_async_wait()
        mo.gemm(mma_C, tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def matmul(A, B, C, kernel=matmul_kernel):
    bM, bN, bK = 128, 128, 8
    sA_layout = mo.make_layout((bM, bK), (1, bM + 1))
    sB_layout = mo.make_layout((bN, bK), (1, bN + 1))
    copy_A = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32, cache="always"), mo.float32),
                                mo.make_layout((32, 8)), mo.make_layout((1, 1)))
    copy_B = copy_A                                     # the tiles of A and B have one shape
    mma_C = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)))
    grid = (mo.ceil_div(A.shape[0], bM), mo.ceil_div(B.shape[0], bN))
    return kernel[grid, mo.size(mma_C)](A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C)


def main(M=128, N=128, K=16):
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.standard_normal((n, K), np.float32)) for n in (M, N))
    C = np.full((M, N), np.nan, np.float32, order="F")
    report = matmul(A, B, C, mo.check(matmul_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
