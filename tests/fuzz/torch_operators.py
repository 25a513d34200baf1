"""Drawn calls of the operators of ``moye.torch``, and their gradients, in the simulator, against torch in float64.

    python tests/fuzz/torch_operators.py SEED COUNT [--seconds S] [--only linear]       # so many of each, from SEED on

In: seeds.  Out: a line for each draw that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is in ``tests/cases/drawn_operators.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import numpy as np

from drawn_operators import FAMILIES, Draw
from fuzz import command


def failure(family: str, seed: int, device: str = "cpu") -> str | None:
    """What is wrong with a draw, or None."""
    try:
        FAMILIES[family](Draw(np.random.default_rng([seed, *family.encode()]), device))
    except Exception as error:                          # whatever it is
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(command.by_family(__doc__, FAMILIES, failure))
