"""Attention forward on sm_90a: one warp loads, warpgroups of 64 queries multiply and exponentiate.

In: TMA copies of Q (queries, dim, heads, batch), K, V (dim_v, keys, ...), O; the scores' rules; a ``ForwardPlan``.
Out: O, and the logarithm of each row's sum of exponentials.

A warpgroup begins the scores of the next keys, and the product of the exponentials before with V, and only then waits
for the scores: the softmax of the one runs beside the product of the other.  So do the first scores of the next tile
and the last product of this one.  Sources: Dao: FlashAttention-2 (2023); Shah et al.: FlashAttention-3 (2024), for the
roles and the overlap within a warpgroup.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import (
    LOG2_E,
    Place,
    Scores,
    factor_of,
    key_tiles,
    mask,
    modify,
    pairs_of_biases,
    positive,
    promise_pairs,
)
from moye.kernels.attention.parts.softmax import finished, grew, online, rescale, row_state
from moye.kernels.attention.sm90.config import GROUP
from moye.kernels.attention.sm90.sections import in_sections
from moye.kernels.attention.sm90.sequences import (
    Sequences,
    place_of_slot,
    rows_of,
    rules_of,
    slots,
    store_rows,
)
from moye.kernels.attention.sm90.turned import turned_begin
from moye.kernels.attention.sm90.turns import first_turn, last_turn, pass_turn, take_turn

OWN = 1
"""Named barriers: OWN + g is where the four warps of warpgroup g meet."""


@mo.kernel
def attention_sm90_kernel(Q, K, V, O, rows_O, lse, offsets_Q, offsets_K, counter, section, scale, softcap, left, right,
                          bias, slopes, sinks, tensors, factors, plan: mo.Constexpr):
    """Tiles of bM queries of one head, block after block of a persistent grid.

    With offsets, sequences lie one behind the other, and rows_O is O as it is.  ``section``: None, or of how many heads
    the longest tiles come first.  ``factors``: of queries, keys and values.
    """
    config = plan.config
    mo.min_blocks(config.blocks)
    if plan.rules.pairs:
        promise_pairs(bias)
    how = Scores(plan.rules, mo.size(Q.tensor, 0), mo.size(K.tensor, 0), scale, softcap, left, right, bias, slopes,
                 tensors)
    parts = Sequences(how, offsets_Q, offsets_K, section, factors)
    sQ = mo.shared_array(plan.dtype, plan.staged(plan.Q, config.q_stages))          # (bM, dim, q_stages)
    sK = mo.shared_array(plan.dtype, plan.staged(plan.K, config.stages))            # (bN, dim, stages)
    sV = mo.shared_array(plan.dtype, plan.staged(plan.V, config.stages))            # (dim_v, bN, stages)
    sO = mo.shared_array(plan.out, plan.staged(plan.O, config.groups)) if plan.narrow else None
    pipes = Pipes(mo.PipelineTma(config.q_stages, Q.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages, K.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages, V.bytes, consumers=config.groups))
    tiles = schedule(plan, parts, counter, mo.size(Q.tensor, 2), mo.size(Q.tensor, 3))
    pipes.Q.init()
    pipes.K.init()
    pipes.V.init()
    if config.dynamic:
        tiles.init()
    mo.sync_threads()
    if plan.narrow:                                     # the launch before turns the values
        mo.griddepcontrol_wait()
    if mo.warpgroup_idx() == config.groups:
        mo.warpgroup_reg_dealloc(config.registers[0])
        if mo.thread_idx().x == config.groups * GROUP:
            produce(plan, parts, (Q, K, V), (sQ, sK, sV), pipes, tiles)
    else:
        mo.warpgroup_reg_alloc(config.registers[1])
        consume(plan, parts, (O, rows_O), lse, sinks, (sQ, sK, sV, sO), pipes, tiles)


@dataclass(frozen=True, slots=True)
class Pipes:
    """The rings of stages of queries, of keys and of values."""

    Q: Any
    K: Any
    V: Any


@mo.jit
def scaled_rules(plan, parts, head, batch):
    """The same, with the scale of a head."""
    how, (factor_Q, factor_K, _) = rules_of(parts, batch), parts.factors
    if factor_Q is None and factor_K is None:
        return how
    return replace(how, scale=positive(how.scale * factor_of(factor_Q, head, batch)
                                       * factor_of(factor_K, head // plan.heads_of_a_key, batch)))


@mo.jit
def fold_of(how, work):
    """What exponents have of a score."""
    return how.fold if work.fold is None else work.fold


@mo.jit
def factor_of_values(plan, parts, head, batch):
    """What the results of a head are multiplied by, or None."""
    factors = parts.factors[2]
    return None if factors is None else factor_of(factors, head // plan.heads_of_a_key, batch)


@mo.jit
def scaled(factor, times):
    """The factors of rows, each times a number."""
    factor[...] = factor * times
    return factor


@mo.jit
def values_of(plan, V, offsets, batch):
    """The same for V; of 8 bits, sequences begin at ``turned_begin``."""
    if offsets is None or not plan.narrow:
        return rows_of(V, offsets, batch, 1)
    return mo.domain_offset((0, turned_begin(offsets[batch], batch), 0, 0), V), 0


# --- which tiles -----------------------------------------------------------------------------------------------------


@mo.jit
def schedule(plan, parts, counter, heads, batch):
    """The tiles of all heads: numbers in turn, or from a counter where they differ in work."""
    m_tiles = mo.ceil_div(parts.how.queries, plan.config.bM)
    if parts.offsets_Q is not None:
        m_tiles = slots(parts.how.queries, mo.size(parts.offsets_Q) - 1, plan.config.bM)
    if plan.config.dynamic:
        return mo.DynamicTileScheduler(counter, m_tiles, heads, batch, consumers=plan.config.groups * GROUP)
    return mo.PersistentTileScheduler(m_tiles, heads, batch)


@mo.jit
def place_of(plan, parts, tiles, tile):
    """(tile of queries, head, batch).  Neighbours share keys and values.

    Where tiles differ in work, those that may see the most keys come first: with ``right``, and of sequences, those of
    the last queries.  Otherwise these come last, of which some warpgroups may have none.
    """
    m_tiles, heads, batch = tiles.tiles_m, tiles.tiles_n, tiles.batches
    if parts.section is None:
        return tile % m_tiles, tile // m_tiles % heads, tile // (m_tiles * heads)
    i, head = in_sections(tile, parts.section, m_tiles, heads * batch)
    if parts.offsets_Q is not None:
        m, sequence = place_of_slot(parts.offsets_Q, plan.config.bM, m_tiles - 1 - i)
        return m, head, sequence
    return m_tiles - 1 - i if plan.rules.right else i, head % heads, head // heads


@mo.jit
def has_queries(plan, parts, place):
    """Whether there are queries in a tile: some numbers of sequences stand for none."""
    if parts.offsets_Q is None:
        return True
    m, _, batch = place
    return m * plan.config.bM < parts.offsets_Q[batch + 1] - parts.offsets_Q[batch]


# --- the thread that loads -------------------------------------------------------------------------------------------


@mo.jit
def produce(plan, parts, copies, stages, pipes, tiles):
    """Queries of a tile, then its keys and values from the last to the first; keys come a tile ahead of values.

    The number of the next tile, and its queries, come before this one's last values: nobody has to wait for them.
    What the loops carry is how many were loaded of each: a register where a stage and its phase are two.
    """
    dealt, queries, values = mo.int32(0), mo.int32(0), mo.int32(0)
    tile, dealt = number_of(plan, tiles, tiles.first, dealt)
    queries = load_queries(plan, parts, copies[0], stages[0], pipes.Q, queries, tiles, tile)
    while tile < tiles.tiles:
        place = place_of(plan, parts, tiles, tile)
        some = has_queries(plan, parts, place)
        if some:
            values = load_keys(plan, parts, copies, stages, pipes, values, place)
        tile, dealt = number_of(plan, tiles, tile + tiles.step, dealt)
        if plan.config.q_stages > 1:
            queries = load_queries(plan, parts, copies[0], stages[0], pipes.Q, queries, tiles, tile)
        if some:
            values = load_first_values(plan, parts, copies[2], stages[2], pipes.V, values, place)
        if plan.config.q_stages == 1:                   # their stage is free when this tile is done
            queries = load_queries(plan, parts, copies[0], stages[0], pipes.Q, queries, tiles, tile)


@mo.jit
def number_of(plan, tiles, tile, dealt):
    """The number of a tile to be loaded: this one, or what the counter says, and how many it has said."""
    if plan.config.dynamic:
        return tiles.fetch(tiles.producer_start().advance(dealt)), dealt + 1
    return tile, dealt


@mo.jit
def load_queries(plan, parts, Q, sQ, pipe, count, tiles, tile):
    """The queries of a tile, if there are any."""
    if tile < tiles.tiles:
        m, head, batch = place_of(plan, parts, tiles, tile)
        if has_queries(plan, parts, (m, head, batch)):
            tQ, own = rows_of(Q.tensor, parts.offsets_Q, batch)
            gQ = mo.tile(tQ, (plan.config.bM, plan.dim, 1, 1), (m, 0, head, own))               # (bM, dim, 1, 1)
            load(Q, sQ, gQ, pipe, count)
            count += 1
    return count


@mo.jit
def load_keys(plan, parts, copies, stages, pipes, count, place):
    """All keys that a tile of queries sees, and their values but for the first tile of them."""
    (_, K, V), (_, sK, sV), (m, head, batch) = copies, stages, place
    config, head_K = plan.config, head // plan.heads_of_a_key
    (tK, own), (tV, _) = rows_of(K.tensor, parts.offsets_K, batch), values_of(plan, V.tensor, parts.offsets_K, batch)
    least, most, _, _ = key_tiles(rules_of(parts, batch), m * config.bM, config.bM, config.bN)
    gK = mo.tile(tK, (config.bN, plan.dim, 1, 1), (None, 0, head_K, own))                       # (bN, dim, 1, 1, n)
    gV = mo.tile(tV, (plan.dim_v, config.bN, 1, 1), (0, None, head_K, own))                     # (dim_v, bN, 1, 1, n)
    load(K, sK, gK[:, :, :, :, most - 1], pipes.K, count)
    for i in range(1, most - least):
        load(K, sK, gK[:, :, :, :, most - 1 - i], pipes.K, count + 1)
        load(V, sV, gV[:, :, :, :, most - i], pipes.V, count)
        count += 1
    return count


@mo.jit
def load_first_values(plan, parts, V, sV, pipe, count, place):
    """The first of the values that a tile of queries sees, which are its last to come."""
    m, head, batch = place
    tV, own = values_of(plan, V.tensor, parts.offsets_K, batch)
    gV = mo.tile(tV, (plan.dim_v, plan.config.bN, 1, 1),
                 (0, None, head // plan.heads_of_a_key, own))                                   # (dim_v, bN, 1, 1, n)
    least, _, _, _ = key_tiles(rules_of(parts, batch), m * plan.config.bM, plan.config.bM, plan.config.bN)
    load(V, sV, gV[:, :, :, :, least], pipe, count)
    return count + 1


@mo.jit
def load(X, sX, gX, pipe, count):
    """A tile into the stage after ``count`` others."""
    state = pipe.producer_start().advance(count)
    pipe.producer_acquire(state)
    mo.copyto(X, sX[:, :, state.stage], gX, barrier=pipe.barrier(state))


# --- the warpgroups that multiply ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """A warpgroup's operands, registers and pipelines; ``fold`` is None where each head has its own."""

    pipes: Any
    tQ: Any
    tK: Any
    tV: Any
    S: Any
    P: Any
    O: Any
    rows: Any
    fold: Any


