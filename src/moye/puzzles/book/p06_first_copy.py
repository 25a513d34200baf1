"""# A copy of any length

A kernel is a Python function that each thread runs. A launch has a grid of blocks, and every block has the same number of threads.

Write the copy: thread `t` of block `b` copies element `128 * b + t`. The arrays have any length, so the last block has threads for
which there is no element: these must do nothing. The launch must have as many blocks as are needed.
"""

import moye as mo


@mo.kernel
def copy_kernel(out, x):
    i = mo.block_idx().x * 128 + mo.thread_idx().x      #? i = ...
    if i < mo.size(x):                                  #? if ...:
        out[i] = x[i]


def solve(out, x):
    blocks = mo.ceil_div(x.shape[0], 128)               #? blocks = ...
    copy_kernel[blocks, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals, ragged_sizes


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x, make=make, sizes=((1000,), *ragged_sizes(128)),
    goals=Goals(sectors=1.0, at_most={"global_load_requests": 32}), variants={"exact": True, "strided": ("x",), "special": True},
    hints=("mo.block_idx().x is the number of the block, mo.thread_idx().x that of the thread.",
           "mo.size(x) is the number of elements, also inside of the kernel.",
           "mo.ceil_div(1000, 128) is 8: the last block has 104 elements."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="four blocks (rows) of eight threads, say: i = 8 * b + t"))
