"""Register budgets of the warp groups of one batch: F6 where a block's are more than it starts with, C6 by a part.

In: each setmaxnreg that is executed.  Out: findings when the blocks are through, or stuck.

What follows from the thread's index alone is found while tracing (passes/register_budgets.py).
"""

from __future__ import annotations

import numpy as np

from moye.hardware import WARPGROUP
from moye.ir import ops
from moye.passes.register_budgets import advice, at_launch, exceeded
from moye.sim.findings.wording import Crowd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array


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
        self.last = np.where(lanes.reshape(-1, WARPGROUP, self.batch.blocks).any(axis=1), number, self.last)

    def finish(self) -> None:
        """The blocks are through."""
        watch, func = self.batch.watch, self.batch.launch.func
        if watch is None or not self.ops:
            return
        if self._by_parts():
            return
        each = at_launch(func)
        for column in np.unique(self.last, axis=1).T:
            found = {group: self.ops[number] for group, number in enumerate(column.tolist()) if number >= 0}
            if message := exceeded(func, found, each):
                block = int(np.flatnonzero((self.last == column[:, None]).all(axis=0))[0])
                most = max(found, key=lambda group: found[group].count)
                hint = advice(found, each)
                watch.tell("F6", "-", found[most], (most * WARPGROUP, block), message=message, advice=hint,
                           mend="none" if hint is None else "-")

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
