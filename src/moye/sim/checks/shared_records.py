"""What the checker remembers of one shared buffer: per unit, its last write and who has read it since.

A record is one int64: epoch | op | kind | thread.  ``write`` holds the last write of each unit (0: nothing wrote it;
a copy in flight has the epoch ``NEVER``).  ``Recent`` holds per (unit, group) the newest access of the group and the
newest of another thread of it, which is all that a later access needs to know whether it is ordered after them.

In: footprints and clocks.  Out: records, as (entries, columns) arrays.  It decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.ir.nodes import Buffer
from moye.ir.ops import Op
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.footprint import Footprint, FootprintCache, Reach

THREAD_BITS, KIND_BITS, OP_BITS = 11, 2, 19
THREAD = (1 << THREAD_BITS) - 1
KIND = (1 << KIND_BITS) - 1
OP = (1 << OP_BITS) - 1
EPOCH_SHIFT = THREAD_BITS + KIND_BITS + OP_BITS
NEVER = (1 << 30) - 1
"""The epoch of what has not happened yet: later than every other."""
IN_FLIGHT = NEVER << EPOCH_SHIFT

SHOWN = -1
"""This stands for the epoch of a fence if asynchronous units see the unit, or if another write has taken its place."""

ANNOUNCED = -2
"""The same of copies by cp.async, and of st.async, that an mbarrier has announced: nobody has fenced since."""

ENGINE, SYNC, PENDING, WAITED = 0, 1, 2, 3
"""Kinds of write: by an engine (its number in place of the thread), an ordinary one, an asynchronous one of cp.async in
flight, one that was waited for."""


def pack(epoch: Ints, op: int, kind: int, thread: Ints) -> Ints:
    return (epoch << EPOCH_SHIFT) | (((op << KIND_BITS) | kind) << THREAD_BITS) | thread


def epoch_of(record: Ints) -> Ints:
    return record >> EPOCH_SHIFT


def thread_of(record: Ints) -> Ints:
    return record & THREAD


def kind_of(record: Ints) -> Ints:
    return (record >> THREAD_BITS) & KIND


def op_of(record: Ints) -> Ints:
    return (record >> (THREAD_BITS + KIND_BITS)) & OP


@dataclass(frozen=True, slots=True)
class Clashes:
    """Entry by entry: a unit of a block, the record of the earlier access, and the thread whose access is not ordered
    after it; between blocks of a cluster also the block of that thread (``by``), and that of the earlier access."""

    unit: Ints
    block: Ints
    record: Ints
    actor: Ints
    by: Ints | None = None
    rival: Ints | None = None

    @property
    def thread(self) -> Ints:
        return thread_of(self.record)

    @property
    def kind(self) -> Ints:
        return kind_of(self.record)

    @property
    def engine(self) -> Bools:
        """Whether an asynchronous unit made the earlier access."""
        found: Bools = (self.kind == ENGINE) & (self.record != 0)
        return found

    def pick(self, keep: Ints | Bools) -> Clashes:
        """Some of the entries."""
        by, rival = (None if of is None else of[keep] for of in (self.by, self.rival))
        return Clashes(self.unit[keep], self.block[keep], self.record[keep], self.actor[keep], by, rival)


def take(state: Any, row: Ints, block: Ints | None) -> Any:
    """Rows of ``state`` (R, columns): (D, columns), or (D, 1) where each entry has its own block."""
    columns = state.shape[-1]
    if block is None and columns > 1:
        return state.reshape(-1, columns).take(row, axis=0)
    index = row if block is None else row * columns + block
    return state.reshape(-1).take(index)[:, None]


def put(state: Ints | Bools, row: Ints, block: Ints | None, values: Ints | Bools) -> None:
    """``take``'s inverse; rows are distinct."""
    columns = state.shape[-1]
    if block is None and columns > 1:
        state.reshape(-1, columns)[row] = values
    else:
        state.reshape(-1)[row if block is None else row * columns + block] = values[:, 0]


