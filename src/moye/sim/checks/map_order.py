"""The order that TMA needs of tensor maps in global memory: released, acquired in the block that copies, then used.

In: releases, acquires and copies by such maps, waits for bulk groups.  Out: findings D22.

Copies see a map through a proxy of its own.  They see what was released if a thread of their block acquires it after
the release, and the copies are ordered after that.  A map may be released anew once no copy goes by the old one: its
mbarrier has been waited for, or its thread has waited for a bulk group that it committed behind the copy.  Source: PTX
ISA, memory consistency model, proxies; CUDA C++ Programming Guide, Usage of a modified tensor map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer, Ref
from moye.sim.checks.async_reads import End
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.flag_history import Eye
from moye.sim.checks.global_proxies import GlobalFences
from moye.sim.findings.finding import Reporter

KEPT = 256
"""So many copies by one map are remembered before it is looked which of them are over."""


@dataclass(slots=True)
class Use:
    """A copy by a map: the number of its block and its thread, the bulk group, where it arrives if it is a load."""

    op: ops.TmaCopy
    block: int
    thread: int
    group: int
    ends: list[End] = field(default_factory=list)
    waited: int | None = None
    """The epoch at which its thread had waited for its bulk group."""


@dataclass(frozen=True, slots=True)
class _Deed:
    """A release or an acquire by threads (T,) of a block of one group, at an epoch."""

    block: int
    members: Bools
    epoch: int


@dataclass(slots=True)
class _Slot:
    """A map in global memory: what was released there, and what has happened since."""

    op: ops.TensorMapRelease | None = None
    release: _Deed | None = None
    words: bytes = b""
    acquires: dict[tuple[int, bytes], _Deed] = field(default_factory=dict)
    """The first by each group of a block: who comes after a later one comes after that, too."""
    uses: list[Use] = field(default_factory=list)
    most: int = KEPT
    """At so many copies it is looked next."""


class Maps:
    """The maps of one launch, by their addresses."""

    def __init__(self, proxies: GlobalFences, place: Callable[[int], tuple[int, ...]], reporter: Reporter) -> None:
        self.proxies, self.place, self.reporter = proxies, place, reporter
        self.slots: dict[int, _Slot] = {}


class Threads(Protocol):
    """The shared checker."""

    clocks: Clocks

    def expand(self) -> None: ...


class Overlaps(Protocol):
    """What asks whether a bulk copy is complete."""

    def complete(self, ends: Iterable[End], thread: int, block: int) -> bool: ...


class Units(Protocol):
    """The asynchronous units of the shared checker."""

    def barrier(self, buffer: Buffer, element: int) -> int: ...


class Issued(Protocol):
    """Copies that are issued: of each the mbarrier in the block that receives, its phase; the uses of maps."""

    block: Ints
    element: Ints
    phase: Ints
    uses: list[Use]


class MapOrder:
    """The part of one batch: blocks ``first`` on of those that run."""

    def __init__(self, maps: Maps, shared: Threads, eye: Callable[[int, int], Eye], overlaps: Overlaps,
                 first: int) -> None:
        self.maps, self.shared, self.eye, self.overlaps, self.first = maps, shared, eye, overlaps, first

    # --- what threads do ---------------------------------------------------------------------------------------------

    def released(self, op: ops.TensorMapRelease, key: int, block: int, members: Bools, words: bytes) -> None:
        """The lanes of a warp (T,) of a block of the batch release a map."""
        slot = self.maps.slots.setdefault(key, _Slot())
        late = next((use for use in slot.uses if not self._over(use, block, members)), None)
        if late is not None:
            self._tell("flying", (late.op, op), block, int(np.argmax(members)), op.dst, other=late.op,
                       rival=late.thread, of=self.maps.place(late.block))
        group = int(self.shared.clocks.group[np.argmax(members)])
        self.maps.slots[key] = _Slot(op, _Deed(self.first + block, members, self._epoch(group, block)), words)

    def acquired(self, op: ops.TensorMapAcquire, key: int, block: int, lanes: Bools) -> None:
        """Threads (T,) of a block of the batch acquire a map."""
        slot, clocks = self.maps.slots.setdefault(key, _Slot()), self.shared.clocks
        for group in np.unique(clocks.group[lanes]).tolist():
            members = lanes & (clocks.group == group)
            thread = int(np.argmax(members))
            if slot.release is not None and not self._after(slot.release, self.eye(block, thread)):
                self._tell("early", (slot.op, op), block, thread, op.map, other=slot.op,
                           rival=int(np.argmax(slot.release.members)), of=self.maps.place(slot.release.block))
            deed = _Deed(self.first + block, members, self._epoch(group, block))
            slot.acquires.setdefault((deed.block, members.tobytes()), deed)

    def used(self, op: ops.TmaCopy, key: int, block: int, thread: int, group: int, words: bytes) -> Use:
        """A thread of a block of the batch issues a copy by a map, or fetches it."""
        assert op.map is not None, "it goes by a map of the kernel's"
        slot, use = self.maps.slots.setdefault(key, _Slot()), Use(op, self.first + block, thread, group)
        if slot.op is not None and slot.words != words:
            self._tell("stored", (slot.op, op), block, thread, op.map, other=slot.op)
        elif not self._acquired(slot, self.eye(block, thread)):
            there = any(acquired == use.block for acquired, _ in slot.acquires)
            case = "apart" if there else "unacquired" if slot.op is not None else "old"
            self._tell(case, (slot.op, op), block, thread, op.map, other=slot.op)
        if not op.kind.startswith("prefetch"):
            _remember(slot, use)
        return use

    def issued(self, issued: Issued, barrier: Buffer, units: Units) -> None:
        """It is known where copies arrive."""
        for n, use in enumerate(issued.uses):
            use.ends.append(End(self.first + int(issued.block[n]), units.barrier(barrier, int(issued.element[n])),
                                int(issued.phase[n])))

    def waited(self, lanes: Bools, limit: Ints) -> None:
        """Threads have waited for their bulk groups below ``limit`` (T, B): for their reading of maps, too."""
        for slot in self.maps.slots.values():
            for use in slot.uses:
                column = use.block - self.first
                if use.waited is None and 0 <= column < lanes.shape[1] and lanes[use.thread, column] \
                        and use.group < limit[use.thread, column]:
                    use.waited = self._epoch(int(self.shared.clocks.group[use.thread]), column)

    # --- order -------------------------------------------------------------------------------------------------------

    def _epoch(self, group: int, block: int) -> int:
        clocks = self.shared.clocks
        return int(clocks.now[group, block if clocks.columns > 1 else 0])

    def _acquired(self, slot: _Slot, actor: Eye) -> bool:
        """Whether a thread of the actor's block has acquired the map, and the actor comes after that."""
        return any(number == actor.block and self._after(acquire, actor)
                   for (number, _), acquire in slot.acquires.items())

    def _after(self, deed: _Deed, actor: Eye) -> bool:
        """Whether the actor is one of those who did it, or comes after them."""
        if deed.block == actor.block and deed.members[actor.thread]:
            return True
        return self.maps.proxies.knows(actor, (deed.block, int(np.argmax(deed.members))), deed.epoch)

    def _over(self, use: Use, block: int, members: Bools) -> bool:
        """Whether one of the threads of a warp, which act together, knows that a copy no longer needs its map."""
        groups, firsts = np.unique(self.shared.clocks.group[members], return_index=True)
        threads = np.flatnonzero(members)[firsts].tolist() if len(groups) else []
        if use.block == self.first + block and members[use.thread]:
            threads.append(use.thread)
        return any(self._knows_over(use, block, thread) for thread in threads)

    def _knows_over(self, use: Use, block: int, thread: int) -> bool:
        if use.waited is not None and self.maps.proxies.knows(self.eye(block, thread), (use.block, use.thread),
                                                              use.waited):
            return True
        return bool(use.ends) and self.overlaps.complete(use.ends, thread, self.first + block)

    def _tell(self, case: str, points: tuple[ops.Op | None, ...], block: int, thread: int, ref: Ref,
              **facts: Any) -> None:
        self.maps.reporter.tell("D22", case, points, block=self.maps.place(self.first + block), threads=(thread,),
                                tensor=ref.buffer.name, **facts)


def _remember(slot: _Slot, use: Use) -> None:
    """One copy more by a map; of many those that are the last to be over."""
    slot.uses.append(use)
    if len(slot.uses) < slot.most:
        return
    # Bulk groups of a thread, and the phases of an mbarrier, are complete in their order.
    newest: dict[tuple[object, ...], Use] = {}
    for each in slot.uses[:-1]:                         # the last one has yet to be told where it arrives
        newest[each.block, each.thread, *((end.block, end.engine) for end in each.ends)] = each
    slot.uses[:] = *newest.values(), use
    slot.most = 2 * len(slot.uses) + KEPT
