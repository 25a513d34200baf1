"""Asynchronous copies and global memory that the kernel writes: reads and stores that last, proxies of bulk copies.

In: reads and stores by cp.async and bulk copies, waits, proxy fences, clashes with such reads.  Out: findings B9 and C2
(a source is written while a copy may still read it), D12 and D13 (written by threads, then read or overwritten by a
bulk copy with no proxy fence in between), through ``Conflicts``.  Of stores, records for the tracks of global_races.py.

Order between blocks is asked of the checker of global memory; only what lies in one of its regions is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checks.async_reads import End, Source, Sources
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.copy_groups import CopyGroups
from moye.sim.checks.flag_history import Between, Eye
from moye.sim.checks.global_conflicts import Clash, Conflicts
from moye.sim.checks.global_proxies import GlobalFences
from moye.sim.checks.global_records import UnitTracks
from moye.sim.checks.global_regions import ATOMIC, READ, WRITE, Packing, Plan

Lane = tuple[int, int]
"""The number of a block among those that run, and a thread of it."""


class Loading(Protocol):
    """A bulk copy: of each thread that issues it the block that receives and the mbarrier there."""

    thread: Ints
    block: Ints
    element: Ints
    phase: Ints
    sources: list[Source | None]
    source: Ints


class Units(Protocol):
    """The asynchronous units of the shared checker."""

    def barrier(self, buffer: Buffer, element: int) -> int: ...


class Threads(Protocol):
    """The shared checker."""

    clocks: Clocks
    copies: CopyGroups

    @property
    def engines(self) -> Units: ...
    def everyone(self, active: Bools | None) -> Bools: ...
    def split(self, active: Bools | None) -> Bools: ...
    def expand(self) -> None: ...


class Eyes(Protocol):
    """What the batch tells of the knowledge of each thread."""

    def eye(self, block: int, thread: int) -> Eye: ...


class Shared(Protocol):
    """What the batches of the launch share."""

    plan: Plan
    between: Between
    crossing: bool
    conflicts: Conflicts
    sources: Sources
    proxies: GlobalFences


class Overlaps:
    """The part of one batch: blocks ``first`` on of those that run."""

    def __init__(self, memory: Shared, shared: Threads, flags: Eyes, first: int, blocks: int) -> None:
        self.memory, self.shared, self.flags, self.first, self.blocks = memory, shared, flags, first, blocks
        regions = memory.plan.regions.values()
        self.mixed = any(region.mixed for region in regions)
        """Whether threads and bulk copies use the same memory."""
        memory.sources.copied = []

    # --- reads that last ---------------------------------------------------------------------------------------------

    def copied(self, tracks: UnitTracks, unit: Ints, record: Ints) -> Ints:
        """Threads read by cp.async: the records of reads that are not complete."""
        packing = tracks.packing
        record = record | packing.last
        self.memory.sources.copies(tracks, unit, record, packing.block(record) - self.first,
                                   self.shared.copies.committed)
        return record

    def waited(self) -> None:
        """Threads have waited for copies by cp.async."""
        if self.memory.sources.copied:
            clocks = self.shared.clocks
            self.memory.sources.waited(self.shared.copies.done, clocks.now[clocks.group])

    def handed_over(self, lanes: Bools) -> None:
        """Copies by cp.async of these threads arrive at an mbarrier: they count as reads of now (``not_judged``)."""
        if self.memory.sources.copied:
            clocks = self.shared.clocks
            self.memory.sources.waited(np.where(lanes, np.iinfo(np.int64).max, 0), clocks.now[clocks.group])

    def loading(self, op: ops.AnyBulk, tracks: UnitTracks, boxes: Loading, units: Ints, inside: Bools,
                record: Ints) -> Ints:
        """A bulk copy reads these units (N, V): the records (N,) of reads that are not complete."""
        clocks = self.shared.clocks
        issued = clocks.now[clocks.group[boxes.thread], boxes.block if clocks.columns > 1 else 0]
        lanes = zip(boxes.thread.tolist(), boxes.block.tolist(), issued.tolist(), strict=True)
        boxes.sources = [self.memory.sources.add((self.first + column, thread), op, tracks, units[n][inside[n]],
                                                 int(record[n]), epoch) if inside[n].any() else None
                         for n, (thread, column, epoch) in enumerate(lanes)]
        boxes.source = np.arange(len(record))
        return record

    def issued(self, boxes: Loading, barrier: Buffer) -> None:
        """It is known where they arrive."""
        if not boxes.sources:
            return
        for n, number in enumerate(boxes.source.tolist()):
            if (source := boxes.sources[number]) is not None:
                engine = self.shared.engines.barrier(barrier, int(boxes.element[n]))
                source.ends.append(End(self.first + int(boxes.block[n]), engine, int(boxes.phase[n])))

    def reading(self, clash: Clash) -> Clash:
        """Tell of writes over what copies of the same block may still read; the entries that are left."""
        packing, left = clash.tracks.packing, np.ones(clash.unit.shape, np.bool_)
        pending = packing.pending(clash.rival) & (clash.rival_kind == READ)
        for record in np.unique(clash.rival[pending]).tolist():
            at = np.flatnonzero(pending & (clash.rival == record))
            lane = record >> packing.block_shift, record >> packing.lane_shift & (1 << packing.threads) - 1
            op = self.memory.plan.ops[(record >> packing.epochs & (1 << packing.ops) - 1) - 1]
            own = packing.block(clash.record[at]) == lane[0]
            if not isinstance(op, ops.AnyBulk):
                if own.any():
                    self.memory.conflicts.lasting(clash.pick(at[own]), op, None)
                    left[at[own]] = False
                continue
            found = np.zeros(len(at), np.bool_)
            for source, here in self.memory.sources.met(lane, record, clash.unit[at]):
                found |= here
                left[at[here]] = self._unread(source, clash.pick(at[here]), lane[0])
            left[at[~found]] = False                    # it is long over
        return clash if left.all() else clash.pick(np.flatnonzero(left))

    def _unread(self, source: Source, clash: Clash, block: int) -> Bools:
        """The entries that may overwrite what is still being read, except for those that this reports."""
        packing = clash.tracks.packing
        lanes, inverse = np.unique(clash.record >> packing.lane_shift, return_inverse=True)
        left = np.zeros(len(clash.unit), np.bool_)
        late = left.copy()
        for number, lane in enumerate(lanes.tolist()):
            thread, other = lane & ((1 << packing.threads) - 1), lane >> packing.threads
            if not self._over(source, thread, other):
                (late if other == block else left)[inverse == number] = True
        if late.any():
            self.memory.conflicts.lasting(clash.pick(np.flatnonzero(late)), source.op,
                                          self._heard_by_some(source))
        return left

    def _over(self, source: Source, thread: int, block: int) -> bool:
        """Whether a thread of the batch knows that the copy is complete."""
        return self.complete(source.ends, thread, block)

    def complete(self, ends: Iterable[End], thread: int, block: int) -> bool:
        """The same of a bulk copy that arrives there."""
        clocks, column = self.shared.clocks, block - self.first
        group, column = clocks.group[thread], column if clocks.columns > 1 else 0
        for end in ends:
            if end.block == block:
                heard = int(clocks.heard[group, end.engine, column])
            elif end.block // clocks.cluster == block // clocks.cluster:
                heard = int(clocks.far_heard[group, end.block % clocks.cluster, end.engine, column])
            else:
                links = self.memory.between.visible(self.flags.eye(block - self.first, thread))
                heard = int(self.memory.between.heard(links, end.block, end.engine + 1)[end.engine])
            if heard > end.phase:
                return True
        return False

    def _heard_by_some(self, source: Source) -> bool:
        """Whether any thread of a block that receives it has waited for it."""
        clocks = self.shared.clocks
        return any(bool((clocks.heard[:, end.engine, end.block - self.first if clocks.columns > 1 else 0]
                         > end.phase).any())
                   for end in source.ends if self.first <= end.block < self.first + self.blocks)

    # --- proxies -----------------------------------------------------------------------------------------------------

    def fence(self, mask: Bools | None) -> None:
        """Threads fence for the asynchronous proxy; what they do next has another epoch."""
        if not self.mixed:
            return
        who = self.shared.split(mask)
        everyone, clocks = self.shared.everyone(mask), self.shared.clocks
        for block in range(self.blocks):
            column = block if clocks.columns > 1 else 0
            here = everyone[:, min(column, everyone.shape[1] - 1)]
            for group in np.unique(clocks.group[here]).tolist():
                members = here & (clocks.group == group)
                epoch = int(clocks.now[group, column])
                eye = self.flags.eye(block, int(np.argmax(members)))
                self.memory.proxies.fence(members, epoch, replace(eye, own=epoch))
        clocks.now = clocks.now + who

    def crossed(self, op: ops.AnyBulk, tracks: UnitTracks, tensor: Buffer, kind: int, unit: Ints, record: Ints) -> None:
        """D12, D13: what threads wrote, and this bulk copy reads or overwrites."""
        packing, bulk = tracks.packing, self._bulk()
        for rival in (WRITE, ATOMIC):
            if rival not in tracks.tracks or not packing.detail or not unit.size:
                continue
            old = tracks.tracks[rival].newest.take(unit)
            at = np.flatnonzero((old != 0) & ~bulk[packing.op(old)])
            pairs, inverse = np.unique(np.stack([old[at], record[at]]), axis=1, return_inverse=True)
            lost = at[self._unfenced(packing, *pairs)[inverse.reshape(-1)]]
            if lost.size:
                self.memory.conflicts.unfenced(Clash(tracks, tensor, op, kind, rival, unit[lost], record[lost],
                                                     old[lost]), bool(self.memory.proxies.by_block))

    def _bulk(self) -> Bools:
        """Whether an op is a bulk copy, by the number of the op."""
        return np.array([False, *(isinstance(op, ops.AnyBulk) for op in self.memory.plan.ops)])

    def _unfenced(self, packing: Packing, old: Ints, record: Ints) -> Bools:
        """Whether a bulk copy is ordered after a write, and no proxy fence lies between the two, pair by pair."""
        bad = np.zeros(len(old), np.bool_)
        # One question serves all that one thread copies and that threads of one block wrote.
        asked, inverse = np.unique(np.stack([record >> packing.lane_shift, packing.block(old)]), axis=1,
                                   return_inverse=True)
        for number, (lane, block) in enumerate(asked.T.tolist()):
            at = np.flatnonzero(inverse.reshape(-1) == number)
            eye = self.flags.eye((lane >> packing.threads) - self.first, lane & ((1 << packing.threads) - 1))
            bad[at] = self.memory.proxies.unfenced(eye, block, packing.thread(old[at]), packing.epoch(old[at]))
        return bad


# --- stores of bulk copies -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stored:
    """One stored box: the first of its units and all of them relative to it; its bulk group."""

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
    """The stores of one launch that are not complete, the newest of each thread last.

    Until it is complete a store's record has the last epoch, which nobody is ordered after, then that of its thread.
    A wait that is over when the source has been read (``read``) leaves it so.
    """

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
