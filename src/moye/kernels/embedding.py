"""Embedding: rows of a table by their numbers, and the gradient of the table.

In: a table (rows, columns) and integers of any shape.  Out: an array of the integers' shape and a last axis of columns.

    embedding(out, table, ids)                  # out[..., :] = table[ids[...], :]
    embedding_backward(dtable, dout, ids)       # dtable[r, :] = the sum of dout[i, :] over all i with ids[i] == r

The gradient is the same bit by bit in each run: one block writes a row and adds what belongs to it in the order of ids.
It searches few ids for them.  Many ids are sorted first, stably, by eight bits of their rows at a time; where a row has
whole pieces of the sorted ids, other blocks sum these before, so that no block sums alone what most ids name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.options import integer
from moye.kernels.workspace import empty

THREADS = 256
SUMMING = 128
"""Threads of a block that sums a row of the table."""
SEARCHED = 1024
"""Ids up to which a row searches its own; more are sorted."""
_READ = 1 << 24
"""Bytes of ids up to which all rows read them all; beyond, ids are counted first, and only rows that have some do."""
_DIGITS = 256
_EACH = 16
_WARPS = THREADS // 32
TILE = THREADS * _EACH
"""Ids that a block sorts."""
INTEGERS = (mo.int32, mo.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector.  The gradient has blocks of ``threads``, which sum ``rounds`` vectors each.

    ``skipped``: the row without a gradient.  ``ahead`` tokens' vectors are on their way together.  A thread compares
    ``each`` ids with its row; where ids are sorted, ``piece`` of them are summed by a block of their own if they are
    one row's.
    """

    width: int
    threads: int
    rounds: int
    whole: bool
    skipped: int | None
    ahead: int = 1
    piece: int = 1
    each: int = 1


