"""st.async and red.async: registers on their way to another block, at their latest legal time or the earliest.

In: an ``ops.AsyncStore`` with the offset, the values, the mbarrier and the block of each thread that issues it.  Out:
memory, bytes that land on mbarriers, findings B2; what it does to memory is told to the checks of races.

They are in flight as tensor copies are (tma.py): until the phase of their mbarrier is over, memory holds what it held.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Buffer
from moye.sim.checks.engines import Engines
from moye.sim.operations.access import Operand, PeerEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.mbarriers import Cells
from moye.sim.operations.tma import Issued
from moye.sim.values.masks import Mask
from moye.sim.values.memory import numpy_dtype
from moye.sim.values.reductions import reduced


class AsyncStoreSite:
    """The static part: where it goes to."""

    def __init__(self, op: ops.AsyncStore) -> None:
        self.op = op
        self.operand = Operand(op, op.dst, ())

    def bind(self, batch: BatchState) -> AsyncStoreRun:
        return AsyncStoreRun(self, batch)


class AsyncStoreRun:
    """One op in one batch."""

    def __init__(self, site: AsyncStoreSite, batch: BatchState) -> None:
        self.op, self.batch = site.op, batch
        end = site.operand.bind(batch)
        assert isinstance(end, PeerEnd), "it goes to a block of the cluster"
        self.end = end
        self.near = replace(self.op.dst, buffer=self.op.dst.buffer.root)
        self.name = self.near.buffer.name
        self.completes = replace(self.op.barrier, buffer=self.op.barrier.buffer.root)
        self.barrier: Buffer | None = self.completes.buffer
        self.dtype = numpy_dtype(self.op.dst.dtype)
        self.bytes = len(self.op.values) * self.dtype.itemsize

    def __call__(self, dst: Any, values: tuple[Any, ...], barrier: Any, column: Any, mask: Mask) -> None:
        if mask is False:
            return
        batch = self.batch
        cells = Cells(batch, mask, barrier, 1 << 30)
        if not len(cells.thread):
            return
        block = cells.of(batch, column).astype(np.int64)
        element = self.end.locate((dst, np.asarray(column)), (), ()) // self.end.memory.blocks
        start = cells.of(batch, element.reshape(element.shape[-2:])) * self.dtype.itemsize
        issued = Issued(self, cells.thread, block, start, [], cells.element, np.full_like(start, self.bytes))
        issued.issuer = cells.block
        shape = batch.threads, batch.blocks
        issued.values = np.stack([np.broadcast_to(np.asarray(value, self.dtype), shape)[cells.thread, cells.block]
                                  for value in values], axis=1)
        self._outside(issued)
        batch.tensor_copies.issue(issued)

    # --- moving ------------------------------------------------------------------------------------------------------

    def load(self, issued: Issued) -> None:
        """What was on its way arrives."""
        assert issued.values is not None, "they were taken as it was issued"
        self.batch.launch.writes += 1
        shared = self.batch.shared[self.near.buffer.id]
        index = issued.start // self.dtype.itemsize + np.arange(issued.values.shape[1])[:, None]        # (V, N)
        if self.op.by is None:
            shared.write(index[:, None], self.dtype, issued.values.T[:, None], None, issued.block[None])
        else:
            for n, (value, block) in enumerate(zip(issued.values, issued.block, strict=True)):
                at, column = index[:, None, n:n + 1], block.reshape(1, 1)       # several may change one element
                old = shared.read(at, self.dtype, column)
                shared.write(at, self.dtype, reduced(self.op.by, old, value), None, column)
        if shared.owner is not None:                    # none of a predicated copy any longer
            inside = (index >= 0) & (index < shared.elements)
            shared.disown(index[:, None], self.dtype.itemsize, inside[:, None], issued.block[None])

    def fetch(self, issued: Issued) -> None:
        raise AssertionError("its values were taken as it was issued")

    def store(self, issued: Issued) -> None:
        raise AssertionError("it completes on an mbarrier")

    # --- findings ----------------------------------------------------------------------------------------------------

    def tell(self, engines: Engines, issued: Issued) -> None:
        """The checks learn of it."""
        engines.stored(self.op, self.near, self.completes, self.bytes, issued)

    def _outside(self, issued: Issued) -> None:
        """B2: beyond the shared tensor, though inside the block's memory."""
        size, watch = self.near.buffer.bytes, self.batch.watch
        bad = (issued.start < 0) | (issued.start + self.bytes > size)
        if watch is not None and bad.any():
            n = int(np.argmax(bad))
            watch.tell("B2", "run", self.op, (int(issued.thread[n]), int(issued.issuer[n])), int(bad.sum()),
                       tensor=self.name, bytes=self.bytes, start=int(issued.start[n]), size=size)
