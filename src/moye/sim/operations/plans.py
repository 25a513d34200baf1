"""What a memory operation does in one batch of blocks: loads, stores, copies, maps, reductions.

In: an op (its static part is worked out once per kernel: ``Site``).  Out: ``Site.bind(batch)``, a callable that
generated code calls with the run-time offsets and the mask.

    run = CopySite(op).bind(batch); run(dst_offset, src_offset, (), (), (), None, None)

Atomics are in atomics.py, matrix products in gemm.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Extent, TileRef, Value
from moye.sim.flow.segments import name_of
from moye.sim.operations.access import GlobalEnd, Operand, RegisterEnd, SharedEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values import overflow
from moye.sim.values.addressing import register_rows
from moye.sim.values.masks import Mask, both
from moye.sim.values.memory import Array, Fragment, Shared, numpy_dtype
from moye.sim.values.scalars import reduction, to_scalar


class LoadSite:
    """One element."""

    def __init__(self, op: ops.Load) -> None:
        self.op = op
        self.operand = Operand(op, op.ref, ())

    def bind(self, batch: BatchState) -> LoadPlan:
        return LoadPlan(self, batch)


class LoadPlan:
    def __init__(self, site: LoadSite, batch: BatchState) -> None:
        self.end = site.operand.bind(batch)
        self.op, self.dtype = site.op, site.op.result.dtype
        self.uniform = site.op.ref.buffer.space is Space.GLOBAL and site.op.order is None
        self.batch, self.checked, self.name = batch, batch.watch is not None, name_of(site.op.result)
        self.watch = batch.watch if site.op.order is not None else None

    def __call__(self, offset: Any, mask: Mask) -> Any:
        index = self.end.locate(offset, (), ())
        if isinstance(self.end, RegisterEnd):
            if self.checked:
                numbers = self.end.carried(mask)
                if numbers is not None or self.batch.doubts.on:
                    self.batch.doubts.put(self.name, None if numbers is None else numbers[0], mask)
        else:
            self.end.check_read(index, mask)
        values = self.end.load(index, mask)[0]
        if self.watch is not None:
            newest, flags = values, self.watch.globals.flags
            values, older = flags.give(newest)
            flags.found(self.op, values, newest)
            self.batch.launch.writes += older                 # who polls gets on
        if self.uniform and not isinstance(offset, np.ndarray):
            return to_scalar(values[0, 0], self.dtype)
        return values.copy() if isinstance(self.end, RegisterEnd) else values

    def outside(self, offset: Any) -> Array:
        """Whether the element that would be loaded is none of the argument."""
        assert isinstance(self.end, GlobalEnd), "an address in global memory"
        return self.end.outside(offset)


class StoreSite:
    """One element."""

    def __init__(self, op: ops.Store) -> None:
        self.op = op
        self.operand = Operand(op, op.ref, ())

    def bind(self, batch: BatchState) -> StorePlan:
        return StorePlan(self, batch)


class StorePlan:
    def __init__(self, site: StoreSite, batch: BatchState) -> None:
        self.end = site.operand.bind(batch)
        self.doubts = batch.doubts
        self.name = name_of(site.op.value) if isinstance(site.op.value, Value) else ""
        self.watch = batch.watch if site.op.order is not None else None
        stale = batch.launch.stale
        self.stale = stale if stale is not None and id(site.op) in stale.numbers else None
        self.op, self.batch = site.op, batch

    def skipped(self, offset: Any, mask: Mask, ragged: bool, outside: Callable[[], Array]) -> None:
        """The lanes of the mask leave their elements as they were."""
        if self.stale is not None and isinstance(self.end, SharedEnd):
            index = self.end.locate(offset, (), ())
            self.stale.skipped(self.op, self.end.memory, index, mask, ragged, outside, self.batch.threads,
                               self.batch.block_ids)

    def __call__(self, offset: Any, value: Any, mask: Mask) -> None:
        index = self.end.locate(offset, (), ())
        if self.watch is not None:
            flags = self.watch.globals.flags
            flags.replaced, flags.stored = self.end.load(index, mask)[0], value
        self.end.check_write(index, mask)
        if self.doubts.on and isinstance(self.end, RegisterEnd):
            found = self.doubts.of.get(self.name)
            if found is not None:
                self.end.doubt(found[None], mask)
        self.end.store(index, value, mask)
        if self.stale is not None and isinstance(self.end, SharedEnd):
            self.stale.wrote(self.op, self.end.memory, index, mask)


class CopySite:
    """A tile."""

    def __init__(self, op: ops.Copy) -> None:
        self.op = op
        order = _order(op)
        self.dst = Operand(op, op.dst, op.extents, op.width, order)
        self.src = Operand(op, op.src, op.extents, op.width, order)
        self.pred = Operand(op, op.pred, op.extents, 1, order) if isinstance(op.pred, TileRef) else None

    def bind(self, batch: BatchState) -> CopyPlan:
        return CopyPlan(self, batch)


def _order(op: ops.Copy) -> Array | None:
    """An order of the accesses in which the register operand's rows ascend; groups stay together."""
    if op.group > 1:
        return None
    for ref in (op.dst, op.src):
        if ref.buffer.space is Space.REGISTER:
            first = register_rows(ref, op.extents, op.width)[::op.width]
            if np.all(first[1:] > first[:-1]) or len(np.unique(first)) < len(first):
                return None
            return np.argsort(first, kind="stable")
    return None


