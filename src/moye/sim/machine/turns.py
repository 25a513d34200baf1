"""How long loops may go on: F4 once one counts as endless.

In: each pass of a loop, as generated code begins (or, where lanes meet inside, ends) it.

A ``while`` ends after ``steps`` passes (MOYE_STEPS).  A ``for`` has a given number of them, and ends where, after as
many, MANY times as many are left.  Nor may loops, taken together, make MANY times as many passes that change no memory:
they may be nested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.ir import ops
from moye.sim.machine.stops import endless
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask

MANY = 100


class Turns:
    """The passes of the loops of one batch."""

    def __init__(self, batch: BatchState) -> None:
        self.batch, self.steps = batch, batch.launch.hooks.steps
        self.reset()

    def reset(self) -> None:
        self.idle, self.writes = 0, -1
        """Passes since memory was changed last."""
        self.passes: dict[tuple[int, int], int] = {}
        """The passes of loops in which lanes meet, by the loop and the first lane in it."""

    def enter(self, loop: ops.Op, mask: Mask) -> None:
        """Lanes come to a loop in which they meet."""
        self.passes.pop((id(loop), _first(mask)), None)

    def meet(self, loop: ops.Op, mask: Mask, value: Any = None, stop: Any = None, step: Any = 1) -> None:
        """Lanes have made a pass of it."""
        if mask is not False:
            key = (id(loop), _first(mask))
            passes = self.passes[key] = self.passes.get(key, 0) + 1
            self.turn(loop, passes, mask, value, stop, step)

    def turn(self, loop: ops.Op, passes: int, mask: Mask, value: Any = None, stop: Any = None, step: Any = 1) -> None:
        """The lanes are in this pass of a loop; of a ``for`` the variable, its bound and its step."""
        launch = self.batch.launch
        if launch.writes != self.writes:
            self.writes, self.idle = launch.writes, 0
        self.idle += 1
        if self.idle > MANY * self.steps:
            endless(self.batch, loop, mask, f"though {self.idle - 1} passes, with those of the loops around it, have "
                    "changed no memory")
        if passes > self.steps:
            self._long(loop, passes, mask, value, stop, step)

    def _long(self, loop: ops.Op, passes: int, mask: Mask, value: Any, stop: Any, step: Any) -> None:
        if stop is None:
            endless(self.batch, loop, mask, f"after {passes - 1} passes, and nothing has ended it")
        elif passes % self.steps == 1 or self.steps == 1:
            left = int(np.max((np.asarray(stop, object) - np.asarray(value, object)) // np.asarray(step, object)))
            if left > MANY * self.steps:
                endless(self.batch, loop, mask, f"after {passes - 1} passes, and {left} are left")


def _first(mask: Mask) -> int:
    """The first lane of a mask, as a number."""
    return 0 if mask is None else int(np.argmax(mask))
