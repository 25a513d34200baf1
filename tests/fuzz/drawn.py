"""Drawn calls of rows, moves and folds in drawn memory, numbers of all kinds, in the simulator, against float64.

    python tests/fuzz/drawn.py SEED COUNT [--seconds S] [--only softmax]        # draws SEED to SEED + COUNT - 1 of each

In: seeds.  Out: a line for each draw that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is in ``tests/cases/drawn_calls.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from drawn_calls import FAMILIES


def failure(family: str, seed: int) -> str | None:
    """What is wrong with a draw, or None; each fourth has all checks on."""
    draw, rng = FAMILIES[family], np.random.default_rng([seed, len(family)])
    try:
        if seed % 4:
            draw(rng)
            return None
        with mo.checking() as reports:
            draw(rng)
    except (AssertionError, mo.MoyeError) as error:
        return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", choices=FAMILIES)
    options = parser.parse_args()
    start, count, wrong = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        for family in FAMILIES:
            if options.only not in (None, family) or time.monotonic() - start > options.seconds:
                continue
            count += 1
            if (why := failure(family, seed)) is not None:
                wrong += 1
                print(f"{family} {seed}: {why}", flush=True)
    print(f"{count} draws, {wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
