"""The stages of a pipeline: who acquires them, fills them and releases them, as it happens.

In: waits and arrivals at mbarriers, tensor copies that complete on them.  Out: ``Lapse``, why a copy into a stage is
not ordered after those who use the stage, and ``broken``: barriers of which such a thing has been told.

A stage has a barrier ``full``, on which the copies into it complete, and one ``empty``, at which its readers arrive:
the same element of two tensors of mbarriers, or two elements of one.  Where a kernel has no such pair nothing is said
here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.flow.once import once_per_func

Key = tuple[int, int]
"""A tensor of mbarriers and an element of it."""
KEPT = 16
"""So many waits for each mbarrier, and operations that arrive at it, are remembered."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Lanes (T, B) have passed an mbarrier; ``phase`` (B,) was under way then."""

    moment: int
    op: ops.AnyPhase
    element: int
    lanes: Bools
    phase: Ints


@dataclass(slots=True)
class Arrivals:
    """The last arrival of each thread at an mbarrier, (T, B); moment 0 is none."""

    moment: Ints
    before: Ints
    """The moment of the last but one."""
    epoch: Ints
    """The epoch of the clock of the thread's group."""
    phase: Ints
    op: dict[int, ops.MbarrierArrive] = field(default_factory=dict)
    """The arrivals, by their moment."""


