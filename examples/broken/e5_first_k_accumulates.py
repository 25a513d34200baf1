"""A loop over k-tiles that adds every product to the accumulators.

Nothing has set them when the first is added: class E5.

The report:

E5: the wgmma at line 34 of thread 0 of block (0, 0, 0) adds to acc, which was not set
  examples/broken/e5_first_k_accumulates.py:34 in matmul_kernel
    mo.gemm(mma, tCrA, tCrB, acc, accumulate=True)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: accumulate=False for the first k, or fill(0)
"""

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(C: mo.Static, A: mo.Static, B: mo.Static, mma, layout):
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)
    tid = mo.thread_idx().x
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (64, 64), (0, None))       # (64, 64, k)
    threads = mo.make_layout((4, 32), (32, 1))
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((64, 64))
    for k in range(mo.size(gA, 2)):
        mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
        mo.fence_proxy_async()
        mo.sync_threads()
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA, tCrB, acc, accumulate=True)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.sync_threads()
    mo.copyto(thr.partition_C(C), acc)


def matmul(C, A, B, kernel=matmul_kernel):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    return kernel[1, 128](C, A, B, mma, layout)


def main(K=192):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((64, K)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    report = matmul(C, A, B, mo.check(matmul_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
