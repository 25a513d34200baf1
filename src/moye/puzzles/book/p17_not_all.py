"""# All, or none

`mo.sync_threads()` waits for **all** threads of the block. Here the last block has threads without an element. They skip the barrier,
and the others wait for them: on a GPU this hangs, or goes wrong later.

Each thread adds its element and its right neighbour's within the block (the last element of a block, and of the array, has no
neighbour: it stays as it is). Mend the kernel, for arrays of any length.
"""

import moye as mo


@mo.kernel
def pairs_kernel(out, x):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * 128 + tid
    staged = mo.shared_array(mo.float32, 128)
    if i < mo.size(x):
        staged[tid] = x[i]
    mo.sync_threads()                                   #?     mo.sync_threads()
    if i < mo.size(x):                                  #? -
        total = staged[tid]
        if tid < 127 and i + 1 < mo.size(x):
            total += staged[tid + 1]
        out[i] = total


def solve(out, x):
    pairs_kernel[mo.ceil_div(x.shape[0], 128), 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import ragged_sizes


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


def reference(x):
    out = x.copy()
    inside = (np.arange(len(x) - 1) + 1) % 128 != 0
    out[:-1] += np.where(inside, x[1:], 0)
    return out


puzzle = Puzzle(
    reference=reference, make=make, sizes=((200,), *ragged_sizes(128)), given="barriers",
    hints=("A barrier inside of an if that some threads do not enter is wrong, whatever stands in it.",
           "Take the barrier out of the condition, and test again behind it."),
    picture=lambda: mo.draw(mo.make_layout((2, 8), (8, 1)), title="two blocks of eight threads; of twelve elements the second has four"))
