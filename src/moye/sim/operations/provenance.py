"""Where a stored value came from: follows one block's copies back from a global element to the register that held it.

In: the plans of a batch of one block, and elements of global arrays to look out for.  Out: for each its ``Origin``:
thread, register, and the matrix product that made the value if copies and conversions alone lie between; and the order
in which the block first read the elements of each array.

    trace = Trace([("C", 17)]); simulate(func, args, grid, check=False, hooks=Hooks(sample=[3], probe=trace))
    trace.origins["C", 17].register      # (<smem sC>, (3, 0))

A value that passed through scalar code is followed through loads, conversions and arithmetic; a shuffle ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Operand, Value
from moye.ir.traits import Trait
from moye.sim.findings.finding import coordinate_of
from moye.sim.operations.access import GlobalEnd, RegisterEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.gemm import Checked
from moye.sim.operations.matrix_copies import MatrixCopyPlan
from moye.sim.operations.plans import CopyPlan, LoadPlan, MapPlan, StorePlan
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, numpy_dtype

Target = tuple[str, int]
_KEPT = 4096
_DEEPEST = 32


class Place(NamedTuple):
    """One operand of an access: elements (V, T or 1) of a buffer, and their size in bytes."""

    buffer: Buffer
    size: int
    elements: Array

    def at(self, value: int, thread: int) -> int:
        """The first byte of a value."""
        row = self.elements[value]
        return int(row[thread if len(row) > 1 else 0]) * self.size


class Move(NamedTuple):
    """One execution of an op that puts values somewhere; no sources: a matrix product.  ``plain``: values unchanged."""

    op: ops.Op
    dst: Place
    sources: tuple[Place, ...]
    mask: Array | None
    plain: bool

    def finds(self, byte: int, thread: int | None) -> tuple[int, int] | None:
        """(value, thread) of the access to a byte, of one thread if it is a register's."""
        first = self.dst.elements * self.dst.size
        hit = (first <= byte) & (byte < first + self.dst.size)
        if self.mask is not None:
            hit = hit & self.mask
        if not hit.any():
            return None
        if thread is not None and hit.shape[1] > 1:
            hit = hit[:, thread:thread + 1]
            return (int(hit.argmax(axis=0)[0]), thread) if hit.any() else None
        value, found = (int(i) for i in np.argwhere(hit)[-1])
        return value, found if thread is None else thread


@dataclass(slots=True)
class Origin:
    """How an element of global memory got its value.

    ``thread`` stored it by ``store``; ``register`` is (buffer, coordinate) of the fragment element, of thread
    ``holder``, that it came from.  ``gemm`` made it in ``accumulator`` (buffer, row, thread); ``plain``: nothing but
    copies and conversions lie between.
    """

    store: ops.Op
    thread: int
    register: tuple[Buffer, tuple[int, ...] | None] | None = None
    holder: int = -1
    gemm: ops.Gemm | None = None
    accumulator: tuple[int, int, int] | None = None
    plain: bool = True


