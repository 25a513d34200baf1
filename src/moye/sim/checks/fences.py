"""What fences cover: of one batch of blocks, what lies before each; of one launch, the order of those by fence.sc.

In: fences as they happen, with the clocks of their threads, or with the values of places that these know.
Out: ``Fences.published``, what a relaxed write after a fence publishes; ``FenceTurns.oldest``, the oldest value that
threads of a block may find.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable

import numpy as np

from moye.sim.checks.clocks import Bools, Clocks, Ints


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
        """What a relaxed write by the thread publishes: all that lies before its fence, or before those of others."""
        epochs: Ints = np.maximum(np.minimum(seen, self.own[:, block]), self.covered(thread, block))
        epochs[thread] = self.own[thread, block]
        return epochs


class FenceTurns:
    """The order of the fences by fence.sc of one launch, as far as it bounds how old values are that threads may find.

    Such fences have one order (PTX ISA, Fence-SC order): what is known before an earlier one is not missed after a
    later one.  The order here is that of the run, and another run may have another one: races are not judged by it.
    """

    def __init__(self) -> None:
        self._fences = 0
        self._of: dict[int, int] = {}
        """How many fences come before what a block does, up to the last one that it has executed or heard of."""
        self._known: dict[Hashable, tuple[list[int], list[int]]] = {}
        """The fences after which no value of a place is missed that was missed before, and these values."""

    def fence(self, block: int, known: Iterable[tuple[Hashable, int]]) -> None:
        """Threads of a block fence; they know these places and values."""
        self._fences += 1
        self._of[block] = self._fences
        for location, value in known:
            fences, values = self._known.setdefault(location, ([], []))
            if not values or value > values[-1]:
                fences.append(self._fences)
                values.append(value)

    def told(self, block: int, others: Iterable[int]) -> None:
        """Threads of a block acquire what those of others have released, after any fences of theirs."""
        if self._of:
            self._of[block] = max(self._of.get(block, 0), *(self._of.get(other, 0) for other in others))

    def oldest(self, block: int, location: Hashable) -> int:
        """The oldest value that threads of a block may find."""
        if (before := self._of.get(block)) is None or location not in self._known:
            return 0
        fences, values = self._known[location]
        at = bisect_right(fences, before)
        return values[at - 1] if at else 0
