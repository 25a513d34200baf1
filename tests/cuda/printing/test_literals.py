"""Infinite and NaN literals as either operand of everything: printed, compiled, and meant as the simulator does."""

from __future__ import annotations

import math
import re

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.cuda.compiler import nvrtc
from moye.cuda.printing.expressions import literal
from moye.cuda.printing.intrinsics import Intrinsics

INF, NAN = math.inf, math.nan
NUMBERS = (INF, -INF, NAN)
STEPS = {
    "add": lambda x, c: x + c, "radd": lambda x, c: c + x, "sub": lambda x, c: x - c, "rsub": lambda x, c: c - x,
    "mul": lambda x, c: x * c, "div": lambda x, c: x / c, "rdiv": lambda x, c: c / x, "floordiv": lambda x, c: x // c,
    "mod": lambda x, c: x % c, "rmod": lambda x, c: c % x, "pow": lambda x, c: x ** c, "rpow": lambda x, c: c ** x,
    "max": lambda x, c: mo.max(x, c), "min": lambda x, c: mo.min(c, x), "where": lambda x, c: mo.where(x > 0, x, c),
    "rwhere": lambda x, c: mo.where(x > 0, c, x), "exp": lambda x, c: mo.exp(x + c), "neg": lambda x, c: -(x * c),
    "abs": lambda x, c: abs(x - c), "isinf": lambda x, c: mo.where(mo.isinf(x * c), 1.0, 0.0),
    "lt": lambda x, c: mo.where(x < c, 1.0, 0.0), "le": lambda x, c: mo.where(c <= x, 1.0, 0.0),
    "gt": lambda x, c: mo.where(x > c, 1.0, 0.0), "ge": lambda x, c: mo.where(x >= c, 1.0, 0.0),
    "eq": lambda x, c: mo.where(x == c, 1.0, 0.0), "ne": lambda x, c: mo.where(c != x, 1.0, 0.0),
}


@mo.kernel
def kernel(out, x, steps: mo.Constexpr, numbers: mo.Constexpr):
    i = mo.thread_idx().x
    for j, step in enumerate(steps):
        for k, number in enumerate(numbers):
            out[j, k, i] = step(x[i], number)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.bfloat16], ids=str)
def test_every_operator_compiles(dtype):
    """The program that NVRTC gets, once for all operators."""
    specs = [mo.TensorLike(dtype, (len(STEPS), len(NUMBERS), 32)), mo.TensorLike(dtype, (32,))]
    program = kernel.compile(*specs, tuple(STEPS.values()), NUMBERS, block=32, arch="sm_80")
    assert nvrtc.compile_cubin(program.source, "kernel", "sm_80").registers > 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_simulator_computes_them_as_values(dtype):
    """A literal means what the same number as an array element does."""
    @mo.kernel
    def values(out, x, c, steps: mo.Constexpr):
        i = mo.thread_idx().x
        for j, step in enumerate(steps):
            for k in mo.static_range(3):
                out[j, k, i] = step(x[i], c[k])

    x = np.resize([0.0, -0.0, 1.5, -2.0, 3e38, INF, -INF, NAN], 32).astype(dtype)
    got, want = (np.zeros((len(STEPS), 3, 32), dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        kernel[1, 32](got, x, tuple(STEPS.values()), NUMBERS)
        values[1, 32](want, x, np.array(NUMBERS, dtype), tuple(STEPS.values()))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kernel_of", ["softmax", "division", "tile", "branch"])
def test_programs_with_infinite_literals(kernel_of):
    @mo.kernel
    def program(x, n):
        i = mo.thread_idx().x
        if kernel_of == "softmax":
            top = -INF
            for j in range(n):
                top = mo.max(top, x[j])
            top = mo.where(top == -INF, 0.0, top)
            x[i] = mo.exp(x[i] - top)
        elif kernel_of == "division":
            x[i] = mo.where(i < n, x[i], -INF) // INF + x[i] % -INF
        elif kernel_of == "tile":
            r = mo.fragment((4,), mo.float32)
            r.fill(-INF)
            r[...] = mo.max(r, -INF) * NAN
            x[i] = r[1]
        else:
            x[i] = 1.0 if x[i] == float("-inf") else 0.0

    program.compile(mo.TensorLike(mo.float32, (32,)), 5, block=32, arch="sm_80")


def number_of(text):
    """The number that a float literal spells."""
    if "int_as_float" in text or "longlong_as_double" in text:
        value = NAN if re.search("7fc|7ff8", text) else INF
        return -value if text.startswith("-") else value
    return float(text.rstrip("f"))


def test_float_literals_are_exact_and_short():
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 1 << 32, 3000, dtype=np.uint32).view(np.float32).astype(np.float64)
    for number in (*drawn.tolist(), 0.1, 1e-45, 3.4028235e38, 1.0, -0.0, 16777217.0):
        text = literal(number, dt.float32, Intrinsics()).text
        got, want = np.float32(number_of(text)), np.float32(number)
        assert (got == want and np.signbit(got) == np.signbit(want)) or (np.isnan(got) and np.isnan(want))
        assert len(text) <= 28
    assert literal(0.1, dt.float32, Intrinsics()).text == "0.1f"


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_literals_of_8_bits_are_their_bits(name):
    """No conversion on the device, which sm_80 does not even have."""
    dtype = getattr(dt, name)
    values = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    for bits, number in enumerate(values.astype(np.float64).tolist()):
        if not np.isinf(number) and (not np.isnan(number) or bits == 0x7F):
            assert literal(number, dtype, Intrinsics()).text == f"{dtype.cuda}{{{bits:#04x}}}"
    largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[name]
    assert literal(1e9, dtype, Intrinsics()).text == literal(largest, dtype, Intrinsics()).text


def test_zeros_of_both_signs_are_two_constants():
    @mo.kernel
    def program(out, x):
        i = mo.thread_idx().x
        out[i, 0] = x[i] * 0.0
        out[i, 1] = x[i] * -0.0
        out[i, 2] = mo.where(x[i] > 0, 0.0, -0.0)

    out = np.ones((4, 3), np.float32)
    program[1, 4](out, np.full(4, 2, np.float32))
    assert np.signbit(out[0]).tolist() == [False, True, False]


@mo.kernel
def shifts(out, a, n):
    i = mo.thread_idx().x
    out[i, 0] = a[i] << n[i]
    out[i, 1] = a[i] >> (n[i] & 15)
    out[i, 2] = a[i] >> (mo.thread_idx().x % 8)


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64], ids=str)
def test_counts_that_may_be_anything_are_clamped_by_ptx(dtype):
    """C++ leaves a far or negative count undefined; facts that exclude it keep the operator."""
    program = shifts.compile(mo.TensorLike(dtype, (32, 3)), mo.TensorLike(dtype, (32,)), mo.TensorLike(dt.int32, (32,)),
                             block=32, arch="sm_80")
    body = program.source.split('extern "C"')[1]
    assert len(re.findall(r"\bshl\(", body)) == 1 and not re.search(r"\bshr\(", body) and body.count(" >> ") >= 2
    assert program.registers > 0
