"""Tensor copies (TMA): boxes between tensors and shared memory, at their latest legal time or the earliest.

In: an ``ops.TmaCopy`` with the shared offset, the coordinates and the barrier of each thread that issues it; commits
and waits.  Out: memory, and bytes that land on mbarriers.

A load is performed when nobody else can move and somebody waits for its barrier; a store reads its source at the wait
that covers it and writes at the one that covers that, or both when its block ends; so do the runs of bulk.py.  Bytes
lie in shared memory as the hardware places them: row after row of the box, 16-byte chunks permuted by higher bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from moye.atoms.tma import ROWS, Window
from moye.dtypes import tfloat32
from moye.errors import UnsupportedError
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, TensorParam
from moye.sim.checks.async_reads import Source
from moye.sim.checks.engines import Engines
from moye.sim.checks.map_order import Use
from moye.sim.costs import tma_boxes
from moye.sim.findings.wording import Crowd
from moye.sim.flow.mbarrier_phases import Phases
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.mbarriers import Cells
from moye.sim.values.addressing import coordinates
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array, numpy_dtype
from moye.sim.values.reductions import reduced
from moye.sim.values.scalars import nearest_tf32

_ALIGNMENT, _BLOCKS, ROW_PART = 128, 16, 16


def swizzled(address: Any, span: int) -> Any:
    """A byte address of shared memory under a swizzle of 0, 32, 64 or 128 bytes: chunk number xor row number."""
    return address ^ ((address >> 7 & (span // 16 - 1)) << 4) if span else address


class TmaBox:
    """One op in one batch."""

    def __init__(self, op: ops.TmaCopy, batch: BatchState) -> None:
        self.op, self.batch = op, batch
        self.barrier = None if op.barrier is None else op.barrier.buffer
        self.name = (op.smem.buffer if op.smem else op.tensor).name
        param = next(p for p in batch.launch.func.params if isinstance(p, TensorParam) and p.buffer is op.tensor)
        if param.tensor_map is None or param.tensor_map.dtype.bits < 8:
            raise UnsupportedError(f"the simulator copies no boxes of {param.name}: {param.tensor_map}", locs=(op.loc,))
        self.map = param.tensor_map
        self.dtype = numpy_dtype(self.map.dtype)
        self.memory = batch.launch.memory(op.tensor, self.map.dtype)
        box = (*self.map.box[:1], ROWS) if op.gathered else self.map.box
        self.inside = coordinates(box)                  # per dimension the coordinate of each element
        self.linear = np.arange(len(self.inside[0]), dtype=np.int64) * self.dtype.itemsize
        self.bytes = len(self.linear) * self.dtype.itemsize
        self._chunks: dict[int, Array] = {}             # by where a box starts: stages of a ring come again and again

    def __call__(self, offset: Any, first: tuple[Any, ...], barrier: Any, multicast: Any, mask: Mask,
                 place: Any = None) -> None:
        """``place`` is where the tensor map is, if the kernel keeps it."""
        op, batch = self.op, self.batch
        if mask is False or op.smem is None:            # a prefetch changes nothing, wherever its box lies
            if mask is not False and batch.watch is not None:
                self._prefetch(Cells(batch, mask, 0, 1), first, place)
            return
        cells = Cells(batch, mask, 0 if op.barrier is None else barrier, 1 << 30)
        start = cells.of(batch, offset) * op.smem.dtype.bytes
        issued = Issued(self, cells.thread, cells.block, start, [cells.of(batch, x) for x in first], cells.element,
                        np.full_like(start, self.bytes))
        issued.maps = self.maps(cells, place)
        issued.group = batch.tensor_copies.committed[issued.thread, issued.block]
        if batch.watch is not None:
            to = [] if multicast is None else [cells.of(batch, multicast)]
            single(batch, op, issued, [start, *issued.first, *to], "box", op.tensor.name)
            self._placed(issued)
            self.watched(issued)
            if batch.watch.meter is not None:
                offset, inside = self.elements(issued)
                base = self.memory.address % 16                 # as on a device: an allocation starts at a whole sector
                tma_boxes.count(batch.watch.meter, op, offset * self.dtype.itemsize + base, inside, self.dtype.itemsize)
        if multicast is not None:
            issued = issued.spread(batch, cells.of(batch, multicast))
        batch.tensor_copies.issue(issued)

    # --- tensor maps -------------------------------------------------------------------------------------------------

    def maps(self, cells: Cells, place: Any) -> Array | None:
        """The map that each thread goes by; None if it is the parameter's."""
        return None

    def along(self, issued: Issued) -> list[tuple[Any, Any]]:
        """The (extent, stride) of each dimension of the map, in elements."""
        return list(self.map.dimensions(self.memory.arg.shape, self.memory.arg.strides))

    # --- moving ------------------------------------------------------------------------------------------------------

    def elements(self, issued: Issued) -> tuple[Array, Array]:
        """Offsets in the tensor (N, V) and whether they lie inside."""
        along = self.along(issued)
        if self.op.gathered:
            return self._gathered(along, issued.first)
        if self.map.window is not None:
            return self._pixels(self.map.window, along, issued.first)
        offset: Array = np.zeros((len(issued.thread), len(self.linear)), np.int64)
        inside = np.ones_like(offset, np.bool_)
        for (extent, stride), first, crd in zip(along, issued.first, self.inside, strict=True):
            coordinate = first[:, None] + crd
            offset += coordinate * stride
            inside &= (coordinate >= 0) & (coordinate < extent)
        return offset, inside

    def _gathered(self, along: list[tuple[Any, Any]], first: list[Array]) -> tuple[Array, Array]:
        """Four rows, each at an index of its own."""
        column = first[0][:, None].astype(np.int64) + self.inside[0]
        row = np.stack(first[1:], axis=1).astype(np.int64)[:, self.inside[1]]
        offset = column * along[0][1] + row * along[1][1]
        inside = (column >= 0) & (column < along[0][0]) & (row >= 0) & (row < along[1][0])
        return offset, inside

    def _pixels(self, window: Window, along: list[tuple[int, int]], first: list[Array]) -> tuple[Array, Array]:
        """In im2col mode: pixel after pixel of those that the window counts, each moved by the offsets."""
        channel, step = first[0][:, None] + self.inside[0], self.inside[1]
        offset, inside = channel * along[0][1], (channel >= 0) & (channel < along[0][0])
        rank = len(along)
        for d, ((extent, stride), lower, upper, apart) in enumerate(zip(
                along[1:-1], window.lower, window.upper, window.strides, strict=True), 1):
            count = (extent + upper - lower + apart - 1) // apart
            place = (first[d][:, None] - lower) // apart + step
            pixel = lower + place % count * apart + first[rank + d - 1][:, None].astype(np.int64)
            step = place // count                       # beyond the last, the next mode goes on
            offset = offset + pixel * stride
            inside &= (pixel >= 0) & (pixel < extent)
        image = first[rank - 1][:, None] + step
        return offset + image * along[-1][1], inside & (image >= 0) & (image < along[-1][0])

    def load(self, issued: Issued) -> None:
        """Global to shared; zeros or NaNs for what lies outside."""
        offset, inside = self.elements(issued)
        values = self.memory.read(offset)
        if self.map.dtype == tfloat32:
            values = nearest_tf32(values)
        if not inside.all():
            # TMA fills what lies outside of the tensor, and counts these bytes at the mbarrier too.
            values = np.where(inside, values, self.dtype.type(np.nan if self.map.outside == "nan" else 0))
        assert self.op.smem is not None, "a load has a destination"
        shared = self.batch.shared[self.op.smem.buffer.id]
        flat = shared.data.view(self.dtype) if shared.dtype.itemsize == self.dtype.itemsize else None
        at_ = swizzled(issued.start[:, None] + self.linear, self.map.swizzle) // self.dtype.itemsize
        if flat is None or at_.min() < 0 or at_.max() >= len(flat):
            shared.write(at_.T[:, None], self.dtype, values.T[:, None], None, issued.block[None])
        elif len(issued.block) == self.batch.blocks and (at_ == at_[:1]).all() and \
                np.array_equal(issued.block, shared.column):
            flat[at_[0]] = values.T
        else:
            flat[at_, issued.block[:, None]] = values
        self.batch.launch.writes += 1

    def fetch(self, issued: Issued) -> None:
        """Read shared memory; it may be stored later."""
        assert self.op.smem is not None, "a store has a source"
        shared = self.batch.shared[self.op.smem.buffer.id]
        at_ = swizzled(issued.start[:, None] + self.linear, self.map.swizzle) // self.dtype.itemsize
        if shared.left is not None:
            shared.left.look()
        issued.values = shared.read(at_.T[:, None], self.dtype, issued.block[None])[:, 0].T

    def store(self, issued: Issued) -> None:
        """Shared to global, or combined with it."""
        if issued.values is None:
            self.fetch(issued)
        assert issued.values is not None, "it was fetched"
        offset, inside = self.elements(issued)
        self.batch.launch.writes += 1
        watch = self.batch.watch
        for n, (values, index, keep) in enumerate(zip(issued.values, offset, inside, strict=True)):
            total = values
            if self.op.kind == "reduce":
                old = self.memory.read(index)
                if watch is not None and self.op.by == "add":
                    watch.added(self.op, self.op.tensor.name, np.where(keep, old, 0), np.where(keep, values, 0),
                                (int(issued.thread[n]), int(issued.block[n])))
                total = reduced(self.op.by, old, values)
            self.memory.write(index, total, keep)

    def chunks(self, start: int) -> Array:
        """The 16-byte chunks of the box, by address; the swizzle only permutes them."""
        if (known := self._chunks.get(start)) is None:
            known = np.unique(swizzled(start + np.arange(0, self.bytes, 16), self.map.swizzle) // 16 * 16)
            self._chunks[start] = known
        return known

    # --- findings ----------------------------------------------------------------------------------------------------

    def tell(self, engines: Engines, issued: Issued) -> None:
        """The checks of shared memory learn of it."""
        op = self.op
        assert op.smem is not None, "it moves shared memory"
        if op.barrier is None:
            engines.store(op, op.smem, self.chunks, issued)
        else:
            engines.load(op, op.smem, op.barrier, self.chunks, issued)

    def _begins(self, thread: Array, block: Array, first: list[Array]) -> None:
        """B5: a box begins at 16 bytes of a row, and one that is written not before the tensor; others are illegal.

        Source: CUDA C++ Programming Guide, Tensor Memory Access, negative indices; an H200 stops with an illegal
        instruction at both.
        """
        watch, op = self.batch.watch, self.op
        assert watch is not None, "checked"
        start = first[0].astype(np.int64) * self.dtype.itemsize
        writes = op.kind in ("store", "reduce")
        before = np.logical_or.reduce([x < 0 for x in first]) if writes else np.zeros(len(start), np.bool_)
        for bad, case in ((start % ROW_PART != 0, "box"), (before, "before")):
            if bad.any():
                n = int(np.argmax(bad))
                told = int(start[n]) if case == "box" else tuple(int(x[n]) for x in first)
                watch.tell("B5", case, op, (int(thread[n]), int(block[n])), int(bad.sum()), tensor=op.tensor.name,
                           start=told, part=ROW_PART)

    def _twice(self, issued: Issued) -> None:
        """B5: four rows that are written with one instruction are four, as far as the array has them."""
        watch, extent = self.batch.watch, self.along(issued)[1][0]
        assert watch is not None, "checked"
        ordered = np.sort(np.stack(issued.first[1:], axis=1), axis=1)
        again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] < extent)
        if again.any():
            n, row = (int(i) for i in np.argwhere(again)[0])
            watch.tell("B5", "twice", self.op, (int(issued.thread[n]), int(issued.block[n])),
                       int(again.any(axis=1).sum()), tensor=self.op.tensor.name, row=int(ordered[n, row]))

    def _prefetch(self, cells: Cells, first: tuple[Any, ...], place: Any) -> None:
        if self.op.kind == "prefetch_box":
            self._begins(cells.thread, cells.block, [cells.of(self.batch, x) for x in first])
        if self.maps(cells, place) is not None:
            self.fetched(cells)

    def fetched(self, cells: Cells) -> None:
        """A map that the kernel keeps is fetched."""

    def watched(self, issued: Issued) -> None:
        """The checks of global memory learn of it."""
        assert self.batch.watch is not None, "checked"
        self.batch.watch.boxes(self.op, self.op.tensor, self.memory, issued, lambda: self.elements(issued))

    def _placed(self, issued: Issued) -> None:
        """B2 and B4 of the box in shared memory, B5 of the one in the tensor."""
        self._begins(issued.thread, issued.block, issued.first)
        if self.op.gathered and self.op.kind == "store":
            self._twice(issued)
        watch, op = self.batch.watch, self.op
        assert watch is not None and op.smem is not None, "checked"
        buffer = op.smem.buffer
        for bad, code, size in (
                ((issued.start < 0) | (issued.start + self.bytes > buffer.bytes), "B2", buffer.bytes),
                (issued.start % _ALIGNMENT != 0, "B4", _ALIGNMENT)):
            if bad.any():
                n = int(np.argmax(bad))
                watch.tell(code, "box", op, (int(issued.thread[n]), int(issued.block[n])), int(bad.sum()),
                           tensor=buffer.name, bytes=self.bytes, start=int(issued.start[n]), size=size)


