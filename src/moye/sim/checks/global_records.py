"""What is remembered of each unit of global memory: per kind of access the newest record, and one by somebody else.

In: units and records (arrays (n,), one entry a lane).  Out: records.  It decides nothing.

``other`` is of another block than ``newest`` if there was one, else of another thread: whoever comes next is
neither's owner or clashes with one of the two.  Further readers are in a ``Crowd``, until the unit is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_regions import READ, WRITE, Packing, Region


@dataclass(slots=True)
class Pattern:
    """The units of an access by all lanes, relative to the first one; ``apart``: no two lanes meet at one."""

    relative: Ints
    apart: bool = False


def held(word: Ints, unit: Ints, span: slice) -> Ints | None:
    """What a word of a track holds for these units, which lie in ``span``; None if it holds nothing."""
    if span.stop - span.start <= 4 * len(unit) and not word[span].any():
        return None
    old = word.take(unit)
    return old if old.any() else None


MOST = 1 << 21
"""Further readers that are kept of a region."""


class Crowd:
    """Readers of units beyond the two that a track has room for; those that are too many are forgotten, and ``full``
    says so."""

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.unit: Ints = np.zeros(0, np.int64)
        self.record: Ints = np.zeros(0, packing.dtype)
        self.full = False
        self.lasting = False
        """Whether some of them may be under way: reads of asynchronous copies."""
        self._new: list[tuple[Ints, Ints]] = []
        self._count = 0

    def add(self, unit: Ints, record: Ints) -> None:
        self._new.append((unit.astype(np.int64), record))
        self._count += len(unit)
        self.lasting |= bool(self.packing.pending(record).any())
        if self._count > MOST:
            self._gather()
            self.full |= len(self.unit) > MOST
            self.unit, self.record = self.unit[:MOST], self.record[:MOST]

    def met(self, unit: Ints) -> tuple[Ints, Ints]:
        """The other readers of these units: positions in ``unit``, and records."""
        self._gather()
        if not self.unit.size:
            return self.unit, self.record
        at, place = self._places(unit)
        return at, self.record[place]

    def complete(self, unit: Ints, record: Ints, over: Ints) -> None:
        """Reads that were under way, entry by entry, have another record from here on."""
        if not self.lasting:
            return
        self._gather()
        at, place = self._places(unit)
        same = self.record[place] == record[at]
        self.record[place[same]] = over[at[same]]

    def _places(self, unit: Ints) -> tuple[Ints, Ints]:
        """The readers of these units: positions in ``unit``, and in the records."""
        low, high = np.searchsorted(self.unit, unit), np.searchsorted(self.unit, unit, "right")
        count = high - low
        at = np.repeat(np.arange(len(unit)), count)
        return at, np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)

    def forget(self, unit: Ints) -> None:
        """These units are written: a thread that is ordered after the write is ordered after their readers before
        it."""
        self._gather()
        if self.unit.size:
            keep = ~np.isin(self.unit, unit)
            self.unit, self.record = self.unit[keep], self.record[keep]

    def clear(self) -> None:
        self.unit, self.record, self._new, self._count = self.unit[:0], self.record[:0], [], 0

    def _gather(self) -> None:
        """One reader each, the newest of its records, by unit."""
        if not self._new:
            return
        unit = np.concatenate([self.unit, *(part for part, _ in self._new)])
        record = np.concatenate([self.record, *(part for _, part in self._new)])
        # Later reads of a lane are ordered after its earlier ones, so that its newest record stands for all.
        lane = record >> self.packing.lane_shift
        order = np.lexsort((self.packing.epoch(record), lane, unit))
        unit, record, lane = unit[order], record[order], lane[order]
        last = np.append((np.diff(unit) != 0) | (np.diff(lane) != 0), True)
        self.unit, self.record, self._new, self._count = unit[last], record[last], [], int(last.sum())


class Track:
    """The last accesses of one kind to the units of a region; 0 is none."""

    def __init__(self, units: int, packing: Packing, *, single: bool, crowd: Crowd | None = None) -> None:
        self.packing, self.crowd = packing, crowd
        self.newest: Ints = np.zeros(units, packing.dtype)
        self.other: Ints | None = None if single else np.zeros(units, packing.dtype)

    @property
    def words(self) -> list[Ints]:
        return [self.newest] if self.other is None else [self.newest, self.other]

    def lost(self, unit: Ints, record: Ints, pattern: Pattern | None, span: slice) -> Bools | None:
        """Write the records, and keep what they displace as far as there is room and it is of somebody else.

        Out: where another lane of the same access had the last word, or None.
        """
        before = None if self.other is None else held(self.newest, unit, span)
        # Of several lanes at one unit NumPy keeps the last; the others are found by looking at what was kept.
        self.newest[unit] = record
        lost: Bools | None = None
        if pattern is None or not pattern.apart:
            lost = self.newest.take(unit) != record
            if not lost.any():
                lost = None
                if pattern is not None:
                    pattern.apart = True
        if before is not None and (at := np.flatnonzero((before != 0) & ((before ^ record) >> self.packing.lane_shift
                                                                         != 0))).size:
            self._keep(unit[at], before[at])
        if lost is not None and self.other is not None:
            self._keep(unit[lost], record[lost])
        return lost

    def _keep(self, unit: Ints, record: Ints) -> None:
        """Offer records to ``other``: those of another block are kept first."""
        assert self.other is not None, "a track of two words"
        newest, before = self.newest.take(unit), self.other.take(unit)
        # A record of another block comes last, so that it stays: blocks are the harder to order.
        for wanted in (1, 2):
            rank = self._rank(record, newest)
            held = self._rank(self.other.take(unit), newest)
            take = (rank == wanted) & (held <= rank)
            if take.any():
                self.other[unit[take]] = record[take]
        for offered in (record, before) if self.crowd is not None else ():
            self._left(unit, offered, newest, self.other.take(unit))

    def _left(self, unit: Ints, record: Ints, *kept: Ints) -> None:
        """A reader that is neither of the two that are kept goes to the crowd."""
        left: Bools = record != 0
        for other in kept:
            left &= (record ^ other) >> self.packing.lane_shift != 0
        if self.crowd is not None and left.any():
            self.crowd.add(unit[left], record[left])

    def _rank(self, record: Ints, newest: Ints) -> Ints:
        """The rank of a record: 0 for nobody or the lane of ``newest``, 1 for its block, 2 for another block."""
        packing = self.packing
        differs = record ^ newest
        rank = (differs >> packing.lane_shift != 0).astype(np.int8) + (differs >> packing.block_shift != 0)
        return np.where(record == 0, 0, rank)


class UnitTracks:
    """The tracks of a region."""

    def __init__(self, region: Region) -> None:
        assert region.packing is not None, "only what fits is tracked"
        self.region, self.packing = region, region.packing
        self.crowd = Crowd(region.packing)
        self.tracks = {kind: Track(region.units, region.packing, single=kind == WRITE,
                                   crowd=self.crowd if kind == READ else None) for kind in region.tracks}

    def complete(self, unit: Ints, record: Ints, over: Ints) -> None:
        """Accesses that were under way, entry by entry, have another record from here on."""
        for track in self.tracks.values():
            for word in track.words:
                same = word[unit] == record
                word[unit[same]] = over[same]
        self.crowd.complete(unit, record, over)

    def clear(self) -> None:
        """All that has been done is ordered before whatever comes."""
        for track in self.tracks.values():
            for word in track.words:
                word[:] = 0
        self.crowd.clear()
