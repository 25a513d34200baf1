"""Notes -> events: the program order of each warp, and the event that ends what goes on.

In: a ``Tape``.  Out: ``Event``s, block by block, warp by warp, in program order.

    events_of(tape)[0].kind

A copy by cp.async, a store by TMA and a wgmma end at the wait that covers their group for the last of the lanes that
issued them (PTX ISA: groups are per thread, and of each family apart; cp.async.wait_all also covers what was not
committed).  A load into registers ends at the first statement that reads one of those registers.  A synchronous copy to
shared memory ends where it is issued.  What completes on an mbarrier is found last, by ``land``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from moye.hardware import WARP
from moye.sim.timeline.events import OWN, Event
from moye.sim.timeline.statements import Key
from moye.sim.timeline.tape import Mark, Note, Tape
from moye.sim.values.memory import Array


def events_of(tape: Tape) -> tuple[Event, ...]:
    """The events of every sampled block."""
    drafts = drafts_of(tape)
    first: dict[tuple[int, int], int] = {}
    for index, draft in enumerate(drafts):
        first.setdefault((draft.block, draft.warp), index)
    counts = in_flight(drafts)
    return tuple(_event(drafts, index, index - first[draft.block, draft.warp], tape.grid, counts[index])
                 for index, draft in enumerate(drafts))


def drafts_of(tape: Tape) -> list[Draft]:
    """What every warp of every sampled block did, in its program order, and what ends where."""
    drafts: list[Draft] = []
    for block in tape.sampled:
        notes = [(note, note.blocks.index(block)) for note in tape.notes if block in note.blocks]
        for warp in range(len(notes[0][0].lanes[0]) if notes else 0):
            _Warp(block, warp, drafts).run(notes)
    land(drafts)
    return drafts


class _Flight:
    """Asynchronous work on its way: its event, the lanes that still wait for it, the group of each lane."""

    __slots__ = ("begun", "group", "lanes")

    def __init__(self, begun: int, lanes: Array, group: Array) -> None:
        self.begun, self.lanes, self.group = begun, lanes, group


class _Groups:
    """The groups of one family that the lanes of a warp have committed, and what is on its way."""

    def __init__(self) -> None:
        self.flying: list[_Flight] = []
        self.committed: Array = np.zeros(WARP, np.int64)

    def begin(self, here: int, lanes: Array) -> None:
        self.flying.append(_Flight(here, lanes, self.committed.copy()))

    def wait(self, lanes: Array, pending: int | None) -> list[int]:
        """What ends here."""
        if pending is None:
            self.committed += lanes
        reached = self.committed - (pending or 0)
        for flight in self.flying:
            flight.lanes = flight.lanes & ~(lanes & (flight.group < reached))
        ended = [flight.begun for flight in self.flying if not flight.lanes.any()]
        self.flying = [flight for flight in self.flying if flight.lanes.any()]
        return ended


class _Warp:
    """One warp's walk through the notes, which adds to the drafts of all."""

    def __init__(self, block: int, warp: int, drafts: list[Draft]) -> None:
        self.block, self.warp, self.drafts = block, warp, drafts
        self.groups: dict[str, _Groups] = defaultdict(_Groups)
        self.holds: dict[Key, int] = {}                 # which load brought what a register holds

    def run(self, notes: list[tuple[Note, int]]) -> None:
        for note, sample in notes:
            if bits := note.lanes[sample][self.warp]:
                self._take(note, sample, bits)

    def _take(self, note: Note, sample: int, bits: int) -> None:
        statement, here = note.statement, len(self.drafts)
        draft = Draft(note, sample, self.block, self.warp, bits)
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

    def _use(self, key: Key, here: int, draft: Draft) -> None:
        load = self.holds.get(key)
        if load is not None and self.drafts[load].done is None and self.drafts[load].bits & draft.bits:
            self.drafts[load].done = here
            draft.completes.append(load)

    def _synchronise(self, note: Note, here: int, draft: Draft) -> None:
        statement = note.statement
        if statement.kind == "copy":
            draft.done = here
        if statement.family is None:
            return
        lanes = (draft.bits >> np.arange(WARP, dtype=np.int64) & 1).astype(np.bool_)
        groups = self.groups[statement.family]
        if statement.kind == "commit":
            groups.committed += lanes
        elif statement.kind != "wait":
            groups.begin(here, lanes)
        else:
            for begun in groups.wait(lanes, statement.pending):
                self.drafts[begun].done = here
                draft.completes.append(begun)


