"""Register budgets of the warp groups of one batch: F6 where a block's are more than it starts with.

In: each setmaxnreg that is executed.  Out: findings when the blocks are through, or stuck.

What follows from the thread's index alone is found while tracing (passes/registers.py).
"""

from __future__ import annotations

import numpy as np

from moye.ir import ops
from moye.passes.registers import WARPGROUP, advice, at_launch, exceeded
from moye.sim.masks import Mask, lanes_of
from moye.sim.memory import Array
from moye.sim.state import BatchState


class Budgets:
    """The last budget of each warp group, (groups, B): an index into ``ops``, -1 for none."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.ops: list[ops.SetMaxRegisters] = []
        self.last: Array = np.full((-(-self.batch.threads // WARPGROUP), self.batch.blocks), -1, np.int64)

    def change(self, op: ops.SetMaxRegisters, mask: Mask) -> None:
        """The warp groups of the mask change their budget."""
        if mask is False:
            return
        if not any(known is op for known in self.ops):
            self.ops.append(op)
        number = next(i for i, known in enumerate(self.ops) if known is op)
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)[::WARPGROUP]
        self.last = np.where(lanes, number, self.last)

    def finish(self) -> None:
        """The blocks are through."""
        watch, func = self.batch.watch, self.batch.launch.func
        if watch is None or not self.ops:
            return
        each = at_launch(func)
        for column in np.unique(self.last, axis=1).T:
            found = {group: self.ops[number] for group, number in enumerate(column.tolist()) if number >= 0}
            if message := exceeded(func, found, each):
                block = int(np.flatnonzero((self.last == column[:, None]).all(axis=0))[0])
                most = max(found, key=lambda group: found[group].count)
                watch.report("F6", f"block {watch.block(block)}: {message}", found[most],
                             lane=(most * WARPGROUP, block), hint=advice(found, each))
