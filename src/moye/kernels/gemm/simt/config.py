"""Tile configurations of ``gemm_simt``, and the model of what each takes.  ``choice.py`` picks one.

In: a ``Problem``.  Out: a ``TileConfig`` and a number of parts of K, and microseconds.

>>> problem = Problem(4096, 4096, 4096, 4)
>>> config, parts = choose(problem, 132)
>>> config.bM * config.bN >= 96 * 128, parts
(True, 1)

``benchmarks/gemm_simt_fit.py`` fits the model to what was measured on an H200 (``benchmarks/data/gemm_simt*.csv.gz``).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from moye.kernels.gemm.simt import few


@dataclass(frozen=True, slots=True)
class TileConfig:
    """``bM x bN x bK`` tiles; ``tM x tN`` values a thread, in ``wM x wN`` warps of ``lM`` by ``32 / lM`` lanes; stages.

    ``blocks`` is how many blocks a multiprocessor holds.  With 2 stages operands come through registers and lie along
    their rows in shared memory, however they lay before; with more, asynchronous copies leave them as they are.
    """

    bM: int
    bN: int
    bK: int
    stages: int
    tM: int
    tN: int
    wM: int
    wN: int
    blocks: int
    lM: int = 8

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN

    @property
    def turns(self) -> bool:
        """Whether operands come through registers."""
        return self.stages == 2

    @property
    def lN(self) -> int:
        """Lanes of a warp along N."""
        return 32 // self.lM


FLOAT = (
    TileConfig(256, 128, 16, 4, 16, 8, 2, 4, 1),
    TileConfig(128, 128, 32, 3, 8, 8, 2, 4, 2),
    TileConfig(192, 128, 16, 4, 12, 8, 2, 4, 1),
    TileConfig(128, 96, 16, 3, 8, 12, 2, 2, 3),
    TileConfig(96, 128, 16, 3, 12, 8, 1, 4, 3),
    TileConfig(128, 64, 16, 3, 8, 8, 2, 2, 4),
    TileConfig(64, 128, 16, 3, 8, 8, 1, 4, 4),
    TileConfig(64, 64, 16, 3, 8, 8, 1, 2, 7),
    TileConfig(128, 32, 16, 3, 8, 8, 2, 1, 5),
    TileConfig(32, 128, 16, 3, 4, 8, 1, 4, 4),
    TileConfig(64, 32, 32, 3, 8, 4, 1, 2, 5),
    TileConfig(32, 64, 32, 3, 4, 8, 1, 2, 5),
    TileConfig(32, 32, 32, 4, 4, 4, 1, 2, 5),
    TileConfig(128, 16, 32, 3, 4, 8, 2, 1, 3, 16),
    TileConfig(16, 128, 32, 3, 4, 8, 1, 2, 3, 4),
    TileConfig(256, 8, 32, 3, 4, 8, 2, 1, 2, 32),
    TileConfig(8, 256, 32, 3, 8, 4, 1, 2, 2, 1),
    TileConfig(128, 8, 32, 3, 4, 8, 1, 1, 3, 32),
    TileConfig(128, 4, 32, 3, 4, 4, 1, 1, 3, 32),
    TileConfig(128, 128, 8, 2, 16, 8, 1, 4, 2),
    TileConfig(96, 128, 16, 2, 12, 8, 1, 4, 2),
    TileConfig(128, 96, 16, 2, 8, 12, 2, 2, 2),
    TileConfig(96, 64, 16, 2, 12, 8, 1, 2, 4),
    TileConfig(64, 96, 16, 2, 8, 12, 1, 2, 4),
    TileConfig(64, 64, 16, 2, 8, 8, 1, 2, 6),
)
DOUBLE = (
    TileConfig(64, 64, 16, 3, 4, 8, 2, 2, 3),
    TileConfig(32, 32, 16, 3, 4, 4, 1, 2, 8),
)


def configs(bytes_per_element: int) -> tuple[TileConfig, ...]:
    """The configurations for elements of 4 or 8 bytes."""
    return FLOAT if bytes_per_element == 4 else DOUBLE


@dataclass(frozen=True, slots=True)
class Problem:
    """What a choice depends on: extents, bytes of an element, how each operand is copied (``majors`` of a plan).

    ``workspace``: the library of C can make the arrays in which sums of several blocks meet.  ``batches``: of such
    products, one behind the other.
    """

    M: int
    N: int
    K: int
    bytes: int
    majors: tuple[str, str] = ("vector", "vector")
    vector: int = 4
    workspace: bool = True
    batches: int = 1


def most_parts(config: TileConfig, K: int, multiprocessors: int) -> int:
    """Blocks that may share a tile, and wait for each other: all fit the device, and each has some k tiles.

    Their number times that of k tiles is one of 32 bits, as the kernel counts.
    """
    k_tiles = max(1, -(-K // config.bK))
    return min(multiprocessors, k_tiles, max(1, ((1 << 31) - 1) // k_tiles))


def parts_of(config: TileConfig, problem: Problem, multiprocessors: int) -> list[int]:
    """How often K may be split: so that each multiprocessor has a block, or two, or as many as it holds, or so that
    all tiles are done in two rounds, three or four.

    A part has two k tiles at least, or it is all prologue; those of several rounds have more.
    """
    tiles = max(1, _tiles(config, problem))
    most = min(most_parts(config, problem.K, multiprocessors), problem.K // (2 * config.bK))
    if not problem.workspace or most < 2:
        return [1]
    held, long = config.blocks * multiprocessors, min(most, problem.K // (_LONG_PART * config.bK))
    once = {each * multiprocessors // tiles for each in range(1, config.blocks + 1)}
    more = {held // -(-tiles // rounds) for rounds in range(2, _ROUNDS + 1)}
    return sorted({1, *(n for n in once if 1 < n <= most), *(n for n in more if 1 < n <= long),
                   *([most] if most < max(once) else [])})


# --- the choice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, bytes, products of a multiprocessor each cycle.

    ``benchmarks/gemm_simt_fit.py`` fits them together to measured products, so that one by one they need not be what
    their names say.
    """

    launch: float = 4.471
    share_large: float = 0.9944 # of the peak, by threads with 128 sums and more, and so on
    share_96: float = 0.9712
    share_64: float = 0.9241
    share_32: float = 1.006
    share_16: float = 1.1
    along_one: float = 0.8659   # of the share, where one operand lies along K, or both
    along_both: float = 0.7952
    single: float = 0.9746      # of the share for each operand that is copied by single elements
    turned: float = 1.049       # of the share, where operands come through registers
    turned_single: float = 1.004 # for each of them that does so by single elements
    fill: float = 2.645         # warps of a multiprocessor that reach half of its share
    one: float = 3.238e-05      # for each element of a k tile that is copied by itself
    one_alone: float = 0.005867 # and for each that one thread copies
    latency: float = 0.00307    # from asking for a stage to its arrival
    turned_latency: float = 0.793 # to its arrival in registers
    l2: float = 5.936e+04       # bytes per microsecond that one multiprocessor gets
    dram: float = 5.31e+06
    dram_one: float = 3.756e+04 # for each multiprocessor that asks
    store: float = 4.453e-05    # for each element of a block
    store_single: float = 0.0001092
    meet: float = 2.493         # of blocks that share a tile
    meet_each: float = 0.03234  # for each of them
    meet_sum: float = 6.204e-05 # and each sum that a multiprocessor hands over
    sharp: float = 2.088        # how sharply the slowest of several things rules
    sharp_dram: float = 2.319
    copy: float = 1.951         # of an operand in memory first
    copied: float = 2.003e+06   # bytes of it a microsecond


