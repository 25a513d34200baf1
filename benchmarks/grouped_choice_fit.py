"""Fit the trees of ``moye.kernels.gemm.grouped.choice`` to what ``grouped_random.py --tiles`` measured.

    cd benchmarks/data; python ../grouped_choice_fit.py grouped_tiles.csv.gz [--write]              # scikit-learn

In and out as of ``gemm_choice_fit.py``; instead of cuBLAS stands the choice of the day of the measurement.  After
``gemm_fit.py`` has changed the costs, the trees must be fitted again.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
from typing import Any

import numpy as np

from gemm_choice_fit import Sample, judge
from gemm_fit import MULTIPROCESSORS
from gemm_model import problem_of_groups
from moye.kernels.gemm.grouped import choice as groups
from moye.kernels.gemm.sm90.config import COSTS

SHORT, DISTURBED = 200.0, 1.5
"""Microseconds below which a call may have waited for the host; times the model's ratio to the best that tell so."""


def samples(files: list[str]) -> list[Sample]:
    """Calls of which two and more of today's tiles were measured."""
    found = []
    for path in files:
        with gzip.open(path, "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        for _, call in itertools.groupby(rows, key=lambda row: row["case"]):
            found.append(sample(list(call)))
    return [one for one in found if len(one.us) > 1]    # one alone tells of no choice


def sample(call: list[dict[str, Any]]) -> Sample:
    """A call: its first row is of the choice."""
    choice, *others = call
    experts, separate = int(choice["experts"]), choice["way"] == "separate"
    problem = problem_of_groups(experts, int(choice["rows"]), int(choice["N"]), int(choice["K"]))
    today = {(tile.bM, tile.bN, tile.schedule, tile.groups): tile
             for tile in groups.tiles_of_groups(problem, MULTIPROCESSORS)}
    rows, us = [], []
    for row in others:
        tile = today.get((int(row["bM"]), int(row["bN"]), row["schedule"], int(row["groups"])))
        if tile is not None:
            modelled = groups.expected(tile, problem, MULTIPROCESSORS)
            rows.append(groups.features(tile, problem, modelled, separate, MULTIPROCESSORS))
            us.append(float(row["us"]))
    kept = undisturbed(np.array([row[0] for row in rows]), np.array(us))
    rows, us = [rows[i] for i in kept], [us[i] for i in kept]
    return Sample((choice["case"],), np.array(rows, np.float32), np.array(us), float(choice["us"]))


def undisturbed(modelled: Any, us: Any) -> list[int]:
    """Which rows of a call count; ``modelled`` are logarithms."""
    if len(us) == 0:
        return []
    best = us.argmin()
    return [int(i) for i in np.flatnonzero((us >= SHORT) | (us <= DISTURBED * us[best] * np.exp(np.maximum(
        modelled - modelled[best], 0))))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--write", action="store_true", help="choice.npz")
    options = parser.parse_args()
    judge(samples(options.files), options.write, groups.FITTED, COSTS, max_iter=400, max_leaf_nodes=8,
          learning_rate=0.05)


if __name__ == "__main__":
    main()
