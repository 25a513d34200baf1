"""A loop over k-tiles leaves one wgmma in flight. A loop with two stages may do so, but here there is one stage.

The next k-tile is written over operands that the tensor cores may still read: class E3.

The report:

E3: sA(0, 0) of block (0, 0, 0) is overwritten at line 43 while the wgmma at line 48 of warpgroup 0 may still read it: the write by thread 0 is not ordered after a warpgroup_wait that covers it
  examples/broken/e3_operand_overwritten.py:48 in matmul_kernel
    mo.gemm(mma, tCrA, tCrB, acc, accumulate=k > 0)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/e3_operand_overwritten.py:43 in matmul_kernel
    mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: warpgroup_wait(0) before the stage is released

E3: sB(0, 0) of block (0, 0, 0) is overwritten at line 44 while the wgmma at line 48 of warpgroup 0 may still read it: the write by thread 0 is not ordered after a warpgroup_wait that covers it
  examples/broken/e3_operand_overwritten.py:48 in matmul_kernel
    mo.gemm(mma, tCrA, tCrB, acc, accumulate=k > 0)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/e3_operand_overwritten.py:44 in matmul_kernel
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: warpgroup_wait(0) before the stage is released
"""

# ruff: noqa: E501

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
        mo.gemm(mma, tCrA, tCrB, acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
        mo.sync_threads()
    mo.warpgroup_wait(0)
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
