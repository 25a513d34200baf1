"""What kernels of rows are made of, on the device: which parts of a row a thread has, reading, writing, folding.

In: a ``RowPlan`` and tensors.  Out: fragments of registers, and folds that every thread of a row gets.

    place = parts.place(plan, gX)                                       # gX = parts.as_rows(x): (rows, columns)
    for first in mo.range(place.first, place.rows, place.step):
        row = parts.row(plan, place, gX, first)
        held = [parts.read(piece, row) for piece in place.pieces]
        total, = parts.fold(plan, [parts.total(held)], "add", scratch)

All of it is public: kernels of one's own are written with the same parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.rows.plan import TURN, power

_KEPT = 16
"""Registers of a thread for what was computed of a row, until it is used again."""
MEETINGS = 16
"""Folds of a cluster between two of its barriers."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A place of this thread in each of its rows: ``width`` elements, or none where ``has`` is false.

    ``at`` counts vectors from the row's first whole one; of an edge, whose width is 1, elements of the row.  ``lead``
    elements lie before that first vector.  ``has`` is a predicate, or one for each element, or True.
    """

    width: int
    at: Any
    has: Any
    lead: Any
    edge: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a matrix.  ``flat`` is all its memory, of which the row's whole vectors begin at vector ``begin``."""

    tensor: Any
    flat: Any
    begin: Any
    there: Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread works: rows ``first + slot``, ``first + slot + step`` and so on, while they are below ``rows``.

    Loops run over ``first`` alone, which is the same for a whole block, so that all threads meet in its folds.
    """

    lane: Any
    slot: Any
    rank: Any
    first: Any
    step: Any
    rows: Any
    columns: Any
    lead: Any
    pitch: Any
    pieces: list[Piece]

    @property
    def leader(self) -> Any:
        """Whether this thread writes what a row has once, such as its sum."""
        return (self.lane == 0) & (self.rank == 0)


@mo.jit
def as_rows(tensor):
    """A tensor of any rank as (rows, columns): the last mode is the row, and of the others the last goes fastest."""
    layout = tensor.layout
    last = mo.rank(layout) - 1
    modes = [layout.mode(i) for i in range(last)][::-1]
    if last == 0:
        return tensor.with_layout(mo.make_layout(mo.make_layout(1), layout.mode(0)))
    if last == 1:
        return tensor
    return tensor.with_layout(mo.make_layout(mo.make_layout(*modes), layout.mode(last)))


@mo.jit
def as_column(tensor):
    """A tensor of one number a row, of any rank, with one mode: rows are counted as ``as_rows`` counts them."""
    layout = tensor.layout
    modes = [layout.mode(i) for i in range(mo.rank(layout))][::-1]
    if len(modes) == 1:
        return tensor
    return tensor.with_layout(mo.make_layout(mo.make_layout(*modes)) if modes else mo.make_layout(1))


@mo.jit
def place(plan, matrix):
    """This thread's rows, and its pieces of each of them.  ``matrix`` (rows, columns) says where rows begin."""
    tid, block, n = mo.thread_idx().x, mo.block_idx().x, mo.size(matrix, 1)
    split, shared = plan.cluster > 1, plan.rows > 1
    rank = mo.cluster_rank() if split else 0
    group, groups = (x // plan.cluster if split else x for x in (block, mo.grid_dim().x))
    lane, slot = (tid % plan.lanes, tid // plan.lanes) if shared else (tid, 0)
    first, step = group * plan.rows, groups * plan.rows
    lead, pitch = 0, None
    rows = mo.size(matrix, 0)
    if plan.shifted:
        pitch = mo.stride(matrix, 0)
        mo.assume((rows <= step) | (step * pitch % plan.width == 0), "all rows of a block begin at one alignment")
        lead = mo.min(-((first + slot) * pitch) % plan.width, n)
    where = Place(lane, slot, rank, first, step, rows, n, lead, pitch, [])
    if not plan.streamed:
        where.pieces.extend([vector(plan, where, j) for j in range(plan.rounds)] + edges(plan, where))
    return where


@mo.jit
def vector(plan, where, j):
    """The piece of round ``j``, which may be a value of the kernel: a vector."""
    at = (j * plan.cluster + where.rank) * plan.lanes + where.lane
    if plan.masked:
        coordinates = mo.tile(mo.identity_tensor((where.columns,)), (plan.width,), (at,), ragged=True)
        return Piece(plan.width, at, mo.elem_less(coordinates, (where.columns,)), 0)
    if mo.is_static(j) and j < plan.full:
        return Piece(plan.width, at, True, where.lead)
    return Piece(plan.width, at, at < (where.columns - where.lead) // plan.width, where.lead)


@mo.jit
def edges(plan, where):
    """The elements before the first and behind the last whole vector, one a thread and piece."""
    found = []
    body = (where.columns - where.lead) // plan.width * plan.width
    for first in mo.static_range(0, plan.edges, plan.lanes):
        i = where.lane + first
        column = i + body
        if plan.shifted:
            column = mo.where(i < where.lead, i, i + body)
        has = column < where.columns
        if plan.cluster > 1:
            has = has & (where.rank == 0)
        found.append(Piece(1, column, has, 0, True))
    return found


@mo.jit
def row(plan, where, matrix, number):
    """Row ``number + slot`` of a matrix (rows, columns); it need not be there where a block has several in turn."""
    index = number + where.slot
    there = True
    if plan.rows > 1 or plan.at_once > 1:
        there = index < where.rows
    if not plan.shifted:
        return Row(matrix[index, None], None, 0, there)
    pitch = mo.stride(matrix, 0)
    mo.assume((pitch - where.pitch) % plan.width == 0, "rows of all arrays begin alike")
    begin = index * pitch
    return Row(matrix[index, None], matrix.with_layout(mo.make_layout(mo.cosize(matrix.layout))),
               (begin + plan.width - 1) // plan.width, there)


def always(condition: Any) -> bool:
    """Whether tracing knows that nothing is left out."""
    return condition is True


@mo.jit
def _view(piece, source):
    """(tensor of the piece's elements, whether they are there)."""
    if not isinstance(source, Row):                     # a vector of one element a column
        tensor = source if piece.edge or mo.is_static(piece.lead) else mo.with_lead(source, -piece.lead)
        return mo.tile(tensor, (piece.width,), (piece.at,), ragged=True), piece.has
    has = piece.has
    if not always(source.there):
        has = source.there if always(has) else has & source.there
    if piece.edge or source.flat is None:
        return mo.tile(source.tensor, (piece.width,), (piece.at,), ragged=True), has
    return mo.tile(source.flat, (piece.width,), (source.begin + piece.at,), ragged=True), has


@mo.jit
def read(piece, source, fill=0):
    """A piece of a row, or of a vector of one element a column, in registers; ``fill`` where it has no elements."""
    view, has = _view(piece, source)
    held = mo.fragment((piece.width,), view.dtype)
    if always(has):
        mo.copyto(held, view)
    else:
        mo.copyto(held, view, pred=has, other=fill)
    return held


@mo.jit
def brought_number(column, index, there):
    """An element of an array of one a row, in a register tensor (1); of a row that is not there, the first row's."""
    held = mo.fragment((1,), column.dtype)
    held[0] = as_column(column)[index if always(there) else mo.where(there, index, 0)]
    return held


@mo.jit
def write(piece, target, values):
    """Write a piece of a row from registers, converted to the row's dtype."""
    view, has = _view(piece, target)
    if always(has):
        mo.copyto(view, values.to(view.dtype))
    else:
        mo.copyto(view, values.to(view.dtype), pred=has)


@dataclass(frozen=True, slots=True)
class Room:
    """Shared memory for folds.  ``turn`` counts them.

    ``mine`` (warps, values, 2) is what the warps of this block found: folds use its halves in turn, so that one barrier
    a fold is enough.  ``ours`` (values, blocks, MEETINGS) is what the blocks of the cluster did, whose bytes complete
    on ``arrived`` (MEETINGS).
    """

    mine: Any
    ours: Any
    arrived: Any
    turn: Any


@mo.jit
def scratch(plan, dtype, count=1):
    """``Room`` for folds of up to ``count`` values; None where shuffles do.  All folds of a kernel may share it.

    The blocks of a cluster meet here: from now on they may write to each other.
    """
    if plan.warps == 1 and plan.cluster == 1:
        return None
    ours, arrived, turn = None, None, mo.fragment((1,), mo.int32)
    turn.fill(0)
    if plan.cluster > 1:
        ours, arrived = mo.shared_array(dtype, (count, plan.cluster, MEETINGS)), mo.mbarrier_array(MEETINGS)
        if mo.thread_idx().x == 0:
            for i in mo.static_range(MEETINGS):
                mo.mbarrier_init(arrived, i, 1)
            mo.fence_mbarrier_init()
        mo.cluster_sync()
    return Room(mo.shared_array(dtype, (plan.warps, count, 2)), ours, arrived, turn)


@mo.jit
def fold(plan, values, kind, room):
    """Each of the values folded over all threads of its row, by lanes, then warps, then blocks of the cluster.

    ``kind`` is "add", "max" or "min", or a function (values, lanes) -> values that folds them over neighbouring lanes,
    all of which get the results; of lanes without values of their own it gets a copy of the first, and zeros.  The
    order of the sum is fixed, and every thread gets it.  ``room`` is ``scratch(plan, dtype, len(values))`` or has more,
    and may be used again at once.  All threads of the block, or of the cluster, call it.
    """
    return fold_end(plan, fold_begin(plan, values, kind, room), kind, room)


@mo.jit
def fold_begin(plan, values, kind, room):
    """The first half of a fold: what this block found is on its way to the others.

    What stands before ``fold_end``, and is no other fold, is done meanwhile.
    """
    found = of_lanes(values, kind, min(plan.lanes, 32))
    if room is None:
        return found
    turn = room.turn[0]
    if plan.warps > 1:
        if mo.lane_idx() == 0:
            for k in mo.static_range(len(found)):
                room.mine[mo.warp_idx(), k, turn % 2] = found[k]
        mo.sync_threads()                               # who passes it has done with the other half
        found = of_warps(plan, [room.mine[None, k, turn % 2] for k in range(len(found))], kind)
    if plan.cluster > 1:
        if (turn % MEETINGS == 0) & (turn > 0):
            mo.cluster_sync()                           # all have read what was sent in the last so many turns
        send(plan, room, found, turn % MEETINGS)
    return found


@mo.jit
def fold_end(plan, found, kind, room):
    """The second half: every thread gets what all have found."""
    if room is None:
        return found
    turn = room.turn[0]
    room.turn[0] = turn + 1
    if plan.cluster == 1:
        return found
    place = turn % MEETINGS
    mo.mbarrier_wait(room.arrived, place, turn // MEETINGS % 2)
    block = mo.lane_idx() % plan.cluster                # each lane has one block's
    return of_lanes([room.ours[k, block, place] for k in range(len(found))], kind, plan.cluster)


@mo.jit
def send(plan, room, values, place):
    """What this block found goes to each block of the cluster, and to itself; nobody waits for it here.

    A barrier of the cluster instead would wait for all that its threads have written to global memory.
    """
    tid, count = mo.thread_idx().x, len(values)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(room.arrived, place, count * plan.cluster * values[0].dtype.bytes)
    if tid < plan.cluster:
        packed = mo.fragment((count,), values[0].dtype)
        for k in mo.static_range(count):
            packed[k] = values[k]
        there = mo.map_shared_rank(room.ours, tid)
        target = mo.tile(there, (count, 1, 1), (0, mo.cluster_rank(), place))[:, 0, 0]
        mo.st_async(target, packed, barrier=(room.arrived, place))


@mo.jit
def of_lanes(values, kind, lanes):
    """Values folded over neighbouring lanes."""
    if not isinstance(kind, str):
        return kind(values, lanes)
    return [mo.warp_reduce(x, kind, lanes) for x in values]


@mo.jit
def of_warps(plan, found, kind):
    """What the warps of a block found (warps), folded: one after the other, or by the lanes where they are many."""
    if plan.warps <= 8 and isinstance(kind, str):
        return [chained([each[w] for w in range(plan.warps)], kind) for each in found]
    lanes = power(plan.warps)
    lane = mo.lane_idx() % lanes
    values = [each[mo.min(lane, plan.warps - 1)] for each in found]
    if lanes > plan.warps:                              # some lanes have nothing of their own
        own, sums = lane < plan.warps, {"add": 0, "max": len(values), "min": len(values)}.get(kind, 1)
        values = [*values[:sums], *(mo.where(own, x, x.dtype(0)) for x in values[sums:])]
    return of_lanes(values, kind, lanes)


def chained(values: list[Any], kind: str) -> Any:
    """Values folded one after the other."""
    result = values[0]
    for x in values[1:]:
        result = {"add": lambda a, b: a + b, "max": mo.max, "min": mo.min}[kind](result, x)
    return result


@mo.jit
def anew(plan, values, wide):
    """What is computed of a piece in ``wide`` from here on is computed anew, and by itself, where a row is long.

    The compiler would keep what it computed of all pieces before, or compute all of them at a time, and spill.
    """
    if plan.rounds * plan.width * wide.bits > 32 * _KEPT:
        mo.pin(values)


@mo.jit
def swept(plan, where, fetch, visit, state):
    """``state = visit(pieces, what fetch(piece) gave of each, state)`` for all pieces of a row that is streamed.

    A loop over several pieces, which are on their way together, and the edges behind it.
    """
    for j in mo.range(0, plan.rounds, TURN):
        pieces = [vector(plan, where, j + k) for k in range(min(TURN, plan.rounds))]
        state = visit(pieces, [fetch(piece) for piece in pieces], state)
    for piece in edges(plan, where):
        state = visit([piece], [fetch(piece)], state)
    return state


@mo.jit
def only(piece, values):
    """Values of a piece, and zeros where it has no elements."""
    if always(piece.has):
        return values
    return mo.where(piece.has, values, 0)


def total(fragments: list[Any], start: Any = 0.0) -> Any:
    """The sum of all elements of some register tensors, each summed by itself first."""
    for x in fragments:
        start = start + x.reduce("add")
    return start


@mo.jit
def note(where, at, number, numbers):
    """Write numbers of a row, as (tensor or None, value): one thread, to element ``number + slot`` of each tensor."""
    for tensor, value in numbers:
        if tensor is not None and where.leader & at.there:
            as_column(tensor)[number + where.slot] = value
