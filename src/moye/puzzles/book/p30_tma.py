"""# One thread, one tile

On sm_90 one thread asks for a whole tile, and hardware computes the addresses: TMA. `mo.copyto(load, smem, tile, barrier=(bars, 0))` returns
at once. The bytes are counted by an **mbarrier** in shared memory. Its phase is complete when the expected arrivals and the expected
bytes have come. Tiles at the edge need no predicates: what lies outside reads as zero.

Each block brings a tile of 32 x 32 to shared memory, and every thread sums one of its rows. Fill in how the thread says what is to
come (`mo.mbarrier_arrive_expect_tx(bars, 0, bytes)`), and how **all** threads wait for it (`mo.mbarrier_wait(bars, 0, parity)`; the first
phase has parity 0).
"""

import moye as mo

LAYOUT = mo.make_layout((32, 32), (32, 1))


@mo.kernel
def rows_kernel(out, load):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (32, 32)
    bars = mo.mbarrier_array(1)
    gX = mo.tile(load.tensor, (32, 32), (bx, by))                       # (32, 32), coordinates
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, load.bytes)               #? ...
        mo.copyto(load, smem, gX, barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)                                        #? ...
    total = 0.0
    for j in range(32):
        total += smem[tid, (j + tid) % 32]
    if bx * 32 + tid < mo.size(out, 0):
        out[bx * 32 + tid, by] = total


def solve(out, x):
    load = mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT)
    rows_kernel[(mo.ceil_div(x.shape[0], 32), mo.ceil_div(x.shape[1], 32)), 32](out, load)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n):
    return {"out": np.empty((m, -(-n // 32)), np.float32), "x": rng.standard_normal((m, n)).astype(np.float32)}


def reference(x):
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, -x.shape[1] % 32)))
    return padded.reshape(len(x), -1, 32).sum(2)


puzzle = Puzzle(
    reference=reference, make=make, sizes=((64, 96), (1, 4), (33, 36), (70, 68)), variants={"rtol": 1e-4},
    goals=Goals(degree=1, at_least={"tma_load_requests": 1}),
    hints=("load.bytes is the number of bytes of one tile; it is the same at the edges.",
           "The wait stands outside of the condition: each thread that reads must wait, mo.mbarrier_wait(bars, 0, 0)."),
    picture=lambda: mo.draw(mo.make_layout((8, 8), (8, 1)), title="one tile, asked for by one thread (8 x 8 of 32 x 32)"))