@mo.jit
def consume(plan, parts, O, lse, sinks, stages, pipes, tiles):
    """A warpgroup's 64 queries of tile after tile."""
    sQ, sK, sV, sO = stages
    group, config = mo.warpgroup_idx(), plan.config
    thr_S, thr_O = plan.scores.get_slice(mo.thread_idx().x % GROUP), plan.output.get_slice(mo.thread_idx().x % GROUP)
    S = plan.scores.partition_fragment_C((64, config.bN))                           # ((2,2,bN/8), 1, 1)
    work = Work(pipes, thr_S.partition_fragment_A(mo.tile(sQ, (64, plan.dim), (group, 0))),
                thr_S.partition_fragment_B(sK), thr_O.partition_fragment_B(sV),     # (MMA, 1, MMA_K, stages)
                S, operand(plan, S), plan.output.partition_fragment_C((64, plan.dim_v)), row_state(2),
                parts.how.fold if parts.factors[0] is None and parts.factors[1] is None else None)
    at = pipes.Q.consumer_start(), pipes.K.consumer_start(), pipes.V.consumer_start()
    first_turn(plan)
    tile, dealt = first_tile(plan, parts, tiles)
    place = place_of(plan, parts, tiles, tile)
    begun = config.q_stages > 1                         # whether a tile's first scores are there when it begins
    if plan.lacking:
        begun = mo.bool(False)                          # not behind one that was passed by
    elif begun and tile < tiles.tiles:
        at = begin(plan, scaled_rules(plan, parts, place[1], place[2]), work, at, place)
    while tile < tiles.tiles:
        here = place
        if has_rows(plan, parts, here):
            how = scaled_rules(plan, parts, here[1], here[2])
            if not begun:
                at = begin(plan, how, work, at, here)
            at = steps(plan, how, work, at, here)
            start_values(plan, work, at[2])
            results = results_of(plan, parts, work, how, O, lse, sinks, (sQ[:, :, at[0].stage], sO), here)
            tile, dealt = next_tile(plan, parts, tiles, tile, dealt)
            place = place_of(plan, parts, tiles, tile)
            ahead = config.q_stages > 1 and (tile < tiles.tiles) & has_rows(plan, parts, place)
            at = end(plan, parts, work, at, results, here, place, ahead)
            if plan.lacking:
                begun = ahead
        else:
            at = pass_by(plan, parts.how, work, at, here)
            tile, dealt = next_tile(plan, parts, tiles, tile, dealt)
            place = place_of(plan, parts, tiles, tile)
    last_turn(plan)


