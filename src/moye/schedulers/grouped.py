"""Tiles of several products of different heights: groups of rows of one stacked matrix, each with its own B.

In: where the groups begin, as an array on the device.  Out: tiles in the order in which a block takes them: group, m,
n, rows.

    sched = GroupedTileScheduler(offsets, bM, mo.ceil_div(N, bN)); work = sched.start()
    while work.valid:
        group, m, n, row, rows = work.coordinates(); ...
        work = work.next()

The number of tiles is not known before the offsets are read (CUTLASS: PersistentTileSchedulerSm90Group).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from moye.errors import TraceError
from moye.lang.builtins import assume, block_idx, grid_dim
from moye.lang.scopes import called
from moye.lang.trace import jit
from moye.layout import ceil_div, size
from moye.schedulers.arithmetic import bounded, count, smaller
from moye.schedulers.persistent import raster
from moye.tensor.context import locate
from moye.tensor.tensor import Tensor

_AHEAD = 4
"""Offsets that are read together on the way to a tile of another group."""


class GroupedTileScheduler:
    """Tiles of ``tile_m`` rows and ``tiles_n`` columns of tiles of every group; no tile has rows of two groups.

    ``offsets`` is int32 (groups + 1) and does not decrease: the rows of group g are ``offsets[g]`` to ``offsets[g +
    1]``. Groups may be empty.  Within a group, ``group`` and ``along`` are those of ``PersistentTileScheduler``.
    """

    __slots__ = ("along", "group", "groups", "offsets", "tile_m", "tiles_n")

    def __init__(self, offsets: Any, tile_m: int, tiles_n: Any, group: int = 8, along: str = "m") -> None:
        for name, value in (("tile_m", tile_m), ("group", group)):
            if not isinstance(value, int) or value < 1:
                raise TraceError(f"GroupedTileScheduler: {name}={value} is no static number >= 1", locs=(locate(),))
        if along not in ("m", "n"):
            raise TraceError(f'GroupedTileScheduler: along={along!r} is neither "m" nor "n"', locs=(locate(),))
        if not hasattr(offsets, "__len__") or (isinstance(offsets, Tensor) and offsets.dtype.is_float):
            raise TraceError(f"GroupedTileScheduler: the offsets are {offsets!r}, no tensor of integers",
                             hint="int32, one element more than groups", locs=(locate(),))
        self.offsets, self.tile_m, self.tiles_n = offsets, tile_m, called("tiles_n", count(tiles_n))
        self.groups = count((size(offsets) if isinstance(offsets, Tensor) else len(offsets)) - 1)
        self.group, self.along = group, along

    def start(self, tile: Any = None) -> GroupedTile:
        """The tile with this number, by default the index of the block."""
        tile = block_idx().x if tile is None else tile
        found: GroupedTile = _seek(self, tile, 0, 0, self.row(0), self.row(1))
        return found

    def row(self, group: Any) -> Any:
        """Where a group begins; past the last group, where that one ends."""
        return count(self.offsets[smaller(group, self.groups)])

    def tiles_of(self, rows: Any) -> Any:
        """How many tiles a group of ``rows`` rows has."""
        return bounded(ceil_div(rows, self.tile_m) * self.tiles_n)


@dataclass(frozen=True, slots=True)
class GroupedTile:
    """Tile number ``tile`` of all; its group, and that group's first tile and rows.  Loops of the kernel carry it."""

    varies: ClassVar[bool] = True

    scheduler: GroupedTileScheduler
    tile: Any
    group: Any
    first: Any
    begin: Any
    end: Any

    @property
    def valid(self) -> Any:
        """Whether there is such a tile."""
        return self.group < self.scheduler.groups

    def coordinates(self) -> tuple[Any, Any, Any, Any, Any]:
        """The (group, m, n, row, rows): m within the group, its first row in the stacked matrix, rows left in it."""
        sched = self.scheduler
        tiles_m = called("tiles_m_of_group", ceil_div(bounded(self.end - self.begin), sched.tile_m))
        tile = called("tile_in_group", bounded(self.tile - self.first))
        m, n = raster(tile, tiles_m, sched.tiles_n, sched.group, sched.along)
        row = bounded(self.begin + m * sched.tile_m)
        return self.group, m, n, row, bounded(self.end - row)

    def next(self, step: Any = None) -> GroupedTile:
        """The tile ``step`` further on, by default as many as there are blocks."""
        step = grid_dim().x if step is None else step
        found: GroupedTile = _seek(self.scheduler, self.tile + step, self.group, self.first, self.begin, self.end)
        return found


@jit
def _seek(sched: GroupedTileScheduler, tile: Any, group: Any, first: Any, begin: Any, end: Any) -> GroupedTile:
    """Go on to the group of a tile, from the group of an earlier one; where it is another, ``_AHEAD`` at a time."""
    assume(begin <= end, "the offsets of the groups do not decrease")
    tiles = sched.tiles_of(bounded(end - begin))
    while group < sched.groups and tile >= first + tiles:
        behind = [sched.row(group + 2 + i) for i in range(_AHEAD)]      # memory is waited for once
        for there in behind:
            if group < sched.groups and tile >= first + tiles:
                first += tiles
                group += 1
                begin, end = end, there
                assume(begin <= end, "the offsets of the groups do not decrease")
                tiles = sched.tiles_of(bounded(end - begin))
    return GroupedTile(sched, tile, group, first, begin, end)
