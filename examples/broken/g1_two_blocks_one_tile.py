"""Each block writes a tile of C, but the wrong axis chooses the tile: blocks that differ in y write the same one.

g1_two_blocks_one_tile_fixed.py uses both axes.

The report:

G1: C(0, 0) is written by thread 0 of block (0, 1, 0) and written by thread 0 of block (0, 0, 0): blocks run in any order, so nothing says which of the two stays
  examples/broken/g1_two_blocks_one_tile.py:26 in outer_kernel
    gC[tid, 0] = x[bx * 64 + tid] * y[by]
    ^^^^^^^^^^
hint: let one block write each element
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def outer_kernel(x, y, C):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gC = mo.tile(C, (64, 1), (bx, bx))                  # (64, 1)
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
