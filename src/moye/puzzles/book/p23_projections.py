"""# The loops of a product, without loops

`mo.gemm(A, B, C)` is C += A * B<sup>T</sup> on whatever a thread has: A (m, k), B (n, k), C (m, n). So the kernel needs no indices, if one
can say which part of each tile is this thread's.

`THREADS` is a layout of threads over the tile of C: `mo.parallelize(gC, THREADS, tid)` is the thread's part of it. Threads in one row of
C need the same rows of A. So A is divided by the **first** mode of the threads alone, and B by the second. `mo.parallelize(t, THREADS,
tid, projection)` does so: a projection says for each mode of `THREADS` whether the tensor has it (1) or not (None).

Fill in the two projections.
"""

import moye as mo

THREADS = mo.make_layout((8, 8))
ROWS = mo.make_layout((32, 8), (1, 33))
LOAD = mo.make_layout((8, 8), (8, 1))


@mo.kernel
def matmul_kernel(C, A, B):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float32, ROWS), mo.shared_array(mo.float32, ROWS)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (32, 8), (bx, None)), mo.tile(B, (32, 8), (by, None))           # (bM, bK, k), (bN, bK, k)
    tCgC = mo.parallelize(mo.tile(C, (32, 32), (bx, by)), THREADS, tid)                 # (4, 4)
    tCsA = mo.parallelize(sA, THREADS, tid, (1, None))  #? tCsA = mo.parallelize(sA, THREADS, tid, ...)
    tCsB = mo.parallelize(sB, THREADS, tid, (None, 1))  #? tCsB = mo.parallelize(sB, THREADS, tid, ...)
    tCrC = mo.make_fragment_like(tCgC)                  # (4, 4), registers
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(mo.parallelize(sA, LOAD, tid), mo.parallelize(gA[:, :, k], LOAD, tid))
        mo.copyto(mo.parallelize(sB, LOAD, tid), mo.parallelize(gB[:, :, k], LOAD, tid))
        mo.sync_threads()
        mo.gemm(tCsA, tCsB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 32, N // 32), 64](C, A, B)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((64, 32, 24), (32, 96, 8)), variants={"outputs": ("C",)},
    hints=("THREADS has two modes: (M, N). A has the modes (M, K), B has (N, K).",
           "For A keep the first: (1, None)."),
    picture=lambda: mo.draw(mo.make_layout((8, 8)), title="threads over the tile of C: rows share A, columns share B"))
