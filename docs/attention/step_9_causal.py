"""Causal

Query i sees the keys 0 to i, so tiles of keys behind the queries are not loaded at all, and half of the work goes.
Keys come from the last tile to the first: the diagonal is in the first tile alone, and the loop compares no indices.
Blocks differ in work now; those with the most begin first, so that the last ones to end are short.
"""

import math

import moye as mo
from step_3_tensor_cores import divided
from step_5_wgmma import GROUP, KEYS, ROWS, arguments, plan_of
from step_6_roles import begin, operands, store
from step_7_turns import first_scores, last_product, registers, rounded
from step_8_overlap import LOG2_E, further, online
from trial import DIM, require, trial


@mo.jit
def place():
    """(tile of queries, head): heads are neighbours, and the last queries, which see most keys, come first."""
    return mo.grid_dim().y - 1 - mo.block_idx().y, mo.block_idx().x


@mo.jit
def produce(copies, memory, pipes):
    """The thread that loads: queries, then the keys that they see, from the last to the first, and values."""
    ((Q, K, V), (sQ, sK, sV)), (m, head) = (copies, memory), place()
    gQ = mo.tile(Q.tensor, (ROWS, DIM), (head * mo.grid_dim().y + m, 0))    # (ROWS, DIM)
    gK = mo.tile(K.tensor, (KEYS, DIM), (None, 0))                          # (KEYS, DIM, n)
    gV = mo.tile(V.tensor, (DIM, KEYS), (0, None))                          # (DIM, KEYS, n)
    once, at = pipes.Q.producer_start(), pipes.K.producer_start()
    pipes.Q.producer_acquire(once)
    mo.copyto(Q, sQ, gQ, barrier=pipes.Q.barrier(once))
    for i in range(m + 1):
        n = head * mo.grid_dim().y + m - i
        pipes.K.producer_acquire(at)
        mo.copyto(K, sK[:, :, at.stage], gK[:, :, n], barrier=pipes.K.barrier(at))
        pipes.V.producer_acquire(at)
        mo.copyto(V, sV[:, :, at.stage], gV[:, :, n], barrier=pipes.V.barrier(at))
        at = at.next()


@mo.jit
def masked(plan, S):
    """-inf for keys behind their query, in the tile on the diagonal."""
    thr_S = plan.scores.get_slice(mo.thread_idx().x % GROUP)
    at = thr_S.partition_C(mo.identity_tensor((64, KEYS)))                  # (MMA, 1, 1): (query, key) of each score
    for i in mo.static_range(mo.size(S)):
        query, key = at[i]
        S[i] = mo.where(key <= query + 64 * mo.warpgroup_idx(), S[i], -math.inf)


@mo.jit
def consume(plan, gO, memory, pipes, order, fold):
    """A warpgroup that computes."""
    tiles = operands(plan, memory)
    fragments = S, out, P, state = registers(plan, gO.dtype)
    at, turn = pipes.K.consumer_start(), order.start(mo.warpgroup_idx())
    first_scores(plan, tiles, pipes, order, turn, S, at)
    masked(plan, S)
    online(state, S, plan.scores, fold)
    rounded(plan, P, S)
    for _n in range(place()[0]):
        turn = turn.next()
        further(plan, tiles, pipes, order, turn, fragments, at, fold)
        at = at.next()
    last_product(plan, tiles, pipes, P, out, at)
    divided(out, plan.output, state)
    store(plan, gO, out)


@mo.kernel
def causal_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
    m, head = place()
    sQ = mo.shared_array(Q.dtype, plan.Q)                                   # (ROWS, DIM)
    sK = mo.shared_array(K.dtype, plan.staged(plan.K))                      # (KEYS, DIM, stages)
    sV = mo.shared_array(V.dtype, plan.staged(plan.V))                      # (DIM, KEYS, stages)
    gO = mo.tile(mo.tile(O, (ROWS, DIM), (head * mo.grid_dim().y + m, 0)), (64, DIM), (None, 0))
    order = mo.PipelineOrder()
    order.init()
    memory, pipes = (sQ, sK, sV), begin(Q, K, V)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(24)
        if mo.thread_idx().x == 2 * GROUP:
            produce((Q, K, V), memory, pipes)
    else:
        mo.warpgroup_reg_alloc(240)
        consume(plan, gO, memory, pipes, order, scale * LOG2_E)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS), causal=True)
    run(causal_kernel)[(heads, queries // ROWS), 3 * GROUP](*arguments(out, q, k, v, plan_of()))


if __name__ == "__main__":
    trial(attention, causal=True)
