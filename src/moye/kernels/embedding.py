"""Embedding: rows of a table by their numbers, and the gradient of the table.

In: a table (rows, columns) and integers of any shape.  Out: an array of the integers' shape and a last axis of columns.

    embedding(out, table, ids)                  # out[..., :] = table[ids[...], :]
    embedding_backward(dtable, dout, ids)       # dtable[r, :] = the sum of dout[i, :] over all i with ids[i] == r

The gradient is the same bit by bit in each run: one block writes a row and adds what belongs to it, in an order that
ids and columns alone decide.  It searches few ids for them.  Many ids are sorted first (embedding_sort.py); where a row
has whole pieces of the sorted ids, other blocks sum these before, so that no block sums alone what most ids name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.embedding_sort import clear_kernel, sorted_ids
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.options import integer
from moye.kernels.workspace import empty

THREADS = 256
SUMMING = 128
"""Threads of a block that sums a row of the table."""
SEARCHED = 1024
"""Ids up to which a row searches its own; more are sorted."""
_READ = 1 << 25
"""Bytes of ids up to which all rows read them all; beyond, ids are counted first, and only rows that have some do."""
_BLOCKS, _COMPARED = 1 << 14, 1 << 22
"""Blocks that sum one vector a thread at most, and ids that they compare."""
_HELD = 32
"""Registers in which a thread has what is on its way."""
INTEGERS = (mo.int32, mo.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector.  In the gradient ``lanes`` threads have ``rounds`` vectors of a row each.

    Where a block has more ``threads``, they have shares of what a row sums.  ``skipped``: the row without a gradient.
    ``ahead`` vectors of a thread's are on their way together.  A thread compares ``each`` ids with its row; where ids
    are sorted, ``piece`` of them are summed by a block of their own if they are one row's.
    """

    width: int
    whole: bool
    skipped: int | None = None
    threads: int = SUMMING
    lanes: int = SUMMING
    rounds: int = 1
    ahead: int = 1
    piece: int = 1
    each: int = 1

    @property
    def slots(self) -> int:
        """How many shares the sum of a row has."""
        return self.threads // self.lanes


def make_plan(modes: list[views.Mode], infos: tuple[Any, ...]) -> Plan:
    """The rule: vectors of 16 bytes of the widest dtype, if rows begin at multiples of them."""
    width = views.width_of(modes, *infos)
    return Plan(width, modes[0].extent % width == 0)