# --- finishing -------------------------------------------------------------------------------------------------------


def _event(drafts: Sequence[Draft], index: int, order: int, grid: tuple[int, int, int], flying: int) -> Event:
    draft = drafts[index]
    note, statement, block = draft.note, draft.note.statement, draft.block
    trips = zip(statement.loops, (_of(value, draft.sample, draft.warp) for value in note.trips), strict=True)
    return Event(
        index, (block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])), draft.warp, order,
        note.step, statement.kind, draft.bits.bit_count(), statement.loc.innermost, statement.tensors,
        (*trips, *statement.trips), statement.place.buffer.name if statement.place is not None else None,
        _of(note.stages, draft.sample, draft.warp), draft.done, tuple(draft.completes), flying,
        None if draft.done is None else drafts[draft.done].note.step, statement.goes_on)


def _of(value: Any, sample: int, warp: int) -> Any:
    """What is one for all, or given per sampled block and warp."""
    return value[sample][warp] if isinstance(value, tuple) else value


# --- events whose ends are not known yet, and the ends that lie in other warps ---------------------------------------


@dataclass(slots=True)
class Draft:
    """An event whose end is not known yet; ``done`` and ``completes`` are places in the list of all drafts."""

    note: Note
    sample: int
    block: int
    warp: int
    bits: int
    done: int | None = None
    completes: list[int] = field(default_factory=list)

    @property
    def marks(self) -> list[Mark]:
        """The phases of mbarriers that this warp waits for, or fills."""
        return [mark for mark in self.note.marks if (mark.sample, mark.warp) == (self.sample, self.warp)]


class _Waits:
    """Waits for one mbarrier that passed, in the order of the run."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = drafts
        self.found: dict[tuple[int, int, int], list[tuple[int, ...]]] = defaultdict(list)
        for index, draft in enumerate(drafts):
            if draft.note.statement.kind == "wait":
                for mark in draft.marks:
                    self.found[mark.mbarrier].append((draft.note.step, index, mark.phase))
        for waits in self.found.values():
            waits.sort()

    def end(self, load: Draft, mark: Mark) -> int | None:
        """The first that passes for the phase of a mark of ``load``."""
        waits = self.found.get(mark.mbarrier, [])
        later = range(bisect_left(waits, (load.note.step,)), len(waits))
        return next((waits[i][1] for i in later if waits[i][2] >= mark.phase), None)


def land(drafts: Sequence[Draft]) -> None:
    """Find the end of every load that completes on an mbarrier."""
    waits = _Waits(drafts)
    recorded = {draft.block for draft in drafts}
    for index, draft in enumerate(drafts):
        if draft.note.statement.kind not in ("tma", "tma send"):
            continue
        own = [mark for mark in draft.marks if mark.block == draft.block]
        ends = [waits.end(draft, mark) for mark in own or draft.marks if mark.block in recorded]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            draft.done = max(known, key=lambda end: drafts[end].note.step)
            drafts[draft.done].completes.append(index)


def in_flight(drafts: Sequence[Draft]) -> list[int]:
    """The number of copies from global memory that were issued before each event and end after it.

    Copies by cp.async and into registers count for their warp, tensor and bulk copies for their block.
    """
    change = np.zeros(len(drafts) + 1, np.int64)
    for index, draft in enumerate(drafts):
        if draft.note.statement.kind in OWN and draft.done is not None and draft.done > index:
            change[index + 1] += 1
            change[draft.done] -= 1
    counts = np.cumsum(change)[:-1]
    for _, group in groupby(enumerate(drafts), key=lambda pair: pair[1].block):
        indices, block = zip(*group, strict=True)
        loads = [d for d in block if d.note.statement.kind == "tma" and d.done is not None]
        begins = np.sort([load.note.step for load in loads])
        ends = np.sort([drafts[load.done or 0].note.step for load in loads])
        steps = [draft.note.step for draft in block]
        counts[list(indices)] += np.searchsorted(begins, steps, "left") - np.searchsorted(ends, steps, "right")
    found: list[int] = counts.tolist()
    return found
