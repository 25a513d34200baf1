"""Proxy fences in shared memory: what threads wrote and asynchronous units read or overwrite.

In: writes, proxy fences, the units of bulk copies and wgmma.  Out: ``Fenced``, units whose write the asynchronous proxy
may not see (D12), or may see only after its own (D13).

Who writes, by atomics too, fences before the barrier that orders the two (D14: somebody else alone).  Of what another
block of the cluster wrote, threads of the own block may fence, too, once they are ordered after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.ir import ops
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.engine_records import Memory
from moye.sim.checks.footprint import Footprint
from moye.sim.checks.judge import Fenced
from moye.sim.checks.shared_records import (
    ANNOUNCED,
    ENGINE,
    PENDING,
    SHOWN,
    Clashes,
    Others,
    Recent,
    Shadow,
    epoch_of,
    kind_of,
    put,
    take,
    thread_of,
)

KEPT = 64
"""So many fences are remembered one by one."""


class Proxies:
    """The proxy fences of one batch."""

    def __init__(self, checker: Memory) -> None:
        self.checker = checker
        self.recent: list[tuple[Bools, Ints]] = []
        """The last fences: threads (T, columns), and the epochs of their groups."""
        self.settled: Ints = np.zeros((checker.threads, 1), np.int64)
        """The epoch of each thread's last fence of those that are not kept."""

    def fence(self, who: Bools) -> None:
        """The threads ``who`` (T, columns) make what they wrote visible to asynchronous units."""
        clocks = self.checker.clocks
        if any(shadow.updates is not None for shadow in self.checker.shadows.values()):
            self._kept(who)
        for shadow in self.checker.shadows.values():
            if shadow.fences is not None:
                _fence(shadow, who, clocks.now[clocks.group])
                _fence_announced(shadow, who, clocks)
                if shadow.others is not None:
                    _fence_there(shadow.others, who, clocks)

    def unfenced(self, shadow: Shadow, at: Footprint) -> Fenced | None:
        """Units whose writer has not fenced, or whose fence the reader is not ordered after."""
        if shadow.fences is None or shadow.foreign is None:
            return None
        last, fence = (take(x, at.unit, at.block) for x in (shadow.write, shadow.fences))
        known = self.checker.clocks.known(at.group, self.checker.clocks.group.take(
            np.where(kind_of(last) == ENGINE, 0, thread_of(last))), at.block)
        # The fence must be the writer's, and ordered before the asynchronous operation (PTX ISA, async proxy).
        late = (fence > known) & (thread_of(last) != at.first[:, None])
        bad = (last != 0) & (kind_of(last) != ENGINE) & ((fence == 0) | late) | (fence == ANNOUNCED)
        if not bad.any():
            return self._unfenced_there(shadow, shadow.others, at) if shadow.others is not None else None
        entry, column = np.nonzero(bad)
        foreign = take(shadow.foreign, at.unit, at.block)[entry, column]
        clashes = self.checker.clashes(at, entry, column, last[entry, column], at.first[entry])
        # A fault is reported once; what follows from it is not.
        put(shadow.fences, at.unit, at.block, np.where(bad, SHOWN, fence))       # told once
        return Fenced(clashes, foreign, fence[entry, column] != 0)

    def _kept(self, who: Bools) -> None:
        """Keep a fence: what its threads do next has another epoch."""
        clocks = self.checker.clocks
        groups = self.checker.groups(who)
        self.recent.append((who.copy(), clocks.now[clocks.group]))
        clocks.now = clocks.now + groups
        if len(self.recent) > KEPT:
            gone, epoch = self.recent.pop(0)
            self.settled = np.maximum(self.settled, np.where(gone, epoch, 0))

    def unordered(self, shadow: Shadow, at: Footprint) -> Clashes | None:
        """Units that atomics change which nothing orders before the asynchronous unit."""
        clashes = None if shadow.updates is None else self.checker.against(shadow.updates, at)
        if clashes is not None and shadow.updates is not None:
            shadow.updates.forget(clashes.unit, clashes.block)
        return clashes

    def unshown(self, shadow: Shadow, at: Footprint) -> Fenced | None:
        """Units that an atomic has changed whose thread has not fenced since, or not before what orders the two."""
        if shadow.updates is None:
            return None
        records = shadow.updates.both(at)
        entry, place, column = np.nonzero(records)
        record, clocks = records[entry, place, column], self.checker.clocks
        if not len(record):
            return None
        thread, block = thread_of(record), column if at.block is None else at.block[entry]
        fence = self._covering(thread, block, epoch_of(record))
        late = (fence > clocks.seen[at.group[entry], clocks.group[thread], block]) & (thread != at.first[entry])
        bad = (fence == 0) | late
        if not bad.any():
            return None
        clashes = self.checker.clashes(at, entry[bad], column[bad], record[bad], at.first[entry[bad]])
        shadow.updates.forget(clashes.unit, clashes.block)
        return Fenced(clashes, np.zeros(len(clashes.unit), np.bool_), late[bad])

    def _covering(self, thread: Ints, block: Ints, epoch: Ints) -> Ints:
        """The epoch of the first fence of each thread from this epoch on; 0 if there is none."""
        settled = self.settled[thread, np.minimum(block, self.settled.shape[1] - 1)]
        found = np.where(settled >= epoch, epoch, 0)
        for who, when in self.recent:
            at = thread, np.minimum(block, who.shape[1] - 1)
            moment = when[thread, np.minimum(block, when.shape[1] - 1)]
            found = np.where((found == 0) & who[at] & (moment >= epoch), moment, found)
        return found

    def _unfenced_there(self, shadow: Shadow, others: Others, at: Footprint) -> Fenced | None:
        """The same of what other blocks of the cluster wrote there, or changed by atomics."""
        clocks = self.checker.clocks
        if at.block is None:
            at = at.across(np.arange(clocks.columns))
        assert at.block is not None, "it has an entry for each block"
        place = (at.unit, at.block)
        for record, by, fences in _by_others(others):
            last, fence, rank = record[place], fences[place], by[place]
            known = clocks.known_far(at.group, rank, clocks.group.take(thread_of(last), mode="clip"), at.block)
            bad = (last != 0) & ((fence == 0) | (fence > known))
            if bad.any():
                fences[at.unit[bad], at.block[bad]] = SHOWN                     # told once
                clashes = Clashes(at.unit[bad], at.block[bad], last[bad], at.first[bad])
                return Fenced(clashes, np.zeros(len(clashes.unit), np.bool_), fence[bad] != 0, away=True)
        return None

    def unfenced_for(self, shadow: Shadow, op: ops.AnyBulk, at: Footprint, owner: Ints) -> None:
        """D13 of a copy by threads of other blocks (``at.block``) into what the block ``owner`` has written."""
        if shadow.fences is None or shadow.foreign is None or at.block is None:
            return
        clocks, place = self.checker.clocks, (at.unit, owner)
        last, fence = shadow.write[place], shadow.fences[place]
        known = clocks.known_far(at.group, owner % self.checker.cluster,
                                 clocks.group.take(thread_of(last), mode="clip"), at.block)
        bad = (last != 0) & (kind_of(last) != ENGINE) & ((fence == 0) | (fence > known))
        if bad.any():
            foreign = shadow.foreign[place][bad]
            shadow.fences[at.unit[bad], owner[bad]] = SHOWN
            clashes = Clashes(at.unit[bad], owner[bad], last[bad], at.first[bad])
            self.checker.judge.unfenced(shadow, op, Fenced(clashes, foreign, fence[bad] != 0), "overwritten")


