"""Attention forward by mma.sync, on sm_80 and later: four warps share a tile of queries, each has whole rows of it.

In: Q (queries, dim, heads, batch), K (keys, dim, ...), V (dim_v, keys, ...), O; the scores' rules; a ``ForwardPlan``.
Out: O, and the logarithm of each row's sum of exponentials.

While a tile of keys is multiplied, its values are on their way; while values are multiplied, the next keys are.
Source: Dao: FlashAttention-2 (2023).
"""

from __future__ import annotations

import math

import moye as mo
from moye.kernels.attention.parts.scores import LOG2_E, Place, Scores, key_tiles, mask, modify
from moye.kernels.attention.parts.softmax import finished, online, rescale, row_state
from moye.kernels.attention.sm80.plan import KEYS


@mo.kernel
def attention_sm80_kernel(Q, K, V, O, lse, scale, softcap, left, right, bias, slopes, sinks, tensors,
                          plan: mo.Constexpr):
    """A tile of bM queries of one head for each block; those with the most keys come first."""
    how = Scores(plan.rules, mo.size(Q, 0), mo.size(K, 0), scale, softcap, left, right, bias, slopes, tensors)
    m_tiles, tid = mo.ceil_div(how.queries, plan.bM), mo.thread_idx().x
    m, head, batch = m_tiles - 1 - mo.block_idx().x, mo.block_idx().y, mo.block_idx().z
    gQ, gO = Q[:, :, head, batch], O[:, :, head, batch]
    gK, gV = K[:, :, head // plan.heads_of_a_key, batch], V[:, :, head // plan.heads_of_a_key, batch]
    memory = mo.shared_array(plan.dtype, max(mo.cosize(plan.Q), mo.cosize(plan.O)), align=1024)
    sQ = memory.with_layout(plan.Q)                                                 # (bM, dim)
    sK, sV = mo.shared_array(plan.dtype, plan.K), mo.shared_array(plan.dtype, plan.V)   # (KEYS, dim), (dim_v, KEYS)
    S = plan.mma.partition_fragment_C((plan.bM, KEYS))                              # (MMA, MMA_M, MMA_N)
    acc = plan.mma.partition_fragment_C((plan.bM, plan.dim_v))                      # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    rows = row_state(mo.size(mo.mn_view(S, plan.mma), 0))
    rows.top.fill(-math.inf)
    rows.total.fill(0)
    fold = LOG2_E if how.modified else how.scale * LOG2_E
    least, most, low, high = key_tiles(how, m * plan.bM, plan.bM, KEYS)
    fetch(plan.copy_Q, sQ, gQ, m, 0)
    fetch(plan.copy_K, sK, gK, most - 1, 0)
    for n in range(most - 1, least - 1, -1):
        arrived()                                       # the keys; and nobody reads the values before any more
        fetch(plan.copy_V, sV, gV, n, 1)
        multiply_scores(plan, S, sQ, sK)
        arrived()                                       # the values; and nobody reads the keys any more
        if n > least:
            fetch(plan.copy_K, sK, gK, n - 1, 0)
        judge(plan, how, S, (m, head, batch), n, (n >= high) | (n < low))
        online(rows, mo.mn_view(S, plan.mma), fold, False, plan.rules.masks)
        rescale(mo.mn_view(acc, plan.mma), rows.shrink)
        multiply_values(plan, acc, S, sV)
    factor, log_sum = finished(rows, fold, None if sinks is None else sinks[head] * LOG2_E)
    rescale(mo.mn_view(acc, plan.mma), factor)
    put(plan, gO, memory.with_layout(plan.O), acc, m)                               # nobody needs the queries any more
    if lse is not None:
        first = m * plan.bM + tid // 32 * 16 + tid % 32 // 4
        if tid % 4 == 0:
            for i in mo.static_range(mo.size(log_sum)):
                row = first + i % 2 * 8 + i // 2 * 64
                if row < how.queries:
                    lse[row, head, batch] = log_sum[i] / LOG2_E


@mo.jit
def arrived():
    """All that was asked for is there, for all threads; and all threads are here."""
    mo.cp_async_wait()
    mo.sync_threads()


@mo.jit
def fetch(copy, smem, X, tile, along):
    """Ask for a tile of rows; mode ``along`` counts them, the other one is the head dimension.  Zeros lie beyond."""
    thr, extents = copy.get_slice(mo.thread_idx().x), (mo.size(smem, 0), mo.size(smem, 1))
    at = (tile, 0) if along == 0 else (0, tile)
    source = thr.partition_S(mo.tile(X, extents, at, ragged=True))                  # (CPY, CPY_M, CPY_N)
    coords = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(X)), extents, at, ragged=True))
    stage = thr.partition_D(smem)                                                   # (CPY, CPY_M, CPY_N)
    inside = mo.fragment((1, mo.size(stage, 1), mo.size(stage, 2)), mo.bool)
    for i in mo.static_range(mo.size(stage, 1)):
        for j in mo.static_range(mo.size(stage, 2)):
            inside[0, i, j] = mo.elem_less(coords[0, i, j], mo.shape(X))
    mo.copyto(copy, stage, source, pred=inside, zero_fill=True)
    mo.cp_async_commit()