COSTS = Costs()
_PEAK = 128 * 1980.0                    # products of one multiprocessor in a microsecond
_ROUNDS, _LONG_PART = 4, 16             # of blocks, one after the other, and the k tiles of each that are worth it


def estimate(config: TileConfig, parts: int, problem: Problem, multiprocessors: int, costs: Costs = COSTS) -> float:
    """Microseconds of a product on an H200, or one with so many multiprocessors.

    The multiprocessor with the most blocks decides.  Its blocks go through their k tiles together, as many as it holds
    at a time; a k tile takes as long as its products, its loads or the latency, whatever is longer.
    """
    tiles = _tiles(config, problem)
    k_tiles = -(-max(1, -(-problem.K // config.bK)) // parts)
    rounds, rest = _rounds(config, tiles, parts, multiprocessors)
    store = config.bM * config.bN * (costs.store if problem.vector > 1 else costs.store_single)
    busy = 0.0
    for count, held in ((rounds, config.blocks), (1 if rest else 0, rest)):
        if count:
            busy += count * (k_tiles * _step(config, held, problem, costs) + store * held)
    read = float(problem.bytes * problem.batches * (problem.K * (problem.M + problem.N) + problem.M * problem.N))
    dram = _either(read / costs.dram, read / (costs.dram_one * min(tiles * parts, multiprocessors)), costs.sharp)
    meet = 0.0
    if parts > 1:
        sums = -(-tiles * parts // multiprocessors) * config.bM * config.bN
        meet = costs.meet + costs.meet_each * parts + costs.meet_sum * sums
    return costs.launch + _either(busy, dram, costs.sharp_dram) + meet


def _tiles(config: TileConfig, problem: Problem) -> int:
    """Tiles of C, of all batches."""
    return -(-problem.M // config.bM) * -(-problem.N // config.bN) * problem.batches


def _rounds(config: TileConfig, tiles: int, parts: int, multiprocessors: int) -> tuple[int, int]:
    """(rounds of as many blocks as a multiprocessor holds, blocks of the one after these).

    Blocks that share a tile wait for each other.  So a round has whole tiles, and a tile that does not fit waits, too.
    """
    held = config.blocks * multiprocessors
    if parts == 1 or tiles * parts <= held:
        return divmod(-(-tiles * parts // multiprocessors), config.blocks)
    rounds, left = divmod(tiles, max(1, held // parts))
    return rounds, -(-left * parts // multiprocessors)


def _either(a: float, b: float, sharp: float) -> float:
    """The larger of two that hinder each other a little."""
    most = max(a, b)
    return float(most * ((a / most) ** sharp + (b / most) ** sharp) ** (1 / sharp)) if most else 0.0


def _step(config: TileConfig, held: int, problem: Problem, costs: Costs) -> float:
    """Microseconds of one k tile of all blocks that a multiprocessor holds at a time."""
    sums = config.tM * config.tN
    share = costs.share_large if sums >= 128 else costs.share_96 if sums >= 96 else costs.share_64 if sums >= 64 \
        else costs.share_32 if sums >= 32 else costs.share_16
    singles = sum(not major.endswith("vector") for major in problem.majors)
    if config.turns:
        share *= costs.turned * costs.turned_single ** singles
    else:
        along = sum(major.startswith("k") for major in problem.majors)
        share *= (1.0, costs.along_one, costs.along_both)[along] * costs.single ** singles
    warps = held * config.wM * config.wN * (sums / 64) ** 0.5
    share *= warps / (warps + costs.fill)
    wide = 2.0 if problem.bytes == 8 else 1.0
    products = held * config.bM * config.bN * config.bK * wide / (_PEAK * share)
    ones = config.bK * sum(rows for rows, major in zip((config.bM, config.bN), problem.majors, strict=True)
                           if not major.endswith("vector"))
    loads = held * ((config.bM + config.bN) * config.bK * problem.bytes / costs.l2 + ones * costs.one)
    latency = costs.turned_latency if config.turns else costs.latency / (config.stages - 1)
    latency += ones / config.threads * costs.one_alone
    return _either(_either(products, loads, costs.sharp), latency, costs.sharp)


@functools.lru_cache(maxsize=4096)
def choose(problem: Problem, multiprocessors: int) -> tuple[TileConfig, int]:
    """The configuration and the parts of K that the model finds fastest, for operands as they lie."""
    return min(((config, parts) for config in configs(problem.bytes)
                for parts in parts_of(config, problem, multiprocessors)),
               key=lambda found: estimate(found[0], found[1], problem, multiprocessors))


def turned(problem: Problem, which: tuple[bool, bool]) -> Problem:
    """The same product of operands some of which have been copied: those lie along their rows, at 16 bytes."""
    first, second = ("vector" if turn else major for major, turn in zip(problem.majors, which, strict=True))
    return replace(problem, majors=(first, second))


def streaming(problem: Problem, side: str) -> few.Few | None:
    """The product as one of few rows beside A or B, which streams; None if the others are not few, or it may not.

    Both lie along K: few rows that lie otherwise come in single elements (4 x 48 x 121792 took 135 us, cuBLAS 52).
    """
    (rows, most), major = (problem.M, problem.N)[::1 if side == "A" else -1], problem.majors["AB".index(side)]
    if most > few.MOST or problem.bytes != 4 or not all(x.startswith("k") for x in problem.majors):
        return None
    return few.Few(rows, most, problem.K, problem.bytes, major == "k vector", problem.batches)


def copying(problem: Problem, which: tuple[bool, bool], costs: Costs = COSTS) -> float:
    """Microseconds of copying operands, which turns round those that lie along K."""
    return sum(costs.copy + rows * problem.K * problem.bytes * problem.batches / costs.copied
               for rows, turn in zip((problem.M, problem.N), which, strict=True) if turn)
