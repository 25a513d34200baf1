"""``top_k`` of rows that are short beside their number: a warp has a row, and sorts it in registers.

In: rows of elements of 16 or 32 bits.  Out: the k largest of each, sorted.

    top_k_warps_kernel[grid, 32 * WARPS](values, indices, x, plan)

An element and its place are one word.  A warp sorts as many words as it holds.  Longer rows pass in chunks.  A chunk
without a word above the k-th so far is done; else it is sorted, too, of each word of the best and its mirror image in
the chunk the greater is kept, and these are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.top_k_order import Order, keys_of, make_order, place_of, word_of
from moye.kernels.top_k_sort import compare, merge, network

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
    held = mo.fragment((plan.each,), plan.word)
    for v in mo.static_range(plan.each // plan.width):
        t = (chunk * (plan.each // plan.width) + v) * 32 + mo.lane_idx()
        found = keys_of(plan.order, plan.width, bits, t)
        for j in mo.static_range(plan.width):
            index, key, there = found[j]
            word, = word_of((plan.word,), key, index)
            held[v * plan.width + j] = mo.where(there, word, plan.word(0))
    return held


@mo.kernel
def top_k_warps_kernel(values, indices, x, plan: mo.Constexpr):
    """values, indices (k, *rows) of x (n, *rows); a warp a row."""
    number, kept = mo.block_idx().x * WARPS + mo.warp_idx(), mo.shape(x)[1:]
    at, lane, each = coordinate(number, kept), mo.lane_idx(), plan.each
    if at[-1] < kept[-1]:
        row, bits = x[:, *at], as_bits(x)[:, *at]                                           # (n)
        best = words_of(plan, bits, 0)
        for mask in network(plan.chunk):
            compare([best], mask)
        if not plan.once:
            for chunk in mo.range(1, mo.ceil_div(mo.size(row, 0), plan.chunk)):
                last = mo.shuffle_idx(best[(plan.k - 1) % each], (plan.k - 1) // each)
                held, more = words_of(plan, bits, chunk), False
                for v in mo.static_range(each):
                    more |= held[v] > last
                if mo.ballot(more) != 0:
                    for mask in network(plan.chunk):
                        compare([held], mask)
                    for v in mo.static_range(each):
                        best[v] = mo.max(best[v], mo.shuffle_xor(held[each - 1 - v], 31))
                    for mask in merge(2 * plan.chunk)[1:]:
                        compare([best], mask)
        for v in mo.static_range(each):
            j = lane * each + v
            if j < plan.k:
                place = place_of([best[v]])
                values[j, *at] = row[place]
                indices[j, *at] = place.to(indices.dtype)
