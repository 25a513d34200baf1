"""Rotary embedding on the GPU against float64: both pairings, layouts, positions, in place and back."""

from __future__ import annotations

import pytest
import torch

from moye.kernels import rope

CLOSE = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 2e-6, torch.float64: 1e-13}


def turned(x, cos, sin, places, interleaved):
    x, half = x.double(), cos.shape[1]
    c, s = cos.double()[places][:, :, None], sin.double()[places][:, :, None]
    one, two = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    out = x.clone()
    out[..., one] = x[..., one] * c - x[..., two] * s
    out[..., two] = x[..., two] * c + x[..., one] * s
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_against_float64(interleaved, dtype):
    torch.manual_seed(0)
    sizes = ((2, 1000, 8, 128, 64), (1, 33, 3, 80, 40), (3, 17, 5, 64, 16), (2, 9, 2, 15, 7))
    for batch, seq, heads, dim, half in sizes:
        angles = torch.outer(torch.arange(2048.0), 10000.0 ** (-torch.arange(half) / half)).cuda()
        angles = angles.to(torch.float64 if dtype == torch.float64 else torch.float32)
        cos, sin = angles.cos(), angles.sin()
        x = torch.randn(batch, heads, seq, dim, device="cuda").to(dtype).transpose(1, 2)
        ids = torch.randint(0, 2048, (batch, seq), device="cuda")
        order = torch.arange(seq, device="cuda").expand(batch, seq)
        for positions, places in ((None, order), (ids, ids), (ids[0], ids[:1])):
            out = torch.full(x.shape, torch.nan, device="cuda").to(dtype)
            rope(out, x, cos, sin, positions=positions, interleaved=interleaved)
            expected = turned(x, cos, sin, places, interleaved)
            assert torch.allclose(out.double(), expected, rtol=CLOSE[dtype], atol=CLOSE[dtype])
            rope(out, out, cos, sin, positions=positions, interleaved=interleaved, inverse=True)
            assert torch.allclose(out.double(), x.double(), rtol=3 * CLOSE[dtype], atol=3 * CLOSE[dtype])
