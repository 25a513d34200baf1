"""Whether a wait for a phase of an mbarrier is over, in any order of threads, before the next phase is.

In: waits, arrivals, copies, ends of phases, meetings.  Out: threads whose wait may come after the next phase.

A wait tells a phase from the next one alone.  Who asks after phase n + 1 is over takes phase n for one that is still
to come, and waits for ever, or for a phase too many (PTX ISA, mbarrier.test_wait.parity).  So one of the arrivals of
phase n + 1, or of the copies that complete in it, must know that the wait for phase n is over.  The phase before the
first counts as one.

It is about time, not memory.  So who knows a phase to be over knows, too, what those knew who have issued its copies;
and lanes that meet at an instruction of their warp know that the others have come as far.  Warpgroups of kernels with
products are taken to go on together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import Memory
from moye.sim.checks.phase_actors import Actors, Mark

Key = tuple[int, int]
_NONE = -2
"""No phase: -1 is the one before the first."""
_T = TypeVar("_T", bound=np.generic)
_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Meeting:
    """Where the lanes of units have met after waits."""

    joined: Bools           # (2, T, B), the waits that were over
    epoch: Ints             # (2, T, B), of each lane that has met with one


@dataclass(slots=True)
class _Waits:
    """The last wait of each thread for the phases of each parity."""

    number: Ints            # (2, T, B), the phase
    by: Ints                # (2, T, B), the statement
    epoch: Ints             # (2, T, B), of the thread then
    phase: Ints             # (B,), the one under way
    meetings: dict[int, _Meeting]
    """By the size of the units."""
    marks: dict[Mark, Ints] = field(default_factory=dict)
    """(2, T, B): the epoch of an engine from which on whoever has heard of it knows that the wait is over."""

    @classmethod
    def none(cls, threads: int, blocks: int) -> _Waits:
        shape = 2, threads, blocks
        by, epoch = np.zeros((2, *shape), np.int64)
        return cls(np.full(shape, _NONE), by, epoch, np.zeros(blocks, np.int64),
                   {size: _Meeting(np.zeros(shape, np.bool_), np.full(shape, _NEVER)) for size in (WARP, WARPGROUP)})

    def rows(self, table: npt.NDArray[_T], phase: Ints) -> npt.NDArray[_T]:
        """The part (T, B) of a table that is about the phase before this one (B,)."""
        return table[(phase - 1) % 2, :, np.arange(len(phase))].T


class PhaseWaits:
    """The waits at the mbarriers of one batch."""

    def __init__(self, checker: Memory, func: Func) -> None:
        self.checker = checker
        # All warps of a warpgroup have come as far as a product that one of them has waited for.  Where there is none
        # between a wait and the arrival, it is not known here which waits the kernel means to be together.
        self.together = any(isinstance(op, ops.Wgmma) for op in func.body.walk())
        self.kept: dict[Key, _Waits] = {}
        self.statements: list[ops.MbarrierWait] = []
        self.fresh: dict[int, set[Key]] = {WARP: set(), WARPGROUP: set()}
        """The mbarriers that lanes have waited for since their unit has met, by its size."""

    def begun(self, key: Key) -> None:
        """It is initialised."""
        self.kept.pop(key, None)
        for keys in self.fresh.values():
            keys.discard(key)

    def forget(self, lanes: Bools) -> None:
        """These threads (T, B) wait for each other in a way that orders no memory."""
        for kept in self.kept.values():
            kept.number[:, lanes] = _NONE

    # --- what happens ------------------------------------------------------------------------------------------------

    def wait(self, op: ops.MbarrierWait, key: Key, lanes: Bools, phase: Ints) -> None:
        """Threads (T, B) go on after a wait, while ``phase`` (B,) is under way."""
        kept = self.kept.setdefault(key, _Waits.none(*lanes.shape))
        statement = next((i for i, one in enumerate(self.statements) if one is op), len(self.statements))
        self.statements[statement:statement + 1] = [op]
        kept.phase = phase.copy()
        thread, block = np.nonzero(lanes)
        place = (phase[block] - 1) % 2, thread, block
        kept.number[place], kept.by[place] = phase[block] - 1, statement
        kept.epoch[place] = self._now(lanes.shape)[thread, block]
        for mark in kept.marks.values():
            mark[place] = _NEVER
        for size, meeting in kept.meetings.items():
            meeting.joined[place] = False
            self.fresh[size].add(key)
            # The first meeting after a wait counts: it may be one for waits of other lanes for the same phase.
            waited = meeting.joined & (kept.number == (phase - 1))
            for row in np.unique(place[0]).tolist():
                alone = of_units(lanes & ((phase - 1) % 2 == row), size) & ~of_units(waited[row], size)
                meeting.epoch[row, alone] = _NEVER
        if self.together:
            self.meet(of_units(lanes, WARPGROUP), WARPGROUP)

    def meet(self, lanes: Bools | None, size: int) -> None:
        """Lanes (T, B), or all, of each unit of this size have come to one instruction."""
        for key in list(self.fresh[size]):
            kept, meeting = self.kept[key], self.kept[key].meetings[size]
            new = (kept.number != _NONE) & ~meeting.joined
            if lanes is None:
                self.fresh[size].discard(key)
            else:
                new &= lanes
            if not new.any():
                continue
            meeting.joined |= new
            now = self._now(new.shape[1:])
            for row in range(2):
                here = of_units(new[row], size) & (True if lanes is None else lanes)
                meeting.epoch[row] = np.where(here, np.minimum(meeting.epoch[row], now), meeting.epoch[row])

    def arrive(self, key: Key, actors: Actors, phase: Ints) -> None:
        """Threads arrive in ``phase`` (B,), or copy; before they release anything.  What they know of is in time."""
        if (kept := self.kept.get(key)) is None:
            return
        number = kept.rows(kept.number, phase)
        pending = (number == phase - 1) & actors.lanes.any(axis=0)
        if pending.any():
            thread, block = np.nonzero(self._known(kept, phase, pending, actors))
            kept.number[(phase[block] - 1) % 2, thread, block] = _NONE

    def issued(self, mark: Mark, lanes: Bools, epoch: Ints, source: int | None) -> None:
        """Threads (T, B), of blocks of rank ``source``, have copies that are complete at an engine's ``epoch`` (B,).

        Who has heard of it knows what they know now.
        """
        for kept in self.kept.values():
            if source is None:
                self._mark(kept, mark, Actors.at_home(self.checker.clocks, lanes), epoch)
                continue
            at = self._cluster(epoch, source)
            for owner in range(self.checker.cluster):
                self._mark(kept, mark, Actors.between(self.checker.clocks, lanes, source, owner), at)

    def over(self, key: Key, where: Bools) -> tuple[ops.MbarrierWait, tuple[int, int], int] | None:
        """The phase under way is complete in the blocks ``where``.

        A thread that may have missed the phase before, as its wait, (thread, block) and the number of this phase.
        """
        if (kept := self.kept.get(key)) is None:
            return None
        found = None
        late = (kept.rows(kept.number, kept.phase) == kept.phase - 1) & where
        if late.any():
            thread, block = (int(x[0]) for x in np.nonzero(late))
            phase = int(kept.phase[block])
            found = self.statements[kept.by[(phase - 1) % 2, thread, block]], (thread, block), phase
        kept.phase = kept.phase + where
        return found

    # --- who knows of it ---------------------------------------------------------------------------------------------

    def _mark(self, kept: _Waits, mark: Mark, actors: Actors, epoch: Ints) -> None:
        """From this epoch (B,) of an engine on it tells of the waits that the actors know to be over."""
        pending = (kept.rows(kept.number, kept.phase) == kept.phase - 1) & actors.lanes.any(axis=0)
        if not pending.any():
            return
        marks = kept.marks.setdefault(mark, np.full(kept.number.shape, _NEVER))
        pending &= kept.rows(marks, kept.phase) > epoch
        if pending.any():
            thread, block = np.nonzero(self._known(kept, kept.phase, pending, actors))
            marks[(kept.phase[block] - 1) % 2, thread, block] = epoch[block]

    def _known(self, kept: _Waits, phase: Ints, pending: Bools, actors: Actors) -> Bools:
        """Those of the ``pending`` waits (T, B), for the phase before ``phase``, that one of the actors knows of."""
        meetings = {size: (kept.rows(meeting.joined, phase), kept.rows(meeting.epoch, phase))
                    for size, meeting in kept.meetings.items()}
        epoch = kept.rows(kept.epoch, phase)
        found: Bools = pending & actors.home & actors.lanes
        for size, (joined, met) in meetings.items() if actors.home else ():
            found |= pending & joined & of_units(actors.lanes & (met < _NEVER), size)
        for group, where in actors:
            if not (left := pending & ~found & where).any():
                continue
            known = actors.epochs(group)
            found |= left & (epoch <= known)
            for size, (joined, met) in meetings.items():
                found |= left & joined & of_units(met <= known, size)
            for mark, since in kept.marks.items():
                found |= left & (kept.rows(since, phase) <= actors.heard(group, *mark))
        return found

    def _now(self, shape: tuple[int, ...]) -> Ints:
        clocks = self.checker.clocks
        return np.broadcast_to(clocks.now[clocks.group], shape)

    def _cluster(self, values: Ints, rank: int) -> Ints:
        """The value of the block of this rank, for all blocks (B,) of its cluster."""
        return np.repeat(values[rank::self.checker.cluster], self.checker.cluster)


def of_units(lanes: Bools, size: int) -> Bools:
    """The threads (T, B) of units in which one of these is."""
    units = np.logical_or.reduceat(lanes, np.arange(0, len(lanes), size), axis=0)
    return np.repeat(units, size, axis=0)[:len(lanes)]
