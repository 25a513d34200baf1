"""Gradients of attention on sm_90a: a block has some keys and values, and goes through the queries that see them.

In: TMA copies of Q, K, V, dO and of the gradients (rows, dim, heads, batch); two numbers of each query; a
``GradientPlan``.  Out: dK and dV; dQ in float32, added up in memory by all blocks, which ``queries_kernel`` rounds.

Scores are computed turned round, keys by queries: so a warpgroup owns its 64 keys, and weights and gradients of scores
are operand A, in registers, of the sums for dV and dK.  Gradients of scores also go to shared memory, where both
warpgroups multiply all of them with the keys.  The next queries' scores and the last product with queries run beside
the store of dQ.  Beyond 128 dimensions of a head, the sums for dV and dK of 64 keys fill the registers of both: they
share the keys, each has half of the dimensions, and both compute all scores, 7 products for 5.  Sources: Dao:
FlashAttention-2 (2023), section 3.1; Shah et al.: FlashAttention-3 (2024), for the roles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import (
    LOG2_E,
    Place,
    Scores,
    bend_of,
    mask_turned,
    modified,
    offset,
    query_tiles,
    row_offset,
    whole_from,
)
from moye.kernels.attention.sm90.config import GROUP
from moye.kernels.attention.sm90.sequences import (
    Sequences,
    place_of_slot,
    rows_of,
    rules_of,
    slot_of,
    store_rows,
)

MEET, FULL, EMPTY = 1, 2, 4
"""Named barriers: where the warpgroups meet; those by which warpgroup g and the warp that stores its dQ take turns."""
PIECE = 64 * 64
"""Sums of dQ of a warpgroup."""


# --- what each query has ---------------------------------------------------------------------------------------------


@mo.kernel
def numbers_kernel(numbers, sums, turns, O, dO, lse, offsets, plan: mo.Constexpr):
    """numbers (2 bM, tiles): the logarithms (of 2) of the sums of bM queries, and their sums over the head dimension
    of O dO, each (queries, dim_v, heads, batch); sums (bM width, tiles) of dQ begin at 0, and so do turns (tiles).

    Queries beyond the last one, and those that see no key, have an infinite sum, so that all of their weights are 0.
    """
    mo.griddepcontrol_launch_dependents()
    m, head, batch = place_here(plan, offsets)
    begin, queries, own = rows_here(O, offsets, batch)
    gN = mo.tile(numbers, (plan.config.bM, 1), (None, None))                        # (bM, 1, 2, tiles)
    gS = mo.tile(sums, (plan.config.bM * plan.width, 1), (0, None))                 # (bM width, 1, tiles)
    if m * plan.config.bM < queries:
        number = number_of(plan, offsets, queries, mo.size(O, 2), (m, head, batch))
        tile_numbers(plan, gN[:, :, :, number], (O, dO, lse),
                     (begin, m * plan.config.bM, queries), (head, own))
        clear(gS[:, 0, number], turns, number)


@mo.jit
def clear(sums, turns, number):
    """Sums of dQ of a tile of queries, and who is to add to them, are 0."""
    nothing = mo.fragment((4,), mo.float32)
    nothing.fill(0)
    for i in range(mo.thread_idx().x, mo.size(sums) // 4, mo.block_dim().x):
        mo.copyto(mo.UniversalCopy(mo.uint128), mo.tile(sums, (4,), (i,)), nothing)
    if turns is not None and mo.thread_idx().x == 0:
        turns[number] = 0


@mo.jit
def place_here(plan, offsets):
    """(tile of queries, head, batch or sequence) of the block."""
    m, head, batch = mo.block_idx()
    if offsets is not None:
        m, batch = place_of_slot(offsets, plan.config.bM, m)
    return m, head, batch


@mo.jit
def rows_here(X, offsets, batch):
    """Of X (rows, ..., batch): where a sequence begins, how many rows it has, and its batch."""
    if offsets is None:
        return 0, mo.size(X, 0), batch
    return offsets[batch], offsets[batch + 1] - offsets[batch], 0


@mo.jit
def number_of(plan, offsets, queries, heads, place):
    """The number of a tile of queries among all: sequences have tiles of their own."""
    m, head, batch = place
    if offsets is None:
        return (batch * heads + head) * mo.ceil_div(queries, plan.config.bM) + m
    return slot_of(offsets, plan.config.bM, (m, batch)) * heads + head


@mo.jit
def tile_numbers(plan, gN, arrays, rows, place):
    """The numbers (bM, 1, 2) of one tile of queries."""
    (O, dO, lse), (begin, first_row, queries), (head, batch), lanes = arrays, rows, place, plan.width // 8
    tid, dim = mo.thread_idx().x, mo.size(O, 1)
    mo.assume(dim % 8 == 0)
    mo.assume(mo.size(dO, 1) % 8 == 0)
    for first in range(0, plan.config.bM, mo.block_dim().x // lanes):
        own = first + tid // lanes
        row, column, total = first_row + own, tid % lanes * 8, mo.float32(0)
        if (row < queries) & (column < dim):
            a, b = mo.fragment((8,), O.dtype), mo.fragment((8,), O.dtype)
            for part, x in ((a, O), (b, dO)):
                line = mo.tile(x[begin + row, :, head, batch], (8,), (tid % lanes,))
                mo.copyto(mo.UniversalCopy(mo.uint128), part, line)
            total = (a.to(mo.float32) * b.to(mo.float32)).reduce("add")
        total = mo.warp_reduce(total, "add", lanes)
        if tid % lanes == 0:
            log_sum = mo.float32(float("inf"))
            if row < queries:
                found = lse[begin + row, head, batch] * LOG2_E
                log_sum = mo.where(found == -float("inf"), float("inf"), found)
            gN[own, 0, 0], gN[own, 0, 1] = log_sum, total


# --- the gradients of keys and values, and parts of those of queries -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """The TMA copies of what is loaded and stored, and each query's numbers."""

    Q: Any
    K: Any
    V: Any
    dO: Any
    dK: Any
    dV: Any
    numbers: Any


