"""Random attention in the simulator, every check on, against float64.

    python tests/fuzz/attention.py SEED COUNT [--seconds S] [--most N]     # cases SEED to SEED + COUNT - 1
    python tests/fuzz/attention.py SEED COUNT --pages                      # few queries, keys and values in pages

In: seeds.  Out: a line for each case that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/random_attention.py`` and ``random_pages.py``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import moye as mo
import random_pages
from fuzz import command
from random_attention import Case, draw, run
from random_products import NumPy

ARCHS = ("sm_80", "sm_90a", "sm_90a")


def failure(case: Case | random_pages.Case) -> str | None:
    """What is wrong with a case, or None."""
    arch = case.arch if isinstance(case, Case) else None
    with mock.patch.object(mo, "arch_of", lambda array: arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: case.blocks), mo.checking() as reports:
        try:
            if isinstance(case, Case):
                run(case, NumPy())
            else:
                random_pages.run(case, NumPy())
        except (AssertionError, mo.MoyeError) as error:
            return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def drawn(seed: int, most: int = 200, pages: bool = False) -> Case | random_pages.Case:
    """The case of a seed."""
    rng = random.Random(seed)
    return random_pages.draw(rng, most=most) if pages else draw(rng, most=most, archs=ARCHS)


def main() -> int:
    parser = command.parser_of(__doc__)
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--pages", action="store_true")
    options = parser.parse_args()
    cases = ((seed, drawn(seed, options.most, options.pages)) for seed in command.seeds_of(options))
    return command.told(((f"{seed}: {case}\n  ", failure(case)) for seed, case in cases), "cases")


if __name__ == "__main__":
    sys.exit(main())
