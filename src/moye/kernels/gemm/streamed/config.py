"""How ``gemm_streamed`` shares its rows and K among warps and blocks, and the rule that picks it without search.

In: rows that stream, few rows, K.  Out: a ``StreamConfig``.

    choose(27275, 1, 6611, 132, single=False)

The rule is a model of costs: what memory takes, and what blocks take from barrier to barrier.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

CLASSES = 8
"""Rows after which one begins as far behind a multiple of 16 bytes as the first: of 2 bytes an element."""
MOST = 64
"""Rows that count as few."""
VECTOR, STEP, ROWS = 8, 32, 16
"""Elements of a thread; k and rows of a warp."""
WARPS = 8
RESIDENT = 2
"""Blocks of a multiprocessor."""
_STEPS = (8, 4)                         # of a warp between two barriers, the latter if shared memory has much of a step
_GROUPS = 20                            # of 8 few rows by warps along k, of which shared memory has two chunks
_MOST_SPLITS = 128


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """``along`` warps of a block have 16 rows each, ``deep`` warps share these, ``splits`` blocks share K."""

    along: int
    deep: int
    splits: int

    def blocks(self, rows: int) -> int:
        """Blocks of all rows, which lie in classes."""
        return CLASSES * _parts(_strips(rows), self.along)

    def steps(self, few: int) -> int:
        """Steps of a warp between two barriers."""
        return _STEPS[_parts(few, 8) * self.deep > WARPS]


def _strips(rows: int) -> int:
    """Warps that have the rows of one class."""
    return _parts(_parts(rows, CLASSES), ROWS)


def _parts(n: int, each: int) -> int:
    """How many parts of at most ``each`` there are."""
    return -(-n // each)


def options(rows: int, few: int, K: int, multiprocessors: int) -> list[StreamConfig]:
    """What there is to choose from: warps of a block, and splits for a part of a wave of blocks, or some waves."""
    found = []
    groups = _parts(few, 8)                             # more than six leave registers for one way to address them
    least = 8 if groups > 6 else next(along for along in (1, 2, 4, 8) if groups * (WARPS // along) <= _GROUPS)
    for along in (8, 4, 2, 1):
        deep = WARPS // along
        if along < least or (along > least and along >= 2 * _strips(rows)):
            continue
        alone = StreamConfig(along, deep, 1)
        chunks = _parts(K, STEP * deep * alone.steps(few))
        wave = RESIDENT * multiprocessors / alone.blocks(rows)
        parts = {min(chunks, _MOST_SPLITS, round(wave * waves)) for waves in (0.5, 1, 2, 4)}
        found += [replace(alone, splits=splits) for splits in sorted({1, *parts} - {0})]
    return found


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, bytes per microsecond.

    ``benchmarks/gemm_streamed_fit.py`` fits them to measured products.
    """

    launch: float = 3.009
    reduction: float = 2.794    # a second launch
    reduced: float = 4.119e-06  # and for each sum of a split
    bandwidth: float = 5.644e+06
    chunk: float = 0.08333      # between two barriers
    fill: float = 0.413         # of it, for each 16 bytes that a thread shifts
    single: float = 0.7455      # or for each 8 elements that it copies one by one
    multiply: float = 0.3276    # and for each group of few rows
    edges: float = 1.975        # what lies in front of whole vectors and behind them
    sharp: float = 0.7609       # how sharply the slower of memory and blocks rules


COSTS = Costs()


def modelled(config: StreamConfig, rows: int, few: int, K: int, multiprocessors: int, single: bool,
             costs: Costs = COSTS) -> float:
    """Microseconds that a product should take; ``single``: the few rows are copied element by element."""
    depth = STEP * config.deep * config.steps(few)
    chunks = _parts(_parts(K, depth), config.splits)
    rounds = _parts(config.blocks(rows) * config.splits, RESIDENT * multiprocessors)
    each = _parts(few * depth, VECTOR * WARPS * 32)
    chunk = costs.chunk + each * (costs.single if single else costs.fill) + costs.multiply * _parts(few, 8)
    busy, read = rounds * (chunks * chunk + costs.edges), 2 * (rows + few) * K / costs.bandwidth
    most = max(busy, read)
    time = costs.launch + most * ((busy / most) ** costs.sharp + (read / most) ** costs.sharp) ** (1 / costs.sharp)
    return float(time + (config.splits > 1) * (costs.reduction + costs.reduced * rows * few * config.splits))


@functools.lru_cache(maxsize=1024)
def choose(rows: int, few: int, K: int, multiprocessors: int, single: bool) -> StreamConfig:
    """The configuration with the least modelled time."""
    return min(options(rows, few, K, multiprocessors),
               key=lambda config: modelled(config, rows, few, K, multiprocessors, single))
