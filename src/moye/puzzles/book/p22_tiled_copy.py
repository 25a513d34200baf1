"""# The copy that suits the tile

The tiles of A and B now come by a *tiled copy*: `mo.copyto(copy, thr.partition_D(sA), thr.partition_S(gA))` moves a thread's part of a
tile. Which part that is says `copy`: a layout of threads and the values of each. A tile of (32, 16) is row-major in global memory, and
here each thread loads 4 bytes, all threads of a warp from one column: 32 sectors for 32 elements.

Give `threads` and `values` of `COPY`, for 64 threads, so that each instruction loads 16 bytes a thread, and sectors move once.
"""

import moye as mo

COPY = mo.make_tiled_copy(mo.CopyAtom(mo.AutoCopy(), mo.float32),
                          mo.make_layout((16, 4), (4, 1)), mo.make_layout((1, 4), (4, 1)))      #? mo.make_layout((32, 2)), mo.make_layout((1, 1)))
ROWS = mo.make_layout((32, 16), (20, 1))
THREADS = mo.make_layout((8, 8), (8, 1))


@mo.kernel
def matmul_kernel(C, A, B, copy: mo.Constexpr):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float32, ROWS), mo.shared_array(mo.float32, ROWS)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (32, 16), (by, None)), mo.tile(B, (32, 16), (bx, None))         # (bM, bK, k), (bN, bK, k)
    thr = copy.get_slice(tid)
    tCgC = mo.parallelize(mo.tile(C, (32, 32), (by, bx)), THREADS, tid)                 # (4, 4)
    tCrC = mo.make_fragment_like(tCgC)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(copy, thr.partition_D(sA), thr.partition_S(gA[:, :, k]))
        mo.copyto(copy, thr.partition_D(sB), thr.partition_S(gB[:, :, k]))
        mo.sync_threads()
        mo.gemm(mo.parallelize(sA, THREADS, tid, (1, None)), mo.parallelize(sB, THREADS, tid, (None, 1)), tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(N // 32, M // 32), 64](C, A, B, COPY)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((32, 32, 32), (64, 32, 16)), given="uncoalesced",
    goals=Goals(sectors=1.0, at_most={"global_load_requests": 16}), variants={"outputs": ("C",)},
    hints=("16 bytes are four neighbours of a row: values of shape (1, 4).",
           "A row of 16 elements then takes four threads: threads of shape (16, 4), numbered along a row first."),
    picture=lambda: mo.draw(mo.make_layout((8, 4), (4, 1)), title="threads on a tile, four elements wide each (8 of 16 rows)"))
