"""Whether a named barrier is used again by threads that do not know that it has opened: two groups on one barrier.

In: arrivals and openings, with the clocks.  Out: the thread that arrives with nothing to order it after the last
opening, and one of those that passed: its arrival could have counted for them.  Where nobody waited, nobody has learnt
of the opening: who knows of all arrivals alone comes after it.

A barrier counts arrivals, not who arrives (PTX ISA, bar).  The block barrier is barrier 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from moye.ir.ops import Op
from moye.sim.checks.clocks import Bools, Clocks, Ints


@dataclass(slots=True)
class Opening:
    """The last time that a barrier opened: who passed it (T, columns), and the epochs that they began with it."""

    op: Op
    passed: Bools
    epoch: Ints
    alone: Bools
    """(columns,): where nobody waited.  There those who arrived have ``passed``, and the epochs are of their arrivals.
    """


@dataclass(frozen=True, slots=True)
class Unordered:
    """A thread that arrives, one that had passed before, the column of the block, and the op that the latter passed.

    ``alone``: nobody waited there.
    """

    arrives: Bools
    passed: Bools
    column: int
    before: Op
    alone: bool


class Reuse:
    """The last opening of each barrier."""

    def __init__(self) -> None:
        self.openings: dict[int, Opening] = {}
        self._arrivals: dict[int, Ints] = {}
        """The epoch (T, columns) at which each thread has arrived last at each barrier."""

    def expand(self, columns: int) -> None:
        for opening in self.openings.values():
            opening.passed = np.repeat(opening.passed, columns, axis=1)
            opening.epoch = np.repeat(opening.epoch, columns, axis=1)
            opening.alone = np.repeat(opening.alone, columns)
        self._arrivals = {number: np.repeat(epoch, columns, axis=1) for number, epoch in self._arrivals.items()}

    def arrives(self, number: int, who: Bools, clocks: Clocks) -> None:
        """Threads arrive; before they release anything."""
        now = np.broadcast_to(clocks.now[clocks.group], who.shape)
        self._arrivals[number] = np.where(who, now, self._arrivals.get(number, 0))

    def opened(self, op: Op, number: int, passed: Bools, clocks: Clocks) -> None:
        """The threads of the mask, if any, pass the barrier now; the clocks know it already."""
        self._open(op, number, passed, clocks.now[clocks.group], alone=False)

    def opened_alone(self, op: Op, number: int, came: Bools) -> None:
        """The arrivals of the mask, for which nobody waits, open the barrier."""
        self._open(op, number, came, self._arrivals[number], alone=True)

    def _open(self, op: Op, number: int, passed: Bools, epoch: Ints, *, alone: bool) -> None:
        last, columns = self.openings.get(number), np.logical_or.reduce(passed, axis=0)
        if last is None:
            self.openings[number] = Opening(op, passed & columns, epoch, columns & alone)
        else:
            last.op = op
            last.passed = np.where(columns, passed, last.passed)
            last.epoch = np.where(columns, epoch, last.epoch)
            last.alone = np.where(columns, alone, last.alone)

    def unordered(self, number: int, arrives: Bools, clocks: Clocks) -> Unordered | None:
        """The threads of the first block that arrive without being ordered after the last opening."""
        last = self.openings.get(number)
        if last is None:
            return None
        lost, rivals = self._strangers(last, arrives, clocks), last.passed
        if not lost.any() and last.alone.any():
            lost, rivals = self._unaware(last, arrives, clocks)
        if not lost.any():
            return None
        column = int(np.argmax(lost.any(axis=0)))
        return Unordered(lost[:, column], rivals[:, column], column, last.op, bool(last.alone[column]))

    def _strangers(self, last: Opening, arrives: Bools, clocks: Clocks) -> Bools:
        """Those that have not passed it, and know of nobody who has."""
        strangers: Bools = arrives & ~last.passed & last.passed.any(axis=0) & ~last.alone
        if not strangers.any():
            return strangers
        knows = np.zeros_like(arrives)
        for group in np.unique(clocks.group[strangers.any(axis=1)]):
            seen = clocks.seen[group][clocks.group]     # (T, columns): what the group knows of each thread
            # One thread that passed is enough to know of: all of them were released by the same opening.
            knows[clocks.group == group] = ((seen >= last.epoch) & last.passed).any(axis=0)
        return strangers & ~knows

    def _unaware(self, last: Opening, arrives: Bools, clocks: Clocks) -> tuple[Bools, Bools]:
        """Those that do not know of the arrivals of all other warps, and of which they do not."""
        lost, rivals = np.zeros_like(arrives), np.zeros_like(arrives)
        warp = np.arange(len(arrives)) // clocks.warp
        for group in np.unique(clocks.group[(arrives & last.alone).any(axis=1)]):
            mine = clocks.group == group
            away = (warp != warp[int(np.argmax(mine))])[:, None]
            unknown = last.passed & last.alone & (clocks.seen[group][clocks.group] < last.epoch) & away
            here = arrives & mine[:, None] & unknown.any(axis=0)
            if here.any() and not lost.any():
                rivals = unknown
            lost |= here
        return lost, rivals
