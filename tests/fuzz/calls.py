"""Calls of ``moye.kernels`` with one odd argument: they run, or one moye error names an argument.

    python tests/fuzz/calls.py SEED COUNT [--seconds S]         # calls SEED to SEED + COUNT - 1
    python tests/fuzz/calls.py SEED COUNT --laid                # right ones, of arrays that lie elsewhere

In: seeds.  Out: a line for each call that is taken wrongly; how many there were.  What is drawn, and what must hold, is
told in ``tests/cases/odd_calls.py`` and ``laid_calls.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import laid_calls
import odd_calls
from fuzz import command


def main() -> int:
    parser = command.parser_of(__doc__)
    parser.add_argument("--laid", action="store_true", help="arrays that lie elsewhere, and hold the same")
    options = parser.parse_args()
    if options.laid:
        return command.told(((f"{seed}", laid_calls.failure(seed)) for seed in command.seeds_of(options)), "calls")
    calls = ((seed, odd_calls.draw(seed)) for seed in command.seeds_of(options))
    return command.told(((f"{seed}: {call.name}, {call.odd}", odd_calls.failure(call)) for seed, call in calls),
                        "calls")


if __name__ == "__main__":
    sys.exit(main())
