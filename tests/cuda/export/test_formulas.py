"""Formulas of C: what they refuse rather than compute otherwise."""

from __future__ import annotations

import pytest

from moye.cuda.export.formulas import Formula, c_expression, formula_text, number
from moye.dtypes import float32
from moye.errors import ArgumentError, UnsupportedError
from moye.ir.nodes import Literal


def test_what_c_would_compute_otherwise_is_refused():
    with pytest.raises(UnsupportedError, match=r"a precondition of k depends on the float 1\.5, which the C source"):
        c_expression(Literal(1.5, float32), {}, "k")
    with pytest.raises(UnsupportedError, match="does not fit 64 bits"):
        number(1 << 63)
    with pytest.raises(ArgumentError, match=r"grid= computes 2\.5, which is no integer"):
        formula_text(2.5)


def test_a_formula_is_shown_as_it_was_written():
    n = Formula("n", "n")
    assert str((n + 3) // 4 % 7 * (100 - n) << 1) == "(((((n + 3) // 4) % 7) * (100 - n)) << 1)"
    assert formula_text(n * (1 << 40)) == "moye_mul(n, INT64_C(1099511627776), &bad)"
    assert formula_text(5) == "5" and str(7 // n) == "(7 // n)" and (n ^ 1).text == "(n ^ 1)"
    for use in (bool, int, lambda x: x < 1, lambda x: x == 1, lambda x: range(x)):
        with pytest.raises(ArgumentError, match="in C they are known only at a launch"):
            use(n)
