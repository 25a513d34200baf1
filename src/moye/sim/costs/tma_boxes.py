"""What tensor copies cost in global memory: boxes, bytes, sectors of 32 bytes.

In: each box that is issued, as the addresses of its elements.  Out: ``BoxTraffic``, one per op.

Shared memory is written and read row after row, 128 bytes at a time wherever a swizzle puts their parts: no banks
conflict there, and nothing is counted.  Nor is it for wgmma: its canonical layouts keep 8 rows of 16 bytes in different
banks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from moye.dtypes import int32
from moye.hardware import SECTOR
from moye.ir import ops
from moye.ir.nodes import Literal, Ref
from moye.sim.costs.meter import Meter, Traffic
from moye.sim.costs.wavefronts import Bools, Cost, Ints

_NAMES = {"load": "tma.load", "store": "tma.store", "reduce": "tma.reduce"}


@dataclass(slots=True)
class BoxTraffic(Traffic):
    """Boxes of one op; ``passes`` are the sectors that they touch, ``size`` the bytes of a whole one."""

    known: dict[int, Cost] = field(default_factory=dict)
    """The cost of a whole box, by the place in a sector at which it begins."""

    @property
    def bytes(self) -> int:
        return self.size

    @property
    def instruction(self) -> str:
        assert isinstance(self.op, ops.TmaCopy), "boxes are copied by TMA"
        return _NAMES[self.op.kind]

    def count(self, address: Ints, inside: Bools, itemsize: int) -> None:
        """Boxes (N, V) by the byte address of each element, as far as they lie inside the array."""
        for elements, there in zip(address, inside, strict=True):
            self.runs += 1
            if not there.all():
                if there.any():
                    self.add(_sectors(elements[there], itemsize), 1)
                continue
            place = int(elements[0]) % SECTOR
            if place not in self.known or self.pixels:
                self.known[place] = _sectors(elements, itemsize)
            self.add(self.known[place], 1)

    @property
    def pixels(self) -> bool:
        """Whether the boxes are of im2col mode or of rows at any indices, and no two alike."""
        return isinstance(self.op, ops.TmaCopy) and (
            bool(self.op.offsets) or self.op.gathered or self.op.map is not None)


def count(meter: Meter, op: ops.TmaCopy, address: Ints, inside: Bools, itemsize: int) -> None:
    """Boxes of a tensor copy are issued."""
    key = (id(op), id(op.tensor), op.kind, itemsize)
    record = meter.records.get(key)
    if record is None:
        ref = Ref(op.tensor, Literal(0, int32), op.tensor.dtype)
        record = meter.records[key] = BoxTraffic(op, ref, "load" if op.kind == "load" else "store",
                                                 address.shape[1] * itemsize, bool(meter.loops.get(id(op))))
    assert isinstance(record, BoxTraffic), "its key is that of boxes"
    record.count(address, inside, itemsize)


def _sectors(address: Ints, itemsize: int) -> Cost:
    touched = np.unique(np.concatenate([address // SECTOR, (address + itemsize - 1) // SECTOR]))
    return Cost(1, len(touched), -(-len(address) * itemsize // SECTOR), len(touched))
