"""Notes -> events: the program order of each warp, and for every copy the event that ends its flight.

In: a ``Tape``.  Out: ``Event``s, block by block, warp by warp, in program order.

>>> events_of(tape)[0].kind

A copy by cp.async ends at the wait that covers its group for the last of the lanes that issued it (PTX ISA, cp.async:
groups are per thread; wait_all also covers what was not committed).  A load into registers ends at the first statement
that reads one of those registers.  A synchronous copy to shared memory ends where it is issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.sim.memory import Array
from moye.sim.timeline.events import COPIES, Event
from moye.sim.timeline.statements import Key
from moye.sim.timeline.tape import Note, Tape
from moye.sim.warp import WARP


def events_of(tape: Tape) -> tuple[Event, ...]:
    """The events of every sampled block."""
    gx, gy, _ = tape.grid
    events: list[Event] = []
    for block in tape.sampled:
        notes = [(note, note.blocks.index(block)) for note in tape.notes if block in note.blocks]
        place = (block % gx, block // gx % gy, block // (gx * gy))
        for warp in range(len(notes[0][0].lanes[0]) if notes else 0):
            events += _Warp(place, warp, len(events)).run(notes)
    return tuple(events)


@dataclass(slots=True)
class _Draft:
    """An event whose end is not known yet."""

    note: Note
    sample: int
    bits: int
    forced: bool = False
    done: int | None = None
    completes: list[int] = field(default_factory=list)


class _Flight:
    """An asynchronous copy on its way: its event, the lanes that still wait for it, the group of each lane."""

    __slots__ = ("copy", "group", "lanes")

    def __init__(self, copy: int, lanes: Array, group: Array) -> None:
        self.copy, self.lanes, self.group = copy, lanes, group


class _Warp:
    """One warp's walk through the notes; ``first`` is the index of its first event."""

    def __init__(self, block: tuple[int, int, int], warp: int, first: int) -> None:
        self.block, self.warp, self.first = block, warp, first
        self.drafts: list[_Draft] = []
        self.flying: list[_Flight] = []
        self.committed: Array = np.zeros(WARP, np.int64)
        self.holds: dict[Key, int] = {}                 # which load brought what a register holds

    def run(self, notes: list[tuple[Note, int]]) -> list[Event]:
        for note, sample in notes:
            if bits := note.lanes[sample][self.warp]:
                self._take(note, sample, bits)
        return list(self._events())

    def _take(self, note: Note, sample: int, bits: int) -> None:
        statement, here = note.statement, len(self.drafts)
        draft = _Draft(note, sample, bits)
        self.drafts.append(draft)
        for key in statement.reads:
            self._use(key, here, draft)
        for to, source in statement.moves:
            if source in self.holds:
                self.holds[to] = self.holds[source]
            else:
                self.holds.pop(to, None)
        for key in statement.writes:
            self.holds.pop(key, None)
        for key in statement.loads:
            self.holds[key] = here
        self._synchronise(note, here, draft)
        if statement.kind == "use" and not draft.completes:
            self.drafts.pop()

    def _use(self, key: Key, here: int, draft: _Draft) -> None:
        load = self.holds.get(key)
        if load is not None and self.drafts[load].done is None and self.drafts[load].bits & draft.bits:
            self.drafts[load].done = here
            draft.completes.append(load)

    def _synchronise(self, note: Note, here: int, draft: _Draft) -> None:
        kind = note.statement.kind
        if kind == "copy":
            draft.done = here
            return
        if kind not in ("cp.async", "commit", "wait"):
            return
        lanes = (draft.bits >> np.arange(WARP) & 1).astype(np.bool_)
        if kind == "cp.async":
            self.flying.append(_Flight(here, lanes, self.committed.copy()))
        elif kind == "commit":
            self.committed += lanes
        else:
            self._wait(lanes, note.statement.pending, here, draft)

    def _wait(self, lanes: Array, pending: int | None, here: int, draft: _Draft) -> None:
        if pending is None:
            self.committed += lanes
        reached = self.committed - (pending or 0)
        left = []
        for flight in self.flying:
            flight.lanes = flight.lanes & ~(lanes & (flight.group < reached))
            if flight.lanes.any():
                left.append(flight)
            else:
                self.drafts[flight.copy].done = here
                draft.completes.append(flight.copy)
        self.flying = left

    # --- finishing ---------------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Event]:
        change = np.zeros(len(self.drafts) + 1, np.int64)
        for here, draft in enumerate(self.drafts):
            if draft.note.statement.kind in COPIES and draft.done is not None and draft.done > here:
                change[here + 1] += 1
                change[draft.done] -= 1
        flights = np.cumsum(change)
        for order, (draft, flight) in enumerate(zip(self.drafts, flights[:-1], strict=True)):
            yield self._event(order, draft, int(flight))

    def _event(self, order: int, draft: _Draft, in_flight: int) -> Event:
        note, statement = draft.note, draft.note.statement
        trips = zip(statement.loops, (_of(value, draft.sample, self.warp) for value in note.trips), strict=True)
        return Event(
            self.first + order, self.block, self.warp, order, note.step, statement.kind, draft.bits.bit_count(),
            statement.loc.innermost, statement.tensors, (*trips, *statement.trips),
            statement.place.buffer.name if statement.place is not None else None,
            _of(note.stages, draft.sample, self.warp),
            None if draft.done is None else self.first + draft.done,
            tuple(self.first + copy for copy in draft.completes), in_flight)


def _of(value: Any, sample: int, warp: int) -> Any:
    """What is one for all, or given per sampled block and warp."""
    return value[sample][warp] if isinstance(value, tuple) else value
