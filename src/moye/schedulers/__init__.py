"""Which tiles a block of a persistent grid computes, and in what order: only arithmetic on tile numbers.

In: how many tiles there are.  Out: tile numbers, their coordinates, ranges of k, rows of a group.

    sched = mo.PersistentTileScheduler(m_tiles, n_tiles)
    for t in range(sched.first, sched.tiles, sched.step): m, n, l = sched.coordinates(t)

The same classes work on plain integers outside of kernels.  They launch nothing and touch no memory but the offsets.
"""

from moye.schedulers.dynamic import DynamicTileScheduler
from moye.schedulers.grouped import GroupedTile, GroupedTileScheduler
from moye.schedulers.persistent import PersistentTileScheduler
from moye.schedulers.quantisation import Quantisation, quantisation
from moye.schedulers.stream_k import StreamKScheduler, StreamKUnit

__all__ = ["DynamicTileScheduler", "GroupedTile", "GroupedTileScheduler", "PersistentTileScheduler", "Quantisation",
           "StreamKScheduler", "StreamKUnit", "quantisation"]
