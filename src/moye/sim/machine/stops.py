"""Why a simulation ends early: the first finding, a loop without end, blocks that poll what nobody will change.

In: batches that spin, loops.  Out: finding F4, or G4 where blocks that could help have not been admitted; no finding
but ``unsupported`` where only some blocks of the grid run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from moye.ir import ops
from moye.sim.findings.finding import StopSimulation
from moye.sim.findings.wording import Crowd
from moye.sim.flow.groups import Group
from moye.sim.machine.launch import Launch
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of

__all__ = ["StopSimulation", "endless", "stuck"]


class Polling(BatchState, Protocol):
    """Blocks some of which poll memory."""

    spinning: list[Group]
    polled: dict[int, ops.Op]


def endless(batch: BatchState, loop: ops.Op, mask: Mask, why: str) -> None:
    """Report F4: a loop has made as many passes as it may, and goes on, ``why``.  The simulation ends."""
    launch = batch.launch
    lanes = lanes_of(mask, batch.threads, batch.blocks)
    block = int(np.argmax(lanes.any(axis=0)))
    threads = tuple(int(t) for t in np.flatnonzero(lanes[:, block]))
    where = tuple(int(i) for i in batch.block_ids[block])
    raise StopSimulation(launch.reporter.tell("F4", "endless", (loop,), block=where, threads=threads[:1], fatal=True,
                                              here=Crowd(threads, batch.threads), why=why))


def stuck(polling: Sequence[Polling], launch: Launch, admitted: int, total: int) -> None:
    """Report the first block that polls in vain."""
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
    launch.reporter.tell("G4" if admitted < total else "F4", "polls", (batch.polled[group.pc], *(e.op for e in others)),
                         block=where, threads=(thread,), fatal=True, unstarted=total - admitted,
                         others="; ".join(batch.barriers.waits(entry, block) for entry in others))
