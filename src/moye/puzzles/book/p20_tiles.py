"""# Read once, use often

In the last puzzle, every element of A was read by each thread of a row of C, and every element of B by each thread of a column. Now a
block computes a tile of 32 x 32 of C. For each 32 of K it brings a tile of A and a tile of B to shared memory, where all of its threads
read them.

Fill in how the tiles come there, and the two barriers. `gA[r, c, k]` is an element of the k-th tile of A; thread `(tx, ty)` brings rows
`ty`, `ty + 8`, `ty + 16` and `ty + 24`. Extents are multiples of 32. Global memory must be read in whole sectors, and only once for
each block.
"""

import moye as mo

ROWS_A, ROWS_B = mo.make_layout((32, 32), (32, 1)), mo.make_layout((32, 32), (33, 1))


@mo.kernel
def matmul_kernel(C, A, B):
    tx, ty = mo.thread_idx().x % 32, mo.thread_idx().x // 32
    bx, by = mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float32, ROWS_A), mo.shared_array(mo.float32, ROWS_B)   # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (32, 32), (by, None)), mo.tile(B, (32, 32), (bx, None))         # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (32, 32), (by, bx))                 # (bM, bN)
    sums = mo.fragment((4,), mo.float32)
    sums.fill(0)
    for k in range(mo.size(gA, 2)):
        for i in mo.static_range(4):
            sA[ty + 8 * i, tx] = gA[ty + 8 * i, tx, k]  #? ...
            sB[ty + 8 * i, tx] = gB[ty + 8 * i, tx, k]  #? -
        mo.sync_threads()                               #? ...
        for kk in mo.static_range(32):
            for i in mo.static_range(4):
                sums[i] += sA[ty + 8 * i, kk] * sB[tx, kk]
        mo.sync_threads()                               #? ...
    for i in mo.static_range(4):
        gC[ty + 8 * i, tx] = sums[i]


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(N // 32, M // 32), 256](C, A, B)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((64, 64, 64), (32, 32, 32), (32, 96, 64)),
    goals=Goals(sectors=1.0, degree=1, at_most={"global_load_requests": 4 * 2 * 2 * 32}), variants={"outputs": ("C",)},
    hints=("Two statements: one element of A and one of B, each from gA or gB to the same place of sA or sB.",
           "tx is the column, along which memory is contiguous.",
           "One barrier before anybody reads the tiles, and one before anybody overwrites them."),
    picture=lambda: mo.draw(mo.make_layout((8, 8), (8, 1)), title="a tile: thread (tx, ty) brings column tx of four rows"))
