"""Attention as two chained products: softmax(Q K^T / sqrt(D)) V, with mma.sync and with wgmma.

In: nothing.  Out: the kernels, and ``attention``, which launches one of them.

A block has 64 rows of Q.  Scores stay in registers: a row is a slice of ``mo.mn_view``, its maximum and its sum come
from ``mo.row_reduce``, and ``mo.accumulators_as_A`` makes them operand A of the product with V.
"""

from __future__ import annotations

import math

import numpy as np

import moye as mo

ROWS, LOG2_E = 64, math.log2(math.e)


@mo.jit
def softmax_step(S, out, top, total, mma, mma_V, scale):
    """One tile of scores: exponentials in place of S, and what was summed before shrunk to the new maximum."""
    latest = mo.max(top, mo.row_reduce(S, "max", mma))              # ((2, MMA_M))
    shrink = mo.exp2((top - latest) * scale)
    rows, sums = mo.mn_view(S, mma), mo.mn_view(out, mma_V)         # ((2, MMA_M), (2, .., MMA_N))
    rows[...] = mo.exp2((rows - latest) * scale)
    sums[...] = sums * shrink
    total[...] = total * shrink + mo.row_reduce(S, "sum", mma)
    top[...] = latest


@mo.kernel
def by_warps(Y, Q, K, V, scale, mma, D: mo.Constexpr, keys: mo.Constexpr):
    """mma.sync: Y and Q are (M, D), K is (N, D) and V is (D, N); each of four warps has 16 rows."""
    tid, m = mo.thread_idx().x, mo.block_idx().x
    thr = mma.get_slice(tid)
    sK = mo.shared_array(K.dtype, mo.make_layout((keys, D), (D + 8, 1)))
    sV = mo.shared_array(V.dtype, mo.make_layout((D, keys), (keys + 8, 1)))
    tSgQ = thr.partition_A(mo.tile(Q, (ROWS, D), (m, 0)))           # (MMA, 1, D/16)
    tSrQ = thr.make_fragment_A(tSgQ)
    mo.copyto(tSrQ, tSgQ)
    out = mma.partition_fragment_C((ROWS, D))                       # ((2,2), 1, D/8)
    out.fill(0)
    top, total = mo.fragment(((2, 1),), mo.float32), mo.fragment(((2, 1),), mo.float32)
    top.fill(-math.inf)
    total.fill(0)
    gK, gV = mo.tile(K, (keys, D), (None, 0)), mo.tile(V, (D, keys), (0, None))
    lanes = mo.make_layout((8, 16), (16, 1))
    for n in range(mo.size(gK, 2)):
        mo.copyto(mo.parallelize(sK, lanes, tid), mo.parallelize(gK[:, :, n], lanes, tid))
        mo.copyto(mo.parallelize(sV, lanes, tid), mo.parallelize(gV[:, :, n], lanes, tid))
        mo.sync_threads()
        S = mma.partition_fragment_C((ROWS, keys))                  # ((2,2), 1, keys/8)
        S.fill(0)
        mo.gemm(mma, tSrQ, thr.partition_B(sK), S)
        softmax_step(S, out, top, total, mma, mma, scale)
        P = mo.accumulators_as_A(S.to(Q.dtype), mma, mma)           # ((2,2,2), 1, keys/16)
        mo.gemm(mma, P, thr.partition_B(sV), out)
        mo.sync_threads()
    sums = mo.mn_view(out, mma)
    sums[...] = sums / total
    mo.copyto(thr.partition_C(mo.tile(Y, (ROWS, D), (m, 0))), out)


