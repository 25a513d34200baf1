"""What the parts of the simulator may know of the batch that runs and of its launch.

In: nothing.  Out: ``BatchState`` and ``LaunchState``, protocols that batch.py and launch.py fulfil.

They keep the parts (access, plans, barriers, ...) below the machine that puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from moye.dtypes import DType
from moye.errors import Loc
from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.stale import Stale
from moye.sim.checks.watch import Watch
from moye.sim.findings.deadlock import Exited
from moye.sim.findings.finding import Reporter
from moye.sim.flow.absent import Laps
from moye.sim.flow.async_copies import AsyncCopies
from moye.sim.flow.groups import Group
from moye.sim.flow.mbarrier_phases import Phases
from moye.sim.values.doubts import Doubts
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, Fragment, Global, Shared


class Turns(Protocol):
    """The order in which blocks get their turns."""

    def backwards(self, tensor: Callable[[], int]) -> bool: ...


class LaunchState(Protocol):
    """What all batches share."""

    writes: int
    reporter: Reporter
    func: Func
    stale: Stale | None
    hooks: Any

    @property
    def exact_fma(self) -> bool: ...
    @property
    def schedule(self) -> Turns: ...
    def memory(self, buffer: Buffer, dtype: DType) -> Global: ...
    def print(self, line: str) -> None: ...
    def missed(self, count: int) -> None: ...
    def inspected(self, op: ops.Inspect, block_ids: Array, tensors: dict[str, Array], scalars: dict[str, Any],
                  mask: Mask) -> None: ...


class MbarriersState(Protocol):
    """The mbarriers of a batch."""

    all: dict[int, Phases]

    def of(self, buffer: Buffer) -> Phases: ...
    def landed(self, phases: Phases, element: Array, block: Array, count: Array) -> None: ...
    def passed(self, op: ops.AnyPhase, element: Array, parity: Array) -> Array: ...
    def passes(self, op: ops.AnyPhase, element: Array, lanes: Array) -> None: ...
    def parities(self, op: ops.AnyPhase, lanes: Array, offset: Array, parity: Array) -> None: ...
    def wanted(self, polling: Array) -> dict[int, Array]: ...


class TensorCopiesState(Protocol):
    """The boxes in flight of a batch."""

    committed: Array

    def issue(self, issued: Any) -> None: ...
    def complete(self, phases: Phases, done: Array) -> None: ...


class ProductsState(Protocol):
    """The products in flight of a batch."""

    earliest: bool
    flying: list[Any]
    accumulators: dict[tuple[int, bytes, tuple[int, int, int]], Any]
    committed: Array


class BarriersState(Protocol):
    """The waiting lanes of a batch."""

    waiting: list[Any]
    meetings: Any

    def waits(self, entry: Any, block: int) -> str: ...

    def resolve(self) -> None: ...


class ClusterState(Protocol):
    """The clusters of a batch."""

    size: int
    came: Array

    def comes(self, op: ops.ClusterWait, lanes: Array) -> None: ...
    def passed(self, lanes: Array) -> Array: ...
    def mapped(self, op: ops.MapShared, rank: Any, mask: Mask) -> Array: ...
    def leave(self, op: ops.ClusterWait, lanes: Array) -> None: ...
    def remote(self, op: ops.Op, thread: Array, block: Array, rank: Array) -> Array: ...


class AnyIssued(Protocol):
    """A bulk copy that is issued: per box the thread, its block, the block that receives, mbarrier and phase."""

    thread: Array
    issuer: Array
    block: Array
    element: Array
    phase: Array

    @property
    def box(self) -> AnyBox: ...


class AnyBox(Protocol):
    """What a bulk copy copies."""

    @property
    def op(self) -> ops.AnyAsync: ...
    @property
    def barrier(self) -> Buffer | None: ...


class TapeState(Protocol):
    """The timeline that is recorded, if there is one."""

    def issued(self, issued: AnyIssued) -> None: ...
    def passed(self, op: ops.MbarrierWait, element: Array, lanes: Array, phase: Array) -> None: ...


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
    spinning: list[Group]
    laps: Laps
    doubts: Doubts
    returned: dict[Loc, tuple[ops.Exit, Mask]]

    @property
    def tape(self) -> TapeState | None: ...
    @property
    def mbarriers(self) -> MbarriersState: ...
    @property
    def tensor_copies(self) -> TensorCopiesState: ...
    @property
    def products(self) -> ProductsState: ...
    @property
    def barriers(self) -> BarriersState: ...
    @property
    def cluster(self) -> ClusterState: ...
    @property
    def launch(self) -> LaunchState: ...
    def normal(self, lanes: Array) -> Mask: ...
    def gone(self) -> Array: ...
    def exits(self, block: int) -> tuple[Exited, ...]: ...
    def merge(self, into: Group, other: Group) -> bool: ...
