"""# What the sums are kept in

Products of float16 may be summed in float16 or in float32. This kernel keeps its sums in float16: it is wrong, for two reasons. Sums
of a few thousand terms of like sign pass 2048, from where on float16 knows even numbers alone; and above 65504 there is nothing but
infinity.

Change the operation of `MMA`. The result C is float32 already. Names are CuTe's: `SM80_16x8x16_` D A B C `_TN`, with `F16` and `F32`
for the types of D = A * B + C.
"""

import moye as mo

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)            #? MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F16F16F16F16_TN)


@mo.kernel
def matmul_kernel(C, A, B, mma: mo.Constexpr):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    gA, gB = mo.tile(A, (16, 16), (bx, None)), mo.tile(B, (8, 16), (by, None))          # (bM, bK, k), (bN, bK, k)
    thr = mma.get_slice(tid)
    tCgA, tCgB = thr.partition_A(gA), thr.partition_B(gB)
    tCgC = thr.partition_C(mo.tile(C, (16, 8), (bx, by)))
    tCrA, tCrB = thr.make_fragment_A(tCgA[:, :, :, 0]), thr.make_fragment_B(tCgB[:, :, :, 0])
    tCrC = mma.partition_fragment_C((16, 8))
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(tCrA, tCgA[:, :, :, k])
        mo.copyto(tCrB, tCgB[:, :, :, k])
        mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 16, N // 8), 32](C, A, B, MMA)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": (1 + rng.random((m, k))).astype(np.float16),
            "B": (1 + rng.random((n, k))).astype(np.float16)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T.astype(np.float64), make=make, sizes=((16, 8, 4096), (16, 16, 256)),
    given="wrong", variants={"outputs": ("C",), "rtol": 1e-4},
    hints=("The first and the last type of the name are those of the sums.",
           "mo.mma.SM80_16x8x16_F32F16F16F32_TN."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="32 sums, each kept in 16 or in 32 bits"))
