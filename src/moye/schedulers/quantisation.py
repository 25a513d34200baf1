"""What a grid loses because tiles are whole: waves, and the share of the blocks' time that is work.

In: a scheduler that was made of plain integers, and the blocks that run together.  Out: ``Quantisation``.

>>> quantisation(PersistentTileScheduler(32, 9), 132).efficiency
0.727...

It is a model: every k-tile takes the same time, and nothing else takes any.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from moye.errors import ArgumentError
from moye.schedulers.persistent import PersistentTileScheduler
from moye.schedulers.stream_k import StreamKScheduler


@dataclass(frozen=True, slots=True)
class Quantisation:
    """``waves`` is how long the busiest block works, in tiles, ``efficiency`` the working share of all blocks' time."""

    waves: float
    efficiency: float


def quantisation(scheduler: PersistentTileScheduler | StreamKScheduler, blocks: int) -> Quantisation:
    """The model for ``blocks`` blocks in whole clusters; ArgumentError if numbers are not plain integers."""
    if not isinstance(scheduler, (PersistentTileScheduler, StreamKScheduler)):
        raise ArgumentError(f"quantisation: a {type(scheduler).__name__} does not say how many tiles there are; "
                            "PersistentTileScheduler and StreamKScheduler do")
    tiles, cluster = scheduler.tiles, 1
    if not isinstance(tiles, int) or tiles < 1 or not isinstance(blocks, int) or blocks < 1:
        raise ArgumentError(f"quantisation: {tiles} tiles on {blocks} blocks; both are numbers >= 1")
    if isinstance(scheduler, StreamKScheduler):
        if scheduler.blocks != blocks:
            raise ArgumentError(f"quantisation: the scheduler has shares for {scheduler.blocks} blocks, not {blocks}")
        share = -(-scheduler.split * scheduler.k_tiles // blocks)
        waves = Fraction(share, scheduler.k_tiles) + -(-(tiles - scheduler.split) // blocks)
    else:
        cluster = scheduler.cluster
        if blocks % cluster:
            raise ArgumentError(f"quantisation: {blocks} blocks are no whole clusters of {cluster}")
        waves = Fraction(-(-tiles // (blocks // cluster)))
    return Quantisation(float(waves), float(tiles * cluster / (waves * blocks)))
