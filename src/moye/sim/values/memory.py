"""Where simulated data lives: global arguments, shared allocations and register fragments of one batch of blocks.

In: ``TensorArg`` (a flat NumPy span), ``Buffer``s.  Out: ``Global``, ``Shared`` and ``Fragment`` with reads and writes
by element index arrays of shape (..., T or 1, B or 1).

A register fragment is an array (elements, T, B), shared memory (elements, B): the block index is fastest, so that an
access whose address does not depend on the block takes whole rows.  What nobody wrote is poison.  A mask is None (all
lanes) or a bool array that broadcasts against (..., T, B).  Nothing here judges an access: see access.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moye.dtypes import DType, Kind
from moye.errors import UnsupportedError
from moye.ir.nodes import Buffer
from moye.origin import pip_install
from moye.sim.values.leftovers import Leftovers, RegisterTable, SharedTable

Array = npt.NDArray[Any]

_POISON = {"float16": 0x7EAD, "bfloat16": 0x7FED, "tfloat32": 0x7FC0DEAD, "float32": 0x7FC0DEAD,
           "float64": 0x7FF8DEADDEADDEAD}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds a moye dtype; bfloat16 and float8 need ml_dtypes."""
    if not dtype.name.startswith(("bfloat", "float8")):
        return np.dtype(dtype.numpy)
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(f"the simulator needs the package ml_dtypes to compute with {dtype}",
                               hint=pip_install("dtypes")) from None
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.numpy))
    return found


def storage(dtype: DType) -> np.dtype[Any]:
    """What registers of a dtype are kept as: 32-bit words where elements are narrower than a byte."""
    return np.dtype(np.uint32) if dtype.bits < 8 else numpy_dtype(dtype)


def poison(dtype: DType) -> Any:
    """What undefined memory holds: a NaN with a recognisable payload, 0x7f bytes for integers, True for bool."""
    if dtype.kind is Kind.BOOL:
        return np.True_
    bits, stored = _POISON.get(dtype.name), storage(dtype)
    raw = b"\x7f" * stored.itemsize if bits is None else bits.to_bytes(dtype.bytes, "little")
    return np.frombuffer(raw, stored)[0]


@dataclass(slots=True)
class TensorArg:
    """A tensor argument: its flat span, the index of element 0 in it, shape and strides in elements."""

    memory: Array
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    name: str
    owner: Any = None
    """The caller's array, if it is known."""


