"""Whether a named barrier is used again by threads that do not know that it has opened: two groups on one barrier.

In: arrivals and openings, with the clocks.  Out: the thread that arrives with nothing to order it after the last
opening, and one of those that passed: its arrival could have counted for them.

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


@dataclass(frozen=True, slots=True)
class Unordered:
    """A thread that arrives, one that had passed before, the column of the block, and the op that the latter passed."""

    arrives: Bools
    passed: Bools
    column: int
    before: Op


class Reuse:
    """The last opening of each barrier."""

    def __init__(self) -> None:
        self.openings: dict[int, Opening] = {}

    def expand(self, columns: int) -> None:
        for opening in self.openings.values():
            opening.passed = np.repeat(opening.passed, columns, axis=1)
            opening.epoch = np.repeat(opening.epoch, columns, axis=1)

    def opened(self, op: Op, number: int, passed: Bools, clocks: Clocks) -> None:
        """The threads of the mask, if any, pass the barrier now; the clocks know it already."""
        last = self.openings.get(number)
        now = clocks.now[clocks.group]
        columns = passed.any(axis=0)
        if last is None:
            self.openings[number] = Opening(op, passed & columns, now)
        else:
            last.op = op
            last.passed = np.where(columns, passed, last.passed)
            last.epoch = np.where(columns, now, last.epoch)

    def unordered(self, number: int, arrives: Bools, clocks: Clocks) -> Unordered | None:
        """The threads of the first block that arrive without being ordered after the last opening."""
        last = self.openings.get(number)
        if last is None or not (strangers := arrives & ~last.passed & last.passed.any(axis=0)).any():
            return None
        knows = np.zeros_like(arrives)
        for group in np.unique(clocks.group[strangers.any(axis=1)]):
            seen = clocks.seen[group][clocks.group]     # (T, columns): what the group knows of each thread
            # One thread that passed is enough to know of: all of them were released by the same opening.
            knows[clocks.group == group] = ((seen >= last.epoch) & last.passed).any(axis=0)
        lost = strangers & ~knows
        if not lost.any():
            return None
        column = int(np.argmax(lost.any(axis=0)))
        return Unordered(lost[:, column], last.passed[:, column], column, last.op)
