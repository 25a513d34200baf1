"""Gradients of attention on sm_90a: a block has some keys and values, and goes through the queries that see them.

In: TMA copies of Q, K, V, dO and of the gradients (rows, dim, heads, batch); two numbers of each query; a
``GradientPlan``.  Out: dK and dV; dQ in float32, added up in memory by all blocks, which ``queries_kernel`` rounds.

Scores are computed turned round, keys by queries: so a warpgroup owns its 64 keys, and weights and gradients of scores
are operand A, in registers, of the sums for dV and dK.  Gradients of scores also go to shared memory, where both
warpgroups multiply all of them with the keys.  The next queries' scores and the last product with queries run beside
the store of dQ.  Sources: Dao: FlashAttention-2 (2023), section 3.1; Shah et al.: FlashAttention-3 (2024), for the
roles.
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

MEET, FULL, EMPTY = 1, 2, 4
"""Named barriers: where the warpgroups meet; those by which warpgroup g and the warp that stores its dQ take turns."""
PIECE = 64 * 64
"""Sums of dQ of a warpgroup."""


# --- what each query has ---------------------------------------------------------------------------------------------


@mo.kernel
def numbers_kernel(numbers, O, dO, lse, plan: mo.Constexpr):
    """numbers (2 bM, tiles): the logarithms (of 2) of the sums of bM queries, and their sums over the head dimension
    of O dO, each (queries, dim_v, heads, batch).

    Queries beyond the last one, and those that see no key, have an infinite sum, so that all of their weights are 0.
    """
    lanes = plan.width // 8
    tid, m, head, batch = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y, mo.block_idx().z
    heads, queries, dim = mo.size(O, 2), mo.size(O, 0), mo.size(O, 1)
    mo.assume(dim % 8 == 0)
    mo.assume(mo.size(dO, 1) % 8 == 0)
    gN = mo.tile(numbers, (plan.config.bM, 1), (None, (batch * heads + head) * mo.grid_dim().x + m))     # (bM, 1, 2)
    for first in range(0, plan.config.bM, mo.block_dim().x // lanes):
        own = first + tid // lanes
        row, column, total = m * plan.config.bM + own, tid % lanes * 8, mo.float32(0)
        if (row < queries) & (column < dim):
            a, b = mo.fragment((8,), O.dtype), mo.fragment((8,), O.dtype)
            for part, x in ((a, O), (b, dO)):
                mo.copyto(mo.UniversalCopy(mo.uint128), part, mo.tile(x[row, :, head, batch], (8,), (tid % lanes,)))
            total = (a.to(mo.float32) * b.to(mo.float32)).reduce("add")
        total = mo.warp_reduce(total, "add", lanes)
        if tid % lanes == 0:
            log_sum = mo.float32(float("inf"))
            if row < queries:
                found = lse[row, head, batch] * LOG2_E
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
def attention_backward_sm90_kernel(Q, K, V, dO, dK, dV, numbers, sums, turns, scale, softcap, left, right, bias,
                                   slopes, plan: mo.Constexpr):
    """A tile of bN keys, and all heads of queries that share them."""
    config = plan.config
    how = Scores(plan.rules, mo.size(Q.tensor, 0), mo.size(K.tensor, 0), scale, softcap, left, right, bias, slopes, ())
    sK, sV = mo.shared_array(plan.dtype, plan.keys), mo.shared_array(plan.dtype, plan.keys)     # (bN, width)
    sQ = mo.shared_array(plan.dtype, plan.staged(plan.queries))                     # (bM, width, stages)
    sdO = mo.shared_array(plan.dtype, plan.staged(plan.queries))
    sdS = mo.shared_array(plan.dtype, plan.staged(plan.turned_scores))              # (bM, bN, stages)
    sN = mo.shared_array(mo.float32, (2 * config.bM, config.stages))
    sdQ = mo.shared_array(mo.float32, (PIECE, config.groups))
    gN = mo.tile(numbers, (2 * config.bM, 1), (0, None))                            # (2 bM, 1, tiles)
    gdQ = mo.tile(sums, (PIECE, 1), (None, None))                                   # (PIECE, 1, groups, tiles)
    copies, stages = Copies(Q, K, V, dO, dK, dV, gN), Stages(sK, sV, sQ, sdO, sN, sdS, sdQ)
    pipes = Pipes(mo.PipelineTma(1, K.bytes + V.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages, Q.bytes, consumers=config.groups),
                  mo.PipelineTma(config.stages, dO.bytes + 8 * config.bM, consumers=config.groups))
    pipes.KV.init()
    pipes.Q.init()
    pipes.dO.init()
    mo.sync_threads()
    n, head_K, batch = mo.block_idx()
    if plan.in_order:                                   # blocks wait for those of fewer keys: these come first
        head_K, batch, n = mo.block_idx()
    place = n, head_K, batch
    if mo.warpgroup_idx() == config.groups:
        mo.warpgroup_reg_dealloc(config.registers[0])
        warp = mo.thread_idx().x // 32 - config.groups * 4
        if warp == 0:
            if mo.lane_idx() == 0:
                load(plan, how, copies, stages, pipes, place)
        elif warp == 1:
            add_up(plan, how, gdQ, sdQ, turns, mo.size(Q.tensor, 2), place)
    else:
        mo.warpgroup_reg_alloc(config.registers[1])
        consume(plan, how, copies, stages, pipes, place)


@mo.jit
def tiles_of(plan, how, n):
    """The tiles of queries [least, most) of which some see keys of tile n."""
    least, most = query_tiles(how, n * plan.config.bN, plan.config.bM, plan.config.bN)
    return least, mo.max(most, least)


# --- the thread that loads -------------------------------------------------------------------------------------------


@mo.jit
def load(plan, how, copies, stages, pipes, place):
    """Keys and values; queries and gradients of results, tile after tile; at the end queries that nobody needs.

    Scores are begun a tile ahead, behind the last one too.
    """
    config, (n, head_K, batch) = plan.config, place
    at, at_Q, at_dO = pipes.KV.producer_start(), pipes.Q.producer_start(), pipes.dO.producer_start()
    keys = config.bN, plan.width, 1, 1
    pipes.KV.producer_acquire(at)
    mo.copyto(copies.K, stages.K, mo.tile(copies.K.tensor, keys, (n, 0, head_K, batch)), barrier=pipes.KV.barrier(at))
    mo.copyto(copies.V, stages.V, mo.tile(copies.V.tensor, keys, (n, 0, head_K, batch)), barrier=pipes.KV.barrier(at))
    least, most = tiles_of(plan, how, n)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        for m in range(least, most):
            at_Q = load_queries(plan, copies, stages, pipes, at_Q, (m, head, batch))
            at_dO = load_gradients(plan, how, copies, stages, pipes, at_dO, (m, head, batch))
    load_queries(plan, copies, stages, pipes, at_Q, (least, head_K * plan.heads_of_a_key, batch))


@mo.jit
def load_queries(plan, copies, stages, pipes, at, place):
    """A tile of queries into the next stage."""
    m, head, batch = place
    gQ = mo.tile(copies.Q.tensor, (plan.config.bM, plan.width, 1, 1), (m, 0, head, batch))
    pipes.Q.producer_acquire(at)
    mo.copyto(copies.Q, stages.Q[:, :, at.stage], gQ, barrier=pipes.Q.barrier(at))
    return at.next()


@mo.jit
def load_gradients(plan, how, copies, stages, pipes, at, place):
    """Gradients of results of a tile of queries, and the queries' numbers, into the next stage."""
    (m, head, batch), config = place, plan.config
    gdO = mo.tile(copies.dO.tensor, (config.bM, plan.width, 1, 1), (m, 0, head, batch))
    number = (batch * mo.size(copies.Q.tensor, 2) + head) * mo.ceil_div(how.queries, config.bM) + m
    pipes.dO.producer_acquire(at)
    mo.copyto(copies.dO, stages.dO[:, :, at.stage], gdO, barrier=pipes.dO.barrier(at))
    mo.copyto(mo.BulkCopy(), stages.numbers[:, at.stage], copies.numbers[:, 0, number],
              barrier=pipes.dO.barrier(at))
    return at.next()