class Recent:
    """The newest access to each unit by each group, and the newest one by another thread of the group: (units, G,
    columns)."""

    def __init__(self, units: int, clocks: Clocks) -> None:
        shape = (units, clocks.groups, clocks.columns)
        self.newest: Ints = np.zeros(shape, np.int64)
        self.other: Ints = np.zeros(shape, np.int64)

    def add(self, at: Footprint, clocks: Clocks, op: int, owner: Ints | None = None) -> None:
        """Accesses of each entry's block to its own memory, or to that of ``owner``."""
        row, place = at.unit * self.newest.shape[1] + at.group, at.block if owner is None else owner
        epoch = clocks.epoch(at.group, at.block)
        before = take(self.newest, row, place)
        # Two records of two threads suffice: whoever comes next differs from at least one of them.
        other = np.where(thread_of(before) != at.first[:, None], before, take(self.other, row, place))
        several = at.first != at.second
        if several.any():
            other = np.where(several[:, None], pack(epoch, op, SYNC, at.second[:, None]), other)
        put(self.newest, row, place, pack(epoch, op, SYNC, at.first[:, None]))
        put(self.other, row, place, other)

    def rows(self, at: Footprint) -> Ints:
        """The newest accesses to the entries' units by every group: (D, G, C)."""
        if at.block is None:
            return self.newest.take(at.unit, axis=0)
        return self.newest[at.unit, :, at.block][:, :, None]

    def both(self, at: Footprint) -> Ints:
        """The newest ones, and behind them those of other threads of the groups: (D, 2 G, C)."""
        if at.block is None:
            return np.concatenate([self.newest.take(at.unit, axis=0), self.other.take(at.unit, axis=0)], axis=1)
        return np.concatenate([x[at.unit, :, at.block] for x in (self.newest, self.other)], axis=1)[:, :, None]

    def clear(self, at: Footprint) -> None:
        """Drop what was done to the entries' units: something else has taken its place."""
        where = (at.unit,) if at.block is None else (at.unit, slice(None), at.block)
        self.newest[where] = self.other[where] = 0

    def forget(self, unit: Ints, block: Ints) -> None:
        """Drop what is known of these units: a violation has been reported, and its consequences need not be."""
        self.newest[unit, :, block] = 0
        self.other[unit, :, block] = 0

    def expand(self, columns: int) -> None:
        self.newest = np.repeat(self.newest, columns, axis=2)
        self.other = np.repeat(self.other, columns, axis=2)

    def refine(self, times: int) -> None:
        self.newest = np.repeat(self.newest, times, axis=0)
        self.other = np.repeat(self.other, times, axis=0)

    def split(self, parent: int, child: int, group: Ints) -> None:
        """A new last group takes over the records of its threads from its parent."""
        # Most units have none, and the units are many.
        used = np.flatnonzero(self.newest[:, parent].any(axis=1))
        newest, other = self.newest[used, parent], self.other[used, parent]
        # Each record goes with its thread; where only ``other`` goes, it becomes the newest of its new group.
        moves, moves_too = group[thread_of(newest)] == child, group[thread_of(other)] == child
        stays, stays_too = ~moves, ~moves_too
        both = np.where(moves, newest, np.where(moves_too, other, 0)), np.where(moves & moves_too, other, 0)
        kept = np.where(stays, newest, np.where(stays_too, other, 0)), np.where(stays & stays_too, other, 0)
        self.newest[used, parent], self.other[used, parent] = kept
        self.newest, self.other = (_with_group(state, used, mine)
                                   for state, mine in zip((self.newest, self.other), both, strict=True))


def _with_group(state: Ints, used: Ints, mine: Ints) -> Ints:
    """Records with one group more, which has ``mine`` of the units ``used``."""
    more = np.zeros((len(state), 1, state.shape[2]), np.int64)
    more[used, 0] = mine
    return np.concatenate([state, more], axis=1)


