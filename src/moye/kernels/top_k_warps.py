"""``top_k`` of rows that are short beside their number: a warp has a row, and sorts it in registers.

In: rows of elements of 16 or 32 bits.  Out: the k largest of each, sorted.

    top_k_warps_kernel[grid, 32 * WARPS](values, indices, x, plan)

An element and its place are one word, so that no two are equal, and of equal elements the first comes first.  A warp
sorts as many words as it holds by a bitonic network: neighbours lie in a thread, then in neighbouring lanes.  Longer
rows pass in chunks.  A chunk without a word above the k-th so far is done; else it is sorted the other way round, the
greater of each pair of words that face each other is kept, and these are merged.  Source: Batcher, Sorting networks and
their applications (1968).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.top_k_order import Order, keys_of, make_order

WARPS = 4
HELD = 64
"""Bytes of words that a thread sorts at most."""


@dataclass(frozen=True, slots=True)
class WarpPlan:
    """``width`` elements a load, ``each`` words a thread, of dtype ``word``; ``once``: one chunk has all of a row."""

    width: int
    each: int
    k: int
    once: bool
    order: Order
    word: Any

    @property
    def chunk(self) -> int:
        """Words that are sorted together."""
        return 32 * self.each

    @property
    def merge(self) -> tuple[tuple[int, int], ...]:
        """The steps that sort a bitonic chunk."""
        return _steps(self.chunk)

    @property
    def network(self) -> tuple[tuple[int, int], ...]:
        """The steps that sort a chunk: (words of a sorted run, how far apart those are that are compared)."""
        sizes = [2 << i for i in range(int(math.log2(self.chunk)))]
        return tuple(step for size in sizes for step in _steps(size))


def _steps(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((size, size >> i) for i in range(1, int(math.log2(size)) + 1))


def warp_plan(k: int, largest: bool, modes: list[views.Mode], info: Any) -> WarpPlan | None:
    """The rule: as many words as hold a row, or k; None for rows and k of which a warp would hold too many."""
    n, word = modes[0].extent, {2: mo.uint32, 4: mo.uint64}.get(info.dtype.bytes)
    if word is None or n > 1 << (8 * info.dtype.bytes):                 # a place has as many bits as an element
        return None
    most = HELD // word.bytes
    width = views.width_of([views.Mode(m.extent, m.strides[:1]) for m in modes], info)
    each = _power(-(-n // 32))
    if each > most:
        each = max(width, _power(-(-k // 32)))
    if each > most:
        return None
    return WarpPlan(min(width, each), each, k, n <= 32 * each, make_order(info.dtype, largest), word)


def _power(n: int) -> int:
    """The power of two that is n, or the next."""
    return 1 << (n - 1).bit_length()


@mo.jit
def words_of(plan, bits, chunk):
    """The words of a thread (each), 0 where the row has ended."""
    held, half = mo.fragment((plan.each,), plan.word), 4 * plan.word.bytes
    for v in mo.static_range(plan.each // plan.width):
        t = (chunk * (plan.each // plan.width) + v) * 32 + mo.lane_idx()
        found = keys_of(plan.order, plan.width, bits, t)
        for j in mo.static_range(plan.width):
            index, key, there = found[j]
            word = (plan.word(key) << half) | ((1 << half) - 1 - plan.word(index))
            held[v * plan.width + j] = mo.where(there, word, plan.word(0))
    return held


@mo.jit
def compare(plan, held, steps, ascending):
    """These steps of the network: words ``step`` apart change places unless they are in order."""
    lane, each = mo.lane_idx(), plan.each
    for size, step in steps:
        if step >= each:                                # of other lanes
            up = (lane & (size // each)) != 0
            first = ((lane & (step // each)) == 0) != (up != ascending)
            for v in mo.static_range(each):
                other = mo.shuffle_xor(held[v], step // each)
                held[v] = mo.where(first, mo.max(held[v], other), mo.min(held[v], other))
        else:
            for v in mo.static_range(each):
                if (v & step) == 0:
                    up = (v & size) != 0 if size < each else (lane & (size // each)) != 0
                    most, least = mo.max(held[v], held[v + step]), mo.min(held[v], held[v + step])
                    held[v] = mo.where(up != ascending, least, most)
                    held[v + step] = mo.where(up != ascending, most, least)


@mo.kernel
def top_k_warps_kernel(values, indices, x, plan: mo.Constexpr):
    """values, indices (k, *rows) of x (n, *rows); a warp a row."""
    number, kept = mo.block_idx().x * WARPS + mo.warp_idx(), mo.shape(x)[1:]
    at, lane, each = coordinate(number, kept), mo.lane_idx(), plan.each
    if at[-1] < kept[-1]:
        row, bits = x[:, *at], as_bits(x)[:, *at]                                           # (n)
        best = words_of(plan, bits, 0)
        compare(plan, best, plan.network, False)
        if not plan.once:
            for chunk in mo.range(1, mo.ceil_div(mo.size(row, 0), plan.chunk)):
                last = mo.shuffle_idx(best[(plan.k - 1) % each], (plan.k - 1) // each)
                held, more = words_of(plan, bits, chunk), False
                for v in mo.static_range(each):
                    more |= held[v] > last
                if mo.ballot(more) != 0:
                    compare(plan, held, plan.network, True)
                    for v in mo.static_range(each):
                        best[v] = mo.max(best[v], held[v])
                    compare(plan, best, plan.merge, False)
        half = 4 * plan.word.bytes
        for v in mo.static_range(each):
            j = lane * each + v
            if j < plan.k:
                place = mo.int32(((1 << half) - 1) - (best[v] & ((1 << half) - 1)))
                values[j, *at] = row[place]
                indices[j, *at] = place.to(indices.dtype)
