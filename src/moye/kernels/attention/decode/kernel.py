"""Few queries over keys and values in pages: each warp goes through tiles of its own, and their results are combined.

In: Q (dim, heads, queries, batch), pages of K and V (rows, dim, heads, pages), the table (pages of a sequence, batch),
lengths; a ``DecodePlan``.  Out: for each part of the keys a result and the logarithm of its sum of exponentials, which
``combine_kernel`` makes one.

The queries of all heads that share keys are the rows of one MMA.  A warp waits for nobody: its tiles of ``KEYS`` keys
come by cp.async into stages of its own, many under way at a time, because memory is the limit.  Source: Dao et al.:
Flash-Decoding for long-context inference (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.attention.decode.plan import BLOCKS, KEYS, ROWS, WARPS
from moye.kernels.attention.parts.scores import (
    LOG2_E,
    Place,
    Scores,
    factor_of,
    modified,
    offset,
    positive,
    row_offset,
)
from moye.kernels.attention.parts.softmax import finished, grew, online, rescale, row_state
from moye.kernels.attention.sm80.tiles import (
    inside,
    multiply,
    multiply_further,
    multiply_further_widened,
    multiply_widened,
)


@mo.kernel
def decode_kernel(Q, K, V, table, lengths, results, log_sums, scale, softcap, left, bias, slopes, tensors, k_scale,
                  v_scale, plan: mo.Constexpr):
    """Parts of the keys of one sequence and head: a warp has tiles number part, part + parts, ..."""
    if plan.narrow:
        mo.min_blocks(BLOCKS)                           # ptxas spills for more of them otherwise
    mo.griddepcontrol_launch_dependents()
    x, head_K, batch = mo.block_idx()
    splits = mo.grid_dim().x // plan.row_tiles
    mo.assume(splits > 0)
    tile, split, warp = x // splits, x % splits, mo.thread_idx().x // 32
    part, parts, length = split * WARPS + warp, splits * WARPS, lengths[batch]
    where = Where(tile, head_K, batch, mo.size(Q, 2), length)
    how = Scores(plan.rules, mo.size(Q, 2), length, scale_of(scale, k_scale, head_K, batch), softcap, left, None, bias,
                 slopes, tensors)
    sQ = mo.shared_array(plan.dtype, plan.Q)                                        # (ROWS, dim)
    stages = Stages(mo.shared_array(plan.stored, plan.K), mo.shared_array(plan.stored, plan.V),
                    tokens(plan, k_scale), tokens(plan, v_scale))
    take_queries(plan, sQ, Q, where)
    S = plan.mma.partition_fragment_C((ROWS, KEYS))                                 # (MMA, 1, MMA_N)
    acc, rows = plan.mma_V.partition_fragment_C((ROWS, plan.dim_v)), row_state(2)   # (MMA, 1, MMA_N)
    acc.fill(0)
    rows.top.fill(-math.inf)
    rows.total.fill(0)
    first = 0 if left is None else mo.max(length - mo.size(Q, 2) - left, 0) // KEYS
    tiles, memory = mo.ceil_div(length, KEYS), Stages(K, V, k_scale, v_scale)
    for s in mo.static_range(plan.stages - 1):
        fetch(plan, stages, memory, table, where, first + part + s * parts, warp * plan.stages + s)
    stage = mo.int32(0)
    for n in range(first + part, tiles, parts):
        mo.sync_warp()                                  # nobody reads any more what lay in the stage that is filled now
        ahead = mo.where(stage == 0, plan.stages - 1, stage - 1)
        fetch(plan, stages, memory, table, where, n + (plan.stages - 1) * parts, warp * plan.stages + ahead)
        mo.cp_async_wait(plan.stages - 1)
        mo.sync_warp()
        own = warp * plan.stages + stage
        scores(plan, S, sQ, stages, own)
        judge(plan, how, mo.mn_view(S, plan.mma), where, n * KEYS)
        online(rows, mo.mn_view(S, plan.mma), how.fold, False, True)
        if grew(rows):
            rescale(mo.mn_view(acc, plan.mma_V), rows.shrink)
        add_values(plan, acc, S, stages, own)
        stage = mo.where(stage == plan.stages - 1, 0, stage + 1)
    mo.cp_async_wait()
    factor, log_sum = finished(rows, how.fold, None)
    factor[...] = factor * factor_of(v_scale, head_K, batch)
    rescale(mo.mn_view(acc, plan.mma_V), factor)
    put(plan, results, log_sums, mo.mn_view(acc, plan.mma_V), log_sum, where, part)


@mo.jit
def scale_of(scale, factors, head_K, batch):
    """The scale times the factor of the keys of a head, if they have one."""
    return scale if factors is None else positive(scale * factor_of(factors, head_K, batch))


@dataclass(frozen=True, slots=True)
class Where:
    """What a block has: its tile of rows, heads and sequence, and how many queries and keys this has."""

    tile: Any
    head_K: Any
    batch: Any
    queries: Any
    length: Any

    def row(self, plan: Any, i: Any) -> tuple[Any, Any]:
        """(query, head) of row i of the tile; the query may lie beyond the last."""
        row, group = self.tile * ROWS + i, plan.heads_of_a_key
        return row // group, self.head_K * group + row % group


@dataclass(frozen=True, slots=True)
class Stages:
    """Keys, values, and the factors of each key and each value or None: in pages, or in stages of shared memory."""

    K: Any
    V: Any
    k_scale: Any
    v_scale: Any


@mo.jit
def tokens(plan, factors):
    """Stages for the factors of a tile's keys, if each has its own."""
    each = isinstance(factors, mo.Tensor) and mo.rank(factors) == 3
    return mo.shared_array(mo.float32, (KEYS, plan.stages * WARPS)) if each else None


