"""What is provable about integers, and what is asked of dynamic ones."""

from __future__ import annotations

from typing import Any

import pytest

from moye.errors import FactError, LayoutError
from moye.layout import ints


def test_static_arithmetic() -> None:
    assert (ints.ceil_div(10, 4), ints.floor_div(10, 4), ints.mod(-1, 4), ints.prod([2, 3, 4])) == (3, 2, 3, 24)
    assert ints.known_less(3, 4) is True
    assert ints.known_less(4, 4) is False
    assert ints.divides(4, 12) is True
    assert ints.divides(5, 12) is False
    assert ints.minimum(3, 4) == 3


def test_absorbing_and_neutral(sym: Any) -> None:
    m = sym("M")
    assert ints.mul(m, 0) == 0
    assert ints.mul(1, m) is m
    assert ints.add(0, m) is m
    assert ints.floor_div(m, 1) is m
    assert str(ints.prod([m, 2, 3])) == "6*M"


def test_ceil_div_is_exact_where_the_divisor_allows(sym: Any) -> None:
    assert str(ints.ceil_div(sym("M", divisor=256), 128)) == "M/128"
    assert str(ints.ceil_div(sym("M"), 128)) == "(M+127)//128"
    assert ints.ceil_div(sym("M", lower=1, upper=100), 128) == 1


@pytest.mark.parametrize(("low", "high", "expected"), [(0, 7, True), (8, 20, False), (0, 8, None), (None, None, None)])
def test_known_less(sym: Any, low: int | None, high: int | None, expected: bool | None) -> None:
    assert ints.known_less(sym("i", lower=low, upper=high), 8) is expected


def test_remainders_that_facts_decide(sym: Any) -> None:
    i = sym("i", lower=0, upper=31)
    assert ints.mod(i, 32) is i
    assert ints.floor_div(i, 32) == 0
    assert ints.mod(sym("k", divisor=8), 4) == 0
    assert str(ints.mod(sym("k"), 4)) == "k%4"


def test_divides(sym: Any) -> None:
    n = sym("N", divisor=8)
    assert ints.divides(4, n) is True
    assert ints.divides(16, n) is None
    assert ints.divides(n, n) is True


def test_exact_div_proves_records_or_raises(sym: Any) -> None:
    assert str(ints.exact_div(sym("M", divisor=4), 4, "x")) == "M/4"
    assert sym.assumed == []
    assert str(ints.exact_div(sym("M"), 4, "x")) == "M/4"
    assert sym.assumed == ["M % 4 == 0"]
    with pytest.raises(ValueError, match="x: M is not a multiple of 4: M % 4 == 0 cannot be assumed"):
        ints.exact_div(sym("M", fixed=True), 4, "x")
    with pytest.raises(LayoutError, match=r"^x: 6 is not a multiple of 4$"):
        ints.exact_div(6, 4, "x")
    with pytest.raises(FactError, match=r"^x needs to know that 6 is a multiple of the dynamic integer M$"):
        ints.exact_div(6, sym("M"), "x")


def test_minimum_needs_a_bound(sym: Any) -> None:
    assert ints.minimum(4, sym("M", lower=4)) == 4
    with pytest.raises(FactError, match=r"^minimum needs a bound that tells whether 4 <= M$"):
        ints.minimum(4, sym("M"))
