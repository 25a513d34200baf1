"""Asynchronous copies that read global memory: they read it until they are complete, whenever they are issued.

In: copies by cp.async and by bulk copies as they are issued, waits for them.  Out: records for global_races.py, and
which copy an access meets that may still read (``met``).

Until it is known to be complete the record of such a read has the last epoch, which nobody is ordered after.  Who waits
for its copies by cp.async makes them reads of his own at that moment; a bulk copy is complete for whoever has heard
that a phase of the mbarrier, on which it completes, is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from moye.ir import ops
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_records import UnitTracks

Lane = tuple[int, int]
"""The number of a block among those that run, and a thread of it."""
KEPT = 1024
"""So many bulk copies of a thread are remembered, or twice as many; older ones become reads by it when they began."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a bulk copy arrives: the number of the block, the engine of an mbarrier there, the phase."""

    block: int
    engine: int
    phase: int


@dataclass(slots=True)
class Source:
    """One run or box: its units, the record, and where it arrives."""

    op: ops.AnyBulk
    tracks: UnitTracks
    first: int
    relative: Ints
    record: int
    issued: int
    """The epoch of its thread when it was issued."""
    ends: list[End] = field(default_factory=list)

    @property
    def units(self) -> Ints:
        return self.first + self.relative


@dataclass(slots=True)
class _Copied:
    """A statement of cp.async: entry by entry the unit, the record, the lane and its group."""

    tracks: UnitTracks
    unit: Ints
    record: Ints
    thread: Ints
    column: Ints
    group: Ints

    def pick(self, keep: Bools) -> _Copied:
        return _Copied(self.tracks, self.unit[keep], self.record[keep], self.thread[keep], self.column[keep],
                       self.group[keep])


class Sources:
    """The asynchronous reads of one launch that may not be complete."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, list[Source]] = {}
        self.copied: list[_Copied] = []
        """The copies of the batch that runs."""
        self._shapes: dict[int, Ints] = {}

    # --- cp.async ----------------------------------------------------------------------------------------------------

    def copies(self, tracks: UnitTracks, unit: Ints, record: Ints, column: Ints, group: Ints) -> None:
        """Threads copy from these units, entry by entry, in the group (T, columns) that each has open."""
        thread = tracks.packing.thread(record)
        own = group[thread, column if group.shape[1] > 1 else 0]
        self.copied.append(_Copied(tracks, unit, record, thread, column, own))

    def waited(self, done: Ints, now: Ints) -> None:
        """Groups below ``done`` (T, columns) are complete, at the epochs ``now`` (T, columns) of their threads."""
        left = []
        for copied in self.copied:
            over = copied.group < done[copied.thread, copied.column if done.shape[1] > 1 else 0]
            if over.any():
                part, packing = copied.pick(over), copied.tracks.packing
                epoch = now[part.thread, part.column if now.shape[1] > 1 else 0]
                # The read becomes an ordinary one, at the epoch of the wait: the last epoch stood for "not yet".
                copied.tracks.complete(part.unit, part.record,
                                       part.record - packing.last + np.minimum(epoch, packing.last - 1))
            if not over.all():
                left.append(copied.pick(~over))
        self.copied = left

    # --- bulk copies -------------------------------------------------------------------------------------------------

    def add(self, lane: Lane, op: ops.AnyBulk, tracks: UnitTracks, units: Ints, record: int, issued: int) -> Source:
        """A run or box is issued at an epoch of its thread; those of one op mostly have one shape."""
        relative = units - units[0]
        # The boxes of one op share one array of offsets.
        shape = self._shapes.setdefault(id(op), relative)
        if np.array_equal(shape, relative):
            relative = shape
        kept = self.lanes.setdefault(lane, [])
        kept.append(Source(op, tracks, int(units[0]), relative, record, issued))
        if len(kept) > 2 * KEPT:
            _forget(kept[:-KEPT], kept[-KEPT:])
            del kept[:-KEPT]
        return kept[-1]

    def met(self, lane: Lane, record: int, units: Ints) -> Iterator[tuple[Source, Bools]]:
        """The bulk copies of a thread that have this record, the newest first, and which of the units each has."""
        left = np.ones(len(units), np.bool_)
        for source in reversed(self.lanes.get(lane, ())):
            here = left & np.isin(units, source.units) if source.record == record else np.zeros_like(left)
            if here.any():
                left &= ~here
                yield source, here


def _forget(old: list[Source], new: list[Source]) -> None:
    """Bulk copies of a thread are old: nobody asks any more whether they are complete, but they have begun.

    Who is not even ordered after that is in a race with them.
    """
    alike: dict[tuple[int, int], list[Source]] = {}
    gone = {id(source) for source in old}
    for source in reversed([*old, *new]):
        alike.setdefault((id(source.tracks), source.record), []).append(source)
    for (_, record), sources in alike.items():
        tracks = sources[0].tracks
        # Copies with one record are told apart by their units alone: each belongs to the newest that reads it.
        owner = np.repeat(np.arange(len(sources)), [len(source.relative) for source in sources])
        units, first = np.unique(np.concatenate([source.units for source in sources]), return_index=True)
        over = np.array([id(source) in gone for source in sources])[owner[first]]
        issued = np.array([source.issued for source in sources])[owner[first]]
        last = tracks.packing.last
        tracks.complete(units[over], np.full(over.sum(), record), record - last + np.minimum(issued, last - 1)[over])
