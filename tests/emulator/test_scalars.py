"""What single numbers take several instructions for: extremes of floats in memory, and arithmetic of 16-bit floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from emulator.build import compiler
from emulator.emulated import emulated

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++ on x86-64")


@mo.kernel
def extremes(low, high, x):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    mo.atomic_min(low, i % 4, x[i])
    mo.atomic_max(high, i % 4, x[i])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_in_memory(dtype, seed):
    """-0 is below 0, a NaN of either sign is no extreme, and one in memory gives way."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([1.5, -2, 0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 3, -7, 1e-40], dtype), 64)
    first = np.array([np.nan, -0.0, -1, -np.nan], dtype)
    low, high = first.copy(), first.copy()
    with emulated(seed) as device:
        extremes[2, 32](low, high, x)
    assert device.launches, "it ran in the emulator"
    for k in range(4):
        numbers = [v for v in (*x[k::4], first[k]) if v == v]
        ordered = sorted(numbers, key=lambda v: (v, not np.signbit(v)))
        assert [str(low[k]), str(high[k])] == [str(ordered[0]), str(ordered[-1])]


@mo.kernel
def arithmetic(out, x, y):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = x[i] + y[i], x[i] - y[i], x[i] * y[i], x[i] * y[i] + x[i]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_arithmetic_of_16_bits(dtype):
    """Subnormal numbers, infinities and zeros among drawn bits; the simulator and the instructions agree."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 1 << 16, (2, 4096)).astype(np.uint16).view(dtype)
    x[:64], y[:64] = np.repeat(special(dtype), 8), np.tile(special(dtype), 8)
    simulated, found = np.zeros((4096, 4), dtype), np.zeros((4096, 4), dtype)
    arithmetic[128, 32](simulated, x, y)
    with emulated() as device:
        arithmetic[128, 32](found, x, y)
    assert device.launches, "it ran in the emulator"
    same = (found.view(np.uint16) == simulated.view(np.uint16)) | (np.isnan(found) & np.isnan(simulated))
    assert same.all(), [(x[i], y[i], found[i], simulated[i]) for i in np.nonzero(~same.all(1))[0][:3]]


def special(dtype):
    tiny = np.array([1, 0x8003], np.uint16).view(dtype)
    return np.array([0, -0.0, 1, -1, np.inf, -np.inf, *tiny], dtype)


@mo.kernel
def fractions(out, x):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    out[i] = x[i] % 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fractions(dtype):
    """The remainder by 1 is NumPy's, which Python's is, for all signs and sizes."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(3000) * 10.0 ** rng.integers(-40, 12, 3000),
                        np.arange(-32, 32) / 4, np.array([0, -0.0, np.inf, -np.inf, np.nan, -1e-30, 1e30, -1e30] * 4)])
    x = np.ascontiguousarray(x.astype(dtype)[:3072])
    simulated, found = np.zeros_like(x), np.zeros_like(x)
    fractions[96, 32](simulated, x)
    with emulated() as device:
        fractions[96, 32](found, x)
    assert device.launches, "it ran in the emulator"
    with np.errstate(invalid="ignore"):
        wanted = np.mod(x, dtype(1))
    for each in (simulated, found):
        assert np.array_equal(each, wanted, equal_nan=True)
        assert np.array_equal(np.signbit(each[wanted == 0]), np.signbit(wanted[wanted == 0]))
