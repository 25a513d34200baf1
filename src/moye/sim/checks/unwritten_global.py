"""Global memory that nobody has written, on request: which elements, and B6 where one is read.

In: the arrays that a launch is told to take for unwritten, its accesses to them.  Out: findings through the reporter.

The arrays are filled with poison before the launch, as shared memory and registers are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.global_conflicts import Place
from moye.sim.findings.finding import Reporter
from moye.sim.values.memory import Global, poison


class Unwritten:
    """The elements of some arrays that nothing has written, by buffer."""

    def __init__(self, memory: Callable[[Buffer], Global], place: Place, reporter: Reporter) -> None:
        self.memory, self.place, self.reporter = memory, place, reporter
        self._left: dict[int, Bools] = {}

    def fill(self, buffer: Buffer, memory: Global) -> None:
        """The elements of an array are poison from here on."""
        arg, offset = memory.arg, np.zeros(1, np.int64)
        for extent, stride in zip(arg.shape, arg.strides, strict=True):
            offset = (offset[:, None] + np.arange(extent) * stride).reshape(-1)
        left = np.zeros(len(arg.memory), np.bool_)
        left[arg.base + offset] = True
        arg.memory.view(memory.dtype)[left] = poison(buffer.dtype)
        self._left[buffer.id] = left

    def __bool__(self) -> bool:
        return bool(self._left)

    def access(self, op: ops.Op, buffer: Buffer, memory: Global, index: Ints, size: int, lanes: Bools, first: int, *,
               reads: bool, writes: bool) -> None:
        """``size`` bytes at each element index (V, T, B) of ``memory``'s dtype, by the lanes of the mask."""
        left = self._left.get(buffer.id)
        if left is None or not lanes.any():
            return
        own = self.memory(buffer)
        start = (memory.address - own.address + index * memory.itemsize) // own.itemsize + own.arg.base
        parts = -(-size // own.itemsize)
        for part in range(parts):
            cell = np.clip(start + part, 0, len(left) - 1)
            if reads and (bad := left[cell] & lanes).any():
                self._report(op, own, buffer, cell, bad, first)
            if writes:
                left[cell[lanes]] = False

    def _report(self, op: ops.Op, memory: Global, buffer: Buffer, cell: Ints, bad: Bools, first: int) -> None:
        _, thread, block = (int(i) for i in np.argwhere(bad)[0])
        element = int(cell[bad][0])
        self.reporter.tell("B6", "launch", (op,), block=self.place(first + block), threads=(thread,),
                           tensor=buffer.name, coordinate=memory.coordinate(element - memory.arg.base),
                           count=int(bad.sum()))