def updated(shadow: Shadow, at: Footprint, clocks: Clocks, number: int) -> None:
    """These units have been changed by an atomic, statement ``number``; others may change them, too."""
    if shadow.fences is not None:
        if shadow.updates is None:
            shadow.updates = Recent(shadow.units, clocks)
        shadow.updates.add(at, clocks, number)


def renewed(shadow: Shadow, at: Footprint, *, announced: bool = False) -> None:
    """These units have been written, and no fence covers that yet; ``announced``: a barrier says when they were."""
    if shadow.updates is not None:
        shadow.updates.clear(at)
    if shadow.fences is not None and shadow.foreign is not None:
        nothing: Any = np.zeros((len(at.unit), 1), np.int64)
        put(shadow.fences, at.unit, at.block, nothing + ANNOUNCED if announced else nothing)
        put(shadow.foreign, at.unit, at.block, nothing.astype(np.bool_))
    if shadow.others is not None:
        for fences in (shadow.others.fences, shadow.others.shown, shadow.others.unshown):
            put(fences, at.unit, at.block, np.full((len(at.unit), 1), SHOWN, np.int64))


def _fence(shadow: Shadow, who: Bools, now: Ints) -> None:
    """The threads ``who`` (T, columns) fence what they wrote last."""
    assert shadow.fences is not None and shadow.foreign is not None, "it is followed"
    # A copy by cp.async writes once it is waited for: no fence before that covers it.
    kind = kind_of(shadow.write)
    row, column = np.nonzero((shadow.write != 0) & (kind != ENGINE) & (kind != PENDING) & (shadow.fences == 0))
    if not row.size:
        return
    thread = thread_of(shadow.write[row, column])
    mine = who[thread, column]
    shadow.fences[row[mine], column[mine]] = now[thread[mine], column[mine]]
    others = ~mine & np.logical_or.reduce(who, axis=0)[column]            # threads of the same block
    shadow.foreign[row[others], column[others]] = True


