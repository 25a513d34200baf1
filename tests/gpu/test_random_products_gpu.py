"""Some 2,000 random products of ``gemm`` on the GPU against float64: ``tests/cases/random_products.py`` draws them.

Each chunk has ``FORMS`` forms (dtypes, strides, what is fused) of ``SIZES`` sizes each, so that few kernels are
compiled.
"""

from __future__ import annotations

import random

import pytest
import torch

import moye as mo
from random_products import draw, like, run
from torch_arrays import Torch

CHUNKS, FORMS, SIZES = 30, 10, 7
MOST, WORK = 4096, 1 << 32


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_products(chunk):
    rng, library, wrong = random.Random(f"chunk {chunk}"), Torch(), []
    for _ in range(FORMS):
        product = draw(rng, most=MOST, work=WORK)
        for _ in range(SIZES):
            try:
                run(product, library)
            except (AssertionError, mo.MoyeError) as error:
                wrong.append(f"{product}\n{type(error).__name__}: {error}")
            product = like(rng, product)
    assert not wrong, f"{len(wrong)} of {FORMS * SIZES} products\n" + "\n".join(wrong[:3])
