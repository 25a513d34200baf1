"""Attention forward by mma.sync, on sm_80 and later: four warps share a tile of queries, each has whole rows of it.

In: Q (queries, dim, heads, batch), K (keys, dim, ...), V (keys, dim_v, ...), O; the scores' rules; a ``ForwardPlan``.
Out: O, and the logarithm of each row's sum of exponentials.

While a tile of keys is multiplied, its values are on their way; while values are multiplied, the next keys are.
Source: Dao: FlashAttention-2 (2023).
"""

from __future__ import annotations

import math

import moye as mo
from moye.kernels.attention.parts.scores import LOG2_E, Place, Scores, key_tiles, mask, modify, row_offset
from moye.kernels.attention.parts.softmax import finished, online, rescale, row_state
from moye.kernels.attention.sm80.plan import TILE
from moye.kernels.attention.sm80.tiles import (
    arrived,
    fetch,
    matrix,
    multiply,
    multiply_further,
    numbers,
    put,
    room,
    sequence,
)


@mo.kernel
def attention_sm80_kernel(Q, K, V, O, lse, offsets_Q, offsets_K, scale, softcap, left, right, bias, slopes, sinks,
                          tensors, plan: mo.Constexpr):
    """Tiles of bM queries of one head, those with the most keys first: one for each block, if the grid has so many."""
    x, head, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = Scores(plan.rules, queries.rows, keys.rows, scale, softcap, left, right, bias, slopes, tensors)
    m_tiles = mo.ceil_div(queries.rows, plan.bM)
    for i in range(x, m_tiles, mo.grid_dim().x):
        attend(plan, how, (Q, K, V, O, lse), queries, keys, sinks, (m_tiles - 1 - i, head, batch))
        mo.sync_threads()                               # the next queries come where these lay


@mo.jit
def attend(plan, how, arrays, queries, keys, sinks, place):
    """One tile of queries: all keys that it sees, from the last to the first."""
    (Q, K, V, O, lse), (m, head, _) = arrays, place
    head_K = head // plan.heads_of_a_key
    gQ, gK, gV = matrix(Q, queries, head), matrix(K, keys, head_K), matrix(V, keys, head_K)
    memory, memory_V = room(plan.dtype, plan.Q, plan.O), room(plan.dtype, plan.V)
    sQ = memory.with_layout(plan.Q)                                                 # (bM, dim)
    sK = mo.shared_array(plan.dtype, plan.K)                                        # (TILE, dim)
    sV, sV_turned = memory_V.with_layout(plan.V), memory_V.with_layout(plan.V_turned)   # (TILE, dim_v), (dim_v, TILE)
    S = plan.mma.partition_fragment_C((plan.bM, TILE))                              # (MMA, MMA_M, MMA_N)
    acc = plan.mma.partition_fragment_C((plan.bM, plan.dim_v))                      # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    rows = row_state(mo.size(mo.mn_view(S, plan.mma), 0))
    rows.top.fill(-math.inf)
    rows.total.fill(0)
    fold = LOG2_E if how.modified else how.scale * LOG2_E
    least, most, low, high = key_tiles(how, m * plan.bM, plan.bM, TILE)
    fetch(plan.copy_Q, sQ, gQ, m, how.queries)
    fetch(plan.copy_K, sK, gK, most - 1, how.keys)
    for n in range(most - 1, least - 1, -1):
        arrived()                                       # the keys; and nobody reads the values before any more
        fetch(plan.copy_V, sV, gV, n, how.keys)
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, sK)
        arrived()                                       # the values; and nobody reads the keys any more
        if n > least:
            fetch(plan.copy_K, sK, gK, n - 1, how.keys)
        judge(plan, how, S, place, n, (n >= high) | (n < low))
        online(rows, mo.mn_view(S, plan.mma), fold, False, plan.rules.masks or how.empties)
        rescale(mo.mn_view(acc, plan.mma), rows.shrink)
        multiply_further(plan.mma, acc, S, plan.read_turned, sV_turned)
    factor, log_sum = finished(rows, fold, None if sinks is None else sinks[head] * LOG2_E)
    rescale(mo.mn_view(acc, plan.mma), factor)
    put(plan.mma, plan.copy_O, matrix(O, queries, head), memory.with_layout(plan.O), acc, m, how.queries)
    if lse is not None:
        tell(plan, numbers(lse, queries, head), log_sum, m, how.queries)


@mo.jit
def tell(plan, lse, log_sum, m, queries):
    """The logarithms of a tile's sums to lse (queries)."""
    tid = mo.thread_idx().x
    first = m * plan.bM + tid // 32 * 16 + tid % 32 // 4
    if tid % 4 == 0:
        for i in mo.static_range(mo.size(log_sum)):
            row = first + row_offset(i)
            if row < queries:
                lse[row] = log_sum[i] / LOG2_E


@mo.jit
def judge(plan, how, S, place, n, masked):
    """Scores become what the rules make of them."""
    m, head, batch = place
    tid, rows = mo.thread_idx().x, mo.mn_view(S, plan.mma)
    at = Place(m * plan.bM + tid // 32 * 16 + tid % 32 // 4, n * TILE + tid % 4 * 2, head, batch)
    if how.modified:
        modify(how, rows, at)
    if plan.rules.masks and masked:
        mask(how, rows, at)
