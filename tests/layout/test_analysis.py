"""Predicates and bank conflicts of static layouts, against their definitions."""

from __future__ import annotations

from typing import Any

import pytest

import moye.layout as ml
from moye.errors import FactError, LayoutError
from moye.layout import ComposedLayout, Layout


@pytest.mark.parametrize(("source", "injective", "surjective", "bijective"), [
    ("(4,8):(8,1)", True, True, True), ("(4,8):(9,1)", True, False, False), ("(4,2):(0,1)", False, True, False),
    ("(2,2):(1,1)", False, True, False), ("4:2", True, False, False), ("1:0", True, True, True),
])
def test_predicates(source: str, injective: bool, surjective: bool, bijective: bool) -> None:
    layout = Layout.parse(source)
    assert ml.is_injective(layout) is injective
    assert ml.is_surjective(layout) is ml.is_compact(layout) is surjective
    assert ml.is_bijective(layout) is bijective
    assert not ml.is_surjective(layout, 1000)


@pytest.mark.parametrize(("source", "bits", "vector", "degree"), [
    ("32:1", 32, 1, 1), ("32:2", 32, 1, 2), ("32:32", 32, 1, 32), ("32:33", 32, 1, 1), ("32:0", 32, 1, 1),
    ("32:1", 16, 1, 1), ("32:4", 32, 4, 1), ("32:8", 32, 4, 2), ("32:1", 64, 1, 1), ("32:16", 64, 1, 16),
    ("(8,4):(64,8)", 16, 8, 8),
])
def test_bank_conflict_degree(source: str, bits: int, vector: int, degree: int) -> None:
    assert ml.bank_conflict_degree(Layout.parse(source), bits, vector) == degree


def test_swizzle_removes_conflicts() -> None:
    rows = ComposedLayout.parse("Sw<3,3,3> o 0 o (8,4):(64,8)")
    assert ml.bank_conflict_degree(rows, 16, 8) == 1


def test_analysis_errors(sym: Any) -> None:
    with pytest.raises(FactError, match=r"^the offsets of M:1 can be listed only where its size M is static$"):
        ml.is_injective(Layout(sym("M"), 1))
    with pytest.raises(FactError, match=r"^the offsets of 4:M can be listed only where its strides are static$"):
        ml.is_injective(Layout(4, sym("M")))
    with pytest.raises(LayoutError, match="is 256 bits wide, not 1 to 128"):
        ml.bank_conflict_degree(Layout(32, 1), 32, 8)
