"""Random groups of products on the GPU against float64: ``tests/cases/random_groups.py`` draws them.

Each chunk has ``FORMS`` forms (dtypes, strides, what is fused) of ``TIMES`` calls each, so that few kernels are
compiled.
"""

from __future__ import annotations

import random

import pytest
import torch

from random_groups import draw, like, run
from torch_arrays import Torch

CHUNKS, FORMS, TIMES = 16, 4, 5
MOST, WORK, COUNT = 1500, 1 << 31, 40


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_groups(chunk):
    rng, library, wrong = random.Random(f"groups {chunk}"), Torch(), []
    for _ in range(FORMS):
        groups = draw(rng, most=MOST, work=WORK, count=COUNT)
        for _ in range(TIMES):
            try:
                run(groups, library)
            except Exception as error:
                wrong.append(f"{groups}\n{type(error).__name__}: {error}")
            groups = like(rng, groups)
    assert not wrong, f"{len(wrong)} of {FORMS * TIMES} calls\n" + "\n".join(wrong[:3])
