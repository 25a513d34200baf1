"""fma.py against exact fractions rounded once, and the Gemm op that uses it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moye import dtypes as dt
from moye.atoms.universal import UniversalFMA
from moye.ir import ops
from moye.sim.values.fma import fused
from moye.sim.values.memory import numpy_dtype
from sim_kernels import K

PRECISION = {np.float32: (24, -149, 128), np.float64: (53, -1074, 1024)}
"""Bits of the mantissa, exponent of the least subnormal number, exponent at which infinity begins."""
BITS = {np.float32: np.uint32, np.float64: np.uint64}
T = 20


def nearest(exact: Fraction, dtype) -> float:
    """A fraction other than zero rounded to nearest, ties to even."""
    precision, least, top = PRECISION[dtype]
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > abs(exact)
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    value = abs(round(exact / unit)) * unit             # round() of a Fraction: ties to even
    return (1 if exact > 0 else -1) * (math.inf if value >= Fraction(2) ** top else float(value))


def reference(a: float, b: float, c: float, dtype) -> float:
    """a * b + c of finite numbers."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return nearest(exact, dtype)
    minus = math.copysign(1, a) * math.copysign(1, b) < 0
    return -0.0 if minus and math.copysign(1, c) < 0 else 0.0


def agree(a, b, c, dtype):
    a, b, c = (np.array(x, dtype).reshape(-1) for x in (a, b, c))
    got = fused(a, b, c)
    want = np.array([reference(float(x), float(y), float(z), dtype) for x, y, z in zip(a, b, c, strict=True)], dtype)
    assert got.dtype == dtype
    wrong = np.flatnonzero(got.view(BITS[dtype]) != want.view(BITS[dtype]))
    assert not len(wrong), [(float(x[i]).hex() for x in (a, b, c, got, want)) for i in wrong[:1]]


def numbers(rng, dtype, count, spread):
    """Floats with few or many mantissa bits, exponents around 0, or anywhere with ``spread`` None."""
    precision, least, top = PRECISION[dtype]
    low, high = (least, top - precision) if spread is None else (-spread, spread)
    mantissa = rng.integers(0, 1 << precision, count) >> rng.integers(0, precision, count)
    return np.ldexp((mantissa * rng.choice([-1, 1], count)).astype(dtype), rng.integers(low, high, count)).astype(dtype)


# --- one multiply-add ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("spread", [3, 60, None])
def test_random_operands(dtype, spread):
    rng = np.random.default_rng(0)
    agree(*(numbers(rng, dtype, 3000, spread) for _ in range(3)), dtype)


@pytest.mark.parametrize("dtype", PRECISION)
def test_cancellation(dtype):
    """c is minus the rounded product, or a neighbour of it: what is left is the error of the product."""
    rng = np.random.default_rng(1)
    for spread in (3, 40, PRECISION[dtype][0] * 2):
        a, b = numbers(rng, dtype, 1500, spread), numbers(rng, dtype, 1500, spread)
        with np.errstate(over="ignore", under="ignore"):
            c = np.nextafter(-a * b, dtype(0)) if spread == 40 else -a * b
        agree(a, b, np.where(np.isfinite(c), c, dtype(1)).astype(dtype), dtype)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("sign", [-1, 1])
