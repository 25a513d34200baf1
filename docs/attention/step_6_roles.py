"""A warp that loads

One warp does nothing but load, and two warpgroups do nothing but compute: nobody who computes waits for room in the
ring any more, and the loader runs ahead as far as the ring allows. Keys and values have barriers of their own, so
that scores begin before the values are there. The loader gives registers away, and the warpgroups that compute take
them.
"""

from dataclasses import dataclass
from typing import Any

import moye as mo
from step_3_tensor_cores import divided, online, row_state, scaled
from step_5_wgmma import GROUP, KEYS, ROWS, STAGES, arguments, plan_of, product
from trial import DIM, require, trial


@dataclass(frozen=True)
class Pipes:
    """The queries, which come once; the rings of keys and of values."""

    Q: Any
    K: Any
    V: Any


@mo.jit
def begin(Q, K, V):
    """The barriers, for all threads."""
    pipes = Pipes(mo.PipelineTma(1, Q.bytes), mo.PipelineTma(STAGES, K.bytes), mo.PipelineTma(STAGES, V.bytes))
    pipes.Q.init()
    pipes.K.init()
    pipes.V.init()
    mo.sync_threads()
    return pipes


@mo.jit
def produce(copies, memory, pipes, count):
    """The thread that loads: queries, then tile after tile of keys and values."""
    (Q, K, V), (sQ, sK, sV) = copies, memory
    m, head = mo.block_idx().x, mo.block_idx().y
    gQ = mo.tile(Q.tensor, (ROWS, DIM), (head * mo.grid_dim().x + m, 0))    # (ROWS, DIM)
    gK = mo.tile(K.tensor, (KEYS, DIM), (None, 0))                          # (KEYS, DIM, n)
    gV = mo.tile(V.tensor, (DIM, KEYS), (0, None))                          # (DIM, KEYS, n)
    once, at = pipes.Q.producer_start(), pipes.K.producer_start()
    pipes.Q.producer_acquire(once)
    mo.copyto(Q, sQ, gQ, barrier=pipes.Q.barrier(once))
    for n in range(count):
        pipes.K.producer_acquire(at)
        mo.copyto(K, sK[:, :, at.stage], gK[:, :, head * count + n], barrier=pipes.K.barrier(at))
        pipes.V.producer_acquire(at)
        mo.copyto(V, sV[:, :, at.stage], gV[:, :, head * count + n], barrier=pipes.V.barrier(at))
        at = at.next()


@mo.jit
def release(pipe, state):
    """The warpgroup has read a stage."""
    if mo.thread_idx().x % GROUP == 0:
        pipe.consumer_release(state)


@mo.jit
def operands(plan, memory):
    """Q (MMA, 1, MMA_K), and K and V (MMA, 1, MMA_K, stages) of a warpgroup: where they lie in shared memory."""
    sQ, sK, sV = memory
    thr_S = plan.scores.get_slice(mo.thread_idx().x % GROUP)
    return (thr_S.partition_fragment_A(mo.tile(sQ, (64, DIM), (mo.warpgroup_idx(), 0))),
            thr_S.partition_fragment_B(sK), plan.output.get_slice(mo.thread_idx().x % GROUP).partition_fragment_B(sV))


@mo.jit
def store(plan, gO, out):
    """The 64 rows of a warpgroup."""
    thr_O = plan.output.get_slice(mo.thread_idx().x % GROUP)
    mo.copyto(thr_O.partition_C(gO[:, :, mo.warpgroup_idx()]), out.to(gO.dtype))


@mo.jit
def consume(plan, gO, memory, pipes, count, scale):
    """A warpgroup that computes."""
    tQ, tK, tV = operands(plan, memory)
    S, out = plan.scores.partition_fragment_C((64, KEYS)), plan.output.partition_fragment_C((64, DIM))
    state, at = row_state(), pipes.K.consumer_start()
    out.fill(0)
    pipes.Q.consumer_wait(pipes.Q.consumer_start())
    for _n in range(count):
        pipes.K.consumer_wait(at)
        product(plan.scores, tQ, tK[:, :, :, at.stage], S, True)
        mo.warpgroup_wait(0)
        release(pipes.K, at)
        online(state, S, plan.scores, scale)
        scaled(out, plan.output, state[2])
        pipes.V.consumer_wait(at)
        P = mo.accumulators_as_A(S.to(gO.dtype), plan.scores, plan.output)           # (MMA, 1, MMA_K)
        product(plan.output, P, tV[:, :, :, at.stage], out, False)
        mo.warpgroup_wait(0)
        release(pipes.V, at)
        at = at.next()
    divided(out, plan.output, state)
    store(plan, gO, out)


@mo.kernel
def roles_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
    count = mo.size(K.tensor, 0) // (KEYS * mo.grid_dim().y)                # tiles of keys, of one head
    sQ = mo.shared_array(Q.dtype, plan.Q)                                   # (ROWS, DIM)
    sK = mo.shared_array(K.dtype, plan.staged(plan.K))                      # (KEYS, DIM, stages)
    sV = mo.shared_array(V.dtype, plan.staged(plan.V))                      # (DIM, KEYS, stages)
    tile = mo.block_idx().y * mo.grid_dim().x + mo.block_idx().x
    gO = mo.tile(mo.tile(O, (ROWS, DIM), (tile, 0)), (64, DIM), (None, 0))  # (64, DIM, warpgroups)
    memory, pipes = (sQ, sK, sV), begin(Q, K, V)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(24)
        if mo.thread_idx().x == 2 * GROUP:
            produce((Q, K, V), memory, pipes, count)
    else:
        mo.warpgroup_reg_alloc(240)
        consume(plan, gO, memory, pipes, count, scale)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    run(roles_kernel)[(queries // ROWS, heads), 3 * GROUP](*arguments(out, q, k, v, plan_of()))


if __name__ == "__main__":
    trial(attention)
