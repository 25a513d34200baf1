"""What may come out otherwise, and does in a run of its own: answers of mbarrier_try_wait, lanes that elect() chooses.

In: a Func, and what its threads signal through.  Out: ``chances``: those that it has, by the names of their cases in
the table of codes (``older``: loads that find older values, see signals.py); and
``Answers.denied``: the lanes that are told that a phase is not complete.

``unheeded``: an answer in a loop that has no other end is false the first time, and true when the lane asks again; any
other is false always, as if the time limit of the hardware were over (PTX ISA, mbarrier.try_wait).  ``answered``:
copies are there at once, and warps come one after the other, so that answers are true that were false.  ``once``: the
same, but each lane gets one true answer, and false ones later.
"""

from __future__ import annotations

from typing import Literal as OneOf

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.patience import patience
from moye.sim.checks.signal_memory import Traffic
from moye.sim.values.memory import Array

Case = OneOf["unheeded", "answered", "once", "elected", "older"]
_CASES: dict[Case, type[ops.Op]] = {"unheeded": ops.MbarrierTest, "answered": ops.MbarrierTest,
                                    "once": ops.MbarrierTest, "elected": ops.Elect}
EARLY = ("answered", "once")
"""The cases in which copies are there at once."""


def chances(func: Func, traffic: Traffic) -> tuple[Case, ...]:
    """What runs of their own are made for."""
    walked = list(func.body.walk())
    found = [case for case, kind in _CASES.items() if any(isinstance(op, kind) for op in walked)]
    return (*found, "older") if traffic.glances(func) else tuple(found)


class Answers:
    """The answers of one batch, in a run for ``case``."""

    def __init__(self, func: Func, case: Case | None) -> None:
        self.case = case
        gives_up = patience(func).gives_up
        self.repeated = {id(op) for loop in func.body.walk() if isinstance(loop, ops.Loop) and id(loop) not in gives_up
                         for op in loop.body.walk()}
        """The ids of the operations in loops that have no other end."""
        self._before: dict[int, Array] = {}
        self._told: Array | None = None
        """The lanes (T, B) that have had a true answer."""

    def denied(self, op: ops.MbarrierTest, found: Array) -> Array:
        """The lanes (T, B) of those that have ``found`` the phase complete."""
        if self.case == "once":
            if id(op) in self.repeated:
                return np.zeros_like(found)
            told = self._told if self._told is not None else np.zeros_like(found)
            self._told = told | found
            return found & told
        if id(op) not in self.repeated:
            return found
        before = self._before.get(id(op), np.zeros_like(found))
        self._before[id(op)] = found & ~before
        return found & ~before
