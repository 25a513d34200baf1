"""Why a simulation ends early: the first finding, or blocks that poll memory which nobody will change.

In: batches that spin.  Out: finding F4, or G4 where blocks that could help have not been admitted; no finding but
``unsupported`` where only some blocks of the grid run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from moye.sim.batch import Batch
from moye.sim.checkers.findings import Finding, StopSimulation
from moye.sim.launch import Launch
from moye.sim.masks import lanes_of

__all__ = ["StopSimulation", "stuck"]


def stuck(polling: Sequence[Batch], launch: Launch, admitted: int, total: int) -> None:
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
    loop = batch.polled[group.pc]
    code, why, hint = "F4", "nobody changes what it waits for", None
    if admitted < total:
        code = "G4"
        why = f"the {total - admitted} blocks that have not started wait for it to end"
        hint = "launch no more blocks than can be resident together"
    others = "; ".join(batch.barriers.waits(entry, block) for entry in batch.barriers.waiting
                       if entry.lanes[:, block].any())
    message = f"thread {thread} of block {where} polls memory forever: {why}" + (f"; {others}" if others else "")
    locs = (loop.loc, *(entry.op.loc for entry in batch.barriers.waiting if entry.lanes[:, block].any()))
    launch.reporter.add(Finding(code, message, locs, where, (thread,), "", None, hint), fatal=True)
