"""Random products of ``moye.kernels.gemm`` in the simulator, every check on, against float64.

    python tests/fuzz/products.py SEED COUNT [--seconds S]      # products SEED to SEED + COUNT - 1

In: seeds.  Out: a line for each product that is wrong, refused or has a finding; how many there were.  What is drawn,
and what must hold, is told in ``tests/cases/random_products.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import moye as mo
from fuzz import command
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


def main() -> int:
    products = ((seed, simulated(seed)) for seed in command.seeds_of(command.parser_of(__doc__).parse_args()))
    return command.told(((f"{seed}: {product}\n  ", failure(product)) for seed, product in products), "products")


if __name__ == "__main__":
    sys.exit(main())
