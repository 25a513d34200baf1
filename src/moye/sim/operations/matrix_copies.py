"""ldmatrix and stmatrix: rows of shared memory that some threads of a warp name, spread over the registers of all.

In: an ``ops.Copy`` whose atom moves matrices.  Out: ``MatrixCopySite(op).bind(batch)``, called as a copy is.

Each row counts as read or written by the thread that gives its address.  A warp that is not whole is finding C6.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from moye.atoms.atom import CopyOp
from moye.atoms.matrix import ROWS, memory_layout, register_layout
from moye.dtypes import Space
from moye.errors import UnsupportedError
from moye.hardware import WARP
from moye.ir import ops
from moye.layout import size
from moye.sim.findings.wording import Crowd
from moye.sim.operations.access import Operand, RegisterEnd
from moye.sim.operations.batch_state import BatchState
from moye.sim.values.addressing import static_table
from moye.sim.values.masks import Mask, both, lanes_of
from moye.sim.values.memory import Array


class MatrixCopySite:
    """The static part: which lane names the row of each value, and where in the row the value is."""

    def __init__(self, op: ops.Copy) -> None:
        self.op = op
        self.loads = op.src.buffer.space is Space.SHARED
        memory, self.register = (op.src, op.dst) if self.loads else (op.dst, op.src)
        self.memory = Operand(op, memory, op.extents, op.width)
        self.lane, self.column = _sources(op.atom, memory.dtype.bits, op.width)         # (V, 32)
        table = static_table(op.extents, self.register.strides)
        if table is None or not hasattr(self.register.offset, "value"):
            raise TypeError(f"the register reference into {self.register.buffer.name} is not static")
        first = int(self.register.offset.value)
        self.rows = (table[:, None] + first + np.array(op.registers)).reshape(-1)      # (E V)

    def bind(self, batch: BatchState) -> MatrixCopyPlan:
        return MatrixCopyPlan(self, batch)


@cache
def _sources(atom: CopyOp, bits: int, width: int) -> tuple[Array, Array]:
    """(V, 32) each: the lane that names the row of a lane's value, and where in the row the value is."""
    rows, held = memory_layout(atom, bits), register_layout(atom, bits)
    named: dict[int, tuple[int, int]] = {}
    for lane in range(ROWS * atom.matrices):
        for column in range(width):
            named[int(rows(lane, column))] = (lane, column)             # type: ignore[arg-type]
    values = int(size(held)) // WARP                                    # type: ignore[arg-type]
    at = np.array([[named[int(held(lane, value))] for lane in range(WARP)]         # type: ignore[arg-type]
                   for value in range(values)])
    at.flags.writeable = False
    return at[:, :, 0], at[:, :, 1]


class MatrixCopyPlan:
    def __init__(self, site: MatrixCopySite, batch: BatchState) -> None:
        self.site, self.batch, self.op = site, batch, site.op
        if batch.threads % WARP:
            raise UnsupportedError(f"{self.op.atom} is executed by whole warps, and the block has {batch.threads} "
                                   "threads", locs=(self.op.loc,))
        self.memory = site.memory.bind(batch)
        self.register = RegisterEnd(self.op, site.register, site.rows, batch)
        warp = np.arange(batch.threads) // WARP * WARP
        lanes = np.arange(batch.threads) % WARP
        self.source = warp + site.lane[:, lanes]                        # (V, T): the thread that names the row
        self.column = site.column[:, lanes]
        self.naming = (lanes < ROWS * self.op.atom.matrices)[:, None]

    def __call__(self, dst: Any, src: Any, dst_strides: tuple[Any, ...], src_strides: tuple[Any, ...],
                 extents: tuple[Any, ...], pred: Any, mask: Mask) -> None:
        if mask is False:
            return
        offset, strides = (src, src_strides) if self.site.loads else (dst, dst_strides)
        index = self.memory.locate(offset, strides, extents)            # (E width, T or 1, B or 1)
        at = self._spread(index)
        if self.batch.watch is not None:
            self._check(index, mask)
        if self.site.loads:
            self.register.store(self.site.rows, self.memory.load(at, mask), mask)
        else:
            self.memory.store(at, self.register.load(self.site.rows, mask), mask)

    def _spread(self, index: Array) -> Array:
        """The element of shared memory of each register value: (E V, T, B)."""
        first = index[:: self.op.width]
        first = np.broadcast_to(first, (len(first), self.batch.threads, index.shape[2]))
        at: Array = first[:, self.source, :] + self.column[:, :, None]  # (E, V, T, B)
        return at.reshape(-1, self.batch.threads, index.shape[2])

    def _check(self, index: Array, mask: Mask) -> None:
        watch = self.batch.watch
        assert watch is not None, "checks are on"
        naming = mask if self.naming.all() else both(mask, self.naming)
        if self.site.loads:
            self.memory.check_read(index, naming)
            self.register.check_write(self.site.rows, mask)
        else:
            self.register.check_read(self.site.rows, mask)
            self.memory.check_write(index, naming)
        watch.checker.engines.met(None if mask is None else lanes_of(mask, self.batch.threads, self.batch.blocks))
        if mask is None:
            return
        active = lanes_of(mask, self.batch.threads, self.batch.blocks).reshape(-1, WARP, self.batch.blocks)
        part = np.argwhere(active.any(axis=1) & ~active.all(axis=1))
        if len(part):
            warp, block = (int(i) for i in part[0])
            here = [warp * WARP + int(lane) for lane in np.flatnonzero(active[warp, :, block])]
            watch.tell("C6", "part", self.op, (here[0], block), len(part), name=self.op.atom, warp=warp,
                       here=Crowd(here, self.batch.threads))
