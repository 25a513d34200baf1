"""Inclusive prefix sums down columns: along an axis that is not the contiguous one, in one pass.

In: x (columns, *others, n), its modes in the order of the strides.  Out: an array of its shape, summed along the last.

    scan_columns(out, x, modes)             # out[..., r] = x[..., 0] + ... + x[..., r]

A block has a part of some columns: threads side by side and below each other, each with a few rows in registers.  The
rows' sums go from thread to thread by shuffles, then through shared memory.  Where columns are few, blocks share them,
each in turn a part: a block tells the others its part's sums and adds up those between its last part and this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.loads import in_flight
from moye.kernels.maps import coordinate
from moye.kernels.workspace import empty

THREADS = 256
RUNNING = 768
"""Threads of a multiprocessor: they have 80 registers each."""
HELD = 32
"""Registers in which a thread holds what it read, and rows that it has at most."""
SEGMENT = 128
"""Bytes of a row that threads side by side read."""
MISSING = -1
"""The word of a sum that is not there yet: a NaN that no sum has."""
AHEAD = 4
"""Sums of other blocks that a thread reads together."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector; ``whole``: whether vectors divide the lines; ``lanes`` threads lie side by side
    and ``below`` one below the other, each with ``each`` rows of a part; ``several``: whether columns have more than
    one part; ``shared``: whether blocks share them."""

    width: int
    whole: bool
    lanes: int
    below: int
    each: int
    several: bool
    shared: bool
    compute: Any

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.lanes * self.below

    @property
    def alone(self) -> bool:
        """Whether a thread has all rows of its columns."""
        return self.below == 1 and not self.several

    @property
    def rows(self) -> int:
        """Of a part."""
        return self.below * self.each

    @property
    def columns(self) -> int:
        """Of a block."""
        return self.lanes * self.width

    @property
    def bits(self) -> Any:
        """The dtype of a sum's word."""
        return mo.int64 if self.compute is mo.float64 else mo.int32


