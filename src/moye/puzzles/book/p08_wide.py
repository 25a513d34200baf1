"""# Sixteen bytes at a time

A thread may load 4, 8 or 16 bytes with one instruction, if they are contiguous and the address is a multiple of the width. Fewer
instructions for the same bytes leave room for other work.

Copy `x` with one load and one store of 16 bytes for each thread. `mo.tile(x, (4,), (i,))` is the `i`-th run of 4 elements, a view;
`mo.copyto(destination, source)` moves one view to another, as wide as it can prove. Lengths are multiples of 512, and a block has 128
threads.
"""

import moye as mo


@mo.kernel
def copy_kernel(out, x):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    mo.copyto(mo.tile(out, (4,), (i,)), mo.tile(x, (4,), (i,)))         #? ...


def solve(out, x):
    copy_kernel[x.shape[0] // 512, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x, make=make, sizes=((2048,), (512,), (1536,)),
    goals=Goals(sectors=1.0, at_most={"global_load_requests": 16, "global_store_requests": 16}), variants={"exact": True},
    hints=("mo.tile(out, (4,), (i,)) is where the four elements go.",
           "One copyto of the two tiles is enough: no loop."),
    picture=lambda: mo.draw(mo.make_layout((4, 8)), title="four elements (column) for each of eight threads: 4 * t + v"))
