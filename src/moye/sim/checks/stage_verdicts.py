"""Findings about the stages of a pipeline: filled before they are acquired, read after they are released.

In: clashes of tensor copies and of reads in a stage, and what stages.py knows.  Out: findings F1; D6 and D8 where a
wait was left out or for another phase.

It does not decide whether two accesses are ordered; whoever asks has found that they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checks.shared_records import Shadow, epoch_of, op_of
from moye.sim.checks.shared_verdicts import Clashes
from moye.sim.checks.stages import Lapse, Stages, Wait
from moye.sim.findings.codes import hint
from moye.sim.findings.wording import at


class Tells(Protocol):
    """Who reports, and knows the words for an element."""

    def add(self, code: str, message: str, points: Sequence[ops.Op | None], block: int, threads: tuple[int, ...],
            shadow: Shadow | None, unit: int, count: int, *, tensor: str = "", mend: str = "") -> None: ...
    def block(self, column: int) -> tuple[int, ...]: ...
    def what(self, shadow: Shadow, clashes: Clashes, i: int) -> str: ...
    def op(self, clashes: Clashes, i: int) -> ops.Op | None: ...


class StageJudge:
    """What is wrong with the use of a stage."""

    def __init__(self, tells: Tells, stages: Stages) -> None:
        self.tells, self.stages = tells, stages

    # --- who fills ---------------------------------------------------------------------------------------------------

    def refilled(self, op: ops.MbarrierArrive, stage: int, thread: int, block: int) -> None:
        """F1, or D8 where a wait was for another phase: a thread expects a tile in a stage where it expects one."""
        full = op.ref.buffer
        lapse = self.stages.refilled(full, stage, thread, block)
        if lapse is not None and full.id not in self.stages.broken:
            head = f"thread {thread} of block {self.tells.block(block)} begins to fill the stage of"
            self._lapse(lapse, f"{head} {full.name}({stage}) again", op, full, thread, block, None, 0, 1)

    def unacquired(self, shadow: Shadow, op: ops.AnyBulk, clashes: Clashes, i: int, count: int, stage: int) -> bool:
        """F1 and D8 of a copy into a stage that somebody may still use; whether it is told."""
        full, thread, block = _full(op), int(clashes.actor[i]), int(clashes.block[i])
        if full.id in self.stages.broken:
            return True
        lapse, _ = self.stages.filled(full, stage, thread, block)
        if lapse is None:
            return False
        self._lapse(lapse, f"{self.tells.what(shadow, clashes, i)} is filled again by thread {thread}", op, full,
                    thread, block, shadow, int(clashes.unit[i]), count)
        return True

    def _lapse(self, lapse: Lapse, head: str, op: ops.Op, full: Buffer, thread: int, block: int,
               shadow: Shadow | None, unit: int, count: int) -> None:
        """Nobody has waited for the readers, or they for the tile, or a wait was for the wrong phase."""
        name = f"{lapse.empty.name}({lapse.element})"
        if lapse.kind == "released":
            message = (f"{head}{at(op)}, but thread {lapse.thread} has released it{at(lapse.arrival)} with no wait for "
                       f"the tile that was there")
            self.tells.add("F1", message, [lapse.arrival, op], block, (lapse.thread, thread), shadow, unit, count,
                           tensor=full.name, mend=hint("F1", "release"))
        elif lapse.wait is None:
            message = (f"{head}{at(op)}, but nobody has waited for {name}, where it is released, since it was filled "
                       f"before")
            self.tells.add("F1", message, [op], block, (thread,), shadow, unit, count,
                           tensor=full.name, mend=hint("F1", "acquire"))
        else:
            message = (f"{head}{at(op)}, but nobody has released it since it was filled before: the wait"
                       f"{at(lapse.wait.op)} for {name} passes because {passed(lapse.wait, block)}")
            self.tells.add("D8", message, [lapse.wait.op, op], block, (thread,), shadow, unit, count, tensor=full.name)
        self.stages.tell(full.id, "F1")

    def unseen(self, shadow: Shadow, op: ops.AnyBulk, clashes: Clashes, i: int, stage: int) -> bool:
        """F1 where who released a stage had not waited for the tile in it; whether it is told."""
        block, copier, full = int(clashes.block[i]), int(clashes.actor[i]), _full(op)
        _, wait = self.stages.filled(full, stage, copier, block)
        lapse = None if wait is None else self.stages.arrived(wait, block, slice(0, None))
        if lapse is None:
            return False
        self._lapse(lapse, f"{self.tells.what(shadow, clashes, i)} is filled again by thread {copier}", op, full,
                    copier, block, shadow, int(clashes.unit[i]), 1)
        return True

    def early(self, shadow: Shadow, op: ops.AnyBulk, clashes: Clashes, i: int, stage: int) -> bool:
        """F1 where a reader has released the stage and reads it then; whether it is told."""
        _, wait = self.stages.filled(_full(op), stage, int(clashes.actor[i]), int(clashes.block[i]))
        same = np.flatnonzero(op_of(clashes.record) == op_of(clashes.record[i:i + 1]))
        found = None if wait is None else self.stages.released(
            wait, clashes.thread[same], clashes.block[same], epoch_of(clashes.record[same]))
        if wait is None or found is None:
            return False
        i, lapse = int(same[found[0]]), found[1]
        reader, copier, other = int(clashes.thread[i]), int(clashes.actor[i]), self.tells.op(clashes, i)
        message = (f"{self.tells.what(shadow, clashes, i)} is read by thread {reader}{at(other)} after "
                   f"{released(lapse, reader)}, for which thread {copier} waits before it fills the "
                   f"stage again{at(op)}")
        self.tells.add("F1", message, [lapse.arrival, other, op], int(clashes.block[i]), (reader, copier), shadow,
                       int(clashes.unit[i]), len(same), mend=hint("F1", "release"))
        self.stages.tell(_full(op).id, "F1")
        return True

    def unused(self, op: ops.AnyBulk, stage: int, thread: int, block: int) -> bool:
        """F2 of a copy that nobody waits for when the block ends; whether it is told."""
        full, smem = _full(op), op.smem
        used = self.stages.used(full, block)
        if not used or stage in used or smem is None:
            return False
        rest = [f"{full.name}({element})" for element in range(full.elements or 0) if element not in used]
        named = f"{', '.join(rest[:-1])} and {rest[-1]}" if len(rest) > 1 else rest[0]
        message = (f"block {self.tells.block(block)} fills all {full.elements} stages of {smem.buffer.name}{at(op)}, "
                   f"and has {len(used)} k-tile{'s' if len(used) > 1 else ''}: nobody waits for {named}, and the block "
                   f"ends while copies into the stage{'s' if len(rest) > 1 else ''} are under way")
        self.tells.add("F2", message, [op, used[min(used)].op], block, (thread,), None, 0, 1, tensor=smem.buffer.name)
        return True

    # --- who reads ---------------------------------------------------------------------------------------------------

    def late(self, shadow: Shadow, op: ops.Op, clashes: Clashes, i: int, count: int, full: tuple[int, int]) -> bool:
        """F1 of a read while the next copy into the stage is under way; whether it is told."""
        thread, block = int(clashes.actor[i]), int(clashes.block[i])
        wait = self.stages.last_wait(full, thread, block)
        lapse = None if wait is None else self.stages.since(*full, block, _mates(op, thread), wait.moment)
        if lapse is None:
            return False
        copy = self.tells.op(clashes, i)
        message = (f"{self.tells.what(shadow, clashes, i)} is read by thread {thread}{at(op)} after "
                   f"{released(lapse, thread)}, and the copy{at(copy)} may have overwritten it")
        self.tells.add("F1", message, [lapse.arrival, op, copy], block, (thread,), shadow, int(clashes.unit[i]), count,
                       mend=hint("F1", "release"))
        self.stages.tell(full[0], "F1")
        return True

    def unfilled(self, shadow: Shadow, op: ops.Op, clashes: Clashes) -> bool:
        """D6 and D8 of a read where the copy into a tile has not even been issued; whether it is told."""
        copy = self.stages.copies.get(shadow.buffer.id)
        if copy is None or not len(clashes.unit):
            return False
        i, full = int(np.argmin(clashes.unit)), _full(copy)
        thread, block = int(clashes.actor[i]), int(clashes.block[i])
        wait = self.stages.last_of(full.id, thread, block)
        if wait is not None and wait.phase[block]:
            return False
        what, points = f"{self.tells.what(shadow, clashes, i)} is read by thread {thread}{at(op)}", [copy, op]
        if wait is None:
            code, message = "D6", f"{what} without a wait for {full.name}, which the copy{at(copy)} completes"
        else:
            code, points = "D8", [copy, wait.op, op]
            message = f"{what} before the copy{at(copy)} fills it: the wait{at(wait.op)} passes because " \
                      f"{passed(wait, block)}"
        self.tells.add(code, message, points, block, (thread,), shadow, int(clashes.unit[i]), len(clashes.unit))
        self.stages.tell(full.id, code)
        return True

    # --- wgmma -------------------------------------------------------------------------------------------------------

    def products(self, op: ops.AnyBulk, clashes: Clashes, i: int, warpgroup: int,
                 stage: int) -> tuple[Lapse, bool] | None:
        """Who of a warpgroup has released the stage that its products read, and whether before they were issued."""
        thread, block = int(clashes.actor[i]), int(clashes.block[i])
        _, wait = self.stages.filled(_full(op), stage, thread, block)
        first = warpgroup * WARPGROUP
        lapse = None if wait is None else self.stages.arrived(wait, block, slice(first, first + WARPGROUP))
        if lapse is None:
            return None
        group = int(epoch_of(clashes.record[i:i + 1])[0]) - 1
        return lapse, lapse.moment <= int(self.stages.issued[warpgroup, group][block])


def passed(wait: Wait, block: int) -> str:
    """Why a wait was over: which phase was complete."""
    phase = int(wait.phase[block])
    return f"phase {phase - 1} is complete" if phase else "no phase before the first is under way"


def released(lapse: Lapse, reader: int) -> str:
    """``it has released the stage at line 24, at empty(0)``"""
    who = "it" if lapse.thread == reader else f"thread {lapse.thread}"
    return f"{who} has released the stage{at(lapse.arrival)}, at {lapse.empty.name}({lapse.element})"


def _full(op: ops.AnyBulk) -> Buffer:
    assert op.barrier is not None, "a load completes on a barrier"
    return op.barrier.buffer.root


def _mates(op: ops.Op, thread: int) -> slice:
    """The threads that act together with one: its warpgroup for wgmma, else its warp."""
    size = WARPGROUP if isinstance(op, ops.Wgmma) else WARP
    return slice(thread // size * size, thread // size * size + size)
