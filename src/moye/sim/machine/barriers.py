"""The barriers of all kinds and the warp-wide operations of one batch of blocks: which lanes wait for which.

In: groups of lanes that arrive at a blocking op.  Out: groups that may go on (``batch.ready``), and findings: C4, C5,
C6, F4 if lanes wait for something that cannot come (waiters.py tells which lanes wait for what).

The common case, all threads of all blocks at once, never gets here: see Batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.ir import ops
from moye.ir.traits import Trait
from moye.sim.findings.deadlock import Deadlock, Waiter
from moye.sim.findings.finding import Finding
from moye.sim.findings.wording import Crowd
from moye.sim.flow.groups import Group
from moye.sim.machine.meetings import Meetings, named_by
from moye.sim.machine.waiters import numbers, span_of, waiters
from moye.sim.machine.warp_arrivals import Arrived, WarpArrivals, on_their_way
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import lanes_of
from moye.sim.values.memory import Array

_LAST_BARRIER = 15

@dataclass(slots=True)
class Waiting:
    """Lanes (T, B) at a blocking op; ``group`` says where they go on."""

    op: ops.Op
    group: Group
    lanes: Array
    barrier: int = -1
    element: Array | None = None
    """The barrier of an mbarrier tensor that each lane waits for, (T, B)."""
    parity: Array | None = None
    """The parity of the phase that each lane waits for, (T, B)."""


class Barriers:
    """The waiting lanes of one batch."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.meetings = Meetings(batch)
        self.arrivals = WarpArrivals(batch)
        self.reset()

    def reset(self) -> None:
        self.waiting: list[Waiting] = []
        self.counts: dict[int, Array] = {}              # arrivals per block at each named barrier
        self.expected: dict[int, int] = {}
        self.came: dict[int, Array] = {}
        self.last: dict[int, ops.NamedBarrier] = {}     # the op of the last arrival
        self.alone: dict[int, tuple[ops.NamedBarrier, Array]] = {}  # who arrived where it opened and nobody waited
        self.meetings.reset()
        self.arrivals.reset()

    @property
    def holds(self) -> bool:
        """Whether somebody waits."""
        return bool(self.waiting or self.arrivals.coming)

    # --- arrival -----------------------------------------------------------------------------------------------------

    def arrive(self, op: ops.Op, group: Group, payload: Any) -> None:
        """The lanes of a group reach ``op``; they become ready when it lets them through."""
        batch = self.batch
        lanes = lanes_of(group.mask, batch.threads, batch.blocks).copy()
        if isinstance(op, ops.NamedBarrier):
            self._named(op, group, lanes, payload)
            return
        if isinstance(op, ops.ClusterWait):
            batch.cluster.comes(op, lanes)
        for other in self.waiting:
            if other.op is op and batch.merge(other.group, group):
                other.lanes = lanes_of(other.group.mask, batch.threads, batch.blocks).copy()
                break
        else:
            self.waiting.append(Waiting(op, group, lanes))
        self.resolve()

    def resolve(self) -> None:
        """Let go whoever need not wait any longer: after an arrival, and after threads have exited."""
        self._arrive(lambda _, missing: missing)
        self._block_barrier()
        for entry in list(self.waiting):
            if Trait.MEETS_WARP in entry.op.traits:
                self._warp(entry)
            elif isinstance(entry.op, ops.MbarrierWait):
                self._phase(entry.op, entry)
            elif isinstance(entry.op, ops.ClusterWait) and (free := self.batch.cluster.passed(entry.lanes)).any():
                self.batch.cluster.leave(entry.op, free)
                self._release(entry, free)

    # --- mbarriers ---------------------------------------------------------------------------------------------------

    def await_phase(self, op: ops.MbarrierWait, group: Group, payload: tuple[Any, Any], after: int) -> bool:
        """The lanes of a group wait for a phase; whether all of them go on at once."""
        batch = self.batch
        shape = (batch.threads, batch.blocks)
        lanes = lanes_of(group.mask, *shape)
        batch.mbarriers.parities(op, lanes, np.asarray(payload[0]), np.asarray(payload[1]))
        last = (op.ref.buffer.elements or 1) - 1
        element: Array = np.clip(np.broadcast_to(np.asarray(payload[0]), shape), 0, last)
        parity: Array = np.broadcast_to(np.asarray(payload[1]), shape)
        free = lanes & batch.mbarriers.passed(op, element, parity)
        if free.any():
            batch.mbarriers.passes(op, element, free)
        rest = lanes & ~free
        if not rest.any():
            return True
        if free.any():
            batch.ready.append(Group(after, list(group.env), batch.normal(free)))
        group.pc, group.mask = after, rest
        for other in self.waiting:
            if other.op is op and other.element is not None and batch.merge(other.group, group):
                other.lanes = lanes_of(other.group.mask, *shape).copy()
                other.element = np.where(rest, element, other.element)
                other.parity = np.where(rest, parity, other.parity)     # type: ignore[arg-type]
                return False
        self.waiting.append(Waiting(op, group, rest, element=element, parity=parity))
        return False

    def _phase(self, op: ops.MbarrierWait, entry: Waiting) -> None:
        assert entry.element is not None and entry.parity is not None, "it waits for a phase"
        free = entry.lanes & self.batch.mbarriers.passed(op, entry.element, entry.parity)
        if free.any():
            self.batch.mbarriers.passes(op, entry.element, free)
            self._release(entry, free)

    def _release(self, entry: Waiting, lanes: Array) -> None:
        """These lanes of an entry go on."""
        batch = self.batch
        left = entry.lanes & ~lanes
        keep = bool(left.any())
        env = list(entry.group.env) if keep else entry.group.env
        batch.ready.append(Group(entry.group.pc, env, batch.normal(entry.lanes & lanes)))
        if keep:
            entry.lanes = left
            entry.group.mask = left
        else:
            self.waiting.remove(entry)

    # --- bar.sync 0 --------------------------------------------------------------------------------------------------

    def _block_barrier(self) -> None:
        entries = [entry for entry in self.waiting if isinstance(entry.op, ops.SyncThreads)]
        if not entries:
            return
        if any(isinstance(entry.op, ops.GridSync) for entry in entries):
            self._grid_barrier(entries)
            entries = [entry for entry in self.waiting if type(entry.op) is ops.SyncThreads]
            if not entries:
                return
        arrived = np.logical_or.reduce([entry.lanes for entry in entries])
        gone = self.batch.gone()
        # barrier.sync 0 waits for the threads that have not exited.
        complete = (arrived | gone).all(axis=0) & arrived.any(axis=0)
        if not complete.any():
            return
        released = arrived & complete
        self.meetings.block(entries, complete)
        if self.batch.watch is not None:
            self.batch.watch.checker.barrier(entries[0].op, None if released.all() else released)
        for entry in entries:
            if (lanes := entry.lanes & complete).any():
                self._release(entry, lanes)

    def _grid_barrier(self, entries: list[Waiting]) -> None:
        """All threads of all blocks come to it: it does without nobody, not even those that have exited."""
        if not all(isinstance(entry.op, ops.GridSync) for entry in entries) or \
                not np.logical_or.reduce([entry.lanes for entry in entries]).all():
            return
        self.meetings.block(entries, np.ones(self.batch.blocks, np.bool_))
        if self.batch.watch is not None:
            self.batch.watch.globals.meet()
            self.batch.watch.checker.barrier(entries[0].op, None)
        for entry in entries:
            self._release(entry, entry.lanes)

    # --- named barriers ----------------------------------------------------------------------------------------------

    def _named(self, op: ops.NamedBarrier, group: Group, lanes: Array, payload: Any) -> None:
        numbers = np.broadcast_to(np.asarray(payload), lanes.shape)
        for number in np.unique(numbers[lanes]).tolist():
            part = lanes & (numbers == number)
            if op.kind == "arrive":
                self.arrivals.come(op, group, part, number)
                continue
            self._count(op, number, part)
            self.meetings.arrives(op, number, part)
            mine = Group(group.pc, list(group.env), part)
            self.waiting.append(Waiting(op, mine, part, number))
            self._complete(op, number)
        if op.kind == "arrive":
            self._arrive(lambda _, missing: missing)

    def _arrive(self, missing: Callable[[ops.Op, Array], Array]) -> bool:
        """Whole warps arrive, but for those of whom ``missing`` says that nobody waits for them; whether any do."""
        arrived = list(self.arrivals.go(missing))
        for one in arrived:
            self._arrived(one)
        return bool(arrived)

    def _arrived(self, one: Arrived) -> None:
        self._count(one.op, one.number, one.lanes)
        self.meetings.arrives(one.op, one.number, one.lanes)
        if self.batch.watch is not None:
            # An arrival that does not wait counts at once: what its thread does after it is not ordered by the barrier.
            self.batch.watch.checker.named_barrier(one.op, one.number, one.lanes, np.zeros_like(one.lanes))
            self.batch.watch.checker.engines.met(one.lanes)
        self.batch.ready += one.groups
        self._complete(one.op, one.number)

    def arrive_in_parts(self) -> bool:
        """Nobody else moves: lanes that others of their warp have gone past arrive without these; whether any do."""
        if not self.arrivals.coming:
            return False
        shape = self.batch.threads, self.batch.blocks
        parked: list[tuple[ops.Op, Array]] = [(entry.op, entry.lanes) for entry in self.waiting]
        parked += [(entry.op, entry.lanes) for entry in self.arrivals.coming]
        looking = [lanes_of(group.mask, *shape) for group in self.batch.spinning]
        polling: Array = np.logical_or.reduce([np.zeros(shape, np.bool_), *looking])
        return self._arrive(lambda op, missing: missing & (
            polling | on_their_way(self.batch.launch.func, op, parked)))

    def _count(self, op: ops.NamedBarrier, number: int, part: Array) -> None:
        count = self.counts.setdefault(number, np.zeros(self.batch.blocks, np.int64))
        came = self.came.setdefault(number, np.zeros_like(part))
        before = self.last.setdefault(number, op)
        if not 0 <= number <= _LAST_BARRIER:
            self._wrong(op, part, "number", number=number, last=_LAST_BARRIER)
        expected = self.expected.setdefault(number, op.threads)
        if expected != op.threads:
            if (count > 0).any():
                self._wrong(op, part, "counts", before, number=number, wanted=op.threads, expected=expected)
            self.expected[number] = op.threads
        self.last[number] = op
        count += part.sum(axis=0)
        came |= part
        if (over := count > op.threads).any():
            self._wrong(op, came & over, "many", before, number=number, came=int(count[over][0]), expected=op.threads)

    def _wrong(self, op: ops.NamedBarrier, lanes: Array, case: str, before: ops.NamedBarrier | None = None,
               **facts: int) -> None:
        """C5, told of the first block with such lanes."""
        block = int(np.argmax(lanes.any(axis=0)))
        threads = numbers(lanes[:, block])
        self._tell("C5", case, [None if before is op else before, op], block, threads[:1], mend="wrong", before=before,
                   here=Crowd(threads, self.batch.threads), **facts)

    def _complete(self, op: ops.NamedBarrier, number: int) -> None:
        count = self.counts[number]
        # The hardware counts whole warps, so lanes that do not exist or have returned count with theirs.
        complete = (count > 0) & (count + self.meetings.lent(number) >= self.expected[number])
        if not complete.any():
            return
        self.meetings.opens(number, complete)
        came = self.came[number] & complete
        entries = [e for e in self.waiting if e.barrier == number and (e.lanes & complete).any()]
        if self.batch.watch is not None:
            freed = np.logical_or.reduce([e.lanes & complete for e in entries]) if entries else np.zeros_like(came)
            # Those that did not wait have been told of when they arrived.
            self.batch.watch.checker.named_barrier(op, number, came & freed, freed)
            if (alone := came & ~freed.any(axis=0)).any():
                self.batch.watch.checker.named_alone(op, number, alone)
                self.alone.setdefault(number, (op, alone))
        count[complete] = 0
        self.came[number] &= ~complete
        for entry in entries:
            self._release(entry, entry.lanes & complete)

    # --- warps -------------------------------------------------------------------------------------------------------

    def _warp(self, entry: Waiting) -> None:
        batch = self.batch
        needed = self.named_by(entry.op)[:, None]
        there = entry.lanes
        if isinstance(entry.op, ops.SyncWarp):
            # bar.warp.sync matches lanes by their masks, not by where it stands: lanes at other lines count.
            there = np.logical_or.reduce([e.lanes for e in self.waiting if isinstance(e.op, ops.SyncWarp)])
        missing = needed & ~batch.gone() & ~there
        warp = np.arange(batch.threads) // span_of(entry.op)
        lacking = np.zeros((int(warp[-1]) + 1, batch.blocks), np.bool_)
        np.logical_or.at(lacking, warp, missing)
        lanes = entry.lanes & ~lacking[warp]
        if not lanes.any():
            return
        if isinstance(entry.op, ops.SyncWarp):
            self._sync_warps(entry.op, ~lacking[warp] & there)
        else:
            self.meetings.warp(entry.op, lanes)
            if batch.watch is not None:
                batch.watch.checker.engines.met(lanes, span_of(entry.op))
            self._release(entry, lanes)

    def named_by(self, op: ops.Op) -> Array:
        """The threads whose lane the mask of a warp operation names."""
        return named_by(op, self.batch.threads)

    def _sync_warps(self, op: ops.SyncWarp, lanes: Array) -> None:
        self.meetings.warp(op, lanes)
        self.meetings.masks([entry for entry in self.waiting if isinstance(entry.op, ops.SyncWarp)], lanes)
        if self.batch.watch is not None:
            self.batch.watch.checker.warp_sync(op, op.mask, lanes)
        for entry in list(self.waiting):
            if isinstance(entry.op, ops.SyncWarp) and (part := entry.lanes & lanes).any():
                self._release(entry, part)

    # --- nobody moves ------------------------------------------------------------------------------------------------

    def deadlock(self) -> None:
        """Report what each group waits for, and give the blocks up."""
        if self._follows():
            self.waiting.clear()
            return
        blocked = np.logical_or.reduce([entry.lanes for entry in self.waiting]).any(axis=0)
        size, first = self.batch.cluster.size, int(np.argmax(blocked))
        every = [self._dead(block) for block in range(first, (first // size + 1) * size) if blocked[block]]
        # Of the blocks of a cluster, one that waits for nothing of the others says more about the cause.
        dead = min(every, key=lambda one: (one.late, one.owed))
        threads = tuple(waiter.threads[0] for waiter in dead.told)
        self.batch.launch.reporter.add(Finding(dead.code, str(dead), dead.locs, dead.block, threads, "", None,
                                               dead.hint), fatal=True)
        self.waiting.clear()
        self.arrivals.reset()

    def finish(self) -> None:
        """All threads have ended: tell of arrivals at named barriers that nobody waited for."""
        for number, count in self.counts.items():
            if (count > 0).any():
                self._unheard("left", number, self.last[number], self.came[number] & (count > 0),
                              came=int(count[count > 0][0]), expected=self.expected[number])
            elif number in self.alone:
                self._unheard("opened", number, *self.alone[number])

    def _unheard(self, case: str, number: int, op: ops.NamedBarrier, lanes: Array, **facts: int) -> None:
        block = int(np.argmax(lanes.any(axis=0)))
        threads = numbers(lanes[:, block])
        self._tell("C5", case, [op], block, threads[:1], number=number, lint=True,
                   here=Crowd(threads, self.batch.threads), **facts)

    def _dead(self, block: int) -> Deadlock:
        entries = [entry for entry in self.waiting if entry.lanes[:, block].any()]
        told = [waiter for entry in entries for waiter in waiters(self, entry, block)]
        told += [Waiter("warp", "barrier_arrive", numbers(entry.lanes[:, block]), entry.op, numbers(lacking[:, block]))
                 for entry, lacking in self.arrivals.lacking() if entry.lanes[:, block].any()]
        return Deadlock(self._block(block), self.batch.threads, tuple(told), self.batch.exits(block))

    def _follows(self) -> bool:
        """Whether somebody waits for an mbarrier whose use has been told to be wrong: the deadlock follows from
        that."""
        if self.batch.watch is None or not self.batch.launch.reporter.findings:
            return False
        broken = self.batch.watch.checker.engines.stages.broken
        return any(isinstance(entry.op, ops.MbarrierWait) and entry.op.ref.buffer.id in broken
                   for entry in self.waiting)

    def waits(self, entry: Waiting, block: int) -> str:
        """What the lanes of an entry in one block wait for, in words."""
        dead = Deadlock(self._block(block), self.batch.threads, ())
        return "; ".join(dead.sentence(waiter) for waiter in waiters(self, entry, block))

    def _block(self, block: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.batch.block_ids[block])

    def _tell(self, code: str, case: str, points: Sequence[ops.Op | None], block: int, threads: tuple[int, ...],
              **facts: Any) -> None:
        if self.batch.watch is not None:
            self.batch.launch.reporter.tell(code, case, points, block=self._block(block), threads=threads, **facts)
