"""A tile of 256 elements on an array of 1000.

The last tile would reach 24 elements past the array, and its accesses are not predicated: class A4.

The report:

A4: double_kernel: the tile (256) does not divide argument X: its extent 1000 in mode 0 is no multiple of 256
  examples/broken/a4_tile_does_not_divide.py:24 in double_kernel
    gX = mo.tile(X, (tile,), (bx,))                     # (tile)
         ^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: pad the array, or use mo.tile(..., ragged=True) with predicated copies
"""


import numpy as np

import moye as mo


@mo.kernel
def double_kernel(X, tile: mo.Constexpr):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gX = mo.tile(X, (tile,), (bx,))                     # (tile)
    gX[tid] = gX[tid] * 2


def double(X, kernel=double_kernel):
    tile = 256
    return kernel[mo.ceil_div(X.shape[0], tile), tile](X, tile)


def main(n=1000):
    X = np.arange(n, dtype=np.float32)
    report = double(X, mo.check(double_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
