"""Projections, products without an atom and parts of modes on the GPU, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from tensor_kernels import (
    GEMM_DTYPES,
    MATMUL_BLOCK,
    MATMUL_GRID,
    gemm_arguments,
    matmul_arguments,
    parts,
    parts_expected,
    plain_matmul,
    thread_gemm,
)

torch = pytest.importorskip("torch")


def device(array):
    """The same array on the GPU, with its strides."""
    return torch.from_numpy(np.ascontiguousarray(array.T)).cuda().permute(*reversed(range(array.ndim)))


def test_the_first_matmul_of_the_manual():
    args = matmul_arguments()
    given = [device(a) if isinstance(a, np.ndarray) else a for a in args]
    plain_matmul[MATMUL_GRID, MATMUL_BLOCK](*given)
    np.testing.assert_allclose(given[6].cpu().numpy(), args[0] @ args[3].T, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("dtype", "sums"), GEMM_DTYPES)
def test_gemm_of_one_thread(dtype, sums):
    D, A, B, C = gemm_arguments(dtype, sums)
    out = device(D)
    thread_gemm[1, 2](out, *map(device, (A, B, C)))
    for i in range(2):
        np.testing.assert_array_equal(out.cpu().numpy()[:, :, i], A.astype(sums) @ B.astype(sums).T + C)


def test_parts_of_modes():
    x = np.random.default_rng(0).random((6, 8), np.float32)
    out = device(np.full((6, 8), np.nan, np.float32))
    parts[1, 1](out, device(x))
    np.testing.assert_array_equal(out.cpu().numpy(), parts_expected(x))


def test_an_array_of_the_device_is_refused_on_the_host():
    with pytest.raises(mo.ArgumentError, match="on device 0"):
        mo.tensor(torch.zeros(4, device="cuda"))
