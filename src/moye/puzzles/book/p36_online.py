"""# The largest so far

To know the largest number of a row, one has to read the row; to sum the exponentials, to read it again. Attention cannot afford this.
So one sums with the **largest so far**: `total` is the sum of `exp(x - top)` over what was seen. When a larger number comes, the sum is
corrected by one factor.

Each warp computes `log(sum(exp(x)))` of one row, each lane for some of the columns, and reads every element **once**. Fill in the step
of one number, and then how the sums of the 32 lanes, each with its own `top`, become one. `mo.warp_reduce(value, "max")` and `"add"` combine
the lanes.
"""

import moye as mo


@mo.kernel
def logsumexp_kernel(out, x):
    row, lane = mo.block_idx().x, mo.thread_idx().x
    top, total = mo.float32(-1e30), mo.float32(0)
    for j in mo.range(lane, mo.size(x, 1), 32):
        value = x[row, j]
        larger = mo.max(top, value)
        total = total * mo.exp(top - larger) + mo.exp(value - larger)       #? total = ...
        top = larger
    highest = mo.warp_reduce(top, "max")
    total = mo.warp_reduce(total * mo.exp(top - highest), "add")            #? total = ...
    if lane == 0:
        out[row] = mo.log(total) + highest


def solve(out, x):
    logsumexp_kernel[x.shape[0], 32](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, m, n):
    return {"out": np.empty(m, np.float32), "x": (50 * rng.standard_normal((m, n))).astype(np.float32)}


def reference(x):
    top = x.max(1).astype(np.float64)
    return np.log(np.exp(x - top[:, None]).sum(1)) + top


puzzle = Puzzle(
    reference=reference, make=make, sizes=((4, 320), (2, 1), (3, 97)), goals=Goals(at_most={"global_load_requests": 40}),
    variants={"rtol": 1e-5},
    hints=("A sum of exp(x - top) times exp(top - larger) is the sum of exp(x - larger).",
           "The new number adds exp(value - larger).",
           "Each lane corrects its sum from its own top to the highest one, and then the lanes add."),
    picture=lambda: mo.draw(mo.make_layout((4, 8)), title="columns of four lanes (rows): each keeps the largest so far"))
