"""Attention forward by mma.sync, on sm_80 and later: four warps share a tile of queries, each has whole rows of it.

In: Q (queries, dim, heads, batch), K (keys, dim, ...), V (keys, dim_v, ...), O; the scores' rules; a ``ForwardPlan``.
Out: O, and the logarithm of each row's sum of exponentials.

While a tile of keys is multiplied, its values are on their way; while values are multiplied, the next keys are.
Source: Dao: FlashAttention-2 (2023).
"""

from __future__ import annotations

import math

import moye as mo
from moye.kernels.attention.parts.scores import LOG2_E, Place, Scores, key_tiles, mask, modify
from moye.kernels.attention.parts.softmax import finished, online, rescale, row_state
from moye.kernels.attention.sm80.plan import TILE
from moye.kernels.attention.sm80.tiles import arrived, fetch, multiply, multiply_further, put, room


@mo.kernel
def attention_sm80_kernel(Q, K, V, O, lse, scale, softcap, left, right, bias, slopes, sinks, tensors,
                          plan: mo.Constexpr):
    """A tile of bM queries of one head for each block; those with the most keys come first."""
    how = Scores(plan.rules, mo.size(Q, 0), mo.size(K, 0), scale, softcap, left, right, bias, slopes, tensors)
    m_tiles, tid = mo.ceil_div(how.queries, plan.bM), mo.thread_idx().x
    m, head, batch = m_tiles - 1 - mo.block_idx().x, mo.block_idx().y, mo.block_idx().z
    gQ, gO = Q[:, :, head, batch], O[:, :, head, batch]
    gK, gV = K[:, :, head // plan.heads_of_a_key, batch], V[:, :, head // plan.heads_of_a_key, batch]
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
    fetch(plan.copy_Q, sQ, gQ, m)
    fetch(plan.copy_K, sK, gK, most - 1)
    for n in range(most - 1, least - 1, -1):
        arrived()                                       # the keys; and nobody reads the values before any more
        fetch(plan.copy_V, sV, gV, n)
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, sK)
        arrived()                                       # the values; and nobody reads the keys any more
        if n > least:
            fetch(plan.copy_K, sK, gK, n - 1)
        judge(plan, how, S, (m, head, batch), n, (n >= high) | (n < low))
        online(rows, mo.mn_view(S, plan.mma), fold, False, plan.rules.masks)
        rescale(mo.mn_view(acc, plan.mma), rows.shrink)
        multiply_further(plan.mma, acc, S, plan.read_turned, sV_turned)
    factor, log_sum = finished(rows, fold, None if sinks is None else sinks[head] * LOG2_E)
    rescale(mo.mn_view(acc, plan.mma), factor)
    put(plan.mma, plan.copy_O, gO, memory.with_layout(plan.O), acc, m)      # the queries are not needed any more
    if lse is not None:
        first = m * plan.bM + tid // 32 * 16 + tid % 32 // 4
        if tid % 4 == 0:
            for i in mo.static_range(mo.size(log_sum)):
                row = first + i % 2 * 8 + i // 2 * 64
                if row < how.queries:
                    lse[row, head, batch] = log_sum[i] / LOG2_E


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
