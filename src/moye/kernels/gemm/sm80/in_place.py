"""Operands of 32 bits whose lines begin anywhere, for ``gemm_sm80``: multiplied where they arrive in shared memory.

In: a matrix (rows, K) that is contiguous along K, or along its rows (``turned``), and the whole 16 bytes of its memory.
Out: tiles (rows, bK) in shared memory, each line behind up to 12 bytes of what lies in front of it.

    side = words_of(X, parts, smem, partition, first, shift, turned)
    fetch(side, shift, threads, stage, k_tile, K)

cp.async copies the aligned 16 bytes that hold a line, one part more than it has.  Lines that are four apart begin
equally far behind 16 bytes, and a thread multiplies elements of such lines alone (a fragment's rows are lane // 4 and
more by eights, its k are lane % 4 and more by fours): it reads all of them so many words further on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.sm80.lines import fetch as fetch_apart
from moye.kernels.pack import Memory, position

EACH = 4                                # elements of 16 bytes
_TURN = 4                               # lines so far apart begin equally far behind 16 bytes


@dataclass(frozen=True, slots=True)
class Words:
    """One operand as a thread sees it: the matrix ``source``, whose row ``first`` is the first of all its tiles.

    ``raw`` (4, parts, lines, stages) has the whole 16 bytes, in words, and ``tile`` (rows, bK) has those of the first
    stage.  ``operand`` is the thread's share of all of them, (MMA, MMA_M, MMA_K, stages).
    """

    source: Any
    memory: Memory
    raw: Any
    tile: Any
    operand: Any
    first: Any
    turned: bool


def room(rows: int, bK: int, stages: int, *, turned: bool) -> mo.Layout:
    """Shared layout (rows, bK, stages) of what arrives, with the part more that a line has.

    Lanes read eight rows of four k: lines along the rows need 8 banks each, and those along K 4.
    """
    if turned:
        pitch = rows + 2 * EACH
        return mo.make_layout((rows + EACH, bK, stages), (1, pitch, pitch * bK))
    pitch = bK + EACH
    return mo.make_layout((rows, pitch, stages), (pitch, 1, pitch * rows))


@mo.jit
def words_of(X, parts, smem, partition, first, shift, turned):
    """An operand; ``parts``: the whole 16 bytes of its memory, and the bytes behind their first at which it begins."""
    words, head = parts
    memory = Memory(mo.tile(mo.recast(words, mo.uint32), (EACH,), (None,)), head,
                    mo.stride(X)[1 if turned else 0] * X.dtype.bytes, 0)
    (rows, bK, stages), (row, column, stage) = mo.shape(smem), mo.stride(smem)
    rows, bK = (rows - EACH, bK) if turned else (rows, bK - EACH)
    along, lines, pitch = (rows, bK, column) if turned else (bK, rows, row)
    raw = mo.recast(smem, mo.uint32).with_layout(
        mo.make_layout((EACH, along // EACH + 1, lines, stages), (1, EACH, pitch, stage)))
    _, by = position(shift, memory, mo.lane_idx() % _TURN if turned else first + mo.lane_idx() // _TURN % _TURN, 0)
    shape, lead = mo.make_layout((rows, bK, stages), mo.stride(smem)), by // X.dtype.bytes
    begins = mo.domain_offset((lead, 0, 0) if turned else (0, lead, 0), smem).with_layout(shape)
    return Words(X, memory, raw, smem.with_layout(shape)[:, :, 0], partition(begins), first, turned)


@mo.jit
def fetch(side, shift, threads, stage, k_tile, K):
    """A tile on its way to a stage; those inside of all memory and of K without asking for each part."""
    if (k_tile == 0) | ((k_tile + 1) * mo.size(side.tile, 1) + EACH > K):
        fetch_apart(side, shift, stage, k_tile, K)
    else:
        _fetch_inside(side, shift, threads, stage, k_tile)


@mo.jit
def _fetch_inside(side, shift, threads, stage, k_tile):
    """The whole 16 bytes that hold a tile, to a stage: threads side by side copy parts of a line, and then its last."""
    parts, tid = mo.size(side.raw, 1) - 1, mo.thread_idx().x
    across = _across(parts, threads)
    for j in mo.static_range(parts // across):
        _fetch_part(side, shift, stage, k_tile, tid // across, tid % across + across * j, threads // across)
    _fetch_part(side, shift, stage, k_tile, tid, parts, threads)


def _across(parts: int, threads: int) -> int:
    """How many threads copy parts of a line side by side, so that each has lines that begin equally far behind 16 bytes
    and the same part of all of them.
    """
    return max(n for n in range(1, parts + 1) if parts % n == 0 and threads % (_TURN * n) == 0)


@mo.jit
def _fetch_part(side, shift, stage, k_tile, line, q, step):
    """A part of a line of a tile, and of all lines that are ``step`` apart from it."""
    pitch, bK = mo.stride(side.source)[1 if side.turned else 0], mo.size(side.tile, 1)
    rows, lines = mo.size(side.source, 0), mo.size(side.raw, 2)
    copy = mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.uint32)
    if side.turned:
        part, by = position(shift, side.memory, line, 0)
        part += k_tile * (bK // EACH * pitch) + side.first // EACH + q
        inside = side.first + EACH * q - by // EACH < rows
    else:
        part, _ = position(shift, side.memory, mo.min(side.first + line, rows - 1), 0)
        part += k_tile * (bK // EACH) + q
    for i in mo.static_range(mo.ceil_div(lines, step)):
        here = line + i * step
        wanted = inside if side.turned else side.first + here < rows
        if (i + 1) * step <= lines or here < lines:
            mo.copyto(copy, side.raw[:, q, here, stage], side.memory.parts[:, part + i * (step // _TURN * pitch)],
                      pred=wanted, zero_fill=True)
