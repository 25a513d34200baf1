"""Drawn calls of the norms and of their gradients, each compared with float64 in the simulator with all checks on.

    python tests/fuzz/rows.py 1000 500                  # first seed, calls; it stops at the first that fails
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "kernels"), str(TESTS)]


def main(first: int, count: int) -> None:
    import test_rows_norm
    import test_rows_norm_backward
    for seed in range(first, first + count):
        for drawn in (test_rows_norm.drawn, test_rows_norm_backward.drawn):
            try:
                drawn(seed)
            except Exception:
                print(f"seed {seed}: {drawn.__module__}.drawn({seed})", flush=True)
                raise
    print(f"{count} seeds from {first}: all right")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
