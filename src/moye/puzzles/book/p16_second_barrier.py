"""# And do not write too early

The block goes through its elements in runs of 128, and uses the same shared memory for each run. There is a barrier between writing
and reading, so nobody reads too early. But a fast warp may come to the **next** run while a slow one still reads this one.

Mend it. Barriers cost time: use no more than one more in each turn.
"""

import moye as mo


@mo.kernel
def reverse_kernel(out, x, runs):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 128)
    for run in range(runs):
        staged[tid] = x[run * 128 + tid]
        mo.sync_threads()
        out[run * 128 + tid] = staged[127 - tid]
        mo.sync_threads()                               #? -


def solve(out, x):
    reverse_kernel[1, 128](out, x, x.shape[0] // 128)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 128)[:, ::-1].reshape(-1), make=make, sizes=((512,), (128,), (1280,)), given="race",
    goals=Goals(at_most={"SyncThreads": 2}), variants={"exact": True},
    hints=("The report names a read and the next write of the same element.",
           "Reads of one turn must come before writes of the next: a barrier at the end of the turn.",
           "Another way has two buffers that take turns, and one barrier a turn."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (0, 1)), title="four turns (rows), one buffer: every turn has the same eight places"))
