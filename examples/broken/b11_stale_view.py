"""Each step allocates its row anew. The neighbours' sums of the last step are read through a view of the old row, whose
memory belongs to nobody now: class B11.

The report:

B11: row(0) of block (0, 0, 0) is read by thread 127 at line 30, but row was allocated again at line 28 and nothing has written it since the write by thread 0 at line 32
  examples/broken/b11_stale_view.py:32 in carry_kernel
    row[tid] = x[k, tid]
    ^^^^^^^^
  examples/broken/b11_stale_view.py:30 in carry_kernel
    total += row[127 - tid]
             ^^^^^^^^^^^^^^
hint: allocate it before the loop to keep its contents, or write it first in each iteration
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def carry_kernel(x, y):
    tid = mo.thread_idx().x
    total = 0.0
    for k in range(mo.shape(x)[0]):
        row = mo.shared_array(mo.float32, 128)
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
