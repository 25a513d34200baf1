"""How ``gemm_streamed`` shares its rows and K among warps and blocks, and the rule that picks it without search.

In: what streams, few rows, K.  Out: a ``StreamConfig``, or a ``TurnedConfig`` for what is contiguous along its rows.

    choose(Size(27275, 1, 6611), 132)

The rule is a model of costs: what memory takes, and what blocks take from barrier to barrier.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

CLASSES = 8
"""Rows after which one begins as far behind a multiple of 16 bytes as the first: of 2 bytes an element."""
MOST, MOST_TURNED = 64, 32
"""Rows that count as few, the latter beside an operand that is contiguous along its rows."""
VECTOR, STEP, ROWS = 8, 32, 16
"""Elements of a thread; k and rows of a warp."""
WARPS = 8
RESIDENT = 2
"""Blocks of a multiprocessor."""
COLUMNS, LINES, FEW = 56, 64, 16
"""Of what is contiguous along its rows: rows of a block, k of a warp between two barriers, few of an instruction."""
_STEPS = (8, 4)                         # of a warp between two barriers, the latter if shared memory has much of a step
_GROUPS = 20                            # of 8 few rows by warps along k, of which shared memory has two chunks
_MOST_SPLITS = 128


@dataclass(frozen=True, slots=True)
class Size:
    """``rows`` that stream, ``few`` of the other operand.  ``turned``: what streams is contiguous along its rows, and
    not along K.  ``single``: the few rows are copied element by element.
    """

    rows: int
    few: int
    K: int
    turned: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """``along`` warps of a block have 16 rows each, ``deep`` warps share these, ``splits`` blocks share K."""

    along: int
    deep: int
    splits: int = 1

    def blocks(self, size: Size) -> int:
        """Blocks of all rows, which lie in classes."""
        return CLASSES * _parts(_strips(size.rows), self.along)

    def steps(self, few: int) -> int:
        """Steps of a warp between two barriers."""
        return _STEPS[_parts(few, 8) * self.deep > WARPS]

    def depth(self, few: int) -> int:
        """Elements along k between two barriers."""
        return STEP * self.deep * self.steps(few)

    def resident(self, few: int) -> int:
        """Blocks of a multiprocessor."""
        return RESIDENT

    def groups(self, few: int) -> int:
        """Few rows, by the instruction."""
        return _parts(few, 8)


@dataclass(frozen=True, slots=True)
class TurnedConfig:
    """``splits`` blocks share K; the warps of a block have a class of lines each."""

    splits: int = 1

    def blocks(self, size: Size) -> int:
        """Blocks of all rows."""
        return _parts(size.rows, COLUMNS)

    def depth(self, few: int) -> int:
        """Elements along k between two barriers."""
        return CLASSES * LINES

    def resident(self, few: int) -> int:
        """Blocks of a multiprocessor: two instructions' sums take the registers of both."""
        return RESIDENT if few <= FEW else 1

    def groups(self, few: int) -> int:
        """Few rows, by the instruction."""
        return _parts(few, FEW)


Config = StreamConfig | TurnedConfig


def _strips(rows: int) -> int:
    """Warps that have the rows of one class."""
    return _parts(_parts(rows, CLASSES), ROWS)


def _parts(n: int, each: int) -> int:
    """How many parts of at most ``each`` there are."""
    return -(-n // each)


def options(size: Size, multiprocessors: int) -> list[Config]:
    """What there is to choose from: warps of a block, and splits for a part of a wave of blocks, or some waves."""
    found: list[Config] = []
    for alone in [TurnedConfig()] if size.turned else _ways(size):
        chunks = _parts(size.K, alone.depth(size.few))
        wave = alone.resident(size.few) * multiprocessors / alone.blocks(size)
        parts = {min(chunks, _MOST_SPLITS, round(wave * waves)) for waves in (0.5, 1, 2, 4)}
        found += [replace(alone, splits=splits) for splits in sorted({1, *parts} - {0})]
    return found


def _ways(size: Size) -> list[StreamConfig]:
    """Warps along the rows, and along k."""
    groups = _parts(size.few, 8)                        # more than six leave registers for one way to address them
    least = 8 if groups > 6 else next(along for along in (1, 2, 4, 8) if groups * (WARPS // along) <= _GROUPS)
    return [StreamConfig(along, WARPS // along) for along in (8, 4, 2, 1)
            if along == least or least < along < 2 * _strips(size.rows)]


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, bytes per microsecond.

    ``benchmarks/gemm_streamed_fit.py`` fits them to measured products.
    """

    launch: float = 3.738
    reduction: float = 1.802    # a second launch
    reduced: float = 4.244e-06  # and for each sum of a split
    bandwidth: float = 4.977e+06
    chunk: float = 0.3255       # between two barriers
    fill: float = 0.3051        # of it, for each 16 bytes that a thread shifts
    single: float = 0.734       # or for each 8 elements that it copies one by one
    multiply: float = 0.1428    # and for each group of few rows
    edges: float = 1.539        # what lies in front of whole vectors and behind them
    stored: float = 6.501e-06   # for each element of C
    sharp: float = 0.8312       # how sharply the slower of memory and blocks rules


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class TurnedCosts(Costs):
    """The same of what is contiguous along its rows."""

    launch: float = 4.857
    reduction: float = 2.134    # a second launch
    reduced: float = 1.068e-05  # and for each sum of a split
    bandwidth: float = 5.723e+06
    chunk: float = 6.43e-05     # between two barriers
    fill: float = 0.5267        # of it, for each 16 bytes that a thread shifts
    single: float = 0.3339      # or for each 8 elements that it copies one by one
    multiply: float = 0.6158    # and for each group of few rows
    edges: float = 1.206        # what lies in front of whole vectors and behind them
    stored: float = 1.389e-07   # for each element of C
    sharp: float = 0.6879       # how sharply the slower of memory and blocks rules


TURNED_COSTS = TurnedCosts()


def modelled(config: Config, size: Size, multiprocessors: int, costs: Costs | None = None) -> float:
    """Microseconds that a product should take."""
    costs = costs or (TURNED_COSTS if size.turned else COSTS)
    depth = config.depth(size.few)
    chunks = _parts(_parts(size.K, depth), config.splits)
    rounds = _parts(config.blocks(size) * config.splits, config.resident(size.few) * multiprocessors)
    each = _parts(size.few * depth, VECTOR * WARPS * 32)
    filled = each * (costs.single if size.single else costs.fill)
    chunk = costs.chunk + filled + costs.multiply * config.groups(size.few)
    busy, read = rounds * (chunks * chunk + costs.edges), 2 * (size.rows + size.few) * size.K / costs.bandwidth
    most = max(busy, read)
    time = costs.launch + most * ((busy / most) ** costs.sharp + (read / most) ** costs.sharp) ** (1 / costs.sharp)
    time += costs.stored * size.rows * size.few
    return float(time + (config.splits > 1) * (costs.reduction + costs.reduced * size.rows * size.few * config.splits))


@functools.lru_cache(maxsize=1024)
def choose(size: Size, multiprocessors: int) -> Config:
    """The configuration with the least modelled time."""
    return min(options(size, multiprocessors), key=lambda config: modelled(config, size, multiprocessors))