def make_plan(modes: list[views.Mode], infos: tuple[Any, ...], skipped: int | None = None, ids: int = 0) -> Plan:
    """The rule: vectors of 16 bytes of the widest dtype, if rows begin at multiples of them.

    The gradient has a block for each row of the table, of 128 threads, which take as few vectors each as cover the
    columns, at most 4 at a time; longer rows are taken in pieces by several blocks.  Where ids are sorted, nobody
    searches, and blocks have no more warps than vectors need.  Pieces grow as the root of the number of ids: so do the
    most ids that a block sums alone, and the most pieces.
    """
    width, columns = views.width_of(modes, *infos), modes[0].extent
    vectors = -(-columns // width)
    rounds = min(4, -(-vectors // 128))
    threads = min(SUMMING, -(-vectors // 32) * 32) if ids > SEARCHED else SUMMING
    piece = 1 << max(6, ids.bit_length() // 2 - 2) if ids > SEARCHED else 1
    each = 1 if ids > SEARCHED else 1 << (max(1, -(-ids // SUMMING)) - 1).bit_length()
    return Plan(width, threads, rounds, columns % width == 0, skipped, 8 if rounds == 1 else 4 // rounds, piece, each)


@mo.kernel
def gather_kernel(out, table, ids, plan: mo.Constexpr):
    """out (columns, *shape) = table (columns, rows) at ids (*shape); a vector a thread, neighbours in a row."""
    gO, gT, w = as_bits(out), as_bits(table), plan.width
    columns, *shape = mo.shape(out)
    parts = mo.ceil_div(columns, w)
    i, *at = coordinate(mo.block_idx().x * THREADS + mo.thread_idx().x, (parts, *shape))
    if at[-1] < shape[-1]:
        row = ids[tuple(at)]
        known = (row >= 0) & (row < mo.size(table, 1))
        assert known, "an id that is no row of the table"
        inside = i < parts
        if not plan.whole:
            inside = mo.elem_less(mo.tile(mo.identity_tensor((columns,)), (w,), (i,), ragged=True), (columns,))
        held = mo.fragment((w,), gT.dtype)                                              # (w)
        ones = (1 << gT.dtype.bits) - 1
        mo.copyto(held, mo.tile(gT[:, row], (w,), (i,), ragged=True), pred=inside & known, other=ones)
        mo.copyto(mo.tile(gO[:, *at], (w,), (i,), ragged=True), held, pred=inside)


@mo.kernel
def clear_kernel(first, count, ids):
    """first = ids' size (None: there is none), count = 0."""
    mo.griddepcontrol_launch_dependents()
    row = mo.block_idx().x * THREADS + mo.thread_idx().x
    if row < mo.size(count):
        if first is not None:
            first[row] = mo.size(ids)
        count[row] = 0


@mo.kernel
def count_kernel(count, ids):
    """count[r]: how many ids are r."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    mo.griddepcontrol_launch_dependents()
    if i < mo.size(ids):
        row = ids[i]
        known = (row >= 0) & (row < mo.size(count))
        assert known, "an id that is no row of the table"
        mo.griddepcontrol_wait()
        if known:
            mo.atomic_add(count, row, 1)


@mo.jit
def shares(dtable, dout, compute, plan):
    """The vectors of a thread: (place, which of it are there, zeros to sum in, room for one of dout)."""
    columns, mine = mo.identity_tensor((mo.size(dtable, 0),)), []
    for j in mo.static_range(plan.rounds):
        at = ((mo.block_idx().y * plan.rounds + j) * plan.threads + mo.thread_idx().x,)
        inside = mo.elem_less(mo.tile(columns, (plan.width,), at, ragged=True), (mo.size(dtable, 0),))
        total = mo.fragment((plan.width,), compute)                                     # (w)
        total.fill(0)
        mine.append((at, inside, total, mo.fragment((plan.width,), dout.dtype)))
    return mine


@mo.jit
def add_up(totals, rooms, rows, order, places, plan):
    """Add the columns of ``rows`` from place ``places[0]`` up to ``places[1]`` of order, or themselves, to the totals.

    ``plan.ahead`` of them are on their way together, each in its own of the ``rooms``.
    """
    first, upto = places
    for start in mo.range(first, upto, plan.ahead):
        for k in mo.static_range(plan.ahead):
            there, place = start + k < upto, mo.min(start + k, upto - 1)
            if order is not None:
                place = order[place]
            for (at, inside, _), held in zip(totals, rooms[k], strict=True):
                mo.copyto(held, mo.tile(rows[:, place], (plan.width,), at, ragged=True), pred=inside & there,
                          zero_fill=True)
        for k in mo.static_range(plan.ahead):
            if start + k < upto:                        # -0 plus what is not there would be 0
                for (_, _, total), held in zip(totals, rooms[k], strict=True):
                    total += held.to(total.dtype)


@mo.jit
def rooms_of(totals, dtype, plan):
    """Registers for the columns that are on their way."""
    return [[mo.fragment((plan.width,), dtype) for _ in totals] for _ in range(plan.ahead)]


@mo.jit
def places_of(plan, row, ids, rows):
    """(the places of ids that are this row, in order, how many there are), by all threads of a block."""
    tid, order, mine = mo.thread_idx().x, mo.shared_array(mo.int32, plan.each * SUMMING), []
    found, room = mo.int32(0), mo.shared_array(mo.int32, SUMMING // 32)
    for j in mo.static_range(plan.each):
        place, match = tid * plan.each + j, False
        if place < mo.size(ids):
            known = (ids[place] >= 0) & (ids[place] < rows)
            assert known, "an id that is no row of the table"
            match = ids[place] == row
        mine.append((place, match))
        found += mo.where(match, 1, 0)
    at = mo.block_scan(found, room, inclusive=False)
    total = mo.shared_array(mo.int32, 1)
    if tid == SUMMING - 1:
        total[0] = at + found
    for place, match in mine:
        if match:
            order[at] = place
            at += 1
    mo.sync_threads()
    return order, total[0]


@mo.kernel
def gradient_kernel(dtable, dout, ids, count, compute, plan: mo.Constexpr):
    """dtable (columns, rows): a block sums the columns of dout (columns, n) whose ids are its row, in their order.

    With ``count`` it searches only if there are some.
    """
    row = mo.block_idx().x
    totals = [(at, inside, total) for at, inside, total, _ in shares(dtable, dout, compute, plan)]
    wanted = True
    if count is not None:
        mo.griddepcontrol_wait()
        wanted = count[row] > 0
    if plan.skipped is not None:
        wanted = wanted & (row != plan.skipped)
    if wanted:
        order, found = places_of(plan, row, ids, mo.size(dtable, 1))
        add_up(totals, rooms_of(totals, dout.dtype, plan), dout, order, (0, found), plan)
    for at, inside, total in totals:
        mo.copyto(mo.tile(dtable[:, row], (plan.width,), at, ragged=True), total.to(dtable.dtype), pred=inside)


# --- many ids --------------------------------------------------------------------------------------------------------


@mo.jit
def digit_of(ids, order, i, rows, shift):
    """(place, digit) of what is i-th by the digits before: ids that are no row come behind all rows."""
    place = mo.int32(i) if shift == 0 else order[i]
    row = ids[place]
    known = (row >= 0) & (row < rows)
    assert known, "an id that is no row of the table"
    return place, (mo.where(known, mo.int32(row), rows) >> shift) & (_DIGITS - 1)


@mo.kernel
def digits_kernel(counts, ids, order, rows, shift: mo.Constexpr):
    """counts (256, tiles): how many ids of each tile have each digit."""
    tid, tile, found = mo.thread_idx().x, mo.block_idx().x, mo.shared_array(mo.int32, _DIGITS)
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    found[tid] = 0
    mo.sync_threads()
    for j in mo.static_range(_EACH):
        i = tile * TILE + j * THREADS + tid
        if i < mo.size(ids):
            _, digit = digit_of(ids, order, i, rows, shift)
            mo.atomic_add(found, digit, 1)
    mo.sync_threads()
    counts[tid, tile] = found[tid]


@mo.kernel
def starts_kernel(counts):
    """counts become where a tile's ids of a digit begin: behind all lower digits, and its own of earlier tiles."""
    digit, tiles, scratch = mo.thread_idx().x, mo.size(counts, 1), mo.shared_array(mo.int32, _WARPS)
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
    """after: the places of ids by this digit, equals in the order that they had.  A warp has neighbours in a tile."""
    tid, tile, lane, warp = mo.thread_idx().x, mo.block_idx().x, mo.lane_idx(), mo.warp_idx()
    found, mine = mo.shared_array(mo.int32, (_DIGITS, _WARPS)), []
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    for other in mo.static_range(_WARPS):
        found[tid, other] = 0
    mo.sync_threads()
    for j in mo.static_range(_EACH):
        i = tile * TILE + (warp * _EACH + j) * 32 + lane
        place, digit = mo.int32(0), mo.int32(_DIGITS)                   # no digit: behind the last id
        if i < mo.size(ids):
            place, digit = digit_of(ids, order, i, rows, shift)
        same, rank = mo.match_any(digit), mo.int32(0)
        lower = mo.popcount(same & ((mo.uint32(1) << lane) - 1))
        if digit < _DIGITS:
            rank = found[digit, warp] + lower
        mo.sync_warp()
        if digit < _DIGITS and lower == 0:
            found[digit, warp] = rank + mo.popcount(same)
        mo.sync_warp()
        mine.append((place, digit, rank))
    mo.sync_threads()
    at = starts[tid, tile]
    for other in mo.static_range(_WARPS):
        count = found[tid, other]
        found[tid, other] = at
        at += count
    mo.sync_threads()
    for place, digit, rank in mine:
        if digit < _DIGITS:
            after[found[digit, warp] + rank] = place


@mo.kernel
def bounds_kernel(first, end, ids, order):
    """first[r], end[r]: where the places of row r are in order, which is sorted; rows without ids keep an end of 0."""
    i, rows = mo.block_idx().x * THREADS + mo.thread_idx().x, mo.size(first)
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    if i < mo.size(ids):
        row = ids[order[i]]
        if (row >= 0) & (row < rows):
            if i == 0 or ids[order[mo.max(i - 1, 0)]] != row:
                first[row] = i
            if i == mo.size(ids) - 1 or ids[order[mo.min(i + 1, mo.size(ids) - 1)]] != row:
                end[row] = i + 1


@mo.kernel
def pieces_kernel(sums, dout, ids, order, rows, compute, plan: mo.Constexpr):
    """sums (columns, pieces): of each piece of the sorted ids that is of one row, the sum of its columns of dout."""
    piece = mo.block_idx().x
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    row = ids[order[piece * plan.piece]]
    wanted = (row >= 0) & (row < rows) & (row == ids[order[(piece + 1) * plan.piece - 1]])
    if plan.skipped is not None:
        wanted &= row != plan.skipped
    if wanted:
        totals = [(at, inside, total) for at, inside, total, _ in shares(sums, dout, compute, plan)]
        add_up(totals, rooms_of(totals, dout.dtype, plan), dout, order, (piece * plan.piece, (piece + 1) * plan.piece),
               plan)
        for at, inside, total in totals:
            mo.copyto(mo.tile(sums[:, piece], (plan.width,), at, ragged=True), total, pred=inside)


@mo.kernel
def sorted_gradient_kernel(dtable, dout, sums, order, first, end, compute, plan: mo.Constexpr):
    """dtable (columns, rows): a block sums the columns of dout (columns, n) at its row's part of order.

    Whole pieces of its part are in sums (columns, pieces) already.
    """
    row = mo.block_idx().x
    mo.griddepcontrol_wait()
    begin, upto = first[row], end[row]
    totals = [(at, inside, total) for at, inside, total, _ in shares(dtable, dout, compute, plan)]
    rooms = rooms_of(totals, dout.dtype, plan)
    if plan.skipped is not None and row == plan.skipped:
        upto = begin
    least, most = mo.ceil_div(begin, plan.piece), upto // plan.piece
    if least < most:
        add_up(totals, rooms, dout, order, (begin, least * plan.piece), plan)
        add_up(totals, rooms_of(totals, compute, plan), sums, None, (least, most), plan)
        begin = most * plan.piece
    add_up(totals, rooms, dout, order, (begin, upto), plan)
    for at, inside, total in totals:
        mo.copyto(mo.tile(dtable[:, row], (plan.width,), at, ragged=True), total.to(dtable.dtype), pred=inside)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def embedding(out: Any, table: Any, ids: Any) -> None:
    """out[..., :] = table[ids[...], :], of any dtype of 1, 2, 4 or 8 bytes and any strides.

    ``ids`` are int32 or int64.  One that is no row of the table fails an ``assert`` (in the simulator, and on a GPU
    under MOYE_ASSERT=1), and else gives a row of which all bits are ones: NaN.  ArgumentError for other dtypes, shapes
    or devices.
    """
    t, o, i = _checked("embedding", "table", table, "out", out, ids, None)
    if o.dtype != t.dtype or t.dtype.bits not in (8, 16, 32, 64):
        raise mo.ArgumentError(f"embedding: out holds {o.dtype}, and table {t.dtype}; and they hold one dtype")
    views.outputs("embedding", {"out": o}, {"table": t, "ids": i})
    if 0 in o.shape:
        return
    rows = views.merged([views.Mode(n, (a, b)) for n, a, b in zip(i.shape, o.strides, i.strides, strict=False)
                         if n != 1]) or [views.Mode(1, (0, 0))]
    line, column = views.Mode(t.shape[1], (o.strides[-1], t.strides[1])), views.Mode(t.shape[0], (0, t.strides[0]))
    plan = make_plan([line, column, *(views.Mode(m.extent, (m.strides[0], 0)) for m in rows)], (o, t))
    gO = views.view(out, [line, *rows], 0)
    gT = views.strided(table, (line.extent, t.shape[0]), (line.strides[1], t.strides[0]))
    vectors = -(-line.extent // plan.width) * math.prod(m.extent for m in rows)
    gather_kernel[-(-vectors // THREADS), THREADS](gO, gT, views.view(ids, rows, 1), plan)


@mo.replayed
def embedding_backward(dtable: Any, dout: Any, ids: Any, *, padding_idx: int | None = None) -> None:
    """dtable[r, :] = the sum of dout[i, :] over all i with ids[i] == r; zeros where there is none, and at padding_idx.

    Sums are in float32 (float64 if an array has it), in an order that ids alone decide, so that each run gives the same
    bits.  Up to 1024 ids a row searches its own; more are sorted first.  There must
    be fewer than 2^31 ids and rows; an id that is no row fails an ``assert``, and else adds to nothing.
    """
    t, o, i = _checked("embedding_backward", "dtable", dtable, "dout", dout, ids, views.FLOATS)
    views.outputs("embedding_backward", {"dtable": t}, {"dout": o, "ids": i})
    if padding_idx is not None:
        padding_idx = integer("embedding_backward", "padding_idx", padding_idx, f"none of the {t.shape[0]} rows", 0)
        if padding_idx >= t.shape[0]:
            raise mo.ArgumentError(f"embedding_backward: padding_idx={padding_idx} is none of the {t.shape[0]} rows")
    if 0 in t.shape:
        return
    rows = views.merged([views.Mode(n, (a, b)) for n, a, b in zip(i.shape, o.strides, i.strides, strict=False)
                         if n != 1]) if 0 not in i.shape else []
    if len(rows) > 1:
        raise mo.ArgumentError(f"embedding_backward: dout has strides {tuple(o.strides)} and ids {tuple(i.strides)}, "
                               f"which are no plain lists of rows", hint="pass contiguous arrays")
    rows = rows or [views.Mode(math.prod(i.shape), (0, 0))]
    line, column = views.Mode(t.shape[1], (t.strides[1], o.strides[-1])), views.Mode(t.shape[0], (t.strides[0], 0))
    plan = make_plan([line, column, views.Mode(rows[0].extent, (0, rows[0].strides[0]))], (t, o), padding_idx,
                     rows[0].extent)
    gI = views.view(ids, rows, 1)
    gT = views.strided(dtable, (line.extent, t.shape[0]), (line.strides[0], t.strides[0]))
    gO = views.strided(dout, (line.extent, rows[0].extent), (line.strides[1], rows[0].strides[0]))
    compute = mo.float64 if mo.float64 in (t.dtype, o.dtype) else mo.float32
    grid = t.shape[0], -(-line.extent // (plan.width * plan.threads * plan.rounds))
    if rows[0].extent > SEARCHED:
        _sum_sorted(gT, gO, gI, compute, grid, plan)
        return
    count = None
    if grid[0] * grid[1] * rows[0].extent * i.dtype.bytes > _READ:
        count = empty(dtable, mo.int32, (t.shape[0],))
        clear_kernel[-(-t.shape[0] // THREADS), THREADS](None, count, gI)
        count_kernel.launch(count, gI, grid=-(-rows[0].extent // THREADS), block=THREADS, dependent=True)
    gradient_kernel.launch(gT, gO, gI, count, compute, plan, grid=grid, block=plan.threads, dependent=count is not None)


def _sum_sorted(gT: Any, gO: Any, gI: Any, compute: Any, grid: tuple[int, int], plan: Plan) -> None:
    """The gradient gT (columns, rows) of gO (columns, n) by ids (n) that are sorted first."""
    rows, ids, columns = grid[0], mo.describe(gI).shape[0], mo.describe(gT).shape[0]        # type: ignore[union-attr]
    first, count = (empty(gT, mo.int32, (rows,)) for _ in range(2))
    clear_kernel[-(-rows // THREADS), THREADS](first, count, gI)
    order = sorted_places(gT, gI, ids, rows)
    bounds_kernel.launch(first, count, gI, order, grid=-(-ids // THREADS), block=THREADS, dependent=True)
    pieces = ids // plan.piece
    sums = empty(gT, compute, (-(-columns // plan.width) * plan.width, max(1, pieces)))
    if pieces:
        pieces_kernel.launch(sums, gO, gI, order, rows, compute, plan, grid=(pieces, grid[1]), block=plan.threads,
                             dependent=True)
    sorted_gradient_kernel.launch(gT, gO, sums, order, first, count, compute, plan, grid=grid, block=plan.threads,
                                  dependent=True)


def sorted_places(like: Any, ids: Any, count: int, rows: int) -> Any:
    """The places of ids in the order of their rows, equals in their own."""
    tiles = -(-count // TILE)
    order, after = (empty(like, mo.int32, (count,)) for _ in range(2))
    counts = empty(like, mo.int32, (_DIGITS, tiles))
    for shift in range(0, rows.bit_length(), 8):                        # rows itself stands for what is no row
        digits_kernel.launch(counts, ids, order, rows, shift, grid=tiles, block=THREADS, dependent=True)
        starts_kernel.launch(counts, grid=1, block=_DIGITS, dependent=True)
        place_kernel.launch(after, counts, ids, order, rows, shift, grid=tiles, block=THREADS, dependent=True)
        order, after = after, order
    return order


def _checked(who: str, one: str, table: Any, other: str, rows: Any, ids: Any, dtypes: Any) -> tuple[Any, Any, Any]:
    """What the arrays are, or ArgumentError."""
    t, o = views.described(who, one, table, dtypes), views.described(who, other, rows, dtypes)
    i = views.described(who, "ids", ids, INTEGERS)
    if len(t.shape) != 2:
        raise mo.ArgumentError(f"{who}: {one} has shape {tuple(t.shape)}; it is (rows, columns)")
    if tuple(o.shape) != (*i.shape, t.shape[1]):
        raise mo.ArgumentError(f"{who}: {other} has shape {tuple(o.shape)}, and ids and {one} make it "
                               f"{(*i.shape, t.shape[1])}")
    views.together(who, **{one: t, other: o, "ids": i})
    return t, o, i
