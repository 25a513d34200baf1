"""Lanes that have come to barrier_arrive and wait for their warp: bar.arrive is an instruction of whole warps.

In: groups of lanes that come.  Out: those that arrive together, and the groups that go on with them.

    arrivals.come(op, group, lanes, 1); arrivals.go(arrivals.whole)

A warp some of whose lanes never come arrives in parts once nobody else can move; C5 is told of that where the barrier
opens (meetings.py).  Lanes that are on their way to it are waited for, and if they wait themselves, that is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.flow.absent import path_to
from moye.sim.flow.groups import Group
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.memory import Array

Missing = Callable[[ops.Op, Array], Array]
"""Whom of the lanes (T, B) that have not come to an op, and have not exited, it waits for."""


@dataclass(slots=True)
class Coming:
    """Lanes (T, B) at barrier_arrive; ``group`` says where they go on."""

    op: ops.NamedBarrier
    group: Group
    lanes: Array
    number: int


@dataclass(slots=True)
class Arrived:
    """Lanes (T, B) that arrive together, and the groups that they go on as."""

    op: ops.NamedBarrier
    number: int
    lanes: Array
    groups: list[Group]


class WarpArrivals:
    """The lanes of one batch that wait for their warps."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.coming: list[Coming] = []

    def come(self, op: ops.NamedBarrier, group: Group, lanes: Array, number: int) -> None:
        """These lanes are at the instruction."""
        self.coming.append(Coming(op, Group(group.pc, list(group.env), lanes), lanes, number))

    def go(self, missing: Missing) -> Iterator[Arrived]:
        """The lanes whose warps lack nobody."""
        for key in dict.fromkeys((id(entry.op), entry.number) for entry in self.coming):
            mine = [entry for entry in self.coming if (id(entry.op), entry.number) == key]
            lanes: Array = np.logical_or.reduce([entry.lanes for entry in mine])
            lacking = missing(mine[0].op, ~lanes & ~self.batch.gone())
            free = lanes & ~_of_warps(lacking)
            if free.any():
                yield Arrived(mine[0].op, key[1], free, [self._leave(entry, free) for entry in mine
                                                         if (entry.lanes & free).any()])

    def lacking(self) -> Iterator[tuple[Coming, Array]]:
        """Those that wait, and whom (T, B) of their warps they wait for."""
        for entry in self.coming:
            here = np.logical_or.reduce([e.lanes for e in self.coming if e.op is entry.op and e.number == entry.number])
            yield entry, _of_warps(entry.lanes) & ~here & ~self.batch.gone()

    def _leave(self, entry: Coming, free: Array) -> Group:
        """The part of an entry that goes on."""
        part, rest = entry.lanes & free, entry.lanes & ~free
        group = Group(entry.group.pc, list(entry.group.env), self.batch.normal(part))
        entry.lanes = entry.group.mask = rest
        if not rest.any():
            self.coming = [other for other in self.coming if other is not entry]
        return group


def on_their_way(func: Func, op: ops.Op, elsewhere: list[tuple[ops.Op, Array]]) -> Array | bool:
    """The lanes (T, B) among those that wait elsewhere who come to ``op`` next: it stands behind, in the same block."""
    found: Array | bool = False
    for other, lanes in elsewhere:
        if _leads(func, other, op):
            found = found | lanes
    return found


def _leads(func: Func, first: ops.Op, then: ops.Op) -> bool:
    here, there = path_to(func.body, then), path_to(func.body, first)
    assert here is not None and there is not None, "they are ops of the kernel"
    block, place = here[-1]
    return any(other is block and left < place for other, left in there)


def _of_warps(lanes: Array) -> Array:
    """The threads (T, B) of warps in which one of these is."""
    warps = np.logical_or.reduceat(lanes, np.arange(0, len(lanes), WARP), axis=0)
    return np.repeat(warps, WARP, axis=0)[:len(lanes)]
