"""Tiles of ``gemm_shallow`` and the rule that picks one without search.

In: the extents of a product, how its operands and C lie.  Out: a ``ShallowConfig``.

    choose(Size(12549, 139, 23, Way(False, False, False), Way(False, False, False), 139, 2, 2), 132)

The rule is a model of costs: what memory takes, what a block waits for, and what its warps do one after the other.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import moye as mo

MOST = 512
"""Bytes of k at most."""
_DEPTHS = (32, 64, 96, 128, 192, 256, 384, 512)
"""Bytes of k of a tile."""
REACH = 1 << 27
"""Parts of 16 bytes that C has at most."""
_TILES = 65535                          # of rows, at most
_HOPPER = mo.hardware.of("sm_90a")      # of which the costs are


@dataclass(frozen=True, slots=True)
class Way:
    """How an operand lies: contiguous along its rows (``turned``) or along K; ``whole``: all lines begin and end at
    multiples of 16 bytes; ``pairs``: they begin at multiples of 4.
    """

    turned: bool
    whole: bool
    pairs: bool


@dataclass(frozen=True, slots=True)
class ShallowConfig:
    """Tiles of ``bM x bN`` by ``wM x wN`` warps; ``resident`` blocks a multiprocessor."""

    bM: int
    bN: int
    wM: int
    wN: int
    resident: int

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN

    @property
    def rows(self) -> int:
        """Rows of a warp."""
        return self.bM // self.wM

    @property
    def columns(self) -> int:
        """Columns of a warp."""
        return self.bN // self.wN

    def staged(self, width: int) -> int:
        """Elements of ``width`` bytes that a tile of C has room for in shared memory."""
        return self.bM * (self.bN + 16 // width)


@dataclass(frozen=True, slots=True)
class Size:
    """What the choice depends on: extents, each operand's way, elements between rows of C, and bytes of an element of C
    and of A and B; how many products there are, and elements between them in C, None of a single one.
    """

    M: int
    N: int
    K: int
    A: Way
    B: Way
    pitch: int
    out: int
    bytes: int
    batches: int = 1
    apart: int | None = None


def depth_of(size: Size) -> int:
    """k of a tile."""
    return next(depth for depth in _DEPTHS if depth >= size.K * size.bytes) // size.bytes


def least_k(depth: int, width: int) -> int:
    """k that all products have whose tiles are so deep, of ``width`` bytes an element."""
    return max((0, *(other for other in _DEPTHS if other < depth * width))) // width


def room(config: ShallowConfig, size: Size) -> int:
    """Bytes of shared memory of a block."""
    depth, each = depth_of(size), 16 // size.bytes
    parts = sum((rows // each + 1) * depth if way.turned else (depth // each + 1) * rows
                for way, rows in ((size.A, config.bM), (size.B, config.bN)))
    return 16 * parts + config.staged(size.out) * size.out


def fits(config: ShallowConfig, size: Size, most: int = _HOPPER.block_shared) -> bool:
    """Whether a block's shared memory, ``most`` bytes, has room for a tile, and a grid counts the tiles."""
    return room(config, size) <= most and config.bM * _TILES >= size.M