class Others:
    """Accesses by other blocks of the cluster, (units, columns of the owners): as ``Shadow`` keeps those of its own."""

    def __init__(self, units: int, clocks: Clocks) -> None:
        self.write: Ints = np.zeros((units, clocks.columns), np.int64)
        self.writer: Ints = np.zeros((units, clocks.columns), np.int64)
        """The rank of the block that wrote last."""
        self.fences: Ints = np.full((units, clocks.columns), SHOWN, np.int64)
        """When the writer made it visible to asynchronous units (0: not yet)."""
        self.update: Ints = np.zeros((units, clocks.columns), np.int64)
        self.updater: Ints = self.update.copy()
        """The last atomic since that write, and the rank of its block."""
        self.shown: Ints = np.full((units, clocks.columns), SHOWN, np.int64)
        """The same as ``fences`` of that atomic."""
        self.earlier: Ints = self.update.copy()
        self.early: Ints = self.update.copy()
        """An atomic by another thread before that one, which was not fenced then, and the rank of its block."""
        self.unshown: Ints = np.full((units, clocks.columns), SHOWN, np.int64)
        """The same as ``fences`` of that."""
        self.reads: dict[int, Recent] = {}
        """Reads from other blocks, by the rank of the block that reads."""
        self.atomics: dict[int, Recent] = {}
        """The same of atomics."""

    def refine(self, times: int) -> None:
        self.write, self.writer = np.repeat(self.write, times, axis=0), np.repeat(self.writer, times, axis=0)
        self.fences, self.shown = np.repeat(self.fences, times, axis=0), np.repeat(self.shown, times, axis=0)
        self.update, self.updater = np.repeat(self.update, times, axis=0), np.repeat(self.updater, times, axis=0)
        self.earlier, self.early = np.repeat(self.earlier, times, axis=0), np.repeat(self.early, times, axis=0)
        self.unshown = np.repeat(self.unshown, times, axis=0)

    def read(self, reach: Reach, clocks: Clocks, op: int) -> None:
        """Rank by rank: of one block there is one entry for each unit and group."""
        self._kept(self.reads, reach, clocks, op)

    def changed(self, reach: Reach, clocks: Clocks, op: int) -> None:
        """Atomics, rank by rank."""
        self._kept(self.atomics, reach, clocks, op)
        several = reach.at.first != reach.at.second
        for thread, part in ((reach.at.second[several], reach.pick(several)), (reach.at.first, reach)):
            turn = _turns(part.at.unit * clocks.columns + part.owner)
            for number in range(int(turn.max(initial=-1)) + 1):         # one entry of each unit at a time
                mine = turn == number
                self._change(part.pick(mine), thread[mine], clocks, op)

    def _change(self, reach: Reach, thread: Ints, clocks: Clocks, op: int) -> None:
        """These threads change distinct units."""
        place, rank = (reach.at.unit, reach.owner), reach.actor % clocks.cluster
        last, by = self.update[place], self.updater[place]
        # Either may be the last, unless who fences this one knows that one.
        other = (thread_of(last) != thread) | (by != rank)
        keep = (last != 0) & (self.shown[place] == 0) & (self.unshown[place] != 0) & other
        at = reach.at.unit[keep], reach.owner[keep]
        self.earlier[at], self.early[at], self.unshown[at] = last[keep], by[keep], 0
        self.update[place] = pack(clocks.epoch(reach.at.group, reach.actor)[:, 0], op, SYNC, thread)
        self.updater[place], self.shown[place] = rank, 0

    def _kept(self, records: dict[int, Recent], reach: Reach, clocks: Clocks, op: int) -> None:
        for rank in np.unique(reach.actor % clocks.cluster).tolist():
            if rank not in records:
                records[rank] = Recent(len(self.write), clocks)
            part = reach.pick(reach.actor % clocks.cluster == rank)
            records[rank].add(part.at, clocks, op, part.owner)

    def written(self, reach: Reach, clocks: Clocks, op: int) -> None:
        """Keep records of units; if a unit is written several times, the last write stays."""
        epoch = clocks.epoch(reach.at.group, reach.actor)[:, 0]
        self.write[reach.at.unit, reach.owner] = pack(epoch, op, SYNC, reach.at.first)
        self.writer[reach.at.unit, reach.owner] = reach.actor % clocks.cluster
        self.fences[reach.at.unit, reach.owner] = 0
        # What counts from here on is who wrote last.
        self.shown[reach.at.unit, reach.owner] = self.unshown[reach.at.unit, reach.owner] = SHOWN