@mo.jit
def has_rows(plan, parts, place):
    """Whether any of the warpgroup's rows is a query: the last tile may end behind the last one."""
    if not plan.lacking:
        return True
    return first_row(plan, place) < parts.how.queries


@mo.jit
def first_row(plan, place):
    """The warpgroup's first row of a tile."""
    return place[0] * plan.config.bM + 64 * mo.warpgroup_idx()


@mo.jit
def results_of(plan, parts, work, how, O, lse, sinks, room, place):
    """Where the results of a tile go, and what they are multiplied by, when its last exponentials are there."""
    _, head, batch = place
    times = factor_of_values(plan, parts, head, batch)
    factor, log_sum = finished(work.rows, fold_of(how, work), None if sinks is None else sinks[head] * LOG2_E,
                               plan.lift)
    return Results(O, lse, room, factor if times is None else scaled(factor, times), log_sum)


@mo.jit
def first_tile(plan, parts, tiles):
    """The number of the block's first tile that has queries, and where the next is told."""
    if plan.config.dynamic:
        dealt = tiles.consumer_start()
        return onward(plan, parts, tiles, mo.shuffle_idx(tiles.take(dealt), 0), dealt.next())
    return onward(plan, parts, tiles, tiles.first, 0)


@mo.jit
def next_tile(plan, parts, tiles, tile, dealt):
    """The number of the next tile that has queries."""
    if plan.config.dynamic:
        return onward(plan, parts, tiles, mo.shuffle_idx(tiles.take(dealt), 0), dealt.next())
    return onward(plan, parts, tiles, tile + tiles.step, dealt)


