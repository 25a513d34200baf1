"""RMSNorm and LayerNorm on the GPU against float64: clusters, streams, strides, 8 bits, gradients."""

from __future__ import annotations

import pytest
import torch

import moye.torch
from moye.kernels import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from operators import check_captured, check_compiled, check_reference

BOUND = {torch.float32: 5e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def normed(x, weight, residual=None, *, centred=False):
    """(out, h, mean, rstd) in float64."""
    h = (x if residual is None else (x.float() + residual.float()).to(x.dtype)).double()
    mean = h.mean(-1, keepdim=True) if centred else torch.zeros_like(h[..., :1])
    rstd = torch.rsqrt((h - mean).square().mean(-1, keepdim=True) + 1e-3)
    return (h - mean) * rstd * weight.double(), h, mean, rstd


def close(found, want):
    bound = BOUND[found.dtype]
    torch.testing.assert_close(found.double(), want, rtol=bound, atol=bound * max(1.0, want.abs().max().item()))


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


SHAPES = [(3, 1), (5000, 64), (5000, 37), (3000, 1024), (3000, 1027), (2000, 4096), (2000, 4097), (1, 8192),
          (600, 8192), (300, 16391), (64, 65536), (40, 131072), (3, 131075), (20, 262144), (2, 600000)]


@pytest.mark.parametrize("rows, columns, dtype, centred", [
    (*shape, dtype, (i + j) % 2 > 0) for i, shape in enumerate(SHAPES)
    for j, dtype in enumerate((torch.float32, torch.bfloat16))])
def test_forward_and_backward(rows, columns, dtype, centred):
    x, residual, dout, dsummed = (random(rows, columns, dtype=dtype) for _ in range(4))
    weight = random(columns, dtype=dtype)
    out, summed, dx = (torch.full_like(x, torch.nan) for _ in range(3))
    dweight, dbias = torch.full_like(weight, torch.nan), torch.full_like(weight, torch.nan)
    rstd, mean = (torch.full((rows,), torch.nan, device="cuda") for _ in range(2))
    more = {"mean": mean} if centred else {}
    (layer_norm if centred else rms_norm)(out, x, weight, eps=1e-3, residual=residual, summed=summed, rstd=rstd, **more)
    want, h, middle, scale = normed(x, weight, residual, centred=centred)
    assert torch.equal(summed.double(), h)
    close(out, want)
    close(rstd, scale[:, 0])
    arguments = (dx, dout, summed, weight, rstd, *([mean] if centred else []))
    (layer_norm_backward if centred else rms_norm_backward)(*arguments, dweight=dweight, dbias=dbias, dsummed=dsummed)
    hat, g = (h - middle) * scale, dout.double()
    inner = g * weight.double()
    across = inner.mean(-1, keepdim=True) if centred else 0
    close(dx, scale * (inner - across - hat * (inner * hat).mean(-1, keepdim=True)) + dsummed.double())
    close(dweight, (g * hat).sum(0))
    close(dbias, g.sum(0))


@pytest.mark.parametrize("make", [
    lambda: random(100, 4100, dtype=torch.bfloat16)[:, 1:4098], lambda: random(520, 200).t(),
    lambda: random(7, 9, 300).transpose(0, 1), lambda: random(6, 5, 1000, dtype=torch.float16)[:, 1:4, 3:],
    lambda: random(50, 2 * 777)[:, ::2]])
def test_strides_with_nothing_written_beyond(make):
    x, room = make(), make()
    whole = room._base
    whole.fill_(7)
    rms_norm(room, x, eps=1e-3)
    close(room, normed(x, torch.ones(x.shape[-1], device="cuda"))[0])
    room.fill_(7)
    assert (whole == 7).all()


@pytest.mark.parametrize("columns", [4096, 4097, 300, 131072])
@pytest.mark.parametrize("block", [None, 128])
def test_8_bits(columns, block):
    x, weight = random(70, columns, dtype=torch.bfloat16), random(columns, dtype=torch.bfloat16)
    x[3] = 0
    out = torch.zeros(70, columns, device="cuda", dtype=torch.float8_e4m3fn)
    scale = torch.full((70, -(-columns // block)) if block else (70,), torch.nan, device="cuda")
    rms_norm(out, x, weight, eps=1e-3, scale=scale)
    factor = scale.repeat_interleave(block, 1)[:, :columns] if block else scale[:, None]
    want = normed(x, weight)[0]
    assert ((out.double() * factor.double() - want).abs() <= want.abs() / 15 + 2.0 ** -9 * factor.double()).all()
    assert (scale[3] == 0).all() and out.float().abs().max() == 448


def test_same_bits_again():
    x, dout = (random(5000, 4096, dtype=torch.bfloat16) for _ in range(2))
    rstd, found = torch.ones(5000, device="cuda"), []
    for _ in range(3):
        dx, dweight = torch.empty_like(x), torch.empty(4096, device="cuda")
        rms_norm_backward(dx, dout, x, None, rstd, dweight=dweight)
        found.append((dx, dweight))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def called(x, weight, residual):
    return moye.torch.rms_norm(x, weight, residual=residual)


def test_operators():
    arguments = [random(*shape, dtype=torch.bfloat16).requires_grad_() for shape in ((200, 520), (520,), (200, 520))]
    check_captured(called, arguments)
    check_compiled(called, arguments, "inductor")
    own = torch.nn.functional
    check_reference(lambda x, w: moye.torch.layer_norm(x, w), arguments[:2],
                    lambda x, w: own.layer_norm(x, (520,), w, None, 1e-5))
