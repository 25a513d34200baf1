"""Tensor copies (TMA): boxes between tensors and shared memory, at their latest legal time or the earliest.

In: an ``ops.TmaCopy`` with the shared offset, the coordinates and the barrier of each thread that issues it; commits
and waits.  Out: memory, and bytes that land on mbarriers.

A load is performed when nobody else can move and somebody waits for its barrier; a store reads its source at the wait
that covers it, or when its block ends.  Bytes lie in shared memory as the hardware places them: row after row of the
box, chunks of 16 bytes permuted by the address bits above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import TensorParam
from moye.sim.addressing import coordinates
from moye.sim.checkers.words import at, crowd
from moye.sim.masks import Mask, lanes_of
from moye.sim.mbarriers import Cells
from moye.sim.memory import Array, numpy_dtype
from moye.sim.phases import Phases
from moye.sim.state import BatchState

_ALIGNMENT, _BLOCKS = 128, 16


def swizzled(address: Any, span: int) -> Any:
    """A byte address of shared memory under a swizzle of 0, 32, 64 or 128 bytes: chunk number xor row number."""
    return address ^ ((address >> 7 & (span // 16 - 1)) << 4) if span else address


class TmaSite:
    """The static part: the box."""

    def __init__(self, op: ops.TmaCopy) -> None:
        self.op = op

    def bind(self, batch: BatchState) -> TmaBox:
        return TmaBox(self.op, batch)


class TmaBox:
    """One op in one batch."""

    def __init__(self, op: ops.TmaCopy, batch: BatchState) -> None:
        self.op, self.batch = op, batch
        param = next(p for p in batch.launch.func.params if isinstance(p, TensorParam) and p.buffer is op.tensor)
        if param.tensor_map is None or param.tensor_map.dtype.bits < 8:
            raise UnsupportedError(f"the simulator copies no boxes of {param.name}: {param.tensor_map}", locs=(op.loc,))
        self.map = param.tensor_map
        self.dtype = numpy_dtype(self.map.dtype)
        self.memory = batch.launch.memory(op.tensor, self.map.dtype)
        self.inside = coordinates(self.map.box)         # per dimension the coordinate of each element
        self.linear = np.arange(len(self.inside[0]), dtype=np.int64) * self.dtype.itemsize
        self.bytes = len(self.linear) * self.dtype.itemsize

    def __call__(self, offset: Any, first: tuple[Any, ...], barrier: Any, multicast: Any, mask: Mask) -> None:
        if mask is False or self.op.kind == "prefetch":
            return
        op, batch = self.op, self.batch
        assert op.smem is not None, "only a prefetch has no shared memory"
        cells = Cells(batch, mask, 0 if op.barrier is None else barrier, 1 << 30)
        start = cells.of(batch, offset) * op.smem.dtype.bytes
        issued = Issued(self, cells.thread, cells.block, start, [cells.of(batch, x) for x in first], cells.element)
        if batch.watch is not None:
            self._single(lanes_of(mask, batch.threads, batch.blocks))
            self._placed(issued)
        if multicast is not None:
            issued = issued.spread(batch, cells.of(batch, multicast))
        batch.tensor_copies.issue(issued)

    # --- moving ------------------------------------------------------------------------------------------------------

    def elements(self, issued: Issued) -> tuple[Array, Array]:
        """Offsets in the tensor (N, V) and whether they lie inside."""
        strides, shape = self.memory.arg.strides, self.memory.arg.shape
        offset: Array = np.zeros((len(issued.thread), len(self.linear)), np.int64)
        inside = np.ones_like(offset, np.bool_)
        for mode, first, crd in zip(self.map.modes, issued.first, self.inside, strict=True):
            coordinate = first[:, None] + crd
            offset += coordinate * strides[mode]
            inside &= (coordinate >= 0) & (coordinate < shape[mode])
        return offset, inside

    def load(self, issued: Issued) -> None:
        """Global to shared; zeros for what lies outside."""
        offset, inside = self.elements(issued)
        values = self.memory.read(offset)
        if not inside.all():
            values = np.where(inside, values, self.dtype.type(0))
        assert self.op.smem is not None, "a load has a destination"
        shared = self.batch.shared[self.op.smem.buffer.id]
        flat = shared.data.view(self.dtype) if shared.dtype.itemsize == self.dtype.itemsize else None
        at_ = swizzled(issued.start[:, None] + self.linear, self.map.swizzle) // self.dtype.itemsize
        if flat is None or at_.min() < 0 or at_.max() >= len(flat):
            index = np.zeros((at_.shape[1], 1, self.batch.blocks), np.int64)
            for n, block in enumerate(issued.block.tolist()):
                index[:, 0, block] = at_[n]
                only = np.arange(self.batch.blocks) == block
                shared.write(index, self.dtype, values[n][:, None, None], only[None, None])
        elif len(issued.block) == self.batch.blocks and (at_ == at_[:1]).all() and \
                np.array_equal(issued.block, shared.column):
            flat[at_[0]] = values.T
        else:
            flat[at_, issued.block[:, None]] = values
        self.batch.launch.writes += 1

    def store(self, issued: Issued) -> None:
        """Shared to global, or added to it."""
        offset, inside = self.elements(issued)
        assert self.op.smem is not None, "a store has a source"
        shared = self.batch.shared[self.op.smem.buffer.id]
        at_ = swizzled(issued.start[:, None] + self.linear, self.map.swizzle) // self.dtype.itemsize
        self.batch.launch.writes += 1
        for n, block in enumerate(issued.block.tolist()):
            values = shared.read(at_[n][:, None, None], self.dtype)[:, 0, block]
            index, keep = offset[n], inside[n]
            if self.op.kind == "reduce_add":
                values = self.memory.read(index) + values
            self.memory.write(index, values, keep)

    def chunks(self, start: int) -> Array:
        """The 16-byte chunks of the box, by address; the swizzle only permutes them."""
        return np.unique(swizzled(start + np.arange(0, self.bytes, 16), self.map.swizzle) // 16 * 16)

    # --- findings ----------------------------------------------------------------------------------------------------

    def _single(self, lanes: Array) -> None:
        """D21: several lanes of a warp issue the same copy."""
        watch = self.batch.watch
        count = np.add.reduceat(lanes.astype(np.int64), np.arange(0, len(lanes), 32), axis=0)
        if watch is None or not (count > 1).any():
            return
        warp, block = (int(i) for i in np.argwhere(count > 1)[0])
        here = np.flatnonzero(lanes[:, block] & (np.arange(len(lanes)) // 32 == warp)).tolist()
        watch.report("D21", f"the copy of one box{at(self.op)} is issued by {crowd(here, len(lanes))} of block "
                     f"{watch.block(block)}, once by each", self.op, lane=(here[0], block),
                     tensor=self.op.tensor.name, hint="let one thread issue it: if elect()")

    def _placed(self, issued: Issued) -> None:
        """B2 and B4 of the box in shared memory."""
        watch, op = self.batch.watch, self.op
        assert watch is not None and op.smem is not None, "checked"
        buffer = op.smem.buffer
        for bad, code, why in (
                ((issued.start < 0) | (issued.start + self.bytes > buffer.bytes), "B2",
                 f"and {buffer.name} has {buffer.bytes} bytes"),
                (issued.start % _ALIGNMENT != 0, "B4", f"which is no multiple of {_ALIGNMENT}")):
            if bad.any():
                n = int(np.argmax(bad))
                lane = (int(issued.thread[n]), int(issued.block[n]))
                watch.report(code, f"{watch.who(lane)} copies a box of {self.bytes} bytes at byte "
                             f"{int(issued.start[n])} of {buffer.name}{at(op)}, {why}", op, lane=lane,
                             count=int(bad.sum()), tensor=buffer.name)


class Issued:
    """An executed op: per issuing thread its block, byte offset in shared memory, coordinates, barrier, group."""

    __slots__ = ("block", "box", "element", "first", "foreign", "group", "phase", "start", "thread")

    def __init__(self, box: TmaBox, thread: Array, block: Array, start: Array, first: list[Array],
                 element: Array) -> None:
        self.box, self.thread, self.block, self.start, self.first, self.element = (
            box, thread, block, start, first, element)
        self.phase: Array = np.zeros_like(element)
        self.group: Array = np.zeros_like(element)
        self.foreign: Array = np.zeros(len(element), np.bool_)
        """Which of them another block of the cluster has issued."""

    def part(self, keep: Array) -> Issued:
        """Some of the threads."""
        some = Issued(self.box, self.thread[keep], self.block[keep], self.start[keep], [x[keep] for x in self.first],
                      self.element[keep])
        some.phase, some.group, some.foreign = self.phase[keep], self.group[keep], self.foreign[keep]
        return some


    def spread(self, batch: BatchState, mask: Array) -> Issued:
        """The same for every block of the cluster that a mask names; each has its own barrier."""
        bits = (mask[:, None] >> np.arange(_BLOCKS) & 1).astype(np.bool_)
        place, rank = np.nonzero(bits)
        some = self.part(place)
        some.block = batch.cluster.remote(self.box.op, some.block, rank)
        some.foreign = some.block != self.block[place]
        return some


class TensorCopies:
    """The boxes in flight of one batch; bulk groups are counted per thread."""

    def __init__(self, batch: BatchState, *, earliest: bool) -> None:
        self.batch, self.earliest = batch, earliest
        self.reset()

    def reset(self) -> None:
        self.loads: list[Issued] = []
        self.stores: list[Issued] = []
        self.committed: Array = np.zeros((self.batch.threads, self.batch.blocks), np.int64)

    def issue(self, issued: Issued) -> None:
        """A copy begins."""
        op, batch = issued.box.op, self.batch
        watch = batch.watch
        if op.kind != "load":
            issued.group = self.committed[issued.thread, issued.block]
            if watch is not None:
                watch.checker.engines.store(op, issued.box.chunks, issued, self.committed)
            self._keep_store(issued)
            return
        assert op.barrier is not None, "a load completes on a barrier"
        phases = batch.mbarriers.of(op.barrier.buffer)
        issued.element = np.clip(issued.element, 0, len(phases.phase) - 1)
        issued.phase = phases.phase[issued.element, issued.block]
        if watch is not None:
            watch.checker.engines.load(op, issued.box.chunks, issued)
        if self.earliest:
            issued.box.load(issued)
            batch.mbarriers.landed(phases, issued.element, issued.block, issued.box.bytes)
        else:
            self.loads.append(issued)

    def _keep_store(self, issued: Issued) -> None:
        if self.earliest:
            issued.box.store(issued)
            issued.thread = issued.thread.copy()
        self.stores.append(issued)

    # --- loads -------------------------------------------------------------------------------------------------------

    def land(self) -> bool:
        """Perform the loads that somebody waits for; whether there were any."""
        if not self.loads:
            return False
        wanted = self._wanted()
        before = {key: self.batch.mbarriers.all[key].phase.copy() for key in wanted}
        moved = False
        kept: list[Issued] = []
        loads, self.loads = self.loads, []
        for number, load in enumerate(loads):
            barrier = load.box.op.barrier
            assert barrier is not None, "a load completes on a barrier"
            key, here = barrier.buffer.id, (load.element, load.block)
            keep = np.ones(len(load.thread), np.bool_)
            if key in wanted:
                phases = self.batch.mbarriers.all[key]
                keep = ~(wanted[key][here] & (phases.phase[here] == before[key][here]))
            if not keep.all():
                moved = True
                part = load.part(~keep)
                part.box.load(part)
                self.loads = [*kept, *([load.part(keep)] if keep.any() else []), *loads[number + 1:]]
                self.batch.mbarriers.landed(phases, part.element, part.block, part.box.bytes)
            if keep.any():
                kept.append(load if keep.all() else load.part(keep))
        self.loads = kept
        return moved

    def _wanted(self) -> dict[int, Array]:
        """Per barrier tensor where (elements, blocks) somebody waits."""
        wanted: dict[int, Array] = {}
        for entry in self.batch.barriers.waiting:
            if isinstance(entry.op, ops.MbarrierWait) and entry.element is not None:
                phases = self.batch.mbarriers.of(entry.op.ref.buffer)
                here = wanted.setdefault(phases.buffer.id, np.zeros(phases.phase.shape, np.bool_))
                thread, block = np.nonzero(entry.lanes)
                here[entry.element[thread, block], block] = True
        return wanted

    def complete(self, phases: Phases, done: Array) -> None:
        """D7 where a phase is complete while copies that were issued in it are in flight."""
        watch = self.batch.watch
        if watch is None:
            return
        for load in self.loads:
            barrier = load.box.op.barrier
            if barrier is None or barrier.buffer is not phases.buffer:
                continue
            here = load.element, load.block
            early = done[here] & (load.phase == phases.phase[here])
            if early.any():
                n = int(np.argmax(early))
                element, block = int(load.element[n]), int(load.block[n])
                watch.report("D7", f"phase {int(load.phase[n])} of {barrier.buffer.name}({element}) of block "
                             f"{watch.block(block)} is complete before the copy{at(load.box.op)} has brought its "
                             f"{load.box.bytes} bytes: fewer were expected than copies bring", load.box.op,
                             lane=(int(load.thread[n]), block), tensor=barrier.buffer.name, coordinate=(element,),
                             hint="expect the bytes of all copies that complete on the barrier in one phase")

    # --- stores ------------------------------------------------------------------------------------------------------

    def commit(self, mask: Mask) -> None:
        """The group of each thread of the mask ends here."""
        if mask is not False:
            self.committed = self.committed + lanes_of(mask, self.batch.threads, self.batch.blocks)

    def wait(self, op: ops.BulkWait, mask: Mask) -> None:
        """The stores of all but the newest groups of these threads read their sources now at the latest."""
        if mask is False:
            return
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        if self.batch.watch is not None:
            self.batch.watch.checker.engines.bulk_wait(op, lanes, self.committed - op.pending)
        self._perform(lambda x: lanes[x.thread, x.block] &
                      (x.group < self.committed[x.thread, x.block] - op.pending))

    def _perform(self, which: Any) -> None:
        kept = []
        for store in self.stores:
            now = which(store)
            if now.any() and not self.earliest:
                store.box.store(store.part(now))
            if not now.all():
                kept.append(store.part(~now))
        self.stores = kept

    def finish(self) -> None:
        """The blocks are through: D18 for what is in flight; stores are carried out."""
        watch = self.batch.watch
        if watch is not None:
            for issued in (*self.loads, *self.stores):
                op, lane = issued.box.op, (int(issued.thread[0]), int(issued.block[0]))
                load = op.kind == "load"
                what = "has not arrived: nobody waits for its mbarrier" if load else \
                    f"may not have read its source: thread {lane[0]} does not wait for it"
                watch.report("D18", f"block {watch.block(lane[1])} ends while the copy{at(op)} {what}", op, lane=lane,
                             tensor=(op.smem.buffer if op.smem else op.tensor).name, count=len(issued.thread),
                             hint="wait for the mbarrier before the block ends" if load else
                             "tma_store_arrive() and tma_store_wait(0) in the thread that stores")
        self._perform(lambda x: np.ones(len(x.thread), np.bool_))