@mo.jit
def onward(plan, parts, tiles, tile, dealt):
    """This tile, or the next that has queries."""
    if parts.offsets_Q is not None:
        tile = mo.int32(tile)
        last = tiles.tiles - 1
        while (tile <= last) & ~has_queries(plan, parts, place_of(plan, parts, tiles, mo.min(tile, last))):
            if plan.config.dynamic:
                tile = mo.shuffle_idx(tiles.take(dealt), 0)
                dealt = dealt.next()
            else:
                tile += tiles.step
    return tile, dealt


@mo.jit
def begin(plan, how, work, at, place):
    """The first scores of a tile, with nothing beside them."""
    at_Q, at_K, at_V = at
    work.pipes.Q.consumer_wait(at_Q)
    at_K = leave_out(work.pipes.K, at_K, unseen_before(plan, how, place))
    work.pipes.K.consumer_wait(at_K)
    start_scores(plan, work, at_Q, at_K)
    biases = first_biases(plan, how, place)
    mo.warpgroup_wait(0)
    release(work.pipes.K, at_K)
    at_V = leave_out(work.pipes.V, at_V, unseen_before(plan, how, place))
    first_softmax(plan, how, work, place, biases)
    round_up(plan, work)
    work.O.fill(0)
    return at_Q, at_K.next(), at_V


