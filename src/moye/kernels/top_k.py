"""The k largest elements of each row, and where they are.

In: an array; rows run along its last axis.  Out: values and indices, sorted.

    top_k(values, indices, x)                   # k is the last extent of values

Short rows have a warp each (``top_k_warps``).  Else a block has a row, or several blocks that leave their k largest to
one.  It makes a short list of what may be among them (``top_k_list``), and sorts that.  Where there is no such list, or
it has too many elements, as of rows of equal ones, it narrows the k-th largest element down by ``_BITS`` bits of its
order at a time, counting in shared memory; then it collects what is larger, and of its equals the first ones, and sorts
these k (``top_k_sort``).  Rows are read once for each digit and once more, or twice if some equals are left out, mostly
from L2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.folds import LAST
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.options import flag
from moye.kernels.top_k_list import Listed, listed, shortlist
from moye.kernels.top_k_order import Order, keys_of, make_order, place_of, word_of, word_parts
from moye.kernels.top_k_sort import padded, sort, threads_of
from moye.kernels.top_k_warps import WARPS, WarpPlan, top_k_warps_kernel, warp_plan
from moye.kernels.workspace import MAKES_ARRAYS, empty

MOST = 2048
"""Elements that a block sorts."""
_MANY, _SHORT = 1024, 1024
"""Rows, and elements of 16 bits, from and up to which a warp has a row that it cannot hold at once, without a list."""
_PART, _FEWEST = 4096, 4
"""Elements at least of a part of a row, and parts where k are so many that these decide."""
_SORTED = 256
"""Words that parts sort: more are left in order of their places, for which a part is read once more."""
_BITS = 11
"""Of a digit: with eight, most numbers of one sign and size would be counted at one place."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``room``: a power of two that holds k; ``parts``: blocks that share a row, whose k are joined by another launch.

    ``word``: the dtypes of the parts of a word.  ``list``: how a short list is made, or None.
    """

    width: int
    threads: int
    k: int
    room: int
    order: Order
    word: tuple[Any, ...]
    parts: int = 1
    list: Listed | None = None

    @property
    def words(self) -> int:
        """Words that are sorted."""
        return self.room if self.list is None else max(self.room, self.list.room)

    @property
    def sorts(self) -> bool:
        """Or leaves its k so that of equal ones the first come first, as what joins parts takes them."""
        return self.parts == 1 or self.room <= _SORTED


def make_plan(k: int, largest: bool, modes: list[views.Mode], info: Any, parts: int = 1) -> Plan:
    """The rule: vectors of 16 bytes, and 256 threads for a row, or 1024 where each has four vectors even then.

    A list is made where each thread has a vector, 128 of them if need be.
    """
    width = views.width_of([views.Mode(m.extent, m.strides[:1]) for m in modes], info)
    threads = 1024 if modes[0].extent >= 4 * 1024 * width else 256
    room = max(32, 1 << (k - 1).bit_length())
    order, word = make_order(info.dtype, largest), word_parts(info.dtype, modes[0].extent)
    plan = Plan(width, threads, k, room, order, word, parts)
    vectors = modes[0].extent // width // parts
    fewer = max((n for n in (threads, 256, 128) if n <= vectors), default=0)
    how = listed(k, fewer) if fewer and plan.sorts else None
    return plan if how is None else replace(plan, threads=fewer, list=how)


def digits_of(size: int) -> list[tuple[int, int]]:
    """(shift, bits) of the digits of a key, from the highest on."""
    return [(max(end - _BITS, 0), min(end, _BITS)) for end in range(size, 0, -_BITS)]


@mo.jit
def kth_key(plan, bits, first, last):
    """(key of the k-th element of these vectors of a row, how many of its equals are among the k, how many there are).
    """
    tid, counts, told = mo.thread_idx().x, mo.shared_array(mo.int32, 1 << _BITS), mo.shared_array(mo.int32, 3)
    scratch, size = mo.shared_array(mo.int32, plan.threads // 32), bits.dtype.bits
    prefix, wanted, equals = plan.order.key(0), mo.int32(plan.k), mo.int32(0)
    for shift, width in digits_of(size):
        for i in mo.range(tid, 1 << width, plan.threads):
            counts[i] = 0
        mo.sync_threads()
        for t in mo.range(first + tid, last, plan.threads):
            for _, key, there in keys_of(plan.order, plan.width, bits, t):
                if there and (shift + width == size or (key >> (shift + width)) == prefix):
                    mo.atomic_add(counts, mo.int32((key >> shift) & ((1 << width) - 1)), 1)
        mo.sync_threads()
        each = mo.ceil_div(1 << width, plan.threads)
        mine = [counted(counts, (1 << width) - 1 - tid * each - j) for j in range(each)]
        upto = mo.block_scan(sum(mine, mo.int32(0)), scratch)
        before = upto - sum(mine, mo.int32(0))
        for j in mo.static_range(each):
            if before < wanted and before + mine[j] >= wanted:
                told[0], told[1], told[2] = (1 << width) - 1 - tid * each - j, before, mine[j]
            before += mine[j]
        mo.sync_threads()
        digit = plan.order.key(told[0])
        prefix = plan.order.key((prefix << width) | digit) if shift + width < size else digit
        wanted, equals = wanted - told[1], told[2]
    return prefix, wanted, equals


@mo.jit
def counted(counts, digit):
    """How often a digit was counted; there are threads without one."""
    found = mo.int32(0)
    if digit >= 0:
        found = counts[digit]
    return found


@mo.jit
def share_of(vectors, part, parts):
    """The vectors of a row that a part has, from and up to."""
    if parts == 1:
        return 0, vectors
    return part * vectors // parts, (part + 1) * vectors // parts


@mo.jit
def counted_before(plan, bits, bound, begin, end):
    """How many elements above this key, if that is asked for, and of it are of earlier warps, which have vectors from
    begin up to end.
    """
    above, equal = mo.int32(0), mo.int32(0)
    for t in mo.range(begin + mo.lane_idx(), end, 32):
        for _, key, there in keys_of(plan.order, plan.width, bits, t):
            above += mo.where(there & (key > bound), 1, 0)
            equal += mo.where(there & (key == bound), 1, 0)
    return 0 if plan.sorts else of_earlier_warps(plan, above), of_earlier_warps(plan, equal)


@mo.jit
def of_earlier_warps(plan, mine):
    """The sum of a number of each thread over the warps before its own."""
    sums, lane, warp = mo.shared_array(mo.int32, plan.threads // 32), mo.lane_idx(), mo.warp_idx()
    mine = mo.warp_reduce(mine)
    if lane == 0:
        sums[warp] = mine
    mo.sync_threads()
    return mo.warp_reduce(mo.where(lane < warp, sums[mo.min(lane, plan.threads // 32 - 1)], 0))


@mo.jit
def collect(plan, bits, first, last, words):
    """The k largest of these vectors of a row: in any order, or their places in order; of equals the first ones."""
    count, lane = mo.shared_array(mo.int32, 1), mo.lane_idx()
    bound, wanted, equals = kth_key(plan, bits, first, last)
    if mo.thread_idx().x == 0:
        count[0] = 0
    for i in mo.range(plan.k + mo.thread_idx().x, plan.words, plan.threads):
        put(words, i, [part(0) for part in plan.word])
    each = mo.ceil_div(mo.ceil_div(last - first, plan.threads // 32), 32) * 32      # vectors of a warp
    begin = first + mo.warp_idx() * each
    end, whole = mo.min(begin + each, last), (wanted == equals) if plan.sorts else mo.bool(False)
    above, rank = mo.int32(0), mo.int32(0)
    if not whole:
        above, rank = counted_before(plan, bits, bound, begin, end)
    mo.sync_threads()
    for start in mo.range(begin, end, 32):
        found, mine, here = keys_of(plan.order, plan.width, bits, start + lane), mo.int32(0), start + lane < end
        for _, key, there in found:                     # what counts in any case, and above it the other equals
            mine += mo.where(there & here & ((key > bound) | (whole & (key == bound))), 1, 0)
            mine += mo.where(there & here & ~whole & (key == bound), 1 << 16, 0)
        if mo.ballot(mine != 0) != 0:
            upto = mo.warp_scan(mine)
            total, slot = mo.shuffle_idx(upto, 31), above
            if plan.sorts:
                if lane == 31:
                    slot = mo.atomic_add(count, 0, upto & 0xFFFF)
                slot = mo.shuffle_idx(slot, 31)
            slot += (upto - mine) & 0xFFFF
            other = rank + ((upto - mine) >> 16)
            for i, key, there in found:
                if there and here and (key > bound or (whole and key == bound)):
                    put(words, slot, word_of(plan.word, key, i))
                    slot += 1
                elif there and here and key == bound:
                    if other < wanted:
                        put(words, plan.k - wanted + other, word_of(plan.word, key, i))
                    other += 1
            above += total & 0xFFFF
            rank += total >> 16
    mo.sync_threads()


@mo.jit
def put(words, i, word):
    """Store word i."""
    for part, x in zip(words, word, strict=True):
        part[i] = x


@mo.kernel
def top_k_kernel(values, indices, x, origins, plan: mo.Constexpr):
    """values, indices (k, *rows) of x (n, *rows); a block a row.

    Or a part of one: then both are (k, parts, *rows).  ``origins`` (n, *rows): the places of elements that parts left.
    """
    tid, part = mo.thread_idx().x, mo.block_idx().x % plan.parts
    at = coordinate(mo.block_idx().x // plan.parts, mo.shape(x)[1:])
    out = (part, *at) if plan.parts > 1 else at
    if plan.parts > 1:
        mo.griddepcontrol_launch_dependents()
    if origins is not None:
        mo.griddepcontrol_wait()
    row, bits = x[:, *at], as_bits(x)[:, *at]                                               # (n)
    words = [mo.shared_array(dtype, padded(plan.words, dtype)) for dtype in plan.word]
    first, last = share_of(mo.ceil_div(mo.size(row, 0), plan.width), part, plan.parts)
    done = False
    if plan.list is not None:
        done = shortlist(plan.list, plan.order, plan.width, row, first, last, words)
    if not done:
        collect(plan, bits, first, last, words)
    if plan.sorts:
        if mo.warp_idx() < threads_of(plan.words, len(words)) // 32:
            sort(plan.words, words)
        mo.sync_threads()
    for i in mo.range(tid, plan.k, plan.threads):
        place = place_of([part[i] for part in words])
        values[i, *out] = row[place]
        indices[i, *out] = (place if origins is None else origins[place, *at]).to(indices.dtype)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def top_k(values: Any, indices: Any, x: Any, *, largest: bool = True) -> None:
    """values[..., j], indices[..., j] = the j-th largest element of x[..., :] (or least), and where it is.

    k, the last extent of both outputs, is at most 2048.  values have x's dtype, indices are int32 or int64.  NaN is
    larger than all numbers, as in PyTorch; zeros are equal; of equals the lowest index comes first, and is taken first.
    Any strides.  ArgumentError for other shapes, dtypes or devices.
    """
    largest = flag("top_k", "largest", largest)
    a, v = views.described("top_k", "x", x), views.described("top_k", "values", values)
    i = views.described("top_k", "indices", indices, (mo.int32, mo.int64))
    views.same("top_k", "dtype", "values", v, "x", a)
    views.same("top_k", "shape", "indices", i, "values", v)
    if not a.shape or tuple(v.shape[:-1]) != tuple(a.shape[:-1]) or len(v.shape) != len(a.shape):
        raise mo.ArgumentError(f"top_k: values have shape {tuple(v.shape)}, and x has {tuple(a.shape)}; "
                               f"they differ in the last axis alone")
    k, n = v.shape[-1], a.shape[-1]
    if k > min(n, MOST) or n > LAST:
        raise mo.ArgumentError(f"top_k: k is {k} of {n} elements; it may be at most {min(n, MOST)}")
    views.outputs("top_k", {"values": v, "indices": i}, {"x": a})
    views.together("top_k", values=v, indices=i, x=a)
    if 0 in v.shape:
        return
    rows = views.merged(views.modes_of(a.shape[:-1], a.strides[:-1], v.strides[:-1], i.strides[:-1]))
    rows = rows or [views.Mode(1, (0, 0, 0))]
    lines = [views.Mode(n, (a.strides[-1], 0, 0)), *rows], [views.Mode(k, (0, v.strides[-1], i.strides[-1])), *rows]
    out, places, given = views.view(values, lines[1], 1), views.view(indices, lines[1], 2), views.view(x, lines[0], 0)
    count = math.prod(m.extent for m in rows)
    plan = make_plan(k, largest, lines[0], a)
    if (warps := warp_plan(k, largest, lines[0], a)) and by_warps(n, count, warps, plan):
        top_k_warps_kernel[-(-count // WARPS), 32 * WARPS](out, places, given, warps)
        return
    parts = parts_of(plan, n, count, mo.multiprocessors(x)) if a.kind in MAKES_ARRAYS else 1
    if parts == 1:
        top_k_kernel[count, plan.threads](out, places, given, None, plan)
        return
    extents = tuple(m.extent for m in rows)
    apart = tuple(k * parts * math.prod(extents[:i]) for i in range(len(extents)))
    left = [empty(x, dtype, (k * parts, *extents)) for dtype in (a.dtype, mo.int32)]
    plan = make_plan(k, largest, lines[0], a, parts)
    top_k_kernel[count * parts, plan.threads](*(views.strided(t, (k, parts, *extents), (1, k, *apart)) for t in left),
                                              given, None, plan)
    joining = make_plan(k, largest, [views.Mode(k * parts, (1,)), *map(views.Mode, extents, zip(apart))], a)
    top_k_kernel.launch(out, places, *left, joining, grid=count, block=joining.threads, dependent=True)


def by_warps(n: int, rows: int, warps: WarpPlan, plan: Plan) -> bool:
    """Whether a warp for each row is sooner than a block: as measured on an H200."""
    return warps.once or (rows >= _MANY and n <= _SHORT and warps.word is mo.uint32 and plan.list is None)


def parts_of(plan: Plan, n: int, rows: int, multiprocessors: int) -> int:
    """Blocks that share a row: of few long rows, as many as there are multiprocessors.

    Where k is large, as many as make a part as long as what joins them reads: the root of n / k.
    Their number times that of vectors is one of 32 bits, as the kernel counts.
    """
    balanced = math.isqrt(n // plan.k)
    if rows >= multiprocessors or balanced < _FEWEST:
        return 1
    return max(1, min(LAST // -(-n // plan.width), multiprocessors // rows, n // _PART, balanced))
