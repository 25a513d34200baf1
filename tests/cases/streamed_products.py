"""Drawn products of few rows by rows that begin anywhere, against float64; for the simulator and the GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from moye.kernels import gemm_streamed

OUTPUTS = {np.float32: 0.0, np.float16: 2.0 ** -11, ml_dtypes.bfloat16: 2.0 ** -8}


def matrix(rng, rows, columns, order, dtype):
    """Random-normal (rows, columns), contiguous along K or along its rows."""
    x = rng.standard_normal((rows, columns)).astype(dtype)
    return x if order == "K" else np.asfortranarray(x)


def compare(A, B, C):
    """C against float64: rounding of its dtype, and of sums in float32."""
    a, b = A.astype(np.float64), B.astype(np.float64)
    want, size = a @ b.T, np.abs(a) @ np.abs(b).T
    off = np.abs(C.astype(np.float64) - want)
    assert (off <= OUTPUTS[C.dtype.type] * np.abs(want) + 1e-5 * size + 1e-6).all(), off.max()


def drawn(seed, most=600, put=lambda x: x, get=lambda x: x):
    """A product of drawn extents, orders and dtypes, of A or of B that streams; ``put`` and ``get`` know the device."""
    rng = np.random.default_rng(seed)
    rows, K = int(rng.integers(1, most)), int(np.exp(rng.uniform(np.log(32), np.log(1500))))
    order = "KM"[rng.integers(2)]
    rows = rows if order == "K" else max(rows, 32)
    few = min(int(rng.integers(1, 65 if order == "K" else 33)), rows)
    dtype = (np.float16, ml_dtypes.bfloat16)[rng.integers(2)]
    many, small = matrix(rng, rows, K, order, dtype), matrix(rng, few, K, "KM"[rng.integers(2)], dtype)
    A, B = (many, small) if rng.integers(2) else (small, many)
    C = np.full((len(A), len(B)), np.nan, (np.float32, dtype)[rng.integers(2)])
    if rng.integers(2):
        C = np.asfortranarray(C)
    on = put(C)
    gemm_streamed(put(A), put(B), on)
    compare(A, B, get(on))
