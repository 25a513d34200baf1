"""Operands of 16-bit elements whose rows begin anywhere, contiguous along K, on their way to shared memory.

In: a side whose ``memory`` has all whole 16 bytes of an operand.  Out: a stage of rows as ldmatrix reads them.

    held = fetch(a, plan.shift_A, k_tile, K, k_tile < k_last); ...; put(a, plan.shift_A, held, stage, k_tile, K)

A thread loads the two parts of memory that hold its 16 bytes, computes something else meanwhile, and shifts them into
place.  Rows beyond the edge and k beyond the end become zero.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.pack import in_registers, load, position, reaches, shifted

_EACH = 8                               # elements of 16 bytes


@mo.jit
def fetch(side, shift, k_tile, K, wanted):
    """The parts of memory of every 16 bytes that this thread copies of a tile: (low, high) each."""
    held = []
    for j in mo.static_range(mo.size(side.stages, 2)):
        for i in mo.static_range(mo.size(side.stages, 1)):
            _, ok, part, _ = place_of(side, shift, i, j, k_tile, K)
            held.append(load(shift, side.memory, part, wanted & ok))
    return held


@mo.jit
def put(side, shift, held, stage, k_tile, K):
    """The same in shared memory, in place."""
    copies = mo.size(side.stages, 1)
    for j in mo.static_range(mo.size(side.stages, 2)):
        for i in mo.static_range(copies):
            (row, k), ok, part, by = place_of(side, shift, i, j, k_tile, K)
            low, high = held[j * copies + i]
            to = side.stages[:, i, j, stage]                            # (8)
            if ~ok | reaches(shift, side.memory, part):
                words = in_registers(shifted(shift, low, high, by))
                if k + _EACH > K:
                    cut(words, K - k)
                mo.copyto(mo.recast(to, mo.uint32), words)
            else:                                                       # the first or the last elements of all memory
                for e in range(_EACH):
                    if k + e < K:
                        to[e] = side.source[row, k + e]
                    else:
                        to[e] = 0


@mo.jit
def cut(words, left):
    """Only the first elements stay, of 8 in four words."""
    for w in mo.static_range(4):
        kept = mo.where(left > 2 * w + 1, words[w], words[w] & 0xFFFF)
        words[w] = mo.where(left > 2 * w, kept, mo.uint32(0))


@mo.jit
def place_of(side, shift, i, j, k_tile, K):
    """(row, k) of 16 bytes of a tile, whether they are of the operand, their part of memory, and bytes behind it."""
    row, k = side.coords[0, i, j, k_tile]
    first, by = position(shift, side.memory, row, 0)
    return (row, k), (row < side.rows) & (k < K), first + k // _EACH, by
