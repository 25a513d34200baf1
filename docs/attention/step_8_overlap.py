"""Overlap within a warpgroup, and cheaper exponentials

The next scores are begun before the weights times V, and only they are waited for: the softmax runs beside the second
product of its own warpgroup, too. Exponents are of 2, as the hardware has them, and the scale is folded into the
logarithm: a multiply-add and an instruction for each score.
"""

import math

import moye as mo
from step_3_tensor_cores import divided, scaled
from step_5_wgmma import GROUP, KEYS, ROWS, arguments, plan_of, product
from step_6_roles import begin, operands, produce, release, store
from step_7_turns import first_scores, last_product, registers, rounded
from trial import DIM, require, trial

LOG2_E = math.log2(math.e)


@mo.jit
def online(state, S, mma, fold):
    """As in step 3, with exp2: top is not scaled, and ``fold`` is scale * log2(e)."""
    (top, total, shrink), rows = state, mo.mn_view(S, mma)
    found = mo.row_reduce(S, "max", mma)
    for i in mo.static_range(mo.size(top)):
        highest = mo.max(top[i], found[i])
        shrink[i] = mo.exp2((top[i] - highest) * fold, fast=True)
        rows[i, :] = mo.exp2(rows[i, :] * fold - highest * fold, fast=True)
        total[i] = total[i] * shrink[i] + rows[i, :].reduce("add")
        top[i] = highest


@mo.jit
def further(plan, tiles, pipes, order, turn, fragments, at, fold):
    """The weights before times their values, and the next weights, side by side."""
    (tQ, tK, tV), (S, out, P, state), ahead = tiles, fragments, at.next()
    pipes.K.consumer_wait(ahead)
    order.wait(turn)
    product(plan.scores, tQ, tK[:, :, :, ahead.stage], S, True)
    pipes.V.consumer_wait(at)
    product(plan.output, P, tV[:, :, :, at.stage], out, False)
    order.arrive(turn)
    mo.warpgroup_wait(1)                                # all groups but the newest: the scores are there
    release(pipes.K, ahead)
    online(state, S, plan.scores, fold)
    mo.warpgroup_wait(0, S)                             # S: ptxas may not put the softmax behind the wait
    release(pipes.V, at)
    scaled(out, plan.output, state[2])
    rounded(plan, P, S)


@mo.jit
def consume(plan, gO, memory, pipes, order, count, fold):
    """A warpgroup that computes."""
    tiles = operands(plan, memory)
    fragments = S, out, P, state = registers(plan, gO.dtype)
    at, turn = pipes.K.consumer_start(), order.start(mo.warpgroup_idx())
    first_scores(plan, tiles, pipes, order, turn, S, at)
    online(state, S, plan.scores, fold)
    rounded(plan, P, S)
    for _n in range(1, count):
        turn = turn.next()
        further(plan, tiles, pipes, order, turn, fragments, at, fold)
        at = at.next()
    last_product(plan, tiles, pipes, P, out, at)
    divided(out, plan.output, state)
    store(plan, gO, out)


@mo.kernel
def overlap_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
    count = mo.size(K.tensor, 0) // (KEYS * mo.grid_dim().y)                # tiles of keys, of one head
    sQ = mo.shared_array(Q.dtype, plan.Q)                                   # (ROWS, DIM)
    sK = mo.shared_array(K.dtype, plan.staged(plan.K))                      # (KEYS, DIM, stages)
    sV = mo.shared_array(V.dtype, plan.staged(plan.V))                      # (DIM, KEYS, stages)
    tile = mo.block_idx().y * mo.grid_dim().x + mo.block_idx().x
    gO = mo.tile(mo.tile(O, (ROWS, DIM), (tile, 0)), (64, DIM), (None, 0))  # (64, DIM, warpgroups)
    order = mo.PipelineOrder()
    order.init()
    memory, pipes = (sQ, sK, sV), begin(Q, K, V)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(24)
        if mo.thread_idx().x == 2 * GROUP:
            produce((Q, K, V), memory, pipes, count)
    else:
        mo.warpgroup_reg_alloc(240)
        consume(plan, gO, memory, pipes, order, count, scale * LOG2_E)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    run(overlap_kernel)[(queries // ROWS, heads), 3 * GROUP](*arguments(out, q, k, v, plan_of()))


if __name__ == "__main__":
    trial(attention)
