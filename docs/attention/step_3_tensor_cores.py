"""Tensor cores

Both products are products of matrices, and `mma.sync` computes them: eight warps have 16 queries each, and read keys
and values by `ldmatrix`. Between the products stands the softmax, on the accumulators of the first, in registers:
`mo.mn_view` shows them as rows and columns, and `mo.row_reduce` folds a row over the four threads that share it.
`mo.accumulators_as_A` shows them as the left operand of the second, and nothing moves.
"""

import moye as mo
from trial import DIM, require, trial

ROWS, KEYS, WARPS = 128, 64, 8
"""Queries of a block, keys of a tile, warps."""


@mo.jit
def online(state, S, mma, scale):
    """Scores become weights; (top, total, shrink) of the rows is brought up to date: shrink is what sums must lose."""
    (top, total, shrink), rows = state, mo.mn_view(S, mma)
    found = mo.row_reduce(S, "max", mma)
    for i in mo.static_range(mo.size(top)):
        highest = mo.max(top[i], found[i] * scale)
        shrink[i] = mo.exp(top[i] - highest)
        rows[i, :] = mo.exp(rows[i, :] * scale - highest)
        total[i] = total[i] * shrink[i] + rows[i, :].reduce("add")      # of this thread's columns
        top[i] = highest


@mo.jit
def row_state(count=2):
    """top, total and shrink of the rows of a thread."""
    state = mo.fragment((count,), mo.float32), mo.fragment((count,), mo.float32), mo.fragment((count,), mo.float32)
    state[0].fill(-float("inf"))
    state[1].fill(0)
    return state


@mo.jit
def scaled(acc, mma, factors):
    """Rows times their factors."""
    rows = mo.mn_view(acc, mma)
    for i in mo.static_range(mo.size(factors)):
        rows[i, :] = rows[i, :] * factors[i]


@mo.jit
def divided(acc, mma, state):
    """Rows over their totals, which four threads have parts of."""
    for i in mo.static_range(mo.size(state[1])):
        state[1][i] = 1.0 / mo.warp_reduce(state[1][i], "add", 4)
    scaled(acc, mma, state[1])


@mo.jit
def multiply(mma, A, read, sB, acc):
    """acc += A Bᵀ: A (MMA, MMA_M, MMA_K) in registers, B (N, K) in shared memory, one instruction deep at a time."""
    tid = mo.thread_idx().x
    thr_mma, thr_read = mma.get_slice(tid), read.get_slice(tid)
    tCrB, tXsB = thr_mma.partition_fragment_B(sB), thr_read.partition_S(sB)         # (MMA, MMA_N, MMA_K)
    for k in mo.static_range(mo.size(tCrB, 2)):
        mo.copyto(read, thr_read.retile_D(tCrB)[:, :, k], tXsB[:, :, k])
        mo.gemm(mma, A[:, :, k], tCrB[:, :, k], acc)


@mo.kernel
def tensor_kernel(O, Q, K, V, scale, plan: mo.Constexpr):
    copy, read_K, read_V, mma, tile, turned = plan
    m, head, tid = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x
    sK, sV = mo.shared_array(K.dtype, tile), mo.shared_array(V.dtype, tile)         # (KEYS, DIM)
    gK, gV = (mo.tile(X[head, :, :], (KEYS, DIM), (None, 0)) for X in (K, V))       # (KEYS, DIM, n)
    gQ, gO = (mo.tile(X[head, :, :], (ROWS, DIM), (m, 0)) for X in (Q, O))          # (ROWS, DIM)
    thr_mma, thr_copy = mma.get_slice(tid), copy.get_slice(tid)
    tCrQ = thr_mma.make_fragment_A(thr_mma.partition_A(gQ))                         # (MMA, MMA_M, MMA_K)
    mo.copyto(tCrQ, thr_mma.partition_A(gQ))
    S, out = mma.partition_fragment_C((ROWS, KEYS)), mma.partition_fragment_C((ROWS, DIM))      # (MMA, MMA_M, MMA_N)
    state = row_state()
    out.fill(0)
    for n in range(mo.size(gK, 2)):
        mo.copyto(copy, thr_copy.partition_D(sK), thr_copy.partition_S(gK[:, :, n]))
        mo.copyto(copy, thr_copy.partition_D(sV), thr_copy.partition_S(gV[:, :, n]))
        mo.sync_threads()                                                           # the tile is there
        S.fill(0)
        multiply(mma, tCrQ, read_K, sK, S)
        online(state, S, mma, scale)
        scaled(out, mma, state[2])
        multiply(mma, mo.accumulators_as_A(S.to(V.dtype), mma, mma), read_V, sV.with_layout(turned), out)
        mo.sync_threads()                                                           # and has been read
    divided(out, mma, state)
    mo.copyto(thr_mma.partition_C(gO), out.to(O.dtype))


def plan_of(atom):
    """Who copies, who reads and multiplies, and how a tile lies: as (KEYS, DIM) and as (DIM, KEYS)."""
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32BF16BF16F32_TN, mo.make_layout((WARPS, 1)), (16 * WARPS, 16, 16))
    copy = mo.make_tiled_copy(mo.CopyAtom(atom, mo.bfloat16), mo.make_layout((2 * WARPS, 16), (16, 1)),
                              mo.make_layout((1, 8)))
    reads = (mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(4, transpose=turned), mo.bfloat16), mma)
             for turned in (False, True))
    tile = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (KEYS, DIM))     # swizzled
    return copy, *reads, mma, tile, mo.select(tile, 1, 0)


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    plan = plan_of(mo.UniversalCopy(mo.uint128))
    run(tensor_kernel)[(queries // ROWS, heads), 32 * WARPS](out, q, k, v, DIM ** -0.5, plan)


if __name__ == "__main__":
    trial(attention)
