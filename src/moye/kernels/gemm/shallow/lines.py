"""Operands of ``gemm_shallow`` on their way to shared memory, where their lines lie as in memory.

In: an operand (rows, K), contiguous along K or along its rows, and the whole 16 bytes of its memory.  Out: ``Side``.

    side = side_of(plan, way, X, memory, rows, first, batch); fetch(plan, way, side)

Of each line of a tile come the 16 bytes that hold some of it, one more than aligned lines have.  What no whole 16 bytes
of memory hold, its first and last elements, comes one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.pack import Memory


@dataclass(frozen=True, slots=True)
class Side:
    """An operand as a block sees it: lines in shared memory, as they lie in memory.

    ``raw`` (4, parts, lines) are words.  The tile has ``rows`` from ``first`` on.  ``memory`` counts in elements.
    """

    source: Any
    memory: Memory
    raw: Any
    first: Any
    rows: int

    @property
    def each(self) -> int:
        """Elements of 16 bytes."""
        return 16 // int(self.source.dtype.bytes)


@mo.jit
def side_of(plan, way, X, memory, rows, first, batch):
    """An operand's lines in shared memory, which are not there yet."""
    lines, along = (plan.depth, rows) if way.turned else (rows, plan.depth)
    raw = mo.shared_array(mo.uint32, mo.make_layout((4, along * X.dtype.bytes // 16 + 1, lines)), align=16)
    pitch = mo.stride(X)[1 if way.turned else 0]
    parts = mo.tile(mo.recast(memory[0], mo.uint32), (4,), (None,))     # (4, parts of memory)
    head = memory[1] // X.dtype.bytes
    if plan.batched:
        head, X = head + batch * mo.stride(X)[2], X[:, :, batch]
    return Side(X, Memory(parts, head, pitch, 0), raw, first, rows)


@mo.jit
def begin_of(side, line):
    """Elements between the first whole 16 bytes of memory and the begin of a line."""
    return side.memory.head + line * side.memory.pitch


@mo.jit
def fetch(plan, way, side):
    """The whole 16 bytes that hold a tile's lines; zeros where they have none of the operand's elements."""
    threads, parts, lines = plan.config.threads, mo.size(side.raw, 1) - 1, mo.size(side.raw, 2)
    across = 1 << (parts - 1).bit_length()              # threads side by side
    line, q, step = mo.thread_idx().x // across, mo.thread_idx().x % across, threads // across
    for i in mo.static_range(-(-lines // step)):
        if (parts == across or q < parts) & (lines % step == 0 or line + i * step < lines):
            fetch_part(way, side, line + i * step, q)
    if not way.whole:                                  # shifted lines have one part more
        for i in mo.static_range(-(-lines // threads)):
            last = mo.thread_idx().x + i * threads
            if lines % threads == 0 or last < lines:
                fetch_part(way, side, last, parts)
        if touches_ends(way, side):
            fetch_ends(plan, way, side)


@mo.jit
def touches_ends(way, side):
    """Whether the tile has elements of which whole 16 bytes of memory do not hold all: the first, or the last."""
    lines, rows = mo.size(side.source, 1), mo.min(side.first + side.rows, mo.size(side.source, 0))
    if way.turned:
        begin, end = begin_of(side, 0) + side.first, begin_of(side, lines - 1) + rows
    else:
        begin, end = begin_of(side, side.first), begin_of(side, rows - 1) + along_of(way, side)
    return (begin < 0) | (end > mo.size(side.memory.parts, 1) * side.each)


@mo.jit
def along_of(way, side):
    """Elements of a line."""
    return mo.size(side.source, 0 if way.turned else 1)


@mo.jit
def place_of(way, side, line, q):
    """Of a part of a line of the tile: the line's number, whether there is one that has elements in the part, where the
    part lies in memory, and the coordinate along the line at which it begins."""
    number, along = (line, side.first) if way.turned else (side.first + line, 0)
    begin = begin_of(side, number)
    before = along + q * side.each - begin % side.each
    exists = number < mo.size(side.source, 1 if way.turned else 0)
    return number, exists & (before < along_of(way, side)), (begin + along) // side.each + q, before


@mo.jit
def fetch_part(way, side, line, q):
    """A part of a line, if memory has all of its 16 bytes."""
    _, wanted, part, _ = place_of(way, side, line, q)
    if way.whole or ~wanted | ((part >= 0) & (part < mo.size(side.memory.parts, 1))):
        mo.copyto(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.uint32), side.raw[:, q, line],
                  side.memory.parts[:, part], pred=wanted, zero_fill=True)


@mo.jit
def fetch_ends(plan, way, side):
    """The first and the last elements of all memory, which no whole 16 bytes hold: one by one."""
    parts = mo.size(side.raw, 1)
    across = 1 << (parts - 1).bit_length()              # threads beside each other: no quotients, which take registers
    for t in mo.range(mo.thread_idx().x, across * mo.size(side.raw, 2), plan.config.threads, unroll=1):
        line, q = t // across, t % across
        number, wanted, part, before = place_of(way, side, line, q)
        if wanted & (q < parts) & ((part < 0) | (part >= mo.size(side.memory.parts, 1))):
            elements = mo.fragment((side.each,), side.source.dtype)          # all on their way at once
            for e in mo.static_range(side.each):
                at = before + e
                there = (at >= 0) & (at < along_of(way, side))
                elements[e] = side.source[(at, number) if way.turned else (number, at)] if there else 0
            mo.copyto(side.raw[:, q, line], mo.recast(elements, mo.uint32))
