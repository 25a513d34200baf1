"""A position in a ring buffer, computed in 32 bits.

From block 128 on, `bx * stride` exceeds 2^31 - 1, and the remainder of a negative number is taken: class A11.

The report:

A11: thread 0 of block (128, 0, 0) computes position = 2147483776, which does not fit 32 bits
  examples/broken/a11_offset_overflows.py:23 in mark_kernel
    position = bx * stride                              # in the stream that the ring holds the end of
               ^^^^^^^^^^^
hint: compute it in int64
"""


import numpy as np

import moye as mo


@mo.kernel
def mark_kernel(ring, stride):
    bx, _, _ = mo.block_idx()
    position = bx * stride                              # in the stream that the ring holds the end of
    ring[position % 4099] = 1.0


def mark(ring, blocks, kernel=mark_kernel):
    return kernel[blocks, 1](ring, (1 << 24) + 1)


def main(blocks=160):
    ring = np.zeros(4099, np.float32)
    report = mark(ring, blocks, mo.check(mark_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
