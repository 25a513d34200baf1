"""Random products of ``moye.kernels.gemm`` in the simulator, every check on, against float64.

    python tests/fuzz/products.py SEED COUNT [--seconds S]      # products SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each product that is wrong, refused or has a finding; how many there were.  What is drawn,
and what must hold, is told in ``tests/cases/random_products.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parents[2] / "src")]

import moye as mo
from random_products import NumPy, Product, run, simulated


def failure(product: Product) -> str | None:
    """What is wrong with a product, or None."""
    with mock.patch.object(mo, "arch_of", lambda array: product.arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: product.blocks), mo.checking() as reports:
        try:
            run(product, NumPy())
        except (AssertionError, mo.MoyeError) as error:
            return f"{type(error).__name__}: {error}"
    return next((str(report) for report in reports if not report.ok), None)


def judged(seeds: range, seconds: float) -> Iterator[tuple[int, Product, str | None]]:
    """Each product and what is wrong with it, until the time is over."""
    start = time.monotonic()
    for seed in seeds:
        if time.monotonic() - start > seconds:
            return
        product = simulated(seed)
        yield seed, product, failure(product)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    count = wrong = 0
    for seed, product, why in judged(range(options.seed, options.seed + options.count), options.seconds):
        count += 1
        if why is not None:
            wrong += 1
            print(f"{seed}: {product}\n  {why}", flush=True)
    print(f"{count} products, {wrong} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
