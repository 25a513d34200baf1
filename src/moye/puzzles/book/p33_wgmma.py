"""# A product that reads by itself

`wgmma` is an instruction of a **warpgroup**: 128 threads multiply 64 rows by up to 256 columns. It reads both operands from shared memory by
itself, and returns at once. So there are four things to say, in this order:

* `mo.fence_proxy_async()` by each thread that wrote an operand: the tensor cores read as TMA does. Then a barrier.
* `mo.warpgroup_arrive()` before products whose registers something else has written.
* `mo.warpgroup_commit_batch()` behind them: a group.
* `mo.warpgroup_wait(0)` before anybody reads the sums.

All but the barrier are missing here. Put them where they belong.
"""

import moye as mo

MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
SMEM = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
LOAD = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16), mo.make_layout((16, 8), (8, 1)),
                          mo.make_layout((1, 8)))


@mo.kernel
def matmul_kernel(C, A, B, mma: mo.Constexpr, load: mo.Constexpr):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA, sB = mo.shared_array(mo.float16, SMEM), mo.shared_array(mo.float16, SMEM)       # (bM, bK), (bN, bK)
    gA, gB = mo.tile(A, (64, 64), (bx, None)), mo.tile(B, (64, 64), (by, None))         # (bM, bK, k), (bN, bK, k)
    thr, thr_load = mma.get_slice(tid), load.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)             # views of shared memory
    acc = mma.partition_fragment_C((64, 64))                                            # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(load, thr_load.partition_D(sA), thr_load.partition_S(gA[:, :, k]))
        mo.copyto(load, thr_load.partition_D(sB), thr_load.partition_S(gB[:, :, k]))
        mo.fence_proxy_async()                          #? -
        mo.sync_threads()
        mo.warpgroup_arrive()                           #? -
        mo.gemm(mma, tCrA, tCrB, acc)
        mo.warpgroup_commit_batch()                     #? -
        mo.warpgroup_wait(0)                            #? -
        mo.sync_threads()
    mo.copyto(thr.partition_C(mo.tile(C, (64, 64), (bx, by))), acc)


def solve(C, A, B):
    M, N = C.shape
    matmul_kernel[(M // 64, N // 64), 128](C, A, B, MMA, LOAD)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, m, n, k):
    return {"C": np.empty((m, n), np.float32), "A": rng.standard_normal((m, k)).astype(np.float16),
            "B": rng.standard_normal((n, k)).astype(np.float16)}


puzzle = Puzzle(
    reference=lambda A, B: A.astype(np.float64) @ B.T.astype(np.float64), make=make, sizes=((64, 64, 128), (128, 64, 64)),
    given="copies", variants={"outputs": ("C",), "rtol": 1e-4},
    hints=("The fence belongs to the copies: between them and the barrier.",
           "arrive, gemm, commit_batch, wait: in this order, between the two barriers.",
           "If the wait stood behind the loop, the next copies would overwrite what the product still reads."),
    picture=lambda: mo.draw("Sw<3,0,3> o (8,8):(8,1)", title="8 rows of 128 bytes of an operand, swizzled as wgmma reads them"))
