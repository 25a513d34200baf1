"""The judge: from a class, two accesses in order and words to a finding, and which clashes are told as one.

In: what the five modules of verdicts know of two accesses that nothing orders: in shared and global memory, between
blocks of a cluster, by asynchronous engines, in stages of a pipeline.
Out: one ``Finding`` for each, given to the reporter.

It does not decide whether two accesses are ordered, nor which class that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from moye.ir.nodes import Buffer
from moye.ir.ops import Op
from moye.sim.checks.clocks import Ints
from moye.sim.findings.finding import Coordinate, Finding, Reporter, coordinate_of


@dataclass(frozen=True, slots=True)
class Spot:
    """An element of a tensor, or no element in particular."""

    tensor: str
    coordinate: Coordinate | None = None


def spot(buffer: Buffer, byte: int) -> Spot:
    """The element of a shared tensor at this byte; none where the layout has a gap (padding)."""
    return Spot(buffer.name, coordinate_of(buffer, byte * 8 // buffer.dtype.bits))


def element(buffer: Buffer, byte: int) -> str:
    """``sA(17, 3)``, or the byte where the layout has no element."""
    where = spot(buffer, byte).coordinate
    return f"byte {byte} of {buffer.name}" if where is None else f"{buffer.name}({', '.join(map(str, where))})"


def witnesses(keys: Ints, unit: Ints) -> Iterator[tuple[int, Ints]]:
    """Clashes with one key are told as one: the entry with the lowest unit, and all of them."""
    for key in np.unique(keys):
        same = np.flatnonzero(keys == key)
        yield int(same[np.argmin(unit[same])]), same


def tell(reporter: Reporter, code: str, message: str, points: Sequence[Op | None], block: tuple[int, ...],
         threads: tuple[int, ...], where: Spot, mend: str | None, count: int = 1, *, swapped: bool = False) -> None:
    """Report one; points that are not known (None) are left out.

    ``swapped``: the earlier access reads, and the write comes first in a finding.
    """
    locs = tuple(op.loc for op in points if op is not None)
    if swapped:
        locs, threads = locs[::-1], threads[::-1]
    reporter.add(Finding(code, message, locs, block, threads, where.tensor, where.coordinate, mend, count))