class CopyPlan:
    def __init__(self, site: CopySite, batch: BatchState) -> None:
        op = site.op
        self.op, self.batch = op, batch
        self.dst, self.src = site.dst.bind(batch), site.src.bind(batch)
        self.pred = site.pred.bind(batch) if site.pred else None
        self.zero_fill = op.zero_fill and op.pred is not None
        self.asynchronous = op.atom.asynchronous is not None
        self.other: Any = None
        """What elements become whose predicate is false, in this run of the copy; None for zero."""
        self.view = self.dst.view if isinstance(self.dst, RegisterEnd) else None
        self.checked = batch.watch is not None
        self.within = isinstance(self.dst, RegisterEnd) and isinstance(self.src, RegisterEnd) and \
            not self.zero_fill and self.pred is None and len(self.src.rows) == len(self.dst.rows)
        stale = batch.launch.stale
        self.stale = stale if stale is not None and id(op) in stale.numbers else None

    def __call__(self, dst: Any, src: Any, dst_strides: tuple[Any, ...], src_strides: tuple[Any, ...],
                 extents: tuple[Any, ...], pred: Any, mask: Mask, other: Any = None) -> None:
        self.other = other
        to = self.dst.locate(dst, dst_strides, extents)
        of = self.src.locate(src, src_strides, extents)
        reading = self._predicated(pred, mask)
        writing = mask if self.zero_fill else reading
        if writing is False or not len(to):
            self._left(to, partial(self._outside, src, src_strides, extents), mask)
            return
        numbers = None
        if self.checked:
            if self.within:
                numbers = self.src.carried(reading)     # type: ignore[union-attr]
            elif reading is not False:
                self.src.check_read(of, reading, self.asynchronous)
            if self.stale is None:
                self.dst.check_write(to, writing, self.asynchronous)
            else:
                self._watched(to, partial(self._outside, src, src_strides, extents), writing, mask)
            if numbers is not None:
                self.dst.doubt(numbers, writing)        # type: ignore[union-attr]
            if other is not None:
                self._doubt_other(reading, mask)
        if self.asynchronous:
            self.batch.copies.issue(self, to, of, reading, writing)
        elif not (mask is None and reading is None and self.view is not None and self.src.load_into(of, self.view)):
            self.perform(to, of, reading, writing)

    def _doubt_other(self, reading: Mask, mask: Mask) -> None:
        """Where the predicate is false, registers are as good as the number that fills them."""
        other = self.op.other
        name = name_of(other) if isinstance(other, Value) else ""
        found = self.batch.doubts.of.get(name) if self.batch.doubts.on else None
        if found is None or reading is None or not isinstance(self.dst, RegisterEnd):
            return
        filled = np.ones((1, 1, 1), np.bool_) if reading is False else ~np.asarray(reading)
        self.dst.doubt(np.broadcast_to(found, (len(self.dst.rows), *np.shape(found)[-2:])), both(mask, filled))

    def skipped(self, dst: Any, src: Any, dst_strides: tuple[Any, ...], src_strides: tuple[Any, ...],
                extents: tuple[Any, ...], mask: Mask, ragged: bool) -> None:
        """The lanes of the mask do not come here, and leave their elements as they were."""
        if self.stale is not None and isinstance(self.dst, SharedEnd) and isinstance(self.src, GlobalEnd):
            self.stale.skipped(self.op, self.dst.memory, self.dst.locate(dst, dst_strides, extents), mask, ragged,
                               partial(self.src.outside, src, src_strides, extents), self.batch.threads,
                               self.batch.block_ids)

    def _outside(self, src: Any, strides: tuple[Any, ...], extents: tuple[Any, ...]) -> Array:
        """Whether there is nothing to read."""
        return self.src.outside(src, strides, extents) if isinstance(self.src, GlobalEnd) else np.zeros((1, 1, 1), "?")

    def _left(self, to: Array, outside: Callable[[], Array], mask: Mask) -> None:
        """The copy is off everywhere."""
        if self.stale is not None and isinstance(self.src, GlobalEnd):
            memory: Shared | Fragment = self.dst.fragment if isinstance(self.dst, RegisterEnd) else \
                self.dst.memory                         # type: ignore[assignment]
            rows = self.dst.own[:, None, None] if isinstance(self.dst, RegisterEnd) else to
            self.stale.skipped(self.op, memory, rows, self.stale.within(self.op, mask), self.stale.ragged(self.op),
                               outside, self.batch.threads, self.batch.block_ids)

    def _watched(self, to: Array, outside: Callable[[], Array], writing: Mask, mask: Mask) -> None:
        """A copy whose leftovers are looked for."""
        dst = self.dst
        assert self.stale is not None and not isinstance(dst, GlobalEnd), "a copy into shared memory or registers"
        memory: Shared | Fragment = dst.fragment if isinstance(dst, RegisterEnd) else dst.memory
        rows = dst.own[:, None, None] if isinstance(dst, RegisterEnd) else to
        owner, memory.owner = memory.owner, None        # what this copy writes is its own
        dst.check_write(to, writing, self.asynchronous)
        memory.owner = owner
        self.stale.copied(self.op, memory, rows, writing, mask, outside, self.batch.threads, self.batch.block_ids)

    def perform(self, to: Array, of: Array, reading: Mask, writing: Mask) -> None:
        """Move the values now."""
        dtype = numpy_dtype(self.op.dst.dtype)
        fill: Any = dtype.type(0) if self.other is None else np.asarray(self.other, dtype)
        if reading is False:
            values: Any = fill
        else:
            values = self.src.load(of, reading)
            if self.zero_fill and reading is not None:
                values = np.where(np.asarray(reading), values, fill.astype(values.dtype))
        self.dst.store(to, values, writing)

    def _predicated(self, pred: Any, mask: Mask) -> Mask:
        if self.pred is not None:
            self.pred.check_read(self.pred.locate(0, (), ()), mask)
            lanes = self.pred.load(self.pred.locate(pred, (), ()), mask).astype(np.bool_)
            return both(mask, np.repeat(lanes, self.op.width, axis=0) if self.op.width > 1 else lanes)
        if pred is None or pred is True:
            return mask
        return both(mask, np.asarray(pred)) if isinstance(pred, np.ndarray) else False


