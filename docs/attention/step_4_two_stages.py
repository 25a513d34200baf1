"""Two stages, filled by cp.async

A tile of keys and values comes while the one before is multiplied. `cp.async` copies to shared memory without passing
through registers and returns at once; so there are two stages, and `mo.Pipeline` says which is read and which is
filled. One barrier is left of the two of a step: behind it the tile is there for all, and all have read the one
before.
"""

import moye as mo
from step_3_tensor_cores import KEYS, ROWS, WARPS, divided, multiply, online, plan_of, row_state, scaled
from trial import DIM, require, trial


@mo.jit
def fetch(copy, sX, gX):
    """Ask for a tile."""
    thr_copy = copy.get_slice(mo.thread_idx().x)
    mo.copyto(copy, thr_copy.partition_D(sX), thr_copy.partition_S(gX))


@mo.kernel
def two_stages_kernel(O, Q, K, V, scale, pipe, plan: mo.Constexpr):
    copy, read_K, read_V, mma, tile, turned = plan
    m, head, tid = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x
    staged = mo.tile_to_shape(tile, (KEYS, DIM, pipe.stages))
    sK, sV = mo.shared_array(K.dtype, staged), mo.shared_array(V.dtype, staged)     # (KEYS, DIM, stages)
    gK, gV = (mo.tile(X[head, :, :], (KEYS, DIM), (None, 0)) for X in (K, V))       # (KEYS, DIM, n)
    gQ, gO = (mo.tile(X[head, :, :], (ROWS, DIM), (m, 0)) for X in (Q, O))          # (ROWS, DIM)
    fetch(copy, sK[:, :, 0], gK[:, :, 0])
    fetch(copy, sV[:, :, 0], gV[:, :, 0])
    pipe.commit()
    thr_mma = mma.get_slice(tid)
    tCrQ = thr_mma.make_fragment_A(thr_mma.partition_A(gQ))                         # (MMA, MMA_M, MMA_K)
    mo.copyto(tCrQ, thr_mma.partition_A(gQ))
    S, out = mma.partition_fragment_C((ROWS, KEYS)), mma.partition_fragment_C((ROWS, DIM))      # (MMA, MMA_M, MMA_N)
    state, at = row_state(), pipe.start()
    out.fill(0)
    for n in range(mo.size(gK, 2)):
        pipe.wait()                                     # tile n is there for all, and all have read tile n - 1
        if n + 1 < mo.size(gK, 2):
            fetch(copy, sK[:, :, at.write], gK[:, :, n + 1])
            fetch(copy, sV[:, :, at.write], gV[:, :, n + 1])
        pipe.commit()
        S.fill(0)
        multiply(mma, tCrQ, read_K, sK[:, :, at.read], S)
        online(state, S, mma, scale)
        scaled(out, mma, state[2])
        P = mo.accumulators_as_A(S.to(V.dtype), mma, mma)                           # (MMA, MMA_M, MMA_K)
        multiply(mma, P, read_V, sV[:, :, at.read].with_layout(turned), out)
        at = at.next()
    divided(out, mma, state)
    mo.copyto(thr_mma.partition_C(gO), out.to(O.dtype))


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    plan = plan_of(mo.CpAsync(mo.uint128, cache="global"))
    run(two_stages_kernel)[(queries // ROWS, heads), 32 * WARPS](out, q, k, v, DIM ** -0.5, mo.Pipeline(2), plan)


if __name__ == "__main__":
    trial(attention)
