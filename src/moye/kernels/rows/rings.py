"""Rows that bulk copies bring to shared memory ahead of the threads that take them: a ring of rounds (sm_90).

In: a ``RowPlan`` with stages, and matrices whose rows begin alike.  Out: the pieces of a row, read from shared memory.

    ring = rings.ring(plan, where, (gX,)); spot = rings.begin(plan, where, ring)
    for number in mo.range(where.first, where.rows, where.step):
        edges = rings.edges_of(plan, where, ring, number + where.step)
        held, = rings.row_of(plan, where, ring, spot)   # as parts.read gives them
        mo.sync_threads()                               # all have read the row: what comes after it may take its place
        rings.ask(plan, where, ring, spot, number)
        spot = rings.follow(plan, spot, edges)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.rows import parts
from moye.kernels.rows.plan import RowPlan

_WARP = mo.hardware.WARP


@dataclass(frozen=True, slots=True)
class Ring:
    """Rounds of vectors on their way.

    ``arrays`` (lanes * width, stages), one for each matrix, are complete on ``full`` (stages).
    """

    matrices: Any
    arrays: Any
    full: Any


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a row lies: its first round is in ``stage``, complete in ``phase``.

    ``edges`` are the elements beside its vectors, of each matrix, which threads read by themselves, a row ahead.
    """

    stage: Any
    phase: Any
    edges: Any


