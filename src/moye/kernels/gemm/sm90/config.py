"""Tile configurations of ``gemm_sm90``, and a model of what each costs; ``choice`` picks one by it.

In: the ``Problem``.  Out: ``WarpgroupConfig``s, and microseconds.

>>> problem = Problem(4096, 4096, 4096, 1, mo.bfloat16)
>>> 100 < estimate(WarpgroupConfig(128, 256, 64, 4), problem, 132) < 300
True

A configuration that no kernel can have is refused by ``require``; the model is one of waves over the device.
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
GATHERS = ("cluster", "memory")
PROMOTIONS = ("between", "turns", "behind", "ahead")
STORES = ("warpgroup", "warp", "element")
_PARTS = 256
_IDLE = 8                           # k tiles that a block could multiply in the last wave, from which on it has some
_FEWEST = 0.2                       # waves: of fewer tiles, sums of too many blocks would be added one after the other
_LEAST_SHARE = 4                    # k tiles of a block at least, where it has a share of a tile
MEETING = 8 << 10
"""Bytes for each warpgroup to store C where blocks meet in memory, few columns at a time, through two buffers."""
SECTOR = mo.hardware.SECTOR // 2
"""Elements of 16 bits in a sector, which memory writes at once."""
MOST = 200
"""Registers of a thread that sums may take: two warpgroups with 128x192 tiles each, and what multicasts need."""


@dataclass(frozen=True, slots=True)
class WarpgroupConfig:
    """Tiles of ``bM x bN x bK`` in ``stages`` stages, multiplied by ``groups`` warpgroups beside the one that loads.

    ``schedule``: "cooperative" warpgroups share a tile, rows of 64 in turn; "pingpong" ones have a tile each, so that
    one stores while the other multiplies.  ``split_k`` blocks share the k tiles of a tile; they are a cluster and hand
    their sums round in shared memory, or, as ``gather`` says, any blocks that meet in global "memory".  ``swap``: the
    tile is one of C^T = B A^T, for few rows of A.  ``share_A``: blocks of a cluster with tiles next to each other along
    N, each of which loads its part of a tile of A for all of them; ``share_B``: along M, for tiles of B.  ``raster``:
    rows of tiles that blocks walk through together.  ``stream``: the operand, "A" or "B" of the product as it is
    computed, whose tiles leave L2 first.  ``store``: who stores through TMA together, a "warpgroup" or a "warp"; or
    each thread its "element"s.  ``static``: extents are constants of the kernel.  ``promotion``: when promoted sums are
    added up in registers, "between" the products of two k tiles, there in "turns" of two warpgroups, "behind" the
    products of the next half of a warpgroup's tile, or while those of the k tile "ahead" run.  ``stream_k``: where the
    last wave of tiles leaves blocks without work, all blocks have equal shares of the k tiles of that wave and the one
    before, and hand sums over in memory.
    """

    bM: int
    bN: int
    bK: int
    stages: int
    schedule: str = "cooperative"
    groups: int = 2
    split_k: int = 1
    gather: str = "cluster"
    swap: bool = False
    raster: int = 8
    share_A: int = 1
    share_B: int = 1
    stream: str = ""
    store: str = "warpgroup"
    static: bool = False
    promotion: str = "between"
    stream_k: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block: the warpgroups that multiply and the one that loads."""
        return GROUP * (self.groups + 1)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.split_k if self.split_k > 1 and self.gather == "cluster" else self.share_A * self.share_B

    @property
    def sharing(self) -> int:
        """Neighbouring blocks that work on one tile, or on several that share operands."""
        return self.share_A * self.share_B * self.split_k

    @property
    def peers(self) -> int:
        """Blocks into whose stages a block loads, itself among them."""
        return self.share_A + self.share_B - 1

    @property
    def widths(self) -> int:
        """Instructions side by side in a tile."""
        return 2 if self.promotion == "behind" and self.rows == 64 else 1

    @property
    def rows(self) -> int:
        """Rows of a tile that one warpgroup multiplies."""
        return self.bM // self.groups if self.schedule == "cooperative" else self.bM


