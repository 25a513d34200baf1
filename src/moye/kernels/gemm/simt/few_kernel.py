"""Products of up to eight rows with an operand along K, which streams from memory once: without tensor cores.

In: X (R, K), contiguous along K, and few rows S (F, K) of any strides, or batches of them.  Out: C (R, F), written.

    multiply(X, S, C, plan, size, alpha=0.5)            # C = alpha * X @ S.T + beta * C + residual + bias

A warp has some rows of X.  Its lanes lie along K, so that each reads what is next to its neighbour's, and nothing goes
through shared memory; the few rows come from L1.  Where rows of X are few, too, several warps of a block share the K of
a row.  Lanes, and then warps, add up their sums in one order.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.gemm.parts.operands import factor
from moye.kernels.gemm.simt.few import LANES, RESIDENT, WARPS, Few, FewPlan


def multiply(X: Any, S: Any, C: Any, plan: FewPlan, size: Few, *, alpha: Any = 1.0, beta: Any = 0.0,
             residual: Any = None, bias: Any = None) -> None:
    """C (R, F) = activation(alpha * X (R, K) @ S (F, K).T + beta * C + residual + bias), or batches of them.

    What of this is done is the plan's ``epilogue``.
    """
    blocks = plan.blocks(size.rows)
    gemm_few_kernel[blocks * size.batches, WARPS * LANES](X, S, C, residual, bias, alpha, beta, blocks, plan)


@mo.kernel
def gemm_few_kernel(X, S, C, residual, bias, alpha, beta, blocks, plan: mo.Constexpr):
    """A warp's rows of X times all few rows, or its share of their sums over K; ``blocks`` for each of the batches."""
    mo.min_blocks(RESIDENT)
    block = mo.block_idx().x
    if plan.batched:
        mo.assume(blocks > 0)
        batch, block = block // blocks, block % blocks
        X, S, C = X[:, :, batch], S[:, :, batch], C[:, :, batch]
        residual = None if residual is None else residual[:, :, batch]
    lane, warp = mo.thread_idx().x % LANES, mo.thread_idx().x // LANES
    strip, part = warp // plan.deep, warp % plan.deep
    first = (block * plan.strips + strip) * plan.rows
    sums = mo.fragment((plan.few, plan.rows), C.dtype)
    sums.fill(0)
    reads, beside = mo.size(X, 1) // plan.width, LANES * plan.deep
    for at in mo.range(part * LANES + lane, reads, beside * plan.steps):
        held = [read(plan, X, first, at + step * beside, plan.rows, reads) for step in range(plan.steps)]
        for step in mo.static_range(plan.steps):
            take(plan, sums, held[step], read(plan, S, 0, at + step * beside, plan.few, reads))
    own = total(plan, sums, lane, strip, part)
    row, f = first + lane // plan.few, lane % plan.few
    if (part == 0) & (lane < plan.few * plan.rows) & (row < mo.size(X, 0)) & (f < mo.size(S, 0)):
        C[row, f] = finished(plan, own, C, residual, bias, row, f, alpha, beta)


@mo.jit
def finished(plan, own, C, residual, bias, row, f, alpha, beta):
    """Everything that is done to a sum before it is stored."""
    epilogue = plan.epilogue
    if epilogue.scaled:
        own = own * factor(alpha, C.dtype)
    if epilogue.accumulate:
        own = own + C[row, f] * factor(beta, C.dtype)
    if epilogue.residual:
        own = own + C.dtype(residual[row, f])
    if epilogue.bias:
        own = own + C.dtype(bias[row if plan.bias_streams else f])
    return own if epilogue.activation is None else epilogue.activation(own)


@mo.jit
def read(plan, X, first, at, rows, reads):
    """(width, rows): some elements of each row; 0 behind K, and the last row again behind the last."""
    found = mo.fragment((plan.width, rows), X.dtype)
    for i in mo.static_range(rows):
        line = X[mo.min(first + i, mo.size(X, 0) - 1), None]                # (K)
        mo.copyto(found[:, i], mo.tile(line, (plan.width,), (mo.min(at, reads - 1),)), pred=at < reads, zero_fill=True)
    return found


@mo.jit
def take(plan, sums, x, s):
    """sums (few, rows) += the products of what was read."""
    for k in mo.static_range(plan.width):
        for i in mo.static_range(plan.rows):
            for f in mo.static_range(plan.few):
                sums[f, i] = sums[f, i] + x[k, i] * s[k, f]


@mo.jit
def total(plan, sums, lane, strip, part):
    """The sum over all lanes, and all warps that share the rows, of the element that this lane writes."""
    own = sums.dtype(0)
    for i in mo.static_range(plan.rows):
        for f in mo.static_range(plan.few):
            whole = mo.warp_reduce(sums[f, i], "add")
            own = mo.where(lane == i * plan.few + f, whole, own)
    if plan.deep > 1:
        room = mo.shared_array(sums.dtype, (LANES, plan.deep, plan.strips))
        room[lane, part, strip] = own
        mo.sync_threads()
        own = sums.dtype(0)
        for i in mo.static_range(plan.deep):
            own = own + room[lane, i, strip]
    return own
