"""Listeners to the accesses of a simulated launch: ``Probe``; and ``Owners``: the block that stored an element last.

In: the plans of a batch, one by one.  Out: what to call in their place.

    owners = Owners(); simulate(func, arguments, grid, check=True, hooks=Hooks(probe=owners))
    owners.of("C", size)[17]                    # 1 + the number of the block, 0 where nobody stored

Without a probe nothing here runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from moye.sim.operations.access import GlobalEnd
from moye.sim.operations.atomics import AtomicPlan
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.plans import CopyPlan, MapPlan, StorePlan
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array

Told = Callable[[GlobalEnd, Array, Mask], None]


class Probe(Protocol):
    """Sees every plan of every batch when the batch is made."""

    def watched(self, plan: Any, batch: BatchState) -> Any:
        """The plan, or what is called in its place."""


class _ToldEnd(GlobalEnd):
    """Global memory that tells somebody of what is stored to it."""

    def __init__(self, end: GlobalEnd, told: Told) -> None:
        self.__dict__.update(end.__dict__)
        self.told = told

    def changed(self, index: Array, mask: Mask) -> None:
        self.told(self, index, mask)


class Owners:
    """The block that stored each element of the arrays that a launch writes last."""

    def __init__(self) -> None:
        self._owners: dict[str, Array] = {}

    def of(self, name: str, size: int) -> Array:
        """For each element of an argument's memory, 1 + the number of the block; 0 if nobody stored it."""
        found = self._owners.get(name)
        return np.zeros(size, np.int32) if found is None else found

    def watched(self, plan: Any, batch: BatchState) -> Any:
        def told(end: GlobalEnd, index: Array, mask: Mask) -> None:
            self._stored(end, index, mask, batch.numbers)

        if isinstance(plan, (CopyPlan, MapPlan)):
            if isinstance(plan.dst, GlobalEnd):
                plan.dst = _ToldEnd(plan.dst, told)
        elif isinstance(plan, (StorePlan, AtomicPlan)) and isinstance(plan.end, GlobalEnd):
            plan.end = _ToldEnd(plan.end, told)
        return plan

    def _stored(self, end: GlobalEnd, index: Array, mask: Mask, numbers: Array) -> None:
        arg = end.memory.arg
        owner = self._owners.get(arg.name)
        if owner is None:
            owner = self._owners[arg.name] = np.zeros(len(arg.memory), np.int32)
        parts = [index, np.asarray(True) if mask is None else np.asarray(mask), numbers[None, None, :] + 1]
        where, active, number = (np.asarray(part) for part in np.broadcast_arrays(*parts))
        elements, own = where[active], arg.memory.dtype.itemsize
        stored = number[active]
        if end.memory.itemsize > own:
            ratio = end.memory.itemsize // own
            elements = (elements[:, None] * ratio + np.arange(ratio)).reshape(-1)
            stored = np.repeat(stored, ratio)
        else:
            elements = elements * end.memory.itemsize // own
        elements = elements + arg.base
        inside = (elements >= 0) & (elements < len(owner))
        owner[elements[inside]] = stored[inside]
