"""MOYE_FMA=exact on whole kernels, and that NVRTC makes one fused multiply-add of each that gemm prints."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import moye as mo
import ops_kernels_tiles as tiles
from moye.kernels import gemm_simt

FLOATS = [name for name, case in tiles.CASES.items() if name.startswith("gemm-") and "int" not in name]


def columns(rng, *shape, dtype=np.float32):
    return np.asfortranarray(rng.standard_normal(shape).astype(dtype))


def in_order(a, b, dtype):
    """The sum over k from zero, each step exact and then rounded once."""
    total = dtype(0)
    for x, y in zip(a, b, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total))
        total = dtype(float(exact)) if dtype == np.float64 else single(exact)
    return total


def single(exact):
    """A fraction in float32: the nearest of three neighbours, the even one of two that are as near."""
    near = np.float32(float(exact))
    neighbours = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(neighbours, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


@pytest.fixture
def run(example, monkeypatch):
    def go(dtype, mode):
        monkeypatch.setenv("MOYE_FMA", mode)
        rng = np.random.default_rng(0)
        A, B = (columns(rng, 128, 64, dtype=dtype) for _ in range(2))       # whole k tiles: partial ones come first
        C = np.full((128, 128), np.nan, dtype, order="F")
        if dtype == np.float32:
            example("09_matmul_double_buffered").matmul(A, B, C)
        else:
            gemm_simt(A, B, C, splits=1)
        return A, B, C
    return go


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matmul_is_the_sum_of_exact_steps(run, dtype):
    fast, (A, B, exact), again = run(dtype, "fast")[2], run(dtype, "exact"), run(dtype, "fast")[2]
    assert fast.tobytes() == again.tobytes(), "the variable is read at each launch"
    assert np.count_nonzero(fast != exact) > 0
    np.testing.assert_allclose(fast, exact, rtol=0, atol=128 * np.finfo(dtype).eps)
    for m, n in np.random.default_rng(1).integers(0, 128, (300, 2)):
        assert exact[m, n] == in_order(A[m], B[n], dtype), (m, n)


def test_check_reads_the_variable_too(example, monkeypatch):
    ex, rng = example("09_matmul_double_buffered"), np.random.default_rng(0)
    A, B, C = columns(rng, 128, 16), columns(rng, 128, 16), np.full((128, 128), np.nan, np.float32, order="F")
    monkeypatch.setenv("MOYE_FMA", "exact")
    assert ex.matmul(A, B, C, mo.check(ex.matmul_kernel)).ok
    assert C[5, 7] == in_order(A[5], B[7], np.float32)
    assert all(C[i, i] == in_order(A[i], B[i], np.float32) for i in range(128))


# --- what the GPU does -----------------------------------------------------------------------------------------------


def arithmetic(ptx):
    """How often each floating-point product, sum or multiply-add stands in the PTX."""
    return Counter(re.findall(r"\t((?:fma|mul|add|sub)\.(?:rn\.)?\w+)\b", ptx))


def only_fused(ptx, kind):
    """No product or sum of floats but fused ones."""
    found = {name: count for name, count in arithmetic(ptx).items() if re.search(r"\.b?f\d+", name)}
    assert set(found) == {f"fma.rn.{kind}"}, found


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_nvrtc_fuses_what_gemm_prints(name):
    case = tiles.CASES[name]
    program = case.kernel.compile(*case.arguments(case.sizes[0]), block=case.block, arch="sm_80")
    only_fused(program.ptx, "f64" if "float64" in name else "f32")


def test_nvrtc_fuses_the_double_buffered_matmul(example):
    ex = example("09_matmul_double_buffered")
    x = mo.TensorLike(mo.float32, (256, 256))
    program = ex.matmul_kernel.compile(x, ex.S_LAYOUT, ex.COPY, x, ex.S_LAYOUT, ex.COPY, x, ex.MMA,
                                       block=mo.size(ex.MMA), arch="sm_90a")
    only_fused(program.ptx, "f32")