@dataclass(frozen=True, slots=True)
class Stages:
    """Shared memory: keys and values, rings of queries, gradients of results and numbers, gradients of scores, dQ."""

    K: Any
    V: Any
    Q: Any
    dO: Any
    numbers: Any
    dS: Any
    dQ: Any


@dataclass(frozen=True, slots=True)
class Pipes:
    """The keys and values, which come once; the rings of queries, and of gradients of results with the numbers."""

    KV: Any
    Q: Any
    dO: Any


@mo.kernel
def attention_backward_sm90_kernel(Q, K, V, dO, dK, dV, numbers, sums, turns, offsets_Q, offsets_K, scale, softcap,
                                   left, right, bias, slopes, plan: mo.Constexpr):
    """A tile of bN keys, and all heads of queries that share them.

    With offsets, sequences lie one behind the other, and dK and dV are no TMA copies.
    """
    config = plan.config
    mo.min_blocks(config.blocks)
    mo.keep_addresses()                                 # for each turn to compute them took up to 9 % longer
    mo.griddepcontrol_launch_dependents()
    every = Scores(plan.rules, mo.size(Q.tensor, 0), mo.size(K.tensor, 0), scale, softcap, left, right, bias, slopes,
                   ())
    sK, sV = mo.shared_array(plan.dtype, plan.keys), mo.shared_array(plan.dtype, plan.keys)     # (bN, width)
    sQ = mo.shared_array(plan.dtype, plan.staged(plan.queries, config.stages[0]))   # (bM, width, stages)
    sdO = mo.shared_array(plan.dtype, plan.staged(plan.queries, config.stages[1]))
    sdS = mo.shared_array(plan.dtype, plan.staged(plan.turned_scores, 2))           # (bM, bN, 2)
    sN = mo.shared_array(mo.float32, (2 * config.bM, config.stages[1]))
    sdQ = mo.shared_array(mo.float32, (PIECE, config.groups))
    gN = mo.tile(numbers, (2 * config.bM, 1), (0, None))                            # (2 bM, 1, tiles)
    gdQ = mo.tile(sums, (PIECE, 1), (None, None))                                   # (PIECE, 1, pieces, tiles)
    copies, stages = Copies(Q, K, V, dO, dK, dV, gN), Stages(sK, sV, sQ, sdO, sN, sdS, sdQ)
    pipes = Pipes(mo.PipelineTma(1, K.bytes + V.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages[0], Q.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages[1], dO.bytes + 8 * config.bM, consumers=config.groups))
    pipes.KV.init()
    pipes.Q.init()
    pipes.dO.init()
    mo.sync_threads()
    mo.griddepcontrol_wait()                            # for numbers, and sums that begin at 0
    parts = Sequences(every, offsets_Q, offsets_K)
    place, there = place_of_keys(plan, parts, mo.size(K.tensor, 2), mo.size(K.tensor, 3))
    how = rules_of(parts, place[2])
    if there and (offsets_K is None or place[0] * config.bN < how.keys):
        if mo.warpgroup_idx() == config.groups:
            mo.warpgroup_reg_dealloc(config.registers[0])
            warp = mo.thread_idx().x // 32 - config.groups * 4
            if warp == 0:
                if mo.lane_idx() == 0:
                    load(plan, parts, how, copies, stages, pipes, place)
            elif warp == 1:
                add_up(plan, parts, how, gdQ, sdQ, turns, mo.size(Q.tensor, 2), place)
        else:
            mo.warpgroup_reg_alloc(config.registers[1])
            consume(plan, parts, how, copies, stages, pipes, place)


