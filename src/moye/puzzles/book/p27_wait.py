"""# Asked for is not there

`mo.CpAsync` copies from global to shared memory behind the kernel's back: the statement returns at once, and the data come later. Two
things must happen before **another thread** may read them. The thread that asked must wait for its copies, and the other thread must
know that it has.

Mend this kernel. One of the two is not enough.
"""

import moye as mo


@mo.kernel
def reverse_kernel(out, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 512)
    gX = mo.tile(x, (512,), (mo.block_idx().x,))        # (512)
    gO = mo.tile(out, (512,), (mo.block_idx().x,))      # (512)
    mo.copyto(mo.CpAsync(mo.uint128), mo.tile(staged, (4,), (tid,)), mo.tile(gX, (4,), (tid,)))
    mo.cp_async_wait()                                  #? -
    mo.sync_threads()                                   #? -
    for i in mo.static_range(4):
        gO[i * 128 + tid] = staged[511 - i * 128 - tid]


def solve(out, x):
    reverse_kernel[x.shape[0] // 512, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 512)[:, ::-1].reshape(-1), make=make, sizes=((1024,), (512,)), given="copies",
    variants={"exact": True},
    hints=("mo.cp_async_wait() waits for the copies of this thread.",
           "After it, mo.sync_threads() tells all others."),
    picture=lambda: mo.draw(mo.make_layout((4, 8)), title="four elements (column) for each of eight threads, copied at once"))
