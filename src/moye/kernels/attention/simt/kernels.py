"""Attention and its gradients without tensor cores: a warp has a row, its lanes share the head dimension.

In: Q (queries, dim, heads, batch), K (keys, dim, ...), V (keys, dim_v, ...), O; the scores' rules; a ``Plan``.
Out: O and the logarithm of each row's sum of exponentials; gradients of queries, keys and values.

All arithmetic is in float32, of float64 in float64, by accurate functions: nothing is rounded to fewer bits.  Each sum
has one owner and one order, so each run gives the same bits.  Elements are read one by one, so strides may be any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Place, Rules, Scores, counts, key_tiles, modified, query_tiles, slope_of
from moye.kernels.attention.sm80.tiles import matrix, numbers, sequence

WARPS = 4
"""Rows that a block works on."""
BLOCKS = 2
"""Blocks of a multiprocessor, so that a thread may have 255 registers; else ptxas takes fewer, and spills."""
STEP = 4
"""Keys, or queries, whose products a warp has on their way at a time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the kernels are compiled for; sums are in ``acc``."""

    rules: Rules
    acc: Any
    dim: int
    dim_v: int
    heads_of_a_key: int


# --- what a warp does with one row -----------------------------------------------------------------------------------


@mo.jit
def held(plan, rows, row, there, dim):
    """This lane's elements of a row of ``rows`` (rows, dim): one in 32; zeros where the row is not there."""
    found = mo.fragment((-(-dim // 32),), plan.acc)                                         # (parts)
    for j in mo.static_range(mo.size(found)):
        d, value = mo.lane_idx() + 32 * j, plan.acc(0)
        if there & (d < dim):
            value = rows[row, d].to(plan.acc)
        found[j] = value
    return found


@mo.jit
def put(rows, row, values, dim):
    """A row of ``rows`` (rows, dim), written by the lanes that hold it."""
    for j in mo.static_range(mo.size(values)):
        d = mo.lane_idx() + 32 * j
        if d < dim:
            rows[row, d] = values[j].to(rows.dtype)


@mo.jit
def product(x, y):
    """The sum over the head dimension of x y, of which each lane holds its elements."""
    total = x.dtype(0)
    for j in mo.static_range(mo.size(x)):
        total = mo.fma(x[j], y[j], total)
    return mo.warp_reduce(total)


@mo.jit
def none(plan, dim):
    """Sums that are 0 so far."""
    found = mo.fragment((-(-dim // 32),), plan.acc)                                         # (parts)
    found.fill(0)
    return found


@mo.jit
def base_of(top):
    """What is taken off the scores of a row: its largest, or 0 where none counts, as -inf - -inf is no number."""
    return mo.where(top == -math.inf, top.dtype(0), top)


@mo.jit
def rules_of(plan, queries, keys, scale, softcap, left, right, bias, slopes, tensors):
    """The rules of the scores with their numbers."""
    return Scores(plan.rules, queries.rows, keys.rows, plan.acc(scale), plan.acc(softcap), left, right, bias, slopes,
                  tensors)


# --- forward ---------------------------------------------------------------------------------------------------------


@mo.kernel
def attention_simt_kernel(Q, K, V, O, lse, offsets_Q, offsets_K,
                          scale: mo.float64, softcap: mo.float64,                           # type: ignore[valid-type]
                          left, right, bias, slopes, sinks, tensors, plan: mo.Constexpr):
    """Rows of queries of one head, a warp each; more in turn where sequences are longer than the grid."""
    mo.min_blocks(BLOCKS)
    x, head, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = rules_of(plan, queries, keys, scale, softcap, left, right, bias, slopes, tensors)
    head_K = head // plan.heads_of_a_key
    gQ, gK, gV = matrix(Q, queries, head), matrix(K, keys, head_K), matrix(V, keys, head_K)     # (rows, dim)
    for row in range(x * WARPS + mo.warp_idx(), queries.rows, mo.grid_dim().x * WARPS):
        result, log_sum = attend(plan, how, gQ, gK, gV, None if sinks is None else sinks[head].to(plan.acc), row,
                                 Place(row, 0, head, batch))
        put(matrix(O, queries, head), row, result, plan.dim_v)
        if lse is not None and mo.lane_idx() == 0:
            numbers(lse, queries, head)[row] = log_sum.to(lse.dtype)


@mo.jit
def attend(plan, how, gQ, gK, gV, sink, row, place):
    """(result, logarithm of the sum of exponentials) of one row: all keys that it sees, ``STEP`` at a time."""
    rQ, rO = held(plan, gQ, row, True, plan.dim), none(plan, plan.dim_v)                    # (parts), (parts)
    top, total = plan.acc(-math.inf), plan.acc(0)
    least, most, _, _ = key_tiles(how, row, 1, STEP)
    for n in range(least, most):
        columns = [n * STEP + k for k in range(STEP)]
        scores = [score_of(plan, how, rQ, gK, row, column, place) for column in columns]
        above = top
        for s in scores:
            above = mo.max(above, s)
        base = base_of(above)
        shrink, weights = mo.exp(top - base), [mo.exp(s - base) for s in scores]
        total, top = total * shrink + sum(weights), above
        rO[...] = rO * shrink
        for column, weight in zip(columns, weights, strict=True):
            rV = held(plan, gV, column, column < how.keys, plan.dim_v)                      # (parts)
            rO[...] = mo.fma(weight, rV, rO)
    if sink is not None:
        highest = mo.max(top, sink)
        base = base_of(highest)
        own = mo.exp(top - base)
        total, top = total * own + mo.exp(sink - base), highest
        rO[...] = rO * own
    rO[...] = rO * mo.where(total == 0, total, 1 / total)
    return rO, mo.where(total == 0, plan.acc(-math.inf), top + mo.log(total))


@mo.jit
def score_of(plan, how, rQ, gK, row, column, place):
    """The score of one key, -inf if the query does not see it."""
    s = product(rQ, held(plan, gK, column, column < how.keys, plan.dim))
    return mo.where(counts(how, row, column), plan.acc(modified(how, s, row, column, place)), plan.acc(-math.inf))


# --- gradients -------------------------------------------------------------------------------------------------------


@mo.kernel
def queries_gradient_simt_kernel(Q, K, V, dO, lse, products, dQ, offsets_Q, offsets_K,
                                 scale: mo.float64, softcap: mo.float64,                    # type: ignore[valid-type]
                                 left, right, bias, slopes, tensors, plan: mo.Constexpr):
    """dQ: a warp has a row of queries, and goes through the keys that it sees."""
    mo.min_blocks(BLOCKS)
    x, head, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = rules_of(plan, queries, keys, scale, softcap, left, right, bias, slopes, tensors)
    head_K = head // plan.heads_of_a_key
    gQ, gdO, gdQ = (matrix(t, queries, head) for t in (Q, dO, dQ))                          # (queries, dim)
    gK, gV = matrix(K, keys, head_K), matrix(V, keys, head_K)                               # (keys, dim)
    for row in range(x * WARPS + mo.warp_idx(), queries.rows, mo.grid_dim().x * WARPS):
        rQ, rdO = held(plan, gQ, row, True, plan.dim), held(plan, gdO, row, True, plan.dim_v)   # (parts)
        log_sum, taken = (numbers(t, queries, head)[row].to(plan.acc) for t in (lse, products))
        rdQ = none(plan, plan.dim)
        least, most, _, _ = key_tiles(how, row, 1, STEP)
        for n in range(least, most):
            for k in mo.static_range(STEP):
                column = n * STEP + k
                there = column < how.keys
                rK, rV = held(plan, gK, column, there, plan.dim), held(plan, gV, column, there, plan.dim_v)
                _, gradient = weighed(how, product(rQ, rK), product(rdO, rV), log_sum, taken, row, column,
                                      Place(row, column, head, batch))
                rdQ[...] = mo.fma(gradient, rK, rdQ)
        put(gdQ, row, rdQ, plan.dim)


@mo.kernel
def keys_gradient_simt_kernel(Q, K, V, dO, lse, products, dK, dV, offsets_Q, offsets_K,
                              scale: mo.float64, softcap: mo.float64,                       # type: ignore[valid-type]
                              left, right, bias, slopes, tensors, plan: mo.Constexpr):
    """dK and dV: a warp has a row of keys, and goes through the queries of all heads that see it."""
    mo.min_blocks(BLOCKS)
    x, head_K, batch = mo.block_idx()
    queries, keys = sequence(Q, offsets_Q, batch), sequence(K, offsets_K, batch)
    how = rules_of(plan, queries, keys, scale, softcap, left, right, bias, slopes, tensors)
    gK, gV, gdK, gdV = (matrix(t, keys, head_K) for t in (K, V, dK, dV))                    # (keys, dim)
    for row in range(x * WARPS + mo.warp_idx(), keys.rows, mo.grid_dim().x * WARPS):
        rK, rV = held(plan, gK, row, True, plan.dim), held(plan, gV, row, True, plan.dim_v)     # (parts)
        rdK, rdV = none(plan, plan.dim), none(plan, plan.dim_v)
        least, most = query_tiles(how, row, STEP, 1)
        for g in range(plan.heads_of_a_key):
            head = head_K * plan.heads_of_a_key + g
            for m in range(least, most):
                for k in mo.static_range(STEP):
                    add_query(plan, how, (Q, dO, lse, products), queries, m * STEP + k, row, (rK, rV, rdK, rdV),
                              (head, batch))
        put(gdK, row, rdK, plan.dim)
        put(gdV, row, rdV, plan.dim_v)


@mo.jit
def add_query(plan, how, arrays, queries, row, column, registers, place):
    """What one query adds to the gradients of a key and its value."""
    (Q, dO, lse, products), (rK, rV, rdK, rdV), (head, batch) = arrays, registers, place
    there, log_sum, taken = row < how.queries, plan.acc(0), plan.acc(0)
    rQ = held(plan, matrix(Q, queries, head), row, there, plan.dim)                         # (parts)
    rdO = held(plan, matrix(dO, queries, head), row, there, plan.dim_v)                     # (parts)
    if there:
        log_sum, taken = (numbers(t, queries, head)[row].to(plan.acc) for t in (lse, products))
    weight, gradient = weighed(how, product(rQ, rK), product(rdO, rV), log_sum, taken, row, column,
                               Place(row, column, head, batch))
    rdV[...] = mo.fma(weight, rdO, rdV)
    rdK[...] = mo.fma(gradient, rQ, rdK)


@mo.jit
def weighed(how, s, gradient, log_sum, taken, row, column, place):
    """The weight of a score, and the gradient of the product of its query and its key."""
    value, slope = modified(how, s, row, column, place), slope_of(how, s)
    seen = counts(how, row, column) & (log_sum != -math.inf)
    weight = mo.where(seen, mo.exp(value - log_sum), s.dtype(0))
    return weight, weight * (gradient - taken) * slope