def require(config: WarpgroupConfig, dtype: Any, *, gated: bool = False, scaled: bool = False) -> None:
    """ArgumentError for extents and choices that layouts, instruction, schedule or fusion do not take."""
    row, stage = 128 // dtype.bytes, config.bK * dtype.bytes
    cooperative = config.schedule == "cooperative"
    for name, holds, why in (
            ("schedule", config.schedule in SCHEDULES, f"is none of {', '.join(SCHEDULES)}"),
            ("groups", config.groups in (1, 2, 3) and (cooperative or config.groups == 2),
             "is not 2, or 1 or 3 of a cooperative schedule"),
            ("bM", config.bM % (64 * config.groups if cooperative else 64) == 0,
             "is no multiple of the 64 rows of each warpgroup"),
            ("bN", 0 < config.bN <= 256 and (config.bN % 16 == 0 or config.bN == 8),
             "is neither 8 nor a multiple of 16 up to 256"),
            ("bK", config.bK % row == 0, f"is no multiple of {row}, the columns of a swizzled row of {dtype}"),
            ("bK", not gated or config.bK == row, f"is not {row}, the one swizzled row of a half of a gated tile"),
            ("stages", config.stages > 1, "is less than 2: one is filled while another is read"),
            ("gather", config.gather in GATHERS, f"is none of {', '.join(GATHERS)}"),
            ("split_k", config.split_k in (1, 2, 4, 8) if config.gather == "cluster" else 1 <= config.split_k <= _PARTS,
             f"is none of 1, 2, 4 and 8, the blocks of a cluster, nor up to {_PARTS} that gather in memory"),
            ("split_k", config.split_k == 1 or not config.stream_k, "splits tiles whose shares stream_k makes"),
            ("split_k", config.split_k == 1 or cooperative, "splits a tile of one warpgroup in a ping-pong schedule"),
            ("stages", config.split_k == 1 or config.gather == "memory" or 4 * config.bN <= stage * config.stages,
             "do not hold the sums of a tile, which are gathered there"),
            ("stages", config.split_k == 1 or config.gather == "memory"
             or 256 * config.groups <= stage * config.stages * max(1, config.bN // 64),
             "do not hold C on its way out, which lies there once they are read"),
            *((name, share in (1, 2, 4, 8) and config.share_A * config.share_B <= 8,
               "is none of 1, 2, 4 and 8, or share_A * share_B is more than the 8 blocks of a cluster")
              for name, share in (("share_A", config.share_A), ("share_B", config.share_B))),
            *((name, share == 1 or config.split_k == 1 or config.gather == "memory",
               "shares tiles between blocks of a cluster that split them")
              for name, share in (("share_A", config.share_A), ("share_B", config.share_B))),
            ("share_A", config.bM % (8 * config.share_A) == 0, "cuts a tile of A whose parts have 8 rows"),
            ("share_B", config.share_B == 1 or config.bN % (8 * config.share_B * (2 if gated else 1)) == 0,
             "cuts a tile of B whose parts have 8 rows"),
            ("bN", not gated or config.bN % 16 == 0, "is no multiple of 16: half of a gated tile has 8 and more"),
            ("split_k", not gated or config.split_k == 1, "splits a gated product, which takes whole sums"),
            ("swap", not gated or not config.swap, "turns a gated product, whose halves are columns of a tile"),
            ("promotion", config.promotion in PROMOTIONS, f"is none of {', '.join(PROMOTIONS)}"),
            ("promotion", config.promotion != "turns" or (cooperative and config.groups == 2),
             "is for two warpgroups that share a tile"),
            ("promotion", config.promotion != "behind" or (cooperative and config.rows <= 128
                                                           and config.bN % (16 * config.widths) == 0),
             "halves a tile, of 128 rows of a warpgroup or of a multiple of 32 columns"),
            ("promotion", config.promotion != "ahead" or (cooperative and config.rows == 64),
             "has sums of two k tiles in registers, of 64 rows of a warpgroup"),
            ("bK", not scaled or config.bK == 128, "is not 128, of which blocks have a factor"),
            ("swap", not scaled or not config.swap, "turns a product whose blocks of factors differ in A and B"),
            ("stream", config.stream in ("", "A", "B"), 'is none of "", "A" and "B"'),
            ("store", config.store in STORES, f"is none of {', '.join(STORES)}")):
        if not holds:
            raise mo.ArgumentError(f"gemm_sm90: {name}={getattr(config, name)!r} of {config} {why}")


# --- what there is to choose from ------------------------------------------------------------------------------------

_MEMORY = mo.hardware.of("sm_90a").block_shared - 2048       # bytes of a block, less barriers and alignment
TILES = {("cooperative", 64, 1): range(32, 257, 16), ("cooperative", 128, 2): range(64, 257, 16),
         ("cooperative", 192, 3): range(96, 193, 16), ("cooperative", 256, 2): range(64, 193, 16),
         ("pingpong", 64, 2): range(96, 257, 16), ("pingpong", 128, 2): range(64, 193, 16)}
"""Widths of tiles by schedule, height and warpgroups."""
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
"""Blocks that share tiles of A, and of B."""
_SHARED = {"cooperative": 64 * 96, "pingpong": 128 * 96}    # elements of a tile from which on blocks share operands
MEETING_CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4))
PARTS = (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 18, 22, 26, 33, 44, 66, 132)
"""How many blocks may share the k tiles of a tile, if they meet in memory."""
SKINNY = (8, 16, 32, 48, 64, 96, 128)
"""Widths of tiles for few rows or columns."""
SCALED = {(64, 1): {32: 0.3, 64: 0.3, 96: 0.32, 128: 0.38, 192: 0.36},
          (128, 2): {64: 0.52, 96: 0.66, 128: 0.88, 192: 1.0},
          (192, 3): {64: 0.58, 96: 0.78, 128: 1.1}, (256, 2): {96: 0.88, 128: 1.04}}
"""By height and warpgroups: widths of tiles whose blocks have factors, and the share of what those of promoted sums
reach, which ``benchmarks/gemm_scaled_fit.py`` fits."""
_SQUARE = 1 << 20                   # rows and columns where neither are few
_TURNED = 2048                      # rows or columns up to which the tiles of C^T are others than those of C


