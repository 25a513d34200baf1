"""b11_stale_view.py with a row that is allocated once, before the loop.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def carry_kernel(x, y):
    tid = mo.thread_idx().x
    total = 0.0
    row = mo.shared_array(mo.float32, 128)
    for k in range(mo.shape(x)[0]):
        if k > 0:
            total += row[127 - tid]
        mo.sync_threads()
        row[tid] = x[k, tid]
        mo.sync_threads()
    y[tid] = total


def carry(x, y, kernel=carry_kernel):
    return kernel[1, 128](x, y)


def main():
    x, y = np.ones((4, 128), np.float32), np.zeros(128, np.float32)
    report = carry(x, y, mo.check(carry_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
