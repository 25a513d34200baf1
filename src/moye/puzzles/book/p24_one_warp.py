"""# One instruction, 16 x 8 x 16

`mma.sync` multiplies a 16 x 16 tile of A by an 8 x 16 tile of B and adds to 16 x 8 sums, in one instruction of a **whole warp**. Each
thread holds a few elements of each, in an order that the hardware fixes. `mo.make_tiled_mma(op)` knows it: `get_slice(tid)` is one
thread's part, `partition_A` (`_B`, `_C`) are its elements of a tile, and `make_fragment_A` (`_B`, `_C`) the registers for them.

A warp computes one 16 x 8 tile of C = A @ B.T, float16 with sums in float32. Fill in what is left: the part of C, the loads to
registers, and the product `mo.gemm(mma, A, B, C)`.
"""

import moye as mo

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)


@mo.kernel
def matmul_kernel(C, A, B, mma: mo.Constexpr):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    gA, gB = mo.tile(A, (16, 16), (bx, None)), mo.tile(B, (8, 16), (by, None))          # (bM, bK, k), (bN, bK, k)
    gC = mo.tile(C, (16, 8), (bx, by))                  # (bM, bN)
    thr = mma.get_slice(tid)
    tCgA, tCgB = thr.partition_A(gA), thr.partition_B(gB)                               # (MMA, MMA_M, MMA_K, k), ...
    tCgC = thr.partition_C(gC)                          #? tCgC = ...
    tCrA = thr.make_fragment_A(tCgA[:, :, :, 0])        # (MMA, MMA_M, MMA_K)
    tCrB = thr.make_fragment_B(tCgB[:, :, :, 0])        # (MMA, MMA_N, MMA_K)
    tCrC = thr.make_fragment_C(tCgC)                    # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(tCrA, tCgA[:, :, :, k])               #? ...
        mo.copyto(tCrB, tCgB[:, :, :, k])               #? ...
        mo.gemm(mma, tCrA, tCrB, tCrC)                  #? ...
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 16, N // 8), 32](C, A, B, MMA)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k)).astype(np.float16),
            "B": rng.standard_normal((n, k)).astype(np.float16)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T.astype(np.float64), make=make, sizes=((32, 16, 64), (16, 8, 16)),
    goals=Goals(at_least={"Gemm": 1}), variants={"outputs": ("C",), "rtol": 1e-4},
    hints=("partition_C takes the tile of C, as partition_A takes that of A.",
           "tCgA[:, :, :, k] is this thread's part of the k-th tile: copy it to tCrA.",
           "mo.gemm(mma, tCrA, tCrB, tCrC) is C += A * B, by all threads of the warp."),
    picture=lambda: mo.draw(mo.make_layout((8, (2, 4)), (4, (0, 1))), title="the upper 8 of 16 rows of C: which lane holds each sum"))