@functools.lru_cache(maxsize=64)
def tiles(bytes_: int, swap: bool, out: int = 2, rows: bool = False) -> tuple[WarpgroupConfig, ...]:
    """The tiles for wide products, of operands of ``bytes_`` and results of ``out`` bytes an element, stored by
    ``rows`` that begin anywhere or not.
    """
    found: list[WarpgroupConfig] = []
    for (schedule, bM, groups), widths in TILES.items():
        for bN in widths:
            tile = WarpgroupConfig(bM, bN, 128 // bytes_, deepest(bM, bN, groups, out=out, rows=rows), schedule, groups,
                                   swap=swap, raster=16 if bN > bM else 8,
                                   store="warp" if (schedule, bM, swap) == ("pingpong", 64, False) else "warpgroup")
            found += [replace(tile, share_A=a, share_B=b) for a, b in CLUSTERS
                      if a * b == 1 or (bM * bN >= _SHARED[schedule] and bN % (8 * b) == 0)]
    return tuple(found)


@functools.lru_cache(maxsize=64)
def configs(dtype: Any, *, skinny: int = 0, gated: bool = False, out: int = 2) -> tuple[WarpgroupConfig, ...]:
    """The configurations that a search tries: for products with up to ``skinny`` rows or columns, or for wide ones.

    ``out``: bytes of an element of C.
    """
    bK = 128 // dtype.bytes
    if skinny and not gated:
        bN = next(n for n in SKINNY if n >= skinny)
        return tuple(WarpgroupConfig(bM, bN, bK, deepest(bM, bN, bM // 64, gathers=split > 1, out=out),
                                     groups=bM // 64, split_k=split, stream="A")
                     for bM in (64, 128) for split in (1, 2, 4, 8)
                     if split == 1 or 4 * bN <= 128 * deepest(bM, bN, bM // 64, gathers=True))
    split = [WarpgroupConfig(bM, bN, bK, deepest(bM, bN, bM // 64, gathers=True), groups=bM // 64, split_k=parts)
             for bM, bN in ((128, 128), (64, 128), (64, 64), (128, 64)) for parts in (2, 4)]
    wide = tuple(tile for tile in tiles(dtype.bytes, False, out)       # pairs alone: larger clusters would be many
                 if tile.cluster <= 2 and (not gated or tile.bN % (16 * max(2, tile.share_B)) == 0))
    return wide if gated else (*wide, *split)


def deepest(bM: int, bN: int, groups: int, *, gathers: bool = False, meets: bool = False, scaled: bool = False,
            out: int = 2, rows: bool = False) -> int:
    """As many stages as shared memory holds, up to 12, where sums are gathered in them, or meet in memory.

    ``out``: bytes of an element of C, whose pieces have two buffers of a warpgroup; ``rows``: which leaves by rows that
    begin anywhere, 64 of a warpgroup at a time.
    """
    columns = math.gcd(bN, 64 if groups < 3 else 32, 128 // out)
    staged = 0 if gathers else MEETING * groups if meets else 2 * 64 * groups * columns * out
    if rows:
        staged = 64 * groups * pitch_of(bN) * out
    return min(12, (_MEMORY - staged) // (128 * (bM + bN) + (4 * bM + 128) * scaled))


def pitch_of(bN: int) -> int:
    """Elements between rows of C that begin anywhere, on their way out: eight rows lie in other banks each."""
    return bN + SECTOR + 8


def overlap_of(config: WarpgroupConfig, N: int, *, scaled: bool = False) -> int:
    """Columns that neighbouring tiles share if rows begin anywhere; none of the only tile, nor of blocks of factors."""
    return SECTOR if config.bN < N and not scaled else 0


def takes_rows(config: WarpgroupConfig, bytes_: int, N: int, *, scaled: bool = False) -> bool:
    """Whether rows of C that begin anywhere may leave whole: tiles are wide enough to share columns, and there is
    memory for 64 rows of each warpgroup beside the stages, of operands of ``bytes_`` an element.
    """
    wide = config.bN >= 3 * SECTOR or (config.bN % SECTOR == 0 and overlap_of(config, N, scaled=scaled) == 0)
    stages = config.stages * config.bK * (bytes_ * (config.bM + config.bN)) + 4 * config.bM * config.stages * scaled
    return wide and config.split_k == 1 and config.store != "element" and \
        stages + 64 * config.groups * pitch_of(config.bN) * 2 <= _MEMORY


@dataclass(frozen=True, slots=True)
class Problem:
    """What a choice depends on: extents, batches and dtype; ``promote`` and ``gated`` as in ``gemm_sm90``.

    ``lines``: lines of A and of B lie multiples of so many bytes apart, up to 128; of fewer, TMA fetches two parts of
    memory for one, the more often the fewer.
    ``rows_A`` and ``rows_B``: the operand is contiguous along its rows, and not along K.
    ``plain``: C is not stored by TMA.  ``rows``: but row by row, along "N" or "M".  ``most``: sums of a thread that
    leave registers for what is done to them on their way to C.  ``workspace``: the library of C can make the arrays in
    which sums of several blocks meet.  ``scaled``: blocks of A and B have factors.  ``copies``: bytes of each operand
    that is copied first.  ``out``: bytes of an element of C.
    """

    M: int
    N: int
    K: int
    batches: int
    dtype: Any
    promote: bool = False
    gated: bool = False
    lines: tuple[int, int] = (128, 128)
    rows_A: bool = False
    rows_B: bool = False
    plain: bool = False
    most: int = MOST
    workspace: bool = True
    scaled: bool = False
    rows: str = ""
    copies: tuple[int, ...] = ()
    out: int = 2

    def leaves_by_rows(self, swap: bool) -> bool:
        """Whether C, or C^T, is stored row by row, where TMA does not store it."""
        return self.rows == ("M" if swap else "N")

    @property
    def aligned(self) -> bool:
        """Whether all lines begin where those of 128 bytes of memory do."""
        return min(self.lines) == 128


@functools.lru_cache(1 << 14)
def varied(config: WarpgroupConfig, **other: Any) -> WarpgroupConfig:
    """The configuration with other parts, which problems share: one is found in a tenth of the time of its making."""
    return replace(config, **other)


def candidates(problem: Problem, multiprocessors: int = 132) -> list[WarpgroupConfig]:
    """Every configuration that is worth a thought for a problem.

    Measured: up to 64 rows or columns one narrow tile that holds them all is the best nine times of ten.
    """
    if problem.scaled:
        return [config for config in scaled_tiles(problem, multiprocessors) if fits(config, True, problem.most)]
    few = _SQUARE if problem.gated else min(problem.M, problem.N)
    found = narrow(problem, few, multiprocessors) if few <= SKINNY[-1] else []
    if problem.workspace:                               # blocks of wider tiles would read operands at other times than
        found += [varied(tile, stream_k=True) for tile in found        # their neighbours, and not from L2
                  if shareable(tile, problem, multiprocessors)]
    if few > 64:
        found += wide(problem, few, multiprocessors)
    found = [promoted(config, factors=False) for config in found] if problem.promote else found
    return [config for config in dict.fromkeys(found) if fits(config, problem.promote, problem.most)]


def promoted(config: WarpgroupConfig, *, factors: bool = True) -> WarpgroupConfig:
    """The configuration with promoted sums added up when it is soonest, as measured with and without ``factors``."""
    ahead = config.schedule == "cooperative" and config.rows == 64 and (
        96 <= config.bN <= 128 if config.groups == 1 else 64 <= config.bN <= 128 and config.groups == 2 and not factors)
    return varied(config, promotion="ahead") if ahead else config


def narrow(problem: Problem, few: int, multiprocessors: int) -> list[WarpgroupConfig]:
    """Tiles for few rows or columns, which are the columns of a tile; the other operand is read once."""
    found: list[WarpgroupConfig] = []
    stream = "A" if leaves_first(problem) else ""
    for bN in (width for width in SKINNY if few <= width < 2 * few + 32 or width == SKINNY[-1]):
        for bM, groups in ((64, 1), (128, 2), (192, 3), (256, 2)):
            swap = problem.M < problem.N
            deep = deepest(bM, bN, groups, out=problem.out, rows=problem.leaves_by_rows(swap))
            tile = WarpgroupConfig(bM, bN, 128 // problem.dtype.bytes, deep, groups=groups, stream=stream, swap=swap)
            found += [tile, *(splits(tile, problem, multiprocessors) if bM <= 128 else ())]
    return found


def leaves_first(problem: Problem) -> bool:
    """Whether an operand that is read once leaves L2 before all else.

    What others left there, and may have written, stays then: worth up to a tenth of a short product, and less than it
    costs in a long one.  Lines that begin inside of 128 bytes share sectors with the next k tile, or with neighbouring
    rows, which would find them gone.  Measured: ``benchmarks/gemm_hints.py``.
    """
    rows, apart = max(((problem.M, problem.lines[0]), (problem.N, problem.lines[1])))
    size: int = rows * problem.K * problem.dtype.bytes * problem.batches
    return size < (_LONG if apart == 128 else _LONG_APART)


def wide(problem: Problem, few: int, multiprocessors: int) -> list[WarpgroupConfig]:
    """Tiles of C, and of C^T where these divide it otherwise."""
    turned = problem.M < problem.N
    sides = (False,) if problem.gated else (False, True) if few <= _TURNED or problem.plain else (turned,)
    found: list[WarpgroupConfig] = []
    for tile in (tile for swap in sides for tile in tiles(problem.dtype.bytes, swap, problem.out,
                                                          problem.leaves_by_rows(swap))):
        if problem.promote and tile.bM != 128:          # the others' sums are in each other's way: measured
            continue
        if problem.gated and tile.bN % (16 * max(2, tile.share_B)):     # its halves are wide as well
            continue
        if problem.aligned and tile.cluster > 1:        # L2 has what they ask for; half the requests help where lines
            continue                                    # begin anywhere, so that each takes two of them
        if min(tile.share_A, tile.share_B) > 1 and problem.most < MOST:
            continue                                    # ranks along both modes and what is fused would spill
        if not narrowest(tile, problem, multiprocessors):
            continue
        if cuts_sectors(problem) and not tile.swap and problem.N * problem.K * problem.dtype.bytes < _L2 / 2:
            tile = varied(tile, raster=1)              # neighbours in a row are written at one time
        if problem.plain and tile.swap and tile.schedule == "pingpong" and problem.rows != "M" and tile.bM * tile.bN \
                > 120 * GROUP:                          # addresses of elements that threads store one by one spill
            continue
        found.append(tile)
        if tile.schedule == "cooperative" and tile.bM <= 128 and tile.cluster == 1:
            found += splits(tile, problem, multiprocessors)
    return found


def cuts_sectors(problem: Problem) -> bool:
    """Whether rows of C, taken to lie along N, begin inside of the 32 bytes that memory writes at once."""
    return not problem.plain and problem.N * problem.out % 32 != 0


def shareable(tile: WarpgroupConfig, problem: Problem, multiprocessors: int) -> bool:
    """Whether blocks may have equal shares of these tiles: the last wave leaves some without work for long."""
    m, n = tiles_of(tile, problem)
    waves = m * n * problem.batches / resident(tile, multiprocessors)
    k_tiles = -(-problem.K * problem.dtype.bytes // 128)
    return tile.split_k == 1 and (math.ceil(waves) - waves) * k_tiles > _IDLE and waves > _FEWEST


def narrowest(tile: WarpgroupConfig, problem: Problem, multiprocessors: int) -> bool:
    """Whether narrower tiles would be more, and whole pieces of 64 columns, which leave sooner, more columns in all
    waves.
    """
    N = problem.M if tile.swap else problem.N * (2 if problem.gated else 1)
    if tile.bN % 64 == 0:
        return True
    if -(-N // tile.bN) == -(-N // (tile.bN - 16)):
        return False
    whole = varied(tile, bN=-(-tile.bN // 64) * 64)
    return whole.bN not in TILES[tile.schedule, tile.bM, tile.groups] or \
        _width_of_all(tile, problem, multiprocessors) < _width_of_all(whole, problem, multiprocessors)


def _width_of_all(tile: WarpgroupConfig, problem: Problem, multiprocessors: int) -> int:
    """Columns that a block multiplies, one tile after the other."""
    m, n = tiles_of(tile, problem)
    return -(-m * n * problem.batches // resident(tile, multiprocessors)) * tile.bN


def scaled_tiles(problem: Problem, multiprocessors: int) -> list[WarpgroupConfig]:
    """Tiles for factors of blocks: none is turned, and few rows leave part of their tiles empty."""
    found: list[WarpgroupConfig] = []
    for (bM, groups), widths in SCALED.items():
        for bN in widths:
            deep = deepest(bM, bN, groups, scaled=True, out=problem.out, rows=problem.leaves_by_rows(False))
            tile = promoted(WarpgroupConfig(bM, bN, 128, deep, groups=groups, raster=16 if bN > bM else 8))
            found += [tile, *splits(tile, problem, multiprocessors)]
    return found


def splits(tile: WarpgroupConfig, problem: Problem, multiprocessors: int) -> list[WarpgroupConfig]:
    """A tile whose k tiles several blocks share: in a cluster, or in memory, as many as the device holds."""
    if problem.gated:
        return []
    M, N = (problem.N, problem.M) if tile.swap else (problem.M, problem.N)
    count = -(-M // tile.bM) * -(-N // tile.bN) * problem.batches
    k_tiles = -(-problem.K * problem.dtype.bytes // 128)
    found, depth = [], deepest(tile.bM, tile.bN, tile.groups, gathers=True, scaled=problem.scaled)
    for parts in (2, 4, 8):
        if parts * 2 <= k_tiles and count * parts <= 2 * multiprocessors and 4 * tile.bN <= 128 * depth \
                and tile.bN % 64 in (0, 8, 16, 32) and 256 * tile.groups <= 128 * depth * max(1, tile.bN // 64):
            found.append(varied(tile, stages=depth, split_k=parts))
    for a, b in MEETING_CLUSTERS if problem.workspace else ():
        if a > -(-N // tile.bN) or b > -(-M // tile.bM) or tile.bN % (8 * b):
            continue
        if problem.plain and a * b > 1 and tile.bM * tile.bN > 160 * GROUP:     # addresses of elements of C spill
            continue
        deep = deepest(tile.bM, tile.bN, tile.groups, meets=True, scaled=problem.scaled)
        shared = varied(tile, stages=deep, gather="memory", share_A=a, share_B=b)
        count = -(-M // (tile.bM * b)) * -(-N // (tile.bN * a)) * problem.batches
        at_once = resident(shared, multiprocessors) // shared.cluster
        found += [varied(shared, split_k=parts) for parts in _parts(at_once, count, k_tiles)]
    return found


def _parts(at_once: int, count: int, k_tiles: int) -> list[int]:
    """In how many parts to split ``count`` tiles: to fill one wave or two, or half and a quarter of one."""
    most = [min(waves * at_once // count, k_tiles // 2, at_once) for waves in (1, 2)]
    wanted = {max((n for n in PARTS if n <= limit), default=1) for limit in (*most, most[0] // 2, most[0] // 4)}
    return sorted(wanted - {1})


def fits(config: WarpgroupConfig, promote: bool, most: int = MOST) -> bool:
    """Whether the sums of a thread, and those of a k tile beside them if they are promoted, stay in its registers;
    ``most`` as in ``Problem``.
    """
    sums = config.rows * config.bN // GROUP
    three = config.groups == 3                          # have 160 registers a thread each, not 240
    most -= 80 if three else 32 if config.bM == 256 and most < MOST else 0
    if sums + (8 if config.peers > 1 else 0) > most:
        return False
    parts = max(1, config.rows // 64) * config.widths   # of a k tile, of which one or two are in registers at a time
    twice = sums + sums // parts * (2 if config.promotion in ("behind", "ahead") else 1)
    return not promote or (twice <= (128 if three else 192) and config.schedule == "cooperative")


# --- the choice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, bytes and operations per microsecond.

    ``benchmarks/gemm_fit.py`` fits them together to measured products: one by one they need not be what names say.
    """

    launch: float = 3.219
    begin: float = 0.5607       # the first stages of a block's first tile
    begin_byte: float = 6.479e-06 # and for each byte of one
    begin_group: float = 0.174  # and for each warpgroup beside the first
    begin_all: float = 2.65e-08 # and for each byte that all blocks ask for before their first products
    crowd: float = 1.007        # where all multiprocessors ask memory at once for theirs; of fewer, by the square root
    flops: float = 8.1e+06      # of one multiprocessor, 16-bit operands, at 1980 MHz
    share_64: float = 1.538     # of them, that tiles of 64 rows reach, and so on: they wait for loads
    bubble: float = 0.05698     # and what a warpgroup that multiplies alone waits in each k tile
    share_128: float = 0.811
    share_192: float = 0.7876   # and more rows
    turns_128: float = 0.8398   # where warpgroups take turns
    latency: float = 1.344      # from asking for a stage to its arrival
    loads: float = 6.529e+05    # bytes that one multiprocessor gets from L2
    arriving: float = 1.844e+05 # that arrive there, also those that another one asked for
    l2: float = 2.674e+07       # and all of them
    dram: float = 3.902e+06
    pieces: float = 0.1513      # more of them for an operand along its rows, of which a tile has 128 bytes at a place
    written: float = 1.161      # of the bytes of C beyond what L2 takes
    dram_one: float = 1.897e+05 # bytes from DRAM that one multiprocessor can wait for at a time
    stream: float = 1.047       # as much faster where one operand leaves L2 first
    store: float = 3.8e-05      # for an element of a warpgroup's part of a tile, that nothing hides
    turns_store: float = 0.1556 # of it, that warpgroups which take turns do not hide either
    tile: float = 0.08464       # for each further tile of a block
    gather_2: float = 1.044     # handing sums round in a cluster
    gather_4: float = 1.245
    gather_8: float = 1.788
    gather_sum: float = 9.195e-05 # for each sum of a block
    meet: float = 1.491         # and in memory
    meet_each: float = 0.03245  # for each block of a tile
    meet_sum: float = 0.000147  # for each sum of a block
    hand: float = 2.691         # handing sums over where blocks have shares of tiles
    hand_each: float = 1.144    # for each block whose sums are added
    hand_sum: float = 0.0001243 # for each sum that leaves or is added
    sharp: float = 5.781        # how sharply the slowest of several things rules
    sharp_one: float = 40.65
    sharp_dram: float = 3.156
    sharp_loads: float = 1.442
    rows_64: float = 1.999      # of the loads of an operand along its rows, in swizzled rows of 64 bytes
    rows_32: float = 4.756
    pieces_32: float = 1.522    # of the store, where a tile leaves in pieces of 32 columns
    pieces_16: float = 2.916
    unaligned: float = 2.232    # more of the loads, for lines that begin anywhere
    ragged: float = 1.098       # of the bytes of C, whose rows begin inside of 128 bytes
    halves: float = 0.4813      # and more of them, where rows begin inside of the 32 bytes that memory writes at once
    copy: float = 2.099         # copying an operand first
    copied: float = 2.17e+06    # bytes of it a microsecond
    by_rows: float = 6.067e-05  # for an element of a tile that is stored by rows
    single: float = 0.0007      # or, of 32 bits, by itself
    single_turned: float = 0.0003 # where neighbours in a tile's columns are neighbours in memory


COSTS = Costs()
_LEFT = {1: 0, 2: 0, 4: 12, 8: 12}  # multiprocessors that clusters of this size leave without a block, of 132
_L2 = 40e6                          # bytes that stay in L2
_LONG, _LONG_APART = 10 * _L2, 4 * _L2      # bytes of an operand that need not leave L2 first
_PLAIN_STORE = {"cooperative": 2.0e-4, "pingpong": 2.5e-4}  # microseconds for an element that TMA does not store
_PROMOTED = 0.78                    # of the share, where sums are promoted


def estimate(config: WarpgroupConfig, problem: Problem, multiprocessors: int, costs: Costs = COSTS) -> float:
    """Microseconds of a product on an H200, or one with so many multiprocessors.

    A launch, then waves of tiles.  Each k tile takes as long as its products or its loads, whatever is longer; DRAM
    runs beside them.
    """
    m, n = tiles_of(config, problem)
    units = m * n * problem.batches * config.split_k
    slots = resident(config, multiprocessors)
    waves, rest = divmod(units, slots)
    k_bytes = problem.K * problem.dtype.bytes
    depth = max(1, -(-k_bytes // (128 * config.split_k)))
    if config.stream_k:
        slots = shares(units // config.cluster, depth, slots // config.cluster) * config.cluster
        busy = _shared(config, problem, units / slots, depth, slots, costs)
        units = slots
    else:
        busy = 0.0
        if waves:
            busy += waves * (depth * step_of(config, problem, slots, costs) + _between(config, problem, costs))
        if rest:
            busy += depth * step_of(config, problem, rest, costs) + _between(config, problem, costs)
    busy += _stored(config, problem, costs) if config.schedule == "pingpong" else 0.0   # the last, not hidden
    read = traffic_of(config, problem, m, n, slots, costs)
    read /= costs.stream if config.stream else 1.0
    dram = _either(read / costs.dram, read / (costs.dram_one * min(units, slots)), costs.sharp_one)
    gather = (waves + (rest > 0)) * _gathered(config, costs)
    copies = (costs.copy if problem.copies else 0.0) + sum(problem.copies) / costs.copied
    begin = _begin(config, problem, depth, min(units, slots), slots, costs)
    return costs.launch + copies + begin + _either(busy, dram, costs.sharp_dram) + gather


def _begin(config: WarpgroupConfig, problem: Problem, depth: int, blocks: int, slots: int, costs: Costs) -> float:
    """Microseconds until so many blocks have what they multiply first: all ask for all their stages at once."""
    first: int = min(128, problem.K * problem.dtype.bytes) * (config.bM + config.bN)
    each = 128 * min(depth, config.stages) * (config.bM / config.share_A + config.bN / config.share_B)
    return costs.begin + costs.begin_byte * first + costs.begin_group * (config.groups - 1) \
        + costs.begin_all * each * blocks + costs.crowd * math.sqrt(blocks / slots)


def _gathered(config: WarpgroupConfig, costs: Costs) -> float:
    """Microseconds that blocks of a tile take to hand their sums round."""
    if config.split_k == 1:
        return 0.0
    sums = config.bM * config.bN
    if config.gather == "memory":
        return costs.meet + costs.meet_each * config.split_k + sums * costs.meet_sum
    return (costs.gather_2, costs.gather_4, costs.gather_8)[config.split_k.bit_length() - 2] + sums * costs.gather_sum


def tiles_of(config: WarpgroupConfig, problem: Problem) -> tuple[int, int]:
    """Tiles along M and N of the product as it is computed, whole clusters of them."""
    M, N = (problem.N, problem.M) if config.swap else (problem.M, problem.N * (2 if problem.gated else 1))
    overlap = 0
    if problem.leaves_by_rows(config.swap) and takes_rows(config, problem.dtype.bytes, N, scaled=problem.scaled):
        overlap = overlap_of(config, N, scaled=problem.scaled)
    m, n = config.bM * config.share_B, (config.bN - overlap) * config.share_A
    return -(-M // m) * config.share_B, -(-(N + max(0, overlap - 1)) // n) * config.share_A


def _shared(config: WarpgroupConfig, problem: Problem, waves: float, depth: int, slots: int, costs: Costs) -> float:
    """Microseconds of equal shares of so many waves: a sum is left in memory, and those of others are added."""
    k_tiles = math.ceil(waves * depth)
    peers = max(1.0, 1 / waves)
    handed = costs.hand + costs.hand_each * peers + config.bM * config.bN * costs.hand_sum * (1 + peers)
    tiles = math.ceil(waves) * _between(config, problem, costs)
    return k_tiles * step_of(config, problem, slots, costs) + tiles + handed


def shares(tiles: int, k_tiles: int, at_once: int) -> int:
    """How many blocks have a share of the tiles: all, but of few tiles with few k tiles each."""
    return min(at_once, tiles * max(1, k_tiles // _LEAST_SHARE))


def resident(config: WarpgroupConfig, multiprocessors: int) -> int:
    """Blocks that run at a time: clusters that straddle two groups of multiprocessors find no place."""
    return max(1, (multiprocessors - _LEFT[config.cluster]) // config.cluster) * config.cluster


def _either(a: float, b: float, sharp: float) -> float:
    """The larger of two that hinder each other a little."""
    most = max(a, b)
    return float(most * ((a / most) ** sharp + (b / most) ** sharp) ** (1 / sharp))


def step_of(config: WarpgroupConfig, problem: Problem, busy: int, costs: Costs) -> float:
    """Microseconds of one k tile where so many blocks load at a time."""
    turns = config.schedule == "pingpong"
    share = {64: costs.share_64, 128: costs.turns_128 if turns else costs.share_128}.get(config.bM, costs.share_192)
    share *= _PROMOTED if problem.promote else 1.0
    share *= SCALED.get((config.bM, config.groups), {}).get(config.bN, 1.0) if problem.scaled else 1.0
    products = 128 * config.bM * config.bN / (costs.flops * share) + costs.bubble * (config.bM == 64 and not turns)
    lines_A, lines_B = _lines(config, problem, costs)
    loaded = 128 * (config.bM * lines_A / config.share_A + config.bN * lines_B / config.share_B)
    loads = _either(loaded / min(costs.loads, costs.l2 / busy), 128 * (config.bM + config.bN) / costs.arriving,
                    costs.sharp_loads)
    return _either(_either(products, loads, costs.sharp), costs.latency / config.stages, costs.sharp)


def _lines(config: WarpgroupConfig, problem: Problem, costs: Costs) -> list[float]:
    """What loads cost, in those of whole lines: few rows along their rows lie in narrower swizzles; of lines at
    multiples of 32 bytes, three of four begin inside of 128, and so on.
    """
    turn = -1 if config.swap else 1
    by_rows, apart = (problem.rows_A, problem.rows_B)[::turn], problem.lines[::turn]
    of = {128: 1.0, 64: costs.rows_64, 32: costs.rows_32, 16: costs.rows_32}
    return [(of[math.gcd(128, rows * problem.dtype.bytes)] if along_rows else 1.0)
            * (1 + costs.unaligned * (1 - each / 128))
            for rows, along_rows, each in zip((config.bM, config.bN), by_rows, apart, strict=True)]


def _stored(config: WarpgroupConfig, problem: Problem, costs: Costs) -> float:
    """Microseconds that a tile takes to be stored, by all its warpgroups at a time."""
    columns = math.gcd(config.bN, 32 if config.groups == 3 else 64)
    narrow = 1.0 if columns == 64 or config.bN < 64 else costs.pieces_32 if columns == 32 else costs.pieces_16
    return costs.store * narrow * config.rows * config.bN * problem.out / 2


def _between(config: WarpgroupConfig, problem: Problem, costs: Costs) -> float:
    """Microseconds from a tile of a block to its next; warpgroups that take turns hide most of it."""
    plain = problem.plain * _stored_plainly(config, problem, costs) * config.bM * config.bN
    if config.schedule == "pingpong":
        return costs.turns_store * _stored(config, problem, costs) + plain
    return costs.tile + _stored(config, problem, costs) + plain


def _stored_plainly(config: WarpgroupConfig, problem: Problem, costs: Costs) -> float:
    """Microseconds for an element that TMA does not store."""
    N = problem.M if config.swap else problem.N
    if problem.leaves_by_rows(config.swap) and takes_rows(config, problem.dtype.bytes, N, scaled=problem.scaled):
        return costs.by_rows
    if problem.dtype.bytes == 4 and problem.N % 4:      # as most results of them, in rows that begin anywhere
        return (costs.single_turned if config.swap else costs.single) / config.split_k
    return _PLAIN_STORE[config.schedule] / config.split_k


def traffic_of(config: WarpgroupConfig, problem: Problem, m: int, n: int, slots: int, costs: Costs) -> float:
    """Bytes from and to DRAM: a strip of A stays in L2 while it meets all of B, if there is room."""
    M, N = (problem.N, problem.M) if config.swap else (problem.M, problem.N * (2 if problem.gated else 1))
    k_bytes = problem.K * problem.dtype.bytes
    strips = -(-m // (config.raster * config.share_B))
    across = min(m, config.raster * config.share_B)
    B = N * k_bytes * (strips if N * k_bytes > _L2 else 1)
    A = M * k_bytes
    if across * config.bM * k_bytes > _L2:
        A *= max(1, n * across / slots)
    C = problem.out * M * N
    by_rows = (problem.rows_A, problem.rows_B)[::-1 if config.swap else 1]
    A *= 1 + by_rows[0] * costs.pieces * 128 / (config.bM * problem.dtype.bytes)
    B *= 1 + by_rows[1] * costs.pieces * 128 / (config.bN * problem.dtype.bytes)
    return float((A + B + C + (_written(config, problem, costs) - 1) * max(0, C - _L2 / 2)) * problem.batches)


def _written(config: WarpgroupConfig, problem: Problem, costs: Costs) -> float:
    """What C's bytes cost, in those that are read: rows that begin inside of lines or sectors of memory cost more."""
    if problem.N * problem.out % 128 == 0 or problem.plain:
        return costs.written
    return costs.written * costs.ragged + (costs.halves * 64 / _columns(config) if cuts_sectors(problem) else 0.0)


def _columns(config: WarpgroupConfig) -> int:
    """Columns of C that a piece of a tile has on its way out."""
    return 64 if config.swap else math.gcd(config.bN, 32 if config.groups == 3 else 64)
