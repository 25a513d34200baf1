"""f6_changed_again.py with warps that meet before they change their budget again.
"""

import numpy as np

import moye as mo


@mo.kernel
def sums_kernel(Y, X):
    tile = mo.shared_array(X.dtype, mo.make_layout((128, 32), (1, 129)))
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    mo.warpgroup_reg_dealloc(40)
    for j in range(32):
        tile[tid, j] = X[tid, j, bx]
    mo.sync_threads()
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
