"""A6: shared memory that is written through one swizzle and read through another.

In: the shared accesses of a run.  Out: ``SwizzleWatch.found``: pairs of ops, with the first byte at which they differ.

A swizzle of elements is one of bytes with a larger base, so that references to elements of other widths compare.  For
each byte the place before the swizzle is kept; a reader that takes the byte from another place has found something
else than was put there.  Only buffers that the kernel sees through two swizzles are watched, in the first block of
each batch; a fill is the same through every swizzle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.layout import Swizzle
from moye.sim.costs.wavefronts import Bools, Ints
from moye.sim.values.addressing import apply_swizzle

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Mismatch:
    """``write`` put the byte ``at`` of the buffer through one swizzle, ``read`` takes it through another."""

    buffer: Buffer
    write: ops.Op
    written: Swizzle | None
    read: ops.Op
    taken: Swizzle | None
    at: int


def in_bytes(ref: Ref | TileRef) -> Swizzle | None:
    """The swizzle of a reference as one of byte offsets; None where nothing moves."""
    swizzle = ref.swizzle
    if swizzle is None or not swizzle.bits:
        return None
    return Swizzle(swizzle.bits, swizzle.base + (ref.dtype.bytes - 1).bit_length(), swizzle.shift)


class SwizzleWatch:
    """Remembers through which swizzle each byte was written."""

    def __init__(self, func: Func) -> None:
        seen: dict[int, set[Swizzle | None]] = defaultdict(set)
        finest: dict[int, int] = {}
        for op in func.body.walk():
            for ref, _ in op.refs():
                if ref.buffer.space is Space.SHARED and not _is_fill(op):
                    seen[ref.buffer.id].add(in_bytes(ref))
                if ref.buffer.space is Space.SHARED:
                    finest[ref.buffer.id] = min(finest.get(ref.buffer.id, 16), ref.dtype.bytes)
        self.unit = {at: finest[at] for at, swizzles in seen.items() if len(swizzles) > 1}
        self.places: dict[int, Ints] = {}
        self.writers: dict[int, Ints] = {}
        self.ops: list[tuple[ops.Op, Swizzle | None]] = []
        self._numbers: dict[int, int] = {}
        self.found: dict[tuple[int, int], Mismatch] = {}

    def forget(self) -> None:
        """Other blocks start: their shared memory is undefined."""
        self.places.clear()
        self.writers.clear()

    def access(self, op: ops.Op, ref: Ref | TileRef, address: Ints, size: int, lanes: Bools | None, how: str) -> None:
        """One access to shared memory."""
        unit = self.unit.get(ref.buffer.id)
        if unit is None:
            return
        touched = address[:, :, :1]
        if lanes is not None:
            shape = np.broadcast_shapes(touched.shape, (*lanes.shape[:2], 1))
            touched = np.broadcast_to(touched, shape)[np.broadcast_to(lanes[:, :, :1], shape)]
        spots = np.unique(touched.reshape(-1, 1) // unit + np.arange(max(size // unit, 1)))
        spots = spots[(spots >= 0) & (spots < ref.buffer.bytes // unit)]
        swizzle = in_bytes(ref)
        places, writers = self._of(ref.buffer, unit)
        if how == "read":
            self._compare(op, ref.buffer, swizzle, spots, places, writers, unit)
        else:
            places[spots] = UNKNOWN if _is_fill(op) else np.asarray(apply_swizzle(swizzle, spots * unit))
            writers[spots] = self._number(op, swizzle)

    def _of(self, buffer: Buffer, unit: int) -> tuple[Ints, Ints]:
        if buffer.id not in self.places:
            self.places[buffer.id] = np.full(buffer.bytes // unit, UNKNOWN, np.int64)
            self.writers[buffer.id] = np.zeros(buffer.bytes // unit, np.int64)
        return self.places[buffer.id], self.writers[buffer.id]

    def _number(self, op: ops.Op, swizzle: Swizzle | None) -> int:
        if id(op) not in self._numbers:
            self._numbers[id(op)] = len(self.ops)
            self.ops.append((op, swizzle))
        return self._numbers[id(op)]

    def _compare(self, op: ops.Op, buffer: Buffer, swizzle: Swizzle | None, spots: Ints, places: Ints, writers: Ints,
                 unit: int) -> None:
        put, wanted = places[spots], np.asarray(apply_swizzle(swizzle, spots * unit))
        wrong = np.flatnonzero((put != UNKNOWN) & (put != wanted))
        if not len(wrong):
            return
        spot = int(spots[wrong[0]])
        write, written = self.ops[int(writers[spot])]
        self.found.setdefault((id(write), id(op)), Mismatch(buffer, write, written, op, swizzle, spot * unit))


def _is_fill(op: ops.Op) -> bool:
    """Whether one value goes everywhere."""
    if isinstance(op, ops.Copy):
        steps = op.src.strides
        return op.src.buffer.space is Space.REGISTER and op.width == 1 and bool(steps) and not any(steps)
    return isinstance(op, ops.Map) and not op.sources
