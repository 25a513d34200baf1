"""Findings about asynchronous units: which class, which element, which words.

In: clashes that engines.py found, and what is known of the engines.  Out: findings D6, D8, D10, D12-D16, E3, F1.

It does not decide whether two accesses are ordered.  What is wrong with a pipeline is in stage_verdicts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Ref
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import BulkWaits
from moye.sim.checks.judge import Spot, element, spot, tell, witnesses
from moye.sim.checks.shared_records import ENGINE, Shadow, epoch_of, kind_of, op_of, thread_of
from moye.sim.checks.shared_verdicts import Clashes, Judge
from moye.sim.checks.stage_verdicts import StageJudge, passed, released
from moye.sim.checks.stages import Stages
from moye.sim.findings.codes import hint
from moye.sim.findings.wording import at, crowd


@dataclass(slots=True)
class Engine:
    """``major`` is the barrier tensor, the storing thread, the warpgroup, or of copies to another block the engine of
    the mbarrier there, and ``minor`` the rank of that block."""

    kind: str
    name: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """Units that a proxy does not see: ``foreign`` where another thread fenced, ``late`` where after the barrier."""

    clashes: Clashes
    foreign: Bools
    late: Bools
    away: bool = False
    """Whether threads of other blocks wrote them."""


class EngineJudge:
    """Tells them to the reporter of the shared checker's judge."""

    def __init__(self, judge: Judge, stages: Stages) -> None:
        self.judge = judge
        self.pipelines = StageJudge(self, stages)

    def add(self, code: str, message: str, points: Sequence[ops.Op | None], block: int, threads: tuple[int, ...],
            shadow: Shadow | None, unit: int, count: int, *, tensor: str = "", mend: str = "") -> None:
        """Report one."""
        where = Spot(tensor) if shadow is None else spot(shadow.buffer, unit * shadow.unit)
        tell(self.judge.reporter, code, message, points, self.block(block), threads, where,
             mend or hint(code, "engine"), count)

    def block(self, column: int) -> tuple[int, ...]:
        return self.judge.block(column)

    def _each(self, clashes: Clashes) -> list[tuple[int, int]]:
        """(a witness, how many) per op of the earlier access and kind: the lowest unit."""
        keys = op_of(clashes.record) * 4 + kind_of(clashes.record)
        return [(i, len(same)) for i, same in witnesses(keys, clashes.unit)]

    def what(self, shadow: Shadow, clashes: Clashes, i: int) -> str:
        return f"{element(shadow.buffer, int(clashes.unit[i]) * shadow.unit)} of block " \
               f"{self.block(int(clashes.block[i]))}"

    def op(self, clashes: Clashes, i: int) -> ops.Op | None:
        return self.judge.ops[int(op_of(clashes.record[i:i + 1])[0])]

    # --- mbarriers ---------------------------------------------------------------------------------------------------

    def unmade(self, op: ops.Op, ref: Ref, number: int, lanes: Bools) -> None:
        """D10: nobody has initialised it."""
        thread, block = _first(lanes)
        self.add("D10", f"thread {thread} of block {self.block(block)} uses {ref.buffer.name}({number}){at(op)} "
                 f"before it is initialised", [op], block, (thread,), None, 0, 1,
                 tensor=ref.buffer.name)

    def unshown(self, op: ops.Op, ref: Ref, number: int, lanes: Bools, init: ops.Op) -> None:
        """D10: asynchronous units may not see it."""
        thread, block = _first(lanes)
        self.add("D10", f"the copy{at(op)} of block {self.block(block)} completes on {ref.buffer.name}({number}), "
                 f"whose initialisation{at(init)} is not fenced", [init, op], block, (thread,), None, 0, 1,
                 tensor=ref.buffer.name)

    def unordered_init(self, op: ops.Op, ref: Ref, number: int, bad: Bools, init: ops.Op, maker: Ints) -> None:
        """D10: no barrier since the initialisation."""
        thread, block = _first(bad)
        self.add("D10", f"thread {thread} of block {self.block(block)} uses {ref.buffer.name}({number}){at(op)} with "
                 f"no barrier since thread {int(maker[block])} initialised it{at(init)}", [init, op], block,
                 (int(maker[block]), thread), None, 0, int(bad.sum()), tensor=ref.buffer.name)

    def unordered_wait(self, op: ops.MbarrierInit, number: int, bad: Bools, maker: Ints) -> None:
        """D11: initialised again, with no barrier since another warp has waited."""
        thread, block = _first(bad)
        wait = self.pipelines.stages.last_wait((op.ref.buffer.id, number), thread, block)
        self.add("D11", f"{op.ref.buffer.name}({number}) of block {self.block(block)} is initialised again by thread "
                 f"{int(maker[block])}{at(op)}, with no barrier since thread {thread} waits for it"
                 f"{'' if wait is None else at(wait.op)}: it may be waiting still",
                 [None if wait is None else wait.op, op], block, (thread, int(maker[block])), None, 0, int(bad.sum()),
                 tensor=op.ref.buffer.name)

    def unordered_init_there(self, op: ops.Op, ref: Ref, number: int, lane: tuple[int, int], init: ops.Op,
                             maker: tuple[int, int], count: int) -> None:
        """D10: no barrier of the cluster since another block's thread has initialised it; both are (thread, column)."""
        self.add("D10", f"thread {lane[0]} of block {self.block(lane[1])} uses {ref.buffer.name}({number}) of block "
                 f"{self.block(maker[1])}{at(op)} with no barrier of the cluster since thread {maker[0]} of that "
                 f"block initialised it{at(init)}", [init, op], lane[1], (maker[0], lane[0]), None, 0, count,
                 tensor=ref.buffer.name, mend=hint("D10", "cluster"))

    # --- accesses ----------------------------------------------------------------------------------------------------

    def read(self, shadow: Shadow, op: ops.Op, clashes: Clashes, engines: Sequence[Engine]) -> None:
        """An asynchronous read of what is not there, or not known to be."""
        early = (kind_of(clashes.record) == ENGINE) & (clashes.record != 0)
        if early.any():
            self.unwaited(shadow, op, clashes.pick(early), "read", engines)
        rest, never = ~early, clashes.record == 0
        if self.pipelines.unfilled(shadow, op, clashes.pick(never)):
            rest &= ~never
        if rest.any():
            self.judge.read(shadow, op, clashes.pick(rest), "read")

    def write(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str, engines: Sequence[Engine]) -> None:
        """A write over what is not known to have been written."""
        early = (kind_of(clashes.record) == ENGINE) & (clashes.record != 0)
        if early.any():
            self.unwaited(shadow, op, clashes.pick(early), verb, engines)
        if not early.all():
            self.judge.write(shadow, op, clashes.pick(~early), verb)

    def unwaited(self, shadow: Shadow, op: ops.Op, clashes: Clashes, verb: str, engines: Sequence[Engine]) -> None:
        """D6, or D8 where the wait was for another phase, F1 where the stage was released since; B9 for writes."""
        stages = self.pipelines.stages
        for i, count in self._each(clashes):
            thread, block = int(clashes.actor[i]), int(clashes.block[i])
            engine = engines[int(thread_of(clashes.record[i:i + 1])[0])]
            full = engine.major, engine.minor
            if stages.broken.get(engine.major) == "F1" or (
                    verb == "read" and self.pipelines.late(shadow, op, clashes, i, count, full)):
                continue
            phase, copy = int(epoch_of(clashes.record[i:i + 1])[0]) - 1, self.op(clashes, i)
            what = f"{self.what(shadow, clashes, i)} is {verb} by thread {thread}{at(op)}"
            wait = stages.last_wait(full, thread, block)
            points, code = [copy, op], "D6" if verb == "read" else "B9"
            if wait is not None and verb == "read" and int(wait.phase[block]) <= phase:
                code, points = "D8", [copy, wait.op, op]
                message = (f"{what}, but the copy{at(copy)} completes phase {phase} of {engine.name}, and the wait"
                           f"{at(wait.op)} passes because {passed(wait, block)}")
            else:
                message = f"{what} without a wait for phase {phase} of {engine.name}, which the copy{at(copy)} " \
                          f"completes"
            self.add(code, message, points, block, (thread,), shadow, int(clashes.unit[i]), count)
            stages.tell(engine.major, code)

    def load_over_write(self, shadow: Shadow, op: ops.AnyBulk, clashes: Clashes, engines: Sequence[Engine],
                        stage: int) -> None:
        """A tensor copy into what was written, with nothing to order the two."""
        for i, count in self._each(clashes):
            other, thread = self.op(clashes, i), int(clashes.actor[i])
            if kind_of(clashes.record[i:i + 1])[0] == ENGINE:
                if self.pipelines.unacquired(shadow, op, clashes, i, count, stage) or \
                        self.pipelines.unseen(shadow, op, clashes, i, stage):
                    return
                engine = engines[int(thread_of(clashes.record[i:i + 1])[0])]
                code, why = "B9", f"phase {int(epoch_of(clashes.record[i:i + 1])[0]) - 1} of {engine.name}, which " \
                                  f"completes the copy{at(other)} into it, was not waited for"
            else:
                code, why = "D13", f"no barrier between the write by thread {int(clashes.thread[i])}{at(other)} and " \
                                   f"the copy"
            self.add(code, f"{self.what(shadow, clashes, i)} is filled by the copy{at(op)} of thread {thread}: {why}",
                     [other, op], int(clashes.block[i]), (thread,), shadow, int(clashes.unit[i]), count)

    def load_over_read(self, shadow: Shadow, op: ops.AnyBulk, clashes: Clashes, stage: int) -> None:
        """D13: a tensor copy into what others may still read; F1 where it is a stage that was not acquired."""
        for i, count in self._each(clashes):
            if self.pipelines.unacquired(shadow, op, clashes, i, count, stage) or \
                    self.pipelines.early(shadow, op, clashes, i, stage):
                return
            reader, thread, other = int(clashes.thread[i]), int(clashes.actor[i]), self.op(clashes, i)
            self.add("D13", f"{self.what(shadow, clashes, i)} may be overwritten by the copy{at(op)} while it is "
                     f"still being read: nothing orders the read by thread {reader}{at(other)} before thread {thread} "
                     f"issues it", [other, op], int(clashes.block[i]), (reader, thread), shadow,
                     int(clashes.unit[i]), count)

    def overwrite(self, shadow: Shadow, op: ops.Op, clashes: Clashes, engine: Engine,
                  bulk: BulkWaits | None, stage: int) -> None:
        """E3 or D15: written while an engine may still read it; D16 where somebody else has waited.

        ``bulk`` is None where the thread that stores has waited for it, so that a barrier alone is missing.
        """
        for i, count in self._each(clashes):
            if isinstance(op, ops.AnyBulk) and op.kind == "load" and engine.kind == "products" and \
                    self.pipelines.unacquired(shadow, op, clashes, i, count, stage):
                return
            other, thread, block = self.op(clashes, i), int(clashes.actor[i]), int(clashes.block[i])
            points, mend = [other, op], ""
            what = f"{self.what(shadow, clashes, i)} is overwritten{at(op)}"
            by = "the copy" if isinstance(op, ops.AnyBulk) else "the write"
            if engine.kind == "products":
                code, points, message = self._over_products(shadow, op, clashes, i, engine, stage)
            elif engine.kind == "send":
                code, mend = "D15", hint("D15", "sent")
                message = (f"{what} while the copy{at(other)} may still read it: {by} by thread {thread} is not "
                           f"ordered after a wait for {engine.name}, on which the copy completes")
            else:
                code, wait = "D15", None
                why = f"{by} by thread {thread} is not ordered after a wait of {engine.name}, which issued it"
                if bulk is not None:
                    group = int(epoch_of(clashes.record[i:i + 1])[0]) - 1
                    code, why, wait = _not_waited(bulk, engine, group, block, why)
                if wait is not None:
                    points.insert(1, wait)
                message = f"{what} while the store{at(other)} may still read it: {why}"
            self.add(code, message, points, block, (thread,), shadow, int(clashes.unit[i]), count, mend=mend)

    def _over_products(self, shadow: Shadow, op: ops.Op, clashes: Clashes, i: int, engine: Engine,
                       stage: int) -> tuple[str, list[ops.Op | None], str]:
        """E3, or F1 where the stage was released before the products were issued: class, program points, words."""
        other, thread, what = self.op(clashes, i), int(clashes.actor[i]), self.what(shadow, clashes, i)
        wgmma = f"the wgmma{at(other)} of {engine.name}"
        copy = op if isinstance(op, ops.AnyBulk) else None
        by = "the copy" if copy else "the write"
        message = (f"{what} is overwritten{at(op)} while {wgmma} may still read it: {by} by thread {thread} is not "
                   f"ordered after a warpgroup_wait that covers it")
        found = None if copy is None else self.pipelines.products(copy, clashes, i, engine.major, stage)
        if found is None:
            return "E3", [other, op], message
        lapse, before = found
        if not before:
            return "E3", [other, lapse.arrival, op], f"{message}: thread {lapse.thread} releases the stage" \
                                                     f"{at(lapse.arrival)} before one"
        return "F1", [lapse.arrival, other, op], (
            f"{what} is read by {wgmma} after {released(lapse, -1)}, for which thread {thread} waits before it "
            f"fills the stage again{at(op)}")

    def unfenced(self, shadow: Shadow, op: ops.Op, lost: Fenced, verb: str) -> None:
        """D12 of what is ``read``, D13 of what is ``overwritten``; D14 where the fence is another thread's."""
        what = "wgmma" if isinstance(op, ops.Wgmma) else "copy"
        for i, count in self._each(lost.clashes):
            number, other = int(lost.clashes.thread[i]), self.op(lost.clashes, i)
            writer = f"{number} of another block" if lost.away else str(number)
            code = "D14" if lost.foreign[i] and not lost.late[i] else "D12" if verb == "read" else "D13"
            if code == "D14":
                why = f"only other threads have fenced since thread {writer} wrote it{at(other)}"
            elif lost.late[i]:
                why = f"thread {writer}, which wrote it{at(other)}, fences after the barrier that orders the two"
            else:
                why = f"no fence_proxy_async() of thread {writer} since it wrote it{at(other)}"
            follows = "which may not see the write" if verb == "read" else "and the write may still come after it"
            mend = hint(code, "proxy")
            head = f"{self.what(shadow, lost.clashes, i)} is {verb} by the {what}{at(op)}"
            self.add(code, f"{head}, {follows}: {why}", [other, op], int(lost.clashes.block[i]),
                     (number, int(lost.clashes.actor[i])), shadow, int(lost.clashes.unit[i]), count, mend=mend)


def _not_waited(bulk: BulkWaits, engine: Engine, group: int, block: int,
                why: str) -> tuple[str, str, ops.BulkWait | None]:
    """The class, why no wait covers the store of a group, and the wait that was meant to, if there is one."""
    own, stranger = bulk.own(engine.major, group, block), bulk.stranger(engine.major, group, block)
    if own is not None:
        left = "the group of the store in flight" if own.committed else \
            "it in flight: no tma_store_arrive() lies between the store and the wait"
        return "D15", f"the last wait of {engine.name}, which issued it,{at(own.op)}, leaves {left}", own.op
    if stranger is not None:
        who = crowd(np.flatnonzero(stranger.lanes).tolist(), len(stranger.lanes))
        return "D16", f"the wait{at(stranger.op)} is by {who}, and only {engine.name}, which issued it, can wait " \
                      f"for it", stranger.op
    return "D15", why, None


def _first(lanes: Bools) -> tuple[int, int]:
    block = int(np.argmax(lanes.any(axis=0)))
    return int(np.argmax(lanes[:, block])), block