@mo.jit
def end(plan, parts, work, at, results, here, place, ahead):
    """The last product of a tile, and its results leave; ``ahead``: beside the first scores of the next one."""
    at_Q, at_K, at_V = at
    if ahead:
        at_K, at_V = change(plan, parts, work, at, results, here, place)
    else:
        values_done(plan, work, at_V)
        at_V = leave_out(work.pipes.V, at_V.next(), unseen_behind(plan, rules_of(parts, here[2]), here))
        put(plan, parts, work, results, here)
    queries_done(work, at_Q)
    if plan.config.q_stages > 1:
        round_up(plan, work)
        work.O.fill(0)
    return at_Q.next(), at_K, at_V


@mo.jit
def change(plan, parts, work, at, results, here, place):
    """From one tile to the next, whose first scores are computed while the results of this one leave."""
    (at_Q, at_K, at_V), how = at, scaled_rules(plan, parts, place[1], place[2])
    work.pipes.Q.consumer_wait(at_Q.next())
    at_K = leave_out(work.pipes.K, at_K, unseen_before(plan, how, place))
    work.pipes.K.consumer_wait(at_K)
    start_scores(plan, work, at_Q.next(), at_K)
    values_done(plan, work, at_V, 1)
    at_V = leave_out(work.pipes.V, at_V.next(), unseen_behind(plan, rules_of(parts, here[2]), here))
    at_V = leave_out(work.pipes.V, at_V, unseen_before(plan, how, place))
    put(plan, parts, work, results, here)
    biases = first_biases(plan, how, place)
    mo.warpgroup_wait(0)
    release(work.pipes.K, at_K)
    first_softmax(plan, how, work, place, biases)
    return at_K.next(), at_V


@mo.jit
def first_biases(plan, how, place):
    """The biases of a tile's last keys."""
    _, most, _, _ = own_key_tiles(plan, how, place)
    return biases_of(plan, how, place, most - 1, plan.rules.ragged)


@mo.jit
def first_softmax(plan, how, work, place, biases):
    """The softmax of a tile's last keys, the first to be done: the only ones that may end beyond all keys."""
    _, most, _, _ = own_key_tiles(plan, how, place)
    judge(plan, how, work, place, most - 1, plan.rules.masks, biases)
    online(work.rows, mo.mn_view(work.S, plan.scores), fold_of(how, work), True, plan.rules.windowed or how.empties,
           plan.lift)


@mo.jit
def steps(plan, how, work, at, place):
    """All further keys of a tile: those that some rows do not see, those that all see, those behind the window."""
    least, most, low, high = own_key_tiles(plan, how, place)
    if plan.rules.right:
        for n in range(most - 2, high - 1, -1):
            at = step(plan, how, work, at, place, n, True)
    for n in range(high - 1, low - 1, -1):
        at = step(plan, how, work, at, place, n, False)
    if plan.rules.left:
        for n in range(low - 1, least - 1, -1):
            at = step(plan, how, work, at, place, n, True)
    return at[0], leave_out(work.pipes.K, at[1], unseen_behind(plan, how, place)), at[2]


@mo.jit
def step(plan, how, work, at, place, n, masked):
    """One more tile of keys: its scores, and the exponentials before times their values."""
    at_Q, at_K, at_V = at
    start_both(plan, work, at)
    biases = biases_of(plan, how, place, n, False)
    mo.warpgroup_wait(1)
    release(work.pipes.K, at_K)
    judge(plan, how, work, place, n, masked, biases)
    online(work.rows, mo.mn_view(work.S, plan.scores), fold_of(how, work), False, masked or how.empties, plan.lift)
    values_done(plan, work, at_V)
    round_up(plan, work)
    if grew(work.rows):
        rescale(mo.mn_view(work.O, plan.output), work.rows.shrink)
    return at_Q, at_K.next(), at_V.next()


# --- keys that others see --------------------------------------------------------------------------------------------


@mo.jit
def own_key_tiles(plan, how, place):
    """The tiles of keys that the warpgroup's own rows see, as ``key_tiles`` has them; or those of all warpgroups."""
    if plan.config.apart:
        return key_tiles(how, first_row(plan, place), 64, plan.config.bN)
    return key_tiles(how, place[0] * plan.config.bM, plan.config.bM, plan.config.bN)


