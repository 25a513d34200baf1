"""A tile of ``gemm_shallow`` on its way to C, through shared memory.

In: each warp's sums.  Out: rows of C, 16 bytes at a time wherever they begin.

    out = out_of(plan, C, batch); stage(plan, out, sC, place, inside, sums); leave(plan, out, sC, begin, inside)

Tiles begin at multiples of 16 rows and columns: rows that are multiples of eight apart begin equally far behind 16
bytes, and in shared memory they lie as far behind 16 bytes as in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.shallow.config import REACH


@dataclass(frozen=True, slots=True)
class Out:
    """C as a block sees it: ``matrix`` (M, N), which begins ``base`` elements behind the first of the ``memory``, parts
    of 16 bytes.
    """

    matrix: Any
    memory: Any
    base: Any


@mo.jit
def out_of(plan, C, batch):
    """C, or one of many."""
    width = 16 // C.dtype.bytes
    memory = C.with_layout(mo.make_layout((width, REACH), (1, width)))
    if plan.batched:
        return Out(C[:, :, batch], memory, batch * mo.stride(C)[2])
    return Out(C, memory, 0)


@mo.jit
def stage(plan, out, sC, place, inside, sums):
    """A warp's sums, rounded, to shared memory."""
    C, pitch, lead = out.matrix, pitch_of(plan, out), lead_of(plan, out, mo.lane_idx() // 4)
    places = plan.mma.get_slice(mo.lane_idx()).partition_C(mo.identity_tensor((plan.config.rows, plan.config.columns)))
    rounded = mo.make_fragment_like(sums, C.dtype)
    mo.copyto(rounded, sums)
    pairs = C.dtype.bytes == 2 and plan.grain % 2 == 0
    for i in mo.static_range(mo.size(sums, 1)):
        for j in mo.static_range(mo.size(sums, 2)):
            for v in mo.static_range(0, mo.size(sums, 0), 2 if pairs else 1):
                row, column = place[0] + places[v, i, j][0], place[1] + places[v, i, j][1]
                if not plan.flat or (row < inside[0]) & (column < inside[1]):
                    if pairs:
                        at = row * (pitch // 2) + column // 2 + lead // 2
                        mo.recast(sC, mo.uint32)[at] = mo.recast(rounded, mo.uint32)[v // 2, i, j]
                    else:
                        sC[row * pitch + column + lead] = rounded[v, i, j]


@mo.jit
def lead_of(plan, out, row):
    """Elements from a multiple of 16 bytes to what a tile has of one of its rows; of flat ones, to the tile."""
    width = 16 // out.matrix.dtype.bytes
    if plan.grain == width or (plan.flat and not plan.batched):
        return 0
    return (out.base if plan.flat else out.base + row * mo.stride(out.matrix)[0]) % width


@mo.jit
def pitch_of(plan, out):
    """Elements from row to row of a tile in shared memory."""
    return mo.stride(out.matrix)[0] if plan.flat else plan.config.bN + 16 // out.matrix.dtype.bytes


@mo.jit
def leave(plan, out, sC, begin, inside):
    """The tile to C."""
    if plan.flat:
        leave_together(plan, out, sC, begin[0], inside[0])
    else:
        leave_by_rows(plan, out, sC, begin, inside)


@mo.jit
def leave_together(plan, out, sC, m, rows):
    """A tile of whole rows to C, as one piece: its whole 16 bytes, and single elements where it begins and ends."""
    width, N, tid = 16 // sC.dtype.bytes, mo.size(out.matrix, 1), mo.thread_idx().x
    length, lead = rows * N, lead_of(plan, out, 0)      # m * N is a multiple of ``width``
    front = mo.min((width - lead) % width, length) if plan.batched else 0
    first, parts = (out.base + m * N + front) // width, (length - front) // width
    for t in mo.range(tid, parts, plan.config.threads, unroll=4):
        mo.copyto(out.memory[None, first + t], mo.tile(sC, (width,), ((lead + front) // width + t,)))
    if tid < length - front - parts * width:
        out.memory[tid, first + parts] = sC[lead + front + parts * width + tid]
    if plan.batched and tid < front:
        out.memory[lead + tid, (out.base + m * N) // width] = sC[lead + tid]


@mo.jit
def leave_by_rows(plan, out, sC, begin, inside):
    """A tile to C: the whole 16 bytes of each row, and single elements where it begins and ends."""
    C, width, tid, pitch = out.matrix, 16 // sC.dtype.bytes, mo.thread_idx().x, pitch_of(plan, out)
    parts = plan.config.bN // width
    row, q, step = tid // parts, tid % parts, plan.config.threads // parts              # a multiple of ``width``
    lead = lead_of(plan, out, row)
    front = (width - lead) % width                      # elements before the first whole part
    part = (out.base + (begin[0] + row) * mo.stride(C)[0] + begin[1] + front) // width + q
    further = step * mo.stride(C)[0] // width
    if front + q * width + width <= inside[1]:
        for i in mo.static_range(-(-plan.config.bM // step)):
            if (plan.config.bM % step == 0 or row + i * step < plan.config.bM) & (row + i * step < inside[0]):
                staged = mo.tile(sC, (width,), ((row + i * step) * (pitch // width) + (lead + width - 1) // width + q,))
                mo.copyto(out.memory[None, part + i * further], staged)
    if plan.grain < width or inside[1] % width != 0:
        leave_ends(plan, out, sC, begin, inside)


@mo.jit
def leave_ends(plan, out, sC, begin, inside):
    """The elements of each row in front of its whole 16 bytes and behind them, one a thread."""
    C, width, pitch = out.matrix, 16 // sC.dtype.bytes, pitch_of(plan, out)
    row, e, step = mo.thread_idx().x // (2 * width), mo.thread_idx().x % (2 * width), plan.config.threads // (2 * width)
    lead = lead_of(plan, out, row)
    front = mo.min((width - lead) % width, inside[1])
    at = mo.where(e < width, e, front + (inside[1] - front) // width * width + e - width)
    if at < mo.where(e < width, front, inside[1]):
        for i in mo.static_range(-(-plan.config.bM // step)):
            if row + i * step < inside[0]:
                C[begin[0] + row + i * step, begin[1] + at] = sC[(row + i * step) * pitch + lead + at]
