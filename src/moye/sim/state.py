"""What the parts of the simulator may know of the batch that runs and of its launch.

In: nothing.  Out: ``BatchState`` and ``LaunchState``, protocols that batch.py and launch.py fulfil.

They keep the parts (access, plans, barriers, ...) below the machine that puts them together.
"""

from __future__ import annotations

from typing import Any, Protocol

from moye.dtypes import DType
from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checkers.findings import Reporter
from moye.sim.copies import AsyncCopies
from moye.sim.deadlock import Exited
from moye.sim.groups import Group
from moye.sim.masks import Mask
from moye.sim.memory import Array, Fragment, Global, Shared
from moye.sim.stale import Stale
from moye.sim.watch import Watch


class LaunchState(Protocol):
    """What all batches share."""

    writes: int
    reporter: Reporter
    stale: Stale | None

    @property
    def exact_fma(self) -> bool: ...
    def memory(self, buffer: Buffer, dtype: DType) -> Global: ...
    def print(self, line: str) -> None: ...
    def inspected(self, op: ops.Inspect, block_ids: Array, tensors: dict[str, Array], scalars: dict[str, Any],
                  mask: Mask) -> None: ...


class BatchState(Protocol):
    """The blocks that run together."""

    threads: int
    blocks: int
    block_dim: tuple[int, int, int]
    block_ids: Array
    numbers: Array
    watch: Watch | None
    fragments: dict[int, Fragment]
    shared: dict[int, Shared]
    copies: AsyncCopies
    ready: list[Group]

    @property
    def launch(self) -> LaunchState: ...
    def normal(self, lanes: Array) -> Mask: ...
    def gone(self) -> Array: ...
    def exits(self, block: int) -> tuple[Exited, ...]: ...
    def merge(self, into: Group, other: Group) -> bool: ...
