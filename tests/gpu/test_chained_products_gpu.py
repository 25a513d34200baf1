"""Attention with chained products on the GPU: against float64 NumPy, for 16-bit operands and several shapes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from attention_kernels import KERNELS, attention, expected
from kernels.test_chained_products import data


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(64, 64), (512, 1024), (192, 128)])
@pytest.mark.parametrize("name", KERNELS)
def test_attention(name, shape, dtype):
    Y, Q, K, V = data(dtype, *shape)
    placed = [mo.testing.array(x) for x in (Y, Q, K, V)]
    attention(name, *placed)
    found = mo.testing.host(placed[0])
    assert np.abs(found - expected(Q, K, V)).max() < (4e-3 if dtype == np.float16 else 3e-2)
