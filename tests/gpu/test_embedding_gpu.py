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


@pytest.mark.parametrize("ids_dtype", [torch.int32, torch.int64], ids=str)
def test_many_ids(ids_dtype):
    """Sorted by one, two and three digits: float64 sums, and the same bits twice."""
    torch.manual_seed(1)
    for rows, columns, count in ((200, 40, 20000), (32000, 64, 1 << 20), (128256, 129, 300001)):
        ids = (torch.rand(count, device="cuda") ** 2 * rows).to(ids_dtype)
        dout = torch.randn(count, columns, device="cuda")
        dtable, again = (torch.full((rows, columns), torch.nan, device="cuda") for _ in range(2))
        embedding_backward(dtable, dout, ids)
        embedding_backward(again, dout, ids)
        expected = torch.zeros(rows, columns, device="cuda", dtype=torch.float64).index_add_(0, ids, dout.double())
        scale = torch.zeros_like(expected).index_add_(0, ids, dout.double().abs())
        assert ((dtable.double() - expected).abs() <= 1e-5 * scale + 1e-7).all()
        assert torch.equal(dtable, again)
