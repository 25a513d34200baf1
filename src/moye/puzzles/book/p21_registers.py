"""# Four by four in registers

Now a thread computes 4 x 4 elements of C. For each k it needs 4 elements of A and 4 of B; with these it does 16 multiply-adds. But this
kernel reads shared memory for **each** of the 16: 32 reads where 8 would do. Reads of shared memory then take more time than the
arithmetic.

Bring what is needed for one k to registers first. `mo.fragment((4,), mo.float32)` are 4 registers; their indices must be known while
tracing, as they are in `mo.static_range`.
"""

import moye as mo

ROWS = mo.make_layout((32, 16), (1, 33))


@mo.kernel
def matmul_kernel(C, A, B):
    tid = mo.thread_idx().x
    tx, ty = tid % 8, tid // 8
    bx, by = mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float32, ROWS), mo.shared_array(mo.float32, ROWS)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (32, 16), (by, None)), mo.tile(B, (32, 16), (bx, None))         # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (32, 32), (by, bx))                 # (bM, bN)
    sums = mo.fragment((4, 4), mo.float32)
    a, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    sums.fill(0)
    for k in range(mo.size(gA, 2)):
        for i in mo.static_range(8):
            sA[tid // 16 + 4 * i, tid % 16] = gA[tid // 16 + 4 * i, tid % 16, k]
            sB[tid // 16 + 4 * i, tid % 16] = gB[tid // 16 + 4 * i, tid % 16, k]
        mo.sync_threads()
        for kk in range(16):
            for i in mo.static_range(4):                #? -
                a[i] = sA[ty + 8 * i, kk]               #? -
                b[i] = sB[tx + 8 * i, kk]               #? -
            for i in mo.static_range(4):
                for j in mo.static_range(4):
                    sums[i, j] += a[i] * b[j]           #? sums[i, j] += sA[ty + 8 * i, kk] * sB[tx + 8 * j, kk]
        mo.sync_threads()
    for i in mo.static_range(4):
        for j in mo.static_range(4):
            gC[ty + 8 * i, tx + 8 * j] = sums[i, j]


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(N // 32, M // 32), 64](C, A, B)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((32, 32, 32), (64, 32, 16)), given="costly",
    goals=Goals(at_most={"shared_load_requests": 8 * 2 * 32}), variants={"outputs": ("C",)},
    hints=("a[i] = sA[ty + 8 * i, kk], for four i; b in the same way with tx.",
           "Load first, in a loop of its own; then multiply a[i] by b[j]."),
    picture=lambda: mo.draw(mo.make_layout((4, 4)), title="sums of one thread: 4 of A times 4 of B"))