def make_plan(modes: Sequence[views.Mode], infos: tuple[Any, Any]) -> tuple[Plan, tuple[int, int]]:
    """(the plan, the grid: blocks side by side, and how many share their columns).

    Threads side by side read 128 bytes of a row, and each holds 128 bytes of its columns or 32 rows.  Below each other
    are as many as have all rows, up to 256 threads; if they are fewer, more lie side by side.  Blocks share columns as
    far as all of them run together.  Vectors are narrower where a thread then has all rows of its columns, and nobody
    has to be told of a sum.
    """
    width, n, most = views.width_of(modes, *infos), modes[-1].extent, max(info.dtype.bytes for info in infos)

    def in_all(width: int) -> int:
        return -(-modes[0].extent // width) * math.prod(m.extent for m in modes[1:-1])

    fit, few = (threads * mo.multiprocessors(infos[0]) for threads in (RUNNING, THREADS))
    while n <= HELD and width > 1 and in_all(width // 2) <= (fit if HELD // max(1, width * most // 4) < n else few):
        width //= 2
    bytes_, vectors = width * most, in_all(width)
    each = min(HELD // max(1, bytes_ // 4), _power(n))
    narrow = min(SEGMENT // bytes_, _power(vectors))
    below = min(THREADS // narrow, _power(-(-n // each)))
    lanes = min(THREADS // below, _power(vectors))
    if below == 1:
        lanes = max(32, lanes)                          # threads without columns rather than ones to be told of sums
    below = max(below, 32 // lanes)
    groups, parts = -(-vectors // lanes), -(-n // (below * each))
    room = mo.multiprocessors(infos[0]) * (RUNNING // (lanes * below))
    blocks = min(parts, max(1, room // groups))
    wide = any(info.dtype is mo.float64 for info in infos)
    return Plan(width, modes[0].extent % width == 0, lanes, below, each, parts > 1, blocks > 1,
                mo.float64 if wide else mo.float32), (groups, blocks)


def _power(count: int) -> int:
    """The least power of two that is not less."""
    return 1 << (count - 1).bit_length()


@mo.kernel
def clear_kernel(words):
    """No word is there."""
    mo.griddepcontrol_launch_dependents()
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(words):
        words[i] = MISSING


@mo.jit
def held_rows(plan, x, at, first, alive):
    """The vectors of a thread at column ``at`` from row ``first`` on, zeros where there are none; and what is there."""
    held, n = [], mo.shape(x)[-1]
    inside = alive
    if not plan.whole:
        inside &= mo.elem_less(mo.tile(mo.identity_tensor((mo.size(x, 0),)), (plan.width,), at[:1], ragged=True),
                               (mo.size(x, 0),))
    for k in mo.static_range(plan.each):
        part, row = mo.fragment((plan.width,), x.dtype), first + k                                  # (width)
        there = inside & (row < n)
        mo.copyto(part, mo.tile(x[:, *at[1:], mo.min(row, n - 1)], (plan.width,), at[:1], ragged=True), pred=there,
                  zero_fill=True)
        held.append((part, there))
    return held


@mo.jit
def scan_warp(plan, mine, row):
    """(the sums of the rows above a thread's in its warp, of all rows of the warp up to its own), each (width)."""
    upto, step = mine, 1
    while step < 32 // plan.lanes:
        before = mo.shuffle_up(upto, step * plan.lanes)
        upto = upto + mo.where(row >= step, before, 0)
        step *= 2
    above = mo.shuffle_up(upto, plan.lanes) if plan.lanes < 32 else upto
    return mo.where(row > 0, above, 0), upto


@mo.jit
def vector_of(plan, sums, level, i):
    """Vector i (width) of a level of sums (columns, levels)."""
    held = mo.fragment((plan.width,), plan.compute)
    mo.copyto(held, mo.tile(sums[:, level], (plan.width,), (i,)))
    return held


@mo.jit
def scan_levels(plan, sums, carry):
    """sums (columns, levels) become a column's carry and what the levels above each have; the last one's and its own.

    A thread has a column, or several if there are more than threads: these have one part, and no carry.
    """
    for c in mo.range(mo.thread_idx().x, plan.columns, plan.threads):
        for level in mo.static_range(mo.size(sums, 1)):
            mine = sums[c, level]
            sums[c, level] = carry
            carry += mine
        if not plan.several:
            carry = plan.compute(0)
    return carry


@mo.jit
def publish(plan, sums, words, part):
    """Tell other blocks what all levels of sums (columns, levels) have."""
    c, total = mo.thread_idx().x, plan.compute(0)
    if c < plan.columns:
        for level in mo.static_range(mo.size(sums, 1)):
            total += sums[c, level]
        told = mo.where(total == total, total, math.nan).bitcast(plan.bits)         # a NaN, but not that of MISSING
        mo.store(words, (c, part), told, order="relaxed")


@mo.jit
def add_parts(plan, words, first, upto):
    """The sums of a column's parts from ``first`` up to ``upto``, as soon as they are there: a thread a column, and a
    part of every ``slots``."""
    slots, total = plan.threads // plan.columns, plan.compute(0)
    c, slot = mo.thread_idx().x % plan.columns, mo.thread_idx().x // plan.columns
    for start in mo.range(first + slot, upto, slots * AHEAD):
        seen = [mo.load(words, (c, mo.min(start + k * slots, upto - 1)), order="relaxed")
                for k in mo.static_range(AHEAD)]
        for k in mo.static_range(AHEAD):
            found, place = seen[k], start + k * slots
            while found == MISSING:
                found = mo.load(words, (c, mo.min(place, upto - 1)), order="relaxed")
            total += mo.where(place < upto, value_of(plan, found), 0)
    return total


@mo.jit
def value_of(plan, word):
    """The sum of a word."""
    return word.bitcast(plan.compute)


@mo.jit
def carried(plan, sums, told, words, last, part, carry):
    """A column's carry before this part: with ``last``, the one before the block's last part, what is between them."""
    publish(plan, sums, words, part)
    told[mo.thread_idx().x] = add_parts(plan, words, last, part)
    mo.sync_threads()
    if mo.thread_idx().x < plan.columns:
        for slot in mo.static_range(plan.threads // plan.columns):
            carry += told[slot * plan.columns + mo.thread_idx().x]
    return carry


@mo.jit
def put(plan, out, at, first, n, held, above):
    """Write the rows of a thread, from row ``first`` of n on, each with what is above it."""
    for k in mo.static_range(plan.each):
        vector, there = held[k]
        above += vector.to(plan.compute)
        line = out[:, *at[1:], mo.min(first + k, n - 1)]
        mo.copyto(mo.tile(line, (plan.width,), at[:1], ragged=True), above.to(out.dtype), pred=there)


@mo.kernel
def columns_kernel(out, x, words, plan: mo.Constexpr):
    """out = x summed along the last mode, (columns, *others, n) both; words (columns, parts, blocks) if shared."""
    mo.min_blocks(RUNNING // plan.threads)
    tid, n, w = mo.thread_idx().x, mo.shape(x)[-1], plan.width
    i, j, vectors = tid % plan.lanes, tid // plan.lanes, (mo.ceil_div(mo.size(x, 0), w), *mo.shape(x)[1:-1])
    at = coordinate(mo.block_idx().x * plan.lanes + i, vectors)
    rows = max(1, 32 // plan.lanes)                     # of a warp
    sums = mo.shared_array(plan.compute, mo.make_layout((plan.columns, plan.below // rows)))
    told, carry, last = mo.shared_array(plan.compute, plan.threads), plan.compute(0), mo.int32(0)
    if plan.shared:
        words = words[:, :, mo.block_idx().x]                                                   # (columns, parts)
    for part in mo.range(mo.block_idx().y, mo.ceil_div(n, plan.rows), mo.grid_dim().y):
        first = part * plan.rows + j * plan.each
        held = held_rows(plan, x, at, first, at[-1] < vectors[-1])
        mine = mo.fragment((w,), plan.compute)                                                  # (width)
        mine.fill(0)
        if plan.alone:
            in_flight(*[vector for vector, _ in held])
            put(plan, out, at, first, n, held, mine)
            continue
        for vector, _ in held:
            mine += vector.to(plan.compute)
        above, upto = scan_warp(plan, mine, j % rows)
        if j % rows == rows - 1:
            mo.copyto(mo.tile(sums[:, j // rows], (w,), (i,)), upto)
        mo.sync_threads()
        if plan.shared:
            if last == 0:
                mo.griddepcontrol_wait()
            carry = carried(plan, sums, told, words, last, part, carry)
            last = part
            scan_levels(plan, sums, carry)
        else:
            carry = scan_levels(plan, sums, carry)
        mo.sync_threads()
        above += vector_of(plan, sums, j // rows, i)
        put(plan, out, at, first, n, held, above)
        if plan.several:
            mo.sync_threads()                           # sums are used again


def scan_columns(out: Any, x: Any, modes: Sequence[views.Mode], infos: tuple[Any, Any]) -> None:
    """out = x summed along the last of the modes, which have (out's stride, x's stride)."""
    plan, grid = make_plan(modes, infos)
    words = None
    if plan.shared:
        words = empty(out, plan.bits, (plan.columns, -(-modes[-1].extent // plan.rows), grid[0]))
        clear_kernel[-(-math.prod(words.shape) // THREADS), THREADS](words)
    columns_kernel.launch(views.view(out, modes, 0), views.view(x, modes, 1), words, plan, grid=grid,
                          block=plan.threads, dependent=plan.shared)
