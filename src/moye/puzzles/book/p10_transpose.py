"""# Turn a matrix, in whole sectors

`out` is `x` transposed, both row-major. Whoever reads rows of `x` writes columns of `out`: one of the two moves a sector of 32 bytes for
each element of 4. The way out leads through shared memory. A block reads a tile of 32 x 32 by rows, keeps it, and **writes it by rows
of `out`**. In shared memory, neighbours need not be read by neighbours.

A block has 32 x 8 threads: `(tx, ty)` with `tx` fastest. Extents are multiples of 32. Let sectors of both arrays be moved once. (The
shared memory may have bank conflicts; that is the next puzzle.)
"""

import moye as mo


@mo.kernel
def transpose_kernel(out, x):
    bx, by = mo.block_idx().x, mo.block_idx().y
    tx, ty = mo.thread_idx().x % 32, mo.thread_idx().x // 32
    tile = mo.shared_array(mo.float32, (32, 32))
    gX = mo.tile(x, (32, 32), (by, bx))                 # (32, 32) of x: row, column
    gO = mo.tile(out, (32, 32), (bx, by))               # (32, 32) of out
    for i in mo.static_range(4):
        tile[ty + 8 * i, tx] = gX[ty + 8 * i, tx]       #? gO[tx, ty + 8 * i] = gX[ty + 8 * i, tx]
    mo.sync_threads()                                   #? -
    for i in mo.static_range(4):                        #? -
        gO[ty + 8 * i, tx] = tile[tx, ty + 8 * i]       #? -


def solve(out, x):
    transpose_kernel[(x.shape[1] // 32, x.shape[0] // 32), 256](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n):
    return {"out": np.empty((n, m), np.float32), "x": rng.standard_normal((m, n), np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.T, make=make, sizes=((64, 96), (32, 32), (96, 32)), goals=Goals(sectors=1.0), given="uncoalesced",
    variants={"exact": True},
    hints=("Write gX to tile, wait for all threads, and then read tile by its columns.",
           "tx must be the last index of gX when you read, and the last index of gO when you write.",
           "Element (r, c) of the tile of out is element (c, r) of the tile of x."),
    picture=lambda: mo.draw(mo.make_layout((8, 8), (8, 1)), title="a tile, row-major: its rows are read, its columns become rows"))