@mo.jit
def place_of_keys(plan, parts, heads, batches):
    """(tile of keys, head of keys, batch or sequence) of the block, and whether there is such a head.

    Where tiles differ in work, those of the first keys come first, which the most queries may see: the grid is (heads
    of a section, tiles, sections).  Blocks that add in order and do not rotate wait for those of further keys: there
    these come first.
    """
    (n, head, batch), there = mo.block_idx(), True
    if plan.sections:
        n, number = head, n + batch * mo.grid_dim().x
        head, batch, there = number % heads, number // heads, number < heads * batches
    elif plan.in_order and not plan.rotates:
        n = mo.grid_dim().x - 1 - n
    if parts.offsets_K is not None:
        n, batch = place_of_slot(parts.offsets_K, plan.config.bN, n)
    return (n, head, batch), there


@mo.jit
def tiles_of(plan, how, n):
    """The tiles of queries [least, most) of which some see keys of tile n."""
    least, most = query_tiles(how, n * plan.config.bN, plan.config.bM, plan.config.bN)
    return least, mo.max(most, least)


# --- in which order dQ is added up, if runs are to give the same bits ------------------------------------------------


@mo.jit
def rotation(plan, how):
    """(blocks together, distance): so many blocks of neighbouring keys begin so many tiles of queries apart.

    They wait for each other, and never for later ones.
    """
    tiles = mo.max(mo.ceil_div(how.queries, plan.config.bM), 1)
    together = mo.min(plan.together, mo.min(tiles, mo.ceil_div(how.keys, plan.config.bN)))
    return together, tiles // together


@mo.jit
def step_of(plan, how, n, i, most):
    """The tile of queries that is the block's i-th: all see all keys, so that it may begin anywhere."""
    if not plan.rotates:
        return i
    together, apart = rotation(plan, how)
    m = i + n % together * apart
    return mo.where(m >= most, m - most, m)


