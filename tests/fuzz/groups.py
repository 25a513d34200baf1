"""Random groups of products in the simulator, every check on, against float64.

    python tests/fuzz/groups.py SEED COUNT [--seconds S]        # calls SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each call that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/random_groups.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import moye as mo
from fuzz import command
from random_groups import Groups, run, simulated
from random_products import NumPy


def failure(groups: Groups) -> str | None:
    """What is wrong with a call, or None."""
    with mock.patch.object(mo, "arch_of", lambda array: groups.arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: groups.blocks), mo.checking() as reports:
        try:
            run(groups, NumPy())
        except Exception as error:                      # whatever it is
            return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def main() -> int:
    calls = ((seed, simulated(seed)) for seed in command.seeds_of(command.parser_of(__doc__).parse_args()))
    return command.told(((f"{seed}: {groups}\n  ", failure(groups)) for seed, groups in calls), "calls")


if __name__ == "__main__":
    sys.exit(main())
