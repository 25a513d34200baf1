"""Gradients of attention by mma.sync, on sm_80 and later: those of keys and values, and those of queries.

In: what forward had and gave, the gradient of its result.  Out: gradients of queries, keys and values.

Scores are computed again: of one tile of keys with all queries that see it, and of one tile of queries with all keys
that it sees.  So every sum has one owner and one order: nothing is added in memory, and each run gives the same bits.
Source: Dao: FlashAttention-2 (2023), section 3.1, but for the two kernels in the place of additions to dQ in memory.
"""

from __future__ import annotations

import math

import moye as mo
from moye.kernels.attention.parts.scores import (
    LOG2_E,
    Place,
    Scores,
    counts,
    key_tiles,
    modified,
    offset,
    query_tiles,
    row_offset,
    slope_of,
)
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

# --- what each query has: log of its sum of exponentials, sum of products of result and gradient ---------------------


@mo.kernel
def row_products_kernel(out, O, dO):
    """out (queries, heads, batch) = the sum over the head dimension of O dO, each (queries, dim_v, heads, batch).

    A warp has a row.
    """
    tid, head, batch = mo.thread_idx().x, mo.block_idx().y, mo.block_idx().z
    row = mo.block_idx().x * (mo.block_dim().x // 32) + tid // 32
    total = out.dtype(0)
    if row < mo.size(O, 0):
        for d in range(tid % 32, mo.size(O, 1), 32):
            total += O[row, d, head, batch].to(out.dtype) * dO[row, d, head, batch].to(out.dtype)
    total = mo.warp_reduce(total)
    if (row < mo.size(O, 0)) & (tid % 32 == 0):
        out[row, head, batch] = total


@mo.jit
def fetch_rows(smem, lse, products, m, queries):
    """Both numbers of a tile of queries, each (queries), to shared memory (rows, 2); zeros beyond the last query."""
    tid, rows = mo.thread_idx().x, mo.size(smem, 0)
    if tid < rows:
        row, log_sum, product = m * rows + tid, mo.float32(0), mo.float32(0)
        if row < queries:
            log_sum, product = lse[row] * LOG2_E, products[row]
            log_sum = mo.where(log_sum == -math.inf, math.inf, log_sum)     # of a row in which nothing counts
        smem[tid, 0], smem[tid, 1] = log_sum, product


# --- the gradients of keys and values --------------------------------------------------------------------------------


@mo.kernel
def keys_gradient_kernel(Q, K, V, dO, lse, products, dK, dV, offsets_Q, offsets_K, scale, softcap, left, right, bias,
                         slopes, tensors, plan: mo.Constexpr):
    """dK and dV of tiles of keys, or one of them: the other one is None.  Queries of all heads that share the keys."""
    x, head_K, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = Scores(plan.rules, queries.rows, keys.rows, scale, softcap, left, right, bias, slopes, tensors)
    for n in range(x, mo.ceil_div(how.keys, TILE), mo.grid_dim().x):
        sum_keys(plan, how, (Q, K, V, dO, lse, products, dK, dV), queries, keys, (n, head_K, batch))
        mo.sync_threads()                               # the next keys come where these lay


@mo.jit
def sum_keys(plan, how, arrays, queries, keys, place):
    """One tile of keys: all queries that see it."""
    (Q, K, V, dO, lse, products, dK, dV), (n, head_K, batch) = arrays, place
    sK, sV = mo.shared_array(plan.dtype, plan.rows), mo.shared_array(plan.dtype, plan.rows_v)
    memory_Q, memory_dO = room(plan.dtype, plan.steps), room(plan.dtype, plan.steps_v)
    sQ, sdO = memory_Q.with_layout(plan.steps), memory_dO.with_layout(plan.steps_v)         # (step, dim), (step, dim_v)
    S = plan.mma.partition_fragment_C((TILE, plan.step))                                    # keys, queries
    dP, sRows = mo.make_fragment_like(S), mo.shared_array(mo.float32, (plan.step, 2))
    sums_K, sums_V = plan.mma.partition_fragment_C((TILE, plan.dim)), plan.mma.partition_fragment_C((TILE, plan.dim_v))
    sums_K.fill(0)
    sums_V.fill(0)
    fetch(plan.copies[1], sK, matrix(K, keys, head_K), n, how.keys)
    fetch(plan.copies[2], sV, matrix(V, keys, head_K), n, how.keys)
    least, most = query_tiles(how, n * TILE, plan.step, TILE)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        for m in range(least, most):
            fetch(plan.copies[0], sQ, matrix(Q, queries, head), m, how.queries)
            fetch(plan.copies[3], sdO, matrix(dO, queries, head), m, how.queries)
            fetch_rows(sRows, numbers(lse, queries, head), numbers(products, queries, head), m, how.queries)
            arrived()
            multiply(plan.mma, S, plan.read_A, sK, plan.read_B, sQ)
            multiply(plan.mma, dP, plan.read_A, sV, plan.read_B, sdO)
            weigh_turned(plan, how, S, dP, sRows, (n, m, head, batch))
            if dV is not None:
                multiply_further(plan.mma, sums_V, S, plan.read_turned, memory_dO.with_layout(plan.turned_v))
            if dK is not None:
                multiply_further(plan.mma, sums_K, dP, plan.read_turned, memory_Q.with_layout(plan.turned))
            mo.sync_threads()                           # the next queries come where these lie
    arrived()
    if dK is not None:
        put(plan.mma, plan.stores[1], matrix(dK, keys, head_K), sK, sums_K, n, how.keys)
    if dV is not None:
        put(plan.mma, plan.stores[2], matrix(dV, keys, head_K), sV, sums_V, n, how.keys)


@mo.jit
def weigh_turned(plan, how, S, dP, sRows, where):
    """Scores and gradients of weights (keys, queries) become weights and gradients of scores."""
    n, m, head, batch = where
    tid, place = mo.thread_idx().x, Place(0, 0, head, batch)
    rows, gradients = mo.mn_view(S, plan.mma), mo.mn_view(dP, plan.mma)
    first_key, first = n * TILE + tid // 32 * 16 + tid % 32 // 4, tid % 4 * 2
    for k in mo.static_range(mo.size(rows, 1)):
        own = first + offset(k)
        log_sum, product = sRows[own, 0], sRows[own, 1]
        for i in mo.static_range(mo.size(rows, 0)):
            rows[i, k], gradients[i, k] = weight_and_gradient(
                how, rows[i, k], gradients[i, k], log_sum, product, m * plan.step + own, first_key + row_offset(i),
                place)


# --- the gradient of queries -----------------------------------------------------------------------------------------


@mo.kernel
def queries_gradient_kernel(Q, K, V, dO, lse, products, dQ, offsets_Q, offsets_K, scale, softcap, left, right, bias,
                            slopes, tensors, plan: mo.Constexpr):
    """dQ of tiles of queries of one head; those with the most keys come first."""
    x, head, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = Scores(plan.rules, queries.rows, keys.rows, scale, softcap, left, right, bias, slopes, tensors)
    m_tiles = mo.ceil_div(how.queries, TILE)
    for i in range(x, m_tiles, mo.grid_dim().x):
        sum_queries(plan, how, (Q, K, V, dO, lse, products, dQ), queries, keys, (m_tiles - 1 - i, head, batch))
        mo.sync_threads()                               # the next queries come where these lay


@mo.jit
def sum_queries(plan, how, arrays, queries, keys, place):
    """One tile of queries: all keys that it sees."""
    (Q, K, V, dO, lse, products, dQ), (m, head, batch) = arrays, place
    head_K = head // plan.heads_of_a_key
    sQ, sdO = mo.shared_array(plan.dtype, plan.rows), mo.shared_array(plan.dtype, plan.rows_v)
    memory_K, sV = room(plan.dtype, plan.steps), mo.shared_array(plan.dtype, plan.steps_v)
    sK = memory_K.with_layout(plan.steps)                                                   # (step, dim)
    S = plan.mma.partition_fragment_C((TILE, plan.step))                                    # queries, keys
    dP, sRows = mo.make_fragment_like(S), mo.shared_array(mo.float32, (TILE, 2))
    sums = plan.mma.partition_fragment_C((TILE, plan.dim))
    sums.fill(0)
    fetch(plan.copies[0], sQ, matrix(Q, queries, head), m, how.queries)
    fetch(plan.copies[3], sdO, matrix(dO, queries, head), m, how.queries)
    fetch_rows(sRows, numbers(lse, queries, head), numbers(products, queries, head), m, how.queries)
    least, most, _, _ = key_tiles(how, m * TILE, TILE, plan.step)
    for n in range(most - 1, least - 1, -1):
        fetch(plan.copies[1], sK, matrix(K, keys, head_K), n, how.keys)
        fetch(plan.copies[2], sV, matrix(V, keys, head_K), n, how.keys)
        arrived()
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, sK)
        multiply(plan.mma, dP, plan.read_A, sdO, plan.read_B, sV)
        weigh(plan, how, S, dP, sRows, (n, m, head, batch))
        multiply_further(plan.mma, sums, dP, plan.read_turned, memory_K.with_layout(plan.turned))
        mo.sync_threads()                               # the next keys come where these lie
    put(plan.mma, plan.stores[0], matrix(dQ, queries, head), sQ, sums, m, how.queries)


