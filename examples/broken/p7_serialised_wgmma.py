"""A tile of 128 x 256 numbers of a product in the registers of one warp group, 256 for each of its threads.

A thread has 255. So the compiler makes each wgmma wait for the one before it, and spills, and says so: class P7.

The report:

P7: wgmma wait for each other: insufficient register resources for the wgmma pipeline (ptxas C7511)
  examples/broken/p7_serialised_wgmma.py:35 in matmul_kernel
    mo.gemm(mma, tCrA, tCrB, acc, accumulate=k > 0)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: smaller accumulators, more warp groups, or more registers (warpgroup_reg_alloc, fewer min_blocks)
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(C: mo.Static, A, B, mma):
    sA, sB = mo.shared_array(A.dtype, A.smem_layout), mo.shared_array(B.dtype, B.smem_layout)     # (128, 64), (256, 64)
    full, tid = mo.mbarrier_array(1), mo.thread_idx().x
    gA, gB = mo.tile(A.tensor, A.tile, (0, None)), mo.tile(B.tensor, B.tile, (0, None))   # (128, 64, k), (256, 64, k)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((128, 256))
    for k in range(mo.size(gA, 2)):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, A.bytes + B.bytes)
            mo.copyto(A, sA, gA[:, :, k], barrier=(full, 0))
            mo.copyto(B, sB, gB[:, :, k], barrier=(full, 0))
        mo.mbarrier_wait(full, 0, k % 2)
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA, tCrB, acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.sync_threads()
    mo.copyto(thr.partition_C(C), acc)


def matmul(C, A, B, kernel=matmul_kernel):
    atom = mo.smem_layout_atom(mo.float16, "k")
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 256))
    copies = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(atom, (x.shape[0], 64))) for x in (A, B)]
    return kernel[1, mo.size(mma)](C, *copies, mma)


def main(K=128):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (128, 256))
    C = np.full((128, 256), np.nan, np.float32)
    report = matmul(C, A, B, mo.check(matmul_kernel, lints="deep"))
    print(report)
    return report


if __name__ == "__main__":
    main()
