"""g1_two_blocks_one_tile.py with the tile chosen by both axes: clean."""


import numpy as np

import moye as mo


@mo.kernel
def outer_kernel(x, y, C):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gC = mo.tile(C, (64, 1), (bx, by))                  # (64, 1)
    gC[tid, 0] = x[bx * 64 + tid] * y[by]


def outer(x, y, C, kernel=outer_kernel):
    return kernel[(x.size // 64, y.size), 64](x, y, C)


def main(M=128, N=2):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(M, np.float32), rng.standard_normal(N, np.float32)
    C = np.full((M, N), np.nan, np.float32, order="F")
    report = outer(x, y, C, mo.check(outer_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
