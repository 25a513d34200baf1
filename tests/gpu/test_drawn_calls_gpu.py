"""Drawn calls of rows, moves, folds and losses on the GPU, and of the operators of torch, against float64.

``tests/cases/drawn_calls.py``, ``drawn_operations.py`` and ``drawn_operators.py`` draw them.
"""

from __future__ import annotations

import pytest

from drawn_memory import Memory
from fuzz import torch_operators
from fuzz.drawn import FAMILIES, failure

SEEDS = range(5000, 5012)


def failures(found):
    wrong = [f"{seed}: {why}" for seed, why in found if why is not None]
    assert not wrong, f"{len(wrong)} of {len(SEEDS)}\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize("family", FAMILIES)
def test_calls(family, monkeypatch):
    monkeypatch.setattr(Memory, "libraries", ("cuda",))
    failures((seed, failure(family, seed, checked=False)) for seed in SEEDS)


@pytest.mark.parametrize("family", torch_operators.FAMILIES)
def test_operators(family):
    failures((seed, torch_operators.failure(family, seed, "cuda")) for seed in SEEDS)
