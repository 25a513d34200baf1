"""One warp group loads with few registers. The other two want the registers that it has given back.

A thread of 384 has 168 registers when the kernel starts. The first group gives back 128, and the others want 144
more. The group that asks last waits for ever: class F6.

The report:

F6: scale_kernel: 3 warp groups of a block of 384 threads want 40 + 240 + 240 = 520 registers for a thread of each, and have 3 * 168 = 504: who asks last waits for ever
  examples/broken/f6_more_than_there_are.py:34 in scale_kernel
    mo.warpgroup_reg_dealloc(40)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f6_more_than_there_are.py:38 in scale_kernel
    mo.warpgroup_reg_alloc(240)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: warpgroup_reg_alloc(232)
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, factor):
    tile, full = mo.shared_array(X.dtype, 128), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 128)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if mo.warpgroup_idx() == 0:
        mo.warpgroup_reg_dealloc(40)
        tile[tid] = X[tid, bx]
        mo.mbarrier_arrive(full, 0)
    else:
        mo.warpgroup_reg_alloc(240)
        mo.mbarrier_wait(full, 0, 0)
        Y[tid - 128, bx] = factor * tile[tid % 128]


def scale(Y, X, kernel=scale_kernel):
    return kernel[X.shape[1], 384](Y, X, 2.0)


def main(n=2):
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((128, n), np.float32))
    Y = np.full((256, n), np.nan, np.float32)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
