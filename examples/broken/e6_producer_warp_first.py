"""The first warp loads two tiles, and the four warps behind it multiply them.

Those four are not a warpgroup: a warpgroup begins at a multiple of 128 threads.  Class E6.

The report:

E6: SM90_64x64x16_F32F16F16_SS at line 37 is executed by threads 0-127 together, but only warps 1-3 of block (0, 0, 0) are here
  examples/broken/e6_producer_warp_first.py:37 in product_kernel
    mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=True)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let whole warpgroups, threads 128 w to 128 w + 127, execute it
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def product_kernel(C: mo.Static, A, B, mma):
    sA, sB = mo.shared_array(A.dtype, A.smem_layout), mo.shared_array(B.dtype, B.smem_layout)
    full = mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    acc = mma.partition_fragment_C((64, 64))
    acc.fill(0)
    first = 32                                          # of the threads that multiply
    if tid >= first and tid < first + 128:
        thr = mma.get_slice((tid - first) % 128)
        mo.mbarrier_wait(full, 0, 0)
        mo.warpgroup_arrive()
        mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=True)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(C), acc)
    elif tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes + B.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (0, 0)), barrier=(full, 0))
        mo.copyto(B, sB, mo.tile(B.tensor, B.tile, (0, 0)), barrier=(full, 0))


def product(C, A, B, kernel=product_kernel):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    copies = [mo.make_tma_copy(mo.TmaLoad(), array, layout) for array in (A, B)]
    return kernel[1, 256](C, *copies, mma)


def main():
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    report = product(C, A, B, mo.check(product_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
