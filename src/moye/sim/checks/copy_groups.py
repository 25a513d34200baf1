"""cp.async groups: how many each thread has committed, and how many its waits have covered.

In: commits and waits with their masks.  Out: per thread (T, columns) the open group and the groups known complete.
Where the copies go is in shared_records.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.ir.ops import CpAsyncWait
from moye.sim.checks.clocks import Bools, Ints


@dataclass(frozen=True, slots=True)
class Waited:
    """One wait of one thread: its op and the variables of the loops around it, outermost first."""

    op: CpAsyncWait
    trips: tuple[tuple[str, int], ...] = ()

    @property
    def pending(self) -> int:
        """The number of groups that it leaves in flight."""
        return self.op.pending or 0


class CopyGroups:
    """Counters of each thread.  Group ``committed[t]`` is the open one; groups below ``done[t]`` are complete."""

    def __init__(self, threads: int) -> None:
        self.committed: Ints = np.zeros((threads, 1), np.int64)
        self.done: Ints = np.zeros((threads, 1), np.int64)
        self.waits: Ints = np.zeros((threads, 1), np.int64)
        self.last: Ints = np.full((threads, 1), -1, np.int64)
        """The number of the thread's last wait."""
        self.previous: Ints = np.full((threads, 1), -1, np.int64)
        """The number of the wait before it."""
        self.at_wait: Ints = np.zeros((threads, 1), np.int64)
        """``committed`` at the thread's last wait."""
        self.before: Ints = np.zeros((threads, 1), np.int64)
        """``committed`` at the wait before it."""
        self._told: list[tuple[CpAsyncWait, dict[str, Any]]] = []

    def expand(self, columns: int) -> None:
        for name, counter in vars(self).items():
            if isinstance(counter, np.ndarray):
                setattr(self, name, np.repeat(counter, columns, axis=1))

    def commit(self, who: Bools) -> None:
        self.committed = self.committed + who

    def wait(self, who: Bools, op: CpAsyncWait, trips: Mapping[str, Any]) -> None:
        """Wait as wait_group ``op.pending`` does.  None is wait_all, which commits the open group and waits for it
        too."""
        if op.pending is None:
            self.commit(who)
        # cp.async.wait_group n: all but the n newest committed groups are complete (PTX ISA); waits never undo each
        # other.
        covered = np.maximum(self.done, self.committed - (op.pending or 0))
        self.done = np.where(who, covered, self.done)
        self.waits = self.waits + who
        self.previous = np.where(who, self.last, self.previous)
        self.last = np.where(who, len(self._told), self.last)
        self._told.append((op, dict(trips)))
        self.before = np.where(who, self.at_wait, self.before)
        self.at_wait = np.where(who, self.committed, self.at_wait)

    def told(self, number: int, thread: int, column: int) -> Waited:
        """The wait of that number, as one thread went through it."""
        op, trips = self._told[number]
        return Waited(op, tuple((name, _of(value, thread, column)) for name, value in trips.items()))


def _of(value: Any, thread: int, column: int) -> int:
    """A loop variable, (T or 1, B or 1) where it varies, as one thread has it."""
    if not isinstance(value, np.ndarray):
        return int(value)
    return int(value[min(thread, value.shape[0] - 1), min(column, value.shape[1] - 1)])
