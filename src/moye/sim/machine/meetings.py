"""Checks that all threads meet that should: C4, C5, C6, F7 of barriers and warp operations that let threads through.

In: the lanes that go on, and those that have not come.  Out: findings.

A thread that has returned before a barrier need not come; one that has gone past it must have come (absent.py tells
them apart).  deadlock.py tells if nobody can go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.traits import Trait
from moye.sim.findings.wording import Crowd, at, bracketed
from moye.sim.flow.absent import Path, gone_past, path_to
from moye.sim.flow.roles import one_role, role_of
from moye.sim.machine.waiters import NAMES, numbers, span_of
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import lanes_of
from moye.sim.values.memory import Array

_FULL = 0xFFFFFFFF
_BARRIERS: dict[type, str] = {ops.SyncThreads: "sync_threads", ops.GridSync: "grid_sync"}


class Entry(Protocol):
    """Lanes (T, B) at a blocking op."""

    op: ops.Op
    lanes: Array


def named_by(op: ops.Op, threads: int) -> Array:
    """The threads whose lane the mask of a warp operation names."""
    bits: int = getattr(op, "mask", _FULL)
    named: Array = (bits >> (np.arange(threads, dtype=np.int64) % WARP) & 1).astype(np.bool_)
    return named


class Meetings:
    """The judge of one batch; it says nothing in unchecked runs."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.paths: dict[int, Path] = {}
        self.reset()

    def reset(self) -> None:
        self.told: Array = np.zeros(self.batch.blocks, np.bool_)
        """The blocks of which a block or cluster barrier has been told: more would follow from it."""
        self.came: dict[int, list[tuple[ops.NamedBarrier, Array]]] = {}
        """The lanes that have arrived at each named barrier since it opened last, by the op."""

    # --- sync_threads ------------------------------------------------------------------------------------------------

    def block(self, entries: Sequence[Entry], complete: Array) -> None:
        """The lanes of these entries meet in the blocks ``complete``."""
        if self.batch.watch is None or self.told[complete].all():
            return
        self._one_point(entries, complete)
        for op, lanes in _by_op(entries):
            here = lanes & complete & ~self.told
            if here.any():
                self._one_pass(op, here)
                self._all_came(op, here, np.logical_or.reduce([entry.lanes for entry in entries]))

    def _one_point(self, entries: Sequence[Entry], complete: Array) -> None:
        """C4 where the threads of one block have reached different barriers, F7 where one is inside of a role."""
        points = _by_op(entries)
        here = np.array([lanes.any(axis=0) for _, lanes in points])
        bad = np.flatnonzero((here.sum(axis=0) > 1) & complete & ~self.told)
        if not len(bad):
            return
        block = int(bad[0])
        met = [(op, numbers(lanes[:, block])) for op, lanes in points if lanes[:, block].any()]
        branch = one_role(self.batch.launch.func, met)
        self._tell("C4" if branch is None else "F7", "points", [*(op for op, _ in met), branch], block,
                   tuple(threads[0] for _, threads in met), branch=branch,
                   met=", ".join(f"{self._crowd(threads)} at {_BARRIERS[type(op)]}{at(op)}" for op, threads in met))
        self.told[bad] = True

    def _one_pass(self, op: ops.Op, lanes: Array) -> None:
        """C4 where the threads of one block are in different passes of a loop around the barrier."""
        for loop, laps in self.batch.laps.around(self._path(op)):
            # Lanes at one barrier op look alike to the counter of the hardware, which cannot tell passes of a loop
            # apart.
            most = np.where(lanes, laps, -1).max(axis=0)
            least = np.where(lanes, laps, np.iinfo(laps.dtype).max).min(axis=0)
            bad = np.flatnonzero(lanes.any(axis=0) & (most != least))
            if not len(bad):
                continue
            block = int(bad[0])
            passes = int(least[block]), int(most[block])
            parts = [numbers(lanes[:, block] & (laps[:, block] == each)) for each in passes]
            few, many = (self._crowd(part) for part in parts)
            self._tell("C4", "passes", [op, loop], block, tuple(part[0] for part in parts), op=op, loop=loop, few=few,
                       many=many, least=passes[0], most=passes[1], name=_BARRIERS[type(op)])
            self.told[bad] = True
            return

    def _all_came(self, op: ops.Op, lanes: Array, arrived: Array) -> None:
        """C4, F7 where threads of the block have gone past the barrier and left."""
        gone = self.batch.gone()
        absent = gone & ~arrived & lanes.any(axis=0)
        if not absent.any():
            return
        missed = self._past(op, lanes, absent)
        bad = np.flatnonzero(missed.any(axis=0))
        if not len(bad):
            return
        block = int(bad[0])
        here, away = numbers(lanes[:, block]), numbers(missed[:, block])
        branch = role_of(self.batch.launch.func, op)
        # Roles are whole warps: if a warp is on both sides, the branch is no choice of roles.
        if branch is not None and {t // WARP for t in here} & {t // WARP for t in away}:
            branch = None
        self._tell("C4" if branch is None else "F7", "past", [op, *self._exits(missed, block), branch], block,
                   (here[0], away[0]), op=op, here=self._crowd(here), branch=branch, name=_BARRIERS[type(op)],
                   **self._left(away, missed, block))
        self.told[bad] = True

    # --- named barriers ----------------------------------------------------------------------------------------------

    def arrives(self, op: ops.NamedBarrier, number: int, lanes: Array) -> None:
        """These lanes arrive at a named barrier."""
        came = self.came.setdefault(number, [])
        for place, (known, before) in enumerate(came):
            if known is op:
                came[place] = (op, before | lanes)
                return
        came.append((op, lanes))

    def lent(self, number: int) -> Array | int:
        """How many lanes of warps that have come to a barrier are not there to come: a warp counts as a whole.

        They are beyond the block, or have returned.
        """
        size, odd = self.batch.threads, -self.batch.threads % WARP
        gone = self.batch.gone()
        if not odd and not gone.any():
            return 0
        total: Array = np.zeros(self.batch.blocks, np.int64)
        for op, lanes in self.came.get(number, ()):
            if odd:
                total += odd * lanes[size // WARP * WARP:].any(axis=0)
            absent = gone & ~lanes & np.repeat(_warps(lanes).any(axis=1), WARP, axis=0)[:size]
            if absent.any():
                total += (absent & ~self._past(op, lanes, absent)).sum(axis=0)
        return total

    def opens(self, number: int, complete: Array) -> None:
        """C5 where a named barrier opens with a part of a warp."""
        size = self.batch.threads
        for op, lanes in self.came.get(number, ()):
            here = lanes & complete
            if self.batch.watch is None or not here.any():
                continue
            warps = _warps(here)
            if not (warps.any(axis=1) & ~warps.all(axis=1)).any():
                continue
            lacking = np.repeat(warps.any(axis=1), WARP, axis=0)[:size] & ~here
            gone = self.batch.gone()
            # A thread that returned without passing the barrier was never to come; the count of its warp allows for it.
            lacking &= ~gone | self._past(op, here, lacking & gone)
            if not lacking.any():
                continue
            block = int(np.argmax(lacking.any(axis=0)))
            warp = int(np.argmax(lacking[:, block])) // WARP
            mine = range(warp * WARP, min(size, warp * WARP + WARP))
            there = [t for t in mine if here[t, block]]
            self._tell("C5", "part", [op], block, (there[0], int(np.argmax(lacking[:, block]))), warp=warp,
                       here=self._crowd(there), number=number)
        self.came[number] = [(op, rest) for op, lanes in self.came.get(number, ()) if (rest := lanes & ~complete).any()]

    # --- warps -------------------------------------------------------------------------------------------------------

    def warp(self, op: ops.Op, lanes: Array) -> None:
        """C6: these lanes meet at a warp operation, without some that have gone past it."""
        if self.batch.watch is None or Trait.MEETS not in op.traits:
            return                                      # of a fence of wgmma E6 is told of the product that follows
        named, size = named_by(op, self.batch.threads)[:, None], self.batch.threads
        if not isinstance(op, ops.Shuffle) and (outside := lanes & ~named).any():
            block = int(np.argmax(outside.any(axis=0)))
            threads = numbers(outside[:, block])
            self._tell("C6", "unnamed", [op], block, threads[:1], here=self._crowd(threads), name=NAMES[type(op)],
                       mask=getattr(op, "mask", _FULL))
        gone = self.batch.gone()
        # Who must come together: a warp, or the four warps of a warpgroup.
        group = np.arange(size) // span_of(op)
        met = np.zeros((int(group[-1]) + 1, self.batch.blocks), np.bool_)
        np.logical_or.at(met, group, lanes)
        absent = gone & named & ~lanes & met[group]
        if not absent.any() or not (missed := self._past(op, lanes, absent)).any():
            return
        block = int(np.argmax(missed.any(axis=0)))
        first = int(group[np.argmax(missed[:, block])])
        here, away = (numbers(x[:, block] & (group == first)) for x in (lanes, missed))
        self._tell("C6", "past", [op, *self._exits(missed, block)], block, (here[0], away[0]), op=op,
                   here=self._crowd(here), name=NAMES[type(op)], **self._left(away, missed, block))

    def masks(self, entries: Sequence[Entry], lanes: Array) -> None:
        """C6 where lanes of one warp meet at sync_warps of different masks."""
        if self.batch.watch is None or len({getattr(entry.op, "mask", _FULL) for entry in entries}) < 2:
            return
        for i, one in enumerate(entries):
            for other in entries[i + 1:]:
                a, b = (getattr(entry.op, "mask", _FULL) for entry in (one, other))
                if a == b or not a & b:
                    continue
                both = np.asarray(_warps(one.lanes & lanes).any(axis=1) & _warps(other.lanes & lanes).any(axis=1))
                if both.any():
                    block = int(np.argmax(both.any(axis=0)))
                    warp = int(np.argmax(both[:, block]))
                    self._tell("C6", "masks", [one.op, other.op], block, (warp * WARP,), warp=warp, one=a, two=b,
                               op=one.op, other=other.op)

    # --- clusters ----------------------------------------------------------------------------------------------------

    def cluster(self, op: ops.ClusterWait, lanes: Array, arrivals: Array, points: Sequence[ops.Op],
                last: Array) -> None:
        """C4: these lanes pass the barrier of their cluster, at which some that have left have not arrived.

        ``arrivals``: how often each thread has; ``last``: where it did last, an index into ``points``.
        """
        gone = self.batch.gone()
        if self.batch.watch is None or not gone.any():
            return
        size = self.batch.cluster.size
        most = np.where(lanes, arrivals, -1).max(axis=0).reshape(-1, size).max(axis=1).repeat(size)
        absent = gone & (arrivals < most) & ~self.told
        for number in np.unique(last[lanes]).tolist() if absent.any() else ():
            at_it = lanes & (last == number)
            near = at_it.any(axis=0).reshape(-1, size).any(axis=1).repeat(size)
            missed = self._past(points[number], at_it, absent & near, far=True)
            if not missed.any():
                continue
            block = int(np.argmax(missed.any(axis=0)))
            home = int(np.argmax(at_it[:, block // size * size:block // size * size + size].any(axis=0)))
            home += block // size * size
            here, away = numbers(at_it[:, home]), numbers(missed[:, block])
            self._tell("C4", "cluster", [points[number], op, *self._exits(missed, block)], home, (here[0], away[0]),
                       op=op, here=self._crowd(here), arrival=points[number], **self._left(away, missed, block))
            self.told[near] = True

    # --- who has gone past -------------------------------------------------------------------------------------------

    def _past(self, op: ops.Op, here: Array, lanes: Array, *, far: bool = False) -> Array:
        """Which of the lanes, which have left, had gone past ``op``, where ``here`` are."""
        path, missed = self._path(op), np.zeros_like(lanes)

        def ahead(loop: ops.Op) -> Array | None:
            laps = self.batch.laps.of.get(id(loop))
            if laps is None:
                return None
            most = np.where(here, laps, 0).max(axis=0)
            return np.asarray(laps - (most.max() if far else most))

        for exit, left in self._departures():
            if (part := lanes & left).any():
                missed |= gone_past(path, None if exit is None else self._path(exit), ahead, part)
        return missed

    def _departures(self) -> Iterator[tuple[ops.Exit | None, Array]]:
        """The places at which threads have left: a return, or None for the end of the kernel."""
        rest = self.batch.gone().copy()
        for op, mask in self.batch.returned.values():
            if mask is not False:
                lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
                rest &= ~lanes
                yield op, lanes
        yield None, rest

    def _path(self, op: ops.Op) -> Path:
        found = self.paths.get(id(op))
        if found is None:
            path = path_to(self.batch.launch.func.body, op)
            assert path is not None, "it is an op of the kernel"
            found = self.paths[id(op)] = path
        return found

    # --- what is told ------------------------------------------------------------------------------------------------

    def _left(self, away: tuple[int, ...], missed: Array, block: int) -> dict[str, Any]:
        """The facts about threads that have gone past, and how they have left."""
        ways = [f"returned{bracketed(op)}" for op in self._exits(missed, block)]
        if any(exit is None and (left & missed)[:, block].any() for exit, left in self._departures()):
            ways.append("come to the end of the kernel")
        return {"away": self._crowd(away), "home": self._name(block), "ways": " or ".join(ways)}

    def _exits(self, missed: Array, block: int) -> list[ops.Op]:
        return [exit for exit, left in self._departures() if exit is not None and (left & missed)[:, block].any()]

    def _crowd(self, threads: Sequence[int]) -> Crowd:
        return Crowd(threads, self.batch.threads)

    def _name(self, block: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.batch.block_ids[block])

    def _tell(self, code: str, case: str, points: Sequence[ops.Op | None], block: int, threads: tuple[int, ...],
              **facts: Any) -> None:
        self.batch.launch.reporter.tell(code, case, points, block=self._name(block), threads=threads, **facts)


def _by_op(entries: Sequence[Entry]) -> list[tuple[ops.Op, Array]]:
    found: dict[int, tuple[ops.Op, Array]] = {}
    for entry in entries:
        before = found.get(id(entry.op))
        found[id(entry.op)] = (entry.op, entry.lanes if before is None else before[1] | entry.lanes)
    return list(found.values())


def _warps(lanes: Array) -> Array:
    """Lanes (T, B) as (warps, 32, B); those beyond the block are as the last one of its warp."""
    odd = -len(lanes) % WARP
    if odd:
        lanes = np.concatenate([lanes, np.repeat(lanes[-1:], odd, axis=0)])
    return lanes.reshape(-1, WARP, lanes.shape[1])
