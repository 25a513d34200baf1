"""The textbook: scores in memory

Three launches, one for each line of the definition: scores, their softmax along each row, the product with V. The
scores go to global memory and come back twice, and there are as many of them as queries times keys. A thread computes
one element, so each multiplication loads both of its factors from memory.
"""

import moye as mo
from trial import require, scratch, trial

THREADS = 128


@mo.kernel
def scores_kernel(S, Q, K, scale):
    """A block has 128 scores of one query, a thread one of them."""
    key, query, head = mo.block_idx().x * THREADS + mo.thread_idx().x, mo.block_idx().y, mo.block_idx().z
    total = mo.float32(0)
    for d in range(mo.size(Q, 2)):
        total += mo.float32(Q[head, query, d]) * mo.float32(K[head, key, d])
    S[head, query, key] = total * scale


@mo.kernel
def softmax_kernel(S):
    """A block has a row of scores, which become weights."""
    query, head, tid = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, THREADS // 32)                # one number for each warp
    top = mo.float32(-float("inf"))
    for key in mo.range(tid, mo.size(S, 2), THREADS):
        top = mo.max(top, S[head, query, key])
    top = mo.block_reduce(top, scratch, "max")
    total = mo.float32(0)
    for key in mo.range(tid, mo.size(S, 2), THREADS):
        total += mo.exp(S[head, query, key] - top)
    mo.sync_threads()                                                   # scratch is used again
    total = mo.block_reduce(total, scratch, "add")
    for key in mo.range(tid, mo.size(S, 2), THREADS):
        S[head, query, key] = mo.exp(S[head, query, key] - top) / total


@mo.kernel
def values_kernel(O, P, V):
    """A block has a row of the result, a thread one element."""
    query, head, d = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x
    total = mo.float32(0)
    for key in range(mo.size(V, 1)):
        total += P[head, query, key] * mo.float32(V[head, key, d])
    O[head, query, d] = total.to(O.dtype)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, keys = require((out, q, k, v), (1, THREADS))
    S = scratch(q, (heads, queries, keys))
    run(scores_kernel)[(keys // THREADS, queries, heads), THREADS](S, q, k, q.shape[2] ** -0.5)
    run(softmax_kernel)[(queries, heads), THREADS](S)
    run(values_kernel)[(queries, heads), q.shape[2]](out, S, v)


if __name__ == "__main__":
    trial(attention)
