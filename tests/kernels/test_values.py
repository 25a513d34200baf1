"""Every kernel of the examples agrees with float64 NumPy in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

TOLERANCE = 1e-5
SIZES = [(128, 128, 1), (256, 384, 4), (384, 128, 8)]       # M, N and k-tiles


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_matmul(matmul, size):
    M, N, k_tiles = size
    _, error = matmul.run(M, N, k_tiles * matmul.bK)
    assert error < TOLERANCE


def test_row_major_operands_are_copied_element_by_element(example):
    """Any strides are welcome where a copy moves single elements."""
    module = example("04_matmul_async")
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((128, 16), np.float32), rng.standard_normal((256, 16), np.float32)
    C = np.full((128, 256), np.nan, np.float32)
    module.matmul(A, B, C)
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    assert np.linalg.norm(C - expected) < TOLERANCE * np.linalg.norm(expected)


@pytest.mark.parametrize("run", ["copy", "staged_copy"])
@pytest.mark.parametrize("size", [(32, 32), (96, 64), (64, 160)], ids=str)
def test_copy(example, run, size):
    src = np.asfortranarray(np.random.default_rng(0).standard_normal(size, np.float32))
    dst = np.full(size, np.nan, np.float32, order="F")
    getattr(example("01_copy"), run)(dst, src)
    assert np.array_equal(dst, src)


@pytest.mark.parametrize("size", [(32, 32), (96, 64), (64, 160)], ids=str)
def test_transpose(example, size):
    src = np.asfortranarray(np.random.default_rng(0).standard_normal(size, np.float32))
    dst = np.full(size[::-1], np.nan, np.float32, order="F")
    example("02_transpose").transpose(dst, src)
    assert np.array_equal(dst, src.T)


@pytest.mark.parametrize("N", [1024, 4096, 5120])
def test_reductions(example, N):
    example("07_reductions").main(N)


@pytest.mark.parametrize("size", [(64, 32), (128, 96), (192, 64)], ids=str)
def test_elementwise(example, size):
    example("08_elementwise").main(*size)