class Global:
    """A tensor argument seen as elements of ``dtype``; offsets count from element 0."""

    __slots__ = ("address", "arg", "base", "dtype", "flat", "high", "itemsize", "low")

    def __init__(self, arg: TensorArg, dtype: DType) -> None:
        self.arg = arg
        self.dtype = numpy_dtype(dtype)
        self.itemsize = self.dtype.itemsize
        own = arg.memory.dtype.itemsize
        start = arg.base * own
        self.address = arg.memory.ctypes.data + start
        low, high = _reach(arg)
        low, high = max(low, -arg.base), min(high, len(arg.memory) - arg.base - 1)
        self.low, self.high = -(-low * own // self.itemsize), (high + 1) * own // self.itemsize - 1
        if own == self.itemsize:
            self.flat, self.base = arg.memory.view(self.dtype), arg.base
        else:
            raw = arg.memory.view(np.uint8)[start % self.itemsize:]
            self.flat = raw[:len(raw) // self.itemsize * self.itemsize].view(self.dtype)
            self.base = start // self.itemsize

    def read(self, index: Array | int) -> Array:
        """The elements; offsets outside the span are clipped."""
        if not len(self.flat):
            return np.zeros(np.shape(index), self.dtype)
        return self.flat.take(index + self.base if self.base else index, mode="clip")

    def write(self, index: Array, values: Any, mask: Array | None) -> None:
        """Scatter; offsets outside the span are dropped."""
        if self.base:
            index = index + self.base
        shape = np.broadcast_shapes(index.shape, np.shape(values))
        if shape != index.shape:                        # lanes that share an element: the last one wins
            index = np.broadcast_to(index, shape)
        if index.size and (index.min() < 0 or index.max() >= len(self.flat)):
            inside = (index >= 0) & (index < len(self.flat))
            mask = inside if mask is None else mask & inside
        if mask is None:
            self.flat[index] = values
            return
        index, values, mask = np.broadcast_arrays(index, np.asarray(values, self.dtype), mask)
        self.flat[index[mask]] = values[mask]

    def coordinate(self, offset: int) -> tuple[int, ...]:
        """A coordinate of the element at an offset, in or out of bounds: largest stride first, the rest in the last."""
        strides, crd = self.arg.strides, [0] * len(self.arg.shape)
        modes = sorted((d for d in range(len(crd)) if strides[d]), key=lambda d: abs(strides[d]), reverse=True)
        for d in modes:
            crd[d] = offset // strides[d] if d == modes[-1] or strides[d] > 0 else -(-offset // strides[d])
            offset -= crd[d] * strides[d]
        return tuple(crd)


def _reach(arg: TensorArg) -> tuple[int, int]:
    """Smallest and largest element offset of the tensor; (0, -1) if it is empty."""
    if 0 in arg.shape:
        return 0, -1
    spans = [(extent - 1) * stride for extent, stride in zip(arg.shape, arg.strides, strict=True)]
    return sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans)


class Shared:
    """One shared allocation of every block of a batch: ``data`` is (elements, blocks)."""

    __slots__ = ("blocks", "buffer", "column", "data", "dtype", "elements", "left", "owner")

    def __init__(self, buffer: Buffer, blocks: int) -> None:
        self.buffer = buffer
        self.dtype = numpy_dtype(buffer.dtype)
        self.elements = buffer.elements or 0
        self.blocks = blocks
        self.data: Array = np.empty((self.elements, blocks), self.dtype)
        self.column: Array = np.arange(blocks)
        self.owner: SharedTable | None = None
        """The copy that wrote each element last (0: anything else), if that is asked for."""
        self.left: Leftovers | None = None

    def reset(self) -> None:
        self.data[...] = poison(self.buffer.dtype)
        if self.owner is not None:
            self.owner.reset()
        if self.left is not None:
            self.left.reset()

    def disown(self, index: Array, itemsize: int, mask: Array | None, column: Array | None = None) -> None:
        """Something writes these elements of ``itemsize`` bytes."""
        if self.owner is None:
            return
        if itemsize != self.dtype.itemsize:
            self.owner.reset()
            return
        self.owner.put(index, mask, 0, column)
        if self.left is not None:
            self.left.clear(index, mask, column)

    def read(self, index: Array, dtype: np.dtype[Any], column: Array | None = None) -> Array:
        """The elements (..., T or 1, blocks); indices outside are clipped.  ``column``: of other blocks (T or 1, B)."""
        if dtype.itemsize != self.dtype.itemsize:
            return self._read_recast(index, dtype, self.column if column is None else column)
        data = self.data if dtype == self.dtype else self.data.view(dtype)
        if column is None and index.shape[-1] == 1:
            return data.take(index[..., 0], axis=0, mode="clip")
        return data.reshape(-1).take(index * self.blocks + (self.column if column is None else column), mode="clip")

    def _read_recast(self, index: Array, dtype: np.dtype[Any], column: Array) -> Array:
        own, wanted = self.dtype.itemsize, dtype.itemsize
        if wanted < own:
            ratio = own // wanted
            flat = (index // ratio) * (self.blocks * ratio) + column * ratio + index % ratio
            narrow: Array = self.data.view(dtype)
            return np.asarray(narrow.reshape(-1).take(flat, mode="clip"))
        ratio = wanted // own
        if column.ndim > 2:                             # a block for each access
            column = column[..., None, :, :]
        parts = self.read(index[..., None, :, :] * ratio + np.arange(ratio)[:, None, None], self.dtype, column)
        joined: Array = np.ascontiguousarray(np.moveaxis(parts, -3, -1)).view(dtype)
        return np.asarray(joined[..., 0])

    def write(self, index: Array, dtype: np.dtype[Any], values: Any, mask: Array | None,
              column: Array | None = None) -> None:
        """Scatter; indices outside the allocation are dropped.  ``column``: into other blocks (T or 1, B)."""
        ratio = self.dtype.itemsize / dtype.itemsize
        if ratio < 1:
            self._write_wide(index, dtype, values, mask, column)
            return
        ratio = int(ratio)
        threads = np.shape(values)[-2:-1]
        if threads and threads[0] > index.shape[-2]:    # lanes that share an element: the last one wins
            index = np.broadcast_to(index, (*index.shape[:-2], *threads, index.shape[-1]))
        limit = self.elements * ratio
        if index.size and (index.min() < 0 or index.max() >= limit):
            inside = (index >= 0) & (index < limit)
            mask = inside if mask is None else mask & inside
        data = self.data if dtype == self.dtype else self.data.view(dtype)
        if mask is None and ratio == 1 and index.shape[-1] == 1 and column is None:
            data[index[..., 0]] = values
            return
        column = self.column if column is None else column
        flat = (index // ratio) * (self.blocks * ratio) + column * ratio + index % ratio if ratio > 1 \
            else index * self.blocks + column
        if mask is None:
            data.reshape(-1)[flat] = values
            return
        flat, values, mask = np.broadcast_arrays(flat, np.asarray(values, dtype), mask)
        data.reshape(-1)[flat[mask]] = values[mask]

    def _write_wide(self, index: Array, dtype: np.dtype[Any], values: Any, mask: Array | None,
                    column: Array | None) -> None:
        ratio = dtype.itemsize // self.dtype.itemsize
        shape = np.broadcast_shapes(index.shape, np.shape(values), (1, self.blocks))
        parts = np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype), shape)).view(self.dtype)
        parts = np.moveaxis(parts.reshape(*shape, ratio), -1, 0)
        for part in range(ratio):
            self.write(index * ratio + part, self.dtype, parts[part], mask, column)