def unfit(config: ShallowConfig) -> str:
    """What the kernel cannot have of a configuration's numbers; "" if there is nothing.

    A thread's lines, and its rows of C, are to be multiples of eight apart, or of four of 32 bits.
    """
    if min(config.bM, config.bN, config.wM, config.wN, config.resident) < 1:
        return "all numbers are positive"
    if config.bM % (16 * config.wM) or config.bN % (16 * config.wN):
        return "each warp has multiples of 16 rows and columns"
    if config.threads % 128 or config.threads > 1024:
        return "there are 4 warps, or a multiple of them, and at most 32"
    if any(config.threads % (width * parts) for width in (4, 8) for parts in [config.bN // width]):
        return "threads that store 16 bytes of a row each have multiples of 8 rows, or of 4 of 32 bits"
    return ""


def flat(config: ShallowConfig, size: Size) -> bool:
    """Whether tiles have whole rows of C, and these lie side by side."""
    return config.bN >= size.N == size.pitch


CONFIGS = (ShallowConfig(16, 128, 1, 4, 8), ShallowConfig(32, 64, 2, 2, 8), ShallowConfig(16, 256, 1, 8, 3),
           ShallowConfig(128, 64, 4, 2, 3), ShallowConfig(64, 128, 2, 4, 3), ShallowConfig(64, 256, 2, 4, 1),
           ShallowConfig(128, 128, 4, 2, 2), ShallowConfig(128, 16, 4, 1, 8), ShallowConfig(256, 16, 8, 1, 4))


def options(size: Size, most: int = _HOPPER.block_shared) -> list[ShallowConfig]:
    """What there is to choose from, where a block may have ``most`` bytes of shared memory."""
    return [config for config in CONFIGS if fits(config, size, most)]


# --- the choice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, and bytes per microsecond.

    ``benchmarks/gemm_shallow_fit.py`` fits them to measured products.
    """

    launch: float = 3.873
    bandwidth: float = 3.921e+06
    shifted: float = 0.2246     # of a block, for each operand whose lines begin anywhere
    slow: float = 0.03498       # and for each of its 32 bytes of k
    fetch: float = 0.0002681    # of a multiprocessor, for each 16 bytes of a tile's lines
    single: float = 1.732e-05   # for each element that a warp reads by itself
    pair: float = 6.653e-06     # or beside another
    product: float = 5.643e-07  # for each product of 16 bits
    stage: float = 5.622e-05    # for each element of a tile of C
    end: float = 0.001321       # for each row whose ends are stored one by one
    others: float = 1.027       # what other kernels take over what their models tell
    odd: float = 1.141          # and of lines that begin anywhere


COSTS = Costs()


@functools.lru_cache(maxsize=4096)
def choose(size: Size, multiprocessors: int, most: int = _HOPPER.block_shared) -> ShallowConfig:
    """The configuration with the least modelled time; the first one where none fits."""
    found = options(size, most) or CONFIGS[:1]
    return min(found, key=lambda config: modelled(config, size, multiprocessors))


def modelled(config: ShallowConfig, size: Size, multiprocessors: int, costs: Costs = COSTS) -> float:
    """Microseconds that a product should take."""
    blocks = -(-size.M // config.bM) * -(-size.N // config.bN) * size.batches
    most = -(-blocks // multiprocessors)                # of a multiprocessor
    held = max(1, min(config.resident, _HOPPER.shared // (room(config, size) + _HOPPER.reserved)))
    odd, steps = (not size.A.whole) + (not size.B.whole), depth_of(size) * size.bytes / 32
    work, rounds = _work(config, size, costs), max(1.0, most / held)
    busy = _beside(rounds * odd * (costs.shifted + steps * costs.slow), most * work, rounds)
    moved = size.batches * ((size.M + size.N) * size.K * size.bytes + size.M * size.N * size.out) / costs.bandwidth
    return costs.launch + _beside(busy, moved, rounds)


def _beside(x: float, y: float, rounds: float) -> float:
    """Two times that hide each other where blocks are in different rounds, and follow each other in one."""
    return max(x, y) + min(x, y) / rounds


def _work(config: ShallowConfig, size: Size, costs: Costs) -> float:
    """Microseconds of a multiprocessor for a tile, of which warps leave out what is not C's."""
    depth = depth_of(size)
    warps = min(config.wM, -(-size.M // config.rows)), min(config.wN, -(-size.N // config.columns))
    rows, columns = warps[0] * config.rows, warps[1] * config.columns
    work = rows * columns * (depth * size.bytes / 2 * costs.product + costs.stage)
    for way, lines, own, others in ((size.A, config.bM, rows, warps[1]), (size.B, config.bN, columns, warps[0])):
        how = costs.single if way.turned or not way.pairs or size.bytes == 4 else costs.pair
        if way.whole and size.bytes == 2:               # by ldmatrix, which takes no time that could be told
            how = 0.0
        work += depth * (lines * size.bytes / 16 * costs.fetch + own * others * how)
    ragged = size.pitch * size.out % 16 != 0 and not flat(config, size)
    return work + (rows * costs.end if ragged else 0.0)