@mo.jit
def weigh(plan, how, S, dP, sRows, where):
    """Scores and gradients of weights (queries, keys) become weights and gradients of scores."""
    n, m, head, batch = where
    tid, place = mo.thread_idx().x, Place(0, 0, head, batch)
    rows, gradients = mo.mn_view(S, plan.mma), mo.mn_view(dP, plan.mma)
    first, first_key = tid // 32 * 16 + tid % 32 // 4, n * plan.step + tid % 4 * 2
    for i in mo.static_range(mo.size(rows, 0)):
        own = first + row_offset(i)
        log_sum, product = sRows[own, 0], sRows[own, 1]
        for k in mo.static_range(mo.size(rows, 1)):
            rows[i, k], gradients[i, k] = weight_and_gradient(
                how, rows[i, k], gradients[i, k], log_sum, product, m * TILE + own, first_key + offset(k), place)


@mo.jit
def weight_and_gradient(how, s, gradient, log_sum, product, row, column, place):
    """The weight of a score, and the gradient of the product of its query and its key."""
    if how.modified:
        exponent, slope = modified(how, s, row, column, place) * LOG2_E, slope_of(how, s)
    else:
        exponent, slope = s * (how.scale * LOG2_E), how.scale
    weight = mo.where(counts(how, row, column), mo.exp2(exponent - log_sum, fast=True), 0.0)
    return weight, weight * (gradient - product) * slope
