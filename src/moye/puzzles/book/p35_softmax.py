"""# Softmax that stays finite

`softmax(x) = exp(x) / sum(exp(x))`, for each row of `x`. The exponential of 100 is beyond float32, so a row with large numbers becomes
infinity by infinity. But nothing changes if a number is subtracted from a whole row first: subtract its largest.

A block has one row; each of its 128 threads some of the columns. `mo.block_reduce(value, scratch, "max")` and the same with `"add"` combine
the values of all threads, and every thread gets the result. Mend the kernel, for any number of columns.
"""

import moye as mo


@mo.kernel
def softmax_kernel(out, x):
    row, tid, n = mo.block_idx().x, mo.thread_idx().x, mo.size(x, 1)
    scratch = mo.shared_array(mo.float32, 4)
    top = mo.float32(-float("inf"))                     #? top = mo.float32(0)
    for j in mo.range(tid, n, 128):                     #? -
        top = mo.max(top, x[row, j])                    #? -
    top = mo.block_reduce(top, scratch, "max")          #? -
    total = mo.float32(0)
    for j in mo.range(tid, n, 128):
        total += mo.exp(x[row, j] - top)
    total = mo.block_reduce(total, scratch, "add")
    for j in mo.range(tid, n, 128):
        out[row, j] = mo.exp(x[row, j] - top) / total


def solve(out, x):
    softmax_kernel[x.shape[0], 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, m, n):
    return {"out": np.empty((m, n), np.float32), "x": (100 * rng.standard_normal((m, n))).astype(np.float32)}


def reference(x):
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return wide / wide.sum(1, keepdims=True)


puzzle = Puzzle(
    reference=reference, make=make, sizes=((4, 300), (1, 1), (3, 127), (2, 129)), given="wrong", variants={"rtol": 1e-5},
    hints=("Each thread finds the largest of its columns; then all find the largest of these.",
           "Begin with mo.float32(-float(\"inf\")): some threads may have no column.",
           "top = mo.block_reduce(top, scratch, \"max\")."),
    picture=lambda: mo.draw(mo.make_layout((3, 8), (8, 1)), title="three rows: a block each, its threads along the columns"))