class Fragment:
    """One register buffer of every thread: ``data`` is (elements, T, blocks); ``known`` says what was set.

    Elements narrower than a byte are kept as 32-bit words.
    """

    __slots__ = ("buffer", "data", "dtype", "known", "lanes", "origin", "owner")

    def __init__(self, buffer: Buffer, threads: int, blocks: int) -> None:
        self.buffer = buffer
        self.dtype = storage(buffer.dtype)
        rows = -(-(buffer.elements or 0) * buffer.dtype.bits // (8 * self.dtype.itemsize))
        self.data: Array = np.empty((rows, threads, blocks), self.dtype)
        self.known = np.zeros(rows, np.bool_)
        self.lanes: Array | None = None
        """The lanes for which elements are set, if they are set for some threads only."""
        self.origin: dict[int, int] = {}
        """The origin of each element that depends on one that was not set (doubts.py)."""
        self.owner: RegisterTable | None = None
        """The copy that wrote each element last, by lane (0: anything else), if that is asked for."""

    def reset(self, mask: Array | None) -> None:
        """The buffer begins here: poison, for the lanes of the mask."""
        if self.owner is not None:
            self.owner.put(np.arange(len(self.data))[:, None, None], mask, 0)
        self.origin.clear()
        if mask is None:
            self.data[...] = poison(self.buffer.dtype)
            self.known[:] = False
            self.lanes = None
            return
        np.copyto(self.data, poison(self.buffer.dtype), where=mask)
        if self.lanes is None:
            self.lanes = np.broadcast_to(self.known[:, None, None], self.data.shape).copy()
        self.lanes &= ~mask
        self.known[:] = False

    def mark(self, rows: Array, mask: Array | None) -> None:
        """The elements ``rows`` are set in the lanes of the mask."""
        if self.owner is not None:
            self.owner.put(rows[:, None, None], mask, 0)
        if mask is None:
            self.known[rows] = True
        elif not self.known[rows].all():
            if self.lanes is None:
                self.lanes = np.broadcast_to(self.known[:, None, None], self.data.shape).copy()
            self.lanes[rows] |= mask

    def unmark(self, rows: Array, numbers: Array) -> None:
        """Elements (rows, T, blocks) have been made of what was not set: the numbers say of what, 0 for those set."""
        if self.lanes is None:
            self.lanes = np.broadcast_to(self.known[:, None, None], self.data.shape).copy()
        for position in np.flatnonzero(numbers.any(axis=(1, 2))).tolist():
            row, here = int(rows[position]), numbers[position]
            if self.known[row]:
                self.lanes[row] = True
                self.known[row] = False
            self.lanes[row] &= here == 0
            self.origin[row] = int(here[here != 0][0])

    def unset(self, rows: Array, mask: Array | None) -> Array | None:
        """Where (rows, T, blocks) an element is not set, or None."""
        known = self.known[rows]
        if known.all():
            return None
        shape = (len(known), *self.data.shape[1:])
        missing = np.broadcast_to(~known[:, None, None], shape)
        if self.lanes is not None:
            missing = missing & ~self.lanes[rows]
        if mask is not None:
            missing = missing & mask
        return missing if missing.any() else None

    def view(self, dtype: np.dtype[Any]) -> Array | None:
        """The data as another dtype of the same width, or None."""
        return self.data.view(dtype) if dtype.itemsize == self.dtype.itemsize else None

    @property
    def per_row(self) -> int:
        """Elements of the buffer in one row."""
        return max(1, 8 * self.dtype.itemsize // self.buffer.dtype.bits)

    def elements(self, dtype: DType) -> Array:
        """The data as elements of any width (V, T, blocks): a view if the width is the same, else a copy."""
        wanted = numpy_dtype(dtype)
        same = None if dtype.bits < 8 else self.view(wanted)
        if same is not None:
            return same
        lanes = np.ascontiguousarray(np.moveaxis(self.data, 0, -1))
        if dtype.bits >= 8:
            return np.moveaxis(lanes.view(wanted), -1, 0)
        shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
        parts = (lanes.view(np.uint8)[..., None] >> shifts) & np.uint8((1 << dtype.bits) - 1)
        if dtype.kind is Kind.INT:                      # the upper half of the range is negative
            parts = ((parts ^ np.uint8(1 << (dtype.bits - 1))) - np.uint8(1 << (dtype.bits - 1))).view(np.int8)
        return np.moveaxis(parts.reshape(*lanes.shape[:-1], -1), -1, 0)

    def rows(self, dtype: DType, elements: Array) -> Array:
        """The rows of ``data`` that hold these elements of another width."""
        own = 8 * self.dtype.itemsize
        if dtype.bits <= own:
            return np.unique(elements * dtype.bits // own)
        return np.unique(elements[..., None] * (dtype.bits // own) + np.arange(dtype.bits // own))
