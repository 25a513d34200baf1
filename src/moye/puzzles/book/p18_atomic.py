"""# Many blocks, one sum

Every block sums its elements and adds the sum to `out[0]`, which is 0 at first. Reading, adding and writing are three steps: between
them another block may do the same, and one of the two sums is lost. No barrier helps, because blocks have none in common.

Mend the last line. One instruction can do all three steps.
"""

import moye as mo


@mo.kernel
def sum_kernel(out, x):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * 128 + tid
    scratch = mo.shared_array(mo.float32, 4)
    total = mo.float32(0)
    if i < mo.size(x):
        total = x[i]
    total = mo.block_reduce(total, scratch)
    if tid == 0:
        mo.atomic_add(out, 0, total)                    #? out[0] += total


def solve(out, x):
    sum_kernel[mo.ceil_div(x.shape[0], 128), 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import ragged_sizes


def make(rng, n):
    return {"out": np.zeros(1, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda out, x: out + x.sum(dtype=np.float64), make=make, sizes=((1000,), *ragged_sizes(128)), given="race",
    variants={"outputs": (), "updated": ("out",), "rtol": 1e-3},
    hints=("Look for atomic operations in the kernel language.",
           "mo.atomic_add(tensor, index, value)."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (0, 0)), title="four blocks of eight threads: all add to element 0"))
