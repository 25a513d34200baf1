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

import moye as mo
from moye.kernels.attention.decode.plan import KEYS, ROWS, WARPS
from moye.kernels.attention.parts.scores import LOG2_E, capped, offset, row_offset
from moye.kernels.attention.parts.softmax import finished, online, rescale, row_state
from moye.kernels.attention.sm80.tiles import inside, multiply, multiply_further


@mo.kernel
def decode_kernel(Q, K, V, table, lengths, results, log_sums, scale, softcap, left, plan: mo.Constexpr):
    """Parts of the keys of one sequence and head: a warp has tiles number part, part + parts, ..."""
    x, head_K, batch = mo.block_idx()
    splits = mo.grid_dim().x // plan.row_tiles
    mo.assume(splits > 0)
    tile, split, warp = x // splits, x % splits, mo.thread_idx().x // 32
    part, parts, length = split * WARPS + warp, splits * WARPS, lengths[batch]
    sQ = mo.shared_array(plan.dtype, plan.Q)                                        # (ROWS, dim)
    sK = mo.shared_array(plan.dtype, plan.K)                                        # (KEYS, dim, stages * warps)
    sV = mo.shared_array(plan.dtype, plan.V)                                        # (KEYS, dim_v, stages * warps)
    take_queries(plan, sQ, Q, tile, head_K, batch)
    S = plan.mma.partition_fragment_C((ROWS, KEYS))                                 # (MMA, 1, MMA_N)
    acc, rows = plan.mma.partition_fragment_C((ROWS, plan.dim_v)), row_state(2)     # (MMA, 1, MMA_N)
    acc.fill(0)
    rows.top.fill(-math.inf)
    rows.total.fill(0)
    first = 0 if left is None else mo.max(length - mo.size(Q, 2) - left, 0) // KEYS
    tiles, fold = mo.ceil_div(length, KEYS), LOG2_E if softcap is not None else scale * LOG2_E
    for s in mo.static_range(plan.stages - 1):
        fetch(plan, (sK, sV), (K, V), (table, length, head_K, batch), first + part + s * parts, warp * plan.stages + s)
    stage = mo.int32(0)
    for n in range(first + part, tiles, parts):
        mo.sync_warp()                                  # nobody reads any more what lay in the stage that is filled now
        ahead = mo.where(stage == 0, plan.stages - 1, stage - 1)
        fetch(plan, (sK, sV), (K, V), (table, length, head_K, batch), n + (plan.stages - 1) * parts,
              warp * plan.stages + ahead)
        mo.cp_async_wait(plan.stages - 1)
        mo.sync_warp()
        own = warp * plan.stages + stage
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, sK[:, :, own])
        judge(plan, mo.mn_view(S, plan.mma), (scale, softcap, left), (tile * ROWS, n * KEYS), mo.size(Q, 2), length)
        online(rows, mo.mn_view(S, plan.mma), fold, False, True)
        rescale(mo.mn_view(acc, plan.mma), rows.shrink)
        multiply_further(plan.mma, acc, S, plan.read_turned, sV.with_layout(plan.V_turned)[:, :, own])
        stage = mo.where(stage == plan.stages - 1, 0, stage + 1)
    mo.cp_async_wait()
    factor, log_sum = finished(rows, fold, None)
    rescale(mo.mn_view(acc, plan.mma), factor)
    put(plan, results, log_sums, mo.mn_view(acc, plan.mma), log_sum, (tile, head_K, batch), part, mo.size(Q, 2))


