"""cp.async groups: how many each thread has committed, and how many its waits have covered.

In: commits and waits with their masks.  Out: per thread (T, columns) the open group and the groups known complete.
Where the copies go is in shadow.py.
"""

from __future__ import annotations

import numpy as np

from moye.sim.checkers.clocks import Bools, Ints


class CopyGroups:
    """Counters of each thread.  Group ``committed[t]`` is the open one; groups below ``done[t]`` are complete."""

    def __init__(self, threads: int) -> None:
        self.committed: Ints = np.zeros((threads, 1), np.int64)
        self.done: Ints = np.zeros((threads, 1), np.int64)
        self.waits: Ints = np.zeros((threads, 1), np.int64)
        self.wait_op: Ints = np.zeros((threads, 1), np.int64)
        self.at_wait: Ints = np.zeros((threads, 1), np.int64)
        """``committed`` at the thread's last wait ..."""
        self.before: Ints = np.zeros((threads, 1), np.int64)
        """... and at the wait before it."""

    def expand(self, columns: int) -> None:
        for name, counter in vars(self).items():
            setattr(self, name, np.repeat(counter, columns, axis=1))

    def commit(self, who: Bools) -> None:
        self.committed = self.committed + who

    def wait(self, who: Bools, pending: int | None, op: int) -> None:
        """wait_group ``pending``; None is wait_all, which commits the open group and waits for it too."""
        if pending is None:
            self.commit(who)
        covered = np.maximum(self.done, self.committed - (pending or 0))
        self.done = np.where(who, covered, self.done)
        self.waits = self.waits + who
        self.wait_op = np.where(who, op, self.wait_op)
        self.before = np.where(who, self.at_wait, self.before)
        self.at_wait = np.where(who, self.committed, self.at_wait)
