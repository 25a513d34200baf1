"""Tensor maps that a kernel changes: copied to shared memory, edited there, released to global memory, acquired.

In: an op of ``ops.AnyMap`` with the offsets of each thread.  Out: words of memory (tensor_maps.py), findings B5.

Who reads and writes the words when is told to the checks of races as for other accesses; what TMA needs beyond that is
judged in sim/checks/map_order.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import TensorParam
from moye.sim.operations.access import GlobalEnd, Operand, SharedEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array
from moye.sim.values.tensor_maps import WORDS, Word, words

ALIGNMENT, _PART, _MOST, _FARTHEST = 128, 16, 1 << 31, 1 << 40
_ROWS = np.arange(WORDS)[:, None, None]


class TensorMapSite:
    """The static part: the places of maps."""

    def __init__(self, op: ops.AnyMap) -> None:
        self.op = op
        self.map = Operand(op, op.dst if isinstance(op, ops.TensorMapRelease) else op.map, ())
        self.edited = Operand(op, op.src, ()) if isinstance(op, ops.TensorMapRelease) else None

    def bind(self, batch: BatchState) -> TensorMapPlan:
        return TensorMapPlan(self, batch)


class TensorMapPlan:
    """One op in one batch."""

    def __init__(self, site: TensorMapSite, batch: BatchState) -> None:
        self.op, self.batch = site.op, batch
        self.map = site.map.bind(batch)
        self.edited = None if site.edited is None else site.edited.bind(batch)
        self.shape = (batch.threads, batch.blocks)

    def copy(self, offset: Any, mask: Mask) -> None:
        """The map of a parameter to shared memory."""
        if mask is False:
            return
        op, index = self.op, self.map.locate(offset, (), ()) + _ROWS
        assert isinstance(op, ops.TensorMapCopy), "the op that is emitted so"
        param = next(p for p in self.batch.launch.func.params if isinstance(p, TensorParam) and p.buffer is op.tensor)
        assert param.tensor_map is not None, "it is copied by TMA"
        found = words(param.tensor_map, self.batch.launch.memory(op.tensor, param.tensor_map.dtype))
        self.map.check_write(index, mask)
        self.map.store(index, found.view(self._dtype())[:, None, None], mask)

    def update(self, offset: Any, address: Any, source: Any, extents: tuple[Any, ...], strides: tuple[Any, ...],
               mask: Mask) -> None:
        """Some words of a map in shared memory."""
        if mask is False:
            return
        op, index = self.op, self.map.locate(offset, (), ()) + _ROWS
        assert isinstance(op, ops.TensorMapUpdate), "the op that is emitted so"
        if op.source is not None:
            there = self.batch.launch.memory(op.source.buffer, op.source.dtype)
            address = np.asarray(source, np.int64) * there.itemsize + there.address
        if self.batch.watch is not None:
            self._legal(address, extents, strides, mask)
        self.map.check_read(index, mask)
        self.map.check_write(index, mask)
        found = np.broadcast_to(self.map.load(index, mask).view(np.uint64), (WORDS, *self.shape)).copy()
        if address is not None:
            found[Word.ADDRESS] = np.asarray(address).astype(np.uint64)
        for first, values in ((Word.EXTENTS, extents), (Word.STRIDES, strides)):
            for d, value in enumerate(values):
                found[first + d] = np.asarray(value).astype(np.uint64)
        self.map.store(index, found.view(self._dtype()), mask)

    def release(self, offset: Any, edited: Any, mask: Mask) -> None:
        """A map from shared to global memory, by whole warps."""
        if mask is False:
            return
        op = self.op
        assert isinstance(op, ops.TensorMapRelease), "the op that is emitted so"
        assert isinstance(self.map, GlobalEnd) and isinstance(self.edited, SharedEnd), "its spaces"
        index, source = self.map.locate(offset, (), ()) + _ROWS, self.edited.locate(edited, (), ()) + _ROWS
        lanes = lanes_of(mask, *self.shape)
        first = _first_of_warps(lanes)
        self.edited.check_read(source, mask)
        self.map.check_write(index, first)
        found = np.broadcast_to(self.edited.load(source, mask).view(np.uint64), (WORDS, *self.shape))
        if self.batch.watch is not None:
            self._placed(index, lanes)
            self._one_place(index, lanes)
            keys = np.broadcast_to(index[0] * 8 + self.map.memory.address, self.shape)
            for thread, block in np.argwhere(first).tolist():
                warp = np.arange(len(lanes)) // WARP == thread // WARP
                self.batch.watch.globals.maps.released(op, int(keys[thread, block]), block, warp & lanes[:, block],
                                                       found[:, thread, block].tobytes())
        self.map.store(index, found.view(self.map.memory.dtype), first)

    def acquire(self, offset: Any, mask: Mask) -> None:
        """Changes nothing: simulated memory is one."""
        assert isinstance(self.map, GlobalEnd), "its space"
        if mask is False or self.batch.watch is None:
            return
        index, lanes = self.map.locate(offset, (), ()) + _ROWS, lanes_of(mask, *self.shape)
        assert isinstance(self.op, ops.TensorMapAcquire), "the op that is emitted so"
        self._placed(index, lanes)
        keys = np.broadcast_to(index[0] * 8 + self.map.memory.address, self.shape)
        for block in np.flatnonzero(lanes.any(axis=0)).tolist():
            for key in np.unique(keys[lanes[:, block], block]).tolist():
                self.batch.watch.globals.maps.acquired(self.op, key, block, lanes[:, block] & (keys[:, block] == key))

    def _dtype(self) -> np.dtype[Any]:
        assert isinstance(self.map, SharedEnd), "maps are edited in shared memory"
        return self.map.dtype

    # --- findings ----------------------------------------------------------------------------------------------------

    def _placed(self, index: Array, lanes: Array) -> None:
        """B5: a map in global memory begins at a multiple of 128 bytes of its array."""
        self._tell("slot", np.broadcast_to(index[0] * 8, self.shape), lanes, lambda start: start % ALIGNMENT != 0)

    def _one_place(self, index: Array, lanes: Array) -> None:
        """B5: the lanes of a warp name one place."""
        at = np.broadcast_to(index[0], self.shape)
        for warp in range(0, len(lanes), WARP):
            here, places = lanes[warp:warp + WARP], at[warp:warp + WARP]
            low = np.where(here, places, np.iinfo(np.int64).max).min(axis=0)
            bad = np.flatnonzero(here.any(axis=0) & (low != np.where(here, places, -1).max(axis=0)))
            if len(bad) and self.batch.watch is not None:
                thread = warp + int(np.argmax(here[:, bad[0]]))
                self.batch.watch.tell("B5", "places", self.op, (thread, int(bad[0])), len(bad),
                                      tensor=self.map.ref.buffer.name)

    def _legal(self, address: Any, extents: tuple[Any, ...], strides: tuple[Any, ...], mask: Mask) -> None:
        """B5: what TMA takes as an array."""
        lanes = lanes_of(mask, *self.shape)
        if address is not None:
            self._tell("address", address, lanes, lambda x: x % _PART != 0)
        for extent in extents:
            self._tell("extent", extent, lanes, lambda x: (x < 1) | (x >= _MOST))
        for d, stride in enumerate(strides, 1):
            some = lanes if d >= len(extents) else lanes & (np.broadcast_to(np.asarray(extents[d]), self.shape) > 1)
            self._tell("stride", stride, some, lambda x: (x % _PART != 0) | (x >= _FARTHEST))

    def _tell(self, case: str, value: Any, lanes: Array, wrong: Any) -> None:
        values = np.broadcast_to(np.asarray(value), self.shape)
        bad = lanes & wrong(values)
        if bad.any() and self.batch.watch is not None:
            thread, block = (int(i) for i in np.argwhere(bad)[0])
            self.batch.watch.tell("B5", case, self.op, (thread, block), int(bad.sum()),
                                  tensor=self.map.ref.buffer.name, number=int(values[thread, block]),
                                  part=ALIGNMENT if case == "slot" else _PART)


def _first_of_warps(lanes: Array) -> Array:
    """Of each warp the first lane that is there."""
    found = np.zeros_like(lanes)
    for warp in range(0, len(lanes), WARP):
        here = lanes[warp:warp + WARP]
        blocks = np.flatnonzero(here.any(axis=0))
        found[warp + here[:, blocks].argmax(axis=0), blocks] = True
    return found
