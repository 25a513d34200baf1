"""Few queries over keys and values in pages: warps have equal shares of all keys, and their results are combined.

In: Q (dim, heads, queries, batch), pages of K and V (rows, dim, heads, pages), the table (pages of a sequence, batch),
lengths; a ``DecodePlan``.  Out: rows of O and their sums; of a problem that several warps share, a result and the
logarithm of a sum for each part, which ``combine_kernel`` makes one.

The queries of all heads that share keys are the rows of one MMA.  A warp waits for nobody: its tiles of keys
come by cp.async into stages of its own, many under way at a time, because memory is the limit, and those of the next
problem are under way before the last one is done.  Source: Dao et al.: Flash-Decoding for long-context inference
(2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.attention.decode.plan import BLOCKS, ROWS, VECTOR, WARPS, DecodePlan
from moye.kernels.attention.decode.work import Work, after, dealt
from moye.kernels.attention.parts.scores import LOG2_E, Place, Scores, factor_of, modified, offset, positive
from moye.kernels.attention.parts.softmax import above, finished, grew, online, rescale, row_state
from moye.kernels.attention.sm80.tiles import (
    inside,
    multiply,
    multiply_further,
    multiply_further_widened,
    multiply_widened,
)


@mo.kernel
def decode_kernel(O, lse, Q, K, V, table, lengths, results, log_sums, scale, softcap, left, bias, slopes, sinks,
                  tensors, k_scale, v_scale, crews: mo.int32, plan: mo.Constexpr):      # type: ignore[valid-type]
    """Every warp goes through as many tiles of keys as any other, of one problem or several."""
    mo.min_blocks(BLOCKS)
    mo.griddepcontrol_launch_dependents()
    work = Work(lengths, mo.size(Q, 2), left, mo.size(K, 2) * plan.row_tiles, crews, plan.together, plan.keys)
    queries, count = mo.shared_array(plan.operand, WARPS * mo.cosize(plan.Q), align=1024), plan.stages * WARPS
    sQ = one_of(queries, mo.warp_idx(), plan.Q)                                     # (rows, dim)
    memory, stages = Stages(K, V, k_scale, v_scale), Stages(
        mo.shared_array(plan.stored, count * mo.cosize(plan.K), align=1024),
        mo.shared_array(plan.stored, count * mo.cosize(plan.V), align=1024), tokens(plan, k_scale),
        tokens(plan, v_scale))
    team, phase = mo.block_idx().x, mo.warp_idx()
    if plan.phases == 1:
        team, phase = team * WARPS + mo.warp_idx(), 0
    at = dealt(work, team)
    line, whole = Line(at, at.tile + phase, mo.int32(0)), at.left
    for _ in mo.range(plan.stages - 1, unroll=1):
        line = ask(plan, work, stages, memory, table, line, phase)
    while at.left > 0:
        where = Where(at.number % plan.row_tiles, at.number // plan.row_tiles, at.batch, work.queries)
        how = Scores(plan.rules, work.queries, at.length, scale_of(scale, k_scale, where.head_K, at.batch), softcap,
                     left, None, bias, slopes, tensors)
        acc, rows, line = attend(plan, work, how, where, at, phase, line, sQ, stages, Q, memory, table)
        factor, log_sum = finished(rows, how.fold, None)
        factor[...] = factor * factor_of(v_scale, where.head_K, at.batch)
        found, place = Found(acc, factor, log_sum), 2 * team + mo.where(at.left == whole, 0, 1)
        to = To(O, lse, sinks, results[:, :, place], log_sums[:, place], at.count == at.end - at.first)
        if plan.phases == 1:
            leave(plan, to, found, where)
        else:
            leave_together(plan, to, found, where, queries)
        at = after(work, at)
    mo.cp_async_wait()


@mo.jit
def scale_of(scale, factors, head_K, batch):
    """The scale times the factor of the keys of a head, if they have one."""
    return scale if factors is None else positive(scale * factor_of(factors, head_K, batch))


@dataclass(frozen=True, slots=True)
class Where:
    """A problem: its tile of rows, its head of keys and its sequence, which has so many queries."""

    tile: Any
    head_K: Any
    batch: Any
    queries: Any

    def row(self, plan: Any, i: Any) -> tuple[Any, Any]:
        """(query, head) of row i of the tile; the query may lie beyond the last."""
        row, group = self.tile * plan.rows + i, plan.heads_of_a_key
        return row // group, self.head_K * group + row % group


@dataclass(frozen=True, slots=True)
class Line:
    """What a warp asks for next: tile ``tile`` of the problem at ``at``, or of the next one, into stage ``stage``."""

    at: Any
    tile: Any
    stage: Any


@dataclass(frozen=True, slots=True)
class Found:
    """A warp's rows of a problem: sums of values, what they have to be multiplied by, logarithms of sums."""

    acc: Any
    factor: Any
    log_sum: Any