def single(batch: BatchState, op: ops.AnyBulk, issued: Issued | Cells, keys: Sequence[Array], what: str,
           tensor: str) -> None:
    """D21: several lanes of a warp issue the same copy: all of these ``keys`` (N,) are equal."""
    watch, thread, block = batch.watch, issued.thread, issued.block
    warp = block * (batch.threads // WARP + 1) + thread // WARP
    if watch is None or len(np.unique(warp)) == len(warp):
        return                                          # as mostly: one lane of a warp
    by_warp = np.stack([warp, *(key.astype(np.int64) for key in keys)])
    _, which, count = np.unique(by_warp, axis=1, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    again = count[which] > 1
    if not again.any():
        return
    same = which == which[int(again.argmax())]
    here = sorted(thread[same].tolist())
    watch.tell("D21", "-", op, (here[0], int(block[same][0])), tensor=tensor, what=what,
               here=Crowd(here, batch.threads))


class Moved(Protocol):
    """An op in one batch: what a copy in flight is asked for."""

    barrier: Buffer | None
    """The mbarriers that it completes on; None if it belongs to a bulk group."""
    name: str
    """The name of the shared memory that it fills or reads."""

    @property
    def op(self) -> ops.AnyAsync: ...
    def tell(self, engines: Engines, issued: Issued) -> None: ...
    def load(self, issued: Issued) -> None: ...
    def fetch(self, issued: Issued) -> None: ...
    def store(self, issued: Issued) -> None: ...


class Issued:
    """An executed op: per issuing thread its block, byte offset in shared memory, the other end, barrier, bytes, group.

    ``first`` are coordinates of a tensor, or what bulk.py keeps there.
    """

    __slots__ = ("block", "box", "bytes", "element", "first", "group", "issuer", "maps", "phase", "source",
                 "sources", "start", "thread", "uses", "values")

    def __init__(self, box: Moved, thread: Array, block: Array, start: Array, first: list[Array], element: Array,
                 count: Array) -> None:
        self.box, self.thread, self.block, self.start, self.first, self.element, self.bytes = (
            box, thread, block, start, first, element, count)
        self.phase: Array = np.zeros_like(element)
        self.group: Array = np.zeros_like(element)
        self.issuer = block
        """The block whose thread it is: of a multicast not always the one that receives."""
        self.sources: list[Source | None] = []
        """What the checks of global memory keep of each load, as it was issued."""
        self.source: Array = np.zeros_like(element)
        """Which of the sources belongs to each entry."""
        self.maps: Array | None = None
        """The words of the tensor map of each, if the kernel keeps them."""
        self.uses: list[Use] = []
        """What the checks keep of these maps' use."""
        self.values: Array | None = None
        """What a store has read of shared memory and not written yet."""

    def part(self, keep: Array) -> Issued:
        """Some of the threads."""
        some = Issued(self.box, self.thread[keep], self.block[keep], self.start[keep], [x[keep] for x in self.first],
                      self.element[keep], self.bytes[keep])
        some.phase, some.group, some.issuer = self.phase[keep], self.group[keep], self.issuer[keep]
        some.values = None if self.values is None else self.values[keep]
        some.maps = None if self.maps is None else self.maps[keep]
        if self.uses:
            some.uses = [self.uses[n] for n in np.arange(len(self.uses))[keep].tolist()]
        if self.sources:
            some.sources, some.source = self.sources, self.source[keep]
        return some

    def spread(self, batch: BatchState, mask: Array) -> Issued:
        """A copy for every block of the cluster that a mask names; each has its own barrier."""
        # A multicast writes at one offset in each block, and completes on the mbarrier at one offset there (PTX ISA).
        bits = (mask[:, None] >> np.arange(_BLOCKS) & 1).astype(np.bool_)
        place, rank = np.nonzero(bits)
        self._pass_by(batch, bits)
        some = self.part(place)
        some.block = batch.cluster.remote(self.box.op, some.thread, some.block, rank)
        return some

    def _pass_by(self, batch: BatchState, bits: Array) -> None:
        """The blocks of the cluster that a mask leaves out; a hang says so if it is these bytes that they lack."""
        assert self.box.barrier is not None, "stores have no mask"
        phases, size = batch.mbarriers.of(self.box.barrier), batch.cluster.size
        place, rank = np.nonzero(~bits[:, :size])
        element = np.clip(self.element, 0, len(phases.phase) - 1)[place]
        np.add.at(phases.unnamed, (element, self.block[place] // size * size + rank), self.bytes[place])


def _note_senders(phases: Phases, issued: Issued) -> None:
    """Which phases of mbarriers of other blocks a copy completes: a hang asks who sends bytes, and has not yet."""
    for n in np.flatnonzero(issued.issuer != issued.block).tolist():
        place = int(issued.element[n]), int(issued.block[n])
        phases.sent.setdefault(place, {})[int(issued.issuer[n])] = int(issued.phase[n])


class TensorCopies:
    """The boxes in flight of one batch; bulk groups are counted per thread."""

    def __init__(self, batch: BatchState, *, earliest: bool) -> None:
        self.batch, self.earliest = batch, earliest
        self.reset()

    def reset(self) -> None:
        self.loads: list[Issued] = []
        self.stores: list[Issued] = []
        self.fetched: list[Issued] = []
        """Stores that have read their sources and may not have written."""
        self.outlived: set[int] = set()
        """The ids of copies to other blocks about which it is reported that their own block has ended."""
        self.ended: Array = np.zeros(self.batch.blocks, np.bool_)
        self.committed: Array = np.zeros((self.batch.threads, self.batch.blocks), np.int64)

    def issue(self, issued: Issued) -> None:
        """A copy begins."""
        box, batch = issued.box, self.batch
        phases = None if box.barrier is None else batch.mbarriers.of(box.barrier)
        if phases is not None:
            issued.element = np.clip(issued.element, 0, len(phases.phase) - 1)
            # A copy belongs to the phase under way when it is issued; should that complete without it, D7 is told.
            issued.phase = phases.phase[issued.element, issued.block]
            if batch.cluster.size > 1:
                _note_senders(phases, issued)
            if batch.watch is not None:
                batch.watch.globals.overlaps.issued(issued, phases.buffer)
                batch.watch.globals.maps.issued(issued, phases.buffer, batch.watch.checker.engines)
                if batch.watch.dependent is not None:
                    batch.watch.dependent.issued(issued, phases.buffer, batch.watch.checker.engines)
        if batch.watch is not None:
            box.tell(batch.watch.checker.engines, issued)
        if batch.tape is not None:
            batch.tape.issued(issued)
        if phases is None:
            self._keep_store(issued)
        elif self.earliest:
            box.load(issued)
            batch.mbarriers.landed(phases, issued.element, issued.block, issued.bytes)
        else:
            self.loads.append(issued)

    def _keep_store(self, issued: Issued) -> None:
        if self.earliest:
            issued.box.store(issued)
        self.stores.append(issued)

    # --- loads -------------------------------------------------------------------------------------------------------

    def land(self) -> bool:
        """Perform the loads that somebody waits for; the result is whether there were any."""
        if not self.loads:
            return False
        wanted = self._wanted()
        before = {key: self.batch.mbarriers.all[key].phase.copy() for key in wanted}
        moved = False
        kept: list[Issued] = []
        loads, self.loads = self.loads, []
        for number, load in enumerate(loads):
            barrier = load.box.barrier
            assert barrier is not None, "a load completes on a barrier"
            key, here = barrier.id, (load.element, load.block)
            keep = np.ones(len(load.thread), np.bool_)
            if key in wanted:
                phases = self.batch.mbarriers.all[key]
                # Only until the phase that is waited for is over: later copies stay in flight, as late as they may be.
                keep = ~(wanted[key][here] & (phases.phase[here] == before[key][here]))
            if not keep.all():
                moved = True
                part = load.part(~keep)
                part.box.load(part)
                self.loads = [*kept, *([load.part(keep)] if keep.any() else []), *loads[number + 1:]]
                self.batch.mbarriers.landed(phases, part.element, part.block, part.bytes)
            if keep.any():
                kept.append(load if keep.all() else load.part(keep))
        self.loads = kept
        self.batch.launch.missed(moved)
        return moved

    def _wanted(self) -> dict[int, Array]:
        """Whether somebody waits for each barrier of a tensor (elements, blocks), or polls it, by tensor."""
        polling = np.zeros((self.batch.threads, self.batch.blocks), np.bool_)
        for group in self.batch.spinning:
            polling |= lanes_of(group.mask, *polling.shape)
        wanted = self.batch.mbarriers.wanted(polling)
        for entry in self.batch.barriers.waiting:
            if isinstance(entry.op, ops.MbarrierWait) and entry.element is not None:
                phases = self.batch.mbarriers.of(entry.op.ref.buffer)
                here = wanted.setdefault(phases.buffer.id, np.zeros(phases.phase.shape, np.bool_))
                thread, block = np.nonzero(entry.lanes)
                here[entry.element[thread, block], block] = True
        return wanted

    def complete(self, phases: Phases, done: Array) -> None:
        """Report D7 if a phase is complete while copies that were issued in it are in flight."""
        watch = self.batch.watch
        if watch is None:
            return
        for load in self.loads:
            barrier = load.box.barrier
            if barrier is not phases.buffer or barrier.id in watch.checker.engines.stages.broken:
                continue
            here = load.element, load.block
            early = done[here] & (load.phase == phases.phase[here])
            if early.any():
                n = int(np.argmax(early))
                element, block = int(load.element[n]), int(load.block[n])
                watch.tell("D7", "early", load.box.op, (int(load.thread[n]), block), tensor=barrier.name,
                           coordinate=(element,), phase=int(load.phase[n]), bytes=int(load.bytes[n]))

    # --- stores ------------------------------------------------------------------------------------------------------

    def commit(self, mask: Mask) -> None:
        """The group of each thread of the mask ends here."""
        if mask is not False:
            self.committed = self.committed + lanes_of(mask, self.batch.threads, self.batch.blocks)

    def wait(self, op: ops.BulkWait, mask: Mask) -> None:
        """The stores of all but the newest groups of these threads read their sources now at the latest, or write."""
        if mask is False:
            return
        lanes, limit = lanes_of(mask, self.batch.threads, self.batch.blocks), self.committed - op.pending
        if self.batch.watch is not None:
            self.batch.watch.checker.engines.bulk_wait(op, lanes, limit)
            self.batch.watch.globals.bulk_wait(op, lanes, limit)
        # With .read a wait promises that sources were read, not that anything was written (cp.async.bulk.wait_group).
        self._perform(lambda x: lanes[x.thread, x.block] & (x.group < limit[x.thread, x.block]), only_read=op.read)

    def _perform(self, which: Any, *, only_read: bool) -> None:
        """Carry out the stores that ``which`` chooses; with ``only_read`` they may write later."""
        if not only_read:
            self.fetched = self._some(self.fetched, which, lambda x: x.box.store(x))
        fetched: list[Issued] = []

        def perform(part: Issued) -> None:
            if only_read:
                part.box.fetch(part)
                fetched.append(part)
            else:
                part.box.store(part)

        self.stores = self._some(self.stores, which, (lambda x: None) if self.earliest else perform)
        self.fetched += fetched

    @staticmethod
    def _some(stores: list[Issued], which: Any, perform: Callable[[Issued], None]) -> list[Issued]:
        """Perform the chosen parts of stores; the result is the stores that are left."""
        kept = []
        for store in stores:
            now = which(store)
            if now.any():
                perform(store.part(now))
            if not now.all():
                kept.append(store.part(~now))
        return kept

    def left(self, gone: Array) -> None:
        """Threads (T, B) have exited: report D18 if a block has ended whose memory a copy to another block may still
        read: it is in flight, or nobody in the block has heard that it is not."""
        watch = self.batch.watch
        if watch is None:
            return
        ended: Array = np.logical_and.reduce(gone, axis=0)
        for load in self.loads:
            op, here = load.box.op, ended[load.issuer]
            if isinstance(op, ops.BulkCopy) and op.kind == "send" and here.any():
                self._outlives(op, int(load.issuer[here][0]), int(here.sum()))
        for sent, block, count in watch.checker.engines.sent.unread(np.flatnonzero(ended & ~self.ended)):
            self._outlives(sent, block, count)
        self.ended |= ended

    def _outlives(self, op: ops.Op, block: int, count: int) -> None:
        watch = self.batch.watch
        assert watch is not None and isinstance(op, ops.BulkCopy) and op.barrier is not None, "a copy that is sent"
        if id(op) not in self.outlived and op.barrier.buffer.id not in watch.checker.engines.stages.broken:
            self.outlived.add(id(op))
            watch.reporter.tell("D18", "sent", (op,), block=watch.block(block), count=count, tensor=op.src.buffer.name)

    def finish(self) -> None:
        """The blocks have ended: report D18 for what is in flight; stores are carried out."""
        watch = self.batch.watch
        if watch is not None:
            broken = watch.checker.engines.stages.broken
            for issued in (*self.loads, *self.stores):
                box, lane = issued.box, (int(issued.thread[0]), int(issued.block[0]))
                op = box.op
                if id(op) in self.outlived or (box.barrier is not None and (
                        box.barrier.id in broken
                        or watch.checker.judge.unused(op, int(issued.element[0]), *lane))):
                    continue
                watch.tell("D18", "store" if box.barrier is None else "load", op, lane, len(issued.thread),
                           tensor=box.name)
        self._perform(lambda x: np.ones(len(x.thread), np.bool_), only_read=False)
