"""Drawn calls of the operators of ``moye.torch``, and their gradients, are what torch's are in float64.

By hand, more: ``python tests/fuzz/torch_operators.py SEED COUNT``.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import moye.torch as mt  # noqa: E402
from drawn_operators import FAMILIES, Draw  # noqa: E402
from fuzz.torch_operators import failure  # noqa: E402


@pytest.mark.parametrize("family", FAMILIES)
def test_a_few(family):
    for seed in range(3):
        assert (why := failure(family, seed)) is None, f"{family} {seed}: {why}"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more(family):
    for seed in range(3, 40):
        assert (why := failure(family, seed)) is None, f"{family} {seed}: {why}"


def test_every_operator_is_drawn():
    assert {"op", *FAMILIES} == set(mt.__all__)


def test_places():
    """Views of all kinds hold what was drawn."""
    seen = set()
    for seed in range(200):
        d = Draw(np.random.default_rng(seed))
        x = d.numbers(3, 5, 4)
        assert torch.equal(x.double(), d.exact(x))
        seen |= {"turned" if x.stride(0) < x.stride(2) else "", "contiguous" if x.is_contiguous() else "",
                 "repeated" if 0 in x.stride() else "", "later" if x.storage_offset() else ""}
    assert seen == {"turned", "contiguous", "repeated", "later", ""}


def test_wrong_results_and_gradients_are_found():
    def compared(change_result, change_gradient):
        d = Draw(np.random.default_rng(1))
        d.dtype = torch.float32
        x = d.numbers(4, 6)
        y = x * 2 + change_result
        if change_gradient:
            y = y + (x * 1e-3 - (x * 1e-3).detach())
        d.compare(y, d.exact(x) * 2)
    compared(0.0, False)
    with pytest.raises(AssertionError, match="result 0: 24 of 24"):
        compared(1e-3, False)
    with pytest.raises(AssertionError, match="gradient 0: "):
        compared(0.0, True)
