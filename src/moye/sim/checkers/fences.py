"""What the fences of one batch of blocks cover: (T, blocks), for each scope.

In: threads that execute a fence.  Out: ``published``: what a relaxed write after a fence releases.

A fence makes patterns with the strong accesses of its own thread (PTX ISA).  Where threads fence on both sides of a
block barrier each fence covers its own thread's accesses too, whoever of the block signals.
"""

from __future__ import annotations

import numpy as np

from moye.sim.checkers.clocks import Bools, Clocks, Ints


class Fences:
    """The last fences of at least one scope."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.own: Ints = np.zeros((threads, blocks), np.int64)
        """The epoch up to which a thread's accesses lie before its last fence."""
        self.any = False
        self._snapshot: Ints = np.zeros((threads, blocks), np.int64)
        self._snapshots: list[Ints] = [np.zeros(threads, np.int64)]

    def fence(self, who: Bools, clocks: Clocks) -> None:
        """The threads ``who`` (T, columns) execute a fence."""
        self.any = True
        for column in range(who.shape[1]):
            where = slice(None) if who.shape[1] == 1 else column
            for group in np.unique(clocks.group[who[:, column]]).tolist():
                mine = who[:, column] & (clocks.group == group)
                self.own[mine, where] = clocks.now[group, column]
                self._snapshot[mine, where] = len(self._snapshots)
                self._snapshots.append(clocks.seen[group, clocks.group, column])

    def covered(self, thread: int, block: int) -> Ints:
        """What the thread knew of the others at its last fence (T,)."""
        return self._snapshots[int(self._snapshot[thread, block])]

    def published(self, thread: int, block: int, seen: Ints) -> Ints:
        """What a relaxed write by the thread publishes: what lies before its fence, or before those of others."""
        epochs: Ints = np.maximum(np.minimum(seen, self.own[:, block]), self.covered(thread, block))
        epochs[thread] = self.own[thread, block]
        return epochs
