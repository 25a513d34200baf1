"""# Read what another has written

Each block reverses 128 elements: every thread writes its element to shared memory and reads another one. On a GPU this kernel gives the
right result nearly always, and on some days it does not: nothing says that thread 127 has written before thread 0 reads.

The simulator does not depend on luck. It knows what orders two accesses, and reports the two lines if nothing does. Mend the kernel.
"""

import moye as mo


@mo.kernel
def reverse_kernel(out, x):
    tid, first = mo.thread_idx().x, mo.block_idx().x * 128
    staged = mo.shared_array(mo.float32, 128)
    staged[tid] = x[first + tid]
    mo.sync_threads()                                   #? -
    out[first + tid] = staged[127 - tid]


def solve(out, x):
    reverse_kernel[x.shape[0] // 128, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 128)[:, ::-1].reshape(-1), make=make, sizes=((512,), (128,)), given="race",
    variants={"exact": True},
    hints=("The report names two lines. Between them something is missing.",
           "mo.sync_threads(): no thread goes on before all threads of the block have come there."),
    picture=lambda: mo.draw(mo.make_layout((2, 8), (8, 1)),
                            title="first row: what threads write; second row, from the right: what they read"))
