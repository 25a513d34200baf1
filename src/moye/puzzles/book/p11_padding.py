"""# Thirty-two banks

Shared memory has 32 banks of 4 bytes. A warp reads 32 words at once if they lie in different banks; words of one bank follow each other.
In this transposition the warp reads a column of a tile of 32 x 32: all its words lie 32 apart, so in **one** bank, and the read takes
32 times as long.

Change the layout of `tile`, and nothing else, so that neither the rows that are written nor the columns that are read have a conflict.
A layout may leave gaps.
"""

import moye as mo

TILE = mo.make_layout((32, 32), (33, 1))                #? TILE = mo.make_layout((32, 32), (32, 1))


@mo.kernel
def transpose_kernel(out, x):
    bx, by = mo.block_idx().x, mo.block_idx().y
    tx, ty = mo.thread_idx().x % 32, mo.thread_idx().x // 32
    tile = mo.shared_array(mo.float32, TILE)
    gX = mo.tile(x, (32, 32), (by, bx))                 # (32, 32) of x
    gO = mo.tile(out, (32, 32), (bx, by))               # (32, 32) of out
    for i in mo.static_range(4):
        tile[ty + 8 * i, tx] = gX[ty + 8 * i, tx]
    mo.sync_threads()
    for i in mo.static_range(4):
        gO[ty + 8 * i, tx] = tile[tx, ty + 8 * i]


def solve(out, x):
    transpose_kernel[(x.shape[1] // 32, x.shape[0] // 32), 256](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n):
    return {"out": np.empty((n, m), np.float32), "x": rng.standard_normal((m, n), np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.T, make=make, sizes=((64, 96), (32, 32)), goals=Goals(sectors=1.0, degree=1), given="bank conflicts",
    variants={"exact": True},
    hints=("The bank of a word is its offset modulo 32.",
           "With a stride of 32 between rows, a whole column is in one bank. Which strides visit all banks?",
           "A stride that shares no factor with 32: any odd one of at least 32."),
    picture=lambda: mo.draw(mo.make_layout((8, 8), (8, 1)), banks=True, bits=128,
                            title="8 rows of 8 vectors of 16 bytes: colours are banks, columns have one"))