def test_ties_and_what_breaks_them(dtype, sign):
    """c and half of its last bit, and what one rounding sees beyond it; also where c is subnormal."""
    precision, least, top = PRECISION[dtype]
    a, b, c = [], [], []
    for exponent in (0, 100, -100, least + precision - 1, least + precision, least + 3, top - 1):
        last = max(exponent - precision + 1, least)
        for odd in (0, 1):
            start = math.ldexp(1.0, exponent) + odd * math.ldexp(1.0, last)
            for far in (0, 1, precision - 1, precision, 2 * precision):
                # (1 + u) * 2^p and (1 - u) * 2^q with u = 2^-far/2: half of the last bit, or a little less
                small = math.ldexp(1.0, -min(far, precision - 1))
                for x, y in (((1 + small), 1.0), ((1 - small), 1.0), ((1 + small), (1 - small)), (1.0, 1.0)):
                    a.append(math.ldexp(x, last // 2))
                    b.append(math.ldexp(y, last - 1 - last // 2) * sign)
                    c.append(start)
    agree(a, b, c, dtype)


@pytest.mark.parametrize("dtype", PRECISION)
def test_limits(dtype):
    """Every triple of the numbers at which something begins or ends."""
    _, least, top = PRECISION[dtype]
    info = np.finfo(dtype)
    normal, last = float(info.smallest_normal), math.ldexp(1.0, least)
    sizes = [0.0, last, normal, normal - last, math.ldexp(1.0, least // 2), float(info.eps) / 2, 1.0,
             1.0 + float(info.eps), 1.5, math.ldexp(1.0, top // 2), math.ldexp(1.0, top - 1), float(info.max)]
    signed = np.array([s * x for x in sizes for s in (1.0, -1.0)], dtype)
    agree(*(grid.reshape(-1) for grid in np.meshgrid(signed, signed, signed)), dtype)


@pytest.mark.parametrize("dtype", PRECISION)
def test_infinities_and_nan(dtype):
    inf, nan, largest = math.inf, math.nan, float(np.finfo(dtype).max)
    rows = [(inf, 2, 1, inf), (inf, -2, 1, -inf), (inf, 0, 1, nan), (0, -inf, inf, nan), (inf, 1, -inf, nan),
            (inf, 1, inf, inf), (2, 3, -inf, -inf), (largest, largest, -inf, -inf), (largest, -largest, inf, inf),
            (largest, largest, 1, inf), (largest, 2, -largest, largest), (nan, 0, 0, nan), (1, nan, inf, nan),
            (1, 1, nan, nan), (0, 0, nan, nan), (largest, largest, nan, nan)]
    a, b, c, want = (np.array(column, dtype) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(fused(a, b, c), want)


def test_a_scalar_broadcasts():
    a, b, c = np.float32([[1], [3]]), np.float32([[5, 7]]), np.float32([[1, 1], [1, 1]])
    np.testing.assert_array_equal(fused(a, b, c), [[6, 8], [16, 22]])
    tiny = np.float64([[2.0 ** -600], [1]])
    np.testing.assert_array_equal(fused(tiny, tiny.T.copy(), np.zeros((2, 2))), tiny * tiny.T)


def floats(width):
    return st.floats(width=width, allow_nan=False, allow_infinity=False)


@settings(max_examples=400, deadline=None)
@given(floats(32), floats(32), floats(32))
@example(1 + 2.0 ** -12, 1 - 2.0 ** -12, -1.0)
def test_any_float32(a, b, c):
    agree(a, b, c, np.float32)


@settings(max_examples=400, deadline=None)
@given(floats(64), floats(64), floats(64))
@example(1 + 2.0 ** -27, 1 - 2.0 ** -27, -1.0)
def test_any_float64(a, b, c):
    agree(a, b, c, np.float64)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(PRECISION)), st.integers(-4200, 4200), st.integers(-4200, 4200), st.data())
def test_any_neighbourhood_of_a_tie(dtype, a_bits, b_bits, data):
    """The product of two short mantissas, moved to a few bits around the end of c."""
    precision, least, _ = PRECISION[dtype]
    exponent = data.draw(st.integers(least + 30, 60))
    c = math.ldexp(data.draw(st.integers(1, 1 << precision)), max(exponent - precision, least))
    shift = max(exponent - precision, least) - data.draw(st.integers(-2, 30))
    a = float(dtype(math.ldexp(a_bits, shift // 2)))
    b = float(dtype(math.ldexp(b_bits, shift - shift // 2)))
    agree(a, b, c, dtype)


# --- Gemm ------------------------------------------------------------------------------------------------------------


def products(dtype, exact, *, half=False, data=None):
    """(a, b, c, result) of 3x4 sums of five products a thread."""
    k, kind = K(T), numpy_dtype(dtype)
    A, C = k.tensor("A", dtype=dtype), k.tensor("C", dtype=dtype)
    a, b, c = (k.fragment(n, dtype, name) for n, name in ((15, "a"), (20, "b"), (12, "c")))
    for r, at, n in ((a, 0, 15), (b, 15, 20), (c, 35, 12)):
        k.copy(k.tile(r), k.tile(A, k.add(k.mul(k.tid, 47), at)), (n,))

    def gemm():
        k.emit(ops.Gemm(mma=UniversalFMA(dtype), d=k.tile(c, 0, (1, 3, 0)), a=k.tile(a, 0, (1, 0, 3)),
                        b=k.tile(b, 0, (0, 5, 1)), c=k.tile(c, 0, (1, 3, 0)), extents=(3, 4, 5), roles="mnk"))
    if half:
        with k.if_(k.lt(k.tid, T // 2)):
            gemm()
    else:
        gemm()
    k.copy(k.tile(C, k.mul(k.tid, 12)), k.tile(c), (12,))
    x = (np.random.default_rng(0).standard_normal(47 * T) * 9).astype(kind) if data is None else data
    y = np.zeros(12 * T, kind)
    found = {finding.code for finding in k.run(x, y, exact_fma=exact).findings}
    assert found == ({"A11"} if data is not None and data.dtype.kind == "i" else set())     # full of overflows
    x = x.reshape(T, 47)
    return (x[:, :15].reshape(T, 5, 3), x[:, 15:35].reshape(T, 4, 5), x[:, 35:].reshape(T, 4, 3),
            y.reshape(T, 4, 3))


def in_order(a, b, c, dtype):
    """Fractions along k, each step rounded to float32 or float64, and then to a narrower dtype."""
    wide = np.float64 if dtype == np.float64 else np.float32
    out = c.copy()
    for t, n, m in np.ndindex(c.shape):
        for k in range(5):
            out[t, n, m] = wide(reference(float(a[t, k, m]), float(b[t, n, k]), float(out[t, n, m]), wide))
    return out


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.bfloat16], ids=str)
def test_gemm_rounds_each_step_once(dtype):
    a, b, c, got = products(dtype, True)
    want = in_order(a, b, c, numpy_dtype(dtype))
    assert got.tobytes() == want.tobytes()
    if dtype.bits >= 32:                                # products of narrower floats are exact in float32
        assert products(dtype, False)[3].tobytes() != want.tobytes(), "two roundings differ somewhere"


def test_gemm_of_some_threads_leaves_the_others():
    a, b, c, got = products(dt.float32, True, half=True)
    want = in_order(a, b, c, np.float32)
    assert got[:T // 2].tobytes() == want[:T // 2].tobytes()
    assert got[T // 2:].tobytes() == c[T // 2:].tobytes()


def test_integers_wrap_as_before():
    data = np.random.default_rng(0).integers(-2**31, 2**31, 47 * T).astype(np.int32)
    results = [products(dt.int32, exact, data=data)[3] for exact in (False, True)]
    np.testing.assert_array_equal(*results)
