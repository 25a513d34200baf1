"""# Neighbours read neighbours

This kernel is right, and slow: thread `t` copies the 8 elements that follow each other from `8 * t` on. Global memory is read in
sectors of 32 bytes, by whole warps at a time. When the warp reads element 0 of every thread, it touches 32 different sectors, and uses
4 bytes of each. It comes back for the same sectors seven times.

Each block still copies 1024 elements, and each thread 8 of them. Change which ones, so that no more sectors move than must. Lengths
are multiples of 1024.
"""

import moye as mo


@mo.kernel
def copy_kernel(out, x):
    first = mo.block_idx().x * 1024
    for i in mo.static_range(8):
        place = first + i * 128 + mo.thread_idx().x     #? place = first + mo.thread_idx().x * 8 + i
        out[place] = x[place]


def solve(out, x):
    copy_kernel[x.shape[0] // 1024, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x, make=make, sizes=((4096,), (1024,), (3072,)), goals=Goals(sectors=1.0),
    variants={"exact": True, "special": True}, given="uncoalesced",
    hints=("What counts is what the 32 threads of a warp read in one statement, not what one thread reads over time.",
           "In one turn of the loop, thread t should read the element next to that of thread t - 1.",
           "Turn i takes the i-th run of 128 elements of the block."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="elements of four threads (rows): each has a run"))
