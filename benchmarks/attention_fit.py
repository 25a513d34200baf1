"""The model of costs of attention on sm_90a (``moye/kernels/attention/sm90/costs.py``), fitted to measured launches.

    cd benchmarks/data; python ../attention_fit.py attention_tiles.csv.gz [--seed 0]

In: the CSV of ``attention_tiles.py``.  A quarter of the calls is kept back for the judgement: the regret of the choice,
which is its time over that of the best configuration, less 1, beside that of the first candidate.  Then all calls are
fitted, and the tables printed as ``costs.py`` has them.  Launches that took four times the best of their call are
stalls of the host, and left out.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gzip
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from attention_tiles import SHARED_HEADS
from moye.kernels.attention.sm90 import costs
from moye.kernels.attention.sm90.config import (
    ForwardConfig,
    GradientConfig,
    candidates,
    dealt_out,
    gradient_candidates,
    kind_of,
    modelled,
    modelled_gradients,
)
from moye.kernels.attention.sm90.costs import Calls, Pace

MULTIPROCESSORS = 132                                   # of an H200
STALLED = 4.0
START = (1.0, 0.5, 0.4, 0.4)


@dataclass(frozen=True)
class Row:
    """A launch: the call, the configuration, what it took."""

    calls: Calls
    dims: tuple[int, int]
    narrow: bool
    biased: bool
    config: ForwardConfig | GradientConfig
    us: float

    def estimate(self, paces: dict[Any, Pace] | None = None) -> float:
        """What the model says, by these paces or by those that it has."""
        if isinstance(self.config, ForwardConfig):
            return modelled(self.config, self.calls, self.dims, MULTIPROCESSORS, narrow=self.narrow,
                            biased=self.biased, paces=paces or costs.FORWARD)
        return modelled_gradients(self.config, self.calls, self.dims, MULTIPROCESSORS, biased=self.biased,
                                  paces=paces or costs.BACKWARD)


def read(path: str) -> tuple[list[list[Row]], list[list[Row]]]:
    """The calls, forward and backward, with the launches that the choice has."""
    found: dict[bool, dict[tuple[str, ...], list[Row]]] = {False: defaultdict(list), True: defaultdict(list)}
    with gzip.open(path, "rt") as file:
        for line in csv.DictReader(file):
            *key, _, _ = line.values()
            row = _row(line)
            if _chosen_from(row):
                found[line["backward"] == "True"][tuple(key)].append(row)
    forward, backward = ([_told(rows) for rows in calls.values()] for calls in found.values())
    return [rows for rows in forward if len(rows) > 1], [rows for rows in backward if len(rows) > 1]


def _chosen_from(row: Row) -> bool:
    """Whether the choice has this configuration: the data have some that it has not."""
    if isinstance(row.config, GradientConfig):
        return row.config in gradient_candidates(row.dims)
    dealt = dealt_out(row.config, row.calls, row.dims, MULTIPROCESSORS, 1 if row.narrow else 2)
    return row.config.dynamic == dealt and replace(row.config, dynamic=False) in candidates(
        row.dims, narrow=row.narrow, biased=row.biased)


def _told(rows: list[Row]) -> list[Row]:
    best = min(row.us for row in rows)
    return [row for row in rows if row.us < STALLED * best]


def _row(line: dict[str, str]) -> Row:
    batch, queries, keys, heads, dim, dim_v, window = (int(line[name]) for name in (
        "batch", "queries", "keys", "heads", "dim", "dim_v", "window"))
    kind, group = line["kind"], SHARED_HEADS[dim]
    backward = line["backward"] == "True"
    calls = Calls(batch * heads // (group if backward else 1), queries, keys, None if window < 0 else window,
                  0 if "causal" in kind or kind == "window" else None, "sequences" in kind, group)
    given = {name: ast.literal_eval(value) for name, value in re.findall(r"(\w+)=(\w+|\(.*?\))", line["config"])}
    config = (GradientConfig if backward else ForwardConfig)(**given)
    return Row(calls, (dim, dim_v), line["narrow"] == "True", kind == "bias", config, float(line["us"]))


def fitted(sets: list[list[Row]]) -> dict[Any, Pace]:
    """The paces of all kinds of configurations."""
    kinds: dict[Any, list[Row]] = defaultdict(list)
    for row in (row for rows in sets for row in rows):
        kinds[kind_of(row.config)].append(row)
    return {kind: _fit(kind, rows) for kind, rows in sorted(kinds.items())}


def _fit(kind: tuple[int, int, int], rows: list[Row]) -> Pace:
    from scipy.optimize import least_squares  # the judgement alone does without
    several = kind[2] > 1

    def off(x: np.ndarray) -> list[float]:
        paces = {kind: _pace(x, several)}
        return [log(row.estimate(paces) / row.us) for row in rows]

    start = START * (2 if several else 1)
    return _pace(np.round(least_squares(off, start, loss="soft_l1", f_scale=0.05).x, 3), several)


def _pace(x: np.ndarray, several: bool) -> Pace:
    numbers = tuple(abs(float(value)) for value in x)
    return Pace(numbers[:4], numbers[4:] if several else None)  # type: ignore[arg-type]


def regret(rows: list[Row], choice: Row) -> float:
    """How much longer the choice takes than the best."""
    return choice.us / min(row.us for row in rows) - 1


def _by(paces: dict[Any, Pace]) -> Callable[[Row], float]:
    return lambda row: row.estimate(paces)


def told(name: str, found: list[float]) -> str:
    """One line for a list of regrets."""
    mean, most = statistics.fmean(found), max(found)
    return f"{name}: regret {mean:.3f} in the mean, 95 % below {np.quantile(found, 0.95):.3f}, most {most:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("csv")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, sets in zip(("FORWARD", "BACKWARD"), read(options.csv), strict=True):
        random.Random(options.seed).shuffle(sets)
        kept, rest = sets[::4], [rows for i, rows in enumerate(sets) if i % 4]
        paces = fitted(rest)
        print(f"{name}: {len(rest)} calls fitted, {len(kept)} kept back")
        print("  " + told("choice", [regret(rows, min(rows, key=_by(paces))) for rows in kept]))
        print("  " + told("first", [regret(rows, rows[0]) for rows in kept]))
        off = [abs(log(row.estimate(paces) / row.us)) for rows in kept for row in rows]
        print(f"  the model is off by {statistics.median(off):.3f} in the median")
        print(f"{name} = {{")
        for kind, pace in fitted(sets).items():
            print(f"    {kind}: {pace},")
        print("}")


if __name__ == "__main__":
    main()
