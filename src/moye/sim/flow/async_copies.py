"""Asynchronous copies: issued now, executed at the latest legal moment (or the earliest, on request).

In: ``issue``, ``commit`` and ``wait`` with masks, in program order.  Out: each copy is performed (its source read, its
destination written) by the wait that covers it; what nobody waits for is never seen.

A copy belongs to the group that its thread commits next; groups are counted per thread, as one number while all
threads do the same.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from moye.sim.values.masks import Mask, both
from moye.sim.values.memory import Array


class Performs(Protocol):
    """A copy that can be carried out."""

    def perform(self, to: Array, of: Array, reading: Mask, writing: Mask) -> None: ...


class _InFlight:
    __slots__ = ("copy", "group", "of", "reading", "remaining", "to", "writing")

    def __init__(self, copy: Performs, to: Array, of: Array, reading: Mask, writing: Mask, group: Any) -> None:
        self.copy, self.to, self.of, self.reading, self.writing = copy, to, of, reading, writing
        self.group = group
        self.remaining: Mask = None


class AsyncCopies:
    """The copies in flight of one batch."""

    def __init__(self, *, earliest: bool) -> None:
        self.earliest = earliest
        self.reset()

    def reset(self) -> None:
        self.flying: list[_InFlight] = []
        self.committed: Any = 0

    def issue(self, copy: Performs, to: Array, of: Array, reading: Mask, writing: Mask) -> None:
        if self.earliest:
            copy.perform(to, of, reading, writing)
        else:
            self.flying.append(_InFlight(copy, to, of, reading, writing, self.committed))

    def commit(self, mask: Mask) -> None:
        """The group of each thread of the mask ends here."""
        self.committed = self.committed + (1 if mask is None else np.asarray(mask).astype(np.int64))

    def wait(self, pending: int | None, mask: Mask) -> None:
        """Perform what the threads of the mask wait for: all but their newest ``pending`` groups."""
        keep = []
        for copy in self.flying:
            done = self._covered(copy, pending, mask)
            if done is not False:
                self._perform(copy, done)
            if done is None or not self._left(copy, done):
                continue
            keep.append(copy)
        self.flying = keep

    def _covered(self, copy: _InFlight, pending: int | None, mask: Mask) -> Mask:
        lanes = copy.remaining if mask is None else mask if copy.remaining is None else both(mask, copy.remaining)  # type: ignore[arg-type]
        if pending is None or lanes is False:
            return lanes
        old = copy.group < self.committed - pending
        if isinstance(old, np.ndarray):
            return both(lanes, old)
        return lanes if old else False

    def _perform(self, copy: _InFlight, lanes: Mask) -> None:
        reading, writing = copy.reading, copy.writing
        if lanes is not None:
            reading = reading if reading is False else both(lanes, reading) if reading is not None else lanes  # type: ignore[arg-type]
            writing = both(lanes, writing) if writing is not None else lanes  # type: ignore[arg-type]
        if writing is not False:
            copy.copy.perform(copy.to, copy.of, reading, writing)

    @staticmethod
    def _left(copy: _InFlight, done: Mask) -> bool:
        """Take the lanes that are done from a copy; whether any are left."""
        if done is False:
            return True
        before = True if copy.remaining is None else np.asarray(copy.remaining)
        left = before & ~np.asarray(done)
        copy.remaining = left
        return bool(left.any())
