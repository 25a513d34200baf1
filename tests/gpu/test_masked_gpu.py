"""Ragged vectors and rows on the GPU: right at every alignment, with nothing written beyond."""

from __future__ import annotations

import pytest

import masked_kernels as kernels
import masked_rows as rows

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("n", [1, 511, 4096, 100_003])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_add(n, start):
    """Also of arrays whose data begin between two vectors: then all goes element by element."""
    a, b = (torch.randn(n + start, device="cuda")[start:] for _ in range(2))
    room = torch.full((n + start + 8,), 7.0, device="cuda")
    out = room[start:n + start]
    kernels.launch_add(out, a, b)
    assert torch.equal(out, a + b)
    assert (room[:start] == 7).all() and (room[n + start:] == 7).all()


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("columns", [4096, 4097, 301, 8])
def test_rms_norm(columns, dtype, bound):
    x = torch.randn(1000, columns, device="cuda").to(dtype)
    weight = torch.randn(columns, device="cuda").to(dtype)
    out = torch.zeros_like(x)
    kernels.launch_rms_norm(out, x, weight)
    wide = x.double()
    want = wide / (wide.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight.double()
    torch.testing.assert_close(out.double(), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("columns", [4096, 4097, 301])
@pytest.mark.parametrize("way", ["edges", "granules", "staged"])
def test_other_ways_of_rows(way, columns):
    x = torch.randn(1000, columns, device="cuda").bfloat16()
    weight, out = torch.randn(columns, device="cuda").bfloat16(), torch.zeros_like(x)
    getattr(rows, f"launch_{way}")(out, x, weight)
    wide = x.double()
    want = wide / (wide.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight.double()
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=2e-2)
