"""Which threads have waited for bulk groups since a store was issued, and how far.

In: stores and waits of one batch.  Out: ``Waited``, the wait that was meant for a store.

It does not know what the stores read or write.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.ir import ops
from moye.sim.checks.clocks import Bools, Ints

KEPT = 64
"""So many waits, and groups of each thread, are remembered."""


@dataclass(frozen=True, slots=True)
class Waited:
    """One wait in one block: who takes part (T,), and whether the group had been committed before."""

    op: ops.BulkWait
    lanes: Bools
    committed: bool


@dataclass(frozen=True, slots=True)
class _Wait:
    moment: int
    op: ops.BulkWait
    lanes: Bools
    """(T, B)."""
    committed: Ints
    """The number of groups that each thread had committed, (T, B)."""


class BulkWaits:
    """The stores and waits of one batch."""

    def __init__(self) -> None:
        self._moment = 0
        self._waits: list[_Wait] = []
        self._issued: dict[tuple[int, int], dict[int, int]] = {}
        """The moment at which a store of each group was issued, per thread and block."""

    def issued(self, thread: int, block: Ints, group: Ints) -> None:
        """A thread stores, in each of these blocks in the group next to it."""
        self._moment += 1
        for column, number in zip(block.tolist(), group.tolist(), strict=True):
            groups = self._issued.setdefault((thread, column), {})
            groups[number] = self._moment
            if len(groups) > KEPT:
                del groups[min(groups)]

    def waited(self, op: ops.BulkWait, lanes: Bools, limit: Ints) -> None:
        """Threads have waited for their groups below ``limit`` (T, B)."""
        self._moment += 1
        self._waits.append(_Wait(self._moment, op, lanes, limit + op.pending))
        del self._waits[:-KEPT]

    def own(self, thread: int, group: int, block: int) -> Waited | None:
        """The last wait of the thread that stores, since it has issued a store of this group."""
        for wait in self._since(thread, group, block):
            if wait.lanes[thread, block]:
                return Waited(wait.op, wait.lanes[:, block], bool(wait.committed[thread, block] > group))
        return None

    def stranger(self, thread: int, group: int, block: int) -> Waited | None:
        """The last wait of other threads alone since then."""
        for wait in self._since(thread, group, block):
            if wait.lanes[:, block].any() and not wait.lanes[thread, block]:
                return Waited(wait.op, wait.lanes[:, block], True)
        return None

    def _since(self, thread: int, group: int, block: int) -> list[_Wait]:
        moment = self._issued.get((thread, block), {}).get(group, 0)
        return [wait for wait in reversed(self._waits) if wait.moment > moment]
