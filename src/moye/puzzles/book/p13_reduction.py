"""# Half of the threads

A block sums 256 numbers: in each step half of the numbers are added to the other half. This kernel adds neighbours first: thread `t`
adds element `2 * s * t + s` to element `2 * s * t`, with `s` = 1, 2, 4 and so on. The result is right, but the threads of a warp are `2 * s`
words apart, and meet in fewer and fewer banks.

Keep the number of steps, and choose other pairs, so that no access has a bank conflict.
"""

import moye as mo


@mo.kernel
def sum_kernel(out, x):
    tid, block = mo.thread_idx().x, mo.block_idx().x
    part = mo.shared_array(mo.float32, 256)
    part[tid] = x[block * 256 + tid]
    mo.sync_threads()
    for step in mo.static_range(8):
        s = 128 >> step                                 #? s = 1 << step
        if tid < s:                                     #? if tid < 128 >> step:
            part[tid] += part[tid + s]                  #? part[2 * s * tid] += part[2 * s * tid + s]
        mo.sync_threads()
    if tid == 0:
        out[block] = part[0]


def solve(out, x):
    sum_kernel[out.shape[0], 256](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, blocks):
    return {"out": np.empty(blocks, np.float32), "x": rng.standard_normal(256 * blocks).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 256).sum(1, dtype=np.float64), make=make, sizes=((8,), (1,), (3,)), goals=Goals(degree=1),
    given="bank conflicts", variants={"rtol": 1e-4},
    hints=("The order of the sum does not matter: which halves are added is yours to choose.",
           "Let thread t use element t, so that neighbours are in neighbouring banks.",
           "Add the upper half to the lower half: 128 apart first, then 64, down to 1."),
    picture=lambda: mo.draw(mo.make_layout((2, 8)), title="pairs of neighbours, as the kernel adds them first"))
