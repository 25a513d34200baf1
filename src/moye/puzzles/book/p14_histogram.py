"""# Bins of one's own

A block counts how often each of 16 values occurs. Each of its 64 threads has 16 counters of its own in shared memory, so nobody waits
for anybody; at the end the counters of each value are summed. Which counter a thread needs depends on the data. With the layout below,
threads of a warp meet in a bank by chance, and mostly do.

Give a layout for `(thread, value)`, so that counting has no bank conflict **whatever the data are**. Then look at the sums at the end:
there, 16 threads read the counters of 16 values at once. Let them go through the 64 threads in another order, each in its own.
"""

import moye as mo

BINS = mo.make_layout((64, 16), (1, 64))                #? BINS = mo.make_layout((64, 16), (16, 1))


@mo.kernel
def count_kernel(out, x):
    tid, block = mo.thread_idx().x, mo.block_idx().x
    bins = mo.shared_array(mo.int32, BINS)
    for value in mo.static_range(16):
        bins[tid, value] = 0
    for i in mo.range(tid, 1024, 64):
        bins[tid, x[block * 1024 + i]] += 1
    mo.sync_threads()
    if tid < 16:
        total = 0
        for other in mo.range(64):
            total += bins[(other + tid) % 64, tid]      #? total += bins[other, tid]
        out[block, tid] = total


def solve(out, x):
    count_kernel[out.shape[0], 64](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, blocks):
    return {"out": np.empty((blocks, 16), np.int32), "x": rng.integers(0, 16, 1024 * blocks).astype(np.int32)}


def reference(x):
    return np.stack([np.bincount(part, minlength=16) for part in x.reshape(-1, 1024)]).astype(np.int32)


puzzle = Puzzle(
    reference=reference, make=make, sizes=((2,), (1,)), goals=Goals(degree=1), given="bank conflicts",
    hints=("If the bank of a counter depends on the thread alone, and not on the value, the threads of a warp never meet.",
           "With a stride of 1 between threads and a multiple of 32 between values, thread t has bank t % 32.",
           "At the end thread t sums value t: let it begin with the counter of thread t, (other + tid) % 64."),
    picture=lambda: mo.draw(mo.make_layout((8, 4), (4, 1)), banks=True, bits=128, title="eight threads with four counters each"))
