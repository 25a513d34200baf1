"""The difference of neighbours: the last thread has no right neighbour, and the test before the read forgets it.

This is class B1.  b1_out_of_bounds_fixed.py tests for the neighbour.

The report:

B1: thread 71 of block (1, 0, 0) reads x(200) at line 24, outside of x with layout (200):(1)
  examples/broken/b1_out_of_bounds.py:24 in differences_kernel
    y[i] = x[i + 1] - x[i]
           ^^^^^^^^
hint: predicate the access, or pass an array whose extents are multiples of the tile
"""


import numpy as np

import moye as mo


@mo.kernel
def differences_kernel(x, y):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i < mo.size(x):
        y[i] = x[i + 1] - x[i]


def differences(x, y, kernel=differences_kernel):
    return kernel[mo.ceil_div(x.shape[0], 128), 128](x, y)


def main(n=200):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    report = differences(x, y, mo.check(differences_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
