"""The functions of math that no instruction approximates: against Python's own, and where they are not defined."""

from __future__ import annotations

import math
import re
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest

import moye as mo

ONE = ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log1p", "expm1", "erfc", "erfinv", "lgamma",
       "tgamma", "cbrt")
TWO = ("atan2", "fmod", "remainder", "hypot", "copysign", "pow")
ROOM = {"acosh": (1, 30), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "erfinv": (-0.96, 0.96),
        "log1p": (-0.9, 40), "lgamma": (0.1, 30), "tgamma": (0.1, 30), "sinh": (-9, 9), "cosh": (-9, 9),
        "expm1": (-9, 9)}


@mo.kernel
def apply_one(out, x, name: mo.Constexpr):
    i = mo.thread_idx().x
    out[i] = getattr(mo, name)(x[i])


@mo.kernel
def apply_two(out, x, y, name: mo.Constexpr):
    i = mo.thread_idx().x
    out[i] = getattr(mo, name)(x[i], y[i])


def one(name, values, dtype=np.float64):
    x = np.array(values, dtype)
    out = np.full_like(x, 77)
    apply_one[1, len(x)](out, x, name)
    return out


def two(name, xs, ys, dtype=np.float64):
    x, y = np.array(xs, dtype), np.array(ys)
    out = np.full_like(x, 77)
    apply_two[1, len(x)](out, x, y if y.dtype.kind == "i" and name == "ldexp" else y.astype(dtype), name)
    return out


def exact(name):
    if name == "erfinv":
        return lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)
    own = {"tgamma": math.gamma, "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x)}
    return own.get(name) or getattr(math, name)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda d: d.__name__)