class Trace:
    """Follows the values of one block."""

    def __init__(self, targets: list[Target]) -> None:
        self.targets = targets
        self.origins: dict[Target, Origin] = {}
        self.first_read: dict[str, Array] = {}
        """The number (from 1 on) of the first read of each element of an array's memory."""
        self.products = 0
        self.products_before: dict[int, int] = {}
        """How many products were done before each read."""
        self.reads: dict[str, list[int]] = {}
        """The numbers of all reads of an array."""
        self._moves: list[Move] = []
        self._loads: dict[int, Place] = {}
        self._turns: dict[int, Array] = {}
        self._reads: dict[tuple[int, int], int] = {}

    def watched(self, plan: Any, batch: BatchState) -> Any:
        wrapped: dict[type, Any] = {CopyPlan: _Copies, MapPlan: _Maps, StorePlan: _Stores, LoadPlan: _Loads,
                                    MatrixCopyPlan: _MatrixCopies}
        if isinstance(plan, Checked):
            return _Products(plan, self)
        kind = wrapped.get(type(plan))
        return plan if kind is None else kind(plan, self, batch)

    # --- what is told ------------------------------------------------------------------------------------------------

    def moved(self, move: Move) -> None:
        """Values were put somewhere."""
        if move.dst.buffer.space is Space.GLOBAL:
            for target in self.targets:
                self._stored(target, move)
            return
        self.products += isinstance(move.op, ops.Gemm)
        self._moves.append(move)
        if len(self._moves) > 2 * _KEPT:
            del self._moves[:_KEPT]

    def loaded(self, op: ops.Load, place: Place, mask: Array | None, threads: int) -> None:
        """A scalar was read; the last index of each thread is kept."""
        kept = self._loads.get(id(op))
        index = np.broadcast_to(place.elements, (1, threads))
        if kept is not None and mask is not None:
            index = np.where(mask, index, kept.elements)
        self._loads[id(op)] = Place(place.buffer, place.size, index)

    def read(self, end: GlobalEnd, op: ops.Op, index: Array, mask: Mask, threads: int) -> None:
        """Global memory was read: (V, T or 1) elements."""
        if mask is False:
            return
        arg = end.memory.arg
        seen = self.first_read.setdefault(arg.name, np.zeros(len(arg.memory), np.int32))
        active = np.ones((1, threads), np.bool_) if mask is None else np.asarray(mask).reshape(-1, threads) \
            if np.asarray(mask).ndim == 3 else np.broadcast_to(np.asarray(mask)[:, 0], (1, threads))
        anybody = active.any(axis=0)
        turns = self._turns.setdefault(id(op), np.zeros(threads, np.int64))
        turns[anybody] += 1
        index, active = np.broadcast_arrays(index, active)
        for turn in np.unique(turns[anybody]):
            number = self._reads.setdefault((id(op), int(turn)), len(self._reads) + 1)
            if number not in self.products_before:
                self.products_before[number] = self.products
                self.reads.setdefault(arg.name, []).append(number)
            elements = index[active & (turns == turn)]
            own = arg.memory.dtype.itemsize
            parts = max(1, end.memory.itemsize // own)
            elements = (elements * end.memory.itemsize // own)[:, None] + np.arange(parts) + arg.base
            elements = elements[(elements >= 0) & (elements < len(seen))]
            seen[elements[seen[elements] == 0]] = number

    # --- following ---------------------------------------------------------------------------------------------------

    def _stored(self, target: Target, move: Move) -> None:
        name, element = target
        if move.dst.buffer.name != name:
            return
        byte = element * (move.dst.buffer.dtype.bits // 8)
        found = move.finds(byte, None)
        if found is not None:
            origin = self.origins[target] = Origin(move.op, found[1])
            self._follow(move, found, byte, origin, len(self._moves), 0)

    def _follow(self, move: Move, at: tuple[int, int], byte: int, origin: Origin, before: int, depth: int) -> bool:
        """Whether the value of ``move`` at (value, thread) comes from a matrix product; fills the origin."""
        value, thread = at
        origin.plain &= move.plain and len(move.sources) == 1
        for source in move.sources:
            inside = byte - move.dst.at(value, thread) if source.size == move.dst.size else 0
            from_byte = source.at(value if len(source.elements) > 1 else 0, thread) + inside
            register = source.buffer.space is Space.REGISTER
            if register and origin.register is None:
                element = from_byte * 8 // source.buffer.dtype.bits
                origin.register, origin.holder = (source.buffer, coordinate_of(source.buffer, element)), thread
            if source.buffer.space is not Space.GLOBAL and depth < _DEEPEST and \
                    self._came_from(source.buffer, from_byte, thread if register else None, origin, before, depth + 1):
                return True
        return False

    def _came_from(self, buffer: Buffer, byte: int, thread: int | None, origin: Origin, before: int,
                   depth: int) -> bool:
        """The same for the byte of a register or of shared memory: its last writer before a move."""
        for number in range(before - 1, -1, -1):
            move = self._moves[number]
            if move.dst.buffer is not buffer or (found := move.finds(byte, thread)) is None:
                continue
            if isinstance(move.op, ops.Gemm):
                assert thread is not None, "the accumulator of a product is a register"
                origin.gemm, origin.accumulator = move.op, (buffer.id, byte // move.dst.size, thread)
                return True
            return self._follow(move, found, byte, origin, number, depth)
        return False

    def sources(self, operand: Operand) -> tuple[list[Place], bool]:
        """The loads that a scalar is made of, and whether it is one of them, changed by conversions at most."""
        if not isinstance(operand, Value) or operand.op is None:
            return [], True
        op = operand.op
        if isinstance(op, ops.Load):
            found = self._loads.get(id(op))
            return ([found], True) if found is not None else ([], False)
        if Trait.ARITHMETIC not in op.traits:
            return [], False
        places: list[Place] = []
        plain = isinstance(op, ops.Cast)
        for inner in op.operands():
            more, same = self.sources(inner)
            places, plain = places + more, plain and same
        return places, plain


def place(end: Any, index: Array) -> Place:
    """The operand of an access at indices (V, T or 1, 1)."""
    ref = end.ref
    if isinstance(end, RegisterEnd):
        return Place(ref.buffer, max(1, ref.dtype.bits // 8), end.rows[:, None])
    return Place(ref.buffer, max(1, ref.dtype.bits // 8), index[..., 0])


def _lanes(mask: Mask) -> Array | None:
    """The mask of one block as (V or 1, T or 1)."""
    if mask is None or isinstance(mask, bool):
        return None
    lanes = np.asarray(mask)[..., 0]
    return lanes if lanes.ndim == 2 else lanes[None]


class _Copies:
    def __init__(self, plan: CopyPlan, trace: Trace, batch: BatchState) -> None:
        self.plan, self.trace, self.threads = plan, trace, batch.threads

    def __call__(self, dst: Any, src: Any, dst_strides: Any, src_strides: Any, extents: Any, pred: Any,
                 mask: Mask, other: Any = None) -> None:
        plan = self.plan
        to = plan.dst.locate(dst, dst_strides, extents)
        of = plan.src.locate(src, src_strides, extents)
        reading = plan._predicated(pred, mask)
        writing = mask if plan.zero_fill else reading
        plan(dst, src, dst_strides, src_strides, extents, pred, mask, other)
        if writing is False or not len(to):
            return
        if isinstance(plan.src, GlobalEnd):
            self.trace.read(plan.src, plan.op, of[..., 0], reading, self.threads)
        self.trace.moved(Move(plan.op, place(plan.dst, to), (place(plan.src, of),), _lanes(writing), True))


class _MatrixCopies:
    def __init__(self, plan: MatrixCopyPlan, trace: Trace, batch: BatchState) -> None:
        self.plan, self.trace = plan, trace

    def __call__(self, dst: Any, src: Any, dst_strides: Any, src_strides: Any, extents: Any, pred: Any,
                 mask: Mask) -> None:
        plan = self.plan
        plan(dst, src, dst_strides, src_strides, extents, pred, mask)
        offset, strides = (src, src_strides) if plan.site.loads else (dst, dst_strides)
        shared = place(plan.memory, plan._spread(plan.memory.locate(offset, strides, extents)))
        register = place(plan.register, shared.elements)
        to, of = (register, shared) if plan.site.loads else (shared, register)
        self.trace.moved(Move(plan.op, to, (of,), _lanes(mask), True))


class _Maps:
    def __init__(self, plan: MapPlan, trace: Trace, batch: BatchState) -> None:
        self.plan, self.trace, self.threads = plan, trace, batch.threads
        self.sources: tuple[Place, ...] = ()
        self.plain = _is_conversion(plan.dst.op)

    def read(self, offsets: tuple[Any, ...], mask: Mask) -> list[Array]:
        places = []
        for end, offset in zip(self.plan.sources, offsets, strict=True):
            index = end.locate(offset, (), ())
            places.append(place(end, index))
            if isinstance(end, GlobalEnd):
                self.trace.read(end, end.op, index[..., 0], mask, self.threads)
        self.sources = tuple(places)
        return self.plan.read(offsets, mask)

    def write(self, offset: Any, value: Any, mask: Mask) -> None:
        self.plan.write(offset, value, mask)
        to = place(self.plan.dst, self.plan.dst.locate(offset, (), ()))
        self.trace.moved(Move(self.plan.dst.op, to, self.sources, _lanes(mask), self.plain))


def _is_conversion(op: ops.Op) -> bool:
    """Whether a Map stores its one input, perhaps converted."""
    assert isinstance(op, ops.Map), "a plan of a Map"
    value: Any = op.value
    while isinstance(value, Value) and isinstance(value.op, ops.Cast):
        value = value.op.a
    return len(op.inputs) == 1 and value is op.inputs[0]


class _Loads:
    def __init__(self, plan: LoadPlan, trace: Trace, batch: BatchState) -> None:
        self.plan, self.trace, self.threads = plan, trace, batch.threads
        self.end = plan.end             # what a loop polls is found by it

    def __call__(self, offset: Any, mask: Mask) -> Any:
        end = self.plan.end
        index = end.locate(offset, (), ())
        assert isinstance(end.op, ops.Load), "a plan of a Load"
        if isinstance(end, GlobalEnd):
            self.trace.read(end, end.op, index[..., 0], mask, self.threads)
        self.trace.loaded(end.op, place(end, index), _lanes(mask), self.threads)
        return self.plan(offset, mask)


class _Stores:
    def __init__(self, plan: StorePlan, trace: Trace, batch: BatchState) -> None:
        self.plan, self.trace = plan, trace

    def __call__(self, offset: Any, value: Any, mask: Mask) -> None:
        self.plan(offset, value, mask)
        end = self.plan.end
        assert isinstance(end.op, ops.Store), "a plan of a Store"
        sources, plain = self.trace.sources(end.op.value)
        to = place(end, end.locate(offset, (), ()))
        self.trace.moved(Move(end.op, to, tuple(sources), _lanes(mask), plain))


class _Products:
    def __init__(self, plan: Checked, trace: Trace) -> None:
        self.plan, self.trace = plan, trace
        ref = plan.op.d
        self.dst = Place(ref.buffer, max(1, ref.dtype.bits // 8), plan.site.d.reshape(-1, 1))

    def __call__(self, mask: Mask) -> None:
        self.plan(mask)  # type: ignore[operator]
        self.trace.moved(Move(self.plan.op, self.dst, (), _lanes(mask), True))


class Accumulators:
    """The values of accumulators (buffer, row, thread) of one block: before the first product, and after each."""

    def __init__(self, wanted: list[tuple[int, int, int]]) -> None:
        self.values: dict[tuple[int, int, int], list[Any]] = {key: [] for key in wanted}

    def watched(self, plan: Any, batch: BatchState) -> Any:
        if not isinstance(plan, Checked):
            return plan
        rows = {int(row) for row in plan.site.d.reshape(-1)}
        mine = [key for key in self.values if key[0] == plan.op.d.buffer.id and key[1] in rows]
        return _Summed(plan, mine, self.values) if mine else plan


class _Summed:
    def __init__(self, plan: Checked, keys: list[tuple[int, int, int]],
                 values: dict[tuple[int, int, int], list[Any]]) -> None:
        self.plan, self.keys, self.values = plan, keys, values

    def __call__(self, mask: Mask) -> None:
        lanes = _lanes(mask)
        keys = [k for k in self.keys if lanes is None or lanes[0, k[2] if lanes.shape[1] > 1 else 0]]
        for key in keys:
            if not self.values[key]:
                self.values[key].append(self._value(key))
        self.plan(mask)  # type: ignore[operator]
        for key in keys:
            self.values[key].append(self._value(key))

    def _value(self, key: tuple[int, int, int]) -> Any:
        data = self.plan.fragments["d"].view(numpy_dtype(self.plan.op.d.dtype))
        return None if data is None else data[key[1], key[2], 0]
