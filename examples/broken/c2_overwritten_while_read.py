"""One buffer for all tiles, and no barrier at the end of the step. A fast warp writes the next tile while others still
read this one: class C2.

The report:

C2: row(31) of block (0, 0, 0) may be overwritten while it is still being read: no barrier between the read by thread 32 at line 30 and the write by thread 31 at line 28
  examples/broken/c2_overwritten_while_read.py:28 in smooth_kernel
    row[tid] = x[k, tid]
    ^^^^^^^^
  examples/broken/c2_overwritten_while_read.py:30 in smooth_kernel
    y[k, tid] = (row[(tid + 127) % 128] + row[tid] + row[(tid + 1) % 128]) / 3
                 ^^^^^^^^^^^^^^^^^^^^^^
hint: sync_threads() between the reads and the next write
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def smooth_kernel(x, y):
    tid = mo.thread_idx().x
    row = mo.shared_array(mo.float32, 128)
    for k in range(mo.shape(x)[0]):
        row[tid] = x[k, tid]
        mo.sync_threads()
        y[k, tid] = (row[(tid + 127) % 128] + row[tid] + row[(tid + 1) % 128]) / 3


def smooth(x, y, kernel=smooth_kernel):
    return kernel[1, 128](x, y)


def main():
    x, y = np.ones((4, 128), np.float32), np.zeros((4, 128), np.float32)
    report = smooth(x, y, mo.check(smooth_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
