"""Stream-K: the k-tiles of several tiles, one after the other, cut into as many equal shares as there are blocks.

In: tiles, k-tiles of each, blocks.  Out: units of work: a tile, a range of its k-tiles, who has the others.

    sched = StreamKScheduler(m_tiles, n_tiles, k_tiles); unit = sched.start()
    while unit.valid:
        m, n, l = sched.coordinates(unit.tile); ...     # k-tiles unit.k_first to unit.k_last
        unit = unit.next()

Source: Osama et al., Stream-K, PPoPP 2023; cutlass/gemm/kernel/sm90_tile_scheduler_stream_k.hpp.  It moves no sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from moye.errors import TraceError
from moye.lang.scopes import called
from moye.schedulers.arithmetic import bounded, count, divide, larger, smaller
from moye.schedulers.persistent import PersistentTileScheduler
from moye.tensor.context import locate, tracing
from moye.tensor.expr import where


class StreamKScheduler:
    """The tiles of ``PersistentTileScheduler``, each with ``k_tiles`` >= 1 steps, for ``blocks`` blocks.

    With ``hybrid`` the first tiles are split, and as many whole waves as possible follow, in which each block has a
    tile of its own.  What is split is then the last, incomplete wave and one complete one, so that every share is at
    least a tile long.  Nothing is split if no wave is incomplete.  Without ``hybrid`` all tiles are split.  ``blocks``
    is the grid by default.  ``cluster`` neighbouring blocks count as one here, and work on a tile together.  All blocks
    must be resident together, because some wait for others.
    """

    __slots__ = ("_long", "_share", "blocks", "k_tiles", "split", "tiles", "whole")

    def __init__(self, tiles_m: Any, tiles_n: Any, k_tiles: Any, batches: Any = 1, group: int = 8, along: str = "m", *,
                 blocks: Any = None, hybrid: bool = True, cluster: int = 1) -> None:
        if blocks is None and not tracing():
            raise TraceError("StreamKScheduler: outside of a kernel it must be told how many blocks there are",
                             hint="blocks=", locs=(locate(),))
        self.whole = PersistentTileScheduler(tiles_m, tiles_n, batches, group, along, cluster=cluster)
        self.tiles, self.k_tiles = self.whole.tiles, count(k_tiles, 1)
        self.blocks = self.whole.step if blocks is None else count(blocks, 1)
        self.split = self._tiles_to_split() if hybrid else self.tiles
        """How many tiles, from the first, are split."""
        share, long = divide(called("split_k_tiles", bounded(self.split * self.k_tiles)), self.blocks)
        self._share, self._long = called("share", share), called("longer_shares", long)

    def _tiles_to_split(self) -> Any:
        rest = called("last_wave", divide(self.tiles, self.blocks)[1])
        return called("split_tiles", bounded(where(rest == 0, 0, smaller(rest + self.blocks, self.tiles))))

    def coordinates(self, tile: Any) -> tuple[Any, Any, Any]:
        """(m, n, batch) of a tile number."""
        return self.whole.coordinates(tile)

    def start(self, block: Any = None) -> StreamKUnit:
        """The first unit of a block; by default of the block that asks, or of its cluster."""
        block = self.whole.first if block is None else block
        left = called("share_left", bounded(self._share + where(block < self._long, 1, 0)))
        tile, k_first = divide(self.begin(block), self.k_tiles)
        none = left == 0                                # fewer k-tiles are split than there are blocks, or none
        return StreamKUnit(self, block, bounded(where(none, self.split + block, tile)),
                           bounded(where(none, 0, k_first)), bounded(where(none, self.k_tiles, left)))

    def begin(self, block: Any) -> Any:
        """Where a block's share begins, in k-tiles of all tiles that are split; the first shares are one longer."""
        # The first ``_long`` shares have the remainder, one k-tile each, so that no two shares differ by more.
        return called("share_begin", bounded(block * self._share + smaller(block, self._long)))

    def owner(self, k: Any) -> Any:
        """The block whose share has the k-tile number ``k`` of all tiles that are split."""
        # The inverse of ``begin``, in its two pieces: long shares up to ``in_long``, short ones after it.
        long = bounded(self._share + 1)
        in_long = called("k_in_longer_shares", self._long * long)
        beyond = bounded(larger(k - in_long, 0))
        return called("owner", where(k < in_long, divide(k, long)[0],
                                     self._long + divide(beyond, larger(self._share, 1))[0]))

    @property
    def slots(self) -> Any:
        """How many partial sums are handed over at most; the sum of block b is in slot b."""
        return where(self.split == 0, 0, self.blocks)

    def workspace_shape(self, bM: int, bN: int) -> tuple[Any, int, int]:
        """The extents of a workspace of float32: (slots, bM, bN).  Each slot also needs a flag."""
        return self.slots, bM, bN

    def __repr__(self) -> str:
        return f"StreamKScheduler({self.tiles} tiles of {self.k_tiles} k-tiles, {self.blocks} blocks)"


@dataclass(frozen=True, slots=True)
class StreamKUnit:
    """k-tiles ``k_first`` to ``k_last`` of ``tile``, the work of ``block``; loops of the kernel carry it.

    A block may begin with the end of a tile that another block began, and it leaves the end of its last tile to others.
    The block that began a tile finishes it.  The others do their parts of it before anything else, so it rarely waits.
    """

    varies: ClassVar[bool] = True

    scheduler: StreamKScheduler
    block: Any
    tile: Any
    k_first: Any
    left: Any
    """k-tiles of the block's share that are not done, from ``k_first`` on."""

    @property
    def valid(self) -> Any:
        """Whether there is such a tile; if there is none, the block has done its work."""
        return self.tile < self.scheduler.tiles

    @property
    def k_last(self) -> Any:
        """The first k-tile that is not this unit's."""
        return called("k_last", smaller(self.k_first + self.left, self.scheduler.k_tiles))

    @property
    def finishes(self) -> Any:
        """Whether this block adds up the tile and stores it; if not, it leaves its sums in the slot ``block``."""
        return self.k_first == 0

    @property
    def peers(self) -> tuple[Any, Any]:
        """``range(*unit.peers)``: the blocks, and slots, with the rest of a tile that this one finishes."""
        sched, after = self.scheduler, self.block + 1
        end = called("last_k_of_tile", bounded((self.tile + 1) * sched.k_tiles - 1))
        # Shares follow each other, so the rest of a tile is what the next blocks begin with, up to its last k-tile.
        return after, where(self.k_last == sched.k_tiles, after, sched.owner(end) + 1)

    def next(self) -> StreamKUnit:
        """The next unit of the block: first from its share, then whole tiles."""
        sched = self.scheduler
        left = called("left_after", bounded(self.left - (self.k_last - self.k_first)))
        # What is whole is dealt out as by the persistent scheduler: one tile a block and wave, behind the split ones.
        own = where(self.tile < sched.split, sched.split + self.block, self.tile + sched.blocks)
        done = called("share_ends", left == 0)
        return StreamKUnit(sched, self.block, bounded(where(done, own, self.tile + 1)), 0,
                           bounded(where(done, sched.k_tiles, left)))
