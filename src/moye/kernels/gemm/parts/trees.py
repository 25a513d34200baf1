"""Boosted trees of decisions that tell how far a model of costs is off, as they were fitted; by NumPy alone.

In: rows of features.  Out: a correction for each.

    fitted(path).of(rows)                   # (n, features) to (n,)

Source: Friedman, Greedy function approximation: a gradient boosting machine, Annals of Statistics 29, 2001.
``benchmarks/gemm_choice_fit.py`` fits and writes them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


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
