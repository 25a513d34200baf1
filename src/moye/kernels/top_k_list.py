"""A short list of elements among which the k largest of a row are, found in two readings of it.

In: a row, or a part of one, and room for some words.  Out: whether the list fits there, and the words, in any order.

    if shortlist(plan.listed, plan.order, plan.width, bits, first, last, words): ...

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
from moye.kernels.top_k_order import keys_of, word_of
from moye.kernels.top_k_sort import compare, network

_MOST = 1024
"""Words of a list at most."""
_LEAST = 64
_SPARE, _MORE = 1.4, 16
"""Times as many words as are expected, and some more."""


@dataclass(frozen=True, slots=True)
class Listed:
    """``room``: words of the list; ``threads`` of a block; of each warp its ``rank``-th lane's element counts, and of
    these the ``warps``-th is the bound.
    """

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
        expected = _expected(rank, count, warps, k)
        if best is None or expected < best[0]:
            best = expected, rank, count
    if best is None:
        return None
    room = 1 << (max(_LEAST, math.ceil(_SPARE * best[0]) + _MORE) - 1).bit_length()
    return Listed(room, threads, *best[1:]) if room <= _MOST else None


def _expected(rank: int, count: int, warps: int, k: int) -> float:
    """Elements at or above the ``count``-th of the warps' ``rank``-th largest of 32, of elements in any order.

    The share of all lanes above a bound is normal about the share in the warp that sets it.
    """
    off = NormalDist().inv_cdf(1 - (count - 0.5) / warps) * math.sqrt(rank * (1 - rank / 32))
    share = min(max((rank - off) / 32, k / (32 * warps)), 0.97)
    return -32 * warps * math.log(1 - share)


@mo.jit
def shortlist(how, order, width, bits, first, last, words):
    """Whether all of these vectors' elements from the bound on have room among the words; other words are 0."""
    tid, lane, warps = mo.thread_idx().x, mo.lane_idx(), how.threads // 32
    bounds, count = mo.shared_array(order.key, warps), mo.shared_array(mo.int32, 1)
    held = mo.fragment((1,), order.key)
    held[0] = order.key(0)
    for t in mo.range(first + tid, last, how.threads):
        for _, key, there in keys_of(order, width, bits, t):
            held[0] = mo.max(held[0], mo.where(there, key, order.key(0)))
    nth = nth_of(held, how.rank)
    if lane == 0:
        bounds[mo.warp_idx()] = nth
    if tid == 0:
        count[0] = 0
    for part in words:
        for i in mo.range(tid, how.room, how.threads):
            part[i] = 0
    mo.sync_threads()
    held[0] = mo.where(lane < warps, bounds[mo.min(lane, warps - 1)], order.key(0))
    bound = nth_of(held, how.warps)
    for t in mo.range(first + tid, last, how.threads):
        found, mine = keys_of(order, width, bits, t), mo.int32(0)
        for _, key, there in found:
            mine += mo.where(there & (key >= bound), 1, 0)
        if mine > 0:
            slot = mo.atomic_add(count, 0, mine)
            if slot + mine > how.room:
                break
            for i, key, there in found:
                if there and key >= bound:
                    for part, x in zip(words, word_of([part.dtype for part in words], key, i), strict=True):
                        part[slot] = x
                    slot += 1
    mo.sync_threads()
    return count[0] <= how.room


@mo.jit
def nth_of(held, nth):
    """The ``nth`` largest of what the lanes of a warp have."""
    for mask in network(32):
        compare([held], mask)
    return mo.shuffle_idx(held[0], nth - 1)
