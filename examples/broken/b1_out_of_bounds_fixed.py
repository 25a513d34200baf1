"""b1_out_of_bounds.py with the test that it needs: the right neighbour must exist.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def differences_kernel(x, y):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i + 1 < mo.size(x):
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