@mo.kernel
def by_warpgroup(Y, Q, K, V, scale, mma_S, mma_O, layouts: mo.Constexpr):
    """wgmma: the scores of 64 rows are A in registers of the second product; Y and Q (M, D), K (N, D), V (D, N)."""
    tid, m = mo.thread_idx().x, mo.block_idx().x
    sQ, sK, sV = (mo.shared_array(Q.dtype, layout) for layout in layouts)
    D, keys = mo.size(sQ, 1), mo.size(sK, 0)
    gK, gV = mo.tile(K, (keys, D), (None, 0)), mo.tile(V, (D, keys), (0, None))
    lanes, across = mo.make_layout((8, 16), (16, 1)), mo.make_layout((16, 8))
    mo.copyto(mo.parallelize(sQ, lanes, tid), mo.parallelize(mo.tile(Q, (ROWS, D), (m, 0)), lanes, tid))
    thr, thr_O = mma_S.get_slice(tid), mma_O.get_slice(tid)
    tSrQ, tSrK, tOrV = thr.partition_fragment_A(sQ), thr.partition_fragment_B(sK), thr_O.partition_fragment_B(sV)
    S, out = mma_S.partition_fragment_C((ROWS, keys)), mma_O.partition_fragment_C((ROWS, D))    # ((2,2,keys/8), 1, 1)
    out.fill(0)
    top, total = mo.fragment(((2, 1),), mo.float32), mo.fragment(((2, 1),), mo.float32)
    top.fill(-math.inf)
    total.fill(0)
    for n in range(mo.size(gK, 2)):
        mo.copyto(mo.parallelize(sK, lanes, tid), mo.parallelize(gK[:, :, n], lanes, tid))
        mo.copyto(mo.parallelize(sV, across, tid), mo.parallelize(gV[:, :, n], across, tid))
        mo.fence_proxy_async()
        mo.sync_threads()
        mo.warpgroup_arrive()
        mo.gemm(mma_S, tSrQ, tSrK, S, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        softmax_step(S, out, top, total, mma_S, mma_O, scale)
        P = mo.accumulators_as_A(S.to(Q.dtype), mma_S, mma_O)       # ((2,2,2), 1, keys/16)
        mo.warpgroup_arrive()
        mo.gemm(mma_O, P, tOrV, out)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.sync_threads()
    sums = mo.mn_view(out, mma_O)
    sums[...] = sums / total
    mo.copyto(thr_O.partition_C(mo.tile(Y, (ROWS, D), (m, 0))), out)


def by_warps_arguments(Y, Q, K, V, keys=32):
    """The arguments of ``by_warps``; V is (N, D) here."""
    dtype = mo.bfloat16 if "bfloat" in str(Q.dtype) else mo.float16
    mma = mo.make_tiled_mma(mo.mma.find(dtype, dtype, mo.float32, (16, 8, 16))[0], mo.make_layout((4, 1)))
    return Y, Q, K, V.T, LOG2_E / math.sqrt(Q.shape[1]), mma, Q.shape[1], keys


def by_warpgroup_arguments(Y, Q, K, V, keys=64):
    """The arguments of ``by_warpgroup``; V is (N, D) here, and stays contiguous along D in shared memory."""
    dtype, D = mo.bfloat16 if "bfloat" in str(Q.dtype) else mo.float16, Q.shape[1]
    mma_S = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, keys))
    mma_O = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, D, b_major="mn", a_source="registers"))
    along_D = mo.smem_layout_atom(dtype, "k")
    layouts = (mo.tile_to_shape(along_D, (ROWS, D)), mo.tile_to_shape(along_D, (keys, D)),
               mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn"), (D, keys)))
    return Y, Q, K, V.T, LOG2_E / math.sqrt(D), mma_S, mma_O, layouts


KERNELS = {"by_warps": (by_warps, by_warps_arguments), "by_warpgroup": (by_warpgroup, by_warpgroup_arguments)}


def attention(name, Y, Q, K, V):
    """Y = softmax(Q K^T / sqrt(D)) V."""
    kernel, arguments = KERNELS[name]
    kernel[Q.shape[0] // ROWS, 128](*arguments(Y, Q, K, V))


def expected(Q, K, V):
    """The same in float64."""
    Q, K, V = (x.astype(np.float64) for x in (Q, K, V))
    scores = Q @ K.T / math.sqrt(Q.shape[1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ V