def _turns(keys: Ints) -> Ints:
    """How often each key has come before: (D,)."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    found = np.empty_like(keys)
    found[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return found


class InFlight:
    """The last asynchronous write of each unit: its group, its issuer's waits so far, and the op that waited for it."""

    def __init__(self, units: int, columns: int) -> None:
        self.group: Ints = np.zeros((units, columns), np.int64)
        self.waits: Ints = np.zeros((units, columns), np.int64)
        self.wait_op: Ints = np.zeros((units, columns), np.int64)
        self.issues: dict[int, int] = {}
        """The number of times that each op has copied."""
        self.unread: set[int] = set()
        """The copies that have overwritten what had arrived and nobody had read: they go to the wrong stage."""
        self.handed: Handed | None = None

    def repeat(self, times: int, axis: int) -> None:
        if self.handed is not None:
            self.handed.repeat(times, axis)
        self.group = np.repeat(self.group, times, axis)
        self.waits = np.repeat(self.waits, times, axis)
        self.wait_op = np.repeat(self.wait_op, times, axis)


class Handed:
    """Copies that complete on an mbarrier: the record of each unit, its issuer, and the issuer's epoch when it had
    waited for them itself, too."""

    def __init__(self, units: int, columns: int) -> None:
        self.record, self.thread, self.waited = np.zeros((3, units, columns), np.int64)

    def repeat(self, times: int, axis: int) -> None:
        self.record, self.thread, self.waited = (np.repeat(x, times, axis)
                                                 for x in (self.record, self.thread, self.waited))


class Turns:
    """The write before the last one of each unit, and the groups that had read it, as bits by the number of the
    group."""

    def __init__(self, units: int, columns: int) -> None:
        self.before: Ints = np.zeros((units, columns), np.int64)
        self.had_read: Ints = np.zeros((units, columns), np.int64)
        self.read: Ints = np.zeros((units, columns), np.int64)
        """The groups that have read the last one."""
        self.told: dict[tuple[int, int], bool] = {}
        """Whether the write overtakes the read, for each pair of a write and a read that clash: what was told first."""

    def repeat(self, times: int, axis: int) -> None:
        self.before, self.had_read, self.read = (np.repeat(x, times, axis)
                                                 for x in (self.before, self.had_read, self.read))

    def one_class(self, record: Ints, reader: int, late: Bools) -> Bools:
        """``late`` as it was for the first clash of each pair of ops: later clashes follow from it."""
        written = op_of(record)
        for writer in np.unique(written).tolist():
            here = written == writer
            # One pair of statements is one fault, whichever elements show it first.
            late = np.where(here, self.told.setdefault((writer, reader), bool(late[here].any())), late)
        return late

    def written(self, at: Footprint, last: Ints) -> None:
        """``last`` (D, columns) is overwritten."""
        put(self.before, at.unit, at.block, last)
        put(self.had_read, at.unit, at.block, take(self.read, at.unit, at.block))
        put(self.read, at.unit, at.block, np.zeros((len(at.unit), 1), np.int64))

    def looked(self, at: Footprint) -> None:
        """Groups read."""
        for group in np.unique(at.group).tolist():
            here = at if len(at.unit) == 1 else at.pick(at.group == group)
            put(self.read, here.unit, here.block, take(self.read, here.unit, here.block) | bit(group))


def bit(group: Ints | int) -> Ints:
    """The bit of a group; if there are more groups than bits, some share one."""
    # A shared bit can only class a late write as a race of another kind: it is found all the same.
    return np.int64(1) << (np.asarray(group, np.int64) % 62)