# --- the warp that adds to dQ ----------------------------------------------------------------------------------------


@mo.jit
def add_up(plan, how, gdQ, sdQ, turns, heads, place):
    """Add what the warpgroups leave in shared memory to the sums of dQ; in order, if runs are to give the same bits."""
    config, (n, head_K, batch) = plan.config, place
    least, most = tiles_of(plan, how, n)
    for group in mo.static_range(config.groups):
        mo.barrier_arrive(EMPTY + group, GROUP + 32)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        for m in range(least, most):
            number = (batch * heads + head) * mo.ceil_div(how.queries, config.bM) + m
            for group in mo.static_range(config.groups):
                mo.barrier_sync(FULL + group, GROUP + 32)
                if mo.lane_idx() == 0:
                    if plan.in_order and group == 0:
                        wait_for_turn(plan, how, turns, number, m, n)
                    mo.copyto(mo.BulkReduceAdd(), gdQ[:, 0, group, number], sdQ[:, group])
                    mo.tma_store_arrive()
                    mo.tma_store_wait(0, read=True)
                mo.sync_warp()
                mo.barrier_arrive(EMPTY + group, GROUP + 32)
            if plan.in_order and mo.lane_idx() == 0:
                mo.tma_store_wait(0, read=False)
                mo.fence_proxy_async()
                mo.atomic_add(turns, number, 1, order="release")
    if mo.lane_idx() == 0:
        mo.tma_store_wait(0, read=False)
    for group in mo.static_range(config.groups):
        mo.barrier_sync(FULL + group, GROUP + 32)


