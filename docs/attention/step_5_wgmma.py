"""Hopper's instructions: TMA and wgmma

One thread asks for whole tiles by TMA, and a barrier in shared memory counts their bytes. `wgmma` reads queries, keys
and values from shared memory, so that they take no registers and no `ldmatrix`; a warpgroup has 64 queries, and a
tile 128 keys. `wgmma` runs on its own, and `mo.warpgroup_wait(0)` waits for it: here at once.
"""

from dataclasses import dataclass
from typing import Any

import moye as mo
from step_3_tensor_cores import divided, online, row_state, scaled
from trial import DIM, require, trial

ROWS, KEYS, STAGES, GROUP = 128, 128, 2, 128
"""Queries of a block, keys of a tile, stages, threads of a warpgroup."""


@dataclass(frozen=True)
class Plan:
    """The two products, and how tiles lie: Q (ROWS, DIM), K (KEYS, DIM), V (DIM, KEYS)."""

    scores: Any
    output: Any
    Q: Any
    K: Any
    V: Any

    def staged(self, tile):
        """STAGES tiles one behind the other."""
        return mo.tile_to_shape(tile, (mo.size(tile, 0), mo.size(tile, 1), STAGES))


@mo.jit
def product(mma, A, B, acc, fresh):
    """Begin acc = A Bᵀ, or acc += A Bᵀ: a group that a wait can name."""
    mo.warpgroup_arrive()
    mo.gemm(mma, A, B, acc, accumulate=not fresh)
    mo.warpgroup_commit_batch()


@mo.jit
def load(copies, memory, pipe, state, n):
    """Ask for keys and values number n of all heads."""
    (K, V), (sK, sV) = copies, memory
    gK = mo.tile(K.tensor, (KEYS, DIM), (n, 0))                             # (KEYS, DIM)
    gV = mo.tile(V.tensor, (DIM, KEYS), (0, n))                             # (DIM, KEYS)
    pipe.producer_acquire(state)                        # both warpgroups have read what lay there
    mo.copyto(K, sK[:, :, state.stage], gK, barrier=pipe.barrier(state))
    mo.copyto(V, sV[:, :, state.stage], gV, barrier=pipe.barrier(state))


@mo.kernel
def wgmma_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
    tid, group, head = mo.thread_idx().x, mo.warpgroup_idx(), mo.block_idx().y
    tiles, tile = mo.size(K.tensor, 0) // (KEYS * mo.grid_dim().y), head * mo.grid_dim().x + mo.block_idx().x
    sQ = mo.shared_array(Q.dtype, plan.Q)                                   # (ROWS, DIM)
    sK = mo.shared_array(K.dtype, plan.staged(plan.K))                      # (KEYS, DIM, stages)
    sV = mo.shared_array(V.dtype, plan.staged(plan.V))                      # (DIM, KEYS, stages)
    gO = mo.tile(O, (64, DIM), (tile * (ROWS // 64) + group, 0))            # (64, DIM): of this warpgroup
    once, pipe = mo.PipelineTma(1, Q.bytes), mo.PipelineTma(STAGES, K.bytes + V.bytes)
    once.init()
    pipe.init()
    mo.sync_threads()
    ahead, at = pipe.producer_start(), pipe.consumer_start()
    if tid == 0:
        once.producer_acquire(once.producer_start())
        mo.copyto(Q, sQ, mo.tile(Q.tensor, (ROWS, DIM), (tile, 0)), barrier=once.barrier(once.producer_start()))
        load((K, V), (sK, sV), pipe, ahead, head * tiles)
    ahead = ahead.next()
    thr_S, thr_O = plan.scores.get_slice(tid % GROUP), plan.output.get_slice(tid % GROUP)
    tQ = thr_S.partition_fragment_A(mo.tile(sQ, (64, DIM), (group, 0)))     # (MMA, 1, MMA_K): where it lies
    tK, tV = thr_S.partition_fragment_B(sK), thr_O.partition_fragment_B(sV)         # (MMA, 1, MMA_K, stages)
    S, out = plan.scores.partition_fragment_C((64, KEYS)), plan.output.partition_fragment_C((64, DIM))
    state = row_state()
    out.fill(0)
    once.consumer_wait(once.consumer_start())
    for n in range(tiles):
        if tid == 0 and n + 1 < tiles:
            load((K, V), (sK, sV), pipe, ahead, head * tiles + n + 1)
        pipe.consumer_wait(at)
        product(plan.scores, tQ, tK[:, :, :, at.stage], S, True)
        mo.warpgroup_wait(0)
        online(state, S, plan.scores, scale)
        scaled(out, plan.output, state[2])
        P = mo.accumulators_as_A(S.to(O.dtype), plan.scores, plan.output)           # (MMA, 1, MMA_K)
        product(plan.output, P, tV[:, :, :, at.stage], out, False)
        mo.warpgroup_wait(0)
        if tid % GROUP == 0:
            pipe.consumer_release(at)
        ahead, at = ahead.next(), at.next()
    divided(out, plan.output, state)
    mo.copyto(thr_O.partition_C(gO), out.to(O.dtype))


def plan_of():
    scores = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, KEYS))
    output = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, DIM, b_major="mn",
                                            a_source="registers"))
    rows, columns = mo.smem_layout_atom(mo.bfloat16, "k"), mo.smem_layout_atom(mo.bfloat16, "mn")       # swizzled
    return Plan(scores, output, mo.tile_to_shape(rows, (ROWS, DIM)), mo.tile_to_shape(rows, (KEYS, DIM)),
                mo.tile_to_shape(columns, (DIM, KEYS), (1, 0)))


def arguments(out, q, k, v, plan):
    """Matrices of all heads, one below the other; copies of tiles by TMA, those of V with keys as columns."""
    q, k, v = (mo.make_tma_copy(mo.TmaLoad(), matrix, tile) for matrix, tile in (
        (q.reshape(-1, DIM), plan.Q), (k.reshape(-1, DIM), plan.K), (v.reshape(-1, DIM).T, plan.V)))
    return out.reshape(-1, DIM), q, k, v, DIM ** -0.5, plan


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    run(wgmma_kernel)[(queries // ROWS, heads), ROWS * 2](*arguments(out, q, k, v, plan_of()))


if __name__ == "__main__":
    trial(attention)
