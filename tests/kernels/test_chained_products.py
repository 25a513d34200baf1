"""Attention with chained products in the simulator: against float64 NumPy, without a finding, within registers."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from attention_kernels import KERNELS, attention, expected


def data(dtype, M=128, N=192, D=64, seed=0):
    rng = np.random.default_rng(seed)
    Q, K, V = (rng.standard_normal(shape).astype(dtype) for shape in ((M, D), (N, D), (N, D)))
    return np.full((M, D), np.nan, np.float32), 2 * Q, K, V


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", KERNELS)
def test_attention(name, dtype):
    Y, Q, K, V = data(dtype)
    kernel, arguments = KERNELS[name]
    report = mo.check(kernel)[len(Q) // 64, 128](*arguments(Y, Q, K, V))
    assert report.ok, report
    assert np.abs(Y - expected(Q, K, V)).max() < (4e-3 if dtype == np.float16 else 3e-2)


@pytest.mark.parametrize("name", KERNELS)
def test_large_scores(name):
    Y, Q, K, V = data(np.float16, 64, 64, seed=1)
    attention(name, Y, 30 * Q, K, V)                            # all but the largest weight of a row vanish
    assert np.abs(Y - expected(30 * Q, K, V)).max() < 4e-3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "instruction"), [("by_warps", "HMMA.16816"), ("by_warpgroup", "HGMMA")])
def test_the_kernel_as_compiled(name, instruction):
    kernel, arguments = KERNELS[name]
    Y, Q, K, V = data(np.float16)
    compiled = kernel.compile(*arguments(Y, Q, K, V), block=128, arch="sm_90a")
    assert instruction in compiled.sass and compiled.spills == 0
    assert compiled.sass.count("SHFL.BFLY") == 8                # two rows, two folds, two exchanges each
    assert len(inspect.getsource(kernel.function).splitlines()) < 80