@mo.jit
def turn_of(plan, how, m, n):
    """How many tiles of keys are added to the queries of tile m before tile n: those that get there earlier.

    Blocks that are ``together`` take the queries in a circle, each from another tile on, so that nobody waits if all
    are as fast.  With a mask that begins at the diagonal, further keys have fewer queries, and get to the last ones
    earlier by themselves.
    """
    tiles = mo.ceil_div(how.keys, plan.config.bN)
    if plan.rotates:
        together, apart = rotation(plan, how)
        first = n // together * together
        size = mo.min(together, tiles - first)
        last = mo.min(m // apart, size - 1)             # of those that begin at tile m or before
        return first + (last - (n - first) + size) % size
    if how.rules.right:
        seen = mo.ceil_div(mo.max((m + 1) * plan.config.bM + how.shift + how.right, 0), plan.config.bN)
        tiles = mo.min(tiles, seen)
    return tiles - 1 - n


# --- the thread that loads -------------------------------------------------------------------------------------------


@mo.jit
def load(plan, parts, how, copies, stages, pipes, place):
    """Keys and values; queries and gradients of results, tile after tile; at the end queries that nobody needs.

    Scores are begun a tile ahead, behind the last one too.
    """
    config, (n, head_K, batch) = plan.config, place
    at, at_Q, at_dO = pipes.KV.producer_start(), pipes.Q.producer_start(), pipes.dO.producer_start()
    pipes.KV.producer_acquire(at)
    for copy, smem in ((copies.K, stages.K), (copies.V, stages.V)):
        X, own = rows_of(copy.tensor, parts.offsets_K, batch)
        mo.copyto(copy, smem, mo.tile(X, (config.bN, plan.width, 1, 1), (n, 0, head_K, own)),
                  barrier=pipes.KV.barrier(at))
    least, most = tiles_of(plan, how, n)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        for i in range(least, most):
            m = step_of(plan, how, n, i, most)
            at_Q = load_queries(plan, parts, copies, stages, pipes, at_Q, (m, head, batch))
            at_dO = load_gradients(plan, parts, how, copies, stages, pipes, at_dO, (m, head, batch))
    load_queries(plan, parts, copies, stages, pipes, at_Q,
                 (step_of(plan, how, n, least, most), head_K * plan.heads_of_a_key, batch))


@mo.jit
def load_queries(plan, parts, copies, stages, pipes, at, place):
    """A tile of queries into the next stage."""
    m, head, batch = place
    X, own = rows_of(copies.Q.tensor, parts.offsets_Q, batch)
    pipes.Q.producer_acquire(at)
    mo.copyto(copies.Q, stages.Q[:, :, at.stage], mo.tile(X, (plan.config.bM, plan.width, 1, 1), (m, 0, head, own)),
              barrier=pipes.Q.barrier(at))
    return at.next()


@mo.jit
def load_gradients(plan, parts, how, copies, stages, pipes, at, place):
    """Gradients of results of a tile of queries, and the queries' numbers, into the next stage."""
    m, head, batch = place
    X, own = rows_of(copies.dO.tensor, parts.offsets_Q, batch)
    number = number_of(plan, parts.offsets_Q, how.queries, mo.size(copies.Q.tensor, 2), place)
    pipes.dO.producer_acquire(at)
    mo.copyto(copies.dO, stages.dO[:, :, at.stage], mo.tile(X, (plan.config.bM, plan.width, 1, 1), (m, 0, head, own)),
              barrier=pipes.dO.barrier(at))
    mo.copyto(mo.BulkCopy(), stages.numbers[:, at.stage], copies.numbers[:, 0, number],
              barrier=pipes.dO.barrier(at))
    return at.next()


# --- the warp that adds to dQ ----------------------------------------------------------------------------------------


@mo.jit
def add_up(plan, parts, how, gdQ, sdQ, turns, heads, place):
    """Add what the warpgroups leave in shared memory to the sums of dQ; in order, if runs are to give the same bits."""
    config, (n, head_K, batch), late = plan.config, place, mo.int32(-1)
    least, most = tiles_of(plan, how, n)
    for group in mo.static_range(config.groups):
        mo.barrier_arrive(EMPTY + group, GROUP + 32)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        for i in range(least, most):
            m = step_of(plan, how, n, i, most)
            number = number_of(plan, parts.offsets_Q, how.queries, heads, (m, head, batch))
            if plan.in_order and mo.lane_idx() == 0:
                late = wait_for_turn(turns, number, turn_of(plan, how, m, n), late)
            mo.sync_warp()
            for piece in mo.static_range(plan.pieces):
                for group in mo.static_range(config.groups):
                    mo.barrier_sync(FULL + group, GROUP + 32)
                    if mo.lane_idx() == 0:
                        mo.copyto(mo.BulkReduceAdd(), gdQ[:, 0, group * plan.pieces + piece, number], sdQ[:, group])
                        mo.tma_store_arrive()
                if mo.lane_idx() == 0:
                    mo.tma_store_wait(0, read=True)
                mo.sync_warp()
                for group in mo.static_range(config.groups):
                    mo.barrier_arrive(EMPTY + group, GROUP + 32)
            if plan.in_order and mo.lane_idx() == 0:
                if config.tells_later:
                    tell(turns, late, plan.pieces * config.groups)
                    late = number
                else:
                    tell(turns, number, 0)
    if mo.lane_idx() == 0:
        if plan.in_order and config.tells_later:
            tell(turns, late, 0)
        mo.tma_store_wait(0, read=False)
    for group in mo.static_range(config.groups):
        mo.barrier_sync(FULL + group, GROUP + 32)


@mo.jit
def wait_for_turn(turns, number, turn, late):
    """Wait until so many tiles of keys have been added to tile ``number``; returns which tile has still to be told of.

    Who has to wait tells before: others may wait for this block.  ``late`` is -1 if there is none.
    """
    if mo.load(turns, number) < turn:
        tell(turns, late, 0)
        late = mo.int32(-1)
        while mo.load(turns, number) < turn:
            pass
    mo.fence_proxy_async()
    return late


@mo.jit
def tell(turns, late, newer):
    """Count this block's addition to tile ``late``, if there is one, behind which ``newer`` pieces were sent."""
    if late >= 0:
        mo.tma_store_wait(newer, read=False)
        mo.fence_proxy_async()
        mo.atomic_add(turns, late, 1, order="release")


# --- the warpgroups that multiply ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """A warpgroup's operands, registers and pipelines."""

    pipes: Any
    stages: Any
    K: Any
    V: Any
    Q: Any
    dO: Any
    dS: Any
    keys: Any
    queries: Any
    gradients: Any
    S: Any
    dP: Any
    dQ: Any
    dK: Any
    dV: Any


@mo.jit
def consume(plan, parts, how, copies, stages, pipes, place):
    """The gradients of a warpgroup's 64 keys and values, or of its part of their head dimension."""
    config, group, tid = plan.config, mo.warpgroup_idx(), mo.thread_idx().x % GROUP
    n, head_K, batch = place
    thr_S, thr_K, thr_Q = (mma.get_slice(tid) for mma in (plan.scores, plan.keys_mma, plan.queries_mma))
    rows, sums, keys = (64, plan.width), (64, plan.columns), (keys_of(plan, group), 0)
    own = (group, 0) if plan.by_rows else (0, 0)                        # of the queries, and of the head dimension
    part = (64 * plan.pieces, config.bN), ((0, 0) if plan.by_rows else (group, 0))
    turned_Q, turned_dO = (
        mo.tile(x.with_layout(plan.staged(plan.turned, count)), (plan.columns, config.bM, count),
                (part_of(plan, group), 0, 0)) for x, count in zip((stages.Q, stages.dO), config.stages, strict=True))
    work = Work(
        pipes, stages, thr_S.partition_fragment_A(mo.tile(stages.K, rows, keys)),                   # (MMA, 1, MMA_K)
        thr_S.partition_fragment_A(mo.tile(stages.V, rows, keys)),
        thr_S.partition_fragment_B(stages.Q), thr_S.partition_fragment_B(stages.dO),    # (MMA, 1, MMA_K, stages)
        thr_Q.partition_fragment_A(mo.tile(stages.dS, (64, config.bN), own)),           # (MMA, 1, MMA_K, stages)
        thr_Q.partition_fragment_B(mo.tile(stages.K.with_layout(plan.turned_keys), *part)),     # (MMA, pieces, MMA_K)
        thr_K.partition_fragment_B(turned_Q), thr_K.partition_fragment_B(turned_dO),    # (MMA, 1, MMA_K, stages)
        plan.scores.partition_fragment_C((64, config.bM)), plan.scores.partition_fragment_C((64, config.bM)),
        plan.queries_mma.partition_fragment_C((64, 64)), plan.keys_mma.partition_fragment_C(sums),
        plan.keys_mma.partition_fragment_C(sums))
    work.dK.fill(0)
    work.dV.fill(0)
    at_Q, at_dO = pipes.Q.consumer_start(), pipes.dO.consumer_start()
    pipes.KV.consumer_wait(pipes.KV.consumer_start())
    begin_scores(plan, work, at_Q, rolled=config.share)
    mo.warpgroup_wait(0)
    least, most = tiles_of(plan, how, n)
    one_loop = how.rules.masks and (how.rules.left or config.share)     # masks cost less than registers for another
    low = most if one_loop else whole_from(how, n * config.bN, config.bM, config.bN, least, most)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        if how.rules.masks:
            for i in range(least, low):
                at_Q, at_dO = step(plan, how, work, at_Q, at_dO, (n, step_of(plan, how, n, i, most), head, batch), True)
        if not one_loop:
            for i in range(low, most):
                at_Q, at_dO = step(plan, how, work, at_Q, at_dO, (n, step_of(plan, how, n, i, most), head, batch))
    mo.barrier_sync(EMPTY + group, GROUP + 32)          # the last turn of each barrier's pair
    mo.barrier_arrive(FULL + group, GROUP + 32)
    put(plan, parts, how, copies, stages, work, (n, head_K, batch))


@mo.jit
def keys_of(plan, group):
    """Which 64 keys of the tile a warpgroup has."""
    return 0 if plan.config.share else group


@mo.jit
def part_of(plan, group):
    """Which part of the head dimension of the gradients of its keys and values a warpgroup has."""
    return group if plan.config.share else 0


@mo.jit
def step(plan, how, work, at_Q, at_dO, place, masked=False):
    """One tile of queries, whose scores are there; those of the next are there afterwards."""
    pipes, stage = work.pipes, at_dO.stage
    pipes.dO.consumer_wait(at_dO)
    mo.warpgroup_arrive()
    mo.gemm(plan.scores, work.V, work.dO[:, :, :, stage], work.dP, accumulate=False)
    mo.warpgroup_commit_batch()
    weights, slopes = mo.make_fragment_like(work.S), mo.make_fragment_like(work.S)              # ((2,2,bM/8), 1, 1)
    if how.rules.softcap:                               # slopes have no room beside scores and what is under way
        mo.warpgroup_wait(0)
    weigh(plan, how, work, weights, slopes, place, stage, masked)
    P = mo.accumulators_as_A(weights.to(plan.dtype), plan.scores, plan.keys_mma)                # (MMA, 1, bM / 16)
    mo.warpgroup_wait(0)
    rounded = (slopes if how.rules.softcap else differences(plan, work, weights, stage)).to(plan.dtype)
    dS = mo.accumulators_as_A(rounded, plan.scores, plan.keys_mma)
    mo.warpgroup_arrive()
    mo.gemm(plan.keys_mma, P, work.gradients[:, :, :, stage], work.dV)
    mo.warpgroup_commit_batch()
    share(plan, work, rounded, at_Q.stage)
    queries_piece(plan, work, at_Q.stage, 0)
    mo.warpgroup_arrive()
    mo.gemm(plan.keys_mma, dS, work.queries[:, :, :, at_Q.stage], work.dK)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(1)
    release(pipes.dO, at_dO)
    for piece in mo.static_range(1, plan.pieces):
        hand_over(work)
        queries_piece(plan, work, at_Q.stage, piece)
    begin_scores(plan, work, at_Q.next())
    if plan.pieces > 1:
        mo.warpgroup_wait(1)
    hand_over(work)
    mo.warpgroup_wait(0)                                # all: where one goes on as the loop turns, ptxas waits for each
    release(pipes.Q, at_Q)
    return at_Q.next(), at_dO.next()


@mo.jit
def queries_piece(plan, work, stage, piece):
    """Begin one of the warpgroup's pieces of dQ of a tile of queries."""
    mo.warpgroup_arrive()
    mo.gemm(plan.queries_mma, work.dS[:, :, :, stage], work.keys[:, piece:piece + 1, :], work.dQ, accumulate=False)
    mo.warpgroup_commit_batch()


@mo.jit
def begin_scores(plan, work, at_Q, rolled=False):
    """Begin the scores (keys, queries) of the queries of a stage."""
    work.pipes.Q.consumer_wait(at_Q)
    mo.warpgroup_arrive()
    if rolled:                  # else the compiler keeps addresses of keys, 14 registers, from the first scores on
        for k in mo.range(mo.size(work.K, 2), unroll=4):
            mo.gemm(plan.scores, work.K[:, :, k], work.Q[:, :, k, at_Q.stage], work.S, accumulate=k > 0)
    else:
        mo.gemm(plan.scores, work.K, work.Q[:, :, :, at_Q.stage], work.S, accumulate=False)
    mo.warpgroup_commit_batch()


@mo.jit
def weigh(plan, how, work, weights, gradients, place, stage, masked):
    """The weights of scores (keys, queries); where scores are capped also their gradients, but for the scale.

    They have registers of their own: scores are only written by wgmma, and not kept when they were read.
    """
    n, m, head, batch = place
    thread = mo.thread_idx().x
    if plan.config.share:
        thread %= GROUP
    first_key, first = n * plan.config.bN + thread // 32 * 16 + thread % 32 // 4, thread % 4 * 2
    S, dP, P, dS = (mo.mn_view(x, plan.scores) for x in (work.S, work.dP, weights, gradients))  # (2, bM / 4)
    numbers = work.stages.numbers[:, stage]
    for k in mo.static_range(mo.size(S, 1)):
        if k % 2 == 0:
            log_sums = pair_of(numbers, 0, plan.config.bM, k)
            products = pair_of(numbers, 1, plan.config.bM, k)
        for i in mo.static_range(mo.size(S, 0)):
            if how.modified:
                exponent = modified(how, S[i, k], m * plan.config.bM + first + offset(k), first_key + row_offset(i),
                                    Place(0, 0, head, batch)) * LOG2_E
            else:
                exponent = S[i, k] * (how.scale * LOG2_E)
            P[i, k] = mo.exp2(exponent - log_sums[k % 2], fast=True)
            if how.rules.softcap:
                dS[i, k] = P[i, k] * (dP[i, k] - products[k % 2]) * bend_of(how, S[i, k])
    if masked:
        at = Place(m * plan.config.bM + first, first_key, head, batch)
        mask_turned(how, P, at)
        if how.rules.softcap:
            mask_turned(how, dS, at)


@mo.jit
def differences(plan, work, weights, stage):
    """The gradients of scores (keys, queries), but for the scale, from those of weights."""
    found = mo.make_fragment_like(work.dP)                                                      # ((2,2,bM/8), 1, 1)
    dP, P, dS = (mo.mn_view(x, plan.scores) for x in (work.dP, weights, found))
    for k in mo.static_range(mo.size(dP, 1)):
        if k % 2 == 0:
            products = pair_of(work.stages.numbers[:, stage], 1, plan.config.bM, k)
        for i in mo.static_range(mo.size(dP, 0)):
            dS[i, k] = P[i, k] * (dP[i, k] - products[k % 2])
    return found


@mo.jit
def pair_of(numbers, which, bM, k):
    """One of the numbers of two of a thread's queries, which are neighbours: columns k and k + 1 of its scores."""
    found = mo.fragment((2,), mo.float32)
    mo.copyto(found, mo.tile(mo.tile(numbers, (bM,), (which,)), (2,), (offset(k) // 2 + mo.thread_idx().x % 4,)))
    return found


@mo.jit
def share(plan, work, rounded, stage):
    """The gradients of a warpgroup's scores go to shared memory; those of both warpgroups are there afterwards.

    There are two stages: whoever writes one of them has met all who read it the time before.
    """
    thr, group = plan.store_scores.get_slice(mo.thread_idx().x % GROUP), mo.warpgroup_idx()
    turned = work.stages.dS[:, :, stage].with_layout(plan.scores_rows)                          # (bN, bM)
    own = mo.tile(turned, (64, plan.config.bM), (keys_of(plan, group), 0))
    if not plan.config.share or group == 0:             # warpgroups that share keys have the same
        mo.copyto(plan.store_scores, thr.partition_D(own), thr.retile_S(rounded))
    mo.fence_proxy_async()
    mo.barrier_sync(MEET, plan.config.groups * GROUP)


@mo.jit
def hand_over(work):
    """A warpgroup's sums of dQ go to the warp that adds them up: four at a time next to those of other threads."""
    group, tid = mo.warpgroup_idx(), mo.thread_idx().x % GROUP
    lanes = mo.make_layout((4, GROUP, PIECE // GROUP // 4))
    mo.barrier_sync(EMPTY + group, GROUP + 32)
    mo.copyto(work.stages.dQ[:, group].with_layout(lanes)[:, tid, :],
              work.dQ.with_layout(mo.make_layout((4, PIECE // GROUP // 4))))
    mo.fence_proxy_async()
    mo.barrier_arrive(FULL + group, GROUP + 32)


@mo.jit
def put(plan, parts, how, copies, stages, work, place):
    """The gradients of keys and values, by way of the memory of both, which nobody needs any more."""
    n, head_K, batch = place
    group, tid, config = mo.warpgroup_idx(), mo.thread_idx().x % GROUP, plan.config
    thr = plan.store_keys.get_slice(tid)
    work.dK[...] = work.dK * how.scale
    mo.barrier_sync(MEET, config.groups * GROUP)
    for smem, sums in ((stages.K, work.dK), (stages.V, work.dV)):
        own = mo.tile(smem, (64, plan.columns), (keys_of(plan, group), part_of(plan, group)))
        mo.copyto(plan.store_keys, thr.partition_D(own), thr.retile_S(sums.to(plan.dtype)))
    mo.fence_proxy_async()
    mo.barrier_sync(MEET, config.groups * GROUP)
    if parts.offsets_K is not None:
        for X, smem in ((copies.dK, stages.K), (copies.dV, stages.V)):
            rows, _ = rows_of(X, parts.offsets_K, batch)
            store_rows(rows, smem, (n * config.bN, how.keys), (0, head_K), config.groups * GROUP)
    elif mo.thread_idx().x == 0:
        tile, at = (config.bN, plan.width, 1, 1), (n, 0, head_K, batch)
        mo.copyto(copies.dK, mo.tile(copies.dK.tensor, tile, at), stages.K)
        mo.copyto(copies.dV, mo.tile(copies.dV.tensor, tile, at), stages.V)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@mo.jit
def release(pipe, state):
    """The warpgroup has read a stage."""
    if mo.thread_idx().x % GROUP == 0:
        pipe.consumer_release(state)


# --- the gradient of queries, rounded --------------------------------------------------------------------------------


@mo.kernel
def queries_kernel(dQ, sums, offsets, scale, plan: mo.Constexpr):
    """A tile of queries: its sums, as the threads of the other kernel held them, times the scale and rounded."""
    m, head, batch = place_here(plan, offsets)
    whole = dQ.tensor if offsets is None else dQ
    begin, queries, _ = rows_here(whole, offsets, batch)
    smem = mo.shared_array(plan.dtype, plan.rounded)                                # (64, 64, pieces)
    group, pieces = mo.warpgroup_idx(), mo.tile(sums, (PIECE, 1), (None, None))     # (PIECE, 1, pieces, tiles)
    mo.griddepcontrol_wait()
    if m * plan.config.bM < queries:
        number = number_of(plan, offsets, queries, mo.size(whole, 2), (m, head, batch))
        round_piece(plan, smem[:, :, group], pieces[:, :, group, number], scale)
        store_piece(plan, dQ, smem[:, :, group], (begin, queries), (m, head, batch))


@mo.jit
def round_piece(plan, smem, sums, scale):
    """A warpgroup's piece of sums (PIECE, 1) to shared memory (64, 64)."""
    group, tid = mo.warpgroup_idx(), mo.thread_idx().x % GROUP
    acc, thr = plan.queries_mma.partition_fragment_C((64, 64)), plan.store_queries.get_slice(tid)
    own = sums[:, 0].with_layout(mo.make_layout((4, GROUP, PIECE // GROUP // 4)))   # (4, threads, sums / 4)
    mo.copyto(acc.with_layout(mo.make_layout((4, PIECE // GROUP // 4))), own[:, tid, :])
    acc[...] = acc * scale
    mo.copyto(plan.store_queries, thr.partition_D(smem), thr.retile_S(acc.to(plan.dtype)))
    mo.fence_proxy_async()
    mo.barrier_sync(MEET + group, GROUP)


@mo.jit
def store_piece(plan, dQ, smem, rows, place):
    """A warpgroup's piece from shared memory to dQ."""
    (m, head, batch), (begin, queries), group = place, rows, mo.warpgroup_idx()
    row, column = (m * plan.config.groups + group, 0) if plan.by_rows else (m, group)
    if isinstance(dQ, mo.Tensor):
        store_rows(dQ, smem, (begin + 64 * row, begin + queries), (64 * column, head), GROUP)
    elif mo.thread_idx().x % GROUP == 0:
        mo.copyto(dQ, mo.tile(dQ.tensor, (64, 64, 1, 1), (row, column, head, batch)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)
