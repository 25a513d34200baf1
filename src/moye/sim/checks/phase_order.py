"""Whether what is done to an mbarrier belongs to the phase in which the simulator counts it, in any order of threads.

In: arrivals, waits, expected bytes and copies, each with the phase under way; the ends of phases.  Out: findings D8
(an arrival that may come in the phase before its own, a wait that may miss its phase) and D7 (bytes that are expected
when the phase may be over), told once the blocks have ended, where nothing else has been found: these faults are often
parts of others.

A phase counts arrivals, whoever makes them.  So an arrival of phase n is in its phase for certain only after the end of
phase n - 1: its thread has waited for it or has heard of it, or knows of all arrivals of that phase, if no copies
complete in it (PTX ISA, mbarrier phases).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import Memory
from moye.sim.checks.phase_waits import PhaseWaits

Key = tuple[int, int]


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

    epoch: Ints             # (2, T, B)
    number: Ints            # (2, T, B); -1: none
    copies: Ints            # (2, B), the phase in which copies complete
    far: bool = False
    """Whether threads of other blocks arrive, which is not followed."""
    expected: list[_Expected] = field(default_factory=list)


class PhaseOrder:
    """The mbarriers of one batch."""

    def __init__(self, checker: Memory, engine: Callable[[Buffer, int], int], func: Func) -> None:
        self.checker, self.engine = checker, engine
        # Arrivals of copies by cp.async tell nothing of what their threads have waited for.
        self.followed = not any(isinstance(op, ops.MbarrierArrive) and op.copies for op in func.body.walk())
        self.kept: dict[Key, _Kept] = {}
        self.waits = PhaseWaits(checker, func)
        self.doubts: dict[tuple[str, int], Callable[[], None]] = {}
        """What may be told at the end, once for each kind and tensor of mbarriers."""

    def _of(self, buffer: Buffer, element: int) -> _Kept:
        key, shape = (buffer.id, element), (2, self.checker.threads, self.checker.blocks)
        if key not in self.kept:
            self.kept[key] = _Kept(np.zeros(shape, np.int64), np.full(shape, -1, np.int64),
                                   np.full((2, shape[2]), -1, np.int64))
        return self.kept[key]

    # --- what happens ------------------------------------------------------------------------------------------------

    def begun(self, buffer: Buffer, element: int) -> None:
        """It is initialised: phase 0 begins."""
        self.kept.pop((buffer.id, element), None)
        self.waits.begun((buffer.id, element))

    def fill(self, buffer: Buffer, element: int, block: Ints, phase: Ints) -> None:
        """Copies complete in these phases, entry by entry."""
        self._of(buffer, element).copies[phase % 2, block] = phase

    def arrive(self, op: ops.MbarrierArrive, element: int, lanes: Bools, phase: Ints, *, away: bool) -> None:
        """Threads (T, B) arrive, or expect bytes, in the ``phase`` (B,) under way; before they release anything."""
        kept, clocks = self._of(op.ref.buffer, element), self.checker.clocks
        kept.far |= away
        if kept.far or clocks.coarse or not self.followed:
            return
        if (phase[lanes.any(axis=0)] > 0).any():
            self._ordered(op, element, kept, lanes, phase)
        if not op.arrives:
            epoch = clocks.now[clocks.group]
            kept.expected += [_Expected(op, t, b, int(phase[b]), int(epoch[t, min(b, clocks.columns - 1)]))
                              for t, b in np.argwhere(lanes).tolist()]
            return
        self._covered(kept, lanes)
        self.waits.arrive((op.ref.buffer.id, element), lanes, phase)
        block = np.broadcast_to(np.arange(self.checker.blocks), lanes.shape)[lanes]
        place = phase[block] % 2, np.nonzero(lanes)[0], block
        kept.number[place] = phase[block]
        kept.epoch[place] = np.broadcast_to(clocks.now[clocks.group], lanes.shape)[lanes]

    def wait(self, op: ops.AnyPhase, element: int, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) go on after a wait; ``phase`` (B,) is under way."""
        # Who only asks may have something else to do.
        if isinstance(op, ops.MbarrierWait) and self.followed:
            self.waits.wait(op, (op.ref.buffer.id, element), lanes, phase)

    def over(self, buffer: Buffer, element: int, where: Bools) -> None:
        """A phase is complete in the blocks ``where``."""
        kept = self._of(buffer, element)
        ended = [x for x in kept.expected if where[x.block]]
        kept.expected = [x for x in kept.expected if not where[x.block]]
        for late in ended:
            if late.before >= 0 and not kept.far:
                self._doubt("D7", "late", late.op, (buffer, element), (late.thread, late.block), late.phase,
                            late.before)
        missed = self.waits.over((buffer.id, element), where)
        if missed is not None and not kept.far and not self.checker.clocks.coarse:
            wait, lane, phase = missed
            self._doubt("D8", "missed", wait, (buffer, element), lane, phase, -1)

    def tell(self) -> None:
        """The blocks have ended: what is in doubt is told, if nothing else has been found."""
        if not self.checker.judge.reporter.findings:
            for doubt in self.doubts.values():
                doubt()
        self.doubts.clear()
        self.kept.clear()

    # --- order -------------------------------------------------------------------------------------------------------

    def _ordered(self, op: ops.MbarrierArrive, element: int, kept: _Kept, lanes: Bools, phase: Ints) -> None:
        """Doubt arrivals that are not ordered after the end of the phase before."""
        # Who has come as far as a lane of its warp may know it by an operation of the warp, which orders no memory.
        engine, clocks = self.engine(op.ref.buffer, element), self.checker.clocks
        blocks = np.arange(self.checker.blocks)
        column, before = np.minimum(blocks, clocks.columns - 1), (phase - 1) % 2
        there, epoch = phase - 1 == kept.number[before, :, blocks].T, kept.epoch[before, :, blocks].T
        copied = kept.copies[before, blocks] == phase - 1
        heard = clocks.heard[:, engine][:, column]                      # (G, B)
        warp = np.array([int(np.argmax(clocks.group == g)) for g in range(clocks.groups)]) // clocks.warp
        for group in np.flatnonzero(clocks.groups_of(self.checker.everyone(lanes)).any(axis=1)).tolist():
            mine = lanes & (clocks.group == group)[:, None]
            missed = there & (epoch > clocks.seen[group][clocks.group][:, column])
            missed &= ~(mine & (mine.sum(axis=0) == 1))             # a thread knows what it has done itself
            ended = heard[warp == warp[group]].max(axis=0) >= phase
            bad = mine.any(axis=0) & (phase > 0) & ~ended & (copied | missed.any(axis=0))
            if bad.any():
                block = int(np.argmax(bad))
                rival = int(np.argmax(missed[:, block])) if missed[:, block].any() else -1
                self._doubt("D8", "mixed", op, (op.ref.buffer, element), (int(np.argmax(mine[:, block])), block),
                            int(phase[block]), rival)

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
