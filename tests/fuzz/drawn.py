"""Drawn calls of rows, moves and folds in drawn memory, numbers of all kinds, in the simulator, against float64.

    python tests/fuzz/drawn.py SEED COUNT [--seconds S] [--only softmax]        # draws SEED to SEED + COUNT - 1 of each

In: seeds.  Out: a line for each draw that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is in ``tests/cases/drawn_calls.py`` and ``drawn_operations.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import numpy as np

import drawn_calls
import drawn_operations
import moye as mo
from fuzz import command

FAMILIES = drawn_calls.FAMILIES | drawn_operations.FAMILIES


def failure(family: str, seed: int, checked: bool = True) -> str | None:
    """What is wrong with a draw, or None; each fourth that is ``checked`` has all checks on."""
    draw, rng = FAMILIES[family], np.random.default_rng([seed, len(family)])
    try:
        if seed % 4 or not checked:
            draw(rng)
            return None
        with mo.checking() as reports:
            draw(rng)
    except Exception as error:                          # whatever it is
        return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


if __name__ == "__main__":
    sys.exit(command.by_family(__doc__, FAMILIES, failure))
