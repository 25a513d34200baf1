"""The operators of moves, folds and gates on the GPU: against float64, compiled by inductor, and captured."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import moye.torch as mt
from moye import kernels
from moye.torch.operators.gated import _gated
from operators import check_captured, check_operator


def on_gpu(*shape, dtype=torch.float32):
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype).requires_grad_()


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def check(op, arguments, reference):
    check_operator(op, arguments, reference, backend="inductor")
    check_captured(op, arguments)


def test_gates():
    check(_gated, (on_gpu(33, 200), None, "silu"),
          lambda gate, up, activation: F.silu(gate.chunk(2, -1)[0]) * gate.chunk(2, -1)[1])


def test_moves():
    check(mt.permute, (on_gpu(33, 40, 24), [2, 0, 1]), lambda x, axes: x.permute(axes).contiguous())
    ids = torch.tensor([[0, 5, 2], [1, 1, 4]], device="cuda")
    check(mt.embedding, (ids, on_gpu(7, 64)), F.embedding)


def test_rotations():
    angles = torch.outer(torch.arange(40, device="cuda"), 0.7 ** torch.arange(16, device="cuda"))
    op = mt.rope

    def reference(x, cos, sin):
        a, b = x.chunk(2, -1)
        c, s = cos[:20, None], sin[:20, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1)
    check_operator(op, (on_gpu(2, 20, 3, 32), angles.cos(), angles.sin()), reference, backend="inductor")


@pytest.mark.parametrize("kind", ["sum", "logsumexp"])
def test_folds(kind):
    check(mt.reduce, (on_gpu(20, 300), kind, [1]), lambda x, kind, axis: getattr(torch, kind)(x, axis))
    check(mt.cumsum, (on_gpu(20, 301), -1), torch.cumsum)


def test_the_k_largest():
    check_operator(mt.top_k, (on_gpu(20, 300), 8, True), lambda x, k, largest: torch.topk(x, k, -1, largest),
                   backend="inductor")


def test_in_place():
    x = torch.rand(50, 4097, device="cuda")
    for axis in (0, 1):
        y = x.clone()
        kernels.cumsum(y, y, axis=axis)
        assert torch.allclose(y.double(), x.double().cumsum(axis), rtol=1e-5)
    gate, up, dout = (torch.randn(50, 512, device="cuda") for _ in range(3))
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    kernels.swiglu_backward((dgate, dup), dout, gate, up)
    kernels.swiglu_backward((gate, up), dout, gate, up)
    assert torch.equal(gate, dgate) and torch.equal(up, dup)
