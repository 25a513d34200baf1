"""Random calls of softmax and cross-entropy in the simulator, every check on, against float64.

    python tests/fuzz/rows_softmax.py SEED COUNT            # both, of seeds SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each call that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/probabilities.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import moye as mo
import probabilities
from fuzz import command

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


if __name__ == "__main__":
    sys.exit(command.by_family(__doc__, KINDS, failure))