def test_one(name, dtype):
    """Within half a unit in the last place (float64: 64, the reference is no better), in 16 bits rounded once more."""
    low, high = ROOM.get(name, (-20, 20))
    if dtype is np.float16 and name == "tgamma":
        high = 8
    x = np.linspace(low, high, 301).astype(dtype)
    x = x[(x >= low) & (x <= high)]
    wanted = np.array([exact(name)(float(v)) for v in x])
    got = one(name, x, dtype).astype(np.float64)
    unit = np.spacing(np.abs(wanted.astype(np.float32 if dtype is ml_dtypes.bfloat16 else dtype))).astype(np.float64)
    unit = unit * 65536 if dtype is ml_dtypes.bfloat16 else unit
    assert (np.abs(got - wanted) <= (64 if dtype is np.float64 else 0.51) * np.maximum(unit, 5e-17)).all()


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_two(name, dtype):
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((2, 256)) * 8).astype(dtype)
    x = np.abs(x) if name == "pow" else x
    wanted = np.array([getattr(math, name)(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    np.testing.assert_allclose(two(name, x, y, dtype), wanted, rtol=2e-6 if dtype is np.float32 else 1e-14)


def test_remainder_is_exact_of_ties_even_and_extremes():
    x = [5, 1, 3, -1, -3, 2.5, 1e308, 5e-324, 1e-310, 7, 1.5e308]
    y = [3, 2, 2, 2, 2, 5, 3.0, 1e-310, 3e-310, math.inf, 1.2e308]
    wanted = [math.remainder(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(two("remainder", x, y), wanted)
    assert np.isnan(two("remainder", [1, math.inf, math.nan], [0, 1, 1])).all()
    assert np.signbit(two("remainder", [-4.0, -0.0], [2.0, 3.0])).all()


INF, NAN = math.inf, math.nan
EDGES = {
    "asin": [(0, 0), (-0.0, -0.0), (1.5, NAN), (NAN, NAN)], "acos": [(1, 0), (1.5, NAN)],
    "atan": [(INF, math.pi / 2), (-INF, -math.pi / 2), (-0.0, -0.0)],
    "sinh": [(INF, INF), (-INF, -INF), (-0.0, -0.0), (800, INF)], "cosh": [(-INF, INF), (0, 1), (-800, INF)],
    "asinh": [(-INF, -INF), (-0.0, -0.0)], "acosh": [(1, 0), (0.5, NAN), (INF, INF)],
    "atanh": [(1, INF), (-1, -INF), (1.5, NAN), (-0.0, -0.0)],
    "log1p": [(-1, -INF), (-2, NAN), (-0.0, -0.0), (INF, INF), (1e-20, 1e-20)],
    "expm1": [(-INF, -1), (INF, INF), (-0.0, -0.0), (1e-20, 1e-20)],
    "erfc": [(INF, 0), (-INF, 2), (0, 1), (NAN, NAN)],
    "erfinv": [(1, INF), (-1, -INF), (0, 0), (-0.0, -0.0), (1.5, NAN), (NAN, NAN)],
    "lgamma": [(0, INF), (-3, INF), (-INF, INF), (INF, INF), (1, 0), (2, 0), (NAN, NAN), (1e307, INF)],
    "tgamma": [(0, INF), (-0.0, -INF), (-3, NAN), (-INF, NAN), (INF, INF), (5, 24), (200, INF), (NAN, NAN)],
    "cbrt": [(-8, -2), (-0.0, -0.0), (-INF, -INF)],
}
EDGES_OF_TWO = {
    "atan2": [(0, -1, math.pi), (-0.0, -1, -math.pi), (-0.0, 1, -0.0), (0, 0, 0), (INF, -INF, 3 * math.pi / 4)],
    "fmod": [(5, -3, 2), (-5, 3, -2), (1, 0, NAN), (INF, 1, NAN), (3, INF, 3), (-4, 2, -0.0)],
    "hypot": [(3, 4, 5), (INF, NAN, INF), (NAN, 1, NAN), (1e200, 1e200, math.sqrt(2) * 1e200)],
    "copysign": [(3, -0.0, -3), (-3, 1, 3), (0, -1, -0.0)],
    "nextafter": [(0, 1, 5e-324), (1, 1, 1), (INF, 0, 1.7976931348623157e308)],
    "pow": [(2, 10, 1024), (NAN, 0, 1), (0, -1, INF), (-8, 2, 64), (-8, 0.5, NAN)],
}


def test_lgamma_keeps_its_digits_beside_its_zeros():
    """C's library and Python's have none left there; the numbers follow from the series at 1 and 2, and at the ends."""
    z, euler, square = 2.0 ** -30, 0.5772156649015329, math.pi ** 2 / 12
    xs = [1 + z, 1 - z, 2 + z, 2 - z, 0.75 + 1e-15, 2.25 - 1e-15]
    wanted = [-euler * z + square * z * z, euler * z + square * z * z, (1 - euler) * z + (square - 0.5) * z * z,
              (euler - 1) * z + (square - 0.5) * z * z, math.lgamma(0.75), math.lgamma(2.25)]
    np.testing.assert_allclose(one("lgamma", xs), wanted, rtol=1e-14)


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    got = one(name, [x for x, _ in EDGES[name]])
    same(got, [wanted for _, wanted in EDGES[name]])


@pytest.mark.parametrize("name", EDGES_OF_TWO)
def test_edges_of_two(name):
    xs, ys, wanted = zip(*EDGES_OF_TWO[name], strict=True)
    same(two(name, xs, ys), wanted)


def same(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers])


def test_ldexp_rounds_once():
    x, e = [1.0, 3.0, 1.1, math.inf, -0.0, 1.0], np.array([-1074, 4, -1060, 5, 9, 5000])
    same(two("ldexp", x, e.astype(np.int32)), [5e-324, 48, math.ldexp(1.1, -1060), math.inf, -0.0, math.inf])


def test_sincos_and_tensors():
    @mo.kernel
    def kernel(out, x):
        r = mo.fragment((4,), mo.float32)
        mo.copyto(r, mo.tile(x, (4,), (mo.thread_idx().x,)))
        s, c = mo.sincos(r)
        mo.copyto(mo.tile(out, (4,), (mo.thread_idx().x,)), mo.hypot(s, c) + mo.atan2(s, 0.0) + mo.log1p(r))

    x = np.linspace(0.1, 3, 64).astype(np.float32)
    out = np.zeros(64, np.float32)
    kernel[1, 16](out, x)
    np.testing.assert_allclose(out, 1 + math.pi / 2 + np.log1p(x), rtol=1e-6)


def test_printed_by_their_names_in_c():
    x, y = np.zeros(32, np.float64), np.zeros(32, np.float64)
    assert "atan2(" in apply_two.compile(x, x, y, "atan2", block=32, arch="sm_90a").source
    f = x.astype(np.float32)
    source = apply_two.compile(f, f, f, "fmod", block=32, arch="sm_90a").source
    assert re.search(r"\bfmodf\(", source)


def test_refused():
    @mo.kernel
    def half(out, x):
        out[0] = mo.nextafter(x[0], x[1])

    with pytest.raises(mo.DTypeError, match="nextafter of float16: it is for float32 and float64"):
        half[1, 1](np.zeros(2, np.float16), np.zeros(2, np.float16))

    @mo.kernel
    def scaled(out, x):
        out[0] = mo.ldexp(x[0], x[1])

    with pytest.raises(mo.DTypeError, match="ldexp takes an integer exponent, not a float32"):
        scaled[1, 1](np.zeros(2, np.float32), np.zeros(2, np.float32))

    @mo.kernel
    def upper(out, x):
        out[0] = mo.mul_hi(x[0], x[1])

    with pytest.raises(mo.DTypeError, match="integers of 32 and 64 bits, not int16"):
        upper[1, 1](np.zeros(2, np.int16), np.zeros(2, np.int16))


@mo.kernel
def roots(out, x):
    i = mo.thread_idx().x
    out[i] = x[i] ** 0.5


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_power_of_a_half_is_no_square_root(dtype):
    x = np.array([-INF, -0.0, 0.0, INF, 4.0, -1.0, NAN], dtype)
    out = np.zeros_like(x)
    roots[1, 7](out, x)
    np.testing.assert_array_equal(out, np.array([INF, 0, 0, INF, 2, NAN, NAN], dtype))
    assert not np.signbit(out[1])


@mo.kernel
def powers(out, x, n: mo.Constexpr):
    i = mo.thread_idx().x
    held = mo.fragment((1,), x.dtype)
    held[0] = x[i]
    out[0, i], out[1, i] = x[i] ** n, (held ** n)[0]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_powers_are_rounded_once(dtype, n):
    """Products of 16 bits rounded one by one would be off in most of these."""
    x = np.random.default_rng(n).uniform(0.75, 2, 32).astype(dtype)
    out = np.zeros((2, 32), dtype)
    powers[1, 32](out, x, n)
    want = x.astype(np.float64) ** n
    bits = {2: 11 if dtype is np.float16 else 8, 4: 20}[x.itemsize]
    assert (abs(out.astype(np.float64) - want) <= 1.01 * 2.0 ** -bits * want).all()


def test_products_of_uint16_are_unsigned():
    @mo.kernel
    def square(out, x):
        out[0] = x[0] * x[0]
    x = np.full(1, 65535, np.uint16)
    assert "(unsigned)" in square.compile(x.copy(), x, block=1, arch="sm_80").source
