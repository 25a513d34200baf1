"""Stores of bulk copies in global memory: what they write is there once their thread has waited for it.

In: boxes when they are issued, waits for bulk groups.  Out: records for the tracks of global_races.py, and which
store an access meets that is not complete (``met``).

Until it is complete a store's record has the last epoch, which nobody is ordered after, then that of its thread.  A
wait that is over when the source has been read (``read``) leaves it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moye.ir import ops
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_records import UnitTracks

Lane = tuple[int, int]
"""The number of a block among those that run, and a thread of it."""


@dataclass(slots=True)
class Stored:
    """One box: the first of its units and all of them relative to it; its bulk group."""

    op: ops.AnyBulk
    tracks: UnitTracks
    first: int
    relative: Ints
    record: int
    group: int
    wait: ops.BulkWait | None = None
    """The first wait that covers it, which was for its source alone."""
    waited: int = 0
    """The epoch of its thread at that wait."""

    @property
    def units(self) -> Ints:
        return self.first + self.relative

    def complete(self, epoch: int) -> None:
        """What it wrote last becomes an access of its thread at this epoch."""
        packing = self.tracks.packing
        record = self.record - packing.last + min(epoch, packing.last - 1)
        for track in self.tracks.tracks.values():
            for word in track.words:
                units = self.units
                word[units[word[units] == self.record]] = record


class Stores:
    """The stores of one launch that are not complete, the newest of each thread last."""

    def __init__(self) -> None:
        self.lanes: dict[Lane, list[Stored]] = {}
        self._shapes: dict[int, Ints] = {}

    def add(self, lane: Lane, op: ops.AnyBulk, tracks: UnitTracks, units: Ints, record: int, group: int) -> None:
        """A box is issued; boxes of one op mostly have one shape."""
        relative = units - units[0]
        shape = self._shapes.setdefault(id(op), relative)
        if np.array_equal(shape, relative):
            relative = shape
        self.lanes.setdefault(lane, []).append(Stored(op, tracks, int(units[0]), relative, record, group))

    def wait(self, op: ops.BulkWait, lane: Lane, limit: int, epoch: int) -> None:
        """A thread has waited for its groups below ``limit``."""
        kept = []
        for stored in self.lanes.pop(lane, ()):
            if stored.group >= limit:
                kept.append(stored)
            elif op.read:
                if stored.wait is None:
                    stored.wait, stored.waited = op, epoch
                kept.append(stored)
            else:
                stored.complete(epoch)
        if kept:
            self.lanes[lane] = kept

    def met(self, lane: Lane, record: int, units: Ints) -> Iterator[tuple[Stored, Bools]]:
        """The stores of a thread that have this record, the newest first, and which of the units each has."""
        left = np.ones(len(units), np.bool_)
        for stored in reversed(self.lanes.get(lane, ())):
            here = left & np.isin(units, stored.units) if stored.record == record else np.zeros_like(left)
            if here.any():
                left &= ~here
                yield stored, here

    def forget(self, first: int, blocks: int) -> None:
        """These blocks have ended; nothing is reported."""
        self.lanes = {lane: stored for lane, stored in self.lanes.items() if not first <= lane[0] < first + blocks}
