"""Tiles of matrices of one size, dealt out to the blocks of a persistent grid in an order that uses L2 well.

In: tiles along M and N, batches.  Out: the first tile of a block, the step to its next, coordinates of a tile number.

    sched = PersistentTileScheduler(mo.ceil_div(M, bM), mo.ceil_div(N, bN))
    for t in range(sched.first, sched.tiles, sched.step): m, n, l = sched.coordinates(t)

It follows CUTLASS's static persistent scheduler (cutlass/gemm/kernel/sm90_tile_scheduler.hpp), but pads nothing.
"""

from __future__ import annotations

from typing import Any

from moye.errors import TraceError
from moye.lang.builtins import block_idx, grid_dim
from moye.lang.scopes import called
from moye.schedulers.arithmetic import bounded, count, divide, smaller
from moye.tensor.context import locate
from moye.tensor.expr import where


class PersistentTileScheduler:
    """Tiles of ``batches`` matrices of ``tiles_m`` x ``tiles_n`` tiles, fewer than 2^31 in all.

    ``group`` tiles along ``along`` ("m" or "n") are walked together along the other mode, so that the tiles computed at
    one time share operands.  ``cluster`` is how many neighbouring blocks share a tile.
    """

    __slots__ = ("along", "batches", "cluster", "group", "tiles_m", "tiles_n")

    def __init__(self, tiles_m: Any, tiles_n: Any, batches: Any = 1, group: int = 8, along: str = "m", *,
                 cluster: int = 1) -> None:
        for name, value in (("group", group), ("cluster", cluster)):
            if not isinstance(value, int) or value < 1:
                raise TraceError(f"PersistentTileScheduler: {name}={value} is no static number >= 1", locs=(locate(),))
        if along not in ("m", "n"):
            raise TraceError(f'PersistentTileScheduler: along={along!r} is neither "m" nor "n"', locs=(locate(),))
        self.tiles_m, self.tiles_n = called("tiles_m", count(tiles_m)), called("tiles_n", count(tiles_n))
        self.batches = count(batches)
        self.group, self.along, self.cluster = group, along, cluster

    @property
    def tiles(self) -> Any:
        """How many tiles there are."""
        return called("tiles", count(self.tiles_m * self.tiles_n * self.batches))

    @property
    def first(self) -> Any:
        """The first tile of this block: its index in the grid, or that of its cluster if blocks share tiles."""
        return block_idx().x // self.cluster

    @property
    def step(self) -> Any:
        """The step from a tile of this block to its next: the number of tiles computed at a time.

        Two groups of warps that take turns have the tiles from ``first + group * step`` on, ``2 * step`` apart.
        """
        return grid_dim().x // self.cluster

    def coordinates(self, tile: Any) -> tuple[Any, Any, Any]:
        """(m, n, batch) of a tile number."""
        batch = 0
        if not (isinstance(self.batches, int) and self.batches == 1):
            batch, tile = divide(tile, called("tiles_of_batch", bounded(self.tiles_m * self.tiles_n)))
            called("tile_in_batch", tile)
        m, n = raster(tile, self.tiles_m, self.tiles_n, self.group, self.along)
        return m, n, batch


def raster(tile: Any, tiles_m: Any, tiles_n: Any, group: int, along: str) -> tuple[Any, Any]:
    """The (m, n) of tile number ``tile`` of a matrix: strips of ``group`` tiles of one mode, walked along the other."""
    if along == "n":
        n, m = _strips(tile, tiles_n, tiles_m, group)
        return m, n
    return _strips(tile, tiles_m, tiles_n, group)


def _strips(tile: Any, across: Any, down: Any, group: int) -> tuple[Any, Any]:
    """Coordinates ``across``, in strips of ``group``, and ``down`` these strips; the last strip may be narrower."""
    if isinstance(across, int) and across <= group:
        down_, across_ = divide(tile, across)
        return across_, down_
    strip, inside = divide(tile, called("tiles_of_strip", bounded(group * down)))
    called("strip", strip), called("tile_in_strip", inside)
    begin = bounded(strip * group)
    if not isinstance(across, int):
        down_, across_ = divide(inside, called("strip_width", smaller(bounded(across - begin), group)))
        return bounded(begin + across_), down_
    down_, across_ = divide(inside, group)
    if across % group:                                  # both widths are static: two products instead of a division
        last = strip == across // group
        narrow_down, narrow_across = divide(inside, across % group)
        down_, across_ = where(last, narrow_down, down_), where(last, narrow_across, across_)
    return bounded(begin + across_), down_
