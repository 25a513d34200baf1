"""One operand of a memory operation in one batch: where it is, how it is read, written and checked.

In: a ``Ref`` / ``TileRef`` and its ``Addresser``.  Out: ``GlobalEnd``, ``SharedEnd``, ``PeerEnd``, ``RegisterEnd``:
``locate`` gives indices, ``load`` and ``store`` move values (V, T, B), ``check_read`` and ``check_write`` judge
(checked runs only).

A register operand is static: its ``locate`` gives its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Extent, Ref, TileRef
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.addressing import Addresser, as_slice, register_rows
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, numpy_dtype


class GlobalEnd:
    """Global memory."""

    def __init__(self, op: ops.Op, ref: Ref | TileRef, addresser: Addresser, batch: BatchState) -> None:
        self.op, self.ref, self.locate, self.width = op, ref, addresser, addresser.width
        self.launch = batch.launch
        self.memory = batch.launch.memory(ref.buffer, ref.dtype)
        self.watch = batch.watch

    def load(self, index: Array, mask: Mask) -> Array:
        return self.memory.read(index)

    def load_into(self, index: Array, out: Array) -> bool:
        if index.shape != out.shape or self.memory.base or out.dtype != self.memory.flat.dtype:
            return False
        self.memory.flat.take(index, out=out, mode="clip")
        return True

    def store(self, index: Array, values: Any, mask: Mask) -> None:
        self.launch.writes += 1
        self.changed(index, mask)
        lanes = None if mask is None else np.asarray(mask)
        before = self.memory.read(index) if self.watch and self.watch.globals.doubtful else None
        self.memory.write(index, values, lanes)
        if self.watch and before is not None:
            self.watch.globals.settle(self.memory, index, before, values, lanes)

    def changed(self, index: Array, mask: Mask) -> None:
        """The elements are about to be changed: for those who want to know (probe.py)."""

    def outside(self, offset: Any, strides: tuple[Any, ...] = (), extents: tuple[Any, ...] = ()) -> Array:
        """Whether there is no element of the argument."""
        return self.locate.beyond(offset, strides, extents, self.memory.low, self.memory.high)

    def check_read(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            self.watch.globally(self.op, self.ref, self.memory, index, self.width, mask, "reads",
                                asynchronous=asynchronous)

    def check_write(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            self.watch.globally(self.op, self.ref, self.memory, index, self.width, mask, "writes")


class SharedEnd:
    """Shared memory."""

    def __init__(self, op: ops.Op, ref: Ref | TileRef, addresser: Addresser, batch: BatchState) -> None:
        self.op, self.ref, self.locate, self.width = op, ref, addresser, addresser.width
        self.launch = batch.launch
        self.memory = batch.shared[ref.buffer.id]
        self.dtype = numpy_dtype(ref.dtype)
        self.same = self.dtype == self.memory.dtype
        self.watch = batch.watch

    def load(self, index: Array, mask: Mask) -> Array:
        return self.memory.read(index, self.dtype)

    def load_into(self, index: Array, out: Array) -> bool:
        if not self.same or index.shape[2] != 1 or index.shape[1] != out.shape[1] or out.dtype != self.dtype:
            return False
        self.memory.data.take(index[:, :, 0], axis=0, out=out, mode="clip")
        return True

    def store(self, index: Array, values: Any, mask: Mask) -> None:
        self.launch.writes += 1
        lanes = None if mask is None else np.asarray(mask)
        if self.watch is None or not self.watch.checker.agreement.waiting:
            self.memory.write(index, self.dtype, values, lanes)
            return
        before = self.memory.read(index, self.dtype)
        self.memory.write(index, self.dtype, values, lanes)
        size = self.dtype.itemsize
        self.watch.checker.settle(index * size, size, before, self.memory.read(index, self.dtype), values, lanes)

    def check_read(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            self.watch.shared(self.op, self.ref, self.memory, index, self.width, mask, "read")

    def check_write(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            how = "async_write" if asynchronous else "write"
            self.memory.disown(index, self.dtype.itemsize, None if mask is None else np.asarray(mask))
            self.watch.checker.valued = not asynchronous
            self.watch.shared(self.op, self.ref, self.memory, index, self.width, mask, how)
            self.watch.checker.valued = False


class PeerEnd:
    """Shared memory of blocks of the cluster: an index is (element, column of the block) as one number."""

    def __init__(self, op: ops.Op, ref: Ref | TileRef, addresser: Addresser, batch: BatchState) -> None:
        self.op, self.ref, self.addresser, self.width = op, ref, addresser, addresser.width
        self.launch = batch.launch
        self.memory = batch.shared[ref.buffer.root.id]
        self.dtype = numpy_dtype(ref.dtype)
        self.watch = batch.watch

    def locate(self, place: Any, strides: tuple[Any, ...], extents: tuple[Any, ...]) -> Array:
        """Of an offset and the columns (T or 1, B) of the blocks."""
        offset, column = place
        index: Array = self.addresser(offset, strides, extents) * self.memory.blocks + column.astype(np.int64)
        return index

    def load(self, index: Array, mask: Mask) -> Array:
        element, column = np.divmod(index, self.memory.blocks)
        return self.memory.read(element, self.dtype, column)

    def load_into(self, index: Array, out: Array) -> bool:
        return False

    def store(self, index: Array, values: Any, mask: Mask) -> None:
        self.launch.writes += 1
        element, column = np.divmod(index, self.memory.blocks)
        self.memory.write(element, self.dtype, values, None if mask is None else np.asarray(mask), column)

    def check_read(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            element, column = np.divmod(index, self.memory.blocks)
            self.watch.peer(self.op, self.ref, self.memory, element, column, self.width, mask, "read")

    def check_write(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            element, column = np.divmod(index, self.memory.blocks)
            self.memory.disown(element, self.dtype.itemsize, None if mask is None else np.asarray(mask), column)
            self.watch.peer(self.op, self.ref, self.memory, element, column, self.width, mask, "write")

    def check_atomic(self, index: Array, mask: Mask) -> None:
        """An atomic of these elements: no predicated copy owns them any longer."""
        element, column = np.divmod(index, self.memory.blocks)
        self.memory.disown(element, self.dtype.itemsize, None if mask is None else np.asarray(mask), column)
        if self.watch:
            self.watch.peer(self.op, self.ref, self.memory, element, column, 1, mask, "atomic")


class RegisterEnd:
    """A register fragment; its rows are known, so ``locate`` ignores what it is given."""

    def __init__(self, op: ops.Op, ref: Ref | TileRef, rows: Array, batch: BatchState) -> None:
        self.op, self.ref, self.rows = op, ref, rows
        self.fragment = batch.fragments[ref.buffer.id]
        self.dtype = numpy_dtype(ref.dtype)
        self.watch = batch.watch
        data = self.fragment.view(self.dtype)
        self.data = _Recast(self) if data is None else data
        at = as_slice(rows)
        self.at: slice | Array = rows if at is None else at
        self.view: Array | None = data[at] if data is not None and at is not None else None
        ratio = max(1, self.fragment.dtype.itemsize // self.dtype.itemsize)
        parts = max(1, self.dtype.itemsize // self.fragment.dtype.itemsize)
        self.own = rows // ratio if parts == 1 else (rows[:, None] * parts + np.arange(parts)).reshape(-1)

    def locate(self, offset: Any, strides: tuple[Any, ...], extents: tuple[Any, ...]) -> Array:
        return self.rows

    def load(self, index: Array, mask: Mask) -> Array:
        loaded: Array = self.data[self.at] if self.view is None else self.view
        return loaded

    def load_into(self, index: Array, out: Array) -> bool:
        return False

    def store(self, index: Array, values: Any, mask: Mask) -> None:
        if mask is None:
            if self.view is not None:
                np.copyto(self.view, values, casting="unsafe")
            else:
                self.data[self.at] = values
        elif self.view is not None:
            np.copyto(self.view, values, where=np.asarray(mask), casting="unsafe")
        else:
            self.data[self.at] = np.where(np.asarray(mask), values, self.data[self.at])

    def check_read(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            self.watch.register(self.op, self.ref, self.fragment, self.own, mask)

    def check_write(self, index: Array, mask: Mask, asynchronous: bool = False) -> None:
        if self.watch:
            if self.watch.wgmma.used:
                self.watch.wgmma.use(self.op, self.fragment, self.own, mask, write=True)
            self.fragment.mark(self.own, None if mask is None else np.asarray(mask))

    def carried(self, mask: Mask) -> Array | None:
        """The numbers of the origins of what is read and not set, (V, T, B); None if all is set, or if nobody
        checks."""
        if not self.watch:
            return None
        if len(self.own) != len(self.rows):
            self.check_read(self.rows, mask)
            return None
        return self.watch.carried(self.op, self.fragment, self.own, mask)

    def doubt(self, numbers: Array, mask: Mask) -> None:
        """What was just written depends on what was not set."""
        if mask is not None:
            numbers = np.where(np.asarray(mask), numbers, np.int16(0))
        if not numbers.any():
            return
        if len(self.own) == len(self.rows):
            self.fragment.unmark(self.own, np.broadcast_to(numbers, (len(self.own), *self.fragment.data.shape[1:])))
        elif self.watch:
            self.watch.uses.tell(self.op, numbers)


class _Recast:
    """A fragment indexed in elements of another width."""

    def __init__(self, end: RegisterEnd) -> None:
        self.fragment, self.dtype = end.fragment, end.dtype

    def _whole(self) -> Array:
        data = np.ascontiguousarray(np.moveaxis(self.fragment.data, 0, -1)).view(self.dtype)
        return np.moveaxis(data, -1, 0)

    def __getitem__(self, rows: Any) -> Array:
        picked: Array = self._whole()[rows]
        return picked

    def __setitem__(self, rows: Any, values: Any) -> None:
        whole = self._whole().copy()
        whole[rows] = values
        back = np.ascontiguousarray(np.moveaxis(whole, 0, -1)).view(self.fragment.dtype)
        self.fragment.data[...] = np.moveaxis(back, -1, 0)


End = GlobalEnd | SharedEnd | PeerEnd | RegisterEnd
_ENDS: dict[Space, type[GlobalEnd] | type[SharedEnd] | type[PeerEnd]] = {
    Space.GLOBAL: GlobalEnd, Space.SHARED: SharedEnd, Space.CLUSTER: PeerEnd}


class Operand:
    """The static part of an operand: computed once per kernel, bound to each batch."""

    def __init__(self, op: ops.Op, ref: Ref | TileRef, extents: tuple[Extent, ...], width: int = 1,
                 order: Array | None = None) -> None:
        self.op, self.ref = op, ref
        self.register = ref.buffer.space is Space.REGISTER
        if self.register:
            rows = register_rows(ref, extents, width)
            self.rows = rows if order is None else rows.reshape(-1, width)[order].reshape(-1)
        else:
            self.addresser = Addresser(ref, extents, width, order)

    def bind(self, batch: BatchState) -> End:
        if self.register:
            return RegisterEnd(self.op, self.ref, self.rows, batch)
        return _ENDS[self.ref.buffer.space](self.op, self.ref, self.addresser, batch)
