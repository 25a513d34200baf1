"""``gemm_streamed`` on the GPU: drawn products, and the same bits again."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from moye.kernels import gemm_streamed
from streamed_products import drawn

DTYPES = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16, torch.float32: np.float32}


def put(x):
    """To the GPU, with the strides that it has."""
    turned = x.strides[0] < x.strides[1]
    held = np.ascontiguousarray(x.T if turned else x)
    if held.dtype.name == "bfloat16":
        t = torch.from_numpy(held.view(np.int16)).cuda().view(torch.bfloat16)
    else:
        t = torch.from_numpy(held).cuda()
    return t.T if turned else t


def get(t):
    """From the GPU, as an array of the same dtype."""
    return t.float().cpu().numpy().astype(DTYPES[t.dtype])


@pytest.mark.parametrize("seed", range(60))
def test_drawn(seed):
    drawn(seed, most=6000, put=put, get=get)


def test_long_rows_split():
    """Blocks that share K, in an order that each run repeats."""
    torch.manual_seed(0)
    A, B = (torch.randn(rows, 20011, device="cuda", dtype=torch.float16) for rows in (301, 5))
    C, again = (torch.full((301, 5), float("nan"), device="cuda") for _ in range(2))
    gemm_streamed(A, B, C)
    gemm_streamed(A, B, again)
    want = A.double() @ B.double().T
    assert torch.equal(C, again) and (C - want).abs().max() < 1e-2
