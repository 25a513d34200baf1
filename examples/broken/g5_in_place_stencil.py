"""A stencil in place: the last thread of a block reads an element that the next block overwrites.

g5_in_place_stencil_fixed.py writes to another array.

The report:

G5: y(128) is written by thread 0 of block (1, 0, 0) and read by thread 127 of block (0, 0, 0) through x: nothing orders the blocks, so the read may find either value
  examples/broken/g5_in_place_stencil.py:30 in blur_kernel
    y[i] = (here + right) / 2
    ^^^^
  examples/broken/g5_in_place_stencil.py:28 in blur_kernel
    here, right = x[i], x[mo.where(i < last, i + 1, last)]
                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: read from another array than the one that is written
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def blur_kernel(x, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    last = mo.size(x) - 1
    here, right = x[i], x[mo.where(i < last, i + 1, last)]
    mo.sync_threads()
    y[i] = (here + right) / 2


def blur(x, y, kernel=blur_kernel):
    return kernel[x.size // 128, 128](x, y)


def main(n=512):
    x = np.arange(n, dtype=np.float32)
    y = x
    report = blur(x, y, mo.check(blur_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
