"""# Eight rows at once

`ldmatrix` brings matrices of 8 x 8 halves from shared memory to the registers of a warp, in the order in which `mma` wants them. It reads
8 rows of 16 bytes at a time: 128 bytes, each bank once, **if** the eight rows lie in different banks. Here a row of the tile has 64
halves, 128 bytes, so that all eight lie below each other, in the same four banks.

Give a layout of the tiles, `SMEM`, without conflicts for `ldmatrix`. `mo.smem_layout_atom(dtype, "k")` is the smallest swizzled
piece of a tile that is contiguous along K, and `mo.tile_to_shape(atom, shape)` repeats it.
"""

import moye as mo

SMEM = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (32, 64))                 #? SMEM = mo.make_layout((32, 64), (64, 1))
MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 2)), (32, 32, 16))
LDMATRIX = mo.CopyAtom(mo.LdMatrix(4), mo.float16)
LOAD = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16), mo.make_layout((16, 8), (8, 1)),
                          mo.make_layout((1, 8)))


@mo.kernel
def matmul_kernel(C, A, B, mma: mo.Constexpr, load: mo.Constexpr, read_A: mo.Constexpr, read_B: mo.Constexpr):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float16, SMEM), mo.shared_array(mo.float16, SMEM)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (32, 64), (bx, None)), mo.tile(B, (32, 64), (by, None))         # (bM, bK, k), (bN, bK, k)
    thr, thr_load = mma.get_slice(tid), load.get_slice(tid)
    thr_A, thr_B = read_A.get_slice(tid), read_B.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)             # (MMA, MMA_M, MMA_K), ...
    tCgC = thr.partition_C(mo.tile(C, (32, 32), (bx, by)))                              # (MMA, MMA_M, MMA_N)
    tCrC = thr.make_fragment_C(tCgC)
    tCrC.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(load, thr_load.partition_D(sA), thr_load.partition_S(gA[:, :, k]))
        mo.copyto(load, thr_load.partition_D(sB), thr_load.partition_S(gB[:, :, k]))
        mo.sync_threads()
        mo.copyto(read_A, thr_A.retile_D(tCrA), thr_A.partition_S(sA))                  # ldmatrix
        mo.copyto(read_B, thr_B.retile_D(tCrB), thr_B.partition_S(sB))
        mo.gemm(mma, tCrA, tCrB, tCrC)
        mo.sync_threads()
    mo.copyto(tCgC, tCrC)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 32, N // 32), 128](C, A, B, MMA, LOAD, mo.make_tiled_copy_A(LDMATRIX, MMA),
                                           mo.make_tiled_copy_B(LDMATRIX, MMA))

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k)).astype(np.float16),
            "B": rng.standard_normal((n, k)).astype(np.float16)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T.astype(np.float64), make=make, sizes=((64, 32, 128), (32, 32, 64)),
    goals=Goals(degree=1, at_least={"ldmatrix_requests": 1}), given="bank conflicts", variants={"outputs": ("C",), "rtol": 1e-4},
    hints=("Eight rows of 128 bytes need eight different places within a row: XOR the row number into the place.",
           "mo.tile_to_shape(mo.smem_layout_atom(mo.float16, \"k\"), (32, 64))."),
    picture=lambda: mo.draw("Sw<3,0,3> o (8,8):(8,1)", title="8 rows of 8 vectors of 16 bytes: swizzled, no column has one bank"))
