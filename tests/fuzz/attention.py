"""Random attention in the simulator, every check on, against float64.

    python tests/fuzz/attention.py SEED COUNT [--seconds S] [--most N]     # cases SEED to SEED + COUNT - 1
    python tests/fuzz/attention.py SEED COUNT --pages                      # few queries, keys and values in pages
    python tests/fuzz/attention.py SEED COUNT --sequences                  # sequences behind each other
    python tests/fuzz/attention.py SEED COUNT --dims                       # the same, head dimensions of any size

In: seeds.  Out: a line for each case that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/random_attention.py``, ``random_pages.py`` and
``random_sequences.py``.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import moye as mo
import random_pages
import random_sequences
from fuzz import command
from random_attention import Case, draw, resized, run
from random_products import NumPy

ARCHS = ("sm_80", "sm_90a", "sm_90a")


def failure(drawn: Case | random_pages.Case | random_sequences.Sequences) -> str | None:
    """What is wrong with a case, or None."""
    case = drawn.case if isinstance(drawn, random_sequences.Sequences) else drawn
    arch = case.arch if isinstance(case, Case) else None
    with mock.patch.object(mo, "arch_of", lambda array: arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: case.blocks), mo.checking() as reports:
        try:
            if isinstance(drawn, random_sequences.Sequences):
                random_sequences.run(drawn, NumPy())
            elif isinstance(drawn, Case):
                run(drawn, NumPy())
            else:
                random_pages.run(drawn, NumPy())
        except Exception as error:                      # whatever it is
            return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def drawn(seed: int, most: int = 200, pages: bool = False, sequences: bool = False, dims: bool = False) -> (
        Case | random_pages.Case | random_sequences.Sequences):
    """The case of a seed."""
    rng = random.Random(seed)
    if sequences:
        found = random_sequences.draw(rng, most=most, archs=ARCHS)
        return replace(found, case=resized(rng, found.case)) if dims else found
    if pages:
        case = random_pages.draw(rng, most=most)
        return random_pages.resized(rng, case) if dims else case
    case = draw(rng, most=most, archs=ARCHS)
    return resized(rng, case) if dims else case


def main() -> int:
    parser = command.parser_of(__doc__)
    parser.add_argument("--most", type=int, default=200)
    for name in ("--pages", "--sequences", "--dims"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    cases = ((seed, drawn(seed, options.most, options.pages, options.sequences, options.dims))
             for seed in command.seeds_of(options))
    return command.told(((f"{seed}: {case}\n  ", failure(case)) for seed, case in cases), "cases")


if __name__ == "__main__":
    sys.exit(main())