@mo.jit
def take_queries(plan, sQ, Q, where):
    """The queries of a tile of rows; zeros beyond them, and beyond the head dimension."""
    for i in range(mo.thread_idx().x, ROWS * plan.dim, WARPS * 32):
        (query, head), d, value = where.row(plan, i // plan.dim), plan.order(i % plan.dim), mo.float32(0)
        if (query < where.queries) & (d < mo.size(Q, 0)):
            value = Q[d, head, query, where.batch].to(mo.float32)
        sQ[i // plan.dim, i % plan.dim] = value.to(plan.dtype)
    mo.sync_threads()


@mo.jit
def fetch(plan, stages, memory, table, where, n, stage):
    """Ask for a tile of keys and values, which lies in one page; zeros beyond the last key."""
    key, page = n * KEYS, mo.int32(0)
    if key < where.length:
        page = table[key // plan.page_size, where.batch]
    count = mo.max(where.length - key, 0)                                           # rows that count
    for smem, X, copy in ((stages.K, memory.K, plan.copy_K), (stages.V, memory.V, plan.copy_V)):
        one, to = X[:, :, where.head_K, page], smem[:, :, stage]
        extents, at = (KEYS, mo.size(to, 1)), (key % plan.page_size // KEYS, 0)
        thr = copy.get_slice(mo.lane_idx())
        source = thr.partition_S(mo.tile(one, extents, at, ragged=True))            # (CPY, CPY_M, CPY_N)
        coords = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(one)), extents, at, ragged=True))
        pred = inside(coords, (key % plan.page_size + count, mo.size(one, 1)))
        mo.copyto(copy, thr.partition_D(to), source, pred=pred, zero_fill=True)
    for smem, X in ((stages.k_scale, memory.k_scale), (stages.v_scale, memory.v_scale)):
        if smem is not None:
            lane = mo.lane_idx() % KEYS
            if mo.lane_idx() < KEYS:
                mo.copyto(mo.CpAsync(mo.float32), mo.tile(smem[:, stage], (1,), (lane,)),
                          mo.tile(X[:, where.head_K, page], (1,), (key % plan.page_size + lane,)),
                          pred=lane < count, zero_fill=True)
    mo.cp_async_commit()


@mo.jit
def scores(plan, S, sQ, stages, own):
    """The products of queries and keys of a stage, each times its key's factor."""
    if plan.narrow:
        multiply_widened(plan.mma, S, plan.read_A, sQ, stages.K.with_layout(plan.K_seen)[:, :, own])
    else:
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, stages.K[:, :, own])
    by_token(plan, S, stages.k_scale, own)


@mo.jit
def add_values(plan, acc, S, stages, own):
    """acc += the values of a stage times their weights, each times its value's factor."""
    by_token(plan, S, stages.v_scale, own)
    V = stages.V.with_layout(plan.V_turned)[:, :, own]
    if plan.narrow:
        multiply_further_widened(plan.mma_V, acc, S, V, plan.weights)
    else:
        multiply_further(plan.mma_V, acc, S, plan.read_turned, V)


