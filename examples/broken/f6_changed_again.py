"""Warps keep few registers while they load, and take more for the sums.

warpgroup_reg_dealloc and warpgroup_reg_alloc are for whole warp groups: between the two, its four warps must have met.
Here each warp goes on by itself: class F6.

The report:

F6: sums_kernel: warp group 0 executes warpgroup_reg_alloc(168) after warpgroup_reg_dealloc(40), and its warps do not meet in between
  examples/broken/f6_changed_again.py:29 in sums_kernel
    mo.warpgroup_reg_dealloc(40)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f6_changed_again.py:33 in sums_kernel
    mo.warpgroup_reg_alloc(168)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the 128 threads of the warp group meet between the two: barrier_sync(id, 128), or sync_threads()
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def sums_kernel(Y, X):
    tile = mo.shared_array(X.dtype, mo.make_layout((128, 32), (1, 129)))
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    mo.warpgroup_reg_dealloc(40)
    for j in range(32):
        tile[tid, j] = X[tid, j, bx]
    mo.sync_warp()
    mo.warpgroup_reg_alloc(168)
    total = X.dtype(0)
    for j in range(32):
        total += tile[tid, j]
    Y[tid, bx] = total


def sums(Y, X, kernel=sums_kernel):
    return kernel[X.shape[2], 128](Y, X)


def main(n=2):
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((128, 32, n), np.float32))
    Y = np.full((128, n), np.nan, np.float32)
    report = sums(Y, X, mo.check(sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