@dataclass(frozen=True, slots=True)
class To:
    """Where rows go: to O, with ``lse`` and ``sinks``, if they are of ``whole`` problems, else to those of a part."""

    O: Any
    lse: Any
    sinks: Any
    results: Any
    log_sums: Any
    whole: Any


_TOGETHER = 4
"""Columns of a sum that a thread adds up at a time."""


def row_offset(i: int) -> int:
    """How far row number i of a thread lies behind its first: pairs 8 apart, in slabs of ROWS."""
    return i % 2 * 8 + i // 2 * ROWS


@mo.jit
def one_of(memory, number, layout):
    """Tile number ``number`` of those that lie in a row."""
    return mo.domain_offset((number * mo.cosize(layout),), memory).with_layout(layout)


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
    return mo.shared_array(mo.float32, (plan.keys, plan.stages * WARPS)) if each else None


@mo.jit
def attend(plan, work, how, where, at, phase, line, sQ, stages, Q, memory, table):
    """(sums of values, ``RowState``, what to ask for next) of a problem's rows and this warp's tiles of its keys."""
    factors = take_queries(plan, sQ, Q, where)
    S = plan.mma.partition_fragment_C((plan.rows, plan.keys))                       # (MMA, MMA_M, MMA_N)
    acc = plan.mma_V.partition_fragment_C((plan.rows, plan.dim_v))                  # (MMA, MMA_M, MMA_N)
    rows = row_state(plan.live)
    acc.fill(0)
    rows.top.fill(-math.inf)
    rows.total.fill(0)
    for n in range(at.tile + phase, at.tile + at.count, plan.phases):
        mo.sync_warp()                                  # nobody reads any more what lay in the stage that is filled now
        line = ask(plan, work, stages, memory, table, line, phase)
        mo.cp_async_wait(plan.stages - 1)
        mo.sync_warp()
        own = mo.warp_idx() * plan.stages + line.stage  # of the oldest that was asked for
        scores(plan, S, sQ, stages, own, factors)
        judge(plan, how, live(plan, S, plan.mma), where, n * plan.keys)
        online(rows, live(plan, S, plan.mma), how.fold, False, True)
        if grew(rows):
            rescale(live(plan, acc, plan.mma_V), rows.shrink)
        add_values(plan, acc, S, stages, own)
    return live(plan, acc, plan.mma_V), rows, line


@mo.jit
def live(plan, sums, mma):
    """A thread's sums as (rows, columns), without rows that have no results."""
    view = mo.mn_view(sums, mma)
    return mo.composition(view, mo.make_layout((plan.live, mo.size(view, 1)), (1, mo.size(view, 0))))


