"""Boosted trees of decisions that tell how far a model of costs is off, as they were fitted; by NumPy alone.

In: ways to do something and what they take by the model, the soonest first; features of each.  Out: their order.

    short = shortlist(found, kind, soonest=12, kinds=16)
    times = corrected(path, [features(way) for _, way in short])            # the first feature is the model's

Source: Friedman, Greedy function approximation: a gradient boosting machine, Annals of Statistics 29, 2001.
``benchmarks/gemm_choice_fit.py`` fits and writes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_NEAR = 1.6
"""Times the model's least, beyond which no correction reaches."""
Way = TypeVar("Way")


@dataclass(frozen=True, slots=True)
class Trees:
    """Decisions by one feature each.  Nodes of all trees lie one behind the other, and leaves lead to themselves."""

    roots: np.ndarray[Any, Any]
    feature: np.ndarray[Any, Any]
    limit: np.ndarray[Any, Any]
    low: np.ndarray[Any, Any]       # the node if the feature is at most the limit
    high: np.ndarray[Any, Any]
    value: np.ndarray[Any, Any]
    depth: int

    def of(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The sum of all trees for each row of features."""
        at, row = np.broadcast_to(self.roots, (len(rows), len(self.roots))), np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            at = np.where(rows[row, self.feature[at]] <= self.limit[at], self.low[at], self.high[at])
        return np.asarray(self.value[at].sum(1))


@functools.cache
def fitted(path: Path) -> Trees:
    """The trees of a file."""
    with np.load(path) as found:
        roots, feature, limit, low, high, value = (found[name] for name in
                                                   ("roots", "feature", "limit", "low", "high", "value"))
        return Trees(roots, feature, limit, low, high, value, int(found["depth"]))


def shortlist(found: Sequence[tuple[float, Way]], kind: Callable[[Way], Hashable], *, soonest: int, kinds: int,
              near: float = _NEAR) -> list[tuple[float, Way]]:
    """Of what is sorted by time, that to which a correction is given: the soonest, and the first of other kinds."""
    reached = [one for one in found if one[0] <= near * found[0][0]]
    first: dict[Hashable, tuple[float, Way]] = {}
    for us, way in reached:
        first.setdefault(kind(way), (us, way))
    return list(dict.fromkeys([*reached[:soonest], *list(first.values())[:kinds]]))


def least(short: Sequence[tuple[float, Way]], times: Sequence[float]) -> Way:
    """Of a shortlist, the way whose corrected time is the least."""
    return short[times.index(min(times))][1]


def corrected(path: Path, features: Sequence[tuple[float, ...]]) -> list[float]:
    """Logarithms of times, but for a number that all share, by the trees of a file."""
    rows = np.array(features, np.float32)
    return [float(x) for x in rows[:, 0] + fitted(path).of(rows)]
