"""cases/pairs.py: every pair of values is in the drawn tuples, and there are fewer of these than in the product."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from pairs import pairs


@pytest.mark.parametrize("axes", [("ab", (0, 1), "xy"), ("ab", range(8), range(5)), ("abc", "de", "fgh")], ids=str)
def test_every_pair_of_values_meets(axes):
    drawn, whole = pairs(*axes), list(product(*axes))
    for one, two in combinations(range(len(axes)), 2):
        assert {(row[one], row[two]) for row in drawn} == set(product(axes[one], axes[two]))
    assert len(set(drawn)) == len(drawn) < len(whole) and set(drawn) <= set(whole)


def test_the_same_in_every_run():
    assert pairs("ab", (0, 1), "xy") == [("a", 0, "x"), ("a", 1, "y"), ("b", 0, "y"), ("b", 1, "x")]
