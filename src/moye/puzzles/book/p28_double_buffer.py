"""# Copy while you multiply

With one buffer, a kernel copies, waits, multiplies, and copies again: the arithmetic never runs while data are under way. With two
stages of shared memory, the next tile is copied into one while the other is multiplied.

`mo.Pipeline(2)` keeps track: `pipe.wait()` waits for the oldest tile and for all threads, `pipe.commit()` ends what was asked for one
tile. A state has the stage to `read` and the stage to `write`, which is free after the wait. Before the loop, tile 0 is under way.

This kernel has two stages, and hides nothing: it asks for the next tile after the products of this one, and waits for it at once. Mend
the order.
"""

import moye as mo

COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.make_layout((8, 8), (8, 1)), mo.make_layout((1, 1)))
STAGES = mo.make_layout((32, 8, 2), (1, 33, 264))
THREADS = mo.make_layout((8, 8))


@mo.kernel
def matmul_kernel(C, A, B, copy: mo.Constexpr, pipe):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float32, STAGES), mo.shared_array(mo.float32, STAGES)   # (bM, bK, 2), (bN, bK, 2)
    gA, gB = mo.tile(A, (32, 8), (bx, None)), mo.tile(B, (32, 8), (by, None))           # (bM, bK, k), (bN, bK, k)
    thr = copy.get_slice(tid)
    tAgA, tAsA = thr.partition_S(gA), thr.partition_D(sA)
    tBgB, tBsB = thr.partition_S(gB), thr.partition_D(sB)
    tCgC = mo.parallelize(mo.tile(C, (32, 32), (bx, by)), THREADS, tid)                 # (4, 4)
    tCrC = mo.make_fragment_like(tCgC)
    tCrC.fill(0)
    tiles = mo.size(gA, 2)
    mo.copyto(copy, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    pipe.commit()
    state = pipe.start()
    for k in range(tiles):
        pipe.wait()
        if k + 1 < tiles:                                                               #? -
            mo.copyto(copy, tAsA[:, :, :, state.write], tAgA[:, :, :, k + 1])           #? -
            mo.copyto(copy, tBsB[:, :, :, state.write], tBgB[:, :, :, k + 1])           #? -
        pipe.commit()                                                                   #? -
        mo.gemm(mo.parallelize(sA[:, :, state.read], THREADS, tid, (1, None)),
                mo.parallelize(sB[:, :, state.read], THREADS, tid, (None, 1)), tCrC)
        #? if k + 1 < tiles:
        #?     mo.copyto(copy, tAsA[:, :, :, state.write], tAgA[:, :, :, k + 1])
        #?     mo.copyto(copy, tBsB[:, :, :, state.write], tBgB[:, :, :, k + 1])
        #? pipe.commit()
        state = state.next()
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 32, N // 32), 64](C, A, B, COPY, mo.Pipeline(stages=2))

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k), np.float32),
            "B": rng.standard_normal((n, k), np.float32)}


def timeline():
    """What a solution does with four tiles."""
    arguments = make(np.random.default_rng(0), 32, 32, 32)
    report = mo.check(matmul_kernel, timeline=True)[(1, 1), 64](*arguments.values(), COPY, mo.Pipeline(stages=2))
    return report.timeline()


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T, make=make, sizes=((32, 32, 64), (64, 32, 8), (32, 32, 24)),
    goals=Goals(overlap=7 / 8), given="overlap", variants={"outputs": ("C",)},
    hints=("The stage state.write is free after pipe.wait(): everybody has read it.",
           "So the copies of tile k + 1, and their commit, may stand right behind it.",
           "The last turn has no next tile: 7 of 8 products can run while copies are under way."),
    picture=timeline)
