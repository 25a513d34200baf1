"""e2_read_before_wait.py with the wait above the store.
"""

import numpy as np

import moye as mo


@mo.kernel
def product_kernel(C: mo.Static, A: mo.Static, B: mo.Static, mma, layout):
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)
    tid = mo.thread_idx().x
    threads = mo.make_layout((4, 32), (32, 1))
    mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(A, threads, tid))
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(B, threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    acc = mma.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


def product(C, A, B, kernel=product_kernel):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    return kernel[1, 128](C, A, B, mma, layout)


def main():
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    report = product(C, A, B, mo.check(product_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
