"""On a device: what changed since a kernel was traced, and attention where scores are no ordinary numbers."""

from __future__ import annotations

import pytest
import torch

import moye as mo
from moye.kernels import attention, attention_backward


class Setting:
    factor = 2.0


class Plain:
    def __init__(self, factor):
        self.factor = factor


def scaled(x, by=1.0):
    return x * by


@mo.kernel
def of_names(out, x):
    out[mo.thread_idx().x] = scaled(x[mo.thread_idx().x]) * Setting.factor


@mo.kernel
def of_object(out, x, plain: mo.Constexpr):
    out[mo.thread_idx().x] = x[mo.thread_idx().x] * plain.factor


@pytest.mark.parametrize(("owner", "name", "value"), [
    (Setting, "factor", 3.0), (scaled, "__defaults__", (1.5,)), (scaled, "__code__", (lambda x, by: x * 1.5).__code__)])
def test_the_short_way_notices_what_changed(monkeypatch, owner, name, value):
    x, out = torch.ones(32, device="cuda"), torch.empty(32, device="cuda")
    for _ in range(3):
        of_names[1, 32](out, x)
        assert (out == 2).all()
    monkeypatch.setattr(owner, name, value)
    for _ in range(3):
        of_names[1, 32](out, x)
        assert (out == 3).all()


def test_the_short_way_notices_an_argument_that_changed():
    x, out, plain = torch.ones(32, device="cuda"), torch.empty(32, device="cuda"), Plain(2.0)
    for factor in (2.0, 2.0, 5.0, 5.0):
        plain.factor = factor
        of_object[1, 32](out, x, plain)
        assert (out == factor).all()


@pytest.mark.parametrize("keys", [5, 300])
def test_rows_of_bias_that_count_nothing(keys):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, n, 2, 64, device="cuda", dtype=torch.bfloat16) for n in (5, keys, keys))
    bias = torch.zeros(1, 2, 5, keys, device="cuda", dtype=torch.bfloat16)
    bias[:, :, 1], bias[:, 0, 2, :keys - 2] = -torch.inf, -torch.inf
    out, lse = torch.full_like(q, torch.nan), torch.empty(1, 2, 5, device="cuda")
    attention(out, q, k, v, bias=bias, lse=lse)
    scores = torch.einsum("bmhd,bnhd->bhmn", q.double(), k.double()) / 8 + bias.double()
    shares = torch.nan_to_num(scores.softmax(-1))
    assert torch.allclose(out.double(), torch.einsum("bhmn,bnhd->bmhd", shares, v.double()), atol=2e-2)
    assert (out[:, 1] == 0).all() and torch.isneginf(lse[:, :, 1]).all()
    gradients = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    dout = torch.randn_like(q)
    attention_backward(*gradients, dout, q, k, v, out, lse, bias=bias)
    assert torch.allclose(gradients[2].double(), torch.einsum("bhmn,bmhd->bnhd", shares, dout.double()), atol=3e-2)
    assert all(torch.isfinite(x).all() for x in gradients) and (gradients[0][:, 1] == 0).all()


def test_a_scale_of_0_weighs_all_keys_alike():
    q, k, v = (torch.randn(1, n, 2, 64, device="cuda", dtype=torch.bfloat16) for n in (3, 200, 200))
    out = torch.full_like(q, torch.nan)
    attention(out, q, k, v, scale=0.0)
    assert torch.allclose(out.double(), v.double().mean(1, keepdim=True).expand_as(q), atol=1e-2)