@mo.jit
def ring(plan, where, matrices):
    """A ring of ``plan.stages`` rounds, which are asked for.  All threads of the block call it."""
    arrays = [mo.shared_array(m.dtype, (plan.lanes * plan.width, plan.stages)) for m in matrices]
    found = Ring(matrices, arrays, mo.mbarrier_array(plan.stages))
    if mo.thread_idx().x == 0:
        for stage in mo.static_range(plan.stages):
            mo.mbarrier_init(found.full, stage, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for i in mo.static_range(plan.stages):
        ask_round(plan, where, found, where.first, i, i)
    return found


@mo.jit
def ask_round(plan, where, ring, number, i, stage):
    """Ask for round ``i`` after the first of row ``number``, which may be one of a later row, if that row is there.

    This block's part of a round are ``lanes`` vectors, or what the row has of them; none is a copy of nothing.  A
    thread of each warp asks in turn, so that none has all to do beside its own part of the row.
    """
    number = number + i // plan.rounds * where.step
    if (mo.thread_idx().x == i % plan.rounds % plan.warps * _WARP) & (number < where.rows):
        most, part = plan.lanes * plan.width, i % plan.rounds * plan.cluster + where.rank
        size = most
        if not (plan.full and i % plan.rounds < plan.full):
            vectors = (where.columns - where.lead) // plan.width - part * plan.lanes
            size = mo.max(mo.min(vectors, plan.lanes), 0) * plan.width
        mo.mbarrier_arrive_expect_tx(ring.full, stage, size * sum(m.dtype.bytes for m in ring.matrices))
        for matrix, array in zip(ring.matrices, ring.arrays, strict=True):
            source = mo.tile(vectors_of(plan, where, matrix, number), (most,), (part,), ragged=True)
            if True if mo.is_static(size) else size > 0:
                mo.copyto(mo.BulkCopy(), mo.tile(array, (most, 1), (0, stage))[:, 0], source,
                          barrier=(ring.full, stage), size=size)


@mo.jit
def vectors_of(plan, where, matrix, number):
    """A row from its first whole vector on."""
    one = parts.row(plan, where, matrix, number)
    return one.tensor if one.flat is None else mo.with_lead(one.flat, -(one.begin * plan.width))


@mo.jit
def begin(plan, where, ring, fill=0):
    """The ``Spot`` of the block's first row."""
    return Spot(mo.int32(0), mo.int32(0), edges_of(plan, where, ring, where.first, fill))


@mo.jit
def after(plan, spot, edges):
    """The ``Spot`` of the row after, of which ``edges_of`` has read ``edges``."""
    stage, phase = spot.stage + plan.rounds, spot.phase
    if stage >= plan.stages:
        stage, phase = stage - plan.stages, phase ^ 1
    return Spot(stage, phase, edges)


@mo.jit
def follow(plan, spot, edges):
    """The same, to be taken in the place of ``spot`` where a block goes on."""
    for mine, following in zip(spot.edges, edges, strict=True):
        for held, values in zip(mine, following, strict=True):
            held[...] = values
    return after(plan, spot, spot.edges)


@mo.jit
def edges_of(plan, where, ring, number, fill=0):
    """The elements beside the vectors of a row, of each matrix; ``fill`` where there is no such row."""
    beside = [piece for piece in where.pieces if piece.edge]
    if not beside:
        return [[] for _ in ring.matrices]
    there = number < where.rows
    rows = [replace(parts.row(plan, where, m, mo.where(there, number, where.first)), there=there)
            for m in ring.matrices]
    return [[parts.read(piece, one, fill) for piece in beside] for one in rows]


@mo.jit
def anew(plan, spot):
    """The same ``Spot``, where the compiler does not know that it is: stages of rounds are computed anew from here on.

    It would keep those of all rounds in registers, from one sweep over the row to the next.
    """
    if plan.stages % plan.rounds == 0:
        return spot
    kept = mo.fragment((2,), mo.int32)
    kept[0], kept[1] = spot.stage, spot.phase
    mo.pin(kept)
    return Spot(kept[0], kept[1], spot.edges)


@mo.jit
def stage_of(plan, spot, i):
    """(stage, phase) of round ``i`` of a row."""
    stage, phase = spot.stage + i, spot.phase
    if i == 0 or plan.stages % plan.rounds == 0:        # a row lies in one piece
        return stage, phase
    over = stage >= plan.stages
    return mo.where(over, stage - plan.stages, stage), mo.where(over, phase ^ 1, phase)


@mo.jit
def stage_of_vector(plan, spot, vector):
    """The stage of a vector of a row, which may be one of the kernel: it counts all of the row's."""
    stage = spot.stage + vector // (plan.lanes * plan.cluster)
    return mo.where(stage >= plan.stages, stage - plan.stages, stage)


@mo.jit
def wait(plan, ring, spot, i):
    """Wait until round ``i`` of a row is there; for the edges nobody waits.

    Where two rows have room, the first wait is for all rounds: one after the other lets nothing run ahead of the next.
    """
    first, end = (0, plan.rounds if i == 0 else 0) if roomy(plan) else (i, min(i + 1, plan.rounds))
    for k in mo.static_range(first, end):
        mo.mbarrier_wait(ring.full, *stage_of(plan, spot, k))


def roomy(plan: RowPlan) -> bool:
    """Whether shared memory has room for two rows."""
    return plan.stages >= 2 * plan.rounds


@mo.jit
def piece_of(plan, where, ring, spot, i, fill=0):
    """Piece ``i`` of a row, of each matrix, in registers; ``fill`` where a vector has no elements."""
    if i >= plan.rounds:
        return [held[i - plan.rounds] for held in spot.edges]
    stage, _ = stage_of(plan, spot, i)
    piece = replace(where.pieces[i], at=where.lane)
    return [parts.read(piece, parts.Row(array[None, stage], None, 0, True), fill) for array in ring.arrays]


@mo.jit
def row_of(plan, where, ring, spot, fill=0):
    """All pieces of a row, of each matrix, each as soon as it is there."""
    found = []
    for i in mo.static_range(len(where.pieces)):
        wait(plan, ring, spot, i)
        found.append(piece_of(plan, where, ring, spot, i, fill))
    return [[piece[k] for piece in found] for k in range(len(ring.matrices))]


@mo.jit
def ask(plan, where, ring, spot, number):
    """Ask for what comes into the stages of row ``number`` at ``spot``; all threads have read it."""
    for i in mo.static_range(plan.rounds):
        ask_next(plan, where, ring, spot, number, i)


@mo.jit
def ask_next(plan, where, ring, spot, number, i):
    """The same of its round ``i``."""
    ask_round(plan, where, ring, number, plan.stages + i, stage_of(plan, spot, i)[0])


@mo.jit
def twice(plan, where, ring, sweeps, kind, room, fill=0):
    """All rows of the block, each swept twice where it lies: for what is folded over it, and for its result.

    ``sweeps`` are three functions: ``fetch(number)`` reads what else a row has, a row ahead, as a tuple of numbers;
    ``find(spot, given)`` gives what this thread found, for ``fold``; ``finish(spot, number, given, folded)`` sees each
    piece by ``each_piece``.  Where shared memory has room for two rows, the next one is swept for the first time while
    what this block found of one goes round.
    """
    fetch, find, finish = sweeps
    two = roomy(plan)
    spot, given = begin(plan, where, ring, fill), fetch(where.first)
    found = find(anew(plan, spot), given)
    for number in mo.range(where.first, where.rows, where.step):
        following = number + where.step
        later, edges = fetch(mo.where(following < where.rows, following, where.first)), \
            edges_of(plan, where, ring, following, fill)
        sent = parts.fold_begin(plan, found, kind, room)
        if two and following < where.rows:
            found = find(anew(plan, after(plan, spot, edges)), later)
        finish(anew(plan, spot), number, given, parts.fold_end(plan, sent, kind, room))
        given, spot = later, follow(plan, spot, edges)
        if not two and following < where.rows:
            found = find(anew(plan, spot), given)


@mo.jit
def each_piece(plan, where, ring, spot, number, action, fill=0):
    """action(i, the piece of each matrix) for all pieces of a row, the last time; what comes after it is asked for.

    Where there is no room for two rows, each round is, as soon as all have read it.
    """
    tight = not roomy(plan)
    for i in mo.static_range(len(where.pieces)):
        action(i, piece_of(plan, where, ring, spot, i, fill))
        if tight and i < plan.rounds:
            mo.sync_threads()
            ask_next(plan, where, ring, spot, number, i)
    if not tight:
        mo.sync_threads()
        ask(plan, where, ring, spot, number)
