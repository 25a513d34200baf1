"""Records what a simulated launch does: a note whenever a statement runs in a block that was asked for.

In: generated code that calls ``note`` just before each op of a ``Statements``.  Out: ``Tape.notes``, in the order of
the run: which lanes of which warps ran which statement, the loop variables, the stage of shared memory.

>>> Tape(statements, (16, 16, 1), (0,)).of(batch, numbers)     # None for a batch without block 0

The order of the run respects every barrier and wait, so it is one order in which the warps may have done it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.errors import ArgumentError
from moye.ir.nodes import Buffer
from moye.layout import offsets
from moye.sim.masks import Mask, both, lanes_of
from moye.sim.memory import Array, numpy_dtype
from moye.sim.state import BatchState
from moye.sim.timeline.statements import Statement, Statements, stages
from moye.sim.warp import WARP

MOST = 1_000_000
"""Notes that a tape holds; what comes after is only counted."""
Lanes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """One statement run by some warps.  ``lanes[s][w]`` are the active lanes (bits) of warp w of sampled block s;
    ``trips`` and ``stages`` likewise, or one for all."""

    step: int
    statement: Statement
    blocks: tuple[int, ...]
    lanes: Lanes
    trips: tuple[Any, ...]
    stages: Any


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
        self.dropped = 0
        self.tables: dict[int, Array | None] = {}

    def of(self, batch: BatchState, numbers: Array) -> BatchTape | None:
        """What a batch of the blocks ``numbers`` (ascending) writes to."""
        mine = tuple(b for b in self.sampled if b in numbers)
        return BatchTape(self, batch, mine, np.searchsorted(numbers, mine)) if mine else None

    def table(self, buffer: Buffer) -> Array | None:
        """The stage of each element of a shared tensor, -1 in its gaps; None where it has one stage."""
        if buffer.id not in self.tables:
            count = stages(buffer)
            table: Array | None = None
            if count > 1:
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

    def note(self, number: int, mask: Mask, trips: tuple[Any, ...], place: tuple[Any, ...] | None, pred: Any) -> None:
        """Statement ``number`` runs now in the lanes of the mask."""
        tape = self.tape
        if len(tape.notes) >= MOST:
            tape.dropped += 1
            return
        statement = tape.statements.list[number]
        active = self._active(statement, mask, pred)
        lanes = self.everybody if active is None else self._bits(active)
        if any(any(row) for row in lanes):
            per_warp = tuple(self._leading(value, lanes) if isinstance(value, np.ndarray) else int(value)
                             for value in trips)
            tape.notes.append(Note(len(tape.notes), statement, self.blocks, lanes, per_warp,
                                   self._stages(statement, place, lanes) if place else None))

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
        """Per sampled block and warp the active lanes as bits."""
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
        """The stage that each warp touches, None where it is none or several."""
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
        found = np.broadcast_to(found, (len(found), self.batch.threads, len(self.blocks)))
        return tuple(tuple(self._one(found[:, w * WARP:(w + 1) * WARP, s], bits) for w, bits in enumerate(row))
                     for s, row in enumerate(lanes))

    @staticmethod
    def _one(found: Array, bits: int) -> int | None:
        """The one stage that the active lanes of a warp touch."""
        active = (bits >> np.arange(found.shape[1]) & 1).astype(np.bool_)
        seen = np.unique(found[:, active])
        return int(seen[0]) if len(seen) == 1 and seen[0] >= 0 else None
