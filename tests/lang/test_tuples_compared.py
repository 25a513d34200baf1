"""Tuples of numbers of the kernel are equal if all of their items are: ``==``, ``!=`` and ``in``."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from written import block

ROWS, COLUMNS = np.divmod(np.arange(32), 8)


@pytest.mark.parametrize(("condition", "expected"), [
    ("(r % 2, c % 2) == (0, 1)", (ROWS % 2 == 0) & (COLUMNS % 2 == 1)),
    ("(0, 1) != (r % 2, c % 2)", (ROWS % 2 != 0) | (COLUMNS % 2 != 1)),
    ("(r, (c, 3)) == (2, (5, 3))", (ROWS == 2) & (COLUMNS == 5)),
    ("(r, c) == (1, 2, 3)", np.zeros(32, bool)), ("(r, c) != (1,)", np.ones(32, bool)),
    ("(r, 1) == (r, 2)", np.zeros(32, bool)),
    ("(r, c) in ((0, 1), (3, 7))", (ROWS == 0) & (COLUMNS == 1) | (ROWS == 3) & (COLUMNS == 7)),
    ("(r, c) not in [(0, 1), (3, 7)]", ~((ROWS == 0) & (COLUMNS == 1) | (ROWS == 3) & (COLUMNS == 7))),
    ("(r, c) == place and r > 0", (ROWS == 2) & (COLUMNS == 4)), ("(1, 2) == (1, 2)", np.ones(32, bool))])
def test_conditions(condition, expected):
    text = f"i = mo.thread_idx().x\nr, c, place = i // 8, i % 8, (2, 4)\nout[i] = 7 if {condition} else 3\n" \
           f"if {condition}:\n    out[i] += 1"
    kernel, out = mo.kernel(block(text, "out")), np.zeros(32, np.int32)
    with mo.checking() as reports:
        kernel[1, 32](out)
    assert reports[0].ok and (out == np.where(expected, 8, 3)).all()
