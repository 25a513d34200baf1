"""Order between the blocks of a cluster in their shared memory: accesses to the memory of other blocks, and to memory
that others access.

In: byte addresses (V, T, B), the columns (T or 1, B) of the blocks whose memory they are in, masks; accesses of blocks
to their own memory; block barriers; exits.  Out: findings through the judge.

What orders blocks is in clocks.py (``far``): barriers of the cluster that release, arrivals at mbarriers of other
blocks, and flags (signals.py).  A relaxed barrier says that all blocks have started, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.flag_history import Place
from moye.sim.checks.footprint import Footprint, Reach, footprint
from moye.sim.checks.global_regions import CTA, scope_of
from moye.sim.checks.judge import LOADED, READ, WRITTEN, Judge, Tell
from moye.sim.checks.shared_records import (
    ENGINE,
    NEVER,
    SHOWN,
    SYNC,
    Clashes,
    Others,
    Recent,
    Shadow,
    epoch_of,
    kind_of,
    op_of,
    pack,
    thread_of,
)
from moye.sim.checks.signal_memory import strong
from moye.sim.checks.signals import Flags, Where


class Fences(Protocol):
    """The proxy fences of the shared checker."""

    def unfenced_for(self, shadow: Shadow, op: ops.AnyBulk, at: Footprint, owner: Ints) -> None: ...


class Units(Protocol):
    """The asynchronous units of the shared checker."""

    @property
    def proxies(self) -> Fences: ...
    def combined(self, record: Ints) -> Bools: ...
    def has_read_there(self, engine: int, group: Ints, rank: Ints, block: Ints) -> Ints: ...


class Memory(Protocol):
    """The shared checker."""

    threads: int
    blocks: int
    clocks: Clocks
    judge: Judge
    shadows: dict[int, Shadow]
    flags: Flags | None

    @property
    def engines(self) -> Units: ...
    def read(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None: ...
    def atomic(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None: ...
    def write(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, width: int, active: Bools | None) -> None: ...
    def everyone(self, active: Bools | None) -> Bools: ...
    def expand(self) -> None: ...
    def against(self, recent: Recent, at: Footprint) -> Clashes | None: ...
    def shadow(self, buffer: Buffer, width: int) -> Shadow: ...
    def align(self, shadow: Shadow, addresses: Ints, width: int) -> None: ...


@dataclass(slots=True)
class Arrival:
    """The last arrival by each block at an mbarrier of another, (rank of the one, column of the other): the thread and
    its epoch (0: none)."""

    op: ops.Op
    name: str
    thread: Ints
    epoch: Ints


class Peers:
    """Checks what the blocks of one batch do to the shared memory of others of their cluster."""

    def __init__(self, checker: Memory, func: Func) -> None:
        self.checker, self.size = checker, prod(func.cluster_dim)
        self.judge = checker.judge
        self.on = self.size > 1 and any(isinstance(op, ops.MapShared) or (
            isinstance(op, ops.MbarrierArrive) and op.rank is not None) for op in func.body.walk())
        """Whether blocks reach each other's memory or mbarriers at all."""
        self.arrivals: dict[tuple[int, int], Arrival] = {}
        """The arrivals of the phase under way, by mbarrier."""
        self.gone: Bools = np.zeros(checker.blocks, np.bool_)
        """The blocks that have ended."""
        self.scoped: Ints = np.zeros((checker.threads, checker.blocks), np.int64)
        """The epoch of each thread after its last block barrier or fence of block scope."""
        self.barrier: Ints = np.zeros((checker.threads, checker.blocks), np.int64)
        """The number of that barrier or fence."""

    # --- accesses ----------------------------------------------------------------------------------------------------

    def read(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, column: Ints, width: int,
             active: Bools | None) -> None:
        """``width`` bytes at each address are read."""
        own, there = self._parts(column, active)
        if own.any():
            self.checker.read(op, ref, addresses, width, own)
        if (found := self._find(op, ref, addresses, column, width, there, by_group=True)) is None:
            return
        shadow, others, reach = found
        number = self.judge.number(op)
        told = self._unwritten(shadow, op, reach) | self._after_own(shadow, op, reach, READ)
        told |= self._after_others(shadow, others, op, reach, READ)
        self._alive(shadow, op, reach, READ, told)
        others.read(reach, self.checker.clocks, number)

    def write(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, column: Ints, width: int,
              active: Bools | None) -> None:
        """``width`` bytes at each address are written."""
        own, there = self._parts(column, active)
        if own.any():
            self.checker.write(op, ref, addresses, width, own)
        if (found := self._find(op, ref, addresses, column, width, there, by_group=False)) is None:
            return
        shadow, others, reach = found
        if self.checker.flags is not None and (shadow.atomics is not None or others.atomics):
            self.checker.flags.cut(Where(self._place(ref), watched=False), self._in_rank(ref, addresses, column), there,
                                   width)
        number = self.judge.number(op)
        told = self._twice(shadow, op, reach) | self._after_own(shadow, op, reach, WRITTEN)
        told |= self._after_others(shadow, others, op, reach, WRITTEN)
        self._alive(shadow, op, reach, WRITTEN, told)
        others.written(reach, self.checker.clocks, number)
        unit, owner = reach.at.unit, reach.owner
        last = shadow.write[unit, owner]
        # The owner's own table only learns that the unit is set; who wrote it last is among the others' records.
        shadow.write[unit, owner] = np.where(last == 0, pack(np.zeros_like(last), number, SYNC, reach.at.first), last)
        if shadow.stale is not None:
            shadow.stale[unit, owner] = False
        if shadow.fences is not None:
            shadow.fences[unit, owner] = SHOWN          # what counts from here on is who wrote last

    def atomic(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, column: Ints, width: int,
               active: Bools | None) -> None:
        """A read-modify-write at each address; they do not race with one another, whichever blocks they are of."""
        own, there = self._parts(column, active)
        if own.any():
            self.checker.atomic(op, ref, addresses, width, own)
        self._synchronise(op, ref, addresses, column, there)
        if (found := self._find(op, ref, addresses, column, width, there, by_group=True)) is None:
            return
        shadow, others, reach = found
        told = self._unwritten(shadow, op, reach) | self._after_own(shadow, op, reach, WRITTEN)
        told |= self._after_others(shadow, others, op, reach, WRITTEN)
        self._alive(shadow, op, reach, WRITTEN, told)
        others.changed(reach, self.checker.clocks, self.checker.judge.number(op))
        if self.checker.flags is not None:
            self.checker.flags.done(op, there)

    def _synchronise(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, column: Ints, there: Bools) -> None:
        """What atomics tell the blocks that look at what they change, and learn of them."""
        if self.checker.flags is not None and there.any():
            place, watched = self._place(ref), self.checker.flags.traffic.watched(ref.buffer)
            self.checker.flags.access(op, Where(place, watched), self._in_rank(ref, addresses, column)[0], there,
                                      more=True)

    def _in_rank(self, ref: Ref | TileRef, addresses: Ints, column: Ints) -> Ints:
        """Addresses in the memory of all ranks, one behind the other."""
        return addresses + column % self.size * ref.buffer.root.bytes

    def _place(self, ref: Ref | TileRef) -> Callable[[int, int], Place]:
        """The place of such an address, for a thread of a block."""
        buffer = ref.buffer.root

        def place(block: int, byte: int) -> Place:
            rank, offset = divmod(byte, buffer.bytes)
            return block // self.size * self.size + rank, buffer.id, offset

        return place

    def local(self, shadow: Shadow, op: ops.Op, at: Footprint, verb: str) -> None:
        """A block accesses memory of its own that others of its cluster access too."""
        if self.on and _is_narrow(op):
            if shadow.narrow is None:
                shadow.narrow = Recent(shadow.units, self.checker.clocks)
            shadow.narrow.add(at, self.checker.clocks, self.judge.number(op))
        if shadow.others is None:
            return
        if at.block is None:
            at = at.across(np.arange(self.checker.clocks.columns))
        assert at.block is not None, "it has an entry for each block"
        self._after_others(shadow, shadow.others, op, Reach(at, at.block), verb)

    def _unwritten(self, shadow: Shadow, op: ops.Op, reach: Reach) -> bool:
        """Whether something is read that nobody has written, at all or since its owner has allocated it again."""
        never = shadow.write[reach.at.unit, reach.owner] == 0
        again = np.zeros_like(never) if shadow.stale is None else ~never & shadow.stale[reach.at.unit, reach.owner]
        told = False
        for bad, stale in ((never, False), (again, True)):
            if bad.any():
                part, told = reach.pick(bad), True
                self.judge.missing(shadow, op, self._meeting(part, np.zeros_like(part.owner), part.owner), stale)
        return told

    def _parts(self, column: Ints, active: Bools | None) -> tuple[Bools, Bools]:
        """The lanes (T, B) that reach memory of their own block, and those that reach another's."""
        shape = (self.checker.threads, self.checker.blocks)
        lanes = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
        own = np.broadcast_to(column.reshape(column.shape[-2:]) == np.arange(shape[1]), shape)
        return lanes & own, lanes & ~own

    def _find(self, op: ops.Op, ref: Ref | TileRef, addresses: Ints, column: Ints, width: int, lanes: Bools,
              by_group: bool) -> tuple[Shadow, Others, Reach] | None:
        """The owner's records and the entries: a unit of block ``rank`` is entered ``rank * units`` further on."""
        if not lanes.any():
            return None
        checker = self.checker
        checker.expand()
        shadow = checker.shadow(ref.buffer.root, width)
        checker.align(shadow, addresses, width)
        inside = (addresses >= 0) & (addresses <= shadow.buffer.bytes - width)
        # One footprint for all ranks at once: each block of the cluster gets its own range of units.
        moved = np.where(inside, addresses + column % self.size * (shadow.units * shadow.unit), -width)
        at = footprint(moved, width, lanes, shadow.unit, shadow.units * self.size, checker.clocks.group,
                       checker.clocks.groups, by_group)
        if at is None:
            return None
        if shadow.others is None:
            shadow.others = Others(shadow.units, checker.clocks)
        assert at.block is not None, "the blocks of a cluster are told apart"
        rank, unit = np.divmod(at.unit, shadow.units)
        owner = at.block // self.size * self.size + rank
        at = Footprint(unit, at.group, at.block, at.first, at.second, int(unit.min()), int(unit.max()))
        return shadow, shadow.others, Reach(at, owner)

    # --- order -------------------------------------------------------------------------------------------------------

    def _after_own(self, shadow: Shadow, op: ops.Op, reach: Reach, verb: str) -> bool:
        """Whether an access clashes with what the owner itself did; if it does, it is reported."""
        clocks, (unit, group, rank) = self.checker.clocks, (reach.at.unit, reach.at.group, reach.owner % self.size)
        last = shadow.write[unit, reach.owner]
        known = clocks.known_far(group, rank, clocks.group.take(thread_of(last), mode="clip"), reach.actor)
        units = (kind_of(last) == ENGINE) & (last != 0)
        if units.any():
            number = np.where(units, thread_of(last), 0)
            known = np.where(units, clocks.far_heard[group, rank, number, reach.actor], known)
        told = verb != READ and self._after_recent(op, shadow, reach, shadow.reads, reach.owner,
                                                   self.judge.after_read, verb)
        if verb != LOADED or not told:                  # who read it had waited for the write
            bad = epoch_of(last) > known
            if isinstance(op, ops.Atomic):
                bad &= ~self.checker.engines.combined(last)
            told |= self._after_write(shadow, op, reach, last, reach.owner, bad, verb)
        if shadow.atomics is not None and not _is_atomic(op):
            told |= self._after_recent(op, shadow, reach, shadow.atomics, reach.owner, self.judge.after_write, verb)
        if shadow.narrow is not None and _is_atomic(op):
            told |= self._after_recent(op, shadow, reach, shadow.narrow, reach.owner, self.judge.too_narrow, verb)
        if verb != READ:
            for engine, table in shadow.engines.items():
                record = table[unit, reach.owner]
                bad = epoch_of(record) > self.checker.engines.has_read_there(engine, group, rank, reach.actor)
                if bad.any():
                    told = True
                    met = self._meeting(reach.pick(bad), record[bad], reach.owner[bad])
                    self.judge.over_engine_there(shadow, op, met, verb)
        return told

    def _after_others(self, shadow: Shadow, others: Others, op: ops.Op, reach: Reach, verb: str) -> bool:
        """Whether an access clashes with what other blocks than the owner did."""
        clocks = self.checker.clocks
        last, rank = (x[reach.at.unit, reach.owner] for x in (others.write, others.writer))
        known = clocks.known_far(reach.at.group, rank, clocks.group.take(thread_of(last), mode="clip"), reach.actor)
        rival = reach.owner // self.size * self.size + rank
        told = self._after_write(shadow, op, reach, last, rival, epoch_of(last) > known, verb)
        for number, recent in others.reads.items() if verb != READ else ():
            rival = reach.owner // self.size * self.size + number
            told |= self._after_recent(op, shadow, reach, recent, rival, self.judge.after_read, verb)
        # Atomics of two blocks race where the scope of one leaves the other block out (not morally strong, PTX ISA).
        apart, narrow = not (_is_atomic(op) or ops.is_ordered(op)), _is_narrow(op)
        for number, recent in others.atomics.items() if narrow or apart else ():
            rival = reach.owner // self.size * self.size + number
            tell = self.judge.too_narrow if narrow else self.judge.after_write
            told |= self._after_recent(op, shadow, reach, recent, rival, tell, verb)
        return told

    def _after_write(self, shadow: Shadow, op: ops.Op, reach: Reach, last: Ints, rival: Ints, bad: Bools,
                     verb: str) -> bool:
        """Accesses that are not ordered after the last write, except by the thread itself."""
        if not bad.any():
            return False
        reach, last, rival = reach.pick(bad), last[bad], rival[bad]
        met = self._meeting(reach, last, rival)
        # Program order covers a thread's own write, unless an asynchronous unit makes it.
        same = (met.by == rival) & (met.actor == met.thread) & (met.kind == SYNC)
        if same.all():
            return False
        if (unguarded := self._unguarded(shadow, op, met.pick(~same))) is None:
            return False
        self.judge.after_write(shadow, op, unguarded, self._scope(unguarded), verb)
        return True

    def _after_recent(self, op: ops.Op, shadow: Shadow, reach: Reach, recent: Recent, rival: Ints, tell: Tell,
                      verb: str) -> bool:
        """Accesses that are not ordered after the newest of a kind by blocks ``rival``."""
        newest = recent.newest[reach.at.unit, :, reach.owner]
        known = self.checker.clocks.known_far_all(reach.at.group, rival % self.size, reach.actor)
        entry, group = np.nonzero(epoch_of(newest) > known)
        if not entry.size:
            return False
        record, part = newest[entry, group], reach.pick(entry)
        actor = np.where(part.at.first != thread_of(record), part.at.first, part.at.second)
        own = (actor == thread_of(record)) & (part.actor == rival[entry])       # then only another of its group clashes
        record = np.where(own, recent.other[part.at.unit, group, part.owner], record)
        keep = epoch_of(record) > known[entry, group]
        if not keep.any():
            return False
        met = self._unguarded(shadow, op, self._meeting(part.pick(keep), record[keep], rival[entry][keep]))
        if met is None:
            return False
        if verb != READ:
            recent.forget(met.unit, met.block)
        tell(shadow, op, met, self._scope(met), verb)
        return True

    def _unguarded(self, shadow: Shadow, op: ops.Op, met: Clashes) -> Clashes | None:
        """Those that no lock guards, in a run in which locks order nothing; in other runs all of them."""
        flags, clocks = self.checker.flags, self.checker.clocks
        if flags is None or flags.held is None:
            return met
        held = flags.held
        assert met.by is not None and met.rival is not None, "blocks of a cluster meet"
        if not held.certain(op) or held.is_lock(flags.traffic.key(shadow.buffer)):
            return None
        held.notice(flags.first, self.checker.blocks, clocks)
        keep: Bools = (met.record != 0) & (met.kind == SYNC)
        columns = np.stack([met.by, met.actor, met.rival, met.thread, epoch_of(met.record), op_of(met.record)], axis=1)
        for i in np.flatnonzero(keep).tolist():
            by, actor, block, thread, epoch, number = columns[i].tolist()
            rival, here = self.judge.ops[number], int(clocks.now[clocks.group[actor], by if clocks.columns > 1 else 0])
            keep[i] = rival is not None and held.certain(rival) and not held.apart(
                (flags.first + by, actor, here, id(op)), (flags.first + block, thread, epoch, id(rival)), lambda: None)
        return met.pick(keep) if keep.any() else None

    def _twice(self, shadow: Shadow, op: ops.Op, reach: Reach) -> bool:
        """Whether two threads write one unit in this statement, of one block or of two."""
        number, told = self.judge.number(op), False
        if self.checker.flags is not None and self.checker.flags.held is not None:
            return False                                # lanes of one statement hold no lock in turn
        if (several := np.flatnonzero(reach.at.first != reach.at.second)).size:
            part, told = reach.pick(several), True
            record = pack(np.zeros_like(several), number, SYNC, part.at.second)
            self.judge.together(shadow, op, self._meeting(part, record, part.actor))
        place = reach.owner * shadow.units + reach.at.unit
        order = np.argsort(place, kind="stable")
        again = np.flatnonzero(place[order][1:] == place[order][:-1])
        if again.size:
            first, part = reach.pick(order[again]), reach.pick(order[again + 1])
            record = pack(np.zeros_like(again), number, SYNC, first.at.first)
            self.judge.together(shadow, op, self._meeting(part, record, first.actor))
        return told or bool(again.size)

    def _meeting(self, reach: Reach, record: Ints, rival: Ints) -> Clashes:
        """The entries with the thread of each that is not the one of the record, if there is one."""
        own = (reach.at.first == thread_of(record)) & (reach.actor == rival)
        actor = np.where(own, reach.at.second, reach.at.first)
        return Clashes(reach.at.unit, reach.owner, record, actor, reach.actor, rival)

    def _scope(self, met: Clashes) -> Ints:
        """The block barrier that lies after the earlier access and was the last one of both threads, 0 for none."""
        number = self.barrier[met.thread, met.rival]
        between = (self.scoped[met.thread, met.rival] > epoch_of(met.record)) & (
            number == self.barrier[met.actor, met.by])
        return np.where(between, number, 0)

    # --- tensor copies for several blocks ----------------------------------------------------------------------------

    def clear(self, shadow: Shadow, at: Footprint) -> bool:
        """Whether a copy into these units of every block, by any block of its cluster, is ordered after all that was
        done there; blocks do not differ yet."""
        clocks, last, zero = self.checker.clocks, shadow.write[at.unit, 0], np.zeros_like(at.unit)
        if shadow.others is not None or shadow.atomics is not None:
            return False
        rank, units = np.ones_like(zero), (kind_of(last) == ENGINE) & (last != 0)
        group = clocks.group.take(thread_of(last), mode="clip")
        seen, far = clocks.seen[at.group, group, 0], clocks.known_far(at.group, rank, group, zero)
        if units.any():
            number = np.where(units, thread_of(last), 0)
            seen = np.where(units, clocks.heard[at.group, number, 0], seen)
            far = np.where(units, clocks.far_heard[at.group, 1, number, 0], far)
        seen = np.where(~units & (thread_of(last) == at.first), NEVER, seen)            # its own write, in its block
        late = epoch_of(last) > np.minimum(seen, far)
        if shadow.fences is not None:
            fence = shadow.fences[at.unit, 0]
            late |= (last != 0) & ~units & ((fence == 0) | (fence > np.minimum(seen, far)))
        reads = epoch_of(shadow.reads.newest[at.unit, :, 0])
        late |= (reads > clocks.known_far_all(at.group, rank, zero)).any(axis=1)
        for engine, table in shadow.engines.items():
            known = np.minimum(clocks.heard[at.group, engine, 0], clocks.far_heard[at.group, 1, engine, 0])
            late |= epoch_of(table[at.unit, 0]) > known
        return not late.any() and self.checker.against(shadow.reads, at) is None

    def loaded(self, shadow: Shadow, op: ops.AnyBulk, at: Footprint, issuer: Ints) -> None:
        """A tensor copy that threads of the blocks ``issuer`` have issued into these units of others."""
        if not len(at.unit):
            return
        assert at.block is not None, "the blocks of a cluster are told apart"
        reach = Reach(replace(at, block=issuer), at.block)
        if not self._after_own(shadow, op, reach, LOADED):
            self.checker.engines.proxies.unfenced_for(shadow, op, reach.at, reach.owner)
        if shadow.others is not None:
            self._after_others(shadow, shadow.others, op, reach, LOADED)

    def stored(self, shadow: Shadow, op: ops.AsyncStore, at: Footprint, issuer: Ints) -> None:
        """st.async and red.async that threads of the blocks ``issuer`` have issued into these units."""
        assert at.block is not None, "the blocks of a cluster are told apart"
        reach = Reach(replace(at, block=issuer), at.block)
        if op.by is None:
            self._twice(shadow, op, reach)
        else:
            self._unwritten(shadow, op, reach)
        reach = reach.pick(reach.actor != reach.owner)
        if not len(reach.at.unit):
            return
        self._after_own(shadow, op, reach, LOADED)
        if shadow.others is not None:
            self._after_others(shadow, shadow.others, op, reach, LOADED)

    # --- the life of blocks ------------------------------------------------------------------------------------------

    def _alive(self, shadow: Shadow, op: ops.Op, reach: Reach, verb: str, told: bool) -> None:
        """Report D18 if the owner may not have started, or has ended."""
        nothing = np.zeros_like(reach.at.unit)
        if (late := np.flatnonzero(self.gone[reach.owner])).size:
            self.judge.absent(shadow, op, self._meeting(reach.pick(late), nothing[late], reach.owner[late]), "-", verb)
        if told:
            return                                      # the barrier that is missing there will do here too
        far = self.checker.clocks.known_far_all(reach.at.group, reach.owner % self.size, reach.actor)
        # Epoch 1 is a block's start: whoever knows nothing of it has no barrier of the cluster behind it.
        if (early := np.flatnonzero(far.max(axis=1) == 0)).size:
            met = self._meeting(reach.pick(early), nothing[early], reach.owner[early])
            self.judge.absent(shadow, op, met, "early", verb)

    def arrived(self, op: ops.Op, ref: Ref, element: int, to: Ints) -> None:
        """Threads arrive at an mbarrier of the blocks of these ranks (T, B), -1 for none."""
        if self.checker.flags is not None:
            self.checker.flags.arrived((ref.buffer.id, element), to)
        clocks, key = self.checker.clocks, (ref.buffer.id, element)
        thread, block = np.nonzero(to >= 0)
        rank, owner = block % self.size, block // self.size * self.size + to[thread, block]
        if key not in self.arrivals:
            nothing = np.zeros((self.size, self.checker.blocks), np.int64)
            self.arrivals[key] = Arrival(op, f"{ref.buffer.name}({element})", nothing, nothing.copy())
        last = self.arrivals[key]
        last.op = op
        last.thread[rank, owner] = thread
        last.epoch[rank, owner] = clocks.now[clocks.group[thread], block if clocks.columns > 1 else 0]

    def _unmet(self, columns: Ints) -> None:
        """Report D18 for arrivals at mbarriers of these blocks that none of their threads has heard of.

        A barrier of the cluster with a relaxed arrival says that the other thread has come so far, and not that what it
        has sent on its way before has come (PTX ISA, barrier.cluster).
        """
        clocks = self.checker.clocks
        known = clocks.far.max(axis=0)
        for arrival in self.arrivals.values():
            for rank in range(self.size):
                column = columns if clocks.columns > 1 else np.zeros_like(columns)
                heard = known[rank, clocks.group[arrival.thread[rank, columns]], column]
                bad = arrival.epoch[rank, columns] > heard
                bad &= columns % self.size != rank
                if bad.any():
                    owner = int(columns[np.argmax(bad)])
                    facts = {"by": self.judge.block(owner // self.size * self.size + rank), "mbarrier": arrival.name}
                    self.judge.tell("D18", "arrival", [arrival.op], owner, (int(arrival.thread[rank, owner]),), facts,
                                    (arrival.name.partition("(")[0], None), int(bad.sum()))

    def left(self, gone: Bools) -> None:
        """Threads (T, B) have exited: report D18 if a block has ended and nothing orders its end after what others
        did."""
        ended = gone.all(axis=0) & ~self.gone
        if not ended.any():
            return
        self.gone |= ended
        self._unmet(np.flatnonzero(ended))
        for shadow in self.checker.shadows.values():
            if shadow.others is not None:
                for met, verb in self._unfinished(shadow, shadow.others, np.flatnonzero(ended)):
                    self.judge.ends(shadow, met, verb)

    def _unfinished(self, shadow: Shadow, others: Others, columns: Ints) -> Iterator[tuple[Clashes, str]]:
        """The accesses of others to the memory of these blocks that none of their threads knows to be done."""
        clocks = self.checker.clocks
        known = clocks.far.max(axis=0)                                                  # (R, G, columns)
        base = columns // self.size * self.size
        kept = [(others.reads, READ), (others.atomics, WRITTEN)]
        for rank, recent, verb in ((rank, recent, verb) for table, verb in kept for rank, recent in table.items()):
            unit, group, i = np.nonzero(epoch_of(recent.newest[:, :, columns]) > known[rank][:, columns])
            if unit.size:
                record = recent.newest[unit, group, columns[i]]
                yield Clashes(unit, columns[i], record, thread_of(record), base[i] + rank, columns[i]), verb
        record, writer = others.write[:, columns], others.writer[:, columns]
        group = clocks.group.take(thread_of(record), mode="clip")
        unit, i = np.nonzero(epoch_of(record) > known[writer, group, columns])
        if unit.size:
            record = record[unit, i]
            yield Clashes(unit, columns[i], record, thread_of(record), base[i] + writer[unit, i], columns[i]), WRITTEN

    # --- block barriers ----------------------------------------------------------------------------------------------

    def block_barrier(self, op: ops.Op, active: Bools | None) -> None:
        """Threads have passed a block barrier, or a fence of block scope."""
        who = np.broadcast_to(self.checker.everyone(active), self.scoped.shape)
        clocks = self.checker.clocks
        self.scoped = np.where(who, clocks.now[clocks.group], self.scoped)
        self.barrier = np.where(who, self.judge.number(op), self.barrier)


def _is_narrow(op: ops.Op) -> bool:
    """Whether an atomic or ordered access has a scope that ends at its block."""
    return strong(op) and scope_of(op) == CTA


def _is_atomic(op: ops.Op) -> bool:
    """Whether it changes what is there in one step, as atomics and red.async do."""
    return isinstance(op, ops.Atomic) or (isinstance(op, ops.AsyncStore) and op.by is not None)
