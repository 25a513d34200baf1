"""Calls of the kernels of rows with drawn plans, in the simulator, every check on, against float64.

    python tests/fuzz/row_plans.py SEED COUNT [--seconds S]         # calls SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each call that is neither right nor refused; how many there were.  What is drawn is told in
``tests/cases/drawn_row_plans.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

from drawn_row_plans import drawn_call, judged
from fuzz import command


def failure(seed: int) -> str | None:
    """What is wrong with a call, or None."""
    found = judged(drawn_call(seed))
    return None if found in ("right", "refused") else found


def main() -> int:
    seeds = command.seeds_of(command.parser_of(__doc__).parse_args())
    return command.told(((str(drawn_call(seed)), failure(seed)) for seed in seeds), "calls")


if __name__ == "__main__":
    sys.exit(main())
