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
from moye.sim.checks.judge import Judge
from moye.sim.checks.shared_records import Clashes, Recent, Shadow
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

    at: list[ops.MbarrierInit]
    by: Ints
    """Which of the statements, per block."""
    thread: Ints
    epoch: Ints
    came: Ints

    def op(self, block: int) -> ops.MbarrierInit:
        """Where the mbarrier of a block is initialised."""
        return self.at[int(self.by[block])]


class Receivers(Protocol):
    """The judge of accesses between the blocks of a cluster."""

    def arrived(self, op: ops.Op, ref: Ref, element: int, to: Ints) -> None: ...
    def clear(self, shadow: Shadow, at: Footprint) -> bool: ...
    def loaded(self, shadow: Shadow, op: ops.AnyBulk, at: Footprint, issuer: Ints) -> None: ...
    def stored(self, shadow: Shadow, op: ops.AsyncStore, at: Footprint, issuer: Ints) -> None: ...
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
