"""Places of ids in the order of their rows, equals in their own, and where each row's begin and end.

In: ids (n), integers; how many rows there are.  Out: order (n), first (rows) and end (rows), int32.

    order, first, end = sorted_ids(like, ids, n, rows)      # row r has order[first[r]:end[r]]; without ids [0:0]

Ids are sorted by some bits of their rows at a time (radix sort).  Up to 65536 ids a cluster of blocks does it in one
launch: each has its tile's counts in shared memory and reads those of the others.  More have a launch for each step.
Ids that are no row come behind all rows.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.views import has_clusters
from moye.kernels.workspace import empty

BITS, THREADS = 8, 256
"""Of a digit, and of a block: a thread for each digit.  So where a launch does a step."""
_EACH = 16
TILE = THREADS * _EACH
"""Ids that a block sorts."""
BITS_TOGETHER, TOGETHER = 9, 512
"""The same of a cluster."""
_BLOCKS, _MOST = 8, 16
"""Of a cluster, and ids that a thread has at most."""
CLEARED = 1 << 18
"""Rows whose bounds a cluster clears."""


@mo.kernel
def clear_kernel(first, end):
    """first = end = 0, or end alone."""
    mo.griddepcontrol_launch_dependents()
    row = mo.block_idx().x * THREADS + mo.thread_idx().x
    if row < mo.size(end):
        if first is not None:
            first[row] = 0
        end[row] = 0


@mo.jit
def key_of(ids, place, rows):
    """The row of an id, or ``rows`` if it is none: such come behind all rows."""
    row = ids[place]
    known = (row >= 0) & (row < rows)
    assert known, "an id that is no row of the table"
    return mo.where(known, mo.int32(row), rows)


@mo.jit
def equals(digit, bits):
    """The lanes that have the same digit, of so many bits and one.  ``match_any`` takes longer, the more digits."""
    same = mo.uint32(0xFFFFFFFF)
    for bit in mo.static_range(bits + 1):
        mine = (digit >> bit) & 1
        same &= mo.ballot(mine != 0) ^ mo.where(mine != 0, mo.uint32(0), mo.uint32(0xFFFFFFFF))
    return same


@mo.jit
def ranks(found, digits, bits):
    """How many equal digits of a warp come before each of ``digits``, of which a warp has neighbours.

    found (2^bits, warps), zeros before, has how many of each digit each warp has.  A digit of 2^bits counts for none.
    """
    lane, warp, mine = mo.lane_idx(), mo.warp_idx(), []
    for digit in digits:
        same, rank = equals(digit, bits), mo.int32(0)
        lower = mo.popcount(same & ((mo.uint32(1) << lane) - 1))
        if digit < 1 << bits:
            rank = found[digit, warp] + lower
        mo.sync_warp()
        if digit < 1 << bits and lower == 0:
            found[digit, warp] = rank + mo.popcount(same)
        mo.sync_warp()
        mine.append(rank)
    return mine


# --- a cluster -------------------------------------------------------------------------------------------------------


@mo.jit
def starts_of(found, counts, scratch):
    """found (digits, warps) become where each warp's ids of a digit begin: behind lower digits, and its own of blocks
    and warps before."""
    tid, before, whole, total = mo.thread_idx().x, mo.int32(0), mo.int32(0), mo.int32(0)
    for warp in mo.static_range(mo.size(found, 1)):
        mine = found[tid, warp]
        found[tid, warp] = total
        total += mine
    counts[tid] = total
    mo.cluster_sync()
    for block in mo.static_range(_BLOCKS):
        theirs = mo.map_shared_rank(counts, block)[tid]
        before += mo.where(block < mo.cluster_rank(), theirs, 0)
        whole += theirs
    at = mo.block_scan(whole, scratch, inclusive=False) + before
    for warp in mo.static_range(mo.size(found, 1)):
        found[tid, warp] += at
    mo.sync_threads()


@mo.kernel
def sort_kernel(orders, keys, first, end, ids, passes: mo.Constexpr, each: mo.Constexpr):
    """orders[0], first and end of ids, by a cluster.  The other of the orders and the keys, two, are room for as many
    numbers: what a pass reads and what it writes."""
    tid, rank, rows, warps, n = mo.thread_idx().x, mo.cluster_rank(), mo.size(first), TOGETHER // 32, mo.size(ids)
    found, counts = mo.shared_array(mo.int32, (TOGETHER, warps)), mo.shared_array(mo.int32, TOGETHER)
    scratch, mine = mo.shared_array(mo.int32, warps), rank * TOGETHER * each
    mo.griddepcontrol_launch_dependents()
    for row in mo.range(rank * TOGETHER + tid, rows, _BLOCKS * TOGETHER):
        first[row] = 0
        end[row] = 0
    for turn in mo.static_range(passes):
        to, held = (passes - turn + 1) % 2, []
        for j in mo.static_range(each):                 # no branch, so that loads are on their way together
            i = mine + (tid // 32 * each + j) * 32 + tid % 32
            place = mo.int32(mo.min(i, n - 1))
            if turn == 0:
                key = key_of(ids, place, rows)
            else:
                key, place = keys[1 - to][place], orders[1 - to][place]
            digit = (key >> BITS_TOGETHER * turn) & (TOGETHER - 1)
            held.append((place, key, mo.where(i < n, digit, TOGETHER)))
        for warp in mo.static_range(warps):
            found[tid, warp] = 0
        mo.sync_threads()
        numbers = ranks(found, [digit for _, _, digit in held], BITS_TOGETHER)
        mo.sync_threads()
        starts_of(found, counts, scratch)
        for (place, key, digit), number in zip(held, numbers, strict=True):
            if digit < TOGETHER:
                at = found[digit, tid // 32] + number
                orders[to][at], keys[to][at] = place, key
        mo.cluster_sync()                               # all are there, and all counts read
    for j in mo.static_range(each):
        bounds(first, end, lambda i: keys[0][i], mine + j * TOGETHER + tid, n)


@mo.jit
def bounds(first, end, row_of, i, n):
    """Write first[r] or end[r] if the i-th of n sorted rows begins or ends those of row r."""
    before, row, after = (row_of(mo.max(mo.min(i + step, n - 1), 0)) for step in (-1, 0, 1))
    if (i < n) & (row >= 0) & (row < mo.size(first)):
        if i == 0 or before != row:
            first[row] = i
        if i == n - 1 or after != row:
            end[row] = i + 1


# --- a launch a step -------------------------------------------------------------------------------------------------


@mo.jit
def digit_of(ids, order, i, rows, shift):
    """(place, digit) of what is i-th by the digits before; behind the last id the digit is 256."""
    place = mo.int32(mo.min(i, mo.size(ids) - 1))       # no branch: the loads of several i are on their way together
    if order is not None:
        place = order[place]
    digit = (key_of(ids, place, rows) >> shift) & (THREADS - 1)
    return place, mo.where(i < mo.size(ids), digit, THREADS)


@mo.kernel
def digits_kernel(counts, ids, order, rows, shift: mo.Constexpr):
    """counts (256, tiles): how many ids of each tile have each digit."""
    tid, tile, found = mo.thread_idx().x, mo.block_idx().x, mo.shared_array(mo.int32, THREADS)
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    found[tid] = 0
    mo.sync_threads()
    for _, digit in [digit_of(ids, order, tile * TILE + j * THREADS + tid, rows, shift) for j in range(_EACH)]:
        if digit < THREADS:
            mo.atomic_add(found, digit, 1)
    mo.sync_threads()
    counts[tid, tile] = found[tid]


@mo.kernel
def starts_kernel(counts):
    """counts become where a tile's ids of a digit begin: behind all lower digits, and its own of earlier tiles."""
    digit, tiles, scratch = mo.thread_idx().x, mo.size(counts, 1), mo.shared_array(mo.int32, THREADS // 32)
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    total = mo.int32(0)
    for tile in mo.range(tiles, unroll=8):
        total += counts[digit, tile]
    at = mo.block_scan(total, scratch, inclusive=False)
    for tile in mo.range(tiles, unroll=8):
        mine = counts[digit, tile]
        counts[digit, tile] = at
        at += mine


@mo.kernel
def place_kernel(after, starts, ids, order, rows, shift: mo.Constexpr):
    """after: the places of ids by this digit, equals in the order that they had."""
    tid, tile, warps = mo.thread_idx().x, mo.block_idx().x, THREADS // 32
    found = mo.shared_array(mo.int32, (THREADS, warps))
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    for warp in mo.static_range(warps):
        found[tid, warp] = 0
    mo.sync_threads()
    held = [digit_of(ids, order, tile * TILE + (tid // 32 * _EACH + j) * 32 + tid % 32, rows, shift)
            for j in range(_EACH)]
    numbers = ranks(found, [digit for _, digit in held], BITS)
    mo.sync_threads()
    at = starts[tid, tile]
    for warp in mo.static_range(warps):
        count = found[tid, warp]
        found[tid, warp] = at
        at += count
    mo.sync_threads()
    for (place, digit), number in zip(held, numbers, strict=True):
        if digit < THREADS:
            after[found[digit, tid // 32] + number] = place


@mo.kernel
def bounds_kernel(first, end, ids, order):
    """first[r], end[r]: where the places of row r are in order, which is sorted; they stay as they are without any."""
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    bounds(first, end, lambda i: ids[order[i]], mo.block_idx().x * THREADS + mo.thread_idx().x, mo.size(ids))


# --- host ------------------------------------------------------------------------------------------------------------


def sorted_ids(like: Any, ids: Any, count: int, rows: int) -> tuple[Any, Any, Any]:
    """(order, first, end) of ``count`` ids, arrays beside ``like``; what reads them is launched dependent."""
    order, spare = (empty(like, mo.int32, (count,)) for _ in range(2))
    first, end = (empty(like, mo.int32, (rows,)) for _ in range(2))
    bits, each = rows.bit_length(), -(-count // (_BLOCKS * TOGETHER))   # rows itself stands for what is no row
    if each <= _MOST and rows <= CLEARED and has_clusters(like):
        keys = tuple(empty(like, mo.int32, (count,)) for _ in range(2))
        sort_kernel.launch((order, spare), keys, first, end, ids, -(-bits // BITS_TOGETHER),
                           1 << (each - 1).bit_length(), grid=_BLOCKS, block=TOGETHER, cluster=_BLOCKS)
        return order, first, end
    tiles, of = -(-count // TILE), None
    counts = empty(like, mo.int32, (THREADS, tiles))
    clear_kernel[-(-rows // THREADS), THREADS](first, end)
    for shift in range(0, bits, BITS):
        digits_kernel.launch(counts, ids, of, rows, shift, grid=tiles, block=THREADS, dependent=True)
        starts_kernel.launch(counts, grid=1, block=THREADS, dependent=True)
        place_kernel.launch(order, counts, ids, of, rows, shift, grid=tiles, block=THREADS, dependent=True)
        of, order, spare = order, spare, order
    bounds_kernel.launch(first, end, ids, of, grid=-(-count // THREADS), block=THREADS, dependent=True)
    return of, first, end
