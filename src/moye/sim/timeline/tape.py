"""Records what a simulated launch does: a note whenever a statement runs in a block that was asked for.

In: generated code that calls ``note`` just before each op of a ``Statements``.  Out: ``Tape.notes``, in the order of
the run: which lanes of which warps ran which statement, the loop variables, the stage of shared memory.

    Tape(statements, (16, 16, 1), (0,)).of(batch, numbers)     # None for a batch without block 0

The order of the run respects every barrier and wait, so it is one order in which the warps may have done it.  The
simulator says itself when a bulk copy is issued, and when a wait for a phase of an mbarrier passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from moye.errors import ArgumentError
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.layout import offsets
from moye.sim.operations.batch_state import AnyIssued, BatchState
from moye.sim.timeline.statements import Statement, Statements, Sum, stages
from moye.sim.values.masks import Mask, both, lanes_of
from moye.sim.values.memory import Array, numpy_dtype

MOST = 1_000_000
"""Notes that a tape holds; what comes after is only counted."""
Lanes = tuple[tuple[int, ...], ...]


class Mark(NamedTuple):
    """A phase of an mbarrier: warp ``warp`` of sampled block ``sample`` passes a wait for it, or copies complete on it.

    The barrier is number ``element`` of the shared tensor ``buffer`` of ``block``, a number in the grid.
    """

    sample: int
    warp: int
    block: int
    buffer: int
    element: int
    phase: int

    @property
    def mbarrier(self) -> tuple[int, int, int]:
        """Which it is."""
        return self.block, self.buffer, self.element


@dataclass(frozen=True, slots=True)
class Note:
    """One statement run by some warps.

    ``lanes[s][w]`` are the active lanes (bits) of warp w of sampled block s.  ``trips`` and ``stages`` have the same
    form, or are one for all.  ``marks`` are the phases of mbarriers that it has to do with.
    """

    step: int
    statement: Statement
    blocks: tuple[int, ...]
    lanes: Lanes
    trips: tuple[Any, ...]
    stages: Any
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Computed:
    """A tile of registers computed by some warps, before the note number ``step``; ``lanes`` as of a note."""

    step: int
    sum: Sum
    blocks: tuple[int, ...]
    lanes: Lanes


class Tape:
    """The notes of one launch, of the blocks ``sampled`` (numbers in the grid, x fastest)."""

    def __init__(self, statements: Statements, grid: tuple[int, int, int], sampled: Sequence[int]) -> None:
        self.statements, self.grid = statements, grid
        self.sampled = tuple(dict.fromkeys(int(block) for block in sampled))
        total = grid[0] * grid[1] * grid[2]
        for block in self.sampled:
            if not 0 <= block < total:
                raise ArgumentError(f"a timeline of block {block} was asked for, and the grid {grid} has the blocks 0 "
                                    f"to {total - 1}")
        self.notes: list[Note] = []
        self.computed: list[Computed] = []
        self.dropped = self.uncounted = 0
        self.tables: dict[int, Array | None] = {}

    def of(self, batch: BatchState, numbers: Array) -> BatchTape | None:
        """What a batch of the blocks ``numbers`` (ascending) writes to."""
        mine = tuple(b for b in self.sampled if b in numbers)
        return BatchTape(self, batch, mine, np.searchsorted(numbers, mine)) if mine else None

    def table(self, buffer: Buffer) -> Array | None:
        """The stage of each element of a shared tensor, -1 in its gaps; None where it has one stage.

        Of mbarriers each is a stage.
        """
        if buffer.id not in self.tables:
            count, table = stages(buffer), None
            if buffer.id in self.statements.mbarriers and (buffer.elements or 0) > 1:
                table = np.arange(buffer.elements or 0)
            elif count > 1:
                places = offsets(buffer.layout)
                table = np.full(max(buffer.elements or 0, max(places) + 1), -1)
                table[places] = np.arange(len(places)) // (len(places) // count)
            self.tables[buffer.id] = table
        return self.tables[buffer.id]


class BatchTape:
    """The part of a tape that one batch of blocks writes."""

    def __init__(self, tape: Tape, batch: BatchState, blocks: tuple[int, ...], columns: Array) -> None:
        self.tape, self.batch, self.blocks, self.columns = tape, batch, blocks, columns
        self.warps = -(-batch.threads // WARP)
        self.everybody = self._bits(None)
        self.issuing: tuple[Statement, tuple[Any, ...], Any] | None = None
        """The bulk copy that comes next, its loop variables, its place."""
        self.parked: dict[int, list[Array]] = {}
        """The loop variables (T, sampled blocks) of those who wait for a phase, by the wait."""

    def note(self, number: int, mask: Mask, trips: tuple[Any, ...], place: tuple[Any, ...] | None, pred: Any) -> None:
        """Statement ``number`` runs now in the lanes of the mask."""
        statement = self.tape.statements.list[number]
        if statement.later:
            self._keep(statement, mask, trips, place)
        elif not self._full():
            active = self._active(statement, mask, pred)
            lanes = self.everybody if active is None else self._bits(active)
            self._append(statement, lanes, trips, self._stages(statement, place, lanes) if place else None)

    def computed(self, number: int, mask: Mask) -> None:
        """A tile of registers is computed now in the lanes of the mask."""
        tape = self.tape
        lanes = self.everybody if mask is None else self._bits(mask)
        full = len(tape.computed) >= MOST
        tape.uncounted += full
        if not full and any(any(row) for row in lanes):
            tape.computed.append(Computed(len(tape.notes), tape.statements.sums[number], self.blocks, lanes))

    def _full(self) -> bool:
        """Whether nothing more is recorded; it is counted then."""
        full = len(self.tape.notes) >= MOST
        self.tape.dropped += full
        return full

    def _append(self, statement: Statement, lanes: Lanes, trips: tuple[Any, ...], stages: Any,
                marks: tuple[Mark, ...] = ()) -> None:
        if any(any(row) for row in lanes):
            per_warp = tuple(self._leading(value, lanes) if isinstance(value, np.ndarray) else int(value)
                             for value in trips)
            notes = self.tape.notes
            notes.append(Note(len(notes), statement, self.blocks, lanes, per_warp, stages, marks))

    # --- what takes effect later -------------------------------------------------------------------------------------

    def _keep(self, statement: Statement, mask: Mask, trips: tuple[Any, ...], place: tuple[Any, ...] | None) -> None:
        """Until it is issued, or passes."""
        if statement.kind != "wait":
            self.issuing = statement, trips, place
            return
        if mask is False:
            return
        shape = self.batch.threads, self.batch.blocks
        lanes = lanes_of(mask, *shape)
        parked = self.parked.setdefault(statement.number, [np.zeros(shape, np.int64) for _ in trips])
        for kept, value in zip(parked, trips, strict=True):
            np.copyto(kept, value, where=lanes)

    def issued(self, issued: AnyIssued) -> None:
        """The bulk copy that was noted last is issued by these threads."""
        copy, barrier = self.issuing, issued.box.barrier
        if copy is None or copy[0] is not self.tape.statements.of(issued.box.op) or self._full():
            return
        sample = {int(column): s for s, column in enumerate(self.columns)}
        rows, marks = [[0] * self.warps for _ in self.blocks], []
        for n in np.flatnonzero(np.isin(issued.issuer, self.columns)).tolist():
            s, thread = sample[int(issued.issuer[n])], int(issued.thread[n])
            rows[s][thread // WARP] |= 1 << thread % WARP
            if barrier is not None:
                marks.append(Mark(s, thread // WARP, int(self.batch.numbers[issued.block[n]]), barrier.id,
                                  int(issued.element[n]), int(issued.phase[n])))
        lanes = tuple(map(tuple, rows))
        statement, trips, place = copy
        self._append(statement, lanes, trips, self._stages(statement, place, lanes) if place else None, tuple(marks))

    def passed(self, op: ops.MbarrierWait, element: Array, lanes: Array, phase: Array) -> None:
        """Lanes (T, B) that wait for mbarriers ``element`` go on: phases before ``phase`` (elements, B) are over."""
        statement, mine = self.tape.statements.of(op), lanes[:, self.columns]
        if statement is None or not mine.any() or self._full():
            return
        thread, s = np.nonzero(mine)
        cells = np.unique(np.stack([s, thread // WARP, element[thread, self.columns[s]]], axis=1), axis=0).tolist()
        marks = [Mark(s, warp, self.blocks[s], op.ref.buffer.id, number, int(phase[number, self.columns[s]]) - 1)
                 for s, warp, number in cells]
        bits = self._bits(lanes)
        table = self.tape.table(op.ref.buffer)
        stages = None if table is None else self._one_each(table[element][None, :, self.columns], bits)
        self._append(statement, bits, tuple(self.parked[statement.number]), stages, tuple(marks))

    # --- lanes -------------------------------------------------------------------------------------------------------

    def _active(self, statement: Statement, mask: Mask, pred: Any) -> Mask:
        """The lanes in which something is done: a copy whose predicates are all false copies nothing."""
        if statement.pred is not None and statement.pred_rows is not None:
            data = self.batch.fragments[statement.pred.buffer.id].view(numpy_dtype(statement.pred.dtype))
            assert data is not None, "a predicate has a fragment of its own dtype"
            pred = data[statement.pred_rows].astype(np.bool_).any(axis=0)
        if pred is None or pred is True:
            return mask
        if not isinstance(pred, np.ndarray):
            return mask if pred else False
        return both(mask, pred)

    def _bits(self, mask: Mask) -> Lanes:
        """The active lanes as bits, per sampled block and warp."""
        if mask is False:
            return ((0,) * self.warps,) * len(self.blocks)
        if mask is not None and np.asarray(mask).ndim == 3:
            mask = np.asarray(np.asarray(mask).any(axis=0))
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)[:, self.columns]
        padded = np.zeros((self.warps * WARP, len(self.blocks)), np.uint64)
        padded[:len(lanes)] = lanes
        weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
        bits = (padded.reshape(self.warps, WARP, -1) * weights[None, :, None]).sum(axis=1)
        return tuple(tuple(int(b) for b in bits[:, s]) for s in range(len(self.blocks)))

    def _leading(self, value: Array, lanes: Lanes) -> Lanes:
        """The value in the first active lane of each warp."""
        full = np.broadcast_to(value, (self.batch.threads, self.batch.blocks))
        return tuple(tuple(int(full[w * WARP + (bits & -bits).bit_length() - 1, column]) if bits else 0
                           for w, bits in enumerate(row)) for column, row in zip(self.columns, lanes, strict=True))

    # --- stages ------------------------------------------------------------------------------------------------------

    def _stages(self, statement: Statement, place: tuple[Any, ...], lanes: Lanes) -> Any:
        """The stage that each warp touches; None if it touches none or several."""
        ref, address = statement.place, statement.address
        assert ref is not None and address is not None, "a place belongs to a shared operand"
        table = self.tape.table(ref.buffer)
        if table is None:
            return None
        index: Array = np.asarray(address(*place))
        if index.ndim == 2:
            index = index[None]
        index = index[..., self.columns] if index.shape[-1] > 1 else index
        element = index * ref.dtype.bits // ref.buffer.dtype.bits
        found = np.where((element >= 0) & (element < len(table)), table[np.clip(element, 0, len(table) - 1)], -1)
        return self._one_each(np.broadcast_to(found, (len(found), self.batch.threads, len(self.blocks))), lanes)

    def _one_each(self, found: Array, lanes: Lanes) -> Any:
        """The stage of each warp, from stages (V, T, sampled blocks)."""
        return tuple(tuple(self._one(found[:, w * WARP:(w + 1) * WARP, s], bits) for w, bits in enumerate(row))
                     for s, row in enumerate(lanes))

    @staticmethod
    def _one(found: Array, bits: int) -> int | None:
        """The one stage that the active lanes of a warp touch."""
        active = (bits >> np.arange(found.shape[1], dtype=np.int64) & 1).astype(np.bool_)
        seen = np.unique(found[:, active])
        return int(seen[0]) if len(seen) == 1 and seen[0] >= 0 else None
