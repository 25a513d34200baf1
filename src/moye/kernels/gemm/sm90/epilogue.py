"""From the sums of a warpgroup to C: gathered over a cluster, scaled, added to, activated, rounded, stored.

In: accumulators (MMA, MMA_M, MMA_N) of a tile, where it lies, C and what is fused.  Out: C written.

    store(plan, out, sC, acc, row, column, batch)

C goes through shared memory by TMA, 64 rows and up to 64 columns at a time through two buffers; a C that TMA cannot
describe is stored from registers, predicated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP

REPEATS = 1 << 30
"""Elements of a mode along which a vector repeats: more than any C has, as tiles reach beyond C."""


@dataclass(frozen=True, slots=True)
class Output:
    """C, as TMA copy or as tensor, what is fused into it, and its extents; what is not asked for is None.

    ``row``: where the matrix begins whose tiles these are, in a C of several.
    """

    tma: Any
    C: Any
    residual: Any
    bias: Any
    rows: Any
    columns: Any
    alpha: Any
    beta: Any
    M: Any
    N: Any
    row: Any = None


@mo.jit
def part_of(plan, X, place, batch):
    """A thread's elements of the piece of X, (M, N) or (M, N, L), that lies at ``place``."""
    matrix = X[:, :, batch] if mo.rank(X) == 3 else X
    thr_mma = plan.chunk.get_slice(mo.thread_idx().x % GROUP)
    return thr_mma.partition_C(mo.tile(matrix, (64, plan.columns), place, ragged=True))     # (MMA, 1, 1)


@mo.jit
def finish(plan, out, parts, place, batch):
    """Everything but the rounding, on the sums (MMA, 1, 1) of a piece, or of both halves of a gated product."""
    part = linear(plan, out, parts[0], place, batch, 0)
    if plan.fusion.activation is not None:
        part[...] = plan.fusion.activation(part)
    if plan.fusion.gated:
        part[...] = part * linear(plan, out, parts[1], place, batch, 1)
    return part


@mo.jit
def linear(plan, out, part, place, batch, half):
    """part * alpha * row_scale * col_scale + beta * C + residual + bias."""
    fusion, across = plan.fusion, 0 if plan.config.swap else 1
    if fusion.scaled:
        part[...] = part * out.alpha
    if fusion.rows:
        part[...] = part * along(plan, out, out.rows, 1 - across, part, place)
    if fusion.columns:
        part[...] = part * along(plan, out, out.columns[half], across, part, place)
    if fusion.accumulate or fusion.residual:
        coords = part_of(plan, mo.identity_tensor((out.M, out.N)), place, batch)
        inside = mo.fragment(mo.make_layout(mo.shape(part)), mo.bool)
        for v in mo.static_range(mo.size(part)):
            m, n = coords[v]
            inside[v] = (m < out.M) & (n < out.N)
        if fusion.accumulate:
            part[...] = part + read(part_of(plan, out.C, place, batch), inside, part.dtype) * out.beta
        if fusion.residual:
            part[...] = part + read(part_of(plan, out.residual, place, batch), inside, part.dtype)
    if fusion.bias:
        part[...] = part + along(plan, out, out.bias[half], across, part, place)
    return part


@mo.jit
def read(source, inside, dtype):
    """What of it lies inside, in the precision of the sums; zeros for the rest."""
    held = mo.fragment(mo.make_layout(mo.shape(source)), source.dtype)
    wide = mo.fragment(mo.make_layout(mo.shape(source)), dtype)
    mo.copyto(held, source, pred=inside, zero_fill=True)
    mo.copyto(wide, held)
    return wide


@mo.jit
def along(plan, out, vector, mode, part, place):
    """What a vector along a mode of C holds for a piece (MMA, 1, 1); a thread reads each element of its once."""
    extents = (out.M, out.N)
    coords = part_of(plan, mo.identity_tensor(extents), place, 0)
    tCgV = part_of(plan, spread(vector, mode, out.M, out.N), place, 0)  # ((2, 2, columns / 8), 1, 1): column, row, 8s
    modes = 3 if plan.columns > 8 else 2
    own = tCgV[(0, None, 0)[:modes], 0, 0] if mode == 0 else tCgV[(None, 0, None)[:modes], 0, 0]
    inside = mo.fragment(mo.make_layout(mo.shape(own)), mo.bool)
    for v in mo.static_range(mo.size(own)):
        first = 2 * v if mode == 0 else v % 2 + v // 2 * 4
        inside[v] = coords[first][mode] < extents[mode]
    steps = (0, 1, 0) if mode == 0 else (1, 0, 2)
    return read(own, inside, part.dtype).with_layout(mo.make_layout(mo.shape(tCgV), (steps[:modes], 0, 0)))


