"""From accumulators to C: scaled, added to, activated, rounded, through shared memory, stored 16 bytes at a time.

In: accumulators (MMA, MMA_M, MMA_N) of a tile, C and what is added.  Out: C written.

    gemm_sm80(A, B, C, activation=lambda x: mo.maximum(x, 0.0) * 2.0)      # any function of a register tensor

``Epilogue`` is part of a kernel's specialisation: functions count by their code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.operands import factor
from moye.kernels.gemm.parts.rows import Strip, leading, staging, store_strip


@dataclass(frozen=True, slots=True)
class Epilogue:
    """C = activation(alpha * A B^T + beta * C + residual + bias), of which only what is asked for is done."""

    scaled: bool = False
    accumulate: bool = False
    residual: bool = False
    bias: bool = False
    activation: Callable[[Any], Any] | None = None


Activation = str | Callable[[Any], Any]
ACTIVATIONS: dict[str, Callable[[Any], Any] | None] = {"none": None, "relu": mo.relu, "gelu": mo.gelu, "silu": mo.silu}


@mo.jit
def added(acc, source, inside):
    """What the source holds where the accumulators are ``inside`` (None: all are), in their precision."""
    more = mo.make_fragment_like(acc, source.dtype)
    mo.copyto(more, source, pred=inside, zero_fill=inside is not None)
    wide = mo.make_fragment_like(acc)
    mo.copyto(wide, more)
    return wide


@mo.jit
def finish(epilogue, acc, tCgC, tCgR, tCgBias, tCcC, M, N, alpha, beta):
    """Everything but the rounding, on accumulators of (MMA, 1, MMA_N)."""
    if epilogue.scaled:
        acc[...] = acc * factor(alpha, acc.dtype)
    if epilogue.accumulate or epilogue.residual or epilogue.bias:
        inside = mo.fragment(mo.make_layout(mo.shape(acc)), mo.bool)
        for v in mo.static_range(mo.size(acc)):
            m, n = tCcC[v]
            inside[v] = (m < M) & (n < N)
        if epilogue.accumulate:
            acc[...] = acc + added(acc, tCgC, inside) * factor(beta, acc.dtype)
        if epilogue.residual:
            acc[...] = acc + added(acc, tCgR, inside)
        if epilogue.bias:
            acc[...] = acc + added(acc, tCgBias, inside)
    if epilogue.activation is not None:
        acc[...] = epilogue.activation(acc)


@mo.jit
def spread(bias, M, N, mode=1):
    """A vector along N, or along M for mode 0, as the (M, N) tensor that repeats it."""
    step = mo.stride(bias.layout)[0]
    return bias.with_layout(mo.make_layout((M, N), (0, step) if mode == 1 else (step, 0)))


@mo.jit
def store(plan, acc, output, residual, bias, bx, by, alpha, beta):
    """A tile to C, one row of instructions (MMA_M) at a time.

    ``output``: all matrices of C, the rest of the coordinate of this tile's among them, and that matrix.
    """
    tid, (whole, batch, C) = mo.thread_idx().x, output
    M, N = mo.size(C, 0), mo.size(C, 1)
    rows, bN, chunks = mo.size(plan.sC, 0), plan.config.bN, mo.size(acc, 1)
    ragged, thr_mma = plan.ragged[0] or plan.ragged[1], plan.mma.get_slice(tid)
    sC = mo.shared_array(C.dtype, plan.sC)                              # (rows, bN), or with room behind the rows
    for i in mo.static_range(chunks):
        place = (bx * chunks + i, by)
        gC = mo.tile(C, (rows, bN), place, ragged=ragged)
        cC = mo.tile(mo.identity_tensor((M, N)), (rows, bN), place, ragged=True)
        gR, gBias = None, None
        if plan.epilogue.residual:
            gR = thr_mma.partition_C(mo.tile(residual, (rows, bN), place, ragged=ragged))
        if plan.epilogue.bias:
            gBias = thr_mma.partition_C(mo.tile(spread(bias, M, N), (rows, bN), place, ragged=ragged))
        part = plan.mma.partition_fragment_C((rows, bN))                # (MMA, 1, MMA_N)
        mo.copyto(part[:, 0, :], acc[:, i, :])
        finish(plan.epilogue, part, thr_mma.partition_C(gC), gR, gBias, thr_mma.partition_C(cC), M, N, alpha, beta)
        if i > 0:
            mo.sync_threads()
        if plan.grain:
            strip = Strip(whole, batch, C, sC, place[0] * rows, by * bN, bN, M, N)
            stage(strip, plan.grain, thr_mma, part)
            mo.sync_threads()
            store_strip(strip, tid, plan.config.threads)
        else:
            mo.copyto(thr_mma.partition_C(sC), part)
            mo.sync_threads()
            put(plan, gC, cC, sC, M, N)


@mo.jit
def stage(strip, grain, thr_mma, part):
    """Sums (MMA, 1, MMA_N), rounded, to shared memory, where rows lie as far behind 16 bytes as in C."""
    rounded = mo.make_fragment_like(part, strip.C.dtype)
    mo.copyto(rounded, part)
    shape = mo.size(strip.staged, 0), strip.columns
    rows = thr_mma.partition_C(mo.identity_tensor(shape))               # ((2, 2), 1, MMA_N): column, row
    for half in mo.static_range(2):
        begun = thr_mma.partition_C(leading(strip, rows[(0, half), 0, 0][0]))
        mo.copyto(staging(strip.C.dtype, grain), begun[(None, half), 0, None], rounded[(None, half), 0, None])


@mo.jit
def put(plan, gC, cC, sC, M, N):
    """Rows of a tile from shared memory to C, ``plan.store`` at a time."""
    thr_store = plan.store.get_slice(mo.thread_idx().x)
    tDsC, tDgC, tDcC = thr_store.partition_S(sC), thr_store.partition_D(gC), thr_store.partition_D(cC)
    if plan.ragged[0] or plan.ragged[1]:
        inside = mo.fragment((1, mo.size(tDcC, 1), mo.size(tDcC, 2)), mo.bool)
        for p in mo.static_range(mo.size(tDcC, 1)):
            for q in mo.static_range(mo.size(tDcC, 2)):
                m, n = tDcC[0, p, q]
                inside[0, p, q] = (m < M) & (n < N)
        mo.copyto(plan.store, tDgC, tDsC, pred=inside)                  # (CPY, CPY_M, CPY_N)
    else:
        mo.copyto(plan.store, tDgC, tDsC)


@mo.kernel
def reduce_kernel(C, parts, residual, bias, alpha, beta, splits: mo.Constexpr, epilogue: mo.Constexpr):
    """C (M, N, L) from parts (N, M, splits * L): their sum over splits, finished; one element a thread, N fastest."""
    mo.griddepcontrol_wait()                            # for the launch that makes the parts
    M, N = mo.size(C, 0), mo.size(C, 1)
    _, bz, _ = mo.block_idx()
    index = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if index < M * N:
        n, m = index % N, index // N
        total = parts[n, m, bz * splits]
        for s in mo.static_range(1, splits):
            total = total + parts[n, m, bz * splits + s]
        if epilogue.scaled:
            total = total * factor(alpha, parts.dtype)
        if epilogue.accumulate:
            total = total + parts.dtype(C[m, n, bz]) * factor(beta, parts.dtype)
        if epilogue.residual:
            total = total + parts.dtype(residual[m, n, bz])
        if epilogue.bias:
            total = total + parts.dtype(bias[n])
        if epilogue.activation is not None:
            total = epilogue.activation(total)
        C[m, n, bz] = C.dtype(total)
