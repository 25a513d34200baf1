"""Register budgets of the warp groups of one batch: F6 where a block's are more than it starts with, go the wrong way,
change again before the warps have met, or are given back only after they are needed; C6 by a part.

In: each setmaxnreg that is executed.  Out: findings when the blocks are through, or stuck.

What follows from the thread's index alone is found while tracing (passes/register_budgets.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.passes.register_budgets import (
    MEET,
    WRONG_WAY,
    advice,
    at_launch,
    exceeded,
    name_of,
    other_way,
)
from moye.sim.findings.wording import Crowd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array


@dataclass(slots=True)
class _Wait:
    """A warp group that asks for registers in some blocks (C,), and waits for those that others give back."""

    op: ops.SetMaxRegisters
    group: int
    blocks: Array
    epoch: Array
    """Of each of its warps (4, C)."""
    others: Array
    """The least that each warp group keeps before it knows that these have them, (groups, C)."""


@dataclass(slots=True)
class _Fault:
    """A change that PTX does not allow in the case ``case``, and the words for it."""

    case: str
    op: ops.SetMaxRegisters
    where: tuple[int, int]
    """A thread, and the block of the batch."""
    count: int
    facts: dict[str, str | int]


class Budgets:
    """The last budget of each warp group, (groups, B): an index into ``ops``, -1 for none."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.ops: list[ops.SetMaxRegisters] = []
        self.last: Array = np.full((-(-self.batch.threads // WARPGROUP), self.batch.blocks), -1, np.int64)
        self.times: list[Array] = []
        """The number of times that each thread (T, B) has executed an op, by op."""
        self.waits: list[_Wait] = []
        shape = self.batch.threads // WARP, self.batch.blocks
        self.changes: Array = np.zeros(shape, np.int64)
        """How often each warp has changed its budget, and the epoch of the last time."""
        self.epochs: Array = np.zeros(shape, np.int64)
        self.faults: list[_Fault] = []

    def change(self, op: ops.SetMaxRegisters, mask: Mask) -> None:
        """The warp groups of the mask change their budget."""
        if mask is False:
            return
        if not any(known is op for known in self.ops):
            self.ops.append(op)
            self.times.append(np.zeros((self.batch.threads, self.batch.blocks), np.int64))
        number = next(i for i, known in enumerate(self.ops) if known is op)
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        self.times[number] += lanes
        groups = lanes.reshape(-1, WARPGROUP, self.batch.blocks)
        whole: Array = np.logical_and.reduce(groups, axis=1)
        if self.batch.watch is not None:
            self._judge(op, lanes, np.logical_or.reduce(groups, axis=1))
        self.last = np.where(groups.any(axis=1), number, self.last)
        if self.batch.watch is not None:
            for group in np.flatnonzero(whole.any(axis=1)).tolist():
                (self._take if op.kind == "inc" else self._give_back)(op, group, whole[group])

    def _judge(self, op: ops.SetMaxRegisters, lanes: Array, groups: Array) -> None:
        """Whether the change goes the right way, and comes after all warps of the group know of the last one."""
        each = self._each()[self.last]
        wrong = np.argwhere(groups & (op.count > each if op.kind == "dec" else op.count < each))
        if len(wrong):
            group, block = (int(i) for i in wrong[0])
            self._fault("turned", op, group, block, len(wrong), has=int(each[group, block]), ask=WRONG_WAY[op.kind],
                        advice=other_way(op))
        warps = lanes.reshape(-1, WARP, self.batch.blocks).any(axis=1)
        apart = np.argwhere(warps & self._apart())
        if len(apart):
            warp, block = (int(i) for i in apart[0])
            group = warp // (WARPGROUP // WARP)
            self._fault("again", op, group, block, len(apart), before=name_of(self.ops[self.last[group, block]]),
                        advice=MEET)
        self.changes += warps
        self.epochs = np.where(warps, self._now(), self.epochs)

    def _fault(self, case: str, op: ops.SetMaxRegisters, group: int, block: int, count: int,
               **facts: str | int) -> None:
        facts |= {"group": group, "name": name_of(op)}
        self.faults.append(_Fault(case, op, (group * WARPGROUP, block), count, facts))

    def _each(self) -> Array:
        """The registers of each op, and at launch."""
        return np.array([*(known.count for known in self.ops), at_launch(self.batch.launch.func)])

    def _apart(self) -> Array:
        """The warps (W, B) that do not know that all of their group have changed the budget as often as they have."""
        assert self.batch.watch is not None, "the run is checked"
        clocks, size = self.batch.watch.checker.clocks, WARPGROUP // WARP
        found: Array = np.zeros(self.changes.shape, np.bool_)
        group = clocks.group[::WARP]
        for warp in np.flatnonzero(self.changes.any(axis=1)).tolist():
            for other in range(warp // size * size, warp // size * size + size):
                # One that is ahead has been judged by what it knew of this one.
                behind = self.changes[other] < self.changes[warp]
                unheard = clocks.seen[group[warp], group[other]] < self.epochs[other]
                level = self.changes[other] == self.changes[warp]
                found[warp] |= (self.changes[warp] > 0) & (behind | (level & unheard)) & (other != warp)
        return found

    def _now(self) -> Array:
        """The epoch of each warp (W, C)."""
        assert self.batch.watch is not None, "the run is checked"
        clocks = self.batch.watch.checker.clocks
        now: Array = clocks.now[clocks.group[::WARP]]
        return now

    def _take(self, op: ops.SetMaxRegisters, group: int, blocks: Array) -> None:
        """A warp group waits until there are as many registers."""
        assert self.batch.watch is not None, "the run is checked"
        clocks = self.batch.watch.checker.clocks
        self.waits.append(_Wait(op, group, blocks, np.broadcast_to(clocks.now[self._warps(group)],
                                                                   (WARPGROUP // WARP, len(blocks))),
                                self._each()[self.last]))

    def _give_back(self, op: ops.SetMaxRegisters, group: int, blocks: Array) -> None:
        """A warp group gives registers back: to those of which it does not know yet that they have them."""
        assert self.batch.watch is not None, "the run is checked"
        seen = self.batch.watch.checker.clocks.seen[self._warps(group)]
        for wait in self.waits:
            # All of its warps know that all of the others have gone on: none can have given back anything before.
            after = (seen[:, self._warps(wait.group)] >= wait.epoch).all(axis=(0, 1))
            fewer = blocks & ~after & (wait.group != group)
            wait.others[group] = np.where(fewer, np.minimum(wait.others[group], op.count), wait.others[group])

    def _warps(self, group: int) -> Array:
        """The groups of threads of the clocks that the warps of a warp group are in."""
        assert self.batch.watch is not None, "the run is checked"
        found: Array = self.batch.watch.checker.clocks.group[group * WARPGROUP:(group + 1) * WARPGROUP:WARP]
        return found

    def _too_late(self) -> None:
        """F6: there are enough registers, but some are given back only by who waits for the one that asks."""
        watch, func = self.batch.watch, self.batch.launch.func
        for wait in self.waits:
            left = at_launch(func) * len(wait.others) - np.delete(wait.others, wait.group, axis=0).sum(axis=0)
            bad = np.flatnonzero(wait.blocks & (left < wait.op.count))
            if watch is not None and bad.size:
                watch.tell("F6", "late", wait.op, (wait.group * WARPGROUP, int(bad[0])), len(bad), group=wait.group,
                           wanted=wait.op.count, left=int(left[bad[0]]))
                return

    def finish(self) -> None:
        """The blocks are through."""
        watch, func = self.batch.watch, self.batch.launch.func
        if watch is None or not self.ops:
            return
        if self._by_parts():
            return
        for fault in self.faults[:1]:                   # others may follow from it
            watch.tell("F6", fault.case, fault.op, fault.where, fault.count, **fault.facts)
        if self.faults:
            return
        each, told = at_launch(func), False
        for column in np.unique(self.last, axis=1).T:
            found = {group: self.ops[number] for group, number in enumerate(column.tolist()) if number >= 0}
            if message := exceeded(func, found, each):
                block = int(np.flatnonzero((self.last == column[:, None]).all(axis=0))[0])
                most = max(found, key=lambda group: found[group].count)
                hint = advice(found, each)
                watch.tell("F6", "-", found[most], (most * WARPGROUP, block), message=message, advice=hint,
                           mend="none" if hint is None else "-")
                told = True
        if not told:
            self._too_late()

    def _by_parts(self) -> bool:
        """C6: a budget that only some of a warp group's threads have changed; whether it is told."""
        watch, told = self.batch.watch, False
        for op, times in zip(self.ops, self.times, strict=True):
            groups = times.reshape(-1, WARPGROUP, self.batch.blocks)
            odd = np.argwhere(groups.min(axis=1) != groups.max(axis=1))
            if watch is None or not len(odd):
                continue
            group, block = (int(i) for i in odd[0])
            mine = groups[group, :, block]
            here = [group * WARPGROUP + int(t) for t in np.flatnonzero(mine == mine.max())]
            watch.tell("C6", "budget", op, (here[0], block), len(odd), here=Crowd(here, self.batch.threads),
                       name="warpgroup_reg_alloc" if op.kind == "inc" else "warpgroup_reg_dealloc", registers=op.count,
                       first=group * WARPGROUP, last=group * WARPGROUP + WARPGROUP - 1, often=mine.min() > 0)
            told = True
        return told
