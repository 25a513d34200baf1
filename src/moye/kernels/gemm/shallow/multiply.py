"""Products of ``gemm_shallow``: lines in shared memory, as they lie in memory, to registers and sums.

In: both operands' ``Side``.  Out: a warp's sums of its rows and columns of a tile.

    sums = products(plan, (a, b), (row, column))

A thread's lines are multiples of eight apart, or of four of 32 bits, and so all begin equally far behind 16 bytes.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.gemm.shallow.lines import begin_of


@mo.jit
def products(plan, sides, place):
    """The sums of a warp's part of the tile: (MMA, MMA_M, MMA_N)."""
    acc = plan.mma.partition_fragment_C((plan.config.rows, plan.config.columns))
    acc.fill(0)
    whole = plan.whole // plan.step
    for block in mo.range(whole, unroll=1):             # code that is cold is there once
        multiply(plan, sides, place, block, acc, False)
    for block in mo.static_range(whole, plan.depth // plan.step):
        multiply(plan, sides, place, block, acc, True)
    return acc


@mo.jit
def multiply(plan, sides, place, block, acc, cut):
    """acc += the k of an instruction of a warp's rows of A and of B; ``cut``: some may lie beyond K."""
    A, B = (operand(plan, sides, which, place[which], block, cut) for which in range(2))
    mo.gemm(plan.mma, A, B, acc)


@mo.jit
def operand(plan, sides, which, row, block, cut):
    """The k of an instruction of a warp's rows of an operand, in registers: (MMA, MMA_M)."""
    way, side, rows = plan.ways[which], sides[which], (plan.config.rows, plan.config.columns)[which]
    thr_mma = plan.mma.get_slice(mo.lane_idx())
    tile = mo.tile(in_place(way, side), (rows, plan.step), (row // rows, block))
    found = thr_mma.partition_fragment_B(tile) if which else thr_mma.partition_fragment_A(tile)     # (MMA, MMA_M, 1)
    if plan.read[which] is not None:
        thr_read = plan.read[which].get_slice(mo.lane_idx())
        mo.copyto(plan.read[which], thr_read.retile_D(found), thr_read.partition_S(tile))
        return found[:, :, 0]
    places = mo.identity_tensor((rows, plan.step))
    places = thr_mma.partition_B(places) if which else thr_mma.partition_A(places)
    rounding = found.dtype == mo.tfloat32               # float32 is rounded in registers
    read = mo.make_fragment_like(found, mo.float32) if rounding else found
    gather(way, side, read[:, :, 0], places[:, :, 0], row, block * plan.step, cut)
    if rounding:
        mo.copyto(found, read)
    return found[:, :, 0]


@mo.jit
def in_place(way, side):
    """Lines as the operand's tile (rows, depth), if they are not shifted."""
    parts, lines = mo.size(side.raw, 1), mo.size(side.raw, 2)
    along, pitch = (parts - 1) * side.each, parts * side.each
    layout = mo.make_layout((along, lines) if way.turned else (lines, along), (1, pitch) if way.turned else (pitch, 1))
    return mo.recast(side.raw, side.source.dtype).with_layout(layout)


@mo.jit
def gather(way, side, found, places, row, k, cut):
    """Elements of lines that begin anywhere, one by one, or by pairs along K; zeros for what is beyond K."""
    pitch, K = mo.size(side.raw, 1) * side.each, mo.size(side.source, 1)
    words = side.raw.with_layout(mo.make_layout(mo.size(side.raw)))
    elements, pairs = mo.recast(words, side.source.dtype), way.pairs and not way.turned and side.each == 8
    cut = cut and not way.turned                        # lines beyond K are zeros
    for v in mo.static_range(0, mo.size(found, 0), 2 if pairs else 1):
        at = k + places[v, 0][1]
        lead = begin_of(side, places[v % 2, 0][1] if way.turned else mo.lane_idx() // 4) % side.each
        for i in mo.static_range(mo.size(found, 1)):
            line, along = (at, row + places[v, i][0]) if way.turned else (row + places[v, i][0], at)
            if pairs:
                pair = words[line * (pitch // 2) + along // 2 + lead // 2]
                mo.recast(found, mo.uint32)[v // 2, i] = pair & kept(at, K) if cut else pair
            else:
                x = elements[line * pitch + along + lead]
                found[v, i] = mo.where(at < K, x, side.source.dtype(0)) if cut else x


@mo.jit
def kept(k, K):
    """The bits that stay of two elements from ``k`` on."""
    return mo.where(k + 1 < K, mo.uint32(0xFFFFFFFF), mo.where(k < K, mo.uint32(0xFFFF), mo.uint32(0)))