@mo.jit
def take_queries(plan, sQ, Q, tile, head_K, batch):
    """The queries of a tile of rows; zeros beyond them, and beyond the head dimension."""
    for i in range(mo.thread_idx().x, ROWS * plan.dim, WARPS * 32):
        row, d, value = tile * ROWS + i // plan.dim, i % plan.dim, mo.float32(0)
        query, head = row // plan.heads_of_a_key, head_K * plan.heads_of_a_key + row % plan.heads_of_a_key
        if (query < mo.size(Q, 2)) & (d < mo.size(Q, 0)):
            value = Q[d, head, query, batch].to(mo.float32)
        sQ[i // plan.dim, d] = value.to(plan.dtype)
    mo.sync_threads()


@mo.jit
def fetch(plan, stages, pages, where, n, stage):
    """Ask for a tile of keys and values, which lies in one page; zeros beyond the last key."""
    table, length, head_K, batch = where
    key, page = n * KEYS, mo.int32(0)
    if key < length:
        page = table[key // plan.page_size, batch]
    for smem, X, copy in ((stages[0], pages[0], plan.copy_K), (stages[1], pages[1], plan.copy_V)):
        one, to = X[:, :, head_K, page], smem[:, :, stage]
        extents, at = (KEYS, mo.size(to, 1)), (key % plan.page_size // KEYS, 0)
        thr = copy.get_slice(mo.lane_idx())
        source = thr.partition_S(mo.tile(one, extents, at, ragged=True))            # (CPY, CPY_M, CPY_N)
        coords = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(one)), extents, at, ragged=True))
        within = key % plan.page_size + mo.max(length - key, 0)                     # rows of the page that count
        mo.copyto(copy, thr.partition_D(to), source, pred=inside(coords, (within, mo.size(one, 1))), zero_fill=True)
    mo.cp_async_commit()


@mo.jit
def judge(plan, S, numbers, begin, queries, length):
    """Scores are capped, and -inf where a query does not see a key."""
    (scale, softcap, left), lane = numbers, mo.lane_idx()
    key = begin[1] + lane % 4 * 2
    for i in mo.static_range(mo.size(S, 0)):
        query = (begin[0] + lane // 4 + row_offset(i)) // plan.heads_of_a_key
        stands = length - queries + query
        for k in mo.static_range(mo.size(S, 1)):
            if softcap is not None:
                S[i, k] = capped(S[i, k] * scale, softcap)
            seen = (key + offset(k) < length) & (key + offset(k) <= stands)
            if left is not None:
                seen = seen & (key + offset(k) >= stands - left)
            S[i, k] = mo.where(seen, S[i, k], -math.inf)


@mo.jit
def put(plan, results, log_sums, acc, log_sum, place, part, queries):
    """A warp's rows to results (dim_v, heads, queries, batch, parts), and their numbers."""
    (tile, head_K, batch), lane = place, mo.lane_idx()
    for i in mo.static_range(mo.size(acc, 0)):
        row = tile * ROWS + lane // 4 + row_offset(i)
        query, head = row // plan.heads_of_a_key, head_K * plan.heads_of_a_key + row % plan.heads_of_a_key
        if query < queries:
            if lane % 4 == 0:
                log_sums[head, query, batch, part] = log_sum[i]
            for k in mo.static_range(mo.size(acc, 1)):
                d = lane % 4 * 2 + offset(k)
                if d < mo.size(results, 0):
                    results[d, head, query, batch, part] = acc[i, k]


@mo.kernel
def combine_kernel(O, lse, results, log_sums):
    """O (dim_v, heads, queries, batch): a block weighs the results of all parts of a row by their sums.

    Each warp finds all weights.  Parts are a multiple of ``WARPS``, which are loaded together.
    """
    head, query, batch = mo.block_idx()
    top, parts = mo.float32(-math.inf), mo.size(log_sums, 3)
    for p in mo.range(mo.lane_idx(), parts, 32):
        top = mo.max(top, log_sums[head, query, batch, p])
    top = mo.warp_reduce(top, "max")
    base, total = mo.where(top == -math.inf, 0.0, top), mo.float32(0)
    for p in mo.range(mo.lane_idx(), parts, 32):
        total += mo.exp2(log_sums[head, query, batch, p] - base)
    total = mo.warp_reduce(total)
    for d in mo.range(mo.thread_idx().x, mo.size(O, 0), mo.block_dim().x):
        value = mo.float32(0)
        for first in range(0, parts, WARPS):
            for p in mo.static_range(WARPS):
                weight = mo.exp2(log_sums[head, query, batch, first + p] - base)
                value += weight * results[d, head, query, batch, first + p]
        O[d, head, query, batch] = mo.where(total == 0.0, 0.0, value / total).to(O.dtype)
    if lse is not None and mo.thread_idx().x == 0:
        lse[query, head, batch] = mo.where(total == 0.0, -math.inf, (base + mo.log2(total)) / LOG2_E)