@mo.jit
def wait_for_turn(plan, how, turns, number, m, n):
    """Wait until all tiles of fewer keys that the queries of tile m see have been added."""
    first = 0
    if how.rules.left:
        first = mo.max(m * plan.config.bM + how.shift - how.left, 0) // plan.config.bN
    while mo.load(turns, number) < n - first:
        pass
    mo.fence_proxy_async()


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
def consume(plan, how, copies, stages, pipes, place):
    """The gradients of a warpgroup's 64 keys and values."""
    config, group, tid = plan.config, mo.warpgroup_idx(), mo.thread_idx().x % GROUP
    n, head_K, batch = place
    thr_S, thr_K, thr_Q = (mma.get_slice(tid) for mma in (plan.scores, plan.keys_mma, plan.queries_mma))
    rows = (64, plan.width)
    own = (group, 0) if plan.by_rows else (0, 0)                        # of the queries, and of the head dimension
    columns = (0, 0) if plan.by_rows else (group, 0)
    work = Work(
        pipes, stages, thr_S.partition_fragment_A(mo.tile(stages.K, rows, (group, 0))),             # (MMA, 1, MMA_K)
        thr_S.partition_fragment_A(mo.tile(stages.V, rows, (group, 0))),
        thr_S.partition_fragment_B(stages.Q), thr_S.partition_fragment_B(stages.dO),    # (MMA, 1, MMA_K, stages)
        thr_Q.partition_fragment_A(mo.tile(stages.dS, (64, config.bN), own)),           # (MMA, 1, MMA_K, stages)
        thr_Q.partition_fragment_B(mo.tile(stages.K.with_layout(plan.turned_keys), (64, config.bN), columns)),
        thr_K.partition_fragment_B(stages.Q.with_layout(plan.staged(plan.turned))),     # (MMA, 1, MMA_K, stages)
        thr_K.partition_fragment_B(stages.dO.with_layout(plan.staged(plan.turned))),
        plan.scores.partition_fragment_C((64, config.bM)), plan.scores.partition_fragment_C((64, config.bM)),
        plan.queries_mma.partition_fragment_C((64, 64)), plan.keys_mma.partition_fragment_C(rows),
        plan.keys_mma.partition_fragment_C(rows))
    work.dK.fill(0)
    work.dV.fill(0)
    at_Q, at_dO = pipes.Q.consumer_start(), pipes.dO.consumer_start()
    pipes.KV.consumer_wait(pipes.KV.consumer_start())
    begin_scores(plan, work, at_Q)
    mo.warpgroup_wait(0)
    least, most = tiles_of(plan, how, n)
    low = most if how.rules.left else whole_from(how, n * config.bN, config.bM, config.bN, least, most)
    for g in range(plan.heads_of_a_key):
        head = head_K * plan.heads_of_a_key + g
        if how.rules.masks:
            for m in range(least, low):
                at_Q, at_dO = step(plan, how, work, at_Q, at_dO, (n, m, head, batch), True)
        if not how.rules.left:                          # a third loop behind a window would not have the registers
            for m in range(low, most):
                at_Q, at_dO = step(plan, how, work, at_Q, at_dO, (n, m, head, batch), False)
    mo.barrier_sync(EMPTY + group, GROUP + 32)          # the last turn of each barrier's pair
    mo.barrier_arrive(FULL + group, GROUP + 32)
    put(plan, copies, stages, work, how.scale, place)


