"""Dependent launches (programmatic dependent launch): what a launch touches while those before it may still run.

In: accesses to global memory, ``griddepcontrol_wait``s, and the ``Prior`` launches.  Out: findings G3; and the
``Prior`` that the next launch has to do with.

A dependent launch may begin as soon as every block of the one before has called griddepcontrol_launch_dependents or has
ended; what that one wrote is there for who has waited, or is ordered after somebody who has.  What it reads may be
overwritten early only if it lets others begin before its end.  If all of its blocks do so before they have waited, the
next launch may also run beside those before it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.global_races import GlobalMemory
from moye.sim.checks.global_regions import ATOMIC, WRITE
from moye.sim.values.memory import Array, Global, TensorArg

KEPT = 64
"""So many launches that may run beside each other are remembered."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The array whose memory a launch used; ``alone``: that memory ends with the array."""

    alive: Callable[[], Any]
    alone: bool

    @property
    def gone(self) -> bool:
        """Whether others may have its addresses."""
        return self.alive() is None


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte addresses from each of ``starts`` up to its end, ascending; ``owners`` keep them from meaning others."""

    starts: Ints
    ends: Ints
    owners: tuple[Owner, ...]

    def meets(self, address: Ints, size: int) -> Bools:
        """The accesses of ``size`` bytes that touch it."""
        if not len(self.starts) or any(owner.gone for owner in self.owners):
            return np.zeros(address.shape, np.bool_)
        at = np.searchsorted(self.starts, address + size - 1, side="right") - 1
        hit: Bools = (at >= 0) & (self.ends[at] > address)
        return hit


@dataclass(frozen=True, slots=True)
class Prior:
    """An earlier launch; ``behind`` may still run when it is complete."""

    name: str
    written: tuple[Spans, ...]
    read: tuple[Spans, ...]
    triggers: bool
    behind: tuple[Prior, ...] = ()
    more: bool = False
    """Whether there are others beside it that are not remembered."""

    @property
    def lost(self) -> bool:
        """Whether it cannot be told if memory that it used is used again: an array is gone, and may have been a
        view."""
        owners = [owner for span in (*self.written, *self.read) for owner in span.owners]
        return any(owner.gone and not owner.alone for owner in owners)


class Threads(Protocol):
    """The shared checker."""

    clocks: Clocks

    def split(self, active: Bools | None) -> Bools: ...
    def everyone(self, active: Bools | None) -> Bools: ...


class Loads(Protocol):
    """A bulk copy: of each thread that issues it its block, the block that receives, the mbarrier there, its phase."""

    thread: Ints
    issuer: Ints
    block: Ints
    element: Ints
    phase: Ints


class Units(Protocol):
    """The asynchronous units of the shared checker."""

    def barrier(self, buffer: Buffer, element: int) -> int: ...


Tell = Callable[[ops.Op, tuple[int, int], Global, int, bool, str, Prior, int], None]
"""An access by (thread, column) of an element, read or written; what another launch does there, and how many."""


class Dependence:
    """One launch: the launches before it (None if it is no dependent one), and what it touches itself."""

    def __init__(self, func: Func, prior: Sequence[Prior] | None) -> None:
        kinds = {op.kind for op in func.body.walk() if isinstance(op, ops.GridDependency)}
        self.name, self.triggers, self.waits = func.name, "launch_dependents" in kinds, "wait" in kinds
        self.dependent, self.prior = prior is not None, tuple(prior or ())
        self.recording = self.dependent or bool(kinds)
        self._touched: dict[tuple[int, int, bool], tuple[Global, Array]] = {}
        self.parts: list[tuple[Array, Array]] = []
        """Of each batch the blocks (B,) that have waited, and those that let others begin before they did."""

    @property
    def not_judged(self) -> list[str]:
        """What is not known of the launches before this one."""
        more = [f"what more than {KEPT} launches before may still be doing"] if any(p.more for p in self.prior) else []
        return more + [f"what the launch of {prior.name} may still be doing to an array that is gone, whose memory "
                       "others may hold" for prior in self.prior if prior.lost]

    @property
    def after(self) -> tuple[Prior, ...]:
        """The earlier launches that may still run behind the wait."""
        return self.prior[0].behind if self.prior else ()

    def touch(self, memory: Global, index: Ints, written: bool) -> None:
        """Elements are read or written."""
        key = (memory.address, memory.itemsize, written)
        if key not in self._touched:
            self._touched[key] = memory, np.zeros(max(memory.high - memory.low + 1, 0), np.bool_)
        table = self._touched[key][1]
        place = index - memory.low
        table[place[(place >= 0) & (place < len(table))]] = True

    def left(self, memory: GlobalMemory, arguments: Sequence[object]) -> tuple[Prior, ...]:
        """This launch and those that may run beside it, for the next."""
        written, read = self._recorded() if self.recording else (_tracked(memory, arguments), [])
        behind = self.after if self.waits else self.prior
        # The next one begins when the last block lets it, or ends: if that block has waited first, so has the next one.
        waited = any((done & ~eager).any() for done, eager in self.parts)
        beside = behind if waited else self.prior
        more = self.dependent and (len(beside) > KEPT or any(prior.more for prior in beside))
        last = Prior(self.name, tuple(written), tuple(read), self.triggers, behind[:KEPT] if self.dependent else (),
                     more)
        return last, *(beside[:KEPT] if self.dependent else ())

    def _recorded(self) -> tuple[list[Spans], list[Spans]]:
        found: tuple[list[Spans], list[Spans]] = [], []
        for (address, size, written), (memory, table) in self._touched.items():
            starts, ends = _runs(table)
            base = address + memory.low * size
            found[0 if written else 1].append(Spans(base + starts * size, base + ends * size,
                                                    (_owner(memory.arg),)))
        return found


class Dependent:
    """The part of one batch of blocks."""

    def __init__(self, launch: Dependence, shared: Threads, threads: int, blocks: int, tell: Tell) -> None:
        self.launch, self.shared, self.tell = launch, shared, tell
        self.shape = threads, blocks
        self.epoch: Ints = np.zeros(self.shape, np.int64)
        """The epoch at which each thread has waited, 0 for not yet."""
        self.told: dict[int, Ints] = {}
        """By engine and block (B,) its first epoch that is not complete before somebody has waited."""
        self.done, self.eager = np.zeros((2, blocks), np.bool_)
        launch.parts.append((self.done, self.eager))

    def wait(self, lanes: Bools | None) -> None:
        """Threads (T, 1 or B) wait until the launches before this one are complete."""
        self.shared.split(lanes)
        clocks = self.shared.clocks
        who = np.broadcast_to(np.ones((1, 1), np.bool_) if lanes is None else lanes, self.shape)
        self.epoch = np.where(who & (self.epoch == 0), clocks.now[clocks.group], self.epoch)
        self.done |= who.any(axis=0)

    def issued(self, loads: Loads, barrier: Buffer, units: Units) -> None:
        """It is known where bulk copies arrive."""
        late = self._behind() if self.launch.prior else None
        for n in np.flatnonzero(late[loads.thread, loads.issuer]).tolist() if late is not None else ():
            # The wait is over for the whole grid: whoever sees what comes after it, in time, is behind it.
            epochs = self.told.setdefault(units.barrier(barrier, int(loads.element[n])),
                                          np.full(self.shape[1], np.iinfo(np.int64).max))
            epochs[loads.block[n]] = min(epochs[loads.block[n]], loads.phase[n] + 1)

    def trigger(self, lanes: Bools | None) -> None:
        """Threads (T, 1 or B) let the launches behind this one begin."""
        who = np.broadcast_to(np.ones((1, 1), np.bool_) if lanes is None else lanes, self.shape)
        self.eager |= (who & ~self._behind()).any(axis=0)

    def access(self, op: ops.Op, memory: Global, index: Ints, size: int, mask: Bools | None, written: bool) -> None:
        """``size`` bytes at each element index (V, T or 1, B or 1) are read or written by the lanes of the mask."""
        full = np.broadcast_to(index, (len(index), *self.shape))
        lanes = np.broadcast_to(np.ones((1, 1, 1), np.bool_) if mask is None else mask, full.shape)
        if self.launch.recording:
            for part in range(size // memory.itemsize):
                self.launch.touch(memory, full[lanes] + part, written)
        if not self.launch.prior:
            return
        late = self._behind()
        for rivals, here in ((self.launch.prior, lanes & ~late), (self.launch.after, lanes & late)):
            if not here.any():
                continue
            address = memory.address + full[here] * memory.itemsize
            for prior in rivals:
                self._against(prior, op, memory, full, here, address, size, written)

    def boxes(self, op: ops.AnyBulk, memory: Global, thread: Ints, block: Ints, index: Ints, inside: Bools) -> None:
        """Bulk copies by these threads read or write the elements (N, V) that are ``inside``."""
        for n, (t, b) in enumerate(zip(thread.tolist(), block.tolist(), strict=True)):
            lanes = np.zeros(self.shape, np.bool_)
            lanes[t, b] = True
            elements = index[n][inside[n]]
            if len(elements):
                self.access(op, memory, elements[:, None, None], memory.itemsize, lanes, op.kind != "load")

    def _behind(self) -> Bools:
        """The threads (T, B) that have waited, or are ordered after one that has, or after a copy that it issued."""
        clocks, waited = self.shared.clocks, self.epoch > 0
        if waited.all() or not waited.any():
            return waited
        columns = np.arange(self.shape[1]) if clocks.columns > 1 else np.zeros(self.shape[1], np.int64)
        seen = clocks.seen[:, clocks.group][:, :, columns]                              # (G, T, B)
        known: Bools = np.logical_or.reduce((seen >= self.epoch) & waited, axis=1)
        behind: Bools = waited | known[clocks.group]
        for engine, epochs in self.told.items():
            behind |= clocks.heard[:, engine][clocks.group][:, columns] >= epochs
        return behind

    def _against(self, prior: Prior, op: ops.Op, memory: Global, index: Ints, here: Bools, address: Ints, size: int,
                 written: bool) -> None:
        spans = [(span, "write") for span in prior.written]
        if written and prior.triggers:
            spans += [(span, "read") for span in prior.read]
        for span, does in spans:
            hit = span.meets(address, size)
            if hit.any():
                where = np.argwhere(here)[hit]
                first = where[np.lexsort((where[:, 1], where[:, 2]))[0]]
                self.tell(op, (int(first[1]), int(first[2])), memory, int(index[tuple(first)]), written, does, prior,
                          int(hit.sum()))
                return


def _runs(table: Array) -> tuple[Ints, Ints]:
    """The first elements of the runs of a table that are true, and those behind them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], table, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _tracked(memory: GlobalMemory, arguments: Sequence[object]) -> list[Spans]:
    """What a launch wrote, as the checker of races keeps it."""
    owners = [(a.memory.ctypes.data, a.memory.ctypes.data + a.memory.nbytes, _owner(a))
              for a in arguments if isinstance(a, TensorArg)]
    found = []
    for tracks in memory.tracked.values():
        region = tracks.region
        held = [tracks.tracks[kind].newest != 0 for kind in (WRITE, ATOMIC) if kind in tracks.tracks]
        if held:
            starts, ends = _runs(np.logical_or.reduce(held))
            mine = tuple(owner for low, high, owner in owners if low < region.end and high > region.start)
            found.append(Spans(region.start + starts * region.unit, region.start + ends * region.unit, mine))
    return found


def _owner(argument: TensorArg) -> Owner:
    """The owner of an argument's memory; for a view, of torch's too, it is the array that was viewed."""
    owner: Any = argument.memory if argument.owner is None else argument.owner
    while hasattr(getattr(owner, "base", None), "__array_interface__"):         # as_strided puts one between
        owner = owner.base
    if type(owner).__module__ == "torch" and getattr(owner, "_base", None) is not None:
        owner = owner._base
    alone = isinstance(owner, np.ndarray) and bool(owner.flags.owndata)
    try:
        return Owner(weakref.ref(owner), alone)
    except TypeError:
        return Owner(lambda: owner, alone)