@mo.jit
def multiply_scores(plan, S, sQ, sK):
    """S = Q K^T of the tiles in shared memory."""
    tid = mo.thread_idx().x
    thr, thr_Q, thr_K = plan.mma.get_slice(tid), plan.read_Q.get_slice(tid), plan.read_K.get_slice(tid)
    tCrQ, tCrK = thr.partition_fragment_A(sQ), thr.partition_fragment_B(sK)         # (MMA, MMA_M, MMA_K)
    tXsQ, tXsK = thr_Q.partition_S(sQ), thr_K.partition_S(sK)                       # (CPY, CPY_M, CPY_K)
    tXrQ, tXrK = thr_Q.retile_D(tCrQ), thr_K.retile_D(tCrK)
    S.fill(0)
    for k in mo.static_range(mo.size(tCrQ, 2)):
        mo.copyto(plan.read_Q, tXrQ[:, :, k], tXsQ[:, :, k])
        mo.copyto(plan.read_K, tXrK[:, :, k], tXsK[:, :, k])
        mo.gemm(plan.mma, tCrQ[:, :, k], tCrK[:, :, k], S)


@mo.jit
def multiply_values(plan, acc, S, sV):
    """acc += P V: the exponentials are operand A as they lie in registers."""
    tid = mo.thread_idx().x
    thr, thr_V = plan.mma.get_slice(tid), plan.read_V.get_slice(tid)
    P = mo.accumulators_as_A(S.to(plan.dtype), plan.mma, plan.mma)                  # (MMA, MMA_M, MMA_K)
    tCrV = thr.partition_fragment_B(sV)                                             # (MMA, MMA_N, MMA_K)
    tXsV, tXrV = thr_V.partition_S(sV), thr_V.retile_D(tCrV)                        # (CPY, CPY_N, CPY_K)
    for k in mo.static_range(mo.size(tCrV, 2)):
        mo.copyto(plan.read_V, tXrV[:, :, k], tXsV[:, :, k])
        mo.gemm(plan.mma, P[:, :, k], tCrV[:, :, k], acc)


@mo.jit
def judge(plan, how, S, place, n, masked):
    """Scores become what the rules make of them."""
    m, head, batch = place
    tid, rows = mo.thread_idx().x, mo.mn_view(S, plan.mma)
    at = Place(m * plan.bM + tid // 32 * 16 + tid % 32 // 4, n * KEYS + tid % 4 * 2, head, batch)
    if how.modified:
        modify(how, rows, at)
    if plan.rules.masks and masked:
        mask(how, rows, at)


@mo.jit
def put(plan, gO, sO, acc, m):
    """The tile of O, by way of shared memory (bM, dim_v), to copy neighbours together."""
    tid = mo.thread_idx().x
    thr = plan.copy_O.get_slice(tid)
    mo.sync_threads()
    mo.copyto(plan.mma.get_slice(tid).partition_C(sO), acc.to(plan.dtype))
    mo.sync_threads()
    extents = plan.bM, plan.dim_v
    target = thr.partition_D(mo.tile(gO, extents, (m, 0), ragged=True))             # (CPY, CPY_M, CPY_N)
    coords = thr.partition_D(mo.tile(mo.identity_tensor(mo.shape(gO)), extents, (m, 0), ragged=True))
    held = mo.make_fragment_like(target)
    mo.copyto(plan.copy_O, held, thr.partition_S(sO))
    inside = mo.fragment((1, mo.size(held, 1), mo.size(held, 2)), mo.bool)
    for i in mo.static_range(mo.size(held, 1)):
        for j in mo.static_range(mo.size(held, 2)):
            inside[0, i, j] = mo.elem_less(coords[0, i, j], mo.shape(gO))
    mo.copyto(plan.copy_O, target, held, pred=inside)
