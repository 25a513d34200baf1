"""Sequences one behind the other in one matrix for each head: where each begins, and what rules it has.

In: offsets (sequences + 1) of queries and of keys, or None for batches.  Out: coordinates of one sequence.

    how = rules_of(parts, batch); tQ, own = rows_of(Q.tensor, parts.offsets_Q, batch)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import moye as mo


@dataclass(frozen=True, slots=True)
class Sequences:
    """What becomes of scores, ``how``, for all sequences; where each begins, or None: then they are batches.

    ``section``: heads whose longest tiles come first, or None.  ``factors``: of queries, keys and values, by head and
    sequence or None.
    """

    how: Any
    offsets_Q: Any
    offsets_K: Any
    section: Any = None
    factors: Any = (None, None, None)


@mo.jit
def rules_of(parts, batch):
    """What becomes of the scores of one sequence: how many queries and keys it has."""
    if parts.offsets_Q is None:
        return parts.how
    queries, keys = (offsets[batch + 1] - offsets[batch] for offsets in (parts.offsets_Q, parts.offsets_K))
    return replace(parts.how, queries=queries, keys=keys)


@mo.jit
def rows_of(X, offsets, batch, mode=0):
    """Coordinates (rows, dim, heads, batch) from the first row of a sequence on, and its batch."""
    if offsets is None:
        return X, batch
    return mo.domain_offset(tuple(offsets[batch] if i == mode else 0 for i in range(4)), X), 0


# --- tiles -----------------------------------------------------------------------------------------------------------


@mo.jit
def slot_of(offsets, rows, place):
    """The number of tile ``place[0]`` of ``rows`` rows of sequence ``place[1]`` among those of all sequences.

    Each has numbers of its own, some of which may stand for no tile: no number depends on how long others are.
    """
    tile, sequence = place
    return offsets[sequence] // rows + sequence + tile


@mo.jit
def slots(total, sequences, rows):
    """How many numbers there are, of ``total`` rows."""
    return total // rows + sequences


@mo.jit
def place_of_slot(offsets, rows, slot):
    """(tile, sequence) of a number: the last sequence whose numbers begin at it or before."""
    least, most = mo.int32(0), mo.size(offsets) - 2
    while least < most:
        middle = (least + most + 1) // 2
        if slot_of(offsets, rows, (0, middle)) <= slot:
            least = middle
        else:
            most = middle - 1
    return slot - slot_of(offsets, rows, (0, least)), least


@mo.jit
def store_rows(X, smem, rows, place, threads):
    """A tile (rows, columns) in shared memory to X (rows, dim, heads, 1): rows behind are another sequence's."""
    (first, count), (left, head), across = rows, place, mo.size(smem, 1) // 8
    dim = mo.size(X, 1)
    mo.assume(dim % 8 == 0)
    for i in range(mo.thread_idx().x % threads, mo.size(smem, 0) * across, threads):
        row, column = i // across, i % across
        if (first + row < count) & (left + 8 * column < dim):
            part = mo.fragment((8,), X.dtype)
            mo.copyto(mo.UniversalCopy(mo.uint128), part, mo.tile(smem, (1, 8), (row, column))[0, :])
            line = mo.tile(X[first + row, :, head, 0], (8,), (left // 8 + column,))
            mo.copyto(mo.UniversalCopy(mo.uint128), line, part)
