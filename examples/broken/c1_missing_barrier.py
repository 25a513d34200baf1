"""A tile is transposed through shared memory, and no barrier stands between the write and the read: class C1.

The report:

C1: tile(2, 0) of block (0, 0, 0) may be read before it is written: no barrier between the write by thread 32 at line 28 and the read by thread 2 at line 29
  examples/broken/c1_missing_barrier.py:28 in transpose_kernel
    tile[ty, tx] = gX[ty, tx]
    ^^^^^^^^^^^^
  examples/broken/c1_missing_barrier.py:29 in transpose_kernel
    gY[ty, tx] = tile[tx, ty]
                 ^^^^^^^^^^^^
hint: sync_threads() between the two
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(x, y):
    bx, by, _ = mo.block_idx()
    tx, ty, _ = mo.thread_idx()
    tile = mo.shared_array(mo.float32, mo.make_layout((16, 16), (1, 17)))
    gX, gY = mo.tile(x, (16, 16), (bx, by)), mo.tile(y, (16, 16), (by, bx))
    tile[ty, tx] = gX[ty, tx]
    gY[ty, tx] = tile[tx, ty]


def transpose(x, y, kernel=transpose_kernel):
    return kernel[(x.shape[0] // 16, x.shape[1] // 16), (16, 16)](x, y)


def main():
    x, y = np.arange(32 * 16, dtype=np.float32).reshape(32, 16), np.zeros((16, 32), np.float32)
    report = transpose(x, y, mo.check(transpose_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
