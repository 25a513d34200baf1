"""What the checker of asynchronous units knows of a copy, of an mbarrier's initialisation, and of those it asks.

In: nothing.  Out: ``Boxes``, ``Made``, ``Receivers``, ``Memory``.

    Made(op, thread, epoch, came)

It judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from moye.ir import ops
from moye.ir.nodes import Buffer, Ref
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.footprint import Footprint
from moye.sim.checks.shared_records import Recent, Shadow
from moye.sim.checks.shared_verdicts import Clashes, Judge
from moye.sim.checks.signals import Flags

Chunks = Callable[[int], Ints]
"""The byte addresses of the 16-byte chunks that an operation touches, from where it starts."""


class Boxes(Protocol):
    """A tensor copy: per issuing thread its block, byte offset in shared memory, mbarrier and its phase, bulk group."""

    thread: Ints
    block: Ints
    start: Ints
    element: Ints
    phase: Ints
    group: Ints
    issuer: Ints
    """The block of the thread that issued it."""


@dataclass(slots=True)
class Made:
    """The initialisation of an mbarrier: the thread that did it and its epoch, per block.

    ``came`` is the number of times that this thread had arrived at the barrier of its cluster before, per block.
    """

    op: ops.MbarrierInit
    thread: Ints
    epoch: Ints
    came: Ints


class Receivers(Protocol):
    """The judge of accesses between the blocks of a cluster."""

    def arrived(self, op: ops.Op, ref: Ref, element: int, to: Ints, came: Ints) -> None: ...
    def clear(self, shadow: Shadow, at: Footprint) -> bool: ...
    def loaded(self, shadow: Shadow, op: ops.AnyBulk, at: Footprint, issuer: Ints) -> None: ...
    def local(self, shadow: Shadow, op: ops.Op, at: Footprint, verb: str) -> None: ...


class Memory(Protocol):
    """The shared checker."""

    threads: int
    blocks: int
    cluster: int
    clocks: Clocks
    judge: Judge
    shadows: dict[int, Shadow]
    flags: Flags | None

    @property
    def peers(self) -> Receivers: ...
    def everyone(self, active: Bools | None) -> Bools: ...
    def groups(self, who: Bools) -> Bools: ...
    def expand(self) -> None: ...
    def shadow(self, buffer: Buffer, width: int) -> Shadow: ...
    def align(self, shadow: Shadow, addresses: Ints, width: int) -> None: ...
    def against_write(self, shadow: Shadow, at: Footprint, *, initialised: bool) -> Clashes | None: ...
    def against(self, recent: Recent, at: Footprint) -> Clashes | None: ...
    def clashes(self, at: Footprint, entry: Ints, column: Ints, record: Ints, actor: Ints) -> Clashes: ...


# --- which threads have waited for bulk groups since a store was issued, and how far ---------------------------------


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
