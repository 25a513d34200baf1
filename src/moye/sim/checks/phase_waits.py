"""Whether a wait for a phase of an mbarrier is over, in any order of threads, before the next phase is.

In: waits, arrivals and ends of phases.  Out: threads whose wait nothing orders before the end of the next phase.

A wait tells a phase from the next one alone.  Who asks after phase n + 1 is over takes phase n for one that is still
to come, and waits for ever, or for a phase too many (PTX ISA, mbarrier.test_wait.parity).  So one of the arrivals of
phase n + 1 must know that the wait for phase n is over.  The phase before the first counts as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import Memory

Key = tuple[int, int]
_NONE = -2
"""No phase: -1 is the one before the first."""


@dataclass(slots=True)
class _Waits:
    """The last wait of each unit for the phases of each parity."""

    number: Ints            # (2, U, B), the phase
    thread: Ints            # (2, U, B), who waits
    by: Ints                # (2, U, B), the statement
    epoch: Ints             # (2, T, B), of each thread then
    phase: Ints             # (B,), the one under way


class PhaseWaits:
    """The waits at the mbarriers of one batch.

    The threads of a unit, a warp or a warpgroup with products, are taken to go on together: instructions of the whole
    unit keep them together, without ordering memory.
    """

    def __init__(self, checker: Memory, func: Func) -> None:
        self.checker = checker
        # All warps of a warpgroup have come as far as a product that one of them has waited for.
        size = WARPGROUP if any(isinstance(op, ops.Wgmma) for op in func.body.walk()) else WARP
        self.unit: Ints = np.arange(checker.threads) // size
        self.kept: dict[Key, _Waits] = {}
        self.statements: list[ops.MbarrierWait] = []

    def _of(self, key: Key) -> _Waits:
        if key not in self.kept:
            blocks = self.checker.blocks
            units, threads = (2, int(self.unit[-1]) + 1, blocks), (2, self.checker.threads, blocks)
            self.kept[key] = _Waits(np.full(units, _NONE), np.zeros(units, np.int64), np.zeros(units, np.int64),
                                    np.zeros(threads, np.int64), np.zeros(blocks, np.int64))
        return self.kept[key]

    def begun(self, key: Key) -> None:
        """It is initialised."""
        self.kept.pop(key, None)

    def forget(self, lanes: Bools) -> None:
        """These threads (T, B) wait for each other in a way that orders no memory."""
        for kept in self.kept.values():
            kept.number[:, self._units(lanes)] = _NONE

    def _units(self, lanes: Bools) -> Bools:
        """The units (U, B) of threads (T, B)."""
        return np.logical_or.reduceat(lanes, np.flatnonzero(np.diff(self.unit, prepend=-1)), axis=0)

    def wait(self, op: ops.MbarrierWait, key: Key, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) go on after a wait, while ``phase`` (B,) is under way."""
        kept, clocks, units = self._of(key), self.checker.clocks, self._units(lanes)
        unit, block = np.nonzero(units)
        number = next((i for i, one in enumerate(self.statements) if one is op), len(self.statements))
        self.statements[number:number + 1] = [op]
        kept.phase, row = phase.copy(), (phase[block] - 1) % 2
        kept.number[row, unit, block], kept.by[row, unit, block] = phase[block] - 1, number
        first = np.where(lanes, np.arange(len(lanes))[:, None], len(lanes))
        kept.thread[row, unit, block] = np.minimum.reduceat(
            first, np.flatnonzero(np.diff(self.unit, prepend=-1)), axis=0)[unit, block]
        thread, block = np.nonzero(units[self.unit])
        now = np.broadcast_to(clocks.now[clocks.group], lanes.shape)
        kept.epoch[(phase[block] - 1) % 2, thread, block] = now[thread, block]

    def arrive(self, key: Key, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) arrive in ``phase`` (B,); before they release anything.  What they know of is in time."""
        if key not in self.kept:
            return
        kept, clocks, blocks = self.kept[key], self.checker.clocks, np.arange(self.checker.blocks)
        row, here = (phase - 1) % 2, lanes.any(axis=0)
        number, epoch = kept.number[row, :, blocks].T, kept.epoch[row, :, blocks].T
        if not (waits := (number == phase - 1) & here).any():
            return
        who, column = self.checker.everyone(lanes), np.minimum(blocks, clocks.columns - 1)
        known = lanes.copy()
        for group in np.flatnonzero(clocks.groups_of(who).any(axis=1)).tolist():
            of = (lanes & (clocks.group == group)[:, None]).any(axis=0)
            known |= of & (epoch <= clocks.seen[group][clocks.group][:, column])
        unit, block = np.nonzero(waits & self._units(known))
        kept.number[row[block], unit, block] = _NONE

    def over(self, key: Key, where: Bools) -> tuple[ops.MbarrierWait, tuple[int, int], int] | None:
        """The phase under way is complete in the blocks ``where``.

        A thread that may have missed the phase before, as its wait, (thread, block) and the number of this phase.
        """
        if key not in self.kept:
            return None
        kept, found = self.kept[key], None
        row, blocks = (kept.phase - 1) % 2, np.arange(self.checker.blocks)
        late = (kept.phase - 1 == kept.number[row, :, blocks].T) & where
        if late.any():
            unit, block = (int(x[0]) for x in np.nonzero(late))
            place = int(row[block]), unit, block
            found = self.statements[kept.by[place]], (int(kept.thread[place]), block), int(kept.phase[block])
        kept.phase = kept.phase + where
        return found
