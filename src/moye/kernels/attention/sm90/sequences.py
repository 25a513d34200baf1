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

    ``longest``: the queries, or of gradients the keys, of the longest.  ``factors``: of queries, keys and values, by
    head and sequence or None.
    """

    how: Any
    offsets_Q: Any
    offsets_K: Any
    longest: Any
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
