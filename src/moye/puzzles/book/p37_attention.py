"""# Attention without its matrix

`O = softmax(Q @ K.T) @ V`. The matrix in the middle has a number for each pair of a query and a key, and is never needed as a whole. A warp
has one query, and goes through the keys: for each key it has a score, the largest score so far, the sum of the last puzzle, and the sum
of the values, weighted in the same way.

Heads are 32 wide: each lane has one number of the query, and one of the result. Fill in how sum and result change with each key, and
what is stored.
"""

import moye as mo


@mo.kernel
def attention_kernel(O, Q, K, V):
    query, lane = mo.block_idx().x, mo.thread_idx().x
    q = Q[query, lane]
    top, total, result = mo.float32(-1e30), mo.float32(0), mo.float32(0)
    for key in range(mo.size(K, 0)):
        score = mo.warp_reduce(q * K[key, lane], "add")
        larger = mo.max(top, score)
        before, weight = mo.exp(top - larger), mo.exp(score - larger)
        total = total * before + weight                 #? total = ...
        result = result * before + weight * V[key, lane]                    #? result = ...
        top = larger
    O[query, lane] = result / total                     #? O[query, lane] = ...


def solve(O, Q, K, V):
    attention_kernel[Q.shape[0], 32](O, Q, K, V)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, queries, keys):
    return {"O": np.empty((queries, 32), np.float32), "Q": 2 * rng.standard_normal((queries, 32)).astype(np.float32),
            "K": 2 * rng.standard_normal((keys, 32)).astype(np.float32), "V": rng.standard_normal((keys, 32)).astype(np.float32)}


def reference(Q, K, V):
    scores = Q.astype(np.float64) @ K.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ V


puzzle = Puzzle(
    reference=reference, make=make, sizes=((4, 40), (1, 1), (3, 17)), variants={"outputs": ("O",), "rtol": 1e-4},
    goals=Goals(launches=1, at_most={"global_load_requests": 4 * (1 + 2 * 40)}),
    hints=("What is known so far is corrected by before: the sum and the result alike.",
           "A key adds its weight to the sum, and its weight times its value to the result.",
           "At the end, the weights must sum to 1."),
    picture=lambda: mo.draw(mo.make_layout((4, 8), (8, 1)), title="scores of four queries (rows) with eight keys: made and used one by one"))
