"""Ping-pong: one multiplies while the other exponentiates

Tensor cores stand still while both warpgroups are at their softmax, and both want them at the same time afterwards.
So the warpgroups take turns at the tensor cores: `mo.PipelineOrder`. Between two softmaxes there are two products, of
the weights before with V and the next scores: a warpgroup begins both in its turn, and its softmax runs in the
other's.
"""

import moye as mo
from step_3_tensor_cores import divided, online, row_state, scaled
from step_5_wgmma import GROUP, KEYS, ROWS, arguments, plan_of, product
from step_6_roles import begin, operands, produce, release, store
from trial import DIM, require, trial


@mo.jit
def registers(plan, dtype):
    """Scores, results, weights as operand A, and the state of the rows."""
    S, out = plan.scores.partition_fragment_C((64, KEYS)), plan.output.partition_fragment_C((64, DIM))
    out.fill(0)
    return S, out, mo.make_fragment_like(mo.accumulators_as_A(S.to(dtype), plan.scores, plan.output)), row_state()


@mo.jit
def first_scores(plan, tiles, pipes, order, turn, S, at):
    """The scores of the first keys."""
    tQ, tK, _ = tiles
    pipes.Q.consumer_wait(pipes.Q.consumer_start())
    pipes.K.consumer_wait(at)
    order.wait(turn)
    product(plan.scores, tQ, tK[:, :, :, at.stage], S, True)
    order.arrive(turn)
    mo.warpgroup_wait(0)
    release(pipes.K, at)


@mo.jit
def last_product(plan, tiles, pipes, P, out, at):
    """The weights of the last keys times their values."""
    pipes.V.consumer_wait(at)
    product(plan.output, P, tiles[2][:, :, :, at.stage], out, False)
    mo.warpgroup_wait(0)
    release(pipes.V, at)


@mo.jit
def rounded(plan, P, S):
    """Weights as operand A of the next product."""
    P[...] = mo.accumulators_as_A(S.to(P.dtype), plan.scores, plan.output)


@mo.jit
def consume(plan, gO, memory, pipes, order, count, scale):
    """A warpgroup that computes."""
    tiles = tQ, tK, tV = operands(plan, memory)
    S, out, P, state = registers(plan, gO.dtype)
    at, turn = pipes.K.consumer_start(), order.start(mo.warpgroup_idx())
    first_scores(plan, tiles, pipes, order, turn, S, at)
    online(state, S, plan.scores, scale)
    rounded(plan, P, S)
    for _n in range(1, count):
        turn, ahead = turn.next(), at.next()
        pipes.K.consumer_wait(ahead)
        pipes.V.consumer_wait(at)
        order.wait(turn)
        product(plan.output, P, tV[:, :, :, at.stage], out, False)
        product(plan.scores, tQ, tK[:, :, :, ahead.stage], S, True)
        order.arrive(turn)                              # the other's products come now, beside the softmax below
        mo.warpgroup_wait(0)
        release(pipes.V, at)
        release(pipes.K, ahead)
        online(state, S, plan.scores, scale)
        scaled(out, plan.output, state[2])
        rounded(plan, P, S)
        at = ahead
    last_product(plan, tiles, pipes, P, out, at)
    divided(out, plan.output, state)
    store(plan, gO, out)


@mo.kernel
def turns_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
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
        consume(plan, gO, memory, pipes, order, count, scale)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    run(turns_kernel)[(queries // ROWS, heads), 3 * GROUP](*arguments(out, q, k, v, plan_of()))


if __name__ == "__main__":
    trial(attention)
