"""Calls of ``moye.kernels`` with one odd argument: they run, or one moye error names an argument.

    python tests/fuzz/calls.py SEED COUNT [--seconds S]         # calls SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each call that is taken wrongly; how many there were.  What is drawn, and what must hold, is
told in ``tests/cases/odd_calls.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parents[2] / "src")]

import odd_calls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    start, count, wrong = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > options.seconds:
            break
        call = odd_calls.draw(seed)
        count += 1
        if (why := odd_calls.failure(call)) is not None:
            wrong += 1
            print(f"{seed}: {call.name}, {call.odd}: {why}", flush=True)
    print(f"{count} calls, {wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
