"""Atomic operations: read, modify, write of one element per lane, the lanes one after the other.

In: an ``ops.Atomic``.  Out: ``AtomicSite.bind(batch)``, called with offset, value, compare and mask; it returns what
each lane found.

Lanes that hit different elements are done at once, lanes that hit the same one in the order of blocks and threads; in
some schedules the last one comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.checks.signals import Outcome
from moye.sim.flow.once import once_per_func
from moye.sim.operations.access import End, GlobalEnd, Operand, PeerEnd, SharedEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values import overflow
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array
from moye.sim.values.scalars import least, most

_MODIFY: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_OF_FLOATS: dict[str, Any] = {"min": least, "max": most}


class AtomicSite:
    """The static part."""

    def __init__(self, op: ops.Atomic) -> None:
        if op.ref.buffer.space is Space.REGISTER or (op.kind not in _MODIFY and op.kind not in ("exch", "cas")):
            raise UnsupportedError(f"the simulator does not know atomic {op.kind} on {op.ref.buffer}", locs=(op.loc,))
        self.op = op
        self.operand = Operand(op, op.ref, ())

    def bind(self, batch: BatchState) -> AtomicPlan:
        return AtomicPlan(self, batch)


class AtomicPlan:
    def __init__(self, site: AtomicSite, batch: BatchState) -> None:
        self.op, self.batch = site.op, batch
        kind, floats = site.op.kind, site.op.ref.dtype.is_float
        self.modify: Any = _OF_FLOATS[kind] if floats and kind in _OF_FLOATS else _MODIFY.get(kind)
        self.end: End = site.operand.bind(batch)
        self.polls = batch.watch is not None and id(site.op) in batch.watch.globals.flags.traffic.spun
        self.backwards = batch.watch is not None and batch.launch.schedule.backwards(
            lambda: _tensors(batch.launch.func)[site.op.ref.buffer.root.id])

    def __call__(self, offset: Any, value: Any, compare: Any, mask: Mask, *more: Any) -> Array:
        old = self._one(offset, value, compare, mask)
        for i, behind in enumerate(more, 1):            # one instruction, and each element is changed by itself
            self._one(offset + i, behind, None, mask)
        return old

    def _one(self, offset: Any, value: Any, compare: Any, mask: Mask) -> Array:
        index = self.end.locate(offset, (), ())
        if isinstance(self.end, GlobalEnd):
            self.end.changed(index, mask)
        shape = (self.batch.threads, self.batch.blocks)
        flat, cell = self._cells(np.broadcast_to(index[0], shape))
        active = lanes_of(mask, *shape) & (cell >= 0) & (cell < len(flat))
        where = cell.T[active.T]                        # block by block, threads in order
        values = np.broadcast_to(np.asarray(value, flat.dtype), shape).T[active.T]
        expected = None if compare is None else np.broadcast_to(np.asarray(compare, flat.dtype), shape).T[active.T]
        old = np.zeros(shape, flat.dtype)
        old.T[active.T] = found = self._in_turn(flat, where, values, expected)
        if self.batch.watch is None:
            return old
        if self.op.kind == "add" and overflow.signed(flat.dtype):
            self._check_sums(old, np.broadcast_to(np.asarray(value, flat.dtype), shape), active)
        wrote = np.zeros(shape, np.bool_)
        wrote.T[active.T] = self._wrote(found, values, expected)
        flags = self.batch.watch.globals.flags
        full = np.broadcast_to(np.asarray(value, flat.dtype), shape)
        flags.outcome = Outcome(old, wrote, self.backwards, lambda thread, block, found: bool(
            self._new(np.asarray(found, flat.dtype), full[thread, block], None) == found))
        self._check(index, mask)
        given, older = flags.give(old)
        self.batch.launch.writes += older               # who polls gets on
        return np.asarray(given)

    def _check_sums(self, old: Array, value: Array, active: Array) -> None:
        """Report A11: the sum of what a lane found and what it added does not fit."""
        bits = old.dtype.itemsize * 8
        _, bad = overflow.overflowed("add", np.where(active, old, 0), np.where(active, value, 0), bits)
        if bad is not None and self.batch.watch is not None:
            self.batch.watch.grown(self.op, "add", bits, self.op.ref.buffer.name, old, value, bad, active)

    def _wrote(self, old: Array, values: Array, expected: Array | None) -> Array:
        """Whether it counts as a write: a comparison that fails writes nothing, nor does a poll that adds nothing."""
        if expected is not None:
            return _same_bits(old, expected)
        if not self.polls:
            return np.ones(old.shape, np.bool_)
        return np.asarray(self._new(old, values, expected) != old)

    def _check(self, index: Array, mask: Mask) -> None:
        assert self.batch.watch is not None, "the run is checked"
        if isinstance(self.end, GlobalEnd):
            self.end.check_read(index, mask)
        elif isinstance(self.end, PeerEnd):
            self.end.check_atomic(index, mask)
        elif isinstance(self.end, SharedEnd):
            self.end.memory.disown(index, self.end.dtype.itemsize, None if mask is None else np.asarray(mask))
            self.batch.watch.shared(self.op, self.op.ref, self.end.memory, index, 1, mask, "atomic")

    def _cells(self, index: Array) -> tuple[Array, Array]:
        """The memory as a flat array, and the cell of each lane in it."""
        if isinstance(self.end, GlobalEnd):
            return self.end.memory.flat, index + self.end.memory.base
        if not isinstance(self.end, (SharedEnd, PeerEnd)) or self.end.dtype.itemsize != self.end.memory.dtype.itemsize:
            raise UnsupportedError(f"atomic {self.op.kind} on a recast of {self.op.ref.buffer}", locs=(self.op.loc,))
        shared = self.end.memory
        if isinstance(self.end, PeerEnd):
            within = (index >= 0) & (index < shared.elements * shared.blocks)
            return shared.data.view(self.end.dtype).reshape(-1), np.where(within, index, -1)
        inside = (index >= 0) & (index < shared.elements)
        return shared.data.view(self.end.dtype).reshape(-1), np.where(inside, index * shared.blocks + shared.column, -1)

    def _in_turn(self, flat: Array, cell: Array, values: Array, expected: Array | None) -> Array:
        """The same as ``_apply``, the last lane first if this schedule says so."""
        if not self.backwards:
            return self._apply(flat, cell, values, expected)
        return self._apply(flat, cell[::-1], values[::-1], None if expected is None else expected[::-1])[::-1]

    def _apply(self, flat: Array, cell: Array, values: Array, expected: Array | None) -> Array:
        unique = len(np.unique(cell)) == len(cell)
        old = flat[cell] if unique else None
        if old is not None:
            new = self._new(old, values, expected)
            if not np.array_equal(new, old):
                self.batch.launch.writes += 1
            flat[cell] = new
            return old
        before = flat[cell]
        if self.op.kind == "add" and flat.dtype.kind in "iu":
            found = _add_in_order(flat, cell, values)
        else:
            found = self._one_by_one(flat, cell, values, expected)
        if not np.array_equal(flat[cell], before):
            self.batch.launch.writes += 1
        return found

    def _new(self, old: Any, values: Any, expected: Any) -> Any:
        if self.op.kind == "exch":
            return values
        if self.op.kind == "cas":
            return np.where(_same_bits(old, expected), values, old)
        return self.modify(old, values)

    def _one_by_one(self, flat: Array, cell: Array, values: Array, expected: Array | None) -> Array:
        old = np.empty(len(cell), flat.dtype)
        for lane, where in enumerate(cell.tolist()):
            old[lane] = flat[where]
            flat[where] = self._new(old[lane], values[lane], None if expected is None else expected[lane])
        return old


@once_per_func
def _tensors(func: Func) -> dict[int, int]:
    """A number for each tensor with atomics, in the order of the program."""
    found: dict[int, int] = {}
    for op in func.body.walk():
        if isinstance(op, ops.Atomic):
            found.setdefault(op.ref.buffer.root.id, len(found))
    return found


def _same_bits(a: Any, b: Any) -> Array:
    """What atom.cas compares: a NaN is like itself, and the zeros of both signs differ."""
    x, y = np.asarray(a), np.asarray(b)
    bits = f"u{x.dtype.itemsize}"
    return np.asarray(x.view(bits) == y.view(bits))


def _add_in_order(flat: Array, cell: Array, values: Array) -> Array:
    """Integer add where lanes share cells: a running sum per cell."""
    order = np.argsort(cell, kind="stable")
    sums = np.cumsum(values[order], dtype=flat.dtype)
    before = sums - values[order]
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    offset = np.repeat(before[starts], np.diff(np.append(starts, len(cell))))
    old = np.empty_like(values)
    old[order] = flat[cell[order]] + (before - offset)
    np.add.at(flat, cell, values)
    return old
