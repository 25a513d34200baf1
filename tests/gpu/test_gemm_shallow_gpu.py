"""``gemm_shallow`` on the GPU: drawn products, and few k of a large C."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from moye.kernels import gemm, gemm_shallow
from shallow_products import drawn, drawn_batch

DTYPES = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16, torch.float32: np.float32}


def put(x):
    """To the GPU, with the strides and the place behind 16 bytes that it has."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    kind, held = next(t for t, d in DTYPES.items() if d == x.dtype.type), np.ascontiguousarray(base.ravel("K"))
    flat = torch.from_numpy(held.view(f"i{held.dtype.itemsize}")).cuda().view(kind)
    first = (x.ctypes.data - base.ctypes.data) // x.itemsize
    return flat.as_strided(x.shape, [step // x.itemsize for step in x.strides], first)


def get(t):
    """From the GPU, as an array of the same dtype."""
    return t.float().cpu().numpy().astype(DTYPES[t.dtype])


@pytest.mark.parametrize("seed", range(80))
def test_drawn(seed):
    drawn(seed, most=3000, put=put, get=get)


@pytest.mark.parametrize("seed", range(80))
def test_drawn_batches(seed):
    drawn_batch(seed, most=1000, put=put, get=get)


@pytest.mark.parametrize(("M", "N", "K"), [(10747, 417, 19), (31, 40001, 51), (70001, 33, 100)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_many_tiles(M, N, K, dtype):
    """As ``gemm`` takes it, on poisoned memory; twice the same bits."""
    torch.manual_seed(K)
    A, B = (torch.randn(rows, K, device="cuda", dtype=dtype) for rows in (M, N))
    C, again = (torch.full((M, N), float("nan"), device="cuda", dtype=dtype) for _ in range(2))
    gemm_shallow(A, B, C)
    gemm(A, B, again, tf32=True)
    want = A.double() @ B.double().T
    most = K ** 0.5 * 2.0 ** -8
    assert (C - want).abs().max() < most and (again - want).abs().max() < most
