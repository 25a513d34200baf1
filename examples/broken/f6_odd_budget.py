"""One warp group loads with few registers. The other multiplies with the registers that it has given back.

A budget of registers is a multiple of 8 from 24 to 256, and 236 is not: class F6.

The report:

F6: warpgroup_reg_alloc(236): a budget is a static multiple of 8 from 24 to 256
  examples/broken/f6_odd_budget.py:31 in scale_kernel
    mo.warpgroup_reg_alloc(236)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

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
        mo.warpgroup_reg_alloc(236)
        mo.mbarrier_wait(full, 0, 0)
        Y[tid - 128, bx] = factor * tile[tid - 128]


def scale(Y, X, kernel=scale_kernel):
    return kernel[X.shape[1], 256](Y, X, 2.0)


def main(n=2):
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((128, n), np.float32))
    Y = np.full_like(X, np.nan)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
