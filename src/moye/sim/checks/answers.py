"""What mbarrier_try_wait answers in a run in which it is false where it may be: a phase may be complete a moment later.

In: a Func; of each time that it is asked, where the phase is complete.  Out: ``Answers.denied``: the lanes that are
told it is not.

An answer in a loop that has no other end is false the first time, and true when the lane asks again; any other is false
always, as if the time limit of the hardware were over (PTX ISA, mbarrier.try_wait).
"""

from __future__ import annotations

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.patience import patience
from moye.sim.flow.once import once_per_func
from moye.sim.values.memory import Array


@once_per_func
def asks(func: Func) -> bool:
    """Whether threads of a kernel ask for a phase."""
    return any(isinstance(op, ops.MbarrierTest) for op in func.body.walk())


class Answers:
    """The answers of one batch."""

    def __init__(self, func: Func) -> None:
        gives_up = patience(func).gives_up
        self.repeated = {id(op) for loop in func.body.walk() if isinstance(loop, ops.Loop) and id(loop) not in gives_up
                         for op in loop.body.walk()}
        """The ids of the operations in loops that have no other end."""
        self._before: dict[int, Array] = {}

    def denied(self, op: ops.MbarrierTest, found: Array) -> Array:
        """The lanes (T, B) of those that have ``found`` the phase complete."""
        if id(op) not in self.repeated:
            return found
        before = self._before.get(id(op), np.zeros_like(found))
        self._before[id(op)] = found & ~before
        return found & ~before
