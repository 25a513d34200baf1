"""Races, missing waits and uninitialised reads in shared memory, by happens-before; values are never looked at.

In: what each statement of a batch of blocks does to shared memory (byte addresses (V, T, B), masks (T, B)), and its
barriers, commits and waits.  Out: findings of classes B6, B9, B11, C1-C3 and D1-D5 through the reporter.

An access is a violation if it touches what another thread wrote (or writes what another read) and the vector clocks
of clocks.py do not order it after that access; a copy by cp.async counts as in flight until its issuer waits for its
group.  While blocks do the same everything is done once for all of them (arrays whose last dimension is 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.hardware import WARP
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.ir.ops import (
    Alloc,
    AnyBulk,
    Atomic,
    CpAsyncWait,
    Fence,
    Load,
    MbarrierWait,
    NamedBarrier,
    Op,
    Store,
    Wgmma,
)
from moye.sim.checks.barrier_reuse import Reuse
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.cluster_races import Peers
from moye.sim.checks.copy_groups import CopyGroups
from moye.sim.checks.engines import Engines
from moye.sim.checks.equal_writes import Agreement, InDoubt, pick
from moye.sim.checks.footprint import Footprint, footprint
from moye.sim.checks.judge import COPIED, READ, UPDATED, WRITTEN, Judge
from moye.sim.checks.shared_proxies import renewed, updated
from moye.sim.checks.shared_records import (
    ENGINE,
    EPOCH_SHIFT,
    NEVER,
    PENDING,
    SYNC,
    THREAD,
    WAITED,
    Clashes,
    InFlight,
    Recent,
    Shadow,
    Turns,
    bit,
    epoch_of,
    kind_of,
    op_of,
    pack,
    put,
    renew,
    take,
    thread_of,
)
from moye.sim.checks.signal_memory import strong
from moye.sim.checks.signals import Flags, Where
from moye.sim.checks.stages import Stages
from moye.sim.findings.finding import Reporter
from moye.sim.findings.wording import Crowd
from moye.sim.flow.once import once_per_func

MOST_RECORDS = 1 << 24
"""Records of reads that are kept of all groups."""
BLOCK = 0
"""The named barrier that is the block barrier."""
_FIRST = 4
"""So many runs of a copy show whether it goes to the wrong stage."""


class SharedChecker:
    """Checks the shared memory of one batch of blocks that run ``func`` with ``threads`` threads each."""

    def __init__(self, func: Func, threads: int, blocks: int, reporter: Reporter, block_ids: Ints, *,
                 warp: int = WARP) -> None:
        self.threads = threads
        self.blocks = blocks
        self.cluster = prod(func.cluster_dim)
        self.clocks = Clocks(threads, warp, self.cluster)
        self.copies = CopyGroups(threads)
        self.judge = Judge(reporter, block_ids, warp, self.copies, Stages(func, threads, blocks), func)
        self.shadows: dict[int, Shadow] = {}
        self.reuse = Reuse()
        self.engines = Engines(self, func)
        self.peers = Peers(self, func)
        self.proxies = _in_two_proxies(func)
        """The tensors for which proxy fences matter."""
        self.uneven = _of_several_sizes(func)
        """The tensors whose atomic accesses have several sizes."""
        # Whether parts of the block go on without the others, so that one may be a turn ahead.
        self.overtaking = any(isinstance(op, (NamedBarrier, MbarrierWait)) for op in func.body.walk())
        self.flags: Flags | None = None
        """What the threads tell each other through memory, once that is followed."""
        self.agreement, self.valued = Agreement(), False
        """Writes that clash and whose values are not known yet; whether somebody tells of the values."""
        self.ignored: frozenset[int] = frozenset()
        """The ids of block barriers that are taken to order nothing."""

    # --- accesses ----------------------------------------------------------------------------------------------------

    def read(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None:
        """``width`` bytes at each address are read."""
        ordered = isinstance(op, Load) and op.order is not None
        if ordered:
            # First: what an acquire learns counts for this access already.
            self._synchronise(op, ref, addresses, active)
        found = self._find(op, ref, addresses, width, active, by_group=True)
        if found is None:
            return
        shadow, at = found
        if (clashes := self.against_write(shadow, at, initialised=True)) is not None and \
                (clashes := self._overtaken(shadow, op, clashes)) is not None and \
                (clashes := self._unguarded(shadow, op, clashes)) is not None:
            self.judge.read_any(shadow, op, clashes)
        if shadow.turns is not None:
            shadow.turns.looked(at)
        self.peers.local(shadow, op, at, READ)
        if ordered and shadow.buffer.id in self.uneven:
            self._of_other_sizes(shadow, op, at, width, READ)
        if ordered:
            return                                      # ordered with atomics; not kept against plain writes
        if (clashes := self._against_atomics(shadow, op, at)) is not None:
            self.judge.read(shadow, op, clashes, READ)
        shadow.reads.add(at, self.clocks, self.judge.number(op))

    def write(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None:
        """``width`` bytes at each address are written."""
        if isinstance(op, Store) and op.order is not None:
            self.atomic(op, ref, addresses, width, active)
        else:
            self._write(op, ref, addresses, width, active, asynchronous=False)

    def async_write(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None:
        """An asynchronous copy into each address is issued; it belongs to its thread's open group."""
        self._write(op, ref, addresses, width, active, asynchronous=True)

    def atomic(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None:
        """A read-modify-write (or a store with an order) at each address; they do not race with one another."""
        self._synchronise(op, ref, addresses, active)
        found = self._find(op, ref, addresses, width, active, by_group=True)
        if found is None:
            return
        shadow, at = found
        if shadow.atomics is None:
            shadow.atomics = Recent(shadow.units, self.clocks)
        stores = isinstance(op, Store)
        if (clashes := self.against_write(shadow, at, initialised=not stores)) is not None and \
                (clashes := self._uncombined(clashes)) is not None and \
                (clashes := self._unguarded(shadow, op, clashes)) is not None:
            self.judge.read_any(shadow, op, clashes, UPDATED)
        self._after_reads(shadow, op, at, UPDATED, asynchronous=False)
        if shadow.engines:
            self.engines.against_engines(shadow, op, at)
        self.peers.local(shadow, op, at, WRITTEN)
        if shadow.buffer.id in self.uneven:
            self._of_other_sizes(shadow, op, at, width, UPDATED)
        updated(shadow, at, self.clocks, self.judge.number(op))
        shadow.atomics.add(at, self.clocks, self.judge.number(op))
        if stores:
            last = take(shadow.write, at.unit, at.block)
            here = pack(np.zeros_like(last), self.judge.number(op), SYNC, at.first[:, None])
            put(shadow.write, at.unit, at.block, np.where(last == 0, here, last))
        renew(shadow, at)
        if self.flags is not None:
            self.flags.done(op, active)

    def _of_other_sizes(self, shadow: Shadow, op: Op, at: Footprint, width: int, verb: str) -> None:
        """Tell of atomic accesses that overlap earlier ones of another size: they are not morally strong (PTX ISA)."""
        for size, recent in shadow.sized.items():
            if abs(size) != width and (size > 0 or verb != READ) and \
                    (clashes := self.against(recent, at)) is not None and \
                    (clashes := self._unguarded(shadow, op, clashes)) is not None:
                self.judge.uneven(shadow, op, clashes, verb)
        key = -width if verb == READ else width
        if key not in shadow.sized:
            shadow.sized[key] = Recent(shadow.units, self.clocks)
        shadow.sized[key].add(at, self.clocks, self.judge.number(op))

    def _uncombined(self, clashes: Clashes) -> Clashes | None:
        """Those whose earlier access is no red.async, with which atomics do not race."""
        keep = ~self.engines.combined(clashes.record)
        return clashes.pick(keep) if keep.any() else None

    def _write(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None, *,
               asynchronous: bool) -> None:
        found = self._find(op, ref, addresses, width, active, by_group=False)
        if found is None:
            return
        shadow, at = found
        # Two lanes of one statement that write one place race with each other before anything else.
        verb = COPIED if asynchronous else WRITTEN
        self._twice(shadow, op, at, verb)
        if (clashes := self.against_write(shadow, at, initialised=False)) is not None and \
                (clashes := self._unguarded(shadow, op, clashes)) is not None:
            # Values of plain writes are known once the statement is done, and equal ones harm nobody; a copy lands
            # later.
            plain = (kind_of(clashes.record) == SYNC) & (not asynchronous)
            for part, late in ((plain, True), (~plain, False)):
                if part.any():
                    self._clash(InDoubt(shadow, op, pick(clashes, part), verb, together=False), late=late)
        if shadow.atomics is not None and (clashes := self._against_atomics(shadow, op, at)) is not None:
            shadow.atomics.forget(clashes.unit, clashes.block)
            self.judge.write(shadow, op, clashes, verb)
        if shadow.atomics is not None and self.flags is not None:
            self.flags.cut(self._where(ref.buffer), addresses, active, width)
        self._after_reads(shadow, op, at, verb, asynchronous)
        if shadow.engines:
            self.engines.against_engines(shadow, op, at)
        self.peers.local(shadow, op, at, WRITTEN)
        epoch = self.clocks.epoch(at.group, at.block)
        if asynchronous:
            self._issue(shadow, self.judge.number(op), at)
            # A copy in flight is ordered before nobody, its issuer included, until a wait completes its group (PTX ISA,
            # cp.async).
            epoch = np.full_like(epoch, NEVER)
        kind = PENDING if asynchronous else SYNC
        if shadow.turns is not None:
            shadow.turns.written(at, take(shadow.write, at.unit, at.block))
        put(shadow.write, at.unit, at.block, pack(epoch, self.judge.number(op), kind, at.first[:, None]))
        renew(shadow, at)
        renewed(shadow, at)

    def _after_reads(self, shadow: Shadow, op: Op, at: Footprint, verb: str, asynchronous: bool) -> None:
        clashes = self.against(shadow.reads, at)
        if clashes is not None and (clashes := self._unguarded(shadow, op, clashes)) is not None:
            shadow.reads.forget(clashes.unit, clashes.block)
            self.judge.overwrite(shadow, op, clashes, verb, asynchronous)

    def _overtaken(self, shadow: Shadow, op: Op, clashes: Clashes) -> Clashes | None:
        """Tell (C2) of reads that find the next value, because its writer has not waited for them; the others that are
        left.

        These reads have not read the value before, although they are ordered after it.
        """
        turns = shadow.turns
        if turns is None:
            return clashes
        place, group = (clashes.unit, clashes.block), self.clocks.group[clashes.actor]
        before = turns.before[place]
        known = self.clocks.seen[group, self.clocks.group.take(thread_of(before), mode="clip"), clashes.block]
        late = (clashes.kind == SYNC) & (clashes.record != 0) & (before != 0) & (kind_of(before) == SYNC) & \
            (epoch_of(before) <= known) & (turns.had_read[place] & bit(group) == 0)
        late = turns.one_class(clashes.record, self.judge.number(op), late)
        if late.any():
            self.judge.overtaken(shadow, op, clashes.pick(late))
        return None if late.all() else clashes.pick(~late)

    def _twice(self, shadow: Shadow, op: Op, at: Footprint, verb: str) -> None:
        entry = np.flatnonzero(at.first != at.second)
        if not entry.size:
            return
        columns = self.clocks.columns if at.block is None else 1
        column, entry = np.tile(np.arange(columns), entry.size), entry.repeat(columns)
        record = pack(np.zeros_like(entry), self.judge.number(op), SYNC, at.second[entry])
        self._clash(InDoubt(shadow, op, self.clashes(at, entry, column, record, at.first[entry]), verb, together=True),
                    late=verb == WRITTEN)

    def _clash(self, doubt: InDoubt, *, late: bool) -> None:
        """Writes that nothing orders: ``late`` once their values are known, if that is ever told."""
        if late and self.valued:
            self.agreement.waiting.append(doubt)
        else:
            self._tell(doubt)

    def _tell(self, doubt: InDoubt) -> None:
        if doubt.together:
            self.judge.twice(doubt.shadow, doubt.op, doubt.clashes, doubt.verb)
        else:
            self.judge.write_any(doubt.shadow, doubt.op, doubt.clashes, doubt.verb)

    def settle(self, address: Ints, size: int, before: Any, after: Any, values: Any, mask: Bools | None) -> None:
        """A statement has written ``values`` (V, T, B), of ``size`` bytes each: writes that clash may agree."""
        for doubt, agree in self.agreement.settle((len(address), self.threads, self.blocks), address, size, before,
                                                   after, values, mask):
            with self.judge.reporter.agreed(agree):
                self._tell(doubt)

    def _issue(self, shadow: Shadow, op: int, at: Footprint) -> None:
        if shadow.copies is None:
            shadow.copies = InFlight(shadow.units, self.clocks.columns)
        times = shadow.copies.issues[op] = shadow.copies.issues.get(op, 0) + 1
        if times <= _FIRST:
            landed = kind_of(take(shadow.write, at.unit, at.block)) == WAITED
            if landed.any() and (landed & ~shadow.reads.rows(at).any(axis=1)).any():
                shadow.copies.unread.add(op)
        shadow.pending = True
        # A wait completes all groups but the newest (PTX ISA, cp.async.wait_group): the number of a group tells which.
        put(shadow.copies.group, at.unit, at.block, take(self.copies.committed, at.first, at.block))
        put(shadow.copies.waits, at.unit, at.block, take(self.copies.waits, at.first, at.block))

    # --- synchronisation ---------------------------------------------------------------------------------------------

    def commit(self, op: Op, active: Bools | None) -> None:
        """Each thread's open group of asynchronous copies is closed."""
        self.copies.commit(self.everyone(active))

    def wait(self, op: CpAsyncWait, active: Bools | None, trips: Mapping[str, Any] | None = None) -> None:
        """Each thread waits until at most ``op.pending`` of its groups are in flight; None means that none may be.

        ``trips`` are the variables of the loops around it, for the reader.
        """
        self.copies.wait(self.everyone(active), op, trips or {})
        for shadow in self.shadows.values():
            # A wait tells its own thread alone; others need a barrier behind it (D3).
            shadow.complete(self.copies.done, self.judge.number(op), self.clocks)

    def allocate(self, op: Alloc, active: Bools | None) -> None:
        """The buffer is allocated, for the first time or again.  Only if all threads do so, something is known of the
        others."""
        shadow = self.shadows.get(op.buffer.id)
        if shadow is not None and self._mask(active) is None:
            shadow.allocate(op)

    def barrier(self, op: Op, active: Bools | None) -> None:
        """A block barrier is complete among these threads."""
        if id(op) in self.ignored:
            return
        active = self._mask(active)
        if self.reuse.openings and BLOCK in self.reuse.openings:
            self.groups(self.everyone(active))
            self._ordered_use(op, BLOCK, self.everyone(active))
        self.clocks.barrier(None if active is None else self.groups(active))
        if self.peers.on:
            self.peers.block_barrier(op, active)

    def named_barrier(self, op: Op, barrier_id: int, arrived: Bools | None, released: Bools | None) -> None:
        """Threads arrive at a named barrier, and those that wait are released.

        Arrivals count from the moment of the call: called once when the barrier completes it is right for threads
        that wait; an arrival that does not wait is exact if it is told when it happens, with nobody released.
        """
        came, freed = self.everyone(arrived), self.everyone(released)
        came, freed = self.everyone(came), self.everyone(freed)  # the second may have made one column a block
        for mask in (came, freed):
            self.groups(mask)                          # split by both before either is looked up
        self._ordered_use(op, barrier_id, came)
        self.reuse.arrives(barrier_id, came, self.clocks)
        arriving, leaving = self.groups(came | freed), self.groups(freed)
        # barrier.arrive and barrier.sync both release, barrier.sync alone acquires (PTX ISA, bar{.cta}).
        self.clocks.send(("barrier", barrier_id), arriving)
        self.clocks.receive(("barrier", barrier_id), leaving)
        # The next phase of the barrier starts empty: its threads learn nothing of those that met before.
        self.clocks.close(("barrier", barrier_id), np.logical_or.reduce(leaving, axis=0))
        if freed.any():
            self.reuse.opened(op, barrier_id, freed, self.clocks)

    def named_alone(self, op: Op, barrier_id: int, came: Bools) -> None:
        """A named barrier opens by these arrivals, and nobody waits for it: nobody learns anything."""
        who = self.everyone(came)
        self.reuse.opened_alone(op, barrier_id, who)
        self.clocks.close(("barrier", barrier_id), np.logical_or.reduce(who, axis=0))

    def _ordered_use(self, op: Op, number: int, came: Bools) -> None:
        """Report C5 if threads arrive at a barrier that others have passed, and nothing orders the two."""
        if (lost := self.reuse.unordered(number, came, self.clocks)) is None:
            return
        late, first = (Crowd(np.flatnonzero(mask).tolist(), self.threads) for mask in (lost.arrives, lost.passed))
        self.judge.tell("C5", "alone" if lost.alone else "groups", [lost.before, op], lost.column,
                        (first.threads[0], late.threads[0]),
                        {"late": late, "first": first, "before": lost.before, "number": number})

    def warp_sync(self, op: Op, lane_mask: int, active: Bools | None) -> None:
        """The active lanes among those of ``lane_mask`` meet, warp by warp."""
        lanes = np.array([lane_mask >> (t % self.clocks.warp) & 1 for t in range(self.threads)], np.bool_)
        self.clocks.warp_barrier(self.groups(self.everyone(active) & lanes[:, None]))

    def split(self, active: Bools | None) -> Bools:
        """The groups of these threads, split so that they fit the mask."""
        return self.groups(self.everyone(active))

    def fence(self, op: Fence, active: Bools | None) -> None:
        """A fence of block scope, which orders nothing between blocks.  What lies before it has an epoch of its own."""
        if self.peers.on and op.scope in ("thread", "cta"):
            who = self.split(active)                    # first: there may be more groups from here on
            self.clocks.now = self.clocks.now + who
            self.peers.block_barrier(op, active)

    def finish(self) -> None:
        """The blocks have ended: their state is dropped (a copy in flight at the end harms nobody)."""
        self.engines.order.tell()
        self.shadows.clear()

    def _synchronise(self, op: Op, ref: Ref | TileRef, addresses: Ints, active: Bools | None) -> None:
        """What a strong access tells other threads, and learns of them."""
        if self.flags is not None:
            self.flags.access(op, self._where(ref.buffer), addresses[0], active)

    def _where(self, buffer: Buffer) -> Where:
        assert self.flags is not None, "the memory is followed"
        return Where(lambda block, byte: (block, buffer.root.id, byte), self.flags.traffic.watched(buffer))

    def _against_atomics(self, shadow: Shadow, op: Op, at: Footprint) -> Clashes | None:
        """Entries that are not ordered after an atomic by another thread, nor have seen what it did."""
        clashes = None if shadow.atomics is None else self.against(shadow.atomics, at)
        if clashes is None or self.flags is None or not self.flags.between.locations or \
                (clashes := self._unguarded(shadow, op, clashes)) is None:
            return clashes
        keep = np.array([not self._saw(shadow, *entry) for entry in zip(
            clashes.unit.tolist(), clashes.block.tolist(), clashes.record.tolist(), clashes.actor.tolist(),
            strict=True)], np.bool_)
        return Clashes(*(part[keep] for part in (clashes.unit, clashes.block, clashes.record, clashes.actor))) \
            if keep.any() else None

    def _saw(self, shadow: Shadow, unit: int, block: int, record: int, actor: int) -> bool:
        assert self.flags is not None, "the memory is followed"
        eye, number = self.flags.eye(block, actor), self.flags.first + block
        rival = number, record & THREAD, record >> EPOCH_SHIFT
        return self.flags.observed((number, shadow.buffer.id, unit * shadow.unit), eye,
                                   self.flags.between.visible(eye), rival)

    # --- locks -------------------------------------------------------------------------------------------------------

    def _unguarded(self, shadow: Shadow, op: Op, clashes: Clashes) -> Clashes | None:
        """The clashes that no lock guards, in a run in which locks order nothing; in other runs all of them."""
        held = None if self.flags is None else self.flags.held
        if held is None or self.flags is None:
            return clashes
        if not held.certain(op) or held.is_lock(self.flags.traffic.key(shadow.buffer)):
            return None
        rivals = [self.judge.ops[number] for number in op_of(clashes.record).tolist()]
        keep: Bools = (clashes.record != 0) & (clashes.kind == SYNC)
        keep &= np.array([rival is not None and held.certain(rival) for rival in rivals], np.bool_)
        for i in np.flatnonzero(keep).tolist():
            block = self.flags.first + int(clashes.block[i])
            group = self.clocks.group[int(clashes.actor[i])]
            now = block, int(clashes.actor[i]), int(self.clocks.now[group, min(int(clashes.block[i]),
                                                                               self.clocks.columns - 1)]), id(op)
            then = block, int(clashes.thread[i]), int(epoch_of(clashes.record[i:i + 1])[0]), id(rivals[i])
            keep[i] = not held.apart(now, then, lambda: None)
        return clashes.pick(keep) if keep.any() else None

    # --- order -------------------------------------------------------------------------------------------------------

    def against_write(self, shadow: Shadow, at: Footprint, *, initialised: bool) -> Clashes | None:
        """Entries whose last write is not ordered before them (or, if it must be ``initialised``, is missing)."""
        # One write is kept, the last: an earlier one that did not race is ordered before it, and so before whoever is
        # ordered after it (FastTrack: Flanagan and Freund, PLDI 2009).
        last = take(shadow.write, at.unit, at.block)
        known = self.clocks.known(at.group, self.clocks.group.take(thread_of(last), mode="clip"), at.block)
        if self.engines.all:
            known = shadow.waited_for(last, self.engines.known(last, known, at), at, self.clocks)
        # The test of vector clocks: an access at epoch e is ordered before whoever has seen e of its thread.
        bad = epoch_of(last) > known
        if initialised:
            bad |= last == 0
            if shadow.stale is not None:
                bad |= take(shadow.stale, at.unit, at.block)
        if not bad.any():
            return None
        entry, column = np.nonzero(bad)
        record = last[entry, column]
        thread = thread_of(record)
        # If the first toucher of a unit is the writer itself, the second is the other thread of the race.
        actor = np.where(at.first[entry] != thread, at.first[entry], at.second[entry])
        # Program order covers what a thread did itself, but not its copies and engines, which work on their own.
        keep = (actor != thread) | (kind_of(record) == PENDING) | (kind_of(record) == ENGINE)
        if initialised and shadow.stale is not None:
            keep |= take(shadow.stale, at.unit, at.block)[entry, column]
        return self.clashes(at, entry[keep], column[keep], record[keep], actor[keep]) if keep.any() else None

    def against(self, recent: Recent, at: Footprint) -> Clashes | None:
        """Entries that are not ordered after every recent access by another thread."""
        # Reads need no order among themselves, so each group has a newest one of its own.
        newest = recent.rows(at)
        known = self.clocks.known_all(at.group, at.block)
        bad = epoch_of(newest) > known
        if not bad.any():
            return None
        entry, group, column = np.nonzero(bad)
        record, limit = newest[entry, group, column], known[entry, group, column]
        first = at.first[entry]
        actor = np.where(first != thread_of(record), first, at.second[entry])
        own = actor == thread_of(record)                # then only another thread of its group can clash with it
        block = column if at.block is None else at.block[entry]
        record = np.where(own, recent.other[at.unit[entry], group, block], record)
        keep = epoch_of(record) > limit
        return self.clashes(at, entry[keep], column[keep], record[keep], actor[keep]) if keep.any() else None

    def clashes(self, at: Footprint, entry: Ints, column: Ints, record: Ints, actor: Ints) -> Clashes:
        return Clashes(at.unit[entry], column if at.block is None else at.block[entry], record, actor)

    # --- addresses, masks and shapes ---------------------------------------------------------------------------------

    def _find(self, op: Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None,
              by_group: bool) -> tuple[Shadow, Footprint] | None:
        if self.flags is not None and self.flags.held is not None:
            self.flags.held.notice(self.flags.first, self.blocks, self.clocks)
        active = self._mask(active)
        # Blocks that do the same share one column, so that most kernels cost as much as one block.
        if addresses.shape[2] > 1 and bool((addresses == addresses[:, :, :1]).all()):
            addresses = addresses[:, :, :1]
        if addresses.shape[2] > 1:
            self.expand()
        if not addresses.size:
            return None
        shadow = self.shadow(ref.buffer.root, width)
        key = (self.judge.number(op), width, by_group)
        at = shadow.cache.find(key, addresses, active, shadow.unit, shadow.units)
        if at is None:
            self.align(shadow, addresses, width)
            at = footprint(addresses, width, active, shadow.unit, shadow.units, self.clocks.group,
                           self.clocks.groups, by_group)
            if at is None:
                return None
            shadow.cache.keep(key, addresses, active, at)
        return shadow, at

    def shadow(self, buffer: Buffer, width: int) -> Shadow:
        shadow = self.shadows.get(buffer.id)
        if shadow is None:
            shadow = self.shadows[buffer.id] = Shadow(buffer, width, self.clocks)
            if self.overtaking:
                shadow.turns = Turns(shadow.units, self.clocks.columns)
            if buffer.id in self.proxies:
                shadow.fences = np.zeros(shadow.write.shape, np.int64)
                shadow.foreign = np.zeros(shadow.write.shape, np.bool_)
        return shadow

    def align(self, shadow: Shadow, addresses: Ints, width: int) -> None:
        """Make the unit divide the width and the addresses."""
        # Records are of units: the largest that no access so far has cut.
        unit = gcd(shadow.unit, width)
        if np.any(addresses % unit):
            unit = gcd(unit, int(np.gcd.reduce(addresses, axis=None)))
        if unit != shadow.unit:
            shadow.refine(unit)

    def _mask(self, active: Bools | None) -> Bools | None:
        """The smallest form of a mask: None if every thread takes part, (T, 1) if blocks agree, else (T, blocks)."""
        if active is None:
            return None
        if active.shape[1] > 1 and bool((active == active[:, :1]).all()):
            active = active[:, :1]
        if active.shape[1] > 1:
            self.expand()
        return None if active.all() else active

    def everyone(self, active: Bools | None) -> Bools:
        """The mask as (T, columns)."""
        active = self._mask(active)
        shape = (self.threads, self.clocks.columns)
        return np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)

    def groups(self, who: Bools) -> Bools:
        """The groups of a mask, split so that they fit it."""
        who = np.broadcast_to(who, (self.threads, self.clocks.columns))
        units = sum(shadow.units for shadow in self.shadows.values()) * self.clocks.columns
        if parents := self.clocks.split(who, MOST_RECORDS // max(units, 1)):
            for shadow in self.shadows.values():
                shadow.split(parents, self.clocks.group)
        return self.clocks.groups_of(who)

    def expand(self) -> None:
        """Blocks differ from here on: one column each."""
        if self.clocks.columns > 1:
            return
        self.clocks.expand(self.blocks)
        self.copies.expand(self.blocks)
        self.reuse.expand(self.blocks)
        for shadow in self.shadows.values():
            shadow.expand(self.blocks)


@once_per_func
def _in_two_proxies(func: Func) -> frozenset[int]:
    """The shared tensors that asynchronous units read or write and that threads write, too."""
    units, threads = set[int](), set[int]()
    for op in func.body.walk():
        asynchronous = isinstance(op, (AnyBulk, Wgmma))
        barrier = op.barrier if isinstance(op, AnyBulk) else None
        for ref, written in op.refs():
            if ref.buffer.space in (Space.SHARED, Space.CLUSTER) and ref is not barrier and (asynchronous or written):
                (units if asynchronous else threads).add(ref.buffer.root.id)
    return frozenset(units & threads)


@once_per_func
def _of_several_sizes(func: Func) -> frozenset[int]:
    sizes: dict[int, set[int]] = {}
    for op in func.body.walk():
        if isinstance(op, (Load, Store, Atomic)) and strong(op):
            sizes.setdefault(op.ref.buffer.root.id, set()).add(op.ref.dtype.bytes)
    return frozenset(number for number, found in sizes.items() if len(found) > 1)