class MapSite:
    """Elementwise work; the body is generated code between ``read`` and ``write``."""

    def __init__(self, op: ops.Map) -> None:
        self.op = op
        self.sources = [Operand(op, ref, op.extents) for ref in op.sources]
        self.dst = Operand(op, op.dst, op.extents)

    def bind(self, batch: BatchState) -> MapPlan:
        return MapPlan(self, batch)


class MapPlan:
    def __init__(self, site: MapSite, batch: BatchState) -> None:
        self.sources = [source.bind(batch) for source in site.sources]
        self.dst = site.dst.bind(batch)
        self.keeps = isinstance(self.dst, RegisterEnd)
        self.numbers: Array | None = None
        """Where what was read is not set: so is what is made of it."""

    def read(self, offsets: tuple[Any, ...], mask: Mask) -> list[Array]:
        loaded = []
        self.numbers = None
        for end, offset in zip(self.sources, offsets, strict=True):
            index = end.locate(offset, (), ())
            if self.keeps and isinstance(end, RegisterEnd):
                numbers = end.carried(mask)
                if numbers is not None:
                    self.numbers = numbers if self.numbers is None else np.where(self.numbers != 0, self.numbers,
                                                                                 numbers)
            else:
                end.check_read(index, mask)
            loaded.append(end.load(index, mask))
        return loaded

    def write(self, offset: Any, value: Any, mask: Mask) -> None:
        index = self.dst.locate(offset, (), ())
        self.dst.check_write(index, mask)
        if self.numbers is not None and isinstance(self.dst, RegisterEnd):
            self.dst.doubt(self.numbers, mask)
        self.dst.store(index, value, mask)


