"""Writes of one element that nothing orders: which of them are of the same value.

In: clashes of writes with writes, which wait until the values are known; what memory held before, and holds after.
Out: those that differ, and those that agree, which are advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.ir.ops import Op
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.shared_records import Clashes, Shadow


def differ(a: Any, b: Any) -> Bools:
    """Where two arrays of one dtype differ in their bits."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    found: Bools = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    return found


@dataclass(slots=True)
class InDoubt:
    """Clashes of one write; ``together``: with others of the same statement."""

    shadow: Shadow
    op: Op
    clashes: Clashes
    verb: str
    together: bool


@dataclass(slots=True)
class Agreement:
    """What waits for the values of the statement under way."""

    waiting: list[InDoubt] = field(default_factory=list)

    def settle(self, shape: tuple[int, ...], address: Ints, size: int, before: Any, after: Any, values: Any,
               mask: Bools | None) -> Iterator[tuple[InDoubt, bool]]:
        """The clashes in two parts, True with those that agree; ``shape``: (V, T, B) of byte addresses and values."""
        waiting, self.waiting = self.waiting, []
        wanted = np.broadcast_to(np.asarray(values, before.dtype), shape)
        inside = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
        for doubt in waiting:
            found = differ(np.broadcast_to(after if doubt.together else before, shape), wanted) & inside
            byte, block = np.broadcast_to(address, shape)[found], np.nonzero(found)[-1]
            bad = _met(doubt, byte, block, size)
            for part, agree in ((bad, False), (~bad, True)):
                if part.any():
                    yield InDoubt(doubt.shadow, doubt.op, pick(doubt.clashes, part), doubt.verb,
                                  doubt.together), agree


def _met(doubt: InDoubt, byte: Ints, block: Ints, size: int) -> Bools:
    """The clashes at units where a value differs; while blocks do the same, column 0 is all of them."""
    unit, clashes = doubt.shadow.unit, doubt.clashes
    columns = doubt.shadow.write.shape[-1]
    units = (byte[:, None] // unit + np.arange(max(1, size // unit))).reshape(-1)
    blocks = np.repeat(block if columns > 1 else np.zeros_like(block), max(1, size // unit))
    met: Bools = np.isin(clashes.unit * columns + clashes.block, units * columns + blocks)
    return met


def pick(clashes: Clashes, at: Bools) -> Clashes:
    """Some of the entries."""
    return Clashes(clashes.unit[at], clashes.block[at], clashes.record[at], clashes.actor[at])
