"""Threads of the blocks of one rank that do something at mbarriers of the blocks of another, or of their own.

In: lanes by their own blocks, and the two ranks.  Out: ``Actors``: those lanes by the blocks that own the mbarriers,
and what they know of these blocks' threads and of what is complete there.

    Actors.at_home(clocks, lanes)           # everyone at mbarriers of the own block
    Actors.between(clocks, lanes, 1, 0)     # threads of rank 1 at mbarriers of rank 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moye.sim.checks.clocks import Bools, Clocks, Ints

Mark = tuple[int, int]
"""An engine of the blocks of a rank of the cluster: who has heard of it knows what came before."""


@dataclass(frozen=True, slots=True)
class Actors:
    """Threads, by the blocks (B,) that own the mbarriers."""

    clocks: Clocks
    lanes: Bools            # (T, B)
    column: Ints            # (B,), where the clocks have what the threads know
    source: Ints            # (B,), their rank
    owner: Ints             # (B,), the rank of the mbarriers' block
    home: bool
    """Whether the two are one block."""

    @classmethod
    def at_home(cls, clocks: Clocks, lanes: Bools) -> Actors:
        blocks = np.arange(lanes.shape[1])
        rank = blocks % clocks.cluster
        return cls(clocks, lanes, np.minimum(blocks, clocks.columns - 1), rank, rank, home=True)

    @classmethod
    def between(cls, clocks: Clocks, lanes: Bools, source: int, owner: int) -> Actors:
        """Lanes (T, B) by their own blocks; those of rank ``source`` take part."""
        blocks, size = np.arange(lanes.shape[1]), clocks.cluster
        here = blocks[blocks % size == source]
        moved = np.zeros_like(lanes)
        moved[:, here - source + owner] = lanes[:, here]
        column = np.minimum(blocks - blocks % size + source, clocks.columns - 1)
        return cls(clocks, moved, column, np.full_like(blocks, source), np.full_like(blocks, owner),
                   home=source == owner)

    def __iter__(self) -> Iterator[tuple[int, Bools]]:
        """Their groups, and the blocks (B,) in which each of them takes part."""
        for group in np.unique(self.clocks.group[self.lanes.any(axis=1)]).tolist():
            yield group, self.lanes[self.clocks.group == group].any(axis=0)

    def epochs(self, group: int, rank: Ints | None = None) -> Ints:
        """Up to which epochs a group knows the threads (T, B) of the mbarriers' blocks, or of ``rank`` (B,)."""
        clocks, rank = self.clocks, self.owner if rank is None else rank
        own: Ints = clocks.seen[group][clocks.group][:, self.column]
        if (rank == self.source).all():
            return own
        far = clocks.far[group, rank[:, None], clocks.group, self.column[:, None]].T
        return np.where(rank == self.source, own, far)

    def heard(self, group: int, engine: int, rank: Ints | int) -> Ints:
        """Up to which epochs (B,) a group has heard of an engine of the blocks of a rank of its cluster."""
        known: Ints = self.clocks.heard[group, engine, self.column]
        if (self.source == rank).all():
            return known
        return np.where(self.source == rank, known, self.clocks.far_heard[group, rank, engine, self.column])