class ReduceSite:
    """A fold over a fragment, in the order of its chains."""

    def __init__(self, op: ops.Reduce) -> None:
        self.op = op
        self.src = Operand(op, op.src, op.extents)

    def bind(self, batch: BatchState) -> _Reduce:
        return _Reduce(self, batch)


class _Reduce:
    def __init__(self, site: ReduceSite, batch: BatchState) -> None:
        self.src = site.src.bind(batch)
        self.fold = reduction(site.op.kind, site.op.src.dtype)
        self.blocks, self.op = batch.blocks, site.op
        dtype = site.op.src.dtype
        grows = site.op.kind in ("add", "mul") and dtype.is_integer and overflow.signed(numpy_dtype(dtype))
        self.watch = batch.watch if grows else None

    def __call__(self, offset: Any, mask: Mask) -> Array:
        index = self.src.locate(offset, (), ())
        self.src.check_read(index, mask)
        values = self.src.load(index, mask)
        chains = self.op.chains
        result: Array = values[:chains].copy()
        for first in range(chains, len(values), chains):
            part = values[first:first + chains]
            result[:len(part)] = self._folded(result[:len(part)], part, mask)
        while len(result) > 1:
            result = self._folded(result[::2], result[1::2], mask)
        return np.asarray(result[0])

    def _folded(self, result: Array, value: Array, mask: Mask) -> Array:
        """One step of every chain, with A11 where it overflows."""
        if self.watch is None:
            return np.asarray(self.fold(result, value))
        kind, bits = self.op.kind, self.op.src.dtype.bits
        total, bad = overflow.overflowed(kind, result, value, bits)
        if bad is not None:
            self.watch.grown(self.op, kind, bits, self.op.result.name, result, value, bad, mask)
        return total


class FindSite:
    """A search of a fragment, in index order."""

    def __init__(self, op: ops.Find) -> None:
        self.src = Operand(op, op.src, op.extents)

    def bind(self, batch: BatchState) -> _Find:
        return _Find(self, batch)


class _Find:
    def __init__(self, site: FindSite, batch: BatchState) -> None:
        self.src = site.src.bind(batch)

    def __call__(self, offset: Any, value: Any, mask: Mask) -> Array:
        index = self.src.locate(offset, (), ())
        self.src.check_read(index, mask)
        equal = np.asarray(self.src.load(index, mask) == value)
        return np.asarray(equal.argmax(axis=0), np.int32)       # 0 where nothing is equal


class InspectSite:
    """Snapshots of tensors."""

    def __init__(self, op: ops.Inspect) -> None:
        self.op = op
        self.tensors = [Operand(op, ref, extents) for _, ref, extents in op.tensors]

    def bind(self, batch: BatchState) -> _Inspect:
        return _Inspect(self, batch)


class _Inspect:
    def __init__(self, site: InspectSite, batch: BatchState) -> None:
        self.op, self.batch = site.op, batch
        self.ends = [operand.bind(batch) for operand in site.tensors]

    def __call__(self, places: tuple[tuple[Any, tuple[Any, ...], tuple[Any, ...]], ...], scalars: tuple[Any, ...],
                 mask: Mask) -> None:
        tensors = {}
        for (name, _, extents), end, (offset, strides, dynamic) in zip(self.op.tensors, self.ends, places, strict=True):
            values = end.load(end.locate(offset, strides, dynamic), mask)
            full = np.broadcast_to(values, (len(values), self.batch.threads, self.batch.blocks))
            tensors[name] = full.reshape((*_concrete(extents, dynamic), *full.shape[1:]), order="A").copy() \
                if len(extents) <= 1 else _shaped(full, _concrete(extents, dynamic))
        named = {name: value for (name, _), value in zip(self.op.scalars, scalars, strict=True)}
        self.batch.launch.inspected(self.op, self.batch.block_ids, tensors, named, mask)


def _concrete(extents: tuple[Extent, ...], dynamic: tuple[Any, ...]) -> tuple[int, ...]:
    given = iter(dynamic)
    return tuple(e if isinstance(e, int) else int(next(given)) for e in extents)


def _shaped(values: Array, extents: tuple[int, ...]) -> Array:
    """(V, T, B) as (*extents, T, B): V counts the first extent fastest."""
    backwards = values.reshape(*reversed(extents), *values.shape[1:])
    rank = len(extents)
    return backwards.transpose(*reversed(range(rank)), rank, rank + 1).copy()
