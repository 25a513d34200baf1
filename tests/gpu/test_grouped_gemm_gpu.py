"""Groups that begin at any row, on the GPU, of operands contiguous along either mode."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.kernels import grouped_gemm_sm90

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("order", ["C", "F"])
def test_groups_begin_at_any_row(order):
    if not mo.testing.device("sm_90a"):
        pytest.skip("wgmma needs sm_90a")
    rng = np.random.default_rng(0)
    heights, N, K = (50, 0, 151, 3), 72, 88
    offsets = np.cumsum([0, *heights], dtype=np.int32)
    A = rng.standard_normal((int(offsets[-1]) + 4, K)).astype(np.float16)
    B = rng.standard_normal((N, K, len(heights))).astype(np.float16)
    C = mo.testing.array(np.zeros((len(A), N), np.float32), order=order)
    a, b = mo.testing.array(A, order=order), mo.testing.array(B, order="F" if order == "F" else "K")
    grouped_gemm_sm90(a, b, C, mo.testing.array(offsets))
    exact = np.zeros((len(A), N))
    for g in range(len(heights)):
        rows = slice(*offsets[g:g + 2])
        exact[rows] = A[rows].astype(np.float64) @ B[:, :, g].astype(np.float64).T
    assert np.allclose(mo.testing.host(C), exact, rtol=1e-3, atol=1e-3)