def gradient_plan(modes: list[views.Mode], infos: tuple[Any, Any], skipped: int | None, ids: int) -> Plan:
    """The rule: a block of 128 threads for a row of the table, with as many side by side as cover its columns.

    The others below them have shares of the row's ids; there are few or none where ids are sorted and rows many.
    Longer rows are taken in pieces by several blocks, of a vector a thread or, where that makes too many blocks, four.
    What a thread has on its way takes 32 registers.  Pieces of sorted ids grow as the root of the number of ids: so do
    the most ids that a block sums alone, and the most pieces.
    """
    width, columns = views.width_of(modes, *infos), modes[0].extent
    vectors = -(-columns // width)
    blocks = modes[1].extent * -(-vectors // SUMMING)
    few = blocks <= _BLOCKS and (ids > SEARCHED or blocks * ids <= _COMPARED)
    rounds = 1 if few else min(4, -(-vectors // SUMMING))
    lanes = min(SUMMING, 1 << (vectors - 1).bit_length())
    ahead = max(1, min(16, _HELD // (rounds * max(1, width * infos[1].dtype.bytes // 4))))
    plan = Plan(width, columns % width == 0, skipped, SUMMING, lanes, rounds, ahead)
    if ids > SEARCHED:
        threads = SUMMING if few else max(32, lanes)
        return replace(plan, threads=threads, piece=1 << max(6, ids.bit_length() // 2 - 2))
    return replace(plan, each=1 << (max(1, -(-ids // SUMMING)) - 1).bit_length())


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
def shares(dtable, compute, plan):
    """The vectors of a thread: (place, which of it are there, zeros to sum in)."""
    columns, mine = mo.identity_tensor((mo.size(dtable, 0),)), []
    for j in mo.static_range(plan.rounds):
        at = ((mo.block_idx().y * plan.rounds + j) * plan.lanes + mo.thread_idx().x % plan.lanes,)
        inside = mo.elem_less(mo.tile(columns, (plan.width,), at, ragged=True), (mo.size(dtable, 0),))
        total = mo.fragment((plan.width,), compute)                                     # (w)
        total.fill(0)
        mine.append((at, inside, total))
    return mine


@mo.jit
def add_up(totals, rooms, rows, count, place_of, plan):
    """Add a slot's share of ``count`` columns of ``rows`` to the totals: every ``plan.slots``-th.  Column i is at
    ``place_of(i)``.

    They are on their way together, each in its own of the ``rooms``.
    """
    for start in mo.range(mo.thread_idx().x // plan.lanes, count, len(rooms) * plan.slots):
        for k in mo.static_range(len(rooms)):
            i, there = mo.min(start + k * plan.slots, count - 1), start + k * plan.slots < count
            place = place_of(i)
            for (at, inside, _), held in zip(totals, rooms[k], strict=True):
                mo.copyto(held, mo.tile(rows[:, place], (plan.width,), at, ragged=True), pred=inside & there,
                          zero_fill=True)
        for k in mo.static_range(len(rooms)):
            if start + k * plan.slots < count:          # -0 plus what is not there would be 0
                for (_, _, total), held in zip(totals, rooms[k], strict=True):
                    total += held.to(total.dtype)


@mo.jit
def join_slots(totals, plan):
    """Add what the other slots have to the totals of the first.  All threads of a block call."""
    if plan.slots > 1:                                  # then a thread has one vector
        tid, (_, _, total), w = mo.thread_idx().x, totals[0], plan.width
        room = mo.shared_array(total.dtype, mo.make_layout((w * plan.lanes, plan.slots)))
        mo.copyto(mo.tile(room[:, tid // plan.lanes], (w,), (tid % plan.lanes,)), total)
        mo.sync_threads()
        if tid < plan.lanes:
            for slot in mo.static_range(1, plan.slots):
                held = mo.fragment((w,), total.dtype)
                mo.copyto(held, mo.tile(room[:, slot], (w,), (tid,)))
                total += held


@mo.jit
def write(row, totals, plan):
    """row (columns) becomes the totals, which the first slot has."""
    for at, inside, total in totals:
        mo.copyto(mo.tile(row, (plan.width,), at, ragged=True), total.to(row.dtype),
                  pred=inside & (mo.thread_idx().x < plan.lanes))


@mo.jit
def rooms_of(totals, dtype, count):
    """Registers for the columns that are on their way."""
    return [[mo.fragment(total.shape, dtype) for _, _, total in totals] for _ in range(count)]


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
    """dtable (columns, rows): a block sums the columns of dout (columns, n) whose ids are its row.

    With ``count`` it searches only if there are some.
    """
    row, totals, wanted = mo.block_idx().x, shares(dtable, compute, plan), True
    if count is not None:
        mo.griddepcontrol_wait()
        wanted = count[row] > 0
    if plan.skipped is not None:
        wanted = wanted & (row != plan.skipped)
    if wanted:
        order, found = places_of(plan, row, ids, mo.size(dtable, 1))
        if found > 0:
            add_up(totals, rooms_of(totals, dout.dtype, plan.ahead), dout, found, lambda i: order[i], plan)
            join_slots(totals, plan)
    write(dtable[:, row], totals, plan)


# --- many ids --------------------------------------------------------------------------------------------------------


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
        totals = shares(sums, compute, plan)
        add_up(totals, rooms_of(totals, dout.dtype, plan.ahead), dout, plan.piece,
               lambda i: order[piece * plan.piece + i], plan)
        join_slots(totals, plan)
        write(sums[:, piece], totals, plan)


@mo.kernel
def sorted_gradient_kernel(dtable, dout, sums, order, first, end, compute, plan: mo.Constexpr):
    """dtable (columns, rows): a block sums the columns of dout (columns, n) at its row's part of order.

    Whole pieces of its part are in sums (columns, pieces) already.
    """
    row = mo.block_idx().x
    mo.griddepcontrol_wait()
    begin, upto, totals = first[row], end[row], shares(dtable, compute, plan)
    if plan.skipped is not None and row == plan.skipped:
        upto = begin
    if begin < upto:
        least = mo.ceil_div(begin, plan.piece)          # of the pieces that are this row's
        pieces, alone = mo.max(upto // plan.piece - least, 0), least * plan.piece - begin
        add_up(totals, rooms_of(totals, dout.dtype, plan.ahead), dout, upto - begin - pieces * plan.piece,
               lambda i: order[begin + i + mo.where(i >= alone, pieces * plan.piece, 0)], plan)
        add_up(totals, rooms_of(totals, compute, max(1, plan.ahead // 2)), sums, pieces, lambda i: least + i, plan)
        join_slots(totals, plan)
    write(dtable[:, row], totals, plan)


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

    Sums are in float32 (float64 if an array has it), in an order that ids, columns and strides alone decide, so that
    each run gives the same bits.  Up to 1024 ids a row searches its own; more are sorted first.  There must be fewer
    than 2^31 ids and rows; an id that is no row fails an ``assert``, and else adds to nothing.
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
    plan = gradient_plan([line, column, views.Mode(rows[0].extent, (0, rows[0].strides[0]))], (t, o), padding_idx,
                         rows[0].extent)
    gI = views.view(ids, rows, 1)
    gT = views.strided(dtable, (line.extent, t.shape[0]), (line.strides[0], t.strides[0]))
    gO = views.strided(dout, (line.extent, rows[0].extent), (line.strides[1], rows[0].strides[0]))
    compute = mo.float64 if mo.float64 in (t.dtype, o.dtype) else mo.float32
    grid = t.shape[0], -(-line.extent // (plan.width * plan.lanes * plan.rounds))
    if rows[0].extent > SEARCHED:
        _sum_sorted(gT, gO, gI, compute, grid, plan)
        return
    count = None
    if grid[0] * grid[1] * rows[0].extent * i.dtype.bytes > _READ:
        count = empty(dtable, mo.int32, (t.shape[0],))
        clear_kernel[-(-t.shape[0] // THREADS), THREADS](None, count)
        count_kernel.launch(count, gI, grid=-(-rows[0].extent // THREADS), block=THREADS, dependent=True)
    gradient_kernel.launch(gT, gO, gI, count, compute, plan, grid=grid, block=plan.threads, dependent=count is not None)


def _sum_sorted(gT: Any, gO: Any, gI: Any, compute: Any, grid: tuple[int, int], plan: Plan) -> None:
    """The gradient gT (columns, rows) of gO (columns, n) by ids (n) that are sorted first."""
    rows, ids, columns = grid[0], mo.describe(gI).shape[0], mo.describe(gT).shape[0]        # type: ignore[union-attr]
    order, first, end = sorted_ids(gT, gI, ids, rows)
    pieces = ids // plan.piece
    sums = empty(gT, compute, (-(-columns // plan.width) * plan.width, max(1, pieces)))
    if pieces:
        pieces_kernel.launch(sums, gO, gI, order, rows, compute, plan, grid=(pieces, grid[1]), block=plan.threads,
                             dependent=True)
    sorted_gradient_kernel.launch(gT, gO, sums, order, first, end, compute, plan, grid=grid, block=plan.threads,
                                  dependent=True)


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
