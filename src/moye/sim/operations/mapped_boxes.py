"""Tensor copies by maps that a kernel changes: each thread's box lies in the array that its map describes.

In: what tma.py is given, and the place of each thread's map.  Out: memory, findings B1 and D22.

The map counts as it is when the copy is issued.  Elements are counted from those of the parameter that the maps began
as; tensor_maps.py knows what lies there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import TensorParam
from moye.sim.operations.access import GlobalEnd, Operand
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.mbarriers import Cells
from moye.sim.operations.tma import ROW_PART, Issued, TmaBox
from moye.sim.values.memory import Array
from moye.sim.values.tensor_maps import WORDS, Reach, Word, kind, on_device, words

_ROWS = np.arange(WORDS)[:, None, None]


class MappedBox(TmaBox):
    """One op in one batch."""

    def __init__(self, op: ops.TmaCopy, batch: BatchState) -> None:
        super().__init__(op, batch)
        assert op.map is not None, "it goes by a map of the kernel's"
        self.at_launch = words(self.map, self.memory)
        self.place = Operand(op, op.map, ()).bind(batch)
        self.parameters = [(p.buffer, batch.launch.memory(p.buffer, self.map.dtype))
                           for p in batch.launch.func.params if isinstance(p, TensorParam)]
        self.memory = Reach(self.memory.arg, self.map.dtype, [memory.arg for _, memory in self.parameters])

    def maps(self, cells: Cells, place: Any) -> Array | None:
        """The words (N, 16) of each thread's map; D22 where there is none of this kind."""
        index = np.asarray(self.place.locate(place, (), ())) + _ROWS
        assert isinstance(self.place, GlobalEnd), "maps are in global memory"
        memory = self.place.memory
        shape = (WORDS, self.batch.threads, self.batch.blocks)
        found = np.broadcast_to(memory.read(index).view(np.uint64), shape)[:, cells.thread, cells.block].T.copy()
        keys = np.broadcast_to(index[0] * 8 + memory.address, shape[1:])[cells.thread, cells.block]
        self.keys, self.contents = keys, found.copy()
        bad = found[:, Word.KIND] != np.uint64(kind(self.map))
        if bad.any():
            n = int(np.argmax(bad))
            if self.batch.watch is not None:
                self.batch.watch.tell("D22", "none", self.op, (int(cells.thread[n]), int(cells.block[n])),
                                      int(bad.sum()), tensor=memory.arg.name, label=self.op.tensor.name)
            found[bad] = self.at_launch                 # what follows from it is not told of
        self.bad = bad
        return found

    def along(self, issued: Issued) -> list[tuple[Any, Any]]:
        """The (extent, stride) of each dimension, of each thread's map: arrays (N, 1)."""
        assert issued.maps is not None, "they were read"
        part = issued.maps[:, :, None].astype(np.int64)
        strides = [part[:, Word.STRIDES + d] // self.dtype.itemsize for d in range(len(self.map.modes) - 1)]
        extents = [part[:, Word.EXTENTS + d] for d in range(len(self.map.modes))]
        return list(zip(extents, [1, *strides], strict=True))

    def elements(self, issued: Issued) -> tuple[Array, Array]:
        """Offsets from the parameter's first element (N, V), and whether they lie inside of the array."""
        assert issued.maps is not None, "they were read"
        offset, inside = super().elements(issued)
        apart = issued.maps[:, Word.ADDRESS].astype(np.int64) - self.memory.address
        return offset + (apart // self.dtype.itemsize)[:, None], inside

    # --- findings ----------------------------------------------------------------------------------------------------

    def watched(self, issued: Issued) -> None:
        """The checks of global memory learn of it, by the argument in which a box lies."""
        self._ordered(issued)
        self._whole_parts(issued)
        index, inside = self.elements(issued)
        self._nowhere(issued, index, inside)
        assert self.batch.watch is not None, "checked"
        sources: dict[int, Any] = {}
        for buffer, memory in self.parameters:
            at = index + (self.memory.address - memory.address) // memory.itemsize
            here = inside & (at >= memory.low) & (at <= memory.high)
            inside = inside & ~here                     # several arguments may be one memory: it is told of once
            some = np.flatnonzero(here.any(axis=1))
            if not len(some):
                continue
            part = issued.part(some)
            self.batch.watch.boxes(self.op, buffer, memory, part, _given((at[some], here[some])))
            sources |= {int(n): part.sources[i] for i, n in enumerate(some)} if part.sources else {}
        if sources:
            issued.sources = [sources.get(n) for n in range(len(issued.thread))]
            issued.source = np.arange(len(issued.thread))

    def fetched(self, cells: Cells) -> None:
        """A prefetch needs a map, too."""
        self._uses(cells.thread, cells.block, np.zeros_like(cells.thread))

    def _ordered(self, issued: Issued) -> None:
        issued.uses = self._uses(issued.thread, issued.block, issued.group)

    def _uses(self, thread: Array, block: Array, group: Array) -> list[Any]:
        watch = self.batch.watch
        assert watch is not None, "checked"
        return [] if self.bad.any() else [
            watch.globals.maps.used(self.op, int(self.keys[n]), int(block[n]), int(thread[n]), int(group[n]),
                                    self.contents[n].tobytes()) for n in range(len(thread))]

    def _whole_parts(self, issued: Issued) -> None:
        """B5: rows that are written are multiples of 16 bytes, as the host demands of an array of the launch."""
        row = np.asarray(self.along(issued)[0][0])[:, 0] * self.dtype.itemsize
        bad = row % ROW_PART != 0
        if self.op.kind != "load" and bad.any() and self.batch.watch is not None:
            n = int(np.argmax(bad))
            self.batch.watch.tell("B5", "row", self.op, (int(issued.thread[n]), int(issued.block[n])), int(bad.sum()),
                                  tensor=self.op.tensor.name, number=int(row[n]), part=ROW_PART)

    def _nowhere(self, issued: Issued, index: Array, inside: Array) -> None:
        """B1: the array of a map ends before the map's extents do, or nobody knows of it."""
        assert isinstance(self.memory, Reach) and self.batch.watch is not None and issued.maps is not None, "checked"
        bad = inside & ~self.memory.known(index)
        if not bad.any():
            return
        n, v = (int(i) for i in np.argwhere(bad)[0])
        address = int(issued.maps[n, Word.ADDRESS])
        if on_device(address):
            raise UnsupportedError(f"the simulator follows addresses of host arrays alone, and {address:#x} is on a "
                                   "device", locs=(self.op.loc,), hint="simulate the launch with NumPy arrays")
        found = self.memory.known(np.array([(address - self.memory.address) // self.memory.itemsize]))[0]
        self.batch.watch.tell("B1", "mapped" if found else "unknown", self.op,
                              (int(issued.thread[n]), int(issued.block[n])), int(bad.any(axis=1).sum()),
                              tensor=self.op.tensor.name, written=self.op.kind != "load", address=address,
                              extents=tuple(int(extent[n, 0]) for extent, _ in self.along(issued)),
                              there=self.memory.address + int(index[n, v]) * self.memory.itemsize)


def _given(elements: tuple[Array, Array]) -> Callable[[], tuple[Array, Array]]:
    return lambda: elements


class TmaSite:
    """The static part of any tensor copy: the box."""

    def __init__(self, op: ops.TmaCopy) -> None:
        self.op = op

    def bind(self, batch: BatchState) -> TmaBox:
        return TmaBox(self.op, batch) if self.op.map is None else MappedBox(self.op, batch)
