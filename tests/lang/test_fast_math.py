"""Fast functions: which instruction each is, what it does with subnormal numbers, and how far it may be off."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from fast_math import BOUNDS, NARROW_BOUNDS, arguments, exact, fast_functions, narrow_functions, off, quotients

LEAST = np.float32(2.0**-126)
INSTRUCTIONS = {
    "exp2": ("ex2.approx.ftz.f32",), "exp": ("ex2.approx.ftz.f32",), "log2": ("lg2.approx.ftz.f32",),
    "log": ("lg2.approx.ftz.f32",), "log10": ("lg2.approx.ftz.f32",), "sqrt": ("sqrt.approx.ftz.f32",),
    "rsqrt": ("rsqrt.approx.ftz.f32",), "rcp": ("rcp.approx.ftz.f32",), "sin": ("sin.approx.ftz.f32",),
    "cos": ("cos.approx.ftz.f32",), "tan": ("sin.approx.ftz.f32", "cos.approx.ftz.f32", "rcp.approx.ftz.f32"),
    "tanh": ("tanh.approx.f32",), "sigmoid": ("ex2.approx.ftz.f32", "rcp.approx.ftz.f32"),
}


@pytest.mark.parametrize("kind", BOUNDS)
def test_instructions(kind):
    """One instruction each, and none of the accurate function's."""
    x = np.ones(32, np.float32)
    ptx = fast_functions.compile(np.empty((32, 1), np.float32), x, (kind,), block=32, arch="sm_80").ptx
    found = [line.split()[0] for line in ptx.splitlines() if ".approx" in line]
    assert sorted(found) == sorted(INSTRUCTIONS[kind])


@pytest.mark.parametrize("kind", BOUNDS)
def test_within_bounds(kind):
    """The simulator is within what the hardware promises."""
    x = arguments(kind)
    out = np.empty((len(x), 1), np.float32)
    fast_functions[-(-len(x) // 32), 32](out, x, (kind,))
    assert off(kind, out[:, 0], x) <= BOUNDS[kind][1]


def of(kind, x):
    x = np.array(x, np.float32)
    out = np.empty((len(x), 1), np.float32)
    fast_functions[1, 32](out, x, (kind,))
    return out[:, 0].tolist()


def test_subnormal_numbers_are_zeros():
    """Inputs and results, with their signs; tanh keeps them."""
    tiny, small = 1e-40, 2.0**-130
    assert of("exp2", [-126.0, -126.5, -140.0, tiny]) == [LEAST, 0.0, 0.0, 1.0]
    assert of("rcp", [tiny, -tiny, 2.0**127, -(2.0**127)]) == [np.inf, -np.inf, 0.0, -0.0]
    assert np.signbit(of("rcp", [-(2.0**127)])).all()
    assert of("rsqrt", [tiny, 0.0, 4.0]) == [np.inf, np.inf, 0.5]
    assert of("sqrt", [tiny, small]) == [0.0, 0.0]
    assert of("log2", [tiny, 0.0]) == [-np.inf, -np.inf]
    sine = of("sin", [tiny, -tiny])
    assert sine == [0.0, 0.0] and np.signbit(sine).tolist() == [False, True]
    assert of("tanh", [small]) == [np.float32(small)]
    assert of("exp", [-90.0, tiny]) == [0.0, 1.0]


def test_infinities():
    assert of("exp2", [np.inf, -np.inf, 128.0]) == [np.inf, 0.0, np.inf]
    assert of("rcp", [np.inf, -np.inf, 0.0]) == [0.0, -0.0, np.inf]
    assert of("sigmoid", [np.inf, -np.inf, 0.0]) == [1.0, 0.0, 0.5]
    assert np.isnan(of("sin", [np.inf])).all() and np.isnan(of("rsqrt", [-1.0])).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", NARROW_BOUNDS)
def test_narrow(kind, dtype):
    x = np.linspace(-9, 9, 640).astype(dtype)
    out = np.empty((len(x), 1), dtype)
    narrow_functions[20, 32](out, x, (kind,))
    assert off(kind, out[:, 0], x, NARROW_BOUNDS[kind][0]) <= NARROW_BOUNDS[kind][1][np.dtype(dtype).name]
    ptx = narrow_functions.compile(out, x, (kind,), block=32, arch="sm_90a").ptx
    stem = "ex2" if kind == "exp2" else kind
    suffix = "f16" if dtype == np.float16 else "ftz.bf16" if kind == "exp2" else "bf16"
    assert f"{stem}.approx.{suffix}" in ptx
    if dtype != np.float16:                             # before sm_90 in float32
        ptx = narrow_functions.compile(out, x, (kind,), block=32, arch="sm_80").ptx
        assert f"{stem}.approx" in ptx and "approx.bf16" not in ptx and "ftz.bf16" not in ptx


def test_narrow_subnormal_numbers():
    """bfloat16's powers of two flush, float16's do not."""
    half, brain = np.array([-15.0, -24.0, -25.5], np.float16), np.array([-126, -127, -133], ml_dtypes.bfloat16)
    for x, wanted in ((half, [2.0**-15, 2.0**-24, 0.0]), (brain, [2.0**-126, 0.0, 0.0])):
        out = np.empty((3, 1), x.dtype)
        narrow_functions[1, 32](out, x, ("exp2",))
        assert out[:, 0].astype(np.float64).tolist() == wanted


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_divide(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 9, 320).astype(dtype) for _ in range(2))
    slow, fast = np.empty_like(a), np.empty_like(a)
    quotients[10, 32](slow, fast, a, b)
    assert (slow == a / b).all()
    step = np.spacing(np.abs(a / b))
    assert (np.abs(fast.astype(np.float64) - a.astype(np.float64) / b.astype(np.float64)) <= 2 * step).all()
    if dtype != np.float64:
        assert "rcp.approx.ftz.f32" in quotients.compile(slow, fast, a, b, block=32, arch="sm_80").ptx


def test_divide_of_numbers_and_integers():
    @mo.kernel
    def kernel(out, n):
        out[0] = mo.divide(n, 4)
        out[1] = mo.divide(n, 4, fast=True)
        out[2] = mo.divide(1.0, out[0])

    out = np.zeros(3, np.float32)
    kernel[1, 1](out, 6)
    assert out.tolist() == [1.5, 1.5, np.float32(1) / np.float32(1.5)]


def test_fewer_instructions():
    """exp2 is one instruction of the special function unit, without the scaling of subnormal numbers around it."""
    x = np.ones(32, np.float32)
    ptx = fast_functions.compile(np.empty((32, 1), np.float32), x, ("exp2",), block=32, arch="sm_90a").ptx
    assert "mul.f32" not in ptx and "setp.lt.f32" not in ptx


def test_exact_is_what_is_meant():
    """The references are those of Python."""
    assert exact("sigmoid", np.float64(0)) == 0.5 and exact("rcp", np.float64(4)) == 0.25
