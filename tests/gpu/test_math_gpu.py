"""The functions of math on the GPU: as near to the exact numbers as CUDA documents, and the same where not defined.

The bounds are the maximum errors in units in the last place that the CUDA C++ programming guide tells, in its appendix
on mathematical functions, for float32 and float64.  The reference is C's library in float64, whose own error, two units
of float64 at most here, is allowed for; ``lgamma`` is torch's, as ``math.lgamma`` is 55 units off near its zeros.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from moye.sim.values import special_functions

torch = pytest.importorskip("torch")

ULPS = {  # float32, float64
    "asin": (2, 2), "acos": (2, 2), "atan": (2, 2), "sinh": (3, 2), "cosh": (2, 1), "asinh": (3, 3), "acosh": (4, 3),
    "atanh": (3, 2), "log1p": (1, 1), "expm1": (1, 1), "erfc": (4, 5), "erfinv": (2, 5), "lgamma": (6, 4),
    "tgamma": (11, 10), "cbrt": (1, 1),
}
ULPS_OF_TWO = {"atan2": (3, 2), "hypot": (3, 2), "fmod": (0, 0), "remainder": (0, 0), "copysign": (0, 0), "pow": (9, 2),
               "nextafter": (0, 0)}
ROOM = {"acosh": (1, 300), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "erfinv": (-0.999, 0.999),
        "log1p": (-0.999, 400), "lgamma": (0.01, 80), "tgamma": (0.1, 30), "sinh": (-20, 20), "cosh": (-20, 20),
        "expm1": (-20, 20), "erfc": (-4, 8)}
EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1.5, -1.5, -2.0, 1e-30, -1e-30]


@mo.kernel
def apply_one(out, x, name: mo.Constexpr):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(x, 0):
        out[i] = getattr(mo, name)(x[i])


@mo.kernel
def apply_two(out, x, y, name: mo.Constexpr):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(x, 0):
        out[i] = getattr(mo, name)(x[i], y[i])


def on_gpu(kernel, *arrays, name):
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    out = torch.full_like(tensors[0], 77)
    kernel[mo.ceil_div(len(arrays[0]), 128), 128](out, *tensors, name)
    return out.cpu().numpy()


def exact(name, x):
    if name == "lgamma":
        return torch.lgamma(torch.from_numpy(x)).numpy()
    own = {"asin": math.asin, "acos": math.acos, "atan": math.atan, "erfc": math.erfc, "cbrt": np.cbrt}
    if name in special_functions.SLOW_MATH and name not in own:
        with np.errstate(all="ignore"):
            return special_functions.SLOW_MATH[name](x)
    return np.array([own[name](v) for v in x.tolist()])


def errors(got, wanted):
    """Units in the last place, of the dtype of ``got``; none where both are infinite."""
    with np.errstate(all="ignore"):
        near = wanted.astype(got.dtype)                 # what overflows is infinite in both
        unit = np.maximum(np.spacing(np.abs(near)), np.finfo(got.dtype).smallest_subnormal).astype(np.float64)
        return np.where(got == near, 0.0, np.abs(got.astype(np.float64) - wanted) / unit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", ULPS)
def test_one(name, dtype):
    low, high = ROOM.get(name, (-50, 50))
    x = np.random.default_rng(1).uniform(low, high, 20000).astype(dtype)
    got = on_gpu(apply_one, x, name=name)
    bound = ULPS[name][dtype is np.float64] + (0.5 if dtype is np.float32 else 2)
    assert errors(got, exact(name, x.astype(np.float64))).max() <= bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", ULPS)
def test_edges(name, dtype):
    """Infinities, NaN and signs of zero as in the simulator."""
    x = np.array(EDGES, dtype)
    got, simulated = on_gpu(apply_one, x, name=name), np.full_like(x, 77)
    apply_one[1, 128](simulated, x, name)
    np.testing.assert_allclose(got, simulated, rtol=1e-6 if dtype is np.float32 else 1e-14)
    numbers = ~np.isnan(simulated)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(simulated)[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", ULPS_OF_TWO)
def test_two(name, dtype):
    x, y = (np.random.default_rng(2).standard_normal((2, 20000)) * 9).astype(dtype)
    x = np.abs(x) if name == "pow" else x
    got, simulated = on_gpu(apply_two, x, y, name=name), np.full_like(x, 77)
    if name == "nextafter":
        np.testing.assert_array_equal(got, np.nextafter(x, y))
        return
    wanted = np.array([getattr(math, name)(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    bound = ULPS_OF_TWO[name][dtype is np.float64]
    assert errors(got, wanted).max() <= bound + (0 if not bound else 0.5 if dtype is np.float32 else 2)
    apply_two[mo.ceil_div(len(x), 128), 128](simulated, x, y, name)
    assert errors(simulated, wanted).max() <= (2 if bound else 0)


@pytest.mark.parametrize("name", ["atan2", "fmod", "remainder", "hypot", "copysign", "pow"])
def test_edges_of_two(name):
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(np.array(EDGES), np.array(EDGES)))
    got, simulated = on_gpu(apply_two, x, y, name=name), np.full_like(x, 77)
    apply_two[mo.ceil_div(len(x), 128), 128](simulated, x, y, name)
    np.testing.assert_allclose(got, simulated, rtol=1e-14)
    numbers = ~np.isnan(simulated)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(simulated)[numbers])
