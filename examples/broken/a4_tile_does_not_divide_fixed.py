"""a4_tile_does_not_divide.py with a tile that divides the array.
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
    tile = 250
    return kernel[mo.ceil_div(X.shape[0], tile), tile](X, tile)


def main(n=1000):
    X = np.arange(n, dtype=np.float32)
    report = double(X, mo.check(double_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
