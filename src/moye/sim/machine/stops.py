"""Why a simulation ends early: the first finding, a loop without end, blocks that poll what nobody will change.

In: batches that spin, loops.  Out: finding F4, or G4 where blocks that could help have not been admitted, or blocks
that meet are too many to be resident together; no finding
but ``unsupported`` where only some blocks of the grid run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from moye.ir import ops
from moye.sim.findings.finding import StopSimulation
from moye.sim.findings.wording import Crowd
from moye.sim.flow.groups import Group
from moye.sim.machine.launch import Launch
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of

__all__ = ["StopSimulation", "Turns", "endless", "stuck"]


class Polling(BatchState, Protocol):
    """Blocks some of which poll memory."""

    spinning: list[Group]
    polled: dict[int, ops.Op]


def endless(batch: BatchState, loop: ops.Op, mask: Mask, why: str = "", *, case: str = "endless",
            **facts: Any) -> None:
    """Report F4: a loop has made as many passes as it may, and goes on, ``why``; or it goes round.  The simulation
    ends."""
    launch = batch.launch
    lanes = lanes_of(mask, batch.threads, batch.blocks)
    block = int(np.argmax(lanes.any(axis=0)))
    threads = tuple(int(t) for t in np.flatnonzero(lanes[:, block]))
    where = tuple(int(i) for i in batch.block_ids[block])
    raise StopSimulation(launch.reporter.tell("F4", case, (loop,), block=where, threads=threads[:1], fatal=True,
                                              here=Crowd(threads, batch.threads), why=why, **facts))


def crowded(launch: Launch, most: int) -> bool:
    """Whether blocks that meet cannot all be there, which is told: G4, or nothing is judged if only some shall run."""
    point = next(op for op in launch.func.body.walk() if isinstance(op, ops.GridSync))
    blocks = math.prod(launch.grid)
    if launch.total < blocks:
        launch.unsupported.append(f"all blocks meet at grid_sync (line {point.loc.line}), and only {launch.total} of "
                                  f"{blocks} blocks run")
        return True
    if blocks <= most:
        return False
    sms = launch.hooks.hardware.multiprocessors
    launch.reporter.tell("G4", "grid", (point,), block=(0, 0, 0), threads=(0,), fatal=True, blocks=blocks, most=most,
                         each="" if most % sms else str(most // sms), sms=sms)
    return True


def stuck(polling: Sequence[Polling], launch: Launch, admitted: int, total: int, looks: int = 0) -> None:
    """Report the first block that polls in vain; after so many ``looks`` if threads write, and come back to one state.
    """
    batch = polling[0]
    group = batch.spinning[0]
    lanes = lanes_of(group.mask, batch.threads, batch.blocks)
    thread, block = (int(i) for i in np.argwhere(lanes.T)[0][::-1])
    if launch.hooks.sample is not None:
        where = tuple(int(i) for i in batch.block_ids[block])
        launch.unsupported.append(f"block {where} polls memory (line {batch.polled[group.pc].loc.line}), which a block "
                                  f"that did not run may have had to change: only {total} of "
                                  f"{math.prod(launch.grid)} blocks run")
        return
    where = tuple(int(i) for i in batch.block_ids[block])
    others = [entry for entry in batch.barriers.waiting if entry.lanes[:, block].any()]
    if looks and admitted == total:
        endless(batch, batch.polled[group.pc], group.mask, case="round", looks=looks)
    launch.reporter.tell("G4" if admitted < total else "F4", "polls", (batch.polled[group.pc], *(e.op for e in others)),
                         block=where, threads=(thread,), fatal=True, unstarted=total - admitted,
                         others="; ".join(batch.barriers.waits(entry, block) for entry in others))


# --- how long loops may go on ----------------------------------------------------------------------------------------

MANY, WATCHED = 100, 500
"""How many more passes may be left than made; after how many passes it is asked whether a ``while`` goes round."""


class Turns:
    """The passes of the loops of one batch, as generated code begins (or, where lanes meet inside, ends) each of them.

    A ``while`` ends after ``steps`` passes (MOYE_STEPS).  A ``for`` has a given number of them, and ends where, after
    as many, MANY times as many are left.  Nor may loops, taken together, make MANY times as many passes that change no
    memory: they may be nested.  A ``while`` whose passes break rules ends after a hundredth of ``steps`` such passes:
    what it reads out of bounds may never end it, and the findings are wanted.  A ``while`` in which lanes meet is
    ``watched`` once it has made many passes: its blocks may have come back to what they were.
    """

    def __init__(self, batch: BatchState) -> None:
        self.batch, self.steps = batch, batch.launch.hooks.steps
        self.reset()

    def reset(self) -> None:
        self.idle, self.writes = 0, -1
        """Passes since memory was changed last."""
        self.passes: dict[tuple[int, int], int] = {}
        """The passes of loops in which lanes meet, by the loop and the first lane in it."""
        self.watched: ops.Loop | None = None
        """The loop of which a pass has just ended, if it is watched."""
        self.broken: dict[tuple[int, int], tuple[int, int]] = {}
        """Of a ``while``, by the same: what had been told when its last pass began, and how many told more."""

    def enter(self, loop: ops.Op, mask: Mask) -> None:
        """Lanes come to a loop in which they meet."""
        self.passes.pop((id(loop), _first(mask)), None)

    def meet(self, loop: ops.Op, mask: Mask, value: Any = None, stop: Any = None, step: Any = 1) -> None:
        """Lanes have made a pass of it."""
        if mask is not False:
            key = (id(loop), _first(mask))
            passes = self.passes[key] = self.passes.get(key, 0) + 1
            self.turn(loop, passes, mask, value, stop, step)
            if passes >= WATCHED and isinstance(loop, ops.Loop):
                self.watched = loop

    def made(self, loop: ops.Op, mask: Mask) -> int:
        """How many passes of a loop in which they meet the lanes have made."""
        return self.passes[id(loop), _first(mask)]

    def turn(self, loop: ops.Op, passes: int, mask: Mask, value: Any = None, stop: Any = None, step: Any = 1) -> None:
        """The lanes are in this pass of a loop; of a ``for`` the variable, its bound and its step."""
        launch = self.batch.launch
        if launch.writes != self.writes:
            self.writes, self.idle = launch.writes, 0
        self.idle += 1
        if self.idle > MANY * self.steps:
            endless(self.batch, loop, mask, f"though {self.idle - 1} passes, with those of the loops around it, have "
                    "changed no memory")
        if stop is None and launch.reporter.told:
            self._breaks_rules(loop, passes, mask)
        if passes > self.steps:
            self._long(loop, passes, mask, value, stop, step)

    def _breaks_rules(self, loop: ops.Op, passes: int, mask: Mask) -> None:
        key, told = (id(loop), _first(mask)), self.batch.launch.reporter.told
        before, broken = self.broken.get(key, (told, 0)) if passes > 1 else (told, 0)
        broken += told > before
        self.broken[key] = told, broken
        if broken > self.steps / MANY:
            endless(self.batch, loop, mask, f"after {passes - 1} passes, in {broken} of which there were findings")

    def _long(self, loop: ops.Op, passes: int, mask: Mask, value: Any, stop: Any, step: Any) -> None:
        if stop is None:
            endless(self.batch, loop, mask, f"after {passes - 1} passes, and nothing has ended it")
        elif passes % self.steps == 1 or self.steps == 1:
            left = int(np.max((np.asarray(stop, object) - np.asarray(value, object)) // np.asarray(step, object)))
            if left > MANY * self.steps:
                endless(self.batch, loop, mask, f"after {passes - 1} passes, and {left} are left")


def _first(mask: Mask) -> int:
    """The first lane of a mask, as a number."""
    return 0 if mask is None else int(np.argmax(mask))
