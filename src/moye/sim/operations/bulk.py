"""Bulk copies without tensor maps: contiguous runs, at their latest legal time or the earliest, as tma.py says.

In: an ``ops.BulkCopy`` with the offsets, the bytes and the barrier of each thread that issues it.  Out: memory, bytes
that land on mbarriers, findings B1, B2, B5, D21; what they do to memory is told to the checks of races.

Runs are moved as elements of the shared buffer at the end where ``Issued.start`` counts; at the other end ``first``
holds the byte offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from moye.atoms.bulk import PART
from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Ref
from moye.layout import make_layout
from moye.sim.checks.engines import Engines
from moye.sim.findings.wording import named
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.mbarriers import Cells
from moye.sim.operations.tma import Issued, single
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, Global, numpy_dtype
from moye.sim.values.reductions import reduced


class BulkSite:
    """The static part: nothing beyond the op."""

    def __init__(self, op: ops.BulkCopy) -> None:
        self.op = op

    def bind(self, batch: BatchState) -> BulkRun:
        return BulkRun(self.op, batch)


class BulkRun:
    """One op in one batch."""

    def __init__(self, op: ops.BulkCopy, batch: BatchState) -> None:
        self.op, self.batch = op, batch
        self.to_shared = op.kind in ("load", "send")
        near = op.dst if self.to_shared else op.src
        assert near is not None, "only a prefetch has no destination"
        self.near = replace(near, buffer=near.buffer.root)
        self.name = self.near.buffer.name
        self.completes = None if op.barrier is None else replace(op.barrier, buffer=op.barrier.buffer.root)
        self.barrier = None if self.completes is None else self.completes.buffer
        moved = op.src.dtype if op.kind in ("reduce", "prefetch") else self.near.buffer.dtype
        self.dtype = numpy_dtype(moved)
        far = op.src if self.to_shared else op.dst
        self.far = None if far is None or far.buffer.space is not Space.GLOBAL else \
            batch.launch.memory(far.buffer, moved)
        self.rows: Array = np.arange(op.run // self.dtype.itemsize, dtype=np.int64)[:, None]

    def __call__(self, dst: Any, src: Any, count: Any, barrier: Any, column: Any, multicast: Any, mask: Mask) -> None:
        if mask is False:
            return
        op, batch = self.op, self.batch
        cells = Cells(batch, mask, 0 if barrier is None else barrier, 1 << 30)
        of, bytes_ = _bytes(cells, batch, src, op.src.dtype.bytes), _bytes(cells, batch, count, 1)
        to = of if op.dst is None else _bytes(cells, batch, dst, op.dst.dtype.bytes)
        if batch.watch is not None:
            where = [cells.of(batch, told) for told in (column, multicast) if told is not None]
            Findings(op, batch, cells, to, of, bytes_).judge()
            if op.dst is not None:                      # lanes may send to other blocks
                single(batch, op, cells, [to, of, *where], "run", op.src.buffer.name)
        some = bytes_ > 0
        if op.kind == "prefetch" or not some.any():
            return
        start, first = (to, of) if self.to_shared else (of, to)
        block = cells.block if column is None else cells.of(batch, column).astype(np.int64)
        issued = Issued(self, cells.thread, block, start, [first], cells.element, bytes_)
        issued.issuer = cells.block
        issued = issued.part(some)                      # who copies nothing does nothing
        issued.group = batch.tensor_copies.committed[issued.thread, issued.issuer]
        if batch.watch is not None:
            self._globally(issued)
        if multicast is not None:
            issued = issued.spread(batch, cells.of(batch, multicast)[some])
        batch.tensor_copies.issue(issued)

    # --- moving ------------------------------------------------------------------------------------------------------

    def _places(self, start: Array, issued: Issued) -> tuple[Array, Array | None]:
        """Elements (V, N) of the runs that begin at these bytes, and which of them are copied; None for all."""
        index = start // self.dtype.itemsize + self.rows
        inside = self.rows * self.dtype.itemsize < issued.bytes
        return index, None if inside.all() else inside

    def load(self, issued: Issued) -> None:
        """Into shared memory."""
        index, keep = self._places(issued.start, issued)
        source, _ = self._places(issued.first[0], issued)
        if self.far is not None:
            values = self.far.read(source)
        else:
            source_of = self.batch.shared[self.op.src.buffer.id]
            if source_of.left is not None:
                source_of.left.look()
            values = source_of.read(source[:, None], self.dtype, issued.issuer[None])[:, 0]
        shared = self.batch.shared[self.near.buffer.id]
        shared.write(index[:, None], self.dtype, values[:, None], None if keep is None else keep[:, None],
                     issued.block[None])
        if shared.owner is not None:                    # none of a predicated copy any longer
            inside = (index >= 0) & (index < shared.elements) & (True if keep is None else keep)
            shared.disown(index[:, None], self.dtype.itemsize, inside[:, None], issued.block[None])
        self.batch.launch.writes += 1

    def fetch(self, issued: Issued) -> None:
        """Read shared memory; it may be stored later."""
        index, _ = self._places(issued.start, issued)
        shared = self.batch.shared[self.near.buffer.id]
        if shared.left is not None:
            shared.left.look()
        issued.values = shared.read(index[:, None], self.dtype, issued.block[None])[:, 0].T

    def store(self, issued: Issued) -> None:
        """From shared to global memory, or combined with it."""
        if issued.values is None:
            self.fetch(issued)
        assert self.far is not None and issued.values is not None, "it was fetched"
        target, keep = self._places(issued.first[0], issued)
        self.batch.launch.writes += 1
        if self.op.kind == "store":
            self.far.write(target, issued.values.T, keep)
            return
        for n, values in enumerate(issued.values):      # several may add to one element
            part = slice(None) if keep is None else keep[:, n]
            where = target[:, n][part]
            old = self.far.read(where)
            if self.batch.watch is not None and self.op.dst is not None and self.op.by == "add":
                self.batch.watch.added(self.op, self.op.dst.buffer.name, old, values[part],
                                       (int(issued.thread[n]), int(issued.block[n])))
            self.far.write(where, reduced(self.op.by, old, values[part]), None)

    # --- findings ----------------------------------------------------------------------------------------------------

    def tell(self, engines: Engines, issued: Issued) -> None:
        """The checks learn of it: runs of one size at a time."""
        op = self.op
        for size in np.unique(issued.bytes[issued.bytes > 0]).tolist():
            part, chunks = issued.part(issued.bytes == size), _chunks(size)
            if self.completes is None:
                engines.store(op, op.src, chunks, part)
                continue
            if op.kind == "send":
                source = Issued(self, part.thread, part.issuer, part.first[0], [], part.element, part.bytes)
                source.group = part.phase
                engines.send(op, self.completes, chunks, source, part.block % self.batch.cluster.size)
            engines.load(op, self.near, self.completes, chunks, part)

    def _globally(self, issued: Issued) -> None:
        """The checks of global memory learn of it."""
        watch, op = self.batch.watch, self.op
        ref = op.src if op.kind == "load" else op.dst
        if watch is None or ref is None or op.kind == "send":
            return
        memory = self.batch.launch.memory(ref.buffer, ref.dtype)

        def elements() -> tuple[Array, Array]:
            step = np.arange(op.run // memory.itemsize, dtype=np.int64)
            return issued.first[0][:, None] // memory.itemsize + step, step * memory.itemsize < issued.bytes[:, None]

        watch.boxes(op, ref.buffer, memory, issued, elements)


def _bytes(cells: Cells, batch: BatchState, value: Any, each: int) -> Array:
    """The value that each of the lanes has, in bytes."""
    return np.asarray(cells.of(batch, value)).astype(np.int64) * each


def _chunks(size: int) -> Callable[[int], Array]:
    """The 16-byte chunks of a run of ``size`` bytes, by where it starts."""
    return lambda start: np.arange(start // PART * PART, start + size, PART)


class Findings:
    """What is wrong with the runs that these lanes copy; byte offsets ``to`` and ``of`` count from their tensors."""

    def __init__(self, op: ops.BulkCopy, batch: BatchState, cells: Cells, to: Array, of: Array, count: Array) -> None:
        assert batch.watch is not None, "the run is checked"
        self.op, self.batch, self.watch, self.cells, self.count = op, batch, batch.watch, cells, count
        self.ends = [(ref, start) for ref, start in ((op.dst, to), (op.src, of)) if ref is not None]

    def judge(self) -> None:
        """B1, B2, B5."""
        most, tensor = self.op.run, self.op.src.buffer.name
        self._tell((self.count < 0) | (self.count > most), "B2", "long", tensor, lambda n: {"most": most})
        self._tell(self.count % PART != 0, "B5", "size", tensor, lambda n: {"part": PART})
        for ref, start in self.ends:
            base = 0
            if ref.buffer.space is Space.GLOBAL:
                memory = self.batch.launch.memory(ref.buffer, ref.dtype)
                base = memory.address
                self._outside(ref, start, memory)
            else:
                self._outside_shared(ref, start)
            self._misaligned(ref, base + start)

    def _tell(self, bad: Array, code: str, case: str, tensor: str, facts: Callable[[int], dict[str, Any]]) -> None:
        """The first of these lanes; ``facts`` are about one of them."""
        if bad.any():
            n = int(np.argmax(bad))
            self.watch.tell(code, case, self.op, (int(self.cells.thread[n]), int(self.cells.block[n])), int(bad.sum()),
                            tensor=tensor, bytes=int(self.count[n]), **facts(n))

    def _misaligned(self, ref: Ref, address: Array) -> None:
        """B5: of either end."""
        self._tell(address % PART != 0, "B5", "run", ref.buffer.name,
                   lambda n: {"address": int(address[n]), "part": PART})

    def _outside(self, ref: Ref, start: Array, memory: Global) -> None:
        """B1: the first element outside of the argument."""
        first = start // memory.itemsize
        last = first + self.count // memory.itemsize - 1
        bad = (self.count > 0) & ((first < memory.low) | (last > memory.high))

        def facts(n: int) -> dict[str, Any]:
            wrong = int(first[n]) if first[n] < memory.low else max(int(first[n]), memory.high + 1)
            plain, name = memory.itemsize == memory.arg.memory.dtype.itemsize, memory.arg.name
            return {"element": named(name, memory.coordinate(wrong)) if plain else f"{name} element {wrong}",
                    "written": ref is self.op.dst, "layout": make_layout(memory.arg.shape, memory.arg.strides)}

        self._tell(bad, "B1", "run", memory.arg.name, facts)

    def _outside_shared(self, ref: Ref, start: Array) -> None:
        """B2: beyond the shared tensor, though inside the block's memory."""
        size = ref.buffer.root.bytes
        self._tell((self.count > 0) & ((start < 0) | (start + self.count > size)), "B2", "run", ref.buffer.name,
                   lambda n: {"start": int(start[n]), "size": size})
