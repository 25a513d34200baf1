"""Embedding on the GPU beside torch: rows bit by bit, gradients against float64 and the same in each run."""

from __future__ import annotations

import pytest
import torch

from moye.kernels import embedding, embedding_backward


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_against_torch(dtype):
    torch.manual_seed(0)
    for rows, columns, shape in ((1000, 4096, (2, 512)), (37, 129, (700,)), (128256, 1024, (4, 300)), (5, 8, ())):
        table = torch.randn(rows, columns, device="cuda").to(dtype)
        ids = (torch.rand(shape, device="cuda") ** 4 * rows).long()         # few rows with many ids
        out = torch.empty(*shape, columns, device="cuda", dtype=dtype)
        embedding(out, table, ids)
        assert torch.equal(out, table[ids])
        dtable, again = torch.full_like(table, torch.nan), torch.empty_like(table)
        embedding_backward(dtable, out, ids)
        expected = torch.zeros(rows, columns, device="cuda", dtype=torch.float64)
        expected.index_add_(0, ids.reshape(-1), out.double().reshape(-1, columns))
        close = {torch.bfloat16: 8e-3, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
        assert torch.allclose(dtable.double(), expected, rtol=close, atol=close * 10)
        embedding_backward(again, out, ids)
        assert torch.equal(again, dtable)
