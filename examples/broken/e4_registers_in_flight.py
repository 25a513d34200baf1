"""A loop over k-tiles with A in registers, which leaves one wgmma in flight.

The next k-tile of A is loaded into registers that the tensor cores may still read: class E4.

The report:

E4: tCrA is written at line 35 (k = 1) by thread 0 of block (0, 0, 0) while the wgmma at line 37 (k = 0) that reads it is in flight
  examples/broken/e4_registers_in_flight.py:35 in matmul_kernel
    mo.copyto(tCrA, tCgA[:, :, k])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: warpgroup_wait(0) first
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(C: mo.Static, A: mo.Static, B: mo.Static, mma, layout):
    sB = mo.shared_array(B.dtype, layout)                                   # (64, K)
    tid = mo.thread_idx().x
    threads = mo.make_layout((4, 32), (32, 1))
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(B, threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCgA = thr.partition_A(A)                                               # (MMA, MMA_M, MMA_K)
    tCrA = thr.make_fragment_A(tCgA[:, :, 0])                               # (MMA, MMA_M)
    tCrB = thr.partition_fragment_B(sB)                                     # (MMA, MMA_N, MMA_K)
    acc = mma.partition_fragment_C((64, 64))
    for k in mo.static_range(mo.size(tCgA, 2)):
        mo.copyto(tCrA, tCgA[:, :, k])
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA, tCrB[:, :, k], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


def matmul(C, A, B, kernel=matmul_kernel):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64, a_source="registers"))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), B.shape)
    return kernel[1, 128](C, A, B, mma, layout)


def main(K=64):
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((64, K)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    report = matmul(C, A, B, mo.check(matmul_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
