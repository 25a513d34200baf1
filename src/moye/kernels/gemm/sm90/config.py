"""Tile configurations of ``gemm_sm90`` and the rule that picks one without search.

In: the ``Problem``.  Out: a ``WarpgroupConfig``.

>>> choose(Problem(4096, 4096, 4096, 1, mo.bfloat16), 132)
WarpgroupConfig(bM=128, bN=256, bK=64, stages=4, ...)

A configuration that no kernel can have is refused by ``require``; the rule is a model of waves over the device.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import moye as mo

GROUP = 128
"""Threads of a warpgroup."""
SCHEDULES = ("cooperative", "pingpong")
MOST = 200
"""Registers of a thread that sums may take: two warpgroups with 128x192 tiles each, and what multicasts need."""


@dataclass(frozen=True, slots=True)
class WarpgroupConfig:
    """Tiles of ``bM x bN x bK`` in ``stages`` stages, multiplied by ``groups`` warpgroups beside the one that loads.

    ``schedule``: "cooperative" warpgroups share a tile, rows of 64 in turn; "pingpong" ones have a tile each, so that
    one stores while the other multiplies.  ``split_k`` blocks of a cluster share the k tiles of a tile.  ``swap``: the
    tile is one of C^T = B A^T, for few rows of A.  ``multicast``: two blocks of a cluster have neighbouring tiles and
    share those of this operand, "A" or "B".  ``raster``: rows of tiles that blocks walk through together.  ``stream``:
    the operand, "A" or "B" of the product as it is computed, whose tiles leave L2 first.  ``store``: who stores through
    TMA together, a "warpgroup" or a "warp".  ``static``: extents are constants of the kernel.
    """

    bM: int
    bN: int
    bK: int
    stages: int
    schedule: str = "cooperative"
    groups: int = 2
    split_k: int = 1
    swap: bool = False
    raster: int = 8
    multicast: str = ""
    stream: str = ""
    store: str = "warpgroup"
    static: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block: the warpgroups that multiply and the one that loads."""
        return GROUP * (self.groups + 1)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return 2 if self.multicast else self.split_k

    @property
    def rows(self) -> int:
        """Rows of a tile that one warpgroup multiplies."""
        return self.bM // self.groups if self.schedule == "cooperative" else self.bM