@mo.jit
def by_token(plan, S, factors, own):
    """Columns times the factors of their keys, if they have any."""
    if factors is not None:
        columns = mo.mn_view(S, plan.mma)                                           # (rows, columns)
        for k in mo.static_range(mo.size(columns, 1)):
            column = columns[:, k]
            column[...] = column * factors[mo.lane_idx() % 4 * 2 + offset(k), own]


@mo.jit
def judge(plan, how, S, where, first):
    """Scores become what the rules make of them, and -inf where a query does not see a key."""
    lane = mo.lane_idx()
    for i in mo.static_range(mo.size(S, 0)):
        query, head = where.row(plan, lane // 4 + row_offset(i))
        place, stands = Place(query, first, head, where.batch), query + how.shift
        for k in mo.static_range(mo.size(S, 1)):
            key = first + lane % 4 * 2 + offset(k)
            if how.modified:                            # a user's function sees places that there are
                S[i, k] = modified(how, S[i, k], mo.min(query, how.queries - 1), mo.min(key, how.keys - 1), place)
            seen = (key < how.keys) & (key <= stands)
            if how.rules.left:
                seen = seen & (key >= stands - how.left)
            S[i, k] = mo.where(seen, S[i, k], -math.inf)


@mo.jit
def put(plan, results, log_sums, acc, log_sum, where, part):
    """A warp's rows to results (dim_v, heads, queries, batch, parts), and their numbers."""
    lane = mo.lane_idx()
    for i in mo.static_range(mo.size(acc, 0)):
        query, head = where.row(plan, lane // 4 + row_offset(i))
        if query < where.queries:
            if lane % 4 == 0:
                log_sums[head, query, where.batch, part] = log_sum[i]
            row = results[:, head, query, where.batch, part]
            if plan.narrow:
                put_runs(plan, row, acc[i, None])
            else:
                for k in mo.static_range(mo.size(acc, 1)):
                    d = lane % 4 * 2 + offset(k)
                    if d < mo.size(row):
                        row[d] = acc[i, k]


@mo.jit
def put_runs(plan, row, columns):
    """A thread's columns of a row: of each line, two runs that lie together, inside of the row or outside."""
    _, count, lines = mo.shape(plan.order_v)
    for line in mo.static_range(lines):
        for side in mo.static_range(2):
            run, place = mo.fragment((count,), mo.float32), line * 8 + mo.lane_idx() % 4 * 2 + side
            for j in mo.static_range(count):
                run[j] = columns[side + 2 * (j + count * line)]
            if place * count < mo.size(row):
                mo.copyto(mo.tile(row, (count,), (place,), ragged=True), run)


@mo.kernel
def combine_kernel(O, lse, results, log_sums, sinks):
    """O (dim_v, heads, queries, batch): a block weighs the results of all parts of a row by their sums.

    Each warp finds all weights.  Parts are a multiple of ``WARPS``, which are loaded together.  ``sinks`` (heads) are
    one more score of each row.
    """
    mo.griddepcontrol_wait()                            # for results and log_sums
    head, query, batch = mo.block_idx()
    top, parts = mo.float32(-math.inf), mo.size(log_sums, 3)
    for p in mo.range(mo.lane_idx(), parts, 32):
        top = mo.max(top, log_sums[head, query, batch, p])
    top = mo.warp_reduce(top, "max")
    if sinks is not None:
        top = mo.max(top, sinks[head] * LOG2_E)
    base, total = mo.where(top == -math.inf, 0.0, top), mo.float32(0)
    for p in mo.range(mo.lane_idx(), parts, 32):
        total += mo.exp2(log_sums[head, query, batch, p] - base)
    total = mo.warp_reduce(total)
    if sinks is not None:
        total += mo.exp2(sinks[head] * LOG2_E - base)
    for d in mo.range(mo.thread_idx().x, mo.size(O, 0), mo.block_dim().x):
        value = mo.float32(0)
        for first in range(0, parts, WARPS):
            for p in mo.static_range(WARPS):
                weight = mo.exp2(log_sums[head, query, batch, first + p] - base)
                value += weight * results[d, head, query, batch, first + p]
        O[d, head, query, batch] = mo.where(total == 0.0, 0.0, value / total).to(O.dtype)
    if lse is not None and mo.thread_idx().x == 0:
        lse[query, head, batch] = mo.where(total == 0.0, -math.inf, (base + mo.log2(total)) / LOG2_E)
