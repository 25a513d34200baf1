"""The device side of ``gemm_streamed`` where what streams is contiguous along its rows, and not along K.

In: X (R, K) with lines of R elements that begin anywhere, few rows S (F, K).  Out: C (R, F), or sums of splits.

    gemm_turned_kernel[grid, 256](X, S, C, memory, plan)

Lines k = 8 q + c, for one c, begin equally far behind a multiple of 16 bytes, and each warp of a block has those of
one c.  A thread has 16 bytes of four lines, and of each of their eight columns an operand of an instruction.  The
warps' sums are shifted as their lines are, and meet in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.streamed.config import CLASSES, COLUMNS, FEW, LINES, VECTOR, WARPS

_AT_ONCE = 2                            # steps whose lines a thread has on their way
_STEP, _PITCH = 16, 80                  # lines of an instruction; elements between few rows: 32 bytes more than 128


@dataclass(frozen=True, slots=True)
class TurnedPlan:
    """What a launch is specialised on: ``tiles`` of 16 few rows, whether there are ``splits`` of K, whether 32 bits do
    not count the memory (``wide``), and ``resident`` blocks of a multiprocessor.
    """

    tiles: int
    splits: bool
    wide: bool
    resident: int
    mma: mo.TiledMMA


@mo.kernel
def gemm_turned_kernel(X, S, C, memory, plan: mo.Constexpr):
    """C (R, F) = X (R, K) @ S.T; or the part of a split, then C is (R, F, splits).

    ``memory``: the whole 16 bytes of X, and how many bytes behind the first of them X begins.
    """
    mo.min_blocks(plan.resident)
    if plan.splits:
        mo.griddepcontrol_launch_dependents()           # what adds the parts waits where blocks are free
    sS = mo.shared_array(S.dtype, mo.make_layout((FEW * plan.tiles, LINES, CLASSES, 2),
                                                 (_PITCH, 1, FEW * plan.tiles * _PITCH,
                                                  CLASSES * FEW * plan.tiles * _PITCH)), align=16)
    K, cls, first_column = mo.size(X, 1), mo.warp_idx(), mo.block_idx().x * COLUMNS
    split, splits = mo.block_idx().y, mo.grid_dim().y
    chunks = mo.ceil_div(K, CLASSES * LINES)
    first, last = split * chunks // splits, (split + 1) * chunks // splits
    sums = [[mo.fragment((4,), mo.float32) for _ in range(VECTOR)] for _ in range(plan.tiles)]
    for each in sums:
        for total in each:
            total.fill(0)
    steps = LINES // _STEP
    lines = whole_lines(plan, X, memory)
    held = fetch(plan, X, memory, first_column, first * steps, lines)
    clear(plan, sS, mo.size(S, 0))
    fill(S, sS[:, :, :, first % 2], first, lines)
    for chunk in mo.range(first, last):
        mo.sync_threads()                               # the chunk is there, and all have multiplied the one before
        if chunk + 1 < last:
            fill(S, sS[:, :, :, (chunk + 1) % 2], chunk + 1, lines)
        for step in mo.static_range(0, steps, _AT_ONCE):
            following = fetch(plan, X, memory, first_column, chunk * steps + step + _AT_ONCE, lines)
            for u in mo.static_range(_AT_ONCE):
                multiply(plan, held[4 * u:4 * u + 4], sS[:, :, cls, chunk % 2], step + u, sums, X.dtype)
            for old, new in zip(held, following, strict=True):
                old[...] = new
    mo.sync_threads()                                   # the few rows are read
    room = mo.recast(mo.tile(sS, (FEW * plan.tiles, LINES, CLASSES, 2), (0, 0, 0, 0)), mo.float32)
    meet(plan, X, S, C[:, :, split] if plan.splits else C, memory, room, first_column, (first, last, lines), sums)


@mo.jit
def begin_of(plan, X, memory, k):
    """Bytes between the first whole 16 of memory and those where a line begins."""
    k = mo.int64(k) if plan.wide else k
    return memory[1] + k * (mo.stride(X)[1] * X.dtype.bytes)


@mo.jit
def whole_lines(plan, X, memory):
    """Lines [first, last) that whole 16 bytes of memory hold: all, but for the first and the last one."""
    K, end = mo.size(X, 1), mo.size(memory[0]) * 4
    beyond = begin_of(plan, X, memory, K - 1) + mo.size(X, 0) * X.dtype.bytes > end
    return mo.where(begin_of(plan, X, memory, 0) < 0, 1, 0), mo.where(beyond, K - 1, K)


@mo.jit
def fetch(plan, X, memory, column, step, lines):
    """16 bytes of each of four lines of some steps, zeros for those that are not there: words of 32 bits."""
    parts, found = mo.tile(mo.recast(memory[0], mo.uint32), (4,), (None,)), []          # (4, parts)
    vector, R = column // VECTOR + mo.lane_idx() // 4, mo.size(X, 0)
    for u in mo.static_range(_AT_ONCE):
        for i in mo.static_range(4):
            k = ((step + u) * _STEP + mo.lane_idx() % 4 * 4 + i) * CLASSES + mo.warp_idx()
            part = (begin_of(plan, X, memory, k) >> 4) + vector
            words = mo.fragment((4,), mo.uint32)
            there = (k >= lines[0]) & (k < lines[1]) & (vector * VECTOR < R + VECTOR)
            inside = there & (part >= 0) & (part < mo.size(parts, 1))
            mo.copyto(words, parts[:, part], pred=inside, zero_fill=True)
            found.append(words)
    return found


@mo.jit
def clear(plan, sS, few):
    """Zeros where there are fewer rows than instructions have."""
    each = LINES * CLASSES * 2
    for at in mo.range(few * each + mo.thread_idx().x, FEW * plan.tiles * each, WARPS * 32):
        sS[at // each, at % LINES, at // LINES % CLASSES, at // (LINES * CLASSES) % 2] = 0


@mo.jit
def fill(S, sS, chunk, lines):
    """The few rows' elements of a chunk, by classes; zeros for lines that are not there: infinity by zero is none."""
    few, each = mo.size(S, 0), LINES * CLASSES
    for at in mo.range(mo.thread_idx().x, few * each, WARPS * 32, unroll=8):
        f, offset = at // each, at % each
        k = chunk * each + offset
        sS[f, offset // CLASSES, offset % CLASSES] = S[f, k] if (k >= lines[0]) & (k < lines[1]) else S.dtype(0)


@mo.jit
def multiply(plan, lines, sS, step, sums, dtype):
    """Add the products of 16 lines: eight columns of a thread, each a column of eight instructions."""
    lane = mo.lane_idx()
    few = []
    for tile in mo.static_range(plan.tiles):
        words = mo.fragment((4,), mo.uint32)
        for half in mo.static_range(2):
            pair = mo.fragment((4,), dtype)
            row = tile * FEW + half * 8 + lane // 4
            mo.copyto(pair, mo.tile(sS, (1, 4), (row, step * 4 + lane % 4))[0, None])
            both = mo.recast(pair, mo.uint32)
            words[half], words[2 + half] = both[0], both[1]
        few.append(mo.recast(words, dtype).with_layout(mo.make_layout(((2, 2, 2), 1))))
    for j in mo.static_range(VECTOR):
        b = mo.fragment((2,), mo.uint32)
        for h in mo.static_range(2):
            b[h] = pair_of(lines[2 * h][j // 2], lines[2 * h + 1][j // 2], j % 2)
        for tile in mo.static_range(plan.tiles):
            mo.gemm(plan.mma, few[tile], mo.recast(b, dtype).with_layout(mo.make_layout(((2, 2), 1))),
                    sums[tile][j].with_layout(mo.make_layout(((2, 2), 1, 1))))


def pair_of(low: Any, high: Any, which: int) -> Any:
    """The lower, or the upper, 16 bits of two words, in one."""
    return mo.prmt(low, high, 0x7632 if which else 0x5410)


@mo.jit
def meet(plan, X, S, C, memory, room, column, chunks, sums):
    """The sums of a block's warps, each as far shifted as its lines, added up in their order, and stored."""
    few, lane = FEW * plan.tiles, mo.lane_idx()
    found = room.with_layout(mo.make_layout((COLUMNS, few, CLASSES), (1, COLUMNS + 1, few * (COLUMNS + 1))))
    lead = mo.int32(begin_of(plan, X, memory, mo.warp_idx()) % 16 // X.dtype.bytes)
    for tile in mo.static_range(plan.tiles):
        for j in mo.static_range(VECTOR):
            for half in mo.static_range(2):
                for e in mo.static_range(2):
                    n = (lane % 4 * 2 + e) * VECTOR + j - lead
                    if (n >= 0) & (n < COLUMNS):
                        found[n, tile * FEW + half * 8 + lane // 4, mo.warp_idx()] = sums[tile][j][2 * half + e]
    mo.sync_threads()
    for at in mo.range(mo.thread_idx().x, mo.size(S, 0) * COLUMNS, WARPS * 32):
        n, f = at % COLUMNS, at // COLUMNS
        if column + n < mo.size(X, 0):
            total = found[n, f, 0]
            for cls in mo.static_range(1, CLASSES):
                total += found[n, f, cls]
            C[column + n, f] = C.dtype(total + beside(X, S, column + n, f, chunks))


@mo.jit
def beside(X, S, n, f, chunks):
    """What the first and the last line add that whole 16 bytes do not hold."""
    total, (first, last, lines), each = mo.float32(0), chunks, LINES * CLASSES
    if (lines[0] > 0) & (first == 0):
        total += X[n, 0].to(mo.float32) * S[f, 0].to(mo.float32)
    k = lines[1]
    if (k < mo.size(X, 1)) & (k >= lines[0]) & (k >= first * each) & (k < last * each):
        total += X[n, k].to(mo.float32) * S[f, k].to(mo.float32)
    return total