@dataclass(slots=True)
class Fills:
    """The copies that complete on an mbarrier, per block (B,)."""

    phase: Ints
    last: Ints
    before: Ints
    """The moment of the last copy of an earlier phase."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """Why a stage is filled too early.

    ``unacquired``: there was no wait for ``empty`` since it was filled before.  ``stale``: ``wait`` has passed because
    of a phase that had let it pass before.  ``released``: ``arrival`` came before the reader was done.
    """

    kind: OneOf["unacquired", "stale", "released"]
    empty: Buffer
    element: int
    wait: Wait | None = None
    arrival: ops.MbarrierArrive | None = None
    thread: int = -1
    """The thread that has arrived."""
    moment: int = 0
    """The moment of its arrival."""


class Stages:
    """The pipelines of one batch of blocks."""

    def __init__(self, func: Func, threads: int, blocks: int) -> None:
        self.shape = threads, blocks
        self.empty = _pairs(func)
        """The tensor of barriers at which readers arrive, for each tensor of barriers on which copies complete; it may
        be the same."""
        self.copies = _copied(func)
        """The first bulk copy into each shared buffer that only bulk copies write."""
        self.moment = 0
        self.waits: dict[Key, list[Wait]] = {}
        self.arrivals: dict[Key, Arrivals] = {}
        self.fills: dict[Key, Fills] = {}
        self.issued: dict[Key, Ints] = {}
        """The moment of the last product of each group, by warpgroup and group, (B,)."""
        self.broken: dict[int, str] = {}
        self.again = _again(func)
        self.passed: dict[Key, Ints] = {}
        """The epoch at which each thread last passed a wait, (T, B), of barriers that may be initialised again."""
        self.reached: dict[Key, Ints] = {}
        """The same of arrivals, but for those of copies, which come later."""

    # --- what happens ------------------------------------------------------------------------------------------------

    def wait(self, op: ops.AnyPhase, element: int, lanes: Bools, phase: Ints, epoch: Ints) -> None:
        self.moment += 1
        key = op.ref.buffer.id, element
        if op.ref.buffer.id in self.again:
            self.passed[key] = np.where(lanes, epoch, self.passed.get(key, 0))
        kept = self.waits.setdefault(key, [])
        kept.append(Wait(self.moment, op, element, lanes, phase.copy()))
        del kept[:-KEPT]

    def arrive(self, op: ops.MbarrierArrive, element: int, lanes: Bools, epoch: Ints, phase: Ints) -> None:
        self.moment += 1
        key = (op.ref.buffer.id, element)
        if op.ref.buffer.id in self.again and not op.copies:
            self.reached[key] = np.where(lanes, epoch, self.reached.get(key, 0))
        if key not in self.arrivals:
            moment, before, epoch, number = (np.zeros(self.shape, np.int64) for _ in range(4))
            self.arrivals[key] = Arrivals(moment, before, epoch, number)
        last = self.arrivals[key]
        last.before[lanes] = last.moment[lanes]
        last.moment[lanes] = self.moment
        last.epoch = np.where(lanes, epoch, last.epoch)
        last.phase = np.where(lanes, phase, last.phase)
        last.op[self.moment] = op
        if len(last.op) > KEPT:
            del last.op[min(last.op)]

    def fill(self, full: Buffer, element: int, block: Ints, phase: Ints) -> None:
        """Copies that complete in this phase of the barrier begin, entry by entry."""
        self.moment += 1
        key, blocks = (full.id, element), self.shape[1]
        if key not in self.fills:
            self.fills[key] = Fills(np.full(blocks, -1, np.int64), *np.zeros((2, blocks), np.int64))
        fills = self.fills[key]
        new = block[fills.phase[block] != phase]
        fills.before[new] = fills.last[new]
        fills.phase[block], fills.last[block] = phase, self.moment

    def product(self, warpgroup: int, block: Ints, group: Ints) -> None:
        """A warpgroup issues products, entry by entry."""
        for number in np.unique(group).tolist():
            moments = self.issued.setdefault((warpgroup, number), np.zeros(self.shape[1], np.int64))
            moments[block[group == number]] = self.moment

    def tell(self, buffer: int, code: str) -> None:
        """A fault of this tensor of barriers has been reported; what follows from it need not be."""
        self.broken.setdefault(buffer, code)
        if buffer in self.empty:
            self.broken.setdefault(self.empty[buffer].id, code)

    # --- questions ---------------------------------------------------------------------------------------------------

    def readers(self, full: int, element: int) -> tuple[Buffer, int] | None:
        """The barrier at which the readers of a stage arrive.

        In a tensor that holds both, the elements on which copies have completed are paired with the others, in order.
        All stages have been filled when the first of them is filled again.
        """
        empty = self.empty.get(full)
        if empty is None or empty.id != full:
            return None if empty is None else (empty, element)
        filled = sorted(other for number, other in self.fills if number == full)
        rest = [other for other in range(empty.elements or 0) if other not in filled]
        paired = len(filled) == len(rest) and element in filled
        return (empty, rest[filled.index(element)]) if paired else None

    def refilled(self, full: Buffer, element: int, thread: int, block: int) -> Lapse | None:
        """Why a thread may not begin to fill the stage: it has arrived at ``full`` just now, and once in this phase."""
        arrivals = self.arrivals.get((full.id, element))
        since = 0 if arrivals is None else int(arrivals.before[thread, block])
        lapse, wait = self._acquired(full, element, thread, block, since)
        return lapse if wait is None else self.arrived(wait, block, slice(0, None))

    def filled(self, full: Buffer, element: int, thread: int, block: int) -> tuple[Lapse | None, Wait | None]:
        """Why a thread may not issue the copies that it has just issued; or by which wait it has the stage."""
        fills = self.fills.get((full.id, element))
        since = 0 if fills is None else int(fills.before[block])
        return self._acquired(full, element, thread, block, since)

    def _acquired(self, full: Buffer, element: int, thread: int, block: int,
                  since: int) -> tuple[Lapse | None, Wait | None]:
        readers = self.readers(full.id, element) if since else None
        if readers is None:                             # or nothing was there before
            return None, None
        empty, at = readers
        waits = [wait for wait in self.waits.get((empty.id, at), ()) if wait.lanes[:, block].any()]
        if not waits or waits[-1].moment <= since:
            return Lapse("unacquired", empty, at), None
        own = [wait for wait in waits if wait.lanes[thread, block]]
        if not own or own[-1].moment <= since:          # another thread has: how the two are ordered is not known here
            return None, None
        before = [int(wait.phase[block]) for wait in own if wait.moment <= since]
        # A wait by parity passes without blocking if that phase was over long ago: the stage has not been released
        # anew.
        if int(own[-1].phase[block]) == (before[-1] if before else 0):
            return Lapse("stale", empty, at, own[-1]), None
        return None, own[-1]

    def used(self, full: Buffer, block: int) -> dict[int, Wait]:
        """The stages that somebody has waited for, if each stage was filled once and no more; else none.

        Nor is it a matter of too few tiles where somebody has waited for one stage twice.
        """
        found: dict[int, Wait] = {}
        for element in range(full.elements or 0):
            fills = self.fills.get((full.id, element))
            if fills is None or fills.phase[block] != 0:
                return {}
            waits = [wait for wait in self.waits.get((full.id, element), ()) if wait.lanes[:, block].any()]
            if waits:
                if (np.add.reduce([wait.lanes[:, block] for wait in waits], dtype=np.int64) > 1).any():
                    return {}
                found[element] = waits[0]
        return found

    def released(self, wait: Wait, thread: Ints, block: Ints, epoch: Ints) -> tuple[int, Lapse] | None:
        """The first entry whose thread has arrived before this epoch in the phase that has let ``wait`` pass."""
        arrivals = self.arrivals.get((wait.op.ref.buffer.id, wait.element))
        if arrivals is None:
            return None
        found = (arrivals.moment[thread, block] > 0) & (arrivals.epoch[thread, block] < epoch) & \
            (arrivals.phase[thread, block] == wait.phase[block] - 1)
        i = int(np.argmax(found))
        op = arrivals.op.get(int(arrivals.moment[thread[i], block[i]]))
        if not found.any() or op is None:
            return None
        return i, Lapse("released", wait.op.ref.buffer, wait.element, wait, op, int(thread[i]))

    def last_wait(self, key: Key, thread: int, block: int) -> Wait | None:
        """The thread's last wait for an mbarrier."""
        for wait in reversed(self.waits.get(key, ())):
            if wait.lanes[thread, block]:
                return wait
        return None

    def last_of(self, buffer: int, thread: int, block: int) -> Wait | None:
        """The thread's last wait for any mbarrier of a tensor."""
        found = [wait for number, element in self.waits if number == buffer
                 if (wait := self.last_wait((number, element), thread, block)) is not None]
        return max(found, key=lambda wait: wait.moment, default=None)

    def arrived(self, wait: Wait, block: int, among: slice) -> Lapse | None:
        """The last of some threads to arrive in the phase that has let ``wait`` pass."""
        arrivals = self.arrivals.get((wait.op.ref.buffer.id, wait.element))
        if arrivals is None:
            return None
        there = arrivals.phase[among, block] == wait.phase[block] - 1
        moments = np.where(there, arrivals.moment[among, block], 0)
        return _last((wait.op.ref.buffer, wait.element), arrivals, moments, among, wait)

    def since(self, full: int, element: int, block: int, among: slice, moment: int) -> Lapse | None:
        """Those of some threads that have arrived at ``empty`` after this moment."""
        empty = self.readers(full, element)
        arrivals = None if empty is None else self.arrivals.get((empty[0].id, empty[1]))
        if empty is None or arrivals is None:
            return None
        moments = arrivals.moment[among, block]
        return _last(empty, arrivals, np.where(moments > moment, moments, 0), among, None)