def _fence_announced(shadow: Shadow, who: Bools, clocks: Clocks) -> None:
    """The threads ``who`` fence copies by cp.async and st.async of others: of the phases that they have waited for."""
    assert shadow.fences is not None, "it is followed"
    row, column = np.nonzero(shadow.fences == ANNOUNCED)
    if row.size:
        record = shadow.write[row, column]
        heard = np.where(clocks.groups_of(who)[:, None, :], clocks.heard, 0).max(axis=0)      # (engines, columns)
        mine = epoch_of(record) <= heard[thread_of(record), column]
        shadow.fences[row[mine], column[mine]] = SHOWN


def _by_others(others: Others) -> tuple[tuple[Ints, Ints, Ints], ...]:
    """The last write of each unit, the last atomic since and one before that, the ranks of their blocks, and the fences
    after them."""
    return ((others.write, others.writer, others.fences), (others.update, others.updater, others.shown),
            (others.earlier, others.early, others.unshown))


def _fence_there(others: Others, who: Bools, clocks: Clocks) -> None:
    """The same of what they wrote to other blocks; or of what they know that others wrote to their own block."""
    for records, by, fences in _by_others(others):
        row, owner = np.nonzero((records != 0) & (fences == 0))
        if row.size:
            _fence_those(row, owner, records[row, owner], by[row, owner], fences, who, clocks)


def _fence_those(row: Ints, owner: Ints, record: Ints, rank: Ints, fences: Ints, who: Bools, clocks: Clocks) -> None:
    thread, block = thread_of(record), owner // clocks.cluster * clocks.cluster + rank
    mine = who[thread, block]
    fences[row[mine], owner[mine]] = clocks.now[clocks.group[thread[mine]], block[mine]]
    for group in np.unique(clocks.group[who.any(axis=1)]).tolist():
        inside = (clocks.group == group)[:, None] & who
        known = clocks.known_far(np.full_like(rank, group), rank, clocks.group[thread], owner)
        seen = inside.any(axis=0)[owner] & (epoch_of(record) <= known)
        fences[row[seen], owner[seen]] = SHOWN