def require(config: WarpgroupConfig, dtype: Any, *, gated: bool = False) -> None:
    """ArgumentError for extents and choices that layouts, instruction, schedule or fusion do not take."""
    row, stage = 128 // dtype.bytes, config.bK * dtype.bytes
    cooperative = config.schedule == "cooperative"
    for name, holds, why in (
            ("schedule", config.schedule in SCHEDULES, f"is none of {', '.join(SCHEDULES)}"),
            ("groups", config.groups in (1, 2) and (cooperative or config.groups == 2),
             "is not 2, or 1 of a cooperative schedule"),
            ("bM", config.bM % (64 * config.groups if cooperative else 64) == 0,
             "is no multiple of the 64 rows of each warpgroup"),
            ("bN", config.bN <= 256 and (config.bN % 64 == 0 or config.bN in (8, 16, 32)),
             "is none of 8, 16, 32, 64, 128, 192 and 256"),
            ("bK", config.bK % row == 0, f"is no multiple of {row}, the columns of a swizzled row of {dtype}"),
            ("bK", not gated or config.bK == row, f"is not {row}, the one swizzled row of a half of a gated tile"),
            ("stages", config.stages > 1, "is less than 2: one is filled while another is read"),
            ("split_k", config.split_k in (1, 2, 4, 8), "is none of 1, 2, 4 and 8, the blocks of a cluster"),
            ("split_k", config.split_k == 1 or cooperative, "splits a tile of one warpgroup in a ping-pong schedule"),
            ("stages", config.split_k == 1 or 4 * config.bN <= stage * config.stages,
             "do not hold the sums of a tile, which are gathered there"),
            ("stages", config.split_k == 1 or 256 * config.groups <= stage * config.stages * max(1, config.bN // 64),
             "do not hold C on its way out, which lies there once they are read"),
            ("multicast", config.multicast in ("", "A", "B"), 'is none of "", "A" and "B"'),
            ("multicast", not config.multicast or config.split_k == 1, "shares tiles between blocks that split them"),
            ("multicast", config.multicast != "B" or config.bN % (32 if gated else 16) == 0,
             "halves a tile of B whose parts have 8 rows"),
            ("bN", not gated or config.bN % 16 == 0, "is no multiple of 16: half of a gated tile has 8 and more"),
            ("split_k", not gated or config.split_k == 1, "splits a gated product, which takes whole sums"),
            ("swap", not gated or not config.swap, "turns a gated product, whose halves are columns of a tile"),
            ("stream", config.stream in ("", "A", "B"), 'is none of "", "A" and "B"'),
            ("store", config.store in ("warpgroup", "warp"), 'is neither "warpgroup" nor "warp"')):
        if not holds:
            raise mo.ArgumentError(f"gemm_sm90: {name}={getattr(config, name)!r} of {config} {why}")


# --- the choice ------------------------------------------------------------------------------------------------------

_MEMORY = mo.hardware.of("sm_90a").block_shared - 2048       # bytes of a block, less barriers and alignment
_LAUNCH = 5.5                       # microseconds of an empty launch, the first loads from DRAM included
_FLOPS = 8.1e6                      # operations per microsecond and multiprocessor, 16-bit operands, at 1980 MHz
_LOADS = 114e3                      # bytes per microsecond that one multiprocessor gets from L2
_STREAM, _SKINNY_STREAM = 2.8e6, 3.4e6      # bytes per microsecond from DRAM when each is read once
_GATHER = {1: 0.0, 2: 0.9, 4: 2.7, 8: 4.6}  # microseconds to hand sums round in a cluster
_LEFT = {1: 0, 2: 0, 4: 4, 8: 12}   # multiprocessors that clusters of this size leave without a block
_SHARES = {("pingpong", 192): 0.794, ("pingpong", 128): 0.775, ("pingpong", 256): 0.688, ("cooperative", 256): 0.796,
           ("cooperative", 128): 0.787}
_SMALL_SHARE, _SKINNY_SHARE, _PROMOTED_SHARE = 0.587, 0.858, {128: 0.61, 192: 0.67}
_STORE, _SMALL_STORE, _TURNS_STORE = 1.02, 0.71, 0.1        # microseconds per tile that nothing hides
_LAST_STORE = 0.4                   # and of the last tile of a block, where warpgroups take turns to store
_PLAIN_STORE = {"cooperative": 2.0e-4, "pingpong": 2.5e-4}  # and per element that TMA does not store
"""Measured on an H200 (bfloat16, about 60 shapes, all configurations): shares of peak by schedule and bN."""


def deepest(bM: int, bN: int, groups: int, *, gathers: bool = False) -> int:
    """As many stages as shared memory holds, up to 12."""
    staged = 0 if gathers else 64 * groups * min(bN, 64) * 4
    return min(12, (_MEMORY - staged) // (128 * (bM + bN)))


def configs(dtype: Any, *, skinny: int = 0, gated: bool = False) -> tuple[WarpgroupConfig, ...]:
    """The configurations that are worth a try: for products with up to ``skinny`` rows or columns, or for wide ones."""
    bK = 128 // dtype.bytes
    if skinny and not gated:
        bN = next(n for n in (8, 16, 32, 64, 128) if n >= skinny)
        return tuple(WarpgroupConfig(bM, bN, bK, deepest(bM, bN, bM // 64, gathers=split > 1), groups=bM // 64,
                                     split_k=split, stream="A")
                     for bM in (64, 128) for split in (1, 2, 4, 8)
                     if split == 1 or 4 * bN <= 128 * deepest(bM, bN, bM // 64, gathers=True))
    wide = [WarpgroupConfig(128, 192, bK, 4, "pingpong", raster=16), WarpgroupConfig(128, 128, bK, 5, "pingpong"),
            WarpgroupConfig(128, 256, bK, 4, raster=16), WarpgroupConfig(128, 256, bK, 4, multicast="B"),
            WarpgroupConfig(128, 192, bK, 4, "pingpong", raster=16, multicast="B"),
            WarpgroupConfig(64, 256, bK, 4, "pingpong", store="warp"), WarpgroupConfig(128, 128, bK, 5),
            WarpgroupConfig(128, 192, bK, 4), WarpgroupConfig(64, 128, bK, 6, "pingpong", store="warp"),
            WarpgroupConfig(64, 128, bK, 6, groups=1), WarpgroupConfig(64, 64, bK, 8, groups=1)]
    split = [WarpgroupConfig(bM, bN, bK, deepest(bM, bN, bM // 64, gathers=True), groups=bM // 64, split_k=parts)
             for bM, bN in ((128, 128), (64, 128), (64, 64), (128, 64)) for parts in (2, 4)]
    return tuple(wide) if gated else (*wide, *split)


def fits(config: WarpgroupConfig, promote: bool, most: int = MOST) -> bool:
    """Whether the sums of a thread, twice if they are promoted, stay in its registers; ``most`` as in ``Problem``."""
    sums = config.rows * config.bN // GROUP
    if sums + (8 if config.multicast else 0) > most:
        return False
    return not promote or (sums <= 96 and config.schedule == "cooperative")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a choice depends on: extents, batches and dtype; ``promote`` and ``gated`` as in ``gemm_sm90``.

    ``aligned``: lines of A and B lie multiples of 128 bytes apart, else TMA fetches two parts of memory for one.
    ``plain``: C is not stored by TMA.  ``most``: sums of a thread that leave registers for what is done to them on
    their way to C.
    """

    M: int
    N: int
    K: int
    batches: int
    dtype: Any
    promote: bool = False
    gated: bool = False
    aligned: bool = True
    plain: bool = False
    most: int = MOST


def estimate(config: WarpgroupConfig, problem: Problem, multiprocessors: int) -> float:
    """Microseconds of a product on an H200, or one with so many multiprocessors.

    A launch, then waves of tiles: each k tile takes as long as its products or its loads, whatever is longer; DRAM runs
    beside them.
    """
    M, N = (problem.N, problem.M) if config.swap else (problem.M, problem.N * (2 if problem.gated else 1))
    k_bytes, batches = problem.K * problem.dtype.bytes, problem.batches
    pair = 2 if config.multicast else 1
    tiles = -(-M // (config.bM * pair)) * pair * -(-N // config.bN) * batches
    depth = max(1, -(-k_bytes // (128 * config.split_k)))
    waves = -(-tiles * config.split_k // max(1, multiprocessors - _LEFT[config.split_k]))
    loads = 128 * (config.bM + config.bN / pair) * (1 if problem.aligned else 2)
    step = max(128 * config.bM * config.bN / (_FLOPS * _share(config, problem.promote)), loads / _LOADS)
    skinny = config.stream != ""
    dram = ((M + N) * k_bytes + 2 * M * N) * batches / (_SKINNY_STREAM if skinny else _STREAM)
    store = _store(config, waves) + problem.plain * _PLAIN_STORE[config.schedule] * config.bM * config.bN
    last = _LAST_STORE if config.schedule == "pingpong" and config.store == "warpgroup" else 0.0
    busy = waves * (depth * step + store) + last
    return float(_LAUNCH + (busy ** 4 + dram ** 4) ** 0.25 + _GATHER[config.split_k])


def _share(config: WarpgroupConfig, promote: bool) -> float:
    if promote:
        return _PROMOTED_SHARE.get(config.bN if config.bM == 128 else 0, 0.5)
    if config.stream:
        return _SKINNY_SHARE
    if config.bM * config.bN < 128 * 128:
        return _SMALL_SHARE if config.schedule == "cooperative" else _SHARES["pingpong", 256]
    return _SHARES.get((config.schedule, config.bN), _SMALL_SHARE)


def _store(config: WarpgroupConfig, waves: int) -> float:
    """Warpgroups that take turns hide all stores but the last; warps that store alone wait for no other."""
    if config.stream:
        return 0.0
    alone = (_STORE if config.bM == 128 else _SMALL_STORE) * math.sqrt(config.bM * config.bN / 32768)
    if config.schedule == "cooperative":
        return alone
    return _TURNS_STORE if waves > 1 or config.store == "warp" else min(alone, 0.6)


@functools.lru_cache(maxsize=4096)
def choose(problem: Problem, multiprocessors: int) -> WarpgroupConfig:
    """The configuration that the model of ``estimate`` finds fastest."""
    few = min(problem.M, problem.N)
    skinny = few if few <= 128 and not problem.gated else 0
    swap = bool(skinny) and problem.M < problem.N
    k_bytes = problem.K * problem.dtype.bytes
    found = [replace(config, swap=swap) for config in configs(problem.dtype, skinny=skinny, gated=problem.gated)
             if fits(config, problem.promote, problem.most) and config.split_k * 128 <= max(128, k_bytes)]
    return min(found, key=lambda config: estimate(config, problem, multiprocessors))
