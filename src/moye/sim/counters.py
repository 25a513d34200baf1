"""Counters of loops that step beyond what their dtype holds: A11, and the end of the loop.

In: a ``For``, its variable and step in one pass.  Out: the variable in the next pass; where it does not fit, the last
number that does, which ends the loop as ``range`` has it.  The printed loop would go on from the other end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.ir import fold, ops
from moye.ir.constants import limits
from moye.ir.nodes import Value
from moye.sim.masks import Mask
from moye.sim.watch import Watch


def may_leave(op: ops.For) -> bool:
    """Whether the facts of a loop leave room for a step beyond its dtype: one of 1 never is."""
    low, high = limits(op.iv.dtype)
    least, most, _ = fold.facts_of(op.step) if isinstance(op.step, Value) else (op.step, op.step, 1)
    first, last, _ = fold.facts_of(op.stop)
    if op.up:
        return most is None or (high if last is None else last) - 1 + most > high
    return least is None or (low if first is None else first) + 1 + least < low


def onward(watch: Watch | None, op: ops.For, number: Any, step: Any, mask: Mask) -> Any:
    """The variable of a loop one step on."""
    low, high = limits(op.iv.dtype)
    far = np.greater(number, high - step) if op.up else np.less(number, low - step)
    if not far.any():
        return number + step
    if watch is not None:
        watch.stepped(op, number, step, np.atleast_2d(far), mask)
    end = high if op.up else low
    return end if isinstance(number, int) else np.where(far, end, number + step).astype(number.dtype)
