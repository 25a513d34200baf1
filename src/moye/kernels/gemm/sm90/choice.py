"""Which configuration of ``gemm_sm90`` a product gets: the model of costs, and what it did not foresee.

In: the ``Problem``.  Out: a ``WarpgroupConfig``.

>>> choose(Problem(4096, 4096, 4096, 1, mo.bfloat16), 132)
WarpgroupConfig(bM=128, bN=256, bK=64, stages=4, ...)

The model says what a configuration should take.  How far it is off is learned from measured products: boosted trees of
decisions give a correction to the soonest configurations, of which the least sum is chosen.  Nothing is searched.

``benchmarks/gemm_choice_fit.py`` fits the trees, to ``choice.npz``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

from moye.kernels.gemm.parts import trees
from moye.kernels.gemm.sm90.config import (
    COSTS,
    Problem,
    WarpgroupConfig,
    candidates,
    estimate,
    resident,
    step_of,
    tiles_of,
    traffic_of,
)

FITTED = Path(__file__).with_name("choice.npz")
FEATURES = ("us", "M", "N", "K", "rows_A", "rows_B", "line_A", "line_B", "bM", "bN", "stages", "turns", "groups",
            "parts", "memory", "swap", "share_A", "share_B", "stream", "stream_k", "waves", "last_wave", "depth",
            "busy", "read", "edge_M", "edge_N")
"""What the trees ask for, of the product as it is computed.

``us``, M, N and K are logarithms; ``last_wave``: how much more whole waves are; ``depth``: k tiles of a block; ``busy``
and ``read``: parts of the model's time; ``edge_M``: how much more than M tiles have.
"""
NEAR = 1.4
"""Times the model's least, beyond which no correction reaches."""
_SHAPES, _SOONEST = 24, 16          # of so many kinds of tile the soonest of each, and the soonest of all


def features(config: WarpgroupConfig, problem: Problem, us: float, multiprocessors: int) -> tuple[float, ...]:
    """``FEATURES`` of a configuration, which takes ``us`` by the model."""
    turn = -1 if config.swap else 1
    (M, N), lines = (problem.M, problem.N)[::turn], problem.lines[::turn]
    by_rows = (problem.rows_A, problem.rows_B)[::turn]
    m, n = tiles_of(config, problem)
    slots = resident(config, multiprocessors)
    waves = m * n * problem.batches * config.split_k / slots
    whole, depth = math.ceil(waves), max(1, -(-problem.K * problem.dtype.bytes // (128 * config.split_k)))
    busy = depth * whole * step_of(config, problem, slots, COSTS)
    read = traffic_of(config, problem, m, n, slots, COSTS) / COSTS.dram
    return (math.log(us), math.log(M), math.log(N), math.log(problem.K), *by_rows, *lines, config.bM, config.bN,
            config.stages, config.schedule == "pingpong", config.groups, config.split_k, config.gather == "memory",
            config.swap, config.share_A, config.share_B, config.stream != "", config.stream_k, waves, whole / waves,
            depth, busy / us, read / us, m * config.bM / M, n * config.bN / N)


def measured(problem: Problem) -> bool:
    """Whether the trees were fitted to products of this kind: 16 bits, as TMA loads and stores them."""
    return problem.dtype.bits == 16 and problem.out == 2 and problem.batches == 1 and not (
        problem.gated or problem.plain or problem.scaled or problem.copies)


Timed = tuple[float, WarpgroupConfig]


def timed(problem: Problem, multiprocessors: int) -> list[Timed]:
    """All candidates and the microseconds of each by the model, the soonest first."""
    found = [(estimate(config, problem, multiprocessors), config) for config in candidates(problem, multiprocessors)]
    return sorted(found, key=lambda one: one[0])


def _kind(config: WarpgroupConfig) -> tuple[object, ...]:
    """What tiles that are alike have in common."""
    return (config.bM, config.bN, config.schedule, config.split_k, config.gather, config.swap, config.stream_k)


def shortlist(found: Sequence[Timed]) -> list[Timed]:
    """Of what is sorted by time, that to which a correction is given."""
    return trees.shortlist(found, _kind, soonest=_SOONEST, kinds=_SHAPES, near=NEAR)


def corrected(found: Sequence[Timed], problem: Problem, multiprocessors: int) -> list[float]:
    """Logarithms of times, but for a number that all share."""
    return trees.corrected(FITTED, [features(config, problem, us, multiprocessors) for us, config in found])


@functools.lru_cache(maxsize=4096)
def choose(problem: Problem, multiprocessors: int) -> WarpgroupConfig:
    """The configuration that should be soonest."""
    found = timed(problem, multiprocessors)
    if not measured(problem):
        return found[0][1]
    short = shortlist(found)
    return trees.least(short, corrected(short, problem, multiprocessors))