def _last(empty: tuple[Buffer, int], arrivals: Arrivals, moments: Ints, among: slice,
          wait: Wait | None) -> Lapse | None:
    i = int(np.argmax(moments))
    op = arrivals.op.get(int(moments[i]))
    return None if op is None else Lapse("released", *empty, wait, op, among.start + i, int(moments[i]))


@once_per_func
def _pairs(func: Func) -> dict[int, Buffer]:
    """Pair the tensors of barriers on which copies complete with those at which readers arrive.

    Tensors with equally many barriers are paired in order; a single one belongs to all.  A tensor without such a
    partner may hold the barriers of both sides, unless the filler arrives as readers do.
    """
    walked = list(func.body.walk())
    full = {op.barrier.buffer.root for op in walked
            if isinstance(op, ops.AnyBulk) and op.kind == "load" and op.barrier is not None}
    full |= {op.ref.buffer for op in walked if isinstance(op, ops.MbarrierArrive) and op.copies}
    released = {op.ref.buffer for op in walked
                if isinstance(op, ops.MbarrierArrive) and op.arrives and op.bytes is None and not op.copies}
    # expect_tx without an arrival: the filler and the readers do not arrive alike, so one tensor cannot serve both.
    apart = {op.ref.buffer for op in walked if isinstance(op, ops.MbarrierArrive) and not op.arrives}
    both, released = (full & released) - apart, released - full
    found: dict[int, Buffer] = {}
    for count in {buffer.elements for buffer in full}:
        these, those = (sorted((b for b in group if b.elements == count), key=lambda b: b.id)
                        for group in (full, released))
        if len(those) == 1:
            those *= len(these)
        if len(these) == len(those):
            found |= {a.id: b for a, b in zip(these, those, strict=True)}
    return {buffer.id: buffer for buffer in both} | found


_Uses = ops.AnyPhase | ops.MbarrierArrive


@once_per_func
def _again(func: Func) -> set[int]:
    """The tensors of mbarriers whose initialisation comes after a wait or an arrival, or is in one loop with one."""
    found, used = set[int](), set[int]()
    for op in func.body.walk():
        if isinstance(op, _Uses):
            used.add(op.ref.buffer.id)
        elif isinstance(op, ops.MbarrierInit) and op.ref.buffer.id in used:
            found.add(op.ref.buffer.id)
        elif isinstance(op, (ops.For, ops.Loop)):
            inside = list(op.body.walk())
            found |= {x.ref.buffer.id for x in inside if isinstance(x, ops.MbarrierInit)} & \
                {x.ref.buffer.id for x in inside if isinstance(x, _Uses)}
    return found


@once_per_func
def _copied(func: Func) -> dict[int, ops.AnyBulk]:
    walked = list(func.body.walk())
    loads = [op for op in walked if isinstance(op, ops.AnyBulk) and op.kind == "load"]
    copies = {op.smem.buffer.id: op for op in reversed(loads) if op.smem is not None}
    loading = {id(op) for op in loads}
    others = {ref.buffer.root.id for op in walked if id(op) not in loading for ref, written in op.refs() if written}
    # Once threads write a buffer too, what was there before a copy says nothing about stages.
    return {number: op for number, op in copies.items() if number not in others}
