"""Parameters of a test that has three axes or more: not every tuple, but every pair of values.

A fault of one value or of two that meet is found as by the full product; only one that needs three may be missed.

>>> pairs("ab", (0, 1), "xy")
[('a', 0, 'x'), ('a', 1, 'y'), ('b', 0, 'y'), ('b', 1, 'x')]
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Tuples, in the order of the product, in which every value of an axis meets every value of each other axis."""
    values = [list(axis) for axis in axes]
    rows, numbers = list(product(*values)), list(product(*(range(len(axis)) for axis in values)))
    left = {met for row in numbers for met in _met(row)}
    chosen = set()
    while left:
        best = max(range(len(rows)), key=lambda i: (len(left & _met(numbers[i])), -i))
        chosen.add(best)
        left -= _met(numbers[best])
    return [rows[i] for i in sorted(chosen)]


def _met(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """The pairs of (axis, value) that one tuple has."""
    return set(combinations(enumerate(row), 2))
