"""Operands of 16 bits whose lines begin anywhere, for ``gemm_sm80``: to shared memory as they lie, then into place.

In: a matrix (rows, K) that is contiguous along K, or along its rows (``turned``), and the whole 16 bytes of its memory.
Out: tiles (rows, bK) in shared memory, as ldmatrix reads them.

    side = lines_of(A, parts_A, raw, tile, partition, first, turned)
    fetch(side, shift, stage, k_tile, K); ...; put(side, shift, stage, k_tile, K)

cp.async copies the aligned 16 bytes that hold a line, one more than it has.  When they are there, threads shift them
into place.  Loops over the parts are loops of the kernel: where there are few tiles, cold code costs more than turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.operands import load
from moye.kernels.pack import Memory, in_registers, position, shifted

EACH = 8                                # elements of 16 bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """One operand as all threads of a block see it.

    ``raw`` (4, parts, lines, stages) has the whole 16 bytes, in words, and ``tile`` (rows, bK) one tile in place.  Its
    first row is ``first`` of the matrix ``source``.  ``operand`` is a thread's share of the tile.
    """

    source: Any
    memory: Memory
    raw: Any
    tile: Any
    operand: Any            # (MMA, MMA_M, MMA_K, 1)
    first: Any
    turned: bool


def raw_layout(rows: int, bK: int, stages: int, grain: int, *, turned: bool) -> mo.Layout:
    """Words of whole 16 bytes (4, parts of a line, lines, stages); lines that are not aligned have one part more."""
    lines, along = (bK, rows) if turned else (rows, bK)
    parts = along // EACH + (grain < 16)
    return mo.make_layout((4, parts, lines, stages), (1, 4, 4 * parts, 4 * parts * lines))


@mo.jit
def lines_of(X, parts, raw, smem, partition, first, turned):
    """An operand; ``parts``: the whole 16 bytes of its memory, and the bytes behind their first at which it begins."""
    words, head = parts
    pitch = mo.stride(X)[1 if turned else 0] * X.dtype.bytes
    memory = Memory(mo.tile(mo.recast(words, mo.uint32), (4,), (None,)), head, pitch, 0)
    return Lines(X, memory, raw, smem[:, :, 0], partition(smem), first, turned)


@mo.jit
def mainloop(plan, a, b, acc, tCrA, tCrB, k_first, k_last, K, full):
    """acc += A * B over the k tiles [k_first, k_last), some stages ahead; what is shifted has one tile in place."""
    tid, pipe = mo.thread_idx().x, mo.Pipeline(plan.config.stages)
    sides = tuple(zip((a, b), plan.shifts, strict=True))
    rA = plan.read_A.get_slice(tid).retile_D(tCrA)                      # (CPY, CPY_M, CPY_K)
    rB = plan.read_B.get_slice(tid).retile_D(tCrB)                      # (CPY, CPY_N, CPY_K)
    state = pipe.start()
    for k_tile in mo.range(k_first - pipe.ahead, k_last, unroll=1):     # the first turns only begin: code is there once
        if k_tile >= k_first:
            pipe.wait()                                 # the tile's parts are there, and the last tile is multiplied
            for side, shift in sides:
                if shift is not None:
                    put(side, shift, state.read, k_tile, K)
            mo.sync_threads()
        if k_tile + pipe.ahead < k_last:
            begin(sides, (k_tile + pipe.ahead - k_first) % plan.config.stages, k_tile + pipe.ahead, K, full)
        pipe.commit()
        if k_tile >= k_first:
            tXsA, tXsB = (side.operand[:, :, :, state.read if shift is None else 0] for side, shift in sides)
            for k in mo.static_range(mo.size(tCrA, 2)):
                mo.copyto(plan.read_A, rA[:, :, k], tXsA[:, :, k])
                mo.copyto(plan.read_B, rB[:, :, k], tXsB[:, :, k])
                mo.gemm(plan.mma, tCrA[:, :, k], tCrB[:, :, k], acc)
            state = state.next()


@mo.jit
def begin(sides, stage, k_tile, K, full):
    """A tile of both operands on its way to a stage."""
    for side, shift in sides:
        if shift is None:
            load(side, stage, k_tile, K, full)
        else:
            fetch(side, shift, stage, k_tile, K)


@mo.jit
def place_of(side, shift, line, k_tile, K):
    """Of a line of a tile: the coordinate along it where the tile begins, its number, whether there is one, the part of
    memory in which it begins, and the elements in front of it there."""
    k = k_tile * mo.size(side.tile, 1)
    along, number, lines = (side.first, k + line, K) if side.turned else (k, side.first + line, mo.size(side.source, 0))
    part, by = position(shift, side.memory, mo.min(number, lines - 1), 0)
    return along, number, number < lines, part, by // side.source.dtype.bytes


@mo.jit
def fetch(side, shift, stage, k_tile, K):
    """The whole 16 bytes that hold a tile, to a stage; zeros for those that have none of the operand's elements.

    Of 32 bits, which nobody cuts later, also for elements beyond K.
    """
    threads, parts, lines = mo.block_dim().x, mo.size(side.raw, 1), mo.size(side.raw, 2)
    extent = mo.size(side.source, 0) if side.turned else K              # of a line
    each, cut = 16 // side.source.dtype.bytes, side.source.dtype.bits == 32 and not side.turned
    for t in mo.range(mo.thread_idx().x, parts * lines, threads, unroll=1):
        line, q = t // parts, t % parts
        along, number, exists, first, lead = place_of(side, shift, line, k_tile, K)
        part, begins = first + along // each + q, along + q * each - lead
        wanted, to = exists & (begins < extent), side.raw[:, q, line, stage]
        whole = (part >= 0) & (part < mo.size(side.memory.parts, 1))
        if cut:
            whole = whole & (begins + each <= extent)
        if ~wanted | whole:
            mo.copyto(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.uint32), to, side.memory.parts[:, part],
                      pred=wanted, zero_fill=True)
        else:                                           # the first or the last elements of all memory: one by one
            elements = mo.recast(to, side.source.dtype)
            for e in mo.range(each, unroll=1):
                at = begins + e
                place = (at, number) if side.turned else (number, at)
                inside = (at >= 0) & (at < extent)
                if side.source.dtype.bits == 32:
                    mo.copyto(mo.CopyAtom(mo.CpAsync(mo.uint32), mo.float32), mo.tile(elements, (1,), (e,)),
                              mo.tile(side.source, (1, 1), place)[0, :], pred=inside, zero_fill=True)
                elif inside:
                    elements[e] = side.source[place]
                else:
                    elements[e] = 0


@mo.jit
def put(side, shift, stage, k_tile, K):
    """A tile from its stage into place; what is beyond K becomes zero."""
    threads, lines = mo.block_dim().x, mo.size(side.raw, 2)
    parts = mo.size(side.tile) // lines // EACH
    for t in mo.range(mo.thread_idx().x, parts * lines, threads, unroll=1):
        line, c = t // parts, t % parts
        along, _, _, _, lead = place_of(side, shift, line, k_tile, K)
        low, high = mo.fragment((4,), mo.uint32), None
        mo.copyto(low, side.raw[:, c, line, stage])
        if shift.grain < 16:
            high = mo.fragment((4,), mo.uint32)
            mo.copyto(high, side.raw[:, c + 1, line, stage])
        words = in_registers(shifted(shift, low, high, 2 * lead))
        if not side.turned:                             # lines beyond K are zero already
            cut(words, K - along - c * EACH)
        shape, place = ((EACH, 1), (c, line)) if side.turned else ((1, EACH), (line, c))
        to = mo.tile(side.tile, shape, place)
        mo.copyto(mo.recast(to[:, 0] if side.turned else to[0, :], mo.uint32), words)


@mo.jit
def cut(words, left):
    """Only the first elements stay, of 8 in four words."""
    if left < EACH:
        for w in mo.static_range(4):
            kept = mo.where(left > 2 * w + 1, words[w], words[w] & 0xFFFF)
            words[w] = mo.where(left > 2 * w, kept, mo.uint32(0))
