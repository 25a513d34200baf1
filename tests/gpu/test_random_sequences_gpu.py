"""Random sequences behind each other on the GPU against float64: ``tests/cases/random_sequences.py`` draws them."""

from __future__ import annotations

import random

import pytest
import torch

from random_sequences import draw, run
from torch_arrays import Torch

CHUNKS, CALLS = 8, 5


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sequences(chunk):
    rng, library, wrong = random.Random(f"sequences {chunk}"), Torch(), []
    for _ in range(CALLS):
        drawn = draw(rng, most=1000, work=1 << 29)
        try:
            run(drawn, library)
        except Exception as error:
            wrong.append(f"{drawn}\n{type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} of {CALLS} calls\n" + "\n".join(wrong[:3])
