"""Constants that the user gave a dtype keep it and are rounded to it; indices that fold are static integers."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.errors import DTypeError
from moye.ir import constants
from moye.sim.values.memory import numpy_dtype
from moye.sim.values.scalars import cast
from moye.tensor.expr import Expr
from moye.tensor.known import Known
from written import block

FLOATS = (dt.float32, dt.float16, dt.bfloat16, dt.tfloat32, dt.float8_e4m3fn, dt.float8_e5m2)


FOUND = []


def record(*values):
    """What a kernel's trace makes of them."""
    FOUND.extend(values)


@mo.kernel
def kernel(out, n, step: mo.Constexpr):
    out[mo.thread_idx().x] = step(n)


TYPED = {
    "product": lambda n: n * (mo.int64(1000) * mo.int64(1000)), "sum": lambda n: n * (mo.int64(999_999) + 1),
    "difference": lambda n: n * (1_000_001 - mo.int64(1)), "quotient": lambda n: n * (mo.int64(5_000_000) // 5),
    "shift": lambda n: n * (mo.int64(125_000) << 3), "minimum": lambda n: n * mo.min(mo.int64(1_000_000), 1 << 30),
    "maximum": lambda n: n * mo.max(mo.int64(1_000_000), mo.int64(3)),
    "choice": lambda n: n * mo.where(mo.int64(1) < 2, mo.int64(1_000_000), 7),
    "choice of a number": lambda n: n * mo.where(True, 1_000_000, mo.int64(7)),
    "negation": lambda n: n * -mo.int64(-1_000_000), "absolute": lambda n: n * abs(mo.int64(-1_000_000)),
    "bits": lambda n: n * ((mo.int64(1_000_000) | 0) & ~mo.int64(0)),
    "rest": lambda n: n * (mo.int64(3_000_001) % 2_000_001),
    "power": lambda n: n * mo.int64(1000) ** 2, "conversion": lambda n: n * mo.int32(1_000_000).to(mo.int64),
    "chain": lambda n: n * (mo.int64(10) * 10 * 10 * 10 * 10 * 10),
    "zero of a value": lambda n: n * (mo.int64(n) * 0 + 1_000_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPED)
def test_typed_integers_keep_their_dtype(name):
    out = np.zeros(4, np.int64)
    report = mo.check(kernel)[1, 4](out, 5000, TYPED[name])
    assert report.ok and (out == 5_000_000_000).all()
    source = kernel.compile(out, 5000, TYPED[name], block=4, arch="sm_80").source
    assert "(long long)n * 1000000" in source or "LL" in source


@pytest.mark.parametrize("dtype", [mo.int8, mo.int16, mo.int32, mo.uint32, mo.int64, mo.uint64], ids=str)
def test_the_dtype_of_every_operation_on_constants(dtype):
    FOUND.clear()

    @mo.kernel
    def probe(x):
        a, b = dtype(12), dtype(3)
        record(a + b, a - b, a * b, a // b, a % b, a << 2, a >> 1, a & b, a | b, a ^ b, -a, ~a, abs(a), mo.min(a, b),
               mo.max(a, 5), mo.where(a > b, a, b), a + 1, 1 + a, 20 - a, a < b)
        x[0] = 1

    probe.trace(np.zeros(1, np.int32), block=1)
    *numbers, comparison = FOUND
    assert isinstance(comparison, Known) and not comparison and comparison.dtype is dt.bool_
    assert all(isinstance(number, Expr) and number.dtype is dtype for number in numbers)


def test_indices_that_fold_are_python_integers():
    FOUND.clear()

    @mo.kernel
    def probe(x):
        tid = mo.thread_idx().x
        record(tid // 32, tid % 1, tid * 0, mo.min(tid, 0))
        t = mo.fragment((4,), mo.int32)
        t[mo.int64(1)] = 1
        t[mo.int32(1) + mo.int32(1)] = 2
        x[tid] = t[1]

    probe.trace(np.zeros(32, np.int32), block=32)
    assert FOUND == [0] * 4 and all(isinstance(n, int) and n.dtype is dt.int32 for n in FOUND)


# --- floats ----------------------------------------------------------------------------------------------------------


def grid():
    numbers = [0.1, 1 / 3, 70000.0, 65504.0, 65519.9, 65520.0, 448.0, 464.0, 465.0, 57344.0, 61440.0, 61441.0, 1e300,
               3.4e38, 3.4028235677973366e38, 3.4028235677973362e38, 1e-45, 7e-46, 7.1e-46, 1e-8, 2.0**-24, 2.0**-25]
    numbers += [s * (1 + k * 2.0**-m + e) * 2.0**x for m in (3, 4, 8, 9, 11, 12, 24) for k in (1, 3) for s in (1, -1)
                for e in (0, 2.0**-40, -2.0**-40) for x in (0, -6, -14, -126, -130, 15, 127)]
    return [*numbers, *(-n for n in numbers), 0.0, -0.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_is_that_of_the_simulator(dtype):
    for number in grid():
        with np.errstate(all="ignore"):
            got, want = dt.rounded(number, dtype), float(cast(np.array([number]), dt.float64, dtype)[0])
        same = got == want and math.copysign(1, got) == math.copysign(1, want)
        assert same or (math.isnan(got) and math.isnan(want)), number


TOO_LARGE = ["x[0] = x[0] + 70000.0", "x[0] = 70000 * x[0]", "x[0] = mo.where(x[0] > 0, x[0], -1e9)", "x[0] = 65520.0",
             "r = mo.fragment((4,), x.dtype)\nr.fill(-1e9)", "r = mo.fragment((4,), x.dtype)\nr *= 1e9",
             "mo.copyto(mo.make_fragment_like(x), x, pred=x[0] > 0, other=-1e9)", "x[0] = -1e9 if x[0] > 0 else x[0]",
             "y: mo.float16 = 1e9", "y = x[0].to(mo.float32) * 1e39", "mo.atomic_max(x, 0, 1e9)"]


@pytest.mark.parametrize("body", TOO_LARGE)
def test_a_finite_number_does_not_become_infinite_in_silence(body):
    """As an argument it is refused as well; who writes ``mo.float16(1e9)`` has said what it becomes."""
    kernel = mo.kernel(block(body, "x: mo.Static"))
    with pytest.raises(DTypeError, match=r"does not fit float(16|32): it would be infinite"):
        kernel.trace(np.ones(4, np.float16), block=1)


@pytest.mark.parametrize("body", ["x[0] = x[0] + 65519.0", "x[0] = x[0] + float('inf')", "x[0] = mo.float16(1e9)",
                                  "x[0] = mo.float16(-70000)",
                                  "x[0] = mo.where(x[0] > 0, x[0], mo.float16(-1e9))", "x[0] = x[0] < 1e9",
                                  "r = mo.fragment((4,), mo.float8_e4m3fn)\nr.fill(1e9)",
                                  "x[0] = x[0] * mo.float32(1e9)"])
def test_numbers_that_fit_or_are_converted_are_taken(body):
    mo.kernel(block(body, "x: mo.Static")).trace(np.ones(4, np.float16), block=1)


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32], ids=str)
def test_rounding_is_to_nearest(dtype):
    """By exact fractions: no neighbour is closer."""
    kind = np.dtype(dtype.numpy) if dtype is not dt.bfloat16 else np.dtype(ml_dtypes.bfloat16)
    for number in grid():
        result = dt.rounded(number, dtype)
        if math.isfinite(number) and math.isfinite(result) and result:
            bits = np.array([result], kind).view(f"u{kind.itemsize}")
            near = [float(x) for x in np.concatenate([bits - 1, bits, bits + 1]).view(kind) if np.isfinite(x)]
            assert abs(Fraction(result) - Fraction(number)) == min(abs(Fraction(x) - Fraction(number)) for x in near)


@pytest.mark.slow
@pytest.mark.parametrize("source", [*FLOATS, dt.float64, dt.int32, dt.int64, dt.uint64], ids=str)
def test_constants_convert_as_values_do(source):
    whole = [0, 1, -1, 127, 128, -129, 255, 65535, 1 << 24, (1 << 24) + 1, (1 << 31) - 1, 1 << 31, (1 << 53) + 1,
             (1 << 62) + 129, (1 << 63) - 1]
    numbers = grid() if source.is_float else whole
    numbers = [n for n in numbers if source.is_float or constants.fits(n, source)]
    for target in (*FLOATS, dt.float64, dt.int8, dt.uint8, dt.int32, dt.uint32, dt.int64, dt.uint64, dt.bool_):
        for number in numbers:
            literal = constants.literal(number, source)
            with np.errstate(all="ignore"):
                value = np.array([literal.value], numpy_dtype(source))
                want = cast(value, source, target)[0]
            got = constants.cast_literal(literal, target).value
            assert float(got) == float(want) or (math.isnan(got) and math.isnan(float(want))), (number, target)


def test_typed_floats_are_rounded_at_every_step():
    @mo.kernel
    def probe(out, d):
        out[0] = mo.float64(mo.float16(0.1))
        out[1] = mo.float64(mo.float32(0.1))
        out[2] = mo.float64(mo.float16(70000.0))
        out[3] = mo.float64(mo.float16(0.1) + mo.float16(0.2))
        out[4] = mo.float64(mo.bfloat16(0.1).to(mo.float32))
        out[5] = mo.float64(mo.float8_e4m3fn(1000.0))
        out[6] = d[0] + 0.1                              # weak: a float64
        out[7] = mo.float64(-mo.float16(0.1))

    out = np.zeros(8)
    probe[1, 1](out, np.zeros(1))
    half = np.float16
    expected = [float(half(0.1)), float(np.float32(0.1)), math.inf, float(half(0.1) + half(0.2)),
                float(ml_dtypes.bfloat16(0.1)), 448.0, 0.1, -float(half(0.1))]
    assert out.tolist() == expected
