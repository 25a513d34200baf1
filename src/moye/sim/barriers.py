"""Who waits for whom: block barriers, named barriers and warp-wide operations of one batch of blocks.

In: groups of lanes that arrive at a blocking op.  Out: groups that may go on (``batch.ready``), and findings: C4, C5,
C6, F4 where lanes wait for something that cannot come.

The common case, all threads of all blocks at once, never gets here: see Batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.ir import ops
from moye.sim.checkers.findings import Finding
from moye.sim.groups import Group
from moye.sim.masks import lanes_of
from moye.sim.memory import Array
from moye.sim.state import BatchState
from moye.sim.warp import WARP


@dataclass(slots=True)
class Waiting:
    """Lanes (T, B) at a blocking op; ``group`` says where they go on."""

    op: ops.Op
    group: Group
    lanes: Array
    barrier: int = -1


class Barriers:
    """The waiting lanes of one batch."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.waiting: list[Waiting] = []
        self.counts: dict[int, Array] = {}              # arrivals per block at each named barrier
        self.expected: dict[int, int] = {}
        self.came: dict[int, Array] = {}

    # --- arrival -----------------------------------------------------------------------------------------------------

    def arrive(self, op: ops.Op, group: Group, payload: Any) -> None:
        """The lanes of a group reach ``op``; they become ready when it lets them through."""
        batch = self.batch
        lanes = lanes_of(group.mask, batch.threads, batch.blocks).copy()
        if isinstance(op, ops.NamedBarrier):
            self._named(op, group, lanes, payload)
            return
        for other in self.waiting:
            if other.op is op and batch.merge(other.group, group):
                other.lanes = lanes_of(other.group.mask, batch.threads, batch.blocks).copy()
                break
        else:
            self.waiting.append(Waiting(op, group, lanes))
        self.resolve()

    def resolve(self) -> None:
        """Let go whoever need not wait any longer: after an arrival, and after threads have exited."""
        self._block_barrier()
        for entry in list(self.waiting):
            if isinstance(entry.op, (ops.SyncWarp, ops.Shuffle, ops.Vote)):
                self._warp(entry)

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
        arrived = np.logical_or.reduce([entry.lanes for entry in entries])
        gone = self.batch.gone()
        complete = (arrived | gone).all(axis=0) & arrived.any(axis=0)
        if not complete.any():
            return
        released = arrived & complete
        self._one_point(entries, complete)
        if self.batch.watch is not None:
            self.batch.watch.checker.barrier(entries[0].op, None if released.all() else released)
        for entry in entries:
            if (lanes := entry.lanes & complete).any():
                self._release(entry, lanes)

    def _one_point(self, entries: list[Waiting], complete: Array) -> None:
        """C4 where the threads of one block have reached different barriers."""
        points = list({id(entry.op): entry.op for entry in entries}.values())
        if self.batch.watch is None or len(points) < 2:
            return
        here = np.array([np.logical_or.reduce([e.lanes for e in entries if e.op is op]).any(axis=0) for op in points])
        bad = np.flatnonzero((here.sum(axis=0) > 1) & complete)
        if len(bad):
            block = int(bad[0])
            met = [op for op, there in zip(points, here[:, block], strict=True) if there]
            threads = tuple(int(np.argmax(np.logical_or.reduce([e.lanes for e in entries if e.op is op])[:, block]))
                            for op in met)
            self._report("C4", f"the threads of block {self._block(block)} meet at different sync_threads: thread "
                         f"{threads[0]} at one, thread {threads[1]} at another", met, block, threads,
                         "move sync_threads out of the condition")

    # --- named barriers ----------------------------------------------------------------------------------------------

    def _named(self, op: ops.NamedBarrier, group: Group, lanes: Array, payload: Any) -> None:
        numbers = np.broadcast_to(np.asarray(payload), lanes.shape)
        for number in np.unique(numbers[lanes]).tolist():
            part = lanes & (numbers == number)
            self._count(op, number, part)
            if op.kind == "sync":
                mine = Group(group.pc, list(group.env), part)
                self.waiting.append(Waiting(op, mine, part, number))
            else:
                if self.batch.watch is not None:
                    self.batch.watch.checker.named_barrier(op, number, part, np.zeros_like(part))
                self.batch.ready.append(Group(group.pc, list(group.env), self.batch.normal(part)))
            self._complete(op, number)

    def _count(self, op: ops.NamedBarrier, number: int, part: Array) -> None:
        count = self.counts.setdefault(number, np.zeros(self.batch.blocks, np.int64))
        came = self.came.setdefault(number, np.zeros_like(part))
        expected = self.expected.setdefault(number, op.threads)
        pending = count > 0
        if expected != op.threads:
            if pending.any():
                self._wrong_count(op, number, f"{op.threads} threads are named here, {expected} by those before")
            self.expected[number] = op.threads
        count += part.sum(axis=0)
        came |= part
        if (over := count > op.threads).any():
            self._wrong_count(op, number, f"{int(count[over][0])} threads arrive, but it is for {op.threads}")

    def _wrong_count(self, op: ops.NamedBarrier, number: int, why: str) -> None:
        self._report("C5", f"named barrier {number}: {why}", [op], None, (), None)

    def _complete(self, op: ops.NamedBarrier, number: int) -> None:
        count = self.counts[number]
        complete = count >= self.expected[number]
        if not complete.any():
            return
        came = self.came[number] & complete
        entries = [e for e in self.waiting if e.barrier == number and (e.lanes & complete).any()]
        if self.batch.watch is not None:
            freed = np.logical_or.reduce([e.lanes & complete for e in entries]) if entries else np.zeros_like(came)
            self.batch.watch.checker.named_barrier(op, number, came & freed, freed)
        count[complete] = 0
        self.came[number] &= ~complete
        for entry in entries:
            self._release(entry, entry.lanes & complete)

    # --- warps -------------------------------------------------------------------------------------------------------

    def _warp(self, entry: Waiting) -> None:
        batch = self.batch
        bits: int = entry.op.mask  # type: ignore[attr-defined]
        needed = (bits >> (np.arange(batch.threads) % WARP) & 1).astype(np.bool_)[:, None]
        there = entry.lanes
        if isinstance(entry.op, ops.SyncWarp):
            there = np.logical_or.reduce([e.lanes for e in self.waiting if isinstance(e.op, ops.SyncWarp)])
        missing = needed & ~batch.gone() & ~there
        warp = np.arange(batch.threads) // WARP
        lacking = np.zeros((int(warp[-1]) + 1, batch.blocks), np.bool_)
        np.logical_or.at(lacking, warp, missing)
        lanes = entry.lanes & ~lacking[warp]
        if not lanes.any():
            return
        if isinstance(entry.op, ops.SyncWarp):
            self._sync_warps(entry.op, ~lacking[warp] & there)
        else:
            self._release(entry, lanes)

    def _sync_warps(self, op: ops.SyncWarp, lanes: Array) -> None:
        if self.batch.watch is not None:
            self.batch.watch.checker.warp_sync(op, op.mask, lanes)
        for entry in list(self.waiting):
            if isinstance(entry.op, ops.SyncWarp) and (part := entry.lanes & lanes).any():
                self._release(entry, part)

    # --- nobody moves ------------------------------------------------------------------------------------------------

    def deadlock(self) -> None:
        """Report what each group waits for, and give the blocks up."""
        reporter = self.batch.launch.reporter
        blocked = np.logical_or.reduce([entry.lanes for entry in self.waiting]).any(axis=0)
        block = int(np.argmax(blocked))
        entries = [entry for entry in self.waiting if entry.lanes[:, block].any()]
        points = list({id(entry.op): entry.op for entry in entries}.values())
        threads = tuple(int(np.argmax(entry.lanes[:, block])) for entry in entries)
        waits = "; ".join(self.waits(entry, block) for entry in entries)
        reporter.add(Finding(self._deadlock_code(entries), f"block {self._block(block)} is deadlocked: {waits}",
                             tuple(op.loc for op in points), self._block(block), threads, "", None, None),
                     fatal=True)
        self.waiting.clear()

    @staticmethod
    def _deadlock_code(entries: list[Waiting]) -> str:
        if any(isinstance(entry.op, ops.SyncThreads) for entry in entries):
            return "C4"
        numbers = {entry.barrier for entry in entries if isinstance(entry.op, ops.NamedBarrier)}
        return "C6" if not numbers else "C5" if len(numbers) == 1 else "F4"

    def waits(self, entry: Waiting, block: int) -> str:
        threads = np.flatnonzero(entry.lanes[:, block])
        who = f"{len(threads)} threads ({threads[0]}..{threads[-1]})"
        if isinstance(entry.op, ops.NamedBarrier):
            return (f"{who} wait at named barrier {entry.barrier}, where {int(self.counts[entry.barrier][block])} of "
                    f"{entry.op.threads} have arrived")
        name = {"SyncThreads": "sync_threads", "SyncWarp": "sync_warp"}.get(type(entry.op).__name__, "a warp operation")
        return f"{who} wait at {name}"

    def _block(self, block: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.batch.block_ids[block])

    def _report(self, code: str, message: str, points: list[ops.Op], block: int | None, threads: tuple[int, ...],
                hint: str | None) -> None:
        if self.batch.watch is not None:
            self.batch.launch.reporter.add(Finding(code, message, tuple(op.loc for op in points),
                                                   None if block is None else self._block(block), threads, "", None,
                                                   hint))
