"""Random attention in the simulator, every check on, against float64.

    python tests/fuzz/attention.py SEED COUNT [--seconds S] [--most N]     # cases SEED to SEED + COUNT - 1
    python tests/fuzz/attention.py SEED COUNT --pages                      # few queries, keys and values in pages

In: seeds.  Out: a line for each case that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is told in ``tests/cases/random_attention.py`` and ``random_pages.py``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parents[2] / "src")]

import moye as mo
import random_pages
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


def judged(seeds: range, seconds: float, most: int = 200,
           pages: bool = False) -> Iterator[tuple[int, Case | random_pages.Case, str | None]]:
    """Each case and what is wrong with it, until the time is over."""
    start = time.monotonic()
    for seed in seeds:
        if time.monotonic() - start > seconds:
            return
        rng = random.Random(seed)
        case = random_pages.draw(rng, most=most) if pages else draw(rng, most=most, archs=ARCHS)
        yield seed, case, failure(case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--pages", action="store_true")
    options = parser.parse_args()
    count = wrong = 0
    seeds = range(options.seed, options.seed + options.count)
    for seed, case, why in judged(seeds, options.seconds, options.most, options.pages):
        count += 1
        if why is not None:
            wrong += 1
            print(f"{seed}: {case}\n  {why}", flush=True)
    print(f"{count} cases, {wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
