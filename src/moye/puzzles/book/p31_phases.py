"""# The parity of a phase

An mbarrier is used again and again: phase 0, phase 1, and so on. A wait names only the **parity** of a phase, 0 or 1. A wait for parity 0
passes as soon as phase 0 is complete, and it passes later too, until phase 1 is complete. So whoever waits with the wrong parity passes
too early, and reads what was there before.

This block goes through its tiles with two stages, tile `k` in stage `k % 2`, with an mbarrier for each. It always waits for parity 0.
Mend the parity.
"""

import moye as mo

LAYOUT = mo.make_layout((64, 16), (16, 1))


@mo.kernel
def sums_kernel(out, load):
    tid = mo.thread_idx().x
    ring = mo.shared_array(load.dtype, mo.make_layout((64, 16, 2), (16, 1, 1024)))      # (64, 16, stages)
    bars = mo.mbarrier_array(2)
    gX = mo.tile(load.tensor, (64, 16), (0, None))                                      # (64, 16, k), coordinates
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = 0.0
    for k in range(mo.size(gX, 2)):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bars, k % 2, load.bytes)
            mo.copyto(load, ring[:, :, k % 2], gX[:, :, k], barrier=(bars, k % 2))
        mo.mbarrier_wait(bars, k % 2, k // 2 % 2)       #? mo.mbarrier_wait(bars, k % 2, 0)
        for j in mo.static_range(16):
            total += ring[tid, j, k % 2]
        mo.sync_threads()
    out[tid] = total


def solve(out, x):
    sums_kernel[1, 64](out, mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT))

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, n):
    return {"out": np.empty(64, np.float32), "x": rng.standard_normal((64, n)).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.sum(1, dtype=np.float64), make=make, sizes=((128,), (16,), (32,), (72,)), given="copies",
    variants={"rtol": 1e-4},
    hints=("Which tiles use stage 0? 0, 2, 4, 6: in this order they are phases 0, 1, 2, 3 of its mbarrier.",
           "Tile k is phase k // 2 of its stage; its parity is that number modulo 2."),
    picture=lambda: mo.draw(mo.make_layout((2, 8)), title="tiles in two stages (rows): column c is phase c"))
