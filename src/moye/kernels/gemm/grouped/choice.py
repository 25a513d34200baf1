"""Which configuration several products in one launch get: tiles of one block each, whatever product they are of.

In: the ``Problem`` of a mean product, with as many batches as there are products.  Out: a ``WarpgroupConfig``.

>>> config_of_groups("grouped_gemm_sm90", Problem(1024, 4096, 7168, 8, mo.bfloat16), 132, None)
WarpgroupConfig(bM=128, bN=192, bK=64, stages=4, schedule='pingpong', ...)

The model of costs is that of single products.  How far it is off for groups is learned from measured ones of 16 bits,
by ``benchmarks/grouped_choice_fit.py``, to ``choice.npz``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import moye as mo
from moye.kernels.gemm.parts import trees
from moye.kernels.gemm.sm90.config import (
    Problem,
    WarpgroupConfig,
    estimate,
    fits,
    narrowest,
    promoted,
    scaled_tiles,
    tiles,
    varied,
)

FITTED = Path(__file__).with_name("choice.npz")
FEATURES = ("us", "M", "N", "K", "products", "line_A", "line_B", "separate", "bM", "bN", "stages", "turns", "groups",
            "waves", "last_wave", "depth", "edge_M", "edge_N")
"""What the trees ask for.

``us``, M, N, K and the number of products are logarithms; ``separate``: matrices of their own, not stacked;
``last_wave``: how much more whole waves are; ``depth``: k tiles; ``edge_M``: how much more than M tiles have.
"""
_HEIGHT_PROMOTED = 128
"""Rows of tiles whose sums are promoted: those of others are in each other's way."""
_WIDEST = {256: 160}
"""Columns of tiles of so many rows, beyond which what else a tile of a group needs spills."""
_PIECE = 32
"""Columns of a piece of C on its way out at least: narrower ones leave too slowly."""
_SOONEST, _KINDS = 6, 6
Timed = tuple[float, WarpgroupConfig]


def config_of_groups(name: str, problem: Problem, multiprocessors: int, config: WarpgroupConfig | None,
                     separate: bool = False) -> WarpgroupConfig:
    """The configuration as given, or the one that should be soonest; ArgumentError for blocks that share something."""
    if config is None:
        return _soonest(problem, multiprocessors, separate)
    if config.sharing > 1 or config.swap or config.stream_k or config.store != "warpgroup":
        raise mo.ArgumentError(f"{name}: in {config} blocks share work, or tiles are turned or stored otherwise",
                               hint='split_k=1, share_A=1, share_B=1, swap=False, stream_k=False, store="warpgroup"')
    return config


@functools.lru_cache(maxsize=1024)
def _soonest(problem: Problem, multiprocessors: int, separate: bool) -> WarpgroupConfig:
    found = timed(problem, multiprocessors)
    if problem.dtype.bits != 16:
        return found[0][1]
    short = shortlist(found)
    rows = [features(tile, problem, us, separate, multiprocessors) for us, tile in short]
    return trees.least(short, trees.corrected(FITTED, rows))


def timed(problem: Problem, multiprocessors: int) -> list[Timed]:
    """All tiles and the microseconds of each by the model, the soonest first."""
    found = [(expected(tile, problem, multiprocessors), tile) for tile in tiles_of_groups(problem, multiprocessors)]
    return sorted(found, key=lambda one: one[0])


def shortlist(found: Sequence[Timed]) -> list[Timed]:
    """Of what is sorted by time, that to which a correction is given."""
    return trees.shortlist(found, lambda tile: (tile.bM, tile.schedule), soonest=_SOONEST, kinds=_KINDS)


def rounded(n: int) -> int:
    """The next number of four significant bits: calls of about so many rows have one choice."""
    unit = 1 << max(0, n.bit_length() - 4)
    return max(1, -(-n // unit) * unit)


def tiles_of_groups(problem: Problem, multiprocessors: int) -> list[WarpgroupConfig]:
    """The tiles that there are."""
    if problem.scaled:
        found = scaled_tiles(problem, multiprocessors)
    else:
        found = [promoted(tile, factors=False) if problem.promote else varied(tile, store="warpgroup")
                 for tile in tiles(problem.dtype.bytes, False, problem.out)
                 if tile.cluster == 1 and tile.bN % _PIECE == 0
                 and (not problem.promote or tile.bM == _HEIGHT_PROMOTED)
                 and narrowest(tile, problem, multiprocessors)]
    return [tile for tile in found if tile.sharing == 1 and tile.bN <= _WIDEST.get(tile.bM, tile.bN)
            and fits(tile, problem.promote, problem.most)]


def expected(tile: WarpgroupConfig, problem: Problem, multiprocessors: int) -> float:
    """Microseconds by the model of costs, between those of a whole number of tiles in each group, and of one more."""
    each = _tiles_of_group(tile, problem)
    fewer = int(each)
    few, many = (estimate(tile, replace(problem, M=m * tile.bM), multiprocessors) for m in (fewer, fewer + 1))
    return few + (each - fewer) * (many - few)


def _tiles_of_group(tile: WarpgroupConfig, problem: Problem) -> float:
    """Tiles one below the other in the mean: a group's last one may have one row or all, and one is the least."""
    return max(1.0, problem.M / tile.bM + 0.5)


def features(tile: WarpgroupConfig, problem: Problem, us: float, separate: bool, multiprocessors: int) -> \
        tuple[float, ...]:
    """``FEATURES`` of a tile, which takes ``us`` by the model."""
    m, n = _tiles_of_group(tile, problem), -(-problem.N // tile.bN)
    waves = m * n * problem.batches / multiprocessors
    depth = -(-problem.K * problem.dtype.bytes // 128)
    return (*(math.log(x) for x in (us, problem.M, problem.N, problem.K, problem.batches)), *problem.lines, separate,
            tile.bM, tile.bN, tile.stages, tile.schedule == "pingpong", tile.groups, waves, math.ceil(waves) / waves,
            depth, m * tile.bM / problem.M, n * tile.bN / problem.N)