@mo.jit
def spread(vector, mode, M, N):
    """A vector along a mode as a tensor that repeats it along the other, beyond C too: tiles end before it does."""
    step = mo.stride(vector.layout)[0]
    if mode == 0:
        return vector.with_layout(mo.make_layout((M, REPEATS), (step, 0)))
    return vector.with_layout(mo.make_layout((REPEATS, N), (0, step)))


@mo.jit
def put(plan, out, sC, part, place, batch, buffer, pending):
    """A finished piece (MMA, 1, 1) to C, rounded; ``pending`` stores of this thread may still read shared memory."""
    tid = mo.thread_idx().x
    group, lane = tid // GROUP, tid % GROUP
    rounded = mo.make_fragment_like(part, plan.out)
    mo.copyto(rounded, part)
    thr_store = plan.store.get_slice(lane)
    tRrC = thr_store.retile_S(rounded)                                  # (CPY, CPY_M, CPY_N)
    if plan.major_C:
        rows = mo.size(plan.tiles[2], 0)
        by_warp = rows == 16
        first = lane % 32 == 0 if by_warp else lane == 0
        if first:
            mo.tma_store_wait(pending)
        meet(by_warp, group)
        sD = mo.tile(sC, (64, plan.columns, 1), (group, 0, buffer))[:, :, 0]        # (64, columns)
        mo.copyto(plan.store, thr_store.partition_D(sD), tRrC)
        mo.fence_proxy_async()
        meet(by_warp, group)
        if first:
            strip = lane // 32 if by_warp else 0
            row, column = place
            gC = tiles_of(below(out.tma.tensor, out.row), (rows, plan.columns), plan.batched)   # (rows, columns, m, n)
            sS = mo.tile(sC, (rows, plan.columns, 1), (group * (64 // rows) + strip, 0, buffer))[:, :, 0]
            mo.copyto(out.tma, at(gC, row * (64 // rows) + strip, column, batch, plan.batched), sS)
            mo.tma_store_arrive()
    else:
        C = below(out.C[:, :, batch] if mo.rank(out.C) == 3 else out.C, out.row)
        tDgC = thr_store.partition_D(mo.tile(C, (64, plan.columns), place, ragged=True))
        tDcC = thr_store.partition_D(mo.tile(mo.identity_tensor((out.M, out.N)), (64, plan.columns), place,
                                             ragged=True))
        width = mo.size(mo.shape(tDcC)[0][0])                           # ((width, stores), 1, 1)
        stores = mo.size(tDcC) // width
        inside = mo.fragment(stores, mo.bool)
        for s in mo.static_range(stores):
            m, n = tDcC[(0, s), 0, 0]
            inside[s] = (m < out.M) & (n < out.N)
        inside = inside.with_layout(mo.make_layout(((width, stores), 1, 1), ((0, 1), 0, 0)))
        mo.copyto(plan.store, tDgC, tRrC, pred=inside)


@mo.jit
def meet(by_warp, group):
    """The threads that store together."""
    if by_warp:
        mo.sync_warp()
    else:
        mo.barrier_sync(1 + group, GROUP)


@mo.jit
def below(X, row):
    """A matrix, or its coordinates, from a row on."""
    return X if row is None else mo.domain_offset((row, 0), X)


@mo.jit
def tiles_of(X, tiler, batched):
    """Tiles of TMA coordinates (rows, columns[, 1], m, n[, l])."""
    if batched:
        return mo.tile(X, (*tiler, 1), (None, None, None), ragged=True)
    return mo.tile(X, tiler, (None, None), ragged=True)


@mo.jit
def at(tiles, m, n, batch, batched):
    """One of them."""
    if batched:
        return tiles[:, :, :, m, n, batch]
    return tiles[:, :, m, n]
