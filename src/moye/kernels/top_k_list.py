"""A short list of elements among which the k largest of a row are, found in two readings of it.

In: a row, or a part of one, and room for some words.  Out: whether the list fits there, and the words, in any order.

    if shortlist(plan.list, plan.order, plan.width, row, first, last, words): ...

Each thread looks for its largest element.  Where ``rank`` lanes of each of ``warps`` warps have an element from a bound
on, k elements are at or above it: the bound is the ``warps``-th of what is each warp's ``rank``-th.  All that is not
below it is on the list.  How many these are depends on the order of the elements; of drawn ones it is known well.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import moye as mo
from moye.kernels.maps import as_bits
from moye.kernels.top_k_order import key_of, word_of
from moye.kernels.top_k_sort import compare, network

_MOST = 1024
"""Words of a list at most."""
_LEAST = 64
_SPARE, _MORE = 1.4, 16
"""Times as many words as are expected, and some more."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Of the ``k`` largest.  ``room``: words of the list; ``threads`` of a block; of each warp its ``rank``-th lane's
    element counts, and of these the ``warps``-th is the bound.
    """

    k: int
    room: int
    threads: int
    rank: int
    warps: int


@functools.cache
def listed(k: int, threads: int) -> Listed | None:
    """The rule: the bound above which the fewest elements are expected; None if a list had no room for them."""
    warps, best = threads // 32, None
    for rank in range(-(-k // warps), 32):
        count = -(-k // rank)
        expected = expected_of(rank, count, warps, k)
        if best is None or expected < best[0]:
            best = expected, rank, count
    if best is None:
        return None
    room = 1 << (max(_LEAST, math.ceil(_SPARE * best[0]) + _MORE) - 1).bit_length()
    return Listed(k, room, threads, *best[1:]) if room <= _MOST else None


def expected_of(rank: int, count: int, warps: int, k: int) -> float:
    """Elements at or above the ``count``-th of the warps' ``rank``-th largest of 32, of elements in any order.

    The share of all lanes above a bound is normal about the share in the warp that sets it.
    """
    off = NormalDist().inv_cdf(1 - (count - 0.5) / warps) * math.sqrt(rank * (1 - rank / 32))
    share = min(max((rank - off) / 32, k / (32 * warps)), 0.97)
    return -32 * warps * math.log(1 - share)


@mo.jit
def shortlist(how, order, width, row, first, last, words):
    """Whether all of these vectors' elements from the bound on have room among the words; other words are 0.

    Elements are compared as they are, and have keys where they are on the list.  NaN counts for no bound: if it is the
    largest it is on the list, and else it is where there are fewer than k others, and then there is no list.
    """
    tid, lane, warps, dtype = mo.thread_idx().x, mo.lane_idx(), how.threads // 32, compared(row.dtype)
    bounds, count = mo.shared_array(dtype, warps), mo.shared_array(mo.int32, 1)
    most = mo.fragment((width,), row.dtype)
    most.fill(-math.inf)
    for t in mo.range(first + tid, last, how.threads):
        most[...] = mo.max(most, vector_of(order, width, row, t))
    nth = nth_of(widened(most), how.rank)
    if lane == 0:
        bounds[mo.warp_idx()] = nth
    if tid == 0:
        count[0] = 0
    for part in words:
        for i in mo.range(tid, how.room, how.threads):
            part[i] = 0
    mo.sync_threads()
    bound = nth_of(mo.where(lane < warps, bounds[mo.min(lane, warps - 1)], -math.inf), how.warps)
    for t in mo.range(first + tid, last, how.threads):
        held = vector_of(order, width, row, t)
        if reaches(order, held, bound) and ~add(how, order, held, t * width, mo.size(row, 0), bound, words, count):
            break
    mo.sync_threads()
    return (count[0] <= how.room) & (count[0] >= how.k)


def compared(dtype: Any) -> Any:
    """What elements are compared as: numbers of at least 32 bits."""
    return dtype if dtype.bits >= 32 else mo.float32


@mo.jit
def widened(most):
    """The largest element of a register tensor, as what it is compared as."""
    return most.to(compared(most.dtype)).reduce("max")


@mo.jit
def vector_of(order, width, row, t):
    """Vector t of a row, as numbers of which the largest come first; those beyond the row are the least."""
    held, n, worst = mo.fragment((width,), row.dtype), mo.size(row, 0), -math.inf if order.largest else math.inf
    if (t + 1) * width <= n:
        mo.copyto(held, mo.tile(row, (width,), (t,), ragged=True))
    else:
        for j in mo.static_range(width):
            held[j] = row[t * width + j] if t * width + j < n else row.dtype(worst)
    return held if order.largest else -held


@mo.jit
def above(order, x, bound):
    """Whether an element is on the list: NaN as well, if it is the largest."""
    return ~(x.to(bound.dtype) < bound) if order.largest else x.to(bound.dtype) >= bound


@mo.jit
def reaches(order, held, bound):
    """Whether some element of a vector is on the list."""
    found = mo.bool(False)
    for j in mo.static_range(mo.size(held)):
        found = found | above(order, held[j], bound)
    return found


@mo.jit
def add(how, order, held, first, n, bound, words, count):
    """Put a vector's elements on the list; whether there is room for all of them."""
    there = [above(order, held[j], bound) & (first + j < n) for j in range(mo.size(held))]
    mine = sum([mo.where(each, 1, 0) for each in there], mo.int32(0))
    slot = mo.atomic_add(count, 0, mine)
    room = slot + mine <= how.room
    if room:
        bits = as_bits(held if order.largest else -held)
        for j in mo.static_range(mo.size(held)):
            if there[j]:
                word = word_of([part.dtype for part in words], key_of(order, bits[j], held.dtype.bits), first + j)
                for part, x in zip(words, word, strict=True):
                    part[slot] = x
                slot += 1
    return room


@mo.jit
def nth_of(x, nth):
    """The ``nth`` largest of what the lanes of a warp have."""
    held = mo.fragment((1,), x.dtype)
    held[0] = x
    for mask in network(32):
        compare([held], mask)
    return mo.shuffle_idx(held[0], nth - 1)
