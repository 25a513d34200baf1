"""SwiGLU and GeGLU on the GPU against float64, forward and backward, packed and apart."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from moye.kernels import geglu, geglu_backward, swiglu, swiglu_backward

CLOSE = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 3e-6, torch.float64: 1e-13}


def close(got, expected):
    assert torch.allclose(got.double(), expected, rtol=CLOSE[got.dtype], atol=CLOSE[got.dtype] * 0.5)


@pytest.mark.parametrize("kind", ["silu", "none", "tanh"])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_against_float64(kind, dtype):
    torch.manual_seed(0)
    for rows, columns, gap in ((1, 1, 0), (64, 8192, 0), (37, 4097, 0), (129, 1000, 24), (4096, 1536, 0)):
        both = torch.randn(rows, 2 * columns + gap, device="cuda").to(dtype)[:, :2 * columns]
        dout = torch.randn(rows, columns, device="cuda").to(dtype)
        out, grads = torch.full_like(dout, torch.nan), torch.full_like(torch.cat([dout, dout], -1), torch.nan)
        options = {} if kind == "silu" else {"approximate": kind}
        (swiglu if kind == "silu" else geglu)(out, both, **options)
        (swiglu_backward if kind == "silu" else geglu_backward)(grads, dout, both, **options)
        wide = both.double().requires_grad_()
        gate, up = wide.chunk(2, -1)
        expected = (F.silu(gate) if kind == "silu" else F.gelu(gate, approximate=kind)) * up
        expected.backward(dout.double())
        close(out, expected.detach())
        close(grads, wide.grad)
        gate, up = (half.contiguous() for half in both.chunk(2, -1))
        pair = torch.empty_like(gate), torch.empty_like(up)
        (swiglu_backward if kind == "silu" else geglu_backward)(pair, dout, gate, up, **options)
        assert torch.equal(torch.cat(pair, -1), grads)