@mo.jit
def unseen_before(plan, how, place):
    """How many tiles of keys, 0 or 1, other warpgroups see before this one's: those beyond the diagonal."""
    if not (plan.config.apart and plan.rules.right):
        return 0
    _, most, _, _ = key_tiles(how, place[0] * plan.config.bM, plan.config.bM, plan.config.bN)
    return most - own_key_tiles(plan, how, place)[1]


@mo.jit
def unseen_behind(plan, how, place):
    """How many tiles of keys, 0 or 1, other warpgroups see after this one's: those at the window's left edge."""
    if not (plan.config.apart and plan.rules.left):
        return 0
    least, _, _, _ = key_tiles(how, place[0] * plan.config.bM, plan.config.bM, plan.config.bN)
    return own_key_tiles(plan, how, place)[0] - least


@mo.jit
def leave_out(pipe, state, count):
    """The warpgroup does without the next ``count`` stages."""
    for _ in range(count):
        pipe.consumer_wait(state)                       # a release counts for the load before, if it comes too early
        mo.barrier_sync(OWN + mo.warpgroup_idx(), GROUP)        # and a wait that comes after the next load is too late
        release(pipe, state)
        state = state.next()
    return state


@mo.jit
def pass_by(plan, how, work, at, place):
    """A tile of which the warpgroup has no queries."""
    at_Q, at_K, at_V = at
    least, most, _, _ = key_tiles(how, place[0] * plan.config.bM, plan.config.bM, plan.config.bN)
    at_Q = leave_out(work.pipes.Q, at_Q, 1)
    for n in range(least, most):
        if n > least:                                   # before the waits: others multiply in their turns
            take_turn(plan)
            pass_turn(plan)
        at_K, at_V = leave_out(work.pipes.K, at_K, 1), leave_out(work.pipes.V, at_V, 1)
    return at_Q, at_K, at_V


@mo.jit
def start_both(plan, work, at):
    """Begin the next scores and the product with values, in the warpgroup's turn."""
    at_Q, at_K, at_V = at
    work.pipes.K.consumer_wait(at_K)
    take_turn(plan)
    start_scores(plan, work, at_Q, at_K)
    start_values(plan, work, at_V)
    pass_turn(plan)


@mo.jit
def start_scores(plan, work, at_Q, at_K):
    """Begin the product of queries and keys."""
    mo.warpgroup_arrive()
    mo.gemm(plan.scores, work.tQ[:, :, :, at_Q.stage], work.tK[:, :, :, at_K.stage], work.S, accumulate=False)
    mo.warpgroup_commit_batch()


@mo.jit
def start_values(plan, work, at_V):
    """Begin the product of exponentials and values."""
    work.pipes.V.consumer_wait(at_V)
    mo.warpgroup_arrive()
    mo.gemm(plan.output, work.P, work.tV[:, :, :, at_V.stage], work.O)
    mo.warpgroup_commit_batch()


@mo.jit
def values_done(plan, work, at_V, pending=0):
    """The product with values is done, all but ``pending`` are, and their stage is free."""
    mo.warpgroup_wait(pending)
    release(work.pipes.V, at_V)


@mo.jit
def queries_done(work, at_Q):
    """The results have left by way of the queries' shared memory, and its stage is free."""
    if mo.thread_idx().x % GROUP == 0:
        mo.tma_store_wait(0)
        work.pipes.Q.consumer_release(at_Q)


@mo.jit
def corner(plan, place, n):
    """Where a thread's scores lie."""
    (m, head, batch), thread = place, mo.thread_idx().x
    return Place(m * plan.config.bM + thread // 32 * 16 + thread % 32 // 4, n * plan.config.bN + thread % 4 * 2,
                 head, batch)


