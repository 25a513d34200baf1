"""One simulated launch: arguments as memory, the reporter, what the caller wants to hear.

In: a Func's arguments, the grid, ``Hooks``.  Out: ``Launch``, which the batches share, and ``Outcome``.

>>> Hooks(stop_on_first=True, asynchronous="earliest").asynchronous
'earliest'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

import numpy as np

from moye.dtypes import DType
from moye.errors import ArgumentError, UnsupportedError
from moye.hardware import DEFAULT_ARCH, Hardware, of
from moye.ir import ops
from moye.ir.nodes import Buffer, Extent, Func, Param, ScalarParam, TensorParam, Value
from moye.sim.checks.answers import Case
from moye.sim.checks.dependent_launches import Dependence, Prior
from moye.sim.checks.global_races import GlobalMemory
from moye.sim.checks.stale import Stale
from moye.sim.costs.meter import Meter
from moye.sim.costs.occupancy import occupancy
from moye.sim.findings.finding import Finding, Reporter
from moye.sim.flow.apart import Turn
from moye.sim.flow.segments import name_of
from moye.sim.machine.pauses import Pauses
from moye.sim.machine.schedules import Schedule
from moye.sim.operations.debug import Inspection
from moye.sim.operations.probe import Probe
from moye.sim.timeline.tape import Tape
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, Global, TensorArg
from moye.sim.values.scalars import to_scalar

__all__ = ["Argument", "Finding", "Hooks", "Launch", "Outcome", "Reporter"]

Argument = TensorArg | int | float | bool


@dataclass(slots=True)
class Hooks:
    """What the caller wants: all optional.

    ``asynchronous`` is when asynchronous copies happen: at the latest legal moment or the earliest.
    ``exact_fma`` rounds a multiply-add of a float ``Gemm`` once, as a GPU does; else the product is rounded too.
    ``codes`` are the classes of violations to report (None: all).
    ``blocks`` fixes the number of blocks of a batch; ``resident`` how many blocks may run at once, by default as many
    as the ``hardware`` holds that the launch is checked for.
    ``sample``: the blocks (numbers in the grid, x fastest) that run, None for all.  ``probe`` is told of every access.
    """

    hardware: Hardware = field(default_factory=lambda: of(DEFAULT_ARCH))
    progress: Callable[[int, int], None] | None = None
    stop_on_first: bool = False
    codes: frozenset[str] | None = None
    asynchronous: OneOf["latest", "earliest"] = "latest"
    exact_fma: bool = False
    printer: Callable[[str], None] | None = None
    inspect: Callable[[Inspection], None] | None = None
    record: Sequence[int] = ()
    """The blocks (x fastest) whose events are recorded for a timeline."""
    sample: Sequence[int] | None = None
    probe: Probe | None = None
    lints: bool = False
    """Count what every access costs (checked runs)."""
    ignored: frozenset[int] = frozenset()
    """The ids of block barriers that are executed, and order nothing for the checks."""
    poison: frozenset[str] = frozenset()
    """The array parameters that hold nothing when the launch begins."""
    strict: bool = False
    """Report writes of one value by several threads or blocks as violations."""
    seed: int = 0
    """Which schedule runs: 0 is the plain order of blocks."""
    prior: Sequence[Prior] | None = None
    """The launches before this one that may still run; None if it is no dependent one."""
    schedules: int | None = 1
    """The number of schedules that run, from ``seed`` on, until one shows a violation; None means several if blocks
    signal."""
    compare: Callable[[], list[Finding]] | None = None
    """What is wrong with the outputs of a further schedule, while they are there."""
    chance: Case | None = None
    """Let mbarrier_try_wait be false where it may, or true, or elect() choose the last lane."""
    apart: Turn | None = None
    """Run the warps of a block one after the other, each as far as it gets."""
    first: int | None = None
    """Run only so many blocks, the first of the grid."""
    blocks: int | None = None
    resident: int | None = None
    spins: int = 3
    """Rounds of polling in which nothing changes before the blocks count as deadlocked."""
    steps: float = 100_000
    """Passes of a loop without a given number of them, and rounds of polling in which only variables of the polling
    threads change, before it counts as endless."""


@dataclass(slots=True)
class Outcome:
    """What a launch did: findings, printed lines, inspections, and how many blocks and segments ran."""

    findings: list[Finding]
    printed: list[str]
    inspections: list[Inspection]
    blocks: int
    segments: int
    reporter: Reporter
    tape: Tape | None = None
    unsupported: list[str] = field(default_factory=list)
    """What could not be judged, a sentence each."""
    meter: Meter | None = None
    """What accesses cost, where ``Hooks.lints`` asked for it."""
    not_judged: list[str] = field(default_factory=list)
    """What was left out because it is too large."""
    prior: tuple[Prior, ...] = ()
    """This launch as a later launch sees it."""
    schedules: int | None = None
    """The number of schedules that were seen; None if blocks do not signal to each other."""


@dataclass(slots=True)
class Launch:
    """State that all batches of a launch share."""

    func: Func
    arguments: Sequence[Argument]
    grid: tuple[int, int, int]
    check: bool
    hooks: Hooks
    reporter: Reporter
    params: dict[str, Any] = field(default_factory=dict)
    writes: int = 0
    """Counts changes of memory that another block could see."""
    late: int = 0
    """Counts copies by TMA that landed because somebody waited for them, and answers that were no though they may be
    yes."""
    moves: int = 0
    """Counts iterations of polling loops that changed a variable of their own."""
    steps: int = 0
    done: int = 0
    ticks: int = 0
    printed: list[str] = field(default_factory=list)
    inspections: list[Inspection] = field(default_factory=list)
    inspected_bytes: int = 0
    memories: dict[tuple[int, str], Global] = field(default_factory=dict)
    tape: Tape | None = None
    unsupported: list[str] = field(default_factory=list)
    meter: Meter | None = None
    stale: Stale | None = None
    """The predicated copies whose leftovers are looked for."""
    schedule: Schedule = field(init=False)
    pauses: Pauses = field(init=False)
    dependence: Dependence | None = None
    """What launches before it touch; only in checked runs."""
    globals: GlobalMemory = field(init=False)
    """What the checker of races in global memory keeps for the whole launch; only in checked runs."""

    def __post_init__(self) -> None:
        if len(self.arguments) != len(self.func.params):
            raise ArgumentError(f"{self.func.name} has {len(self.func.params)} parameters, not {len(self.arguments)}")
        for param, argument in zip(self.func.params, self.arguments, strict=True):
            self._bind(param, argument)
        most = self.hooks.resident or resident_blocks(self.func, self.hooks.hardware)
        self.schedule = Schedule(self.hooks.seed, self.total, math.prod(self.func.cluster_dim),
                                 resident=self.total <= most, turned=self.hooks.apart == "last")
        self.pauses = Pauses(self.func, self.hooks.seed, self.total)

    def watch(self, stale: Stale, spent: int | None) -> None:
        """Check global memory and look for leftovers; ``spent`` is the bytes taken already, None means no global
        memory."""
        self.stale = stale if stale.numbers else None
        self.globals = GlobalMemory(self.func, lambda buffer: self.memory(buffer, buffer.dtype), self.total,
                                    self.place, self.reporter, spent)
        self.globals.between.newest = self.schedule.late
        self.globals.between.prompt = self.schedule.prompt
        polled = self.globals.traffic.waits_at(self.func)
        self.globals.between.awaited = bool(polled)
        self.globals.between.late = self.schedule.laggard(polled)
        self.globals.between.late_of_one = self.schedule.laggard_of_one(polled)
        for param in self.func.params:
            if isinstance(param, TensorParam) and param.name in self.hooks.poison:
                self.globals.unwritten.fill(param.buffer, self.memory(param.buffer, param.buffer.dtype))

    def _bind(self, param: Param, argument: Argument) -> None:
        if isinstance(param, ScalarParam):
            if isinstance(argument, TensorArg):
                raise ArgumentError(f"parameter {param.name} is a scalar, not a tensor")
            self.params[name_of(param.value)] = to_scalar(argument, param.value.dtype)
            return
        if not isinstance(argument, TensorArg) or len(argument.shape) != len(param.shape):
            raise ArgumentError(f"parameter {param.name} is a tensor of rank {len(param.shape)}, not {argument}")
        for extent, number in zip((*param.shape, *param.strides), (*argument.shape, *argument.strides), strict=True):
            self._extent(param, extent, number)

    def _extent(self, param: TensorParam, extent: Extent, number: int) -> None:
        if isinstance(extent, Value):
            self.params[name_of(extent)] = int(number)
        elif extent != number:
            raise ArgumentError(f"{self.func.name} was made for {param.name} with {extent} where it has {number} now")

    @property
    def total(self) -> int:
        """How many blocks run; whole clusters."""
        total, cluster = math.prod(self.grid), math.prod(self.func.cluster_dim)
        if self.hooks.sample is not None:
            if cluster > 1:
                raise UnsupportedError(f"{self.func.name} runs in clusters of {cluster} blocks, and single blocks of a "
                                       f"cluster cannot be sampled", hint="leave out blocks=")
            total = len(self.hooks.sample)
        return total if self.hooks.first is None else min(total, -(-self.hooks.first // cluster) * cluster)

    def numbers(self, first: int, count: int) -> Array:
        """The numbers in the grid (x fastest) of ``count`` blocks that run, from the ``first``: cluster by cluster."""
        positions = self.schedule.positions(first, count)
        if self.hooks.sample is not None:
            return np.array(self.hooks.sample)[positions]
        cluster = self.func.cluster_dim
        if cluster == (1, 1, 1):
            return positions
        each, rank = np.divmod(positions, math.prod(cluster))
        counts = tuple(extent // own for extent, own in zip(self.grid, cluster, strict=True))
        x, y, z = (places(each, counts) * cluster + places(rank, cluster)).T
        return np.asarray(x + self.grid[0] * (y + self.grid[1] * z))

    def place(self, position: int) -> tuple[int, int, int]:
        """The coordinates of a block, from its position among those that run."""
        x, y, z = places(self.numbers(position, 1), self.grid)[0].tolist()
        return x, y, z

    def memory(self, buffer: Buffer, dtype: DType) -> Global:
        """A tensor parameter as elements of ``dtype``."""
        key = (buffer.id, dtype.name)
        if key not in self.memories:
            owner = next(i for i, p in enumerate(self.func.params)
                         if isinstance(p, TensorParam) and p.buffer is buffer)
            argument = self.arguments[owner]
            if not isinstance(argument, TensorArg):
                raise ArgumentError(f"parameter {owner} of {self.func.name} is a tensor")
            self.memories[key] = Global(argument, dtype)
        return self.memories[key]

    @property
    def exact_fma(self) -> bool:
        """Whether a multiply-add of a Gemm rounds once."""
        return self.hooks.exact_fma

    def missed(self, count: int) -> None:
        """So many copies have landed only now, or so many answers were no: who polls gets on."""
        self.writes += count
        self.late += count

    def tick(self) -> int:
        """A clock that only goes forward."""
        self.ticks += 1
        self.writes += 1
        return self.ticks

    def print(self, line: str) -> None:
        self.printed.append(line)
        if self.hooks.printer is not None:
            self.hooks.printer(line)

    def inspected(self, op: ops.Inspect, block_ids: Array, tensors: dict[str, Array], scalars: dict[str, Any],
                  mask: Mask) -> None:
        inspection = Inspection(op.label, op.loc, block_ids.copy(), tensors, scalars,
                                mask if mask is None or mask is False else mask.copy())  # type: ignore[union-attr]
        self.inspected_bytes += sum(x.nbytes for x in (*tensors.values(), *scalars.values()) if hasattr(x, "nbytes"))
        if self.inspected_bytes > MOST_INSPECTED:
            raise UnsupportedError(f"mo.inspect: the snapshots of this launch take more than {MOST_INSPECTED >> 20} "
                                   "MiB", hint="keep them under an if, of one turn of the loop or one block",
                                   locs=(op.loc,))
        self.inspections.append(inspection)
        if self.hooks.inspect is not None:
            self.hooks.inspect(inspection)


MOST_INSPECTED = 1 << 29
"""Bytes of snapshots that one launch may keep."""


def resident_blocks(func: Func, hardware: Hardware) -> int:
    """How many blocks a device runs at once, at most: what a compiler makes of registers is not known."""
    held = occupancy(func.threads, sum(b.bytes for b in func.shared_buffers), None, hardware)
    return hardware.multiprocessors * max(1, held.blocks)


def places(numbers: Array, shape: tuple[int, ...]) -> Array:
    """The coordinates (count, 3) of numbers that count with x fastest."""
    return np.stack([numbers % shape[0], numbers // shape[0] % shape[1], numbers // (shape[0] * shape[1])], axis=1)
