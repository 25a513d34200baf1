"""Every kernel of rows in one run beside ``torch.copy_`` and torch.compile (max-autotune): table, CSV, plot.

    python benchmarks/rows.py [--rounds 30] [--only norm] [--csv rows.csv] [--plot rows.svg]

A family is a module ``rows_*.py`` beside this one with a list ``CASES`` of functions that make a ``rows_moves.Case``
each: what it is called, its bytes, how it is run, what torch does for the same, and its error against float64.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import rows_moves

if __name__ == "__main__":
    modules = [importlib.import_module(path.stem) for path in sorted(Path(__file__).parent.glob("rows_*.py"))]
    rows_moves.CASES[:] = [case for module in modules for case in list(getattr(module, "CASES", ()))]
    rows_moves.main()
