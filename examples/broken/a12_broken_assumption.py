"""A kernel that was told that its extent is a multiple of 4, and a launch with 1002 elements.

The code was made for what `mo.assume` says, and the launch checks it: class A12.

The report:

A12: sums_kernel: the kernel takes whole groups of 4 (n = 1002)
  examples/broken/a12_broken_assumption.py:21 in sums_kernel
    mo.assume(n % 4 == 0, "the kernel takes whole groups of 4")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""


import numpy as np

import moye as mo


@mo.kernel
def sums_kernel(Y, X, n):
    mo.assume(n % 4 == 0, "the kernel takes whole groups of 4")
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if i < n // 4:
        Y[i] = X[4 * i] + X[4 * i + 1] + X[4 * i + 2] + X[4 * i + 3]


def sums(Y, X, kernel=sums_kernel):
    n = X.shape[0]
    return kernel[mo.ceil_div(n, 256), 64](Y, X, n)


def main():
    X = np.ones(1002, np.float32)
    Y = np.zeros(250, np.float32)
    report = sums(Y, X, mo.check(sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
