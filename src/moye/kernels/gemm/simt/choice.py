"""How ``gemm_simt`` does a product: its tiles, parts of K and copies of operands, or few rows beside what streams.

In: the ``Problem``.  Out: a ``Way``, or the operand that streams.

>>> way = choose(Problem(4096, 4096, 4096, 4, ("k vector", "k vector")), 132)
>>> way.copied, way.parts, way.config.bM * way.config.bN >= 96 * 128
((True, True), 1, True)

The model of costs says what each way should take, and trees that were learned from measured products correct the
soonest of them, as those of ``gemm_sm90`` do.  ``benchmarks/gemm_simt_choice_fit.py`` fits them, to ``choice.npz``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from moye.kernels.gemm.parts import trees
from moye.kernels.gemm.simt import few
from moye.kernels.gemm.simt.config import (
    COSTS,
    Costs,
    Problem,
    TileConfig,
    configs,
    copying,
    estimate,
    parts_of,
    streaming,
    turned,
)
from moye.kernels.gemm.simt.config import (
    choose as choose_tiles,
)

FITTED = Path(__file__).with_name("choice.npz")
FEATURES = ("us", "M", "N", "K", "along_A", "along_B", "wide_A", "wide_B", "bM", "bN", "bK", "stages", "tM", "tN",
            "blocks", "parts", "copied", "waves", "last_wave", "depth", "edge_M", "edge_N", "vector")
"""What the trees ask for, of the product as it is computed.

``us``, M, N and K are logarithms; ``along_A``: whether A lies along K, once it is copied; ``wide_A``: whether it comes
16 bytes at a time; ``last_wave``: how much more whole waves are; ``depth``: k tiles of a block; ``edge_M``: how much
more than M tiles have; ``vector``: elements of C that are stored together.
"""
_LONG = 10                          # copies of nothing, below which no product is worth a thought of them
_SOONEST, _KINDS = 12, 16           # of all ways, and of so many kinds of tiles and copies the soonest of each


class Way(NamedTuple):
    """A configuration, the parts of K, and which operands, as they are multiplied, are copied first."""

    config: TileConfig
    parts: int
    copied: tuple[bool, bool] = (False, False)

    def estimate(self, problem: Problem, multiprocessors: int, costs: Costs = COSTS) -> float:
        """Microseconds by the model, copies among them."""
        given = turned(problem, self.copied)
        return copying(problem, self.copied, costs) + estimate(self.config, self.parts, given, multiprocessors, costs)


Timed = tuple[float, Way]


def copies(problem: Problem, multiprocessors: int) -> list[tuple[bool, bool]]:
    """Which operands may be copied in memory first, along their rows: a product that is long enough makes up for it.

    Then nothing is turned on the way to shared memory, where it costs threads their time and registers, and nothing
    comes in single elements.
    """
    no = False, False
    if problem.bytes != 4 or not problem.workspace or all(major == "vector" for major in problem.majors):
        return [no]
    if estimate(*choose_tiles(problem, multiprocessors), problem, multiprocessors) < _LONG * COSTS.copy:
        return [no]
    first, second = ((False,) if major == "vector" else (False, True) for major in problem.majors)
    return list(itertools.product(first, second))


def timed(problem: Problem, multiprocessors: int) -> list[Timed]:
    """All ways and the microseconds of each by the model, the soonest first."""
    found: list[Timed] = []
    for which in copies(problem, multiprocessors):
        given, more = turned(problem, which), copying(problem, which)
        found += [(more + estimate(config, parts, given, multiprocessors), Way(config, parts, which))
                  for config in configs(problem.bytes) for parts in parts_of(config, given, multiprocessors)]
    return sorted(found, key=lambda one: one[0])


def shortlist(found: Sequence[Timed]) -> list[Timed]:
    """Of what is sorted by time, that to which a correction is given."""
    return trees.shortlist(found, lambda way: (way.config, way.copied), soonest=_SOONEST, kinds=_KINDS)


def features(way: Way, problem: Problem, us: float, multiprocessors: int) -> tuple[float, ...]:
    """``FEATURES`` of a way, which takes ``us`` by the model."""
    config, parts, copied = way
    majors = turned(problem, copied).majors
    m, n = -(-problem.M // config.bM), -(-problem.N // config.bN)
    waves = m * n * parts / (multiprocessors * config.blocks)
    return (math.log(us), math.log(problem.M), math.log(problem.N), math.log(max(1, problem.K)),
            *(major.startswith("k") for major in majors), *(major.endswith("vector") for major in majors), config.bM,
            config.bN, config.bK, config.stages, config.tM, config.tN, config.blocks, parts, sum(copied), waves,
            math.ceil(waves) / waves, -(-problem.K // config.bK) / parts, m * config.bM / problem.M,
            n * config.bN / problem.N, problem.vector)


def measured(problem: Problem) -> bool:
    """Whether the trees were fitted to products of this kind."""
    return problem.bytes == 4 and problem.batches == 1 and problem.workspace


def corrected(found: Sequence[Timed], problem: Problem, multiprocessors: int) -> list[float]:
    """Logarithms of times, but for a number that all share."""
    return trees.corrected(FITTED, [features(way, problem, us, multiprocessors) for us, way in found])


@functools.lru_cache(maxsize=4096)
def choose(problem: Problem, multiprocessors: int) -> Way:
    """The way with tiles that should be soonest."""
    found = timed(problem, multiprocessors)
    if not measured(problem):
        return found[0][1]
    short = shortlist(found)
    return trees.least(short, corrected(short, problem, multiprocessors))


@functools.lru_cache(maxsize=4096)
def soonest(problem: Problem, multiprocessors: int) -> float:
    """Microseconds of the product: of few rows beside what streams, or of tiles, operands copied first among them."""
    sizes = [size for side in "AB" if (size := streaming(problem, side))]
    return min([_tiled(problem, multiprocessors), *(few.estimate(size, multiprocessors) for size in sizes)])


@functools.lru_cache(maxsize=4096)
def streams(problem: Problem, multiprocessors: int) -> str:
    """The operand beside which the other one's few rows are multiplied soonest, "A" or "B"; "" where tiles are."""
    times = {side: few.estimate(size, multiprocessors) for side in "AB" if (size := streaming(problem, side))}
    side = min(times, key=lambda side: times[side], default="")
    return side if side and times[side] <= _tiled(problem, multiprocessors) else ""


def _tiled(problem: Problem, multiprocessors: int) -> float:
    """Microseconds of tiles, by the model."""
    return choose(problem, multiprocessors).estimate(problem, multiprocessors)
