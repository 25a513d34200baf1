"""The softmax of rows whose scores come tile by tile: maxima, sums, and the factor of what was summed before.

In: a tile of scores (mo.mn_view) and the state of its rows.  Out: exponentials in place of the scores; the state.

    state = row_state(rows); online(state, S_rows, fold, first=True, empty=False); inverse, lse = finished(...)

Sums stay in each thread until the end: only then are they added over the four threads of a row.  Exponents are of 2:
``fold`` is scale * log2(e).  Source: Milakov, Gimelshein: Online normalizer calculation for softmax (2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo

LANES = 4
"""Threads of a warp that share a row of an MMA's accumulators."""


@dataclass(frozen=True, slots=True)
class RowState:
    """Per row of a thread: the largest score, this thread's sum, the factor of what was summed before; (rows)."""

    top: Any
    total: Any
    shrink: Any


@mo.jit
def row_state(rows):
    """Registers for the rows of a thread."""
    return RowState(mo.fragment((rows,), mo.float32), mo.fragment((rows,), mo.float32),
                    mo.fragment((rows,), mo.float32))


@mo.jit
def online(state, S, fold, first, empty, lift=0):
    """Scores become exponentials.  ``first``: no tile came before; ``empty``: rows may have no score that counts.

    Exponentials, and their sums, are 2^lift as large.
    """
    for i in mo.static_range(mo.size(S, 0)):
        row = S[i, None]
        top = mo.warp_reduce(row.reduce("max"), "max", LANES)
        if not first:
            top = mo.max(top, state.top[i])
            state.shrink[i] = mo.exp2((state.top[i] - above(top, empty)) * fold, fast=True)
        state.top[i] = top
    for i in mo.static_range(mo.size(S, 0)):
        row = S[i, None]
        row[...] = mo.exp2(row * fold - lifted(above(state.top[i], empty) * fold, lift), fast=True)
        part = row.reduce("add")
        state.total[i] = part if first else state.total[i] * state.shrink[i] + part


@mo.jit
def above(top, empty):
    """What is taken off the scores of a row: its largest, or 0 where none counts, as -inf - -inf is no number."""
    return mo.where(top == -math.inf, 0.0, top) if empty else top


@mo.jit
def lifted(top, lift):
    """What is taken off instead of ``top``, so that exponentials are 2^lift as large."""
    return top - lift if lift else top


@mo.jit
def rescale(O, factor):
    """Multiply the rows of O by their factors."""
    for i in mo.static_range(mo.size(O, 0)):
        row = O[i, None]
        row[...] = row * factor[i]


@mo.jit
def grew(state):
    """Whether the maximum of any row of this warp grew, so that its sums have to shrink."""
    changed = state.shrink[0] != 1.0
    for i in mo.static_range(1, mo.size(state.shrink)):
        changed = changed | (state.shrink[i] != 1.0)
    return mo.vote_any(changed)


@mo.jit
def finished(state, fold, sink, lift=0):
    """(what sums are multiplied by, log2 of the sum of exponentials) of each row; ``sink``: one more score, or None.

    A row in which nothing counts gives 0 and -inf.  ``lift`` as in ``online``.
    """
    factor, log_sum = mo.make_fragment_like(state.total), mo.make_fragment_like(state.total)    # (rows)
    for i in mo.static_range(mo.size(state.total)):
        total = mo.warp_reduce(state.total[i], "add", LANES)
        top, own = lifted(state.top[i] * fold, lift), mo.float32(1)
        if sink is not None:
            highest = mo.max(top, sink)
            own = mo.where(top == -math.inf, 0.0, mo.exp2(top - highest, fast=True))
            # Where nothing counts, and the sink neither, -inf less itself would be NaN.
            total = total * own + mo.exp2(sink - mo.where(highest == -math.inf, 0.0, highest), fast=True)
            top = highest
        none = total == 0.0
        factor[i] = mo.where(none, 0.0, own / total)
        log_sum[i] = mo.where(none, -math.inf, top + mo.log2(total))
    return factor, log_sum
