"""# Two ways to the same memory

Threads write to shared memory one way, and TMA reads it another way: through the *asynchronous proxy*. A barrier orders threads, and says
nothing to TMA. Before a tile that threads have written is stored by TMA, each of these threads needs a fence between the two ways:
`mo.fence_proxy_async()`, **before** the barrier.

This kernel doubles a tile and stores it. Mend it.
"""

import moye as mo

LAYOUT = mo.make_layout((32, 32), (32, 1))


@mo.kernel
def double_kernel(load, store):
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (32, 32)
    bars = mo.mbarrier_array(1)
    gX, gO = (mo.tile(tma.tensor, (32, 32), (bx, by)) for tma in (load, store))         # (32, 32), coordinates
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, load.bytes)
        mo.copyto(load, smem, gX, barrier=(bars, 0))
    mo.sync_threads()
    mo.mbarrier_wait(bars, 0, 0)
    for i in mo.static_range(8):
        smem[tid // 32 + 4 * i, tid % 32] = 2 * smem[tid // 32 + 4 * i, tid % 32]
    mo.fence_proxy_async()                              #? -
    mo.sync_threads()
    if tid == 0:
        mo.copyto(store, gO, smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def solve(out, x):
    grid = (mo.ceil_div(x.shape[0], 32), mo.ceil_div(x.shape[1], 32))
    double_kernel[grid, 128](mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT), mo.make_tma_copy(mo.TmaStore(), out, LAYOUT))

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, m, n):
    return {"out": np.empty((m, n), np.float32), "x": rng.standard_normal((m, n)).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: 2 * x, make=make, sizes=((64, 64), (1, 4), (33, 40)), given="copies", variants={"exact": True},
    hints=("The threads that write are those that need the fence, all of them.",
           "Behind the loop, before mo.sync_threads()."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="a tile: written by 32 threads, stored by TMA"))
