"""Whether what is done to an mbarrier belongs to the phase in which the simulator counts it, in any order of threads.

In: arrivals, waits, expected bytes and copies, each with the phase under way; the ends of phases.  Out: findings D8
(an arrival that may come in the phase before its own, a wait that may come a phase too late or too early) and D7 (bytes
that are expected when the phase may be over), told once the blocks have ended, where nothing else has been found: these
faults are often parts of others.

A phase counts arrivals, whoever makes them.  So an arrival of phase n is in its phase for certain only after the end of
phase n - 1: its thread has waited for it or has heard of it, or knows of all arrivals of that phase, if no copies
complete in it (PTX ISA, mbarrier phases).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.clocks import Bools, Clocks, Ints
from moye.sim.checks.engine_records import Boxes, Memory
from moye.sim.checks.phase_actors import Actors, Mark
from moye.sim.checks.phase_waits import PhaseWaits, of_units

Key = tuple[int, int]
_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Expected:
    """A thread expects bytes and does not arrive: in which phase of which block, and its epoch."""

    op: ops.MbarrierArrive
    thread: int
    block: int
    phase: int
    epoch: int
    before: int = -1
    """A thread that arrives in that phase."""


@dataclass(slots=True)
class _Kept:
    """The arrivals of each thread in the phase under way and in the one before it, by the parity of their numbers."""

    epoch: Ints             # (2, R, T, B), by the threads' rank in their cluster
    number: Ints            # (2, R, T, B); -1: none
    copies: Ints            # (2, B), the phase in which copies complete
    phase: Ints             # (B,), the one under way
    engine: int
    """That of the mbarrier."""
    far: Bools
    """(B,): whether threads of other blocks arrive there: then it is not followed which bytes they know of."""
    marks: dict[Mark, Ints] = field(default_factory=dict)
    """(B,): the epoch of an engine from which on whoever has heard of it knows that the phase before is over."""
    older: dict[Mark, Ints] = field(default_factory=dict)
    """The same of the phase before that one."""
    expected: list[_Expected] = field(default_factory=list)

    def known(self, phase: Ints) -> Iterator[tuple[Mark, Ints]]:
        """From which epochs (B,) of engines on it is known that the phase before ``phase`` (B,) is over."""
        yield from self.marks.items()
        for mark, since in self.older.items():
            yield mark, np.where(phase < self.phase, since, _NEVER)


@dataclass(slots=True)
class _Together:
    """What one of its lanes had heard of engines when a warp met last: (W, E, columns), of other ranks (W, R, E, C)."""

    heard: Ints
    far: Ints

    def of(self, warp: int, engine: int, rank: Ints | int, actors: Actors) -> Ints:
        """Up to which epochs (B,) a warp has heard of an engine of the blocks of a rank of its cluster."""
        if engine >= self.heard.shape[1]:               # it is younger
            return np.zeros(len(actors.column), np.int64)
        column = np.minimum(actors.column, self.heard.shape[2] - 1)
        known: Ints = self.heard[warp, engine, column]
        if (actors.source == rank).all():
            return known
        return np.where(actors.source == rank, known, self.far[warp, rank, engine, column])


class PhaseOrder:
    """The mbarriers of one batch."""

    def __init__(self, checker: Memory, engine: Callable[[Buffer, int], int], func: Func) -> None:
        self.checker, self.engine = checker, engine
        # Arrivals of copies by cp.async tell nothing of the bytes that their threads know to be expected.
        self.tells = not any(isinstance(op, ops.MbarrierArrive) and op.copies for op in func.body.walk())
        self.kept: dict[Key, _Kept] = {}
        self.waits = PhaseWaits(checker, func)
        self.together: _Together | None = None
        self.apart = False
        """Whether a part of a warp has waited since."""
        self.doubts: dict[tuple[str, int], Callable[[], None]] = {}
        """What may be told at the end, once for each kind and tensor of mbarriers."""

    def _of(self, buffer: Buffer, element: int) -> _Kept:
        key, shape = (buffer.id, element), (2, self.checker.cluster, self.checker.threads, self.checker.blocks)
        if key not in self.kept:
            self.kept[key] = _Kept(np.zeros(shape, np.int64), np.full(shape, -1, np.int64),
                                   np.full((2, shape[3]), -1, np.int64), np.zeros(shape[3], np.int64),
                                   self.engine(buffer, element), np.zeros(shape[3], np.bool_))
        return self.kept[key]

    # --- what happens ------------------------------------------------------------------------------------------------

    def begun(self, buffer: Buffer, element: int) -> None:
        """It is initialised: phase 0 begins."""
        self.kept.pop((buffer.id, element), None)
        self.waits.begun((buffer.id, element))

    def fill(self, buffer: Buffer, element: int, block: Ints, phase: Ints) -> None:
        """Copies complete in these phases, entry by entry."""
        self._of(buffer, element).copies[phase % 2, block] = phase

    def copy(self, buffer: Buffer, element: int, boxes: Boxes, mine: Bools) -> None:
        """Boxes begin to come, in the phases under way."""
        if self.checker.clocks.coarse:
            return
        lanes = np.zeros((self.checker.threads, self.checker.blocks), np.bool_)
        lanes[boxes.thread[mine], boxes.issuer[mine]] = True
        for rank in np.unique(boxes.block[mine] % self.checker.cluster).tolist():
            here = mine & (boxes.block % self.checker.cluster == rank)
            there, known = np.zeros((2, self.checker.blocks), np.int64)
            there[boxes.block[here]], known[boxes.issuer[here]] = boxes.phase[here], boxes.phase[here] + 1
            to = np.full(lanes.shape, -1, np.int64)
            to[boxes.thread[here], boxes.issuer[here]] = rank
            for actors in self._actors(to >= 0, to):
                self.waits.arrive((buffer.id, element), actors, there)
            self._issued(buffer, element, to >= 0, known, rank)

    def arrive(self, op: ops.MbarrierArrive, element: int, lanes: Bools, phase: Ints, to: Ints | None) -> None:
        """Threads (T, B) arrive, or expect bytes, in the ``phase`` (B,) under way at the mbarriers of their blocks, or
        of those of the ranks ``to`` (T, B); before they release anything."""
        kept, clocks = self._of(op.ref.buffer, element), self.checker.clocks
        if clocks.coarse:
            return
        for actors in self._actors(lanes, to):
            if (phase[actors.lanes.any(axis=0)] > 0).any():
                self._ordered("mixed", op, element, kept, actors, phase)
            if op.arrives:
                self.waits.arrive((op.ref.buffer.id, element), actors, phase)
                self._note(kept, actors, phase)
        if op.copies:
            for rank in range(self.checker.cluster):
                here = lanes & (np.arange(self.checker.blocks) % self.checker.cluster == rank)
                self._issued(op.ref.buffer, element, here, phase + 1, rank)
        if to is not None:
            size, block = self.checker.cluster, np.nonzero(lanes)[1]
            kept.far[block // size * size + to[lanes]] = True
        elif op.arrives:
            self._covered(kept, lanes)
        elif self.tells:
            epoch = clocks.now[clocks.group]
            kept.expected += [_Expected(op, t, b, int(phase[b]), int(epoch[t, min(b, clocks.columns - 1)]))
                              for t, b in np.argwhere(lanes).tolist()]

    def _note(self, kept: _Kept, actors: Actors, phase: Ints) -> None:
        """These threads arrive in ``phase`` (B,)."""
        clocks, (thread, block) = self.checker.clocks, np.nonzero(actors.lanes)
        place = phase[block] % 2, actors.source[block], thread, block
        kept.number[place] = phase[block]
        kept.epoch[place] = clocks.now[clocks.group[thread], actors.column[block]]

    def forget(self, lanes: Bools) -> None:
        """These threads (T, B) wait for each other in a way that orders no memory: what has ended is known to be over.
        """
        blocks = lanes.any(axis=0)
        for kept in self.kept.values():
            kept.number[..., blocks] = -1
            kept.copies[:, blocks] = -1
        self.waits.forget(lanes)

    def before_wait(self, op: ops.AnyPhase, element: int, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) are about to go on after a wait, and know no more yet than when they came; ``phase`` (B,) is
        under way.  What they wait for is the phase before it.

        Who comes before the phase before that one is over finds the parity that it waits for, that of two phases ago.
        """
        if self.checker.clocks.coarse or not isinstance(op, ops.MbarrierWait):
            return
        kept, waited = self._of(op.ref.buffer, element), phase - 1
        for actors in self._actors(lanes, None):
            if (waited[actors.lanes.any(axis=0)] > 0).any():
                self._ordered("early", op, element, kept, actors, waited)

    def wait(self, op: ops.AnyPhase, element: int, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) go on after a wait; ``phase`` (B,) is under way."""
        warps = np.logical_and.reduceat(lanes, np.arange(0, len(lanes), WARP), axis=0)
        self.apart = self.apart or bool((lanes & ~np.repeat(warps, WARP, axis=0)[:len(lanes)]).any())
        if self.waits.together:
            self.met(of_units(lanes, WARP))
        # Who only asks may have something else to do.
        if isinstance(op, ops.MbarrierWait):
            self.waits.wait(op, (op.ref.buffer.id, element), lanes, phase)

    def met(self, lanes: Bools | None) -> None:
        """The lanes (T, B) of each warp have come to one instruction: what one of them knows to be over all do."""
        if not self.apart:
            return
        clocks, before = self.checker.clocks, self.together
        who = np.ones((clocks.groups, 1), np.bool_) if lanes is None else clocks.groups_of(self.checker.everyone(lanes))
        self.apart = lanes is not None and not lanes.all()
        warp = _warps_of(clocks)
        heard = np.zeros((int(warp.max()) + 1, *clocks.heard.shape[1:]), np.int64)
        np.maximum.at(heard, warp, np.where(who[:, None, :], clocks.heard, 0))
        far = np.zeros((len(heard), *clocks.far_heard.shape[1:]), np.int64)
        if clocks.cluster > 1:
            np.maximum.at(far, warp, np.where(who[:, None, None, :], clocks.far_heard, 0))
        if before is not None:
            known = before.heard.shape[1]
            heard[:, :known] = np.maximum(heard[:, :known], before.heard)
            far[:, :, :known] = np.maximum(far[:, :, :known], before.far)
        self.together = _Together(heard, far)

    def over(self, buffer: Buffer, element: int, where: Bools) -> None:
        """A phase is complete in the blocks ``where``."""
        kept = self._of(buffer, element)
        ended = [x for x in kept.expected if where[x.block]]
        kept.expected = [x for x in kept.expected if not where[x.block]]
        for late in ended:
            if late.before >= 0 and not kept.far[late.block]:
                self._doubt("D7", "late", late.op, (buffer, element), (late.thread, late.block), late.phase,
                            late.before)
        kept.phase = kept.phase + where
        for mark, since in kept.marks.items():
            older = kept.older.setdefault(mark, np.full(where.shape, _NEVER))
            older[where], since[where] = since[where], _NEVER
        missed = self.waits.over((buffer.id, element), where)
        if missed is not None and not self.checker.clocks.coarse:
            wait, lane, phase = missed
            self._doubt("D8", "missed", wait, (buffer, element), lane, phase, -1)

    def tell(self) -> None:
        """The blocks have ended: what is in doubt is told, if nothing else has been found."""
        if not self.checker.judge.reporter.findings:
            for doubt in self.doubts.values():
                doubt()
        self.doubts.clear()
        self.kept.clear()

    # --- who comes ---------------------------------------------------------------------------------------------------

    def _actors(self, lanes: Bools, to: Ints | None) -> Iterator[Actors]:
        """These threads (T, B), by their rank and that of the blocks ``to`` whose mbarriers they come to."""
        size, clocks = self.checker.cluster, self.checker.clocks
        if to is None or size == 1:
            yield Actors.at_home(clocks, lanes)
            return
        for source in range(size):
            mine = lanes & (np.arange(self.checker.blocks) % size == source)
            for owner in np.unique(to[mine]).tolist():
                yield Actors.between(clocks, mine & (to == owner), source, owner)

    def _issued(self, buffer: Buffer, element: int, lanes: Bools, epoch: Ints, rank: int) -> None:
        """These threads (T, B) have copies that are complete in a phase of an mbarrier of a rank, ``epoch`` (B,) - 1.
        """
        size, mark = self.checker.cluster, (self.engine(buffer, element), rank)
        for source in range(size):
            mine = lanes & (np.arange(self.checker.blocks) % size == source)
            if mine.any():
                self.waits.issued(mark, mine, epoch, None if size == 1 else source)
        actors = Actors.at_home(self.checker.clocks, lanes)
        for kept in self.kept.values():
            ended = np.zeros(self.checker.blocks, np.bool_)
            for group, where in actors:
                ended |= where & (kept.phase > 0) & self._after(kept, actors, group, kept.phase)[0]
            if ended.any():
                since = kept.marks.get(mark, np.full(ended.shape, _NEVER))
                kept.marks[mark] = np.where(ended, np.minimum(since, epoch), since)

    # --- order -------------------------------------------------------------------------------------------------------

    def _ordered(self, case: str, op: ops.AnyPhase | ops.MbarrierArrive, element: int, kept: _Kept, actors: Actors,
                 phase: Ints) -> None:
        """Doubt arrivals in a phase, or waits for it, that are not ordered after the end of the phase before."""
        for group, where in actors:
            after, missed = self._after(kept, actors, group, phase)
            bad = where & (phase > 0) & ~after
            if bad.any():
                block = int(np.argmax(bad))
                mine = actors.lanes[:, block] & (self.checker.clocks.group == group)
                rank, home = int(actors.source[block]), block - block % self.checker.cluster
                rival = int(np.argmax(missed[rank][:, block])) if missed[rank][:, block].any() else -1
                self._doubt("D8", case, op, (op.ref.buffer, element), (int(np.argmax(mine)), home + rank),
                            int(phase[block]), rival)

    def _after(self, kept: _Kept, actors: Actors, group: int, phase: Ints) -> tuple[Bools, list[Bools]]:
        """The blocks (B,) in which a group knows that the phase before this one is over, and by their rank the threads
        (T, B) of whose arrivals in it the group does not know."""
        clocks, blocks, before = self.checker.clocks, np.arange(self.checker.blocks), (phase - 1) % 2
        mine = actors.lanes & (clocks.group == group)[:, None]
        itself, missed = mine & (mine.sum(axis=0) == 1), list[Bools]()      # a thread knows what it has done itself
        for rank in range(self.checker.cluster):
            there, epoch = kept.number[before, rank, :, blocks].T, kept.epoch[before, rank, :, blocks].T
            unknown = epoch > actors.epochs(group, np.full(len(blocks), rank))
            missed.append((there == phase - 1) & unknown & ~(itself & (actors.source == rank)))
        after: Bools = (kept.copies[before, blocks] != phase - 1) & ~np.logical_or.reduce(missed).any(axis=0)
        after |= actors.heard(group, kept.engine, actors.owner) >= phase
        for mark, since in kept.known(phase):
            after |= since <= actors.heard(group, *mark)
        # Who has met a lane of its warp since that one knew of it, at an instruction that orders no memory, knows, too.
        if (met := self.together) is not None:
            warp = int(_warps_of(clocks)[group])
            after |= met.of(warp, kept.engine, actors.owner, actors) >= phase
            for mark, since in kept.known(phase):
                after |= since <= met.of(warp, *mark, actors)
        return after, missed

    def _covered(self, kept: _Kept, lanes: Bools) -> None:
        """Bytes are expected in time if an arrival of that phase comes after, which the phase needs to be over."""
        clocks, open_ = self.checker.clocks, []
        for late in kept.expected:
            who = np.flatnonzero(lanes[:, late.block])
            column = min(late.block, clocks.columns - 1)
            known = clocks.seen[clocks.group[who], clocks.group[late.thread], column] >= late.epoch
            if not (known | (who == late.thread)).any():
                late.before = int(who[0]) if who.size else late.before
                open_.append(late)
        kept.expected = open_

    def _doubt(self, code: str, case: str, op: ops.Op, of: tuple[Buffer, int], lane: tuple[int, int], phase: int,
               rival: int) -> None:
        judge = self.checker.judge
        self.doubts.setdefault((code, of[0].id), lambda: judge.mbarrier(
            code, case, op, of, lane, (None, rival) if rival >= 0 else None, phase=phase, last=phase - 1,
            value=(phase - 1) % 2, alone=rival < 0))


def _warps_of(clocks: Clocks) -> Ints:
    """The warp of each group."""
    first = np.array([int(np.argmax(clocks.group == group)) for group in range(clocks.groups)])
    return first // clocks.warp