def _before(group: Ints, child: int, parents: list[int], first: int) -> Ints:
    """The groups of the threads just after ``child`` was split off, given those after all the splits."""
    now = group.copy()
    for later in range(first + len(parents) - 1, child, -1):
        now[now == later] = parents[later - first]
    return now


class Shadow:
    """One buffer: ``unit`` bytes a unit, ``units`` of them; reads, atomics and copies only once there are some."""

    def __init__(self, buffer: Buffer, unit: int, clocks: Clocks) -> None:
        self.buffer = buffer
        self.unit = unit
        self.units = -(-buffer.bytes // unit)
        self.write: Ints = np.zeros((self.units, clocks.columns), np.int64)
        self.reads = Recent(self.units, clocks)
        self.atomics: Recent | None = None
        self.updates: Recent | None = None
        """The atomics since the last other write of each unit, where proxy fences matter."""
        self.narrow: Recent | None = None
        """The atomics, and ordered loads and stores, whose scope leaves out the other blocks of the cluster."""
        self.sized: dict[int, Recent] = {}
        """Atomic and ordered accesses by their bytes, where there are several sizes; loads by less than 0."""
        self.copies: InFlight | None = None
        self.pending = False                            # whether a copy may be in flight
        self.stale: Bools | None = None
        """Units not written since the buffer was allocated again; None if it was allocated once."""
        self.allocated: Op | None = None
        """The op that allocated it again."""
        self.engines: dict[int, Ints] = {}
        """The last read of each unit, by engine that has read the buffer."""
        self.fences: Ints | None = None
        """When the last writer of each unit made it visible to engines (0: not yet); None where that does not
        matter."""
        self.foreign: Bools | None = None
        """Whether another thread has fenced since, for each unit."""
        self.turns: Turns | None = None
        """What each unit held before its last write, where roles may overtake each other."""
        self.others: Others | None = None
        """What other blocks of the cluster have done to it, if any has."""
        self.cache = FootprintCache()

    @property
    def _recents(self) -> list[Recent]:
        by_others = [] if self.others is None else [*self.others.reads.values(), *self.others.atomics.values()]
        own = [x for x in (self.atomics, self.updates, self.narrow) if x is not None]
        return [self.reads, *own, *self.sized.values(), *by_others]

    def allocate(self, op: Op) -> None:
        """A new tensor takes the place of the old one; its contents have no writer."""
        self.stale, self.allocated = np.ones(self.write.shape, np.bool_), op

    def expand(self, columns: int) -> None:
        self.write = np.repeat(self.write, columns, axis=1)
        if self.stale is not None:
            self.stale = np.repeat(self.stale, columns, axis=1)
        self._repeat(columns, 1)
        for recent in self._recents:
            recent.expand(columns)
        if self.copies is not None:
            self.copies.repeat(columns, 1)
        if self.turns is not None:
            self.turns.repeat(columns, 1)

    def _repeat(self, times: int, axis: int) -> None:
        self.engines = {engine: np.repeat(last, times, axis) for engine, last in self.engines.items()}
        if self.fences is not None and self.foreign is not None:
            self.fences, self.foreign = np.repeat(self.fences, times, axis), np.repeat(self.foreign, times, axis)

    def refine(self, unit: int) -> None:
        """Go over to smaller units."""
        # An access of smaller or shifted elements came: each unit becomes several with the record that it had.
        times = self.unit // unit
        self.cache.clear()
        self.write = np.repeat(self.write, times, axis=0)
        if self.stale is not None:
            self.stale = np.repeat(self.stale, times, axis=0)
        self._repeat(times, 0)
        for recent in self._recents:
            recent.refine(times)
        if self.copies is not None:
            self.copies.repeat(times, 0)
        if self.turns is not None:
            self.turns.repeat(times, 0)
        if self.others is not None:
            self.others.refine(times)
        self.unit, self.units = unit, self.units * times

    def split(self, parents: list[int], group: Ints) -> None:
        """Groups were split: the last ``len(parents)`` ones are new."""
        self.cache.clear()
        first = int(self.reads.newest.shape[1])
        for child, parent in enumerate(parents, first):
            now = _before(group, child, parents, first)
            for recent in self._recents:
                recent.split(parent, child, now)

    def complete(self, done: Ints, op: int, clocks: Clocks) -> None:
        """Copies of groups below ``done`` (T, columns) of their issuer become ordinary writes at its clock."""
        if self.copies is None:
            return
        if self.copies.handed is not None:
            self._waited(self.copies.handed, self.copies.group, done, clocks)
        if not self.pending:
            return
        flat = self.write.reshape(-1)
        # The epoch is in the highest bits, so copies in flight, whose epoch is the last, compare as the largest
        # records.
        at = np.flatnonzero(flat >= IN_FLIGHT)
        if not at.size:
            self.pending = False
            return
        thread, column = thread_of(flat[at]), at % clocks.columns
        finished: Bools = self.copies.group.reshape(-1)[at] < done[thread, column]
        at, thread, column = at[finished], thread[finished], column[finished]
        record = flat[at]
        # From the wait on the copy counts as a write by its issuer, at the issuer's epoch.
        epoch = clocks.now[clocks.group[thread], column]
        flat[at] = (record & ((1 << EPOCH_SHIFT) - 1)) | (WAITED << THREAD_BITS) | (epoch << EPOCH_SHIFT)
        self.copies.wait_op.reshape(-1)[at] = op


    def hand_over(self, who: Bools, engine: int, epoch: Ints) -> None:
        """Copies in flight of the threads ``who`` (T, columns) become writes by an engine, at its epoch (columns,)."""
        if not self.pending:
            return
        flat = self.write.reshape(-1)
        at = np.flatnonzero(flat >= IN_FLIGHT)
        at = at[(kind_of(flat[at]) == PENDING) & who[thread_of(flat[at]), at % who.shape[1]]]
        thread = thread_of(flat[at])
        keep = OP << (THREAD_BITS + KIND_BITS)
        flat[at] = (flat[at] & keep) | (ENGINE << THREAD_BITS) | engine | (epoch[at % len(epoch)] << EPOCH_SHIFT)
        if self.fences is not None:
            self.fences.reshape(-1)[at] = ANNOUNCED
        if self.copies is not None and at.size:
            handed = self.copies.handed = self.copies.handed or Handed(*self.write.shape)
            for table, values in ((handed.record, flat[at]), (handed.thread, thread), (handed.waited, 0)):
                table.reshape(-1)[at] = values

    def _waited(self, handed: Handed, group: Ints, done: Ints, clocks: Clocks) -> None:
        """Threads have waited for their groups below ``done`` (T, columns) that complete on an mbarrier, too."""
        at = np.flatnonzero((handed.record == self.write) & (handed.record != 0) & (handed.waited == 0))
        thread, column = handed.thread.reshape(-1)[at], at % clocks.columns
        finished = group.reshape(-1)[at] < done[thread, column]
        at, thread, column = at[finished], thread[finished], column[finished]
        handed.waited.reshape(-1)[at] = clocks.now[clocks.group[thread], column]

    def waited_for(self, last: Ints, known: Ints, at: Footprint, clocks: Clocks) -> Ints:
        """``known`` epochs, of copies on mbarriers those for which the issuer has waited, as the entries' groups know.
        """
        if self.copies is None or (handed := self.copies.handed) is None:
            return known
        record, thread, epoch = (take(x, at.unit, at.block) for x in (handed.record, handed.thread, handed.waited))
        own = (thread == at.first[:, None]) & (at.first == at.second)[:, None]
        told = clocks.known(at.group, clocks.group[thread], at.block) >= epoch
        found = (record == last) & (epoch > 0) & (own | told)
        return np.where(found, np.maximum(known, epoch_of(last)), known)


def renew(shadow: Shadow, at: Footprint) -> None:
    """What is written belongs to the tensor as it was last allocated."""
    if shadow.stale is not None:
        put(shadow.stale, at.unit, at.block, np.zeros((len(at.unit), 1), np.bool_))