@mo.jit
def take_queries(plan, sQ, Q, where):
    """The queries of a tile of rows; zeros beyond them, and beyond the head dimension.

    Some lanes have a row, each every so many vectors of it.  Where rows are scaled, (rows of a thread): what scores
    have to be multiplied by.
    """
    lane, across = anew(mo.lane_idx()), math.gcd(plan.dim // VECTOR, 8)
    down, factors = 32 // across, mo.fragment((plan.live,), mo.float32)
    mo.sync_warp()                                      # nobody reads the queries of the problem before any more
    for r in mo.static_range(plan.rows // ROWS):
        held = mo.fragment((VECTOR, plan.dim // VECTOR // across, ROWS // down), plan.dtype)
        for i in mo.static_range(ROWS // down):
            take_row(plan, held[:, :, i], Q, where, r * ROWS + i * down + lane // across, lane % across, across)
        ups = mo.fragment((ROWS // down,), mo.float32)
        if plan.scaled:
            for i in mo.static_range(ROWS // down):
                top = mo.abs(held[:, :, i]).reduce("max").to(mo.float32)
                ups[i], under = powers(mo.warp_reduce(top, "max", across))
                for k in mo.static_range(min(2, plan.live - 2 * r)):
                    own = mo.lane_idx() // 4 + 8 * k        # the row of a thread, which may be among these
                    there = mo.shuffle_idx(under, own % down * across)
                    factors[2 * r + k] = mo.where(own // down == i, there, factors[2 * r + k] if i else 1.0)
        for i in mo.static_range(ROWS // down):
            for j in mo.static_range(plan.dim // VECTOR // across):
                value = held[:, j, i].to(mo.float32) * ups[i] if plan.scaled else held[:, j, i]
                put_query(plan, sQ, value.to(plan.operand), r * ROWS + i * down + lane // across,
                          (across * j + lane % across) * VECTOR)
    mo.sync_warp()
    return factors


@mo.jit
def take_row(plan, held, Q, where, row, first, step):
    """Every so many vectors of a row of queries (VECTOR, vectors), from number ``first`` on."""
    query, head = where.row(plan, row)
    source = mo.tile(Q[:, head, mo.min(query, where.queries - 1), where.batch], (plan.run,), (None,),
                     ragged=True)                                                   # (run, runs)
    for j in mo.static_range(mo.size(held, 1)):
        for k in mo.static_range(0, VECTOR, plan.run):
            d, there = (step * j + first) * VECTOR + k, query < where.queries
            if not plan.whole:
                there = there & (d < mo.size(Q, 0))
            mo.copyto(mo.tile(held[:, j], (plan.run,), (k // plan.run,)), source[:, d // plan.run], pred=there, other=0)


@mo.jit
def put_query(plan, sQ, vector, row, d):
    """Elements of a query, d and those behind it, to where they stand in a row of shared memory."""
    if plan.narrow:
        for k in mo.static_range(0, VECTOR, 2):
            mo.copyto(run_in(sQ, 2, row, plan.places(d) + plan.places(k)), mo.tile(vector, (2,), (k // 2,)))
    else:
        mo.copyto(run_in(sQ, VECTOR, row, d), vector)


@mo.jit
def run_in(tile, count, row, column):
    """So many columns of a row of a tile, from a multiple of their number on."""
    return mo.tile(tile, (1, count), (row, column // count))[0, None]


@mo.jit
def anew(x):
    """The same number, from which nothing is computed ahead: all addresses of a loop's turn at once would spill."""
    held = mo.fragment((1,), x.dtype)
    held[0] = x
    mo.pin(held)
    return held[0]


@mo.jit
def powers(top):
    """A power of two that brings the largest number of a row to 2^14 up to 2^15, or near it, and one over it."""
    exponent = mo.int32(top.bitcast(mo.uint32) >> 23)                               # 255 of infinity and NaN
    up = mo.max(mo.min(2 * 127 + 14 - exponent, 253), 1)
    return mo.uint32(up << 23).bitcast(mo.float32), mo.uint32((254 - up) << 23).bitcast(mo.float32)


@mo.jit
def ask(plan, work, stages, memory, table, line, phase):
    """Ask for the next tile of keys and values of a warp, if there is one; what comes after it."""
    at, tile = line.at, line.tile
    while (at.left > 0) & (tile >= at.tile + at.count):
        at = after(work, at)
        tile = at.tile + phase
    if at.left > 0:
        fetch(plan, stages, memory, table, at, tile, mo.warp_idx() * plan.stages + line.stage)
    mo.cp_async_commit()
    return Line(at, tile + plan.phases, mo.where(line.stage == plan.stages - 1, 0, line.stage + 1))


@mo.jit
def fetch(plan, stages, memory, table, at, tile, stage):
    """Copy a tile of keys and values, which lies in one page or has some; zeros beyond the last key."""
    head_K, key = at.number // plan.row_tiles, tile * plan.keys
    part = min(plan.keys, plan.page_size)                                           # keys of a tile that a page has
    for i in mo.static_range(plan.keys // part):
        first, page = key + i * part, mo.int32(0)
        if first < at.length:
            page = table[first // plan.page_size, at.batch]
        for smem, X, layout, copy, whole in ((stages.K, memory.K, plan.K, plan.copy_K, plan.whole),
                                             (stages.V, memory.V, plan.V, plan.copy_V, plan.whole_v)):
            one, to = X[:, :, head_K, page], one_of(smem, stage, layout)
            extents, place = (part, mo.size(to, 1)), (first % plan.page_size // part, 0)
            thr = copy.get_slice(mo.lane_idx())
            source = thr.partition_S(mo.tile(one, extents, place, ragged=True))     # (CPY, CPY_M, CPY_N)
            coords = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(one)), extents, place, ragged=True))
            pred = inside(coords, (first % plan.page_size + mo.max(at.length - first, 0),
                                   mo.size(to if whole else one, 1)))
            mo.copyto(copy, thr.partition_D(mo.tile(to, extents, (i, 0))), source, pred=pred, zero_fill=True)
        for smem, X in ((stages.k_scale, memory.k_scale), (stages.v_scale, memory.v_scale)):
            if smem is not None:
                lane = mo.lane_idx() % part
                if mo.lane_idx() < part:
                    mo.copyto(mo.CpAsync(mo.float32), mo.tile(smem[:, stage], (1,), (i * part + lane,)),
                              mo.tile(X[:, head_K, page], (1,), (first % plan.page_size + lane,)),
                              pred=first + lane < at.length, zero_fill=True)


@mo.jit
def scores(plan, S, sQ, stages, own, factors):
    """The products of queries and keys of a stage, each times its key's factor, and what its row was divided by."""
    if plan.narrow:
        multiply_widened(plan.mma, S, plan.read_A, sQ, one_of(stages.K, own, plan.K_seen))
    else:
        multiply(plan.mma, S, plan.read_A, sQ, plan.read_B, one_of(stages.K, own, plan.K))
    by_token(plan, S, stages.k_scale, own)
    if plan.scaled:
        rescale(live(plan, S, plan.mma), factors)


@mo.jit
def add_values(plan, acc, S, stages, own):
    """acc += the values of a stage times their weights, each times its value's factor."""
    by_token(plan, S, stages.v_scale, own)
    V = one_of(stages.V, own, plan.V_turned)
    if plan.narrow:
        multiply_further_widened(plan.mma_V, acc, S, V, plan.weights)
    else:
        multiply_further(plan.mma_V, acc, S, plan.read_turned, V)


@mo.jit
def by_token(plan, S, factors, own):
    """Columns times the factors of their keys, if they have any."""
    if factors is not None:
        columns = live(plan, S, plan.mma)                                           # (rows, columns)
        for k in mo.static_range(mo.size(columns, 1)):
            column = columns[:, k]
            column[...] = column * factors[mo.lane_idx() % 4 * 2 + offset(k), own]


@mo.jit
def judge(plan, how, S, where, first):
    """Scores become what the rules make of them, and -inf where a query does not see a key."""
    if how.modified and how.keys > 0:                   # a user's function sees places that there are
        for i in mo.static_range(mo.size(S, 0)):
            query, head = where.row(plan, mo.lane_idx() // 4 + row_offset(i))
            for k in mo.static_range(mo.size(S, 1)):
                key = mo.min(first + mo.lane_idx() % 4 * 2 + offset(k), how.keys - 1)
                S[i, k] = modified(how, S[i, k], mo.min(query, how.queries - 1), key,
                                   Place(query, first, head, where.batch))
    if how.rules.left or first + plan.keys - 1 > how.shift:  # else all queries see all of these keys
        for i in mo.static_range(mo.size(S, 0)):
            query, _ = where.row(plan, mo.lane_idx() // 4 + row_offset(i))
            stands = query + how.shift - first - mo.lane_idx() % 4 * 2
            for k in mo.static_range(mo.size(S, 1)):
                seen = (offset(k) < how.keys - first - mo.lane_idx() % 4 * 2) & (offset(k) <= stands)
                if how.rules.left:
                    seen = seen & (offset(k) >= stands - how.left)
                S[i, k] = mo.where(seen, S[i, k], -math.inf)


@mo.jit
def leave(plan, to, found, where):
    """The rows of a warp."""
    for i in mo.static_range(mo.size(found.acc, 0)):
        row = mo.lane_idx() // 4 + row_offset(i)
        if to.whole:
            query, head = where.row(plan, row)
            if query < where.queries:
                log_sum, factor = with_sink(to.sinks, head, found.log_sum[i], found.factor[i])
                put(plan, to.O[:, head, query, where.batch], found.acc[i, None], factor)
                if to.lse is not None and mo.lane_idx() % 4 == 0:
                    to.lse[query, head, where.batch] = log_sum / LOG2_E
        elif row < plan.used:
            put(plan, to.results[:, row], found.acc[i, None], found.factor[i])
            if mo.lane_idx() % 4 == 0:
                to.log_sums[row] = found.log_sum[i]


@mo.jit
def with_sink(sinks, head, log_sum, factor):
    """(logarithm of the sum with one more score, what a result has to be multiplied by then)."""
    if sinks is None:
        return log_sum, factor
    sink = sinks[head] * LOG2_E
    base = above(mo.max(log_sum, sink), True)
    own = mo.exp2(log_sum - base)
    total = own + mo.exp2(sink - base)
    return mo.where(total == 0.0, -math.inf, base + mo.log2(total)), mo.where(total == 0.0, 0.0, factor * own / total)


@mo.jit
def put(plan, row, columns, factor):
    """A thread's columns of a row, times a factor: runs that lie together, inside of the row or outside."""
    for run in runs_of(plan, mo.size(columns)):
        held = mo.fragment((len(run),), row.dtype)
        for j in mo.static_range(len(run)):
            held[j] = (columns[run[j]] * factor).to(row.dtype)
        put_run(row, held, column_of(plan, run[0]), plan.whole_v or row.dtype == mo.float32)


@mo.jit
def put_run(row, held, d, whole):
    """Columns of a row from number d on; without ``whole`` they may lie outside."""
    if whole or d < mo.size(row):
        mo.copyto(mo.tile(row, (mo.size(held),), (d // mo.size(held),), ragged=True), held)


def runs_of(plan: DecodePlan, count: int) -> Iterator[tuple[int, ...]]:
    """Which of ``count`` columns of a thread lie side by side, of one line or its part that a round has."""
    if plan.each == 1:
        return ((k, k + 1) for k in range(0, count, 2))
    each = min(plan.each, count // 2)
    return (tuple(range(first + side, first + 2 * each, 2)) for first in range(0, count, 2 * each) for side in range(2))


@mo.jit
def column_of(plan, k):
    """Which column of a row is number k of a thread's: in lines of 8 runs, a thread has two of each."""
    return (k // 2 // plan.each * 8 + mo.lane_idx() % 4 * 2 + k % 2) * plan.each + k // 2 % plan.each


# --- warps that share a problem --------------------------------------------------------------------------------------


@mo.jit
def leave_together(plan, to, found, where, queries):
    """The rows of all warps of a block, which had keys of one problem in turn; ``queries`` is free, and is so again.

    Each warp brings its sums to the largest score of all, and adds up those of all for a fourth of its columns.
    """
    warps, rows = mo.shared_array(mo.float32, (plan.rows, WARPS)), mo.size(found.acc, 0)
    for i in mo.static_range(rows):
        if mo.lane_idx() % 4 == 0:
            warps[mo.lane_idx() // 4 + row_offset(i), mo.warp_idx()] = found.log_sum[i]
    mo.sync_threads()                                   # and all have done with their queries
    log_sum, factor = mo.make_fragment_like(found.log_sum), mo.make_fragment_like(found.log_sum)
    for i in mo.static_range(rows):
        row, top, total = mo.lane_idx() // 4 + row_offset(i), mo.float32(-math.inf), mo.float32(0)
        for w in mo.static_range(WARPS):
            top = mo.max(top, warps[row, w])
        base = above(top, True)
        for w in mo.static_range(WARPS):
            total += mo.exp2(warps[row, w] - base)
        log_sum[i] = mo.where(total == 0.0, -math.inf, base + mo.log2(total))
        factor[i] = mo.where(total == 0.0, 0.0, found.factor[i] * mo.exp2(found.log_sum[i] - base) / total)
        if to.whole:
            log_sum[i], factor[i] = with_sink(to.sinks, where.row(plan, row)[1], log_sum[i], factor[i])
    rescale(found.acc, factor)
    for i in mo.static_range(rows):
        row = mo.lane_idx() // 4 + row_offset(i)
        if (mo.warp_idx() == 0) & (mo.lane_idx() % 4 == 0):
            put_log_sum(plan, to, log_sum[i], where, row)
    count, room = mo.size(found.acc, 1) // plan.rounds, mo.recast(queries, mo.float32).with_layout(plan.room)
    for r in mo.static_range(plan.rounds):
        for i in mo.static_range(rows):
            for run in runs_of(plan, count):
                held = mo.fragment((len(run),), mo.float32)
                for j in mo.static_range(len(run)):
                    held[j] = found.acc[i, r * count + run[j]]
                mo.copyto(run_in(room[:, :, mo.warp_idx()], len(run), mo.lane_idx() // 4 + row_offset(i),
                                 place_of(plan, run[0])), held)
        mo.sync_threads()
        add_up(plan, to, room, where, r)
        mo.sync_threads()                               # who goes on writes to this memory


@mo.jit
def put_log_sum(plan, to, log_sum, where, row):
    """The logarithm of the sum of a row."""
    query, head = where.row(plan, row)
    if to.whole:
        if to.lse is not None and query < where.queries:
            to.lse[query, head, where.batch] = log_sum / LOG2_E
    elif row < plan.used:
        to.log_sums[row] = log_sum


@mo.jit
def add_up(plan, to, room, where, r):
    """What all warps have of the columns of round r (rows, columns, warps), by the whole block."""
    across = mo.size(room, 1) // _TOGETHER              # runs of a row
    for x in mo.range(mo.thread_idx().x, plan.used * across, WARPS * 32, unroll=2):
        row, u, total = x // across, x % across * _TOGETHER, mo.fragment((_TOGETHER,), mo.float32)
        total.fill(0)
        for w in mo.static_range(WARPS):
            held = mo.fragment((_TOGETHER,), mo.float32)
            mo.copyto(held, run_in(room[:, :, w], _TOGETHER, row, u))
            total[...] = total + held
        d = behind(plan, u, r)
        if to.whole:
            query, head = where.row(plan, row)
            if query < where.queries:
                put_run(to.O[:, head, query, where.batch], total.to(to.O.dtype), d, plan.whole_v)
        else:
            put_run(to.results[:, row], total, d, True)


def _part(plan: DecodePlan) -> int:
    """Columns of a run of a thread that a round has."""
    return min(plan.each, plan.dim_v // plan.rounds // 8)


@mo.jit
def place_of(plan, k):
    """Where in a round's row number k of a thread's columns of the round stands."""
    part = _part(plan)
    return (k // 2 // part * 8 + mo.lane_idx() % 4 * 2 + k % 2) * part + k // 2 % part


@mo.jit
def behind(plan, u, r):
    """Which column of a row stands at place u of round r."""
    part, width = _part(plan), plan.dim_v // plan.rounds
    if part == plan.each:
        return r * width + u
    line = 8 * plan.each
    return r * width // line * line + u // part * plan.each + r * width % line // 8 + u % part
