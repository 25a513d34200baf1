"""What a launch of attention on sm_90a will take, by its tiles: a model that was fitted to measured launches.

In: a ``Work``, head dimensions, the ``Pace`` of a configuration.  Out: microseconds, good enough to choose by.

    microseconds(FORWARD[64, 64, 2], forward_work(64, 64, calls), 2, 132, 128, 128)

A block takes its tiles one after the other, and waits in each: for queries, keys, products.  Blocks that share a
multiprocessor hide each other's waits, until what they share is busy.  So a launch takes the longer of two times:
that of a block alone for its tiles, and that of a multiprocessor for all of its tiles.  ``benchmarks/attention_fit.py``
fits the tables to launches of an H200 that ``benchmarks/attention_tiles.py`` measured, and judges the choice.  The four
numbers before them are set by hand: each configuration fitted for itself gave some 6 to 8, 0.3 to 0.7 and 0.55 for the
first three, and a common one chose as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Calls:
    """What is to be done: so many ``heads``, of all batches or sequences, of so many queries and keys each.

    ``left`` and ``right``: how many keys behind and before it a query sees, None for all; the last query stands at the
    last key.  ``uneven``: lengths are means of sequences.  ``group``: heads of queries that share one of keys.
    """

    heads: int
    queries: float
    keys: float
    left: int | None = None
    right: int | None = None
    uneven: bool = False
    group: int = 1

    @property
    def unequal(self) -> bool:
        """Whether tiles differ in work."""
        return self.uneven or self.left is not None or self.right is not None


@dataclass(frozen=True, slots=True)
class Work:
    """A launch in tiles: how many blocks take, and how often they go round a loop for one, in the mean and at most."""

    tiles: float
    mean: float
    most: float
    unequal: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """Microseconds of a tile and of 64 rows of its loop: for themselves, and for 256 dimensions of both heads.

    Those of a block ``alone``, and those of a multiprocessor that has ``all`` of its blocks; a single one is alone.
    """

    alone: tuple[float, float, float, float]
    all: tuple[float, float, float, float] | None = None


LAUNCH = 6.6
"""Microseconds of a launch that has next to nothing to do, as benchmarks measure it."""
BIASED = 0.4
"""Microseconds that biases add to 64 keys of a tile."""
NARROW = 0.55
"""How much of the time for dimensions elements of 8 bits take."""
SUMS = 1.5e-6
"""Microseconds that a byte of the sums of dQ takes: it is cleared, added to and read."""
_SAMPLES = 64

FORWARD = {
    (64, 64, 2): Pace((0.728, 0.347, 0.394, 0.463), (0.233, 1.017, 0.0, 0.441)),
    (64, 64, 3): Pace((1.12, 0.346, 0.266, 0.622), (0.169, 0.778, 0.146, 0.304)),
    (64, 128, 2): Pace((0.592, 0.496, 0.375, 0.303), (0.297, 0.907, 0.0, 0.479)),
    (128, 128, 1): Pace((0.398, 2.257, 0.327, 0.477)),
    (192, 128, 1): Pace((0.0, 3.911, 0.568, 0.316)),
}
"""By queries, keys (128: 80 to 128) and blocks of a multiprocessor."""
BACKWARD = {
    (64, 64, 2): Pace((5.351, 2.676, 0.736, 0.568), (0.0, 0.0, 0.618, 0.509)),
    (128, 128, 1): Pace((3.949, 2.603, 0.073, 2.506)),
}


def forward_work(bM: int, bN: int, calls: Calls) -> Work:
    """Tiles of ``bM`` queries that go through ``bN`` keys at a time."""
    shift = calls.keys - calls.queries

    def seen(m: float) -> float:
        most = calls.keys if calls.right is None else min(calls.keys, (m + 1) * bM + shift + calls.right)
        least = 0.0 if calls.left is None else max(0.0, m * bM + shift - calls.left) // bN
        return max(1.0, -(-most // bN) - least)

    return _work(calls, calls.queries, bM, seen)


def backward_work(bM: int, bN: int, calls: Calls) -> Work:
    """Tiles of ``bN`` keys that go through ``bM`` queries at a time, of all heads that share them."""
    shift = calls.keys - calls.queries

    def seen(n: float) -> float:
        least = 0.0 if calls.right is None else max(0.0, n * bN - shift - calls.right) // bM
        most = calls.queries if calls.left is None else min(calls.queries, (n + 1) * bN - shift + calls.left)
        return calls.group * max(0.0, -(-most // bM) - least)

    return _work(calls, calls.keys, bN, seen)


def _work(calls: Calls, rows: float, size: int, seen: Callable[[float], float]) -> Work:
    """The work of all tiles of ``size`` rows, from that of some."""
    tiles = max(1, math.ceil(rows / size))
    some = [seen(i * tiles // min(tiles, _SAMPLES)) for i in range(min(tiles, _SAMPLES))]
    count = rows / size + 0.5 if calls.uneven else tiles
    return Work(count * calls.heads, fmean(some), max(some), calls.unequal)


def microseconds(pace: Pace, work: Work, blocks: int, multiprocessors: int, rows: int, dims: float,
                 more: float = 0.0) -> float:
    """The time of a launch of so many ``blocks`` on each multiprocessor; ``rows`` of a round of the loop.

    ``dims``: of both heads together; ``more``: what 64 rows take longer.
    """
    alone = _tile(pace.alone, work.mean, rows, dims, more)
    each = work.tiles / (multiprocessors * blocks)
    if work.unequal:
        chain = max(_tile(pace.alone, work.most, rows, dims, more), each * alone)
    else:
        chain = math.ceil(each) * alone
    if pace.all is None:
        return LAUNCH + chain
    each = work.tiles / multiprocessors
    busy = (each if work.unequal else math.ceil(each)) * _tile(pace.all, work.mean, rows, dims, more)
    return LAUNCH + math.sqrt(math.hypot(chain * chain, busy * busy))   # the longer one, and more where they are alike


def _tile(pace: tuple[float, float, float, float], rounds: float, rows: int, dims: float, more: float) -> float:
    tile, tile_dims, row, row_dims = pace
    width = dims / 256
    return tile + tile_dims * width + rounds * rows / 64 * (row + row_dims * width + more)
