"""Rows of C that begin anywhere, stored 16 bytes at a time out of shared memory.

In: a ``Strip``: rows of a tile in shared memory, each as far behind a multiple of 16 bytes as it lies in C, and some
threads.  Out: those rows of C.

    store_strip(strip, lane, 32)            # of a warp; or of a block: store_strip(strip, tid, threads)

Whole 16 bytes are stored as such, and what lies in front of the first and behind the last element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo

_ENDLESS = 1 << 30
"""Parts of 16 bytes that C has at most: tiles reach beyond it."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows from ``row`` on, ``columns`` of them from ``column`` on, of a contiguous C that begins at 16 bytes.

    ``place`` (batch, or ()) is the rest of the coordinate in ``whole``, the array of all batches that the matrix ``C``
    is one of.  ``staged`` is (rows, columns and room to shift them), and ``M`` and ``N`` are the extents.
    """

    whole: Any
    place: tuple[Any, ...]
    C: Any
    staged: Any
    row: Any
    column: Any
    columns: int
    M: Any
    N: Any


def width_of(C: Any) -> int:
    """Elements of 16 bytes."""
    return 16 // int(C.dtype.bytes)


def staging(dtype: Any, grain: int) -> Any:
    """The copy of ``grain`` elements from registers to a strip: what divides the distance of all rows to 16 bytes."""
    return mo.UniversalCopy({2: mo.uint16, 4: mo.uint32, 8: mo.uint64}[dtype.bytes * grain])


@mo.jit
def begin_of(strip, row):
    """Elements between the first of C and those of a row of the strip."""
    return mo.crd2idx((strip.row + row, 0, *strip.place), strip.whole.layout)


@mo.jit
def leading(strip, row):
    """The strip from the element on where a row of C begins in it: (rows, columns)."""
    lead = begin_of(strip, row) % width_of(strip.C)
    layout = mo.make_layout((mo.size(strip.staged, 0), strip.columns), mo.stride(strip.staged))
    return mo.domain_offset((0, lead), strip.staged).with_layout(layout)


@mo.jit
def store_strip(strip, index, threads):
    """All rows of a strip, by so many threads of which this one is the ``index``-th."""
    store_parts(strip, index, threads)
    store_ends(strip, index, threads)


@mo.jit
def store_parts(strip, index, threads):
    """The whole 16 bytes: threads side by side have neighbours of a row."""
    width = width_of(strip.C)
    rows, parts = mo.size(strip.staged, 0), strip.columns // width
    memory = strip.whole.with_layout(mo.make_layout((width, _ENDLESS), (1, width)))      # (width, parts of C)
    for i in mo.static_range(mo.ceil_div(rows * parts, threads)):
        at, q = (i * threads + index) // parts, (i * threads + index) % parts
        begin, first = begin_of(strip, at), strip.column + q * width
        lead = begin % width
        if (strip.row + at < strip.M) & ((q > 0) | (lead == 0)) & (first + width - lead <= strip.N) \
                & within(at, rows, parts, threads):
            mo.copyto(memory[None, begin // width + first // width],
                      mo.tile(strip.staged, (1, width), (at, q))[0, None])


@mo.jit
def store_ends(strip, index, threads):
    """What lies in front of the first whole 16 bytes of each row and behind the last, an element a thread.

    Both have as many as one part in a strip that is whole, and up to two where C ends.
    """
    width = width_of(strip.C)
    rows, count = mo.size(strip.staged, 0), mo.min(strip.columns, strip.N - strip.column)
    for more in mo.range(mo.where(count < strip.columns, 2, 1), unroll=1):      # unrolled, it spills beside a GELU
        for i in mo.static_range(mo.ceil_div(rows * width, threads)):
            at, end = (i * threads + index) // width, (i * threads + index) % width + more * width
            lead = begin_of(strip, at) % width
            front = (width - lead) % width                              # elements in front of the first part
            behind = mo.max((count + lead) // width * width - lead, front)                      # and those behind it
            n = mo.where(end < front, end, behind + end - front)
            if (strip.row + at < strip.M) & (n < count) & within(at, rows, width, threads):
                strip.C[strip.row + at, strip.column + n] = strip.staged[at, n + lead]


@mo.jit
def within(at, rows, each, threads):
    """Whether a row is one of the strip's: where threads take as many turns as there is work, all are."""
    return True if rows * each % threads == 0 else at < rows
