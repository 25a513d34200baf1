"""mbarriers of one batch of blocks: phases, pending arrivals, expected bytes.

In: init, arrive, wait with the element of the barrier tensor and the mask; ``landed`` bytes of copies.  Out: phases,
and who may pass.  A phase is complete when nobody is missing and as many bytes have come as were expected.

A wait for parity p passes once the phase under way has the other parity (mbarrier.try_wait.parity): the one of parity
p is over, or none has begun yet where p is 1.  What copies do is in tma.py, who waits in barriers.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checks.answers import Answers
from moye.sim.findings.wording import Crowd
from moye.sim.flow.mbarrier_phases import Phases, state
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array

_MOST = (1 << 20) - 1


class Cells:
    """The lanes of a mask as a list: thread, block and barrier of each."""

    __slots__ = ("block", "element", "thread")

    def __init__(self, batch: BatchState, mask: Mask, offset: Any, elements: int) -> None:
        lanes = lanes_of(mask, batch.threads, batch.blocks)
        self.thread, self.block = np.nonzero(lanes)
        self.element = np.clip(self.of(batch, offset), 0, elements - 1)

    def of(self, batch: BatchState, value: Any) -> Array:
        """The value that each of the lanes has."""
        if not isinstance(value, np.ndarray):
            return np.full(len(self.thread), value, np.int64)
        full: Array = np.broadcast_to(value, (batch.threads, batch.blocks))
        return full[self.thread, self.block]

    def spread(self, batch: BatchState, values: Array) -> Array:
        """A value of each of the lanes as (T, B), -1 elsewhere."""
        full = np.full((batch.threads, batch.blocks), -1, np.int64)
        full[self.thread, self.block] = values
        return full

    def lanes(self, batch: BatchState, element: int) -> Array:
        """The lanes at one barrier as a mask (T, B)."""
        found = np.zeros((batch.threads, batch.blocks), np.bool_)
        here = self.element == element
        found[self.thread[here], self.block[here]] = True
        return found


class Mbarriers:
    """All barriers of a batch."""

    def __init__(self, batch: BatchState) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        self.all: dict[int, Phases] = {}
        self.asked: dict[tuple[int, int], Array] = {}
        """The element for which each lane (T, B) has asked in vain, -1 for none, by tensor and operation."""
        launch = self.batch.launch
        case = launch.hooks.chance
        self.answers = Answers(launch.func, case) if case in ("unheeded", "once") else None

    def of(self, buffer: Buffer) -> Phases:
        """The barriers of a shared tensor."""
        found = self.all.get(buffer.id)
        if found is None:
            found = self.all[buffer.id] = Phases(buffer, self.batch.threads, self.batch.blocks)
        return found

    # --- what threads do ---------------------------------------------------------------------------------------------

    def init(self, op: ops.MbarrierInit, offset: Any, count: Any, mask: Mask) -> None:
        """Phase 0 begins."""
        if mask is False:
            return
        phases = self.of(op.ref.buffer)
        cells = Cells(self.batch, mask, offset, len(phases.phase))
        where = cells.element, cells.block
        self._within("D9", op, cells, cells.of(self.batch, count), 1)
        if self.batch.watch is not None and not self._in_use(op, phases, where):
            for element in np.unique(cells.element).tolist():
                self.batch.watch.checker.engines.init(op, element, cells.lanes(self.batch, element))
        phases.count[where] = phases.pending[where] = cells.of(self.batch, count)
        phases.bytes[where] = phases.phase[where] = phases.arrivals[where] = 0
        phases.ready[where] = True

    def arrive(self, op: ops.MbarrierArrive, offset: Any, expected: Any, rank: Any, mask: Mask) -> None:
        """Each lane of the mask arrives (unless it only expects), after it has expected ``expected`` bytes."""
        if mask is False:
            return
        batch, phases = self.batch, self.of(op.ref.buffer)
        cells = Cells(batch, mask, offset, len(phases.phase))
        if op.copies:
            # The arrival comes when the copies are complete: at once, as far as values go, while for the checks they
            # are known to be complete to those alone who wait for the phase.
            batch.copies.wait(None, mask)
            if batch.watch is not None:
                batch.watch.globals.overlaps.handed_over(lanes_of(mask, batch.threads, batch.blocks))
                for element in np.unique(cells.element).tolist():
                    lanes = cells.lanes(batch, element)
                    batch.watch.checker.engines.hand_over(op, element, lanes, phases.phase[element])
        block = cells.block if rank is None else \
            batch.cluster.remote(op, cells.thread, cells.block, cells.of(batch, rank))
        where = cells.element, block
        if batch.watch is not None:
            to = None if rank is None else cells.spread(batch, block - cells.block // batch.cluster.size
                                                        * batch.cluster.size)
            for element in np.unique(cells.element).tolist():
                batch.watch.checker.engines.arrive(op, element, cells.lanes(batch, element), phases.phase[element], to)
        if expected is not None:
            self._within("D7", op, cells, cells.of(batch, expected), 0)
            np.add.at(phases.bytes, where, cells.of(batch, expected))
        if op.arrives:
            if rank is not None:
                away = block != cells.block
                phases.far[cells.element[away], block[away]] = True
            np.subtract.at(phases.pending, where, 1)
            np.add.at(phases.arrivals, where, 1)
            again = phases.here[where[0], cells.thread, where[1]]
            phases.came[where[0], cells.thread, where[1]] = phases.here[where[0], cells.thread, where[1]] = True
            if batch.watch is not None:
                self._too_many(op, phases, cells, where, again)
        self.settle(phases)

    def landed(self, phases: Phases, element: Array, block: Array, count: Array) -> None:
        """A copy has brought so many bytes to each of these."""
        np.subtract.at(phases.bytes, (element, block), count)
        self.settle(phases)

    def settle(self, phases: Phases) -> None:
        """Complete the phases that are over, and release the threads that wait for them."""
        moved = False
        while (done := phases.ready & (phases.pending <= 0) & (phases.bytes == 0) & (phases.count > 0)).any():
            self.batch.tensor_copies.complete(phases, done)
            phases.phase += done
            phases.pending += np.where(done, phases.count, 0)
            phases.arrivals[done] = 0
            phases.here &= ~done[:, None]
            moved = True
            if self.batch.watch is not None:
                for element in np.flatnonzero(done.any(axis=1)).tolist():
                    self.batch.watch.checker.engines.phase(phases.buffer, element, done[element])
        if moved and self.batch.barriers.waiting:
            self.batch.barriers.resolve()

    def test(self, op: ops.MbarrierTest, offset: Any, parity: Any, mask: Mask) -> Array:
        """Where the phase of this parity is complete, (T, B); those lanes acquire it."""
        shape = self.batch.threads, self.batch.blocks
        if mask is False:
            return np.zeros(shape, np.bool_)
        self.parities(op, lanes_of(mask, *shape), np.asarray(offset), np.asarray(parity))
        last = (op.ref.buffer.elements or 1) - 1
        element: Array = np.clip(np.broadcast_to(np.asarray(offset), shape), 0, last)
        found = self.passed(op, element, np.broadcast_to(np.asarray(parity), shape))
        self._ask(op, element, lanes_of(mask, *shape), found)
        lanes = lanes_of(mask, *shape) & found
        if self.answers is not None and (denied := self.answers.denied(op, lanes)).any():
            self.batch.launch.missed(1)
            lanes, found = lanes & ~denied, found & ~denied
        if lanes.any():
            self.passes(op, element, lanes)
        return found

    def _ask(self, op: ops.MbarrierTest, element: Array, lanes: Array, found: Array) -> None:
        key = op.ref.buffer.id, id(op)
        before = self.asked.get(key, np.full(lanes.shape, -1))
        answered = lanes & found & (before == element)
        self.asked[key] = np.where(lanes & ~found, element, np.where(answered, -1, before))

    def wanted(self, polling: Array) -> dict[int, Array]:
        """The barriers (elements, blocks) for which these lanes (T, B) have asked since the last time, by tensor."""
        wanted: dict[int, Array] = {}
        for (key, op), asked in self.asked.items():
            thread, block = np.nonzero(polling & (asked >= 0))
            here = wanted.setdefault(key, np.zeros(self.all[key].phase.shape, np.bool_))
            here[asked[thread, block], block] = True
            self.asked[key, op] = np.where(polling, -1, asked)
        return wanted

    # --- questions ---------------------------------------------------------------------------------------------------

    def passed(self, op: ops.AnyPhase, element: Array, parity: Array) -> Array:
        """Whether the phase of this parity is complete, (T, B)."""
        phases = self.of(op.ref.buffer)
        column = np.arange(self.batch.blocks)
        # The phase of a parity is over if the current one has the other (PTX ISA, mbarrier.test_wait.parity).
        found: Array = phases.ready[element, column] & ((phases.phase[element, column] & 1) != parity)
        return found

    def passes(self, op: ops.AnyPhase, element: Array, lanes: Array) -> None:
        """These lanes go on: the checks and the timeline learn it."""
        phases = self.of(op.ref.buffer)
        if self.batch.tape is not None and isinstance(op, ops.MbarrierWait):
            self.batch.tape.passed(op, element, lanes, phases.phase)
        for one in np.unique(element[lanes]).tolist():
            phases.free[one] |= (lanes & (element == one)).any(axis=0) & (phases.phase[one] == 0)
            if self.batch.watch is None:
                continue
            self.batch.watch.checker.engines.passed(op, op.ref, one, lanes & (element == one), phases.phase[one])

    # --- findings ----------------------------------------------------------------------------------------------------

    def parities(self, op: ops.AnyPhase, lanes: Array, offset: Array, parity: Array) -> None:
        """D8: lanes wait for a parity that is neither 0 nor 1."""
        watch = self.batch.watch
        if watch is None or not (bad := lanes & ((parity < 0) | (parity > 1))).any():
            return
        thread, block = (int(i) for i in np.argwhere(bad)[0])
        element, value = (int(np.broadcast_to(x, lanes.shape)[thread, block]) for x in (offset, parity))
        watch.tell("D8", "parity", op, (thread, block), int(bad.sum()), tensor=op.ref.buffer.name,
                   coordinate=(element,), value=value)
        watch.checker.engines.stages.tell(op.ref.buffer.id, "D8")

    def _within(self, code: str, op: ops.MbarrierInit | ops.MbarrierArrive, cells: Cells, values: Array,
                least: int) -> None:
        """D9 of a count, D7 of bytes that an mbarrier does not count (PTX ISA, mbarrier: 2^20 - 1 at most)."""
        watch = self.batch.watch
        if watch is None or not (bad := (values < least) | (values > _MOST)).any():
            return
        i = int(np.argmax(bad))
        watch.tell(code, "range", op, (int(cells.thread[i]), int(cells.block[i])), int(bad.sum()),
                   tensor=op.ref.buffer.name, coordinate=(int(cells.element[i]),), value=int(values[i]), least=least,
                   most=_MOST)
        watch.checker.engines.stages.tell(op.ref.buffer.id, code)

    def _in_use(self, op: ops.MbarrierInit, phases: Phases, where: tuple[Array, Array]) -> bool:
        """D11: initialised again in the middle of a phase; whether it is told."""
        busy = phases.ready[where] & ((phases.pending[where] != phases.count[where]) | (phases.bytes[where] != 0))
        watch = self.batch.watch
        if watch is None or not busy.any():
            return False
        element, block = (int(x[busy][0]) for x in where)
        watch.tell("D11", "busy", op, None, tensor=op.ref.buffer.name, coordinate=(element,), owner=watch.block(block),
                   phase=int(phases.phase[element, block]), state=state(phases, element, block))
        watch.checker.engines.stages.tell(op.ref.buffer.id, "D11")
        return True

    def _too_many(self, op: ops.MbarrierArrive, phases: Phases, cells: Cells, where: tuple[Array, Array],
                  again: Array) -> None:
        """D9: more arrivals than a phase counts; F1 where a stage is filled ``again`` by who filled it."""
        over = phases.ready[where] & (phases.pending[where] < 0)
        watch = self.batch.watch
        if watch is None or not over.any():
            return
        engines = watch.checker.engines
        if op.ref.buffer.id in engines.stages.empty and (over & again).any():
            n = int(np.argmax(over & again))
            watch.checker.judge.refilled(op, int(where[0][n]), int(cells.thread[n]), int(where[1][n]))
        if engines.stages.broken.get(op.ref.buffer.id, "D9") != "D9":
            return
        element, block = (int(x[over][0]) for x in where)
        threads = cells.thread[(where[0] == element) & (where[1] == block)].tolist()
        watch.tell("D9", "many", op, (threads[0], block), tensor=op.ref.buffer.name, coordinate=(element,),
                   arrivals=int(phases.count[element, block]), came=int(phases.arrivals[element, block]),
                   phase=int(phases.phase[element, block]), last=Crowd(threads, self.batch.threads))
        engines.stages.tell(op.ref.buffer.id, "D9")