@mo.jit
def step(plan, how, work, at_Q, at_dO, place, masked):
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
    share(plan, work, rounded, stage)
    mo.warpgroup_arrive()
    mo.gemm(plan.queries_mma, work.dS[:, :, :, stage], work.keys, work.dQ, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_arrive()
    mo.gemm(plan.keys_mma, dS, work.queries[:, :, :, at_Q.stage], work.dK)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(1)
    release(pipes.dO, at_dO)
    begin_scores(plan, work, at_Q.next())
    hand_over(work)
    mo.warpgroup_wait(0)                                # all: where one goes on as the loop turns, ptxas waits for each
    release(pipes.Q, at_Q)
    return at_Q.next(), at_dO.next()


@mo.jit
def begin_scores(plan, work, at_Q):
    """Begin the scores (keys, queries) of the queries of a stage."""
    work.pipes.Q.consumer_wait(at_Q)
    mo.warpgroup_arrive()
    mo.gemm(plan.scores, work.K, work.Q[:, :, :, at_Q.stage], work.S, accumulate=False)
    mo.warpgroup_commit_batch()


@mo.jit
def weigh(plan, how, work, weights, gradients, place, stage, masked):
    """The weights of scores (keys, queries); where scores are capped also their gradients, but for the scale.

    They have registers of their own: scores are only written by wgmma, and not kept when they were read.
    """
    n, m, head, batch = place
    thread = mo.thread_idx().x
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
    thr = plan.store_scores.get_slice(mo.thread_idx().x % GROUP)
    turned = work.stages.dS[:, :, stage].with_layout(plan.scores_rows)                          # (bN, bM)
    own = mo.tile(turned, (64, plan.config.bM), (mo.warpgroup_idx(), 0))
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
def put(plan, copies, stages, work, scale, place):
    """The gradients of keys and values, by way of the memory of both, which nobody needs any more."""
    n, head_K, batch = place
    group, tid, config = mo.warpgroup_idx(), mo.thread_idx().x % GROUP, plan.config
    thr = plan.store_keys.get_slice(tid)
    work.dK[...] = work.dK * scale
    mo.barrier_sync(MEET, config.groups * GROUP)
    for smem, sums in ((stages.K, work.dK), (stages.V, work.dV)):
        own = mo.tile(smem, (64, plan.width), (group, 0))
        mo.copyto(plan.store_keys, thr.partition_D(own), thr.retile_S(sums.to(plan.dtype)))
    mo.fence_proxy_async()
    mo.barrier_sync(MEET, config.groups * GROUP)
    if mo.thread_idx().x == 0:
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
def queries_kernel(dQ, sums, scale, plan: mo.Constexpr):
    """A tile of queries: its sums, as the threads of the other kernel held them, times the scale and rounded."""
    m, head, batch = mo.block_idx()
    group, tid = mo.warpgroup_idx(), mo.thread_idx().x % GROUP
    number = (batch * mo.size(dQ.tensor, 2) + head) * mo.grid_dim().x + m
    smem = mo.shared_array(plan.dtype, plan.pieces)                                 # (64, 64, groups)
    acc, thr = plan.queries_mma.partition_fragment_C((64, 64)), plan.store_queries.get_slice(tid)
    quads = mo.make_layout((4, GROUP, PIECE // GROUP // 4))
    own = mo.tile(sums, (PIECE, 1), (group, number))[:, 0].with_layout(quads)       # (4, threads, sums / 4)
    mo.copyto(acc.with_layout(mo.make_layout((4, PIECE // GROUP // 4))), own[:, tid, :])
    acc[...] = acc * scale
    mo.copyto(plan.store_queries, thr.partition_D(smem[:, :, group]), thr.retile_S(acc.to(plan.dtype)))
    mo.fence_proxy_async()
    mo.barrier_sync(MEET + group, GROUP)
    if tid == 0:
        row, column = (m * plan.config.groups + group, 0) if plan.by_rows else (m, group)
        mo.copyto(dQ, mo.tile(dQ.tensor, (64, 64, 1, 1), (row, column, head, batch)), smem[:, :, group])
        mo.tma_store_arrive()
        mo.tma_store_wait(0)
