"""# A product, one element a thread

`C = A @ B.T`: A has M rows of K elements, B has N rows of K, and C is M x N. All are row-major. Each thread sums one element of C.

Which one? Threads of a warp have consecutive numbers. If they have consecutive **columns** of C, they store to one run, and all read the
same element of A. Fill in row and column, so that stores move no more sectors than they must, and the sum. Extents are any.
"""

import moye as mo


@mo.kernel
def matmul_kernel(C, A, B):
    tx, ty = mo.thread_idx().x % 32, mo.thread_idx().x // 32
    m = mo.block_idx().y * 8 + ty                       #? m = ...
    n = mo.block_idx().x * 32 + tx                      #? n = ...
    if m < mo.size(C, 0) and n < mo.size(C, 1):
        total = 0.0
        for k in range(mo.size(A, 1)):
            total += A[m, k] * B[n, k]                  #? ...
        C[m, n] = total


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(mo.ceil_div(N, 32), mo.ceil_div(M, 8)), 256](C, A, B)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((32, 64, 16), (1, 1, 1), (33, 31, 7), (17, 70, 5)),
    goals=Goals(at_most={"global_store_sectors": 256}), variants={"outputs": ("C",)},
    hints=("solve launches blocks along N in x, and along M in y; a block has 32 columns and 8 rows.",
           "tx runs fastest within a warp: let it be part of the column."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="threads of a block on a tile of C (4 x 8 here)"))