@mo.jit
def biases_of(plan, how, place, n, ends):
    """The biases of a tile of keys, on their way while the scores are computed, if they come in pairs."""
    if how.rules.pairs:
        return pairs_of_biases(how, corner(plan, place, n), 2, plan.config.bN // 4, ends)
    return None


@mo.jit
def judge(plan, how, work, place, n, masked, biases):
    """Scores become what the rules make of them."""
    if how.modified or masked:
        rows, at = mo.mn_view(work.S, plan.scores), corner(plan, place, n)
        if how.modified:
            modify(how, rows, at, together(plan, how), biases)
        if masked:
            mask(how, rows, at)


@mo.jit
def together(plan, how):
    """How many columns of scores are changed before the next ones begin; None: in any order.

    Three warpgroups have 160 registers a thread, of which few are left for scores on their way.
    """
    if plan.config.groups < 3:
        return None
    return 8 if how.rules.softcap or how.bias is not None else plan.config.bN


@mo.jit
def operand(plan, S):
    """Registers for the exponentials of S as operand A, (MMA, 1, MMA_K)."""
    if plan.narrow:
        return mo.fragment(((4, 2, 2), 1, plan.config.bN // 32), plan.dtype)
    return mo.make_fragment_like(mo.accumulators_as_A(S.to(plan.dtype), plan.scores, plan.output))


@mo.jit
def round_up(plan, work):
    """The exponentials become the operand of the next product."""
    if plan.narrow:
        lined = mo.fragment(mo.shape(work.P), mo.float32)                           # (MMA, 1, MMA_K)
        lined.with_layout(plan.places)[...] = work.S
        work.P[...] = lined.to(plan.dtype)
    else:
        work.P[...] = mo.accumulators_as_A(work.S.to(plan.dtype), plan.scores, plan.output)


@dataclass(frozen=True, slots=True)
class Results:
    """Where the results of a tile go, by way of which shared memory; the factors of its rows, logarithms of sums."""

    O: Any
    lse: Any
    room: Any
    factor: Any
    log_sum: Any


@mo.jit
def put(plan, parts, work, results, place):
    """The warpgroup's rows of O and of the logarithms of their sums; TMA may still read them afterwards."""
    (m, head, batch), lse = place, results.lse
    tid, begin, own = mo.thread_idx().x % GROUP, 0, batch
    row, how = m * plan.config.bM + mo.thread_idx().x // 32 * 16 + tid % 32 // 4, rules_of(parts, batch)
    if parts.offsets_Q is not None:
        begin, own = parts.offsets_Q[batch], 0
    rescale(mo.mn_view(work.O, plan.output), results.factor)
    store(plan, results.O, results.room, work.O, (m, head, own), (begin, how.queries))
    if lse is not None and tid % 4 == 0:
        for i in mo.static_range(2):
            if row + 8 * i < how.queries:
                lse[begin + row + 8 * i, head, own] = results.log_sum[i] / LOG2_E


@mo.jit
def store(plan, O, room, acc, place, rows):
    """The warpgroup's rows of O, by way of the shared memory of its queries, which nobody needs any more, or of sO."""
    (m, head, batch), (sQ, sO), (O, rows_O), (begin, queries) = place, room, O, rows
    tid, group = mo.thread_idx().x % GROUP, mo.warpgroup_idx()
    thr_store, slab = plan.store.get_slice(tid), m * plan.config.groups + group
    if plan.narrow:
        own = sO[:, :, group]                                                       # (64, dim_v)
        mo.barrier_sync(OWN + group, GROUP)             # thread 0 has waited for the store before
    else:
        own = mo.tile(sQ, (64, plan.dim), (group, 0)).with_layout(plan.O)           # (64, dim_v), its first columns
    mo.copyto(plan.store, thr_store.partition_D(own), thr_store.retile_S(acc.to(plan.out)))
    mo.fence_proxy_async()                              # what this thread wrote is visible to TMA
    mo.barrier_sync(OWN + group, GROUP)
    if rows_O is not None and 64 * slab + 64 > queries:
        store_rows(rows_O, own, (begin + 64 * slab, begin + queries), (0, head), GROUP)
        mo.barrier_sync(OWN + group, GROUP)             # before thread 0 releases the queries' stage
    elif tid == 0:
        tile = mo.domain_offset((begin, 0, 0, 0), O.tensor) if rows_O is not None else O.tensor
        mo.copyto(O, mo.tile(tile, (64, plan.dim_v, 1, 1), (slab, 0, head, batch)), own)
        mo.tma_store_arrive()


@mo.jit
def release(pipe, state):
    """The warpgroup has read a stage."""
    if mo.thread_idx().x % GROUP == 0:
        pipe.consumer_release(state)
