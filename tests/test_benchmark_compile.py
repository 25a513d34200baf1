"""What of benchmarks/compile.py needs no time: each case finds the one place where its kernel gets another literal."""

from __future__ import annotations

import pytest

import compile as benchmark  # benchmarks/compile.py


@pytest.mark.parametrize("name", benchmark.CASES)
def test_a_case_has_one_place_for_its_literal(name):
    case = benchmark.CASES[name]
    assert "0" in case.marker and case.path.read_text().count(case.marker) == 1
    assert hasattr(benchmark.varied(case, case.literal()), case.kernel or case.function)
