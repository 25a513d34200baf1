"""Random calls of softmax and cross-entropy in the simulator, every check on, against float64.

    python tests/fuzz/rows_softmax.py SEED COUNT            # both, of seeds SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each call that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/probabilities.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parents[2] / "src")]

import moye as mo
import probabilities

KINDS = {"softmax": (probabilities.softmax_problem, probabilities.compare_softmax),
         "cross-entropy": (probabilities.entropy_problem, probabilities.compare_entropy)}


def failure(kind: str, seed: int) -> str | None:
    """What is wrong with a call, or None."""
    problem, compare = KINDS[kind]
    with mo.checking() as reports:
        try:
            compare(*problem(seed))
        except (AssertionError, mo.MoyeError) as error:
            return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.seed, options.seed + options.count):
        for kind in KINDS:
            if (why := failure(kind, seed)) is not None:
                wrong += 1
                print(f"{kind} {seed}: {why}", flush=True)
    print(f"{len(KINDS) * options.count} calls, {wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
