"""A call of each operator that comes with moye, with torch's own for a reference: ``CASES[name](place)``.

In: ``place``, a device and a dtype.  Out: the operator or function, its arguments, the reference.  Those of floating
point require grad.  Import it after ``torch = pytest.importorskip("torch")``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import moye.torch as mt
from operator_kernels import numbers

Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


class Place(NamedTuple):
    """Where tensors lie, what they hold, and the factor of their rows and columns."""

    device: str
    dtype: torch.dtype
    times: int = 1

    def numbers(self, *shape: int) -> torch.Tensor:
        return numbers(*shape, dtype=self.dtype, device=self.device)

    def integers(self, below: int, *shape: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(below)
        return torch.randint(below, shape, generator=generator).to(self.device)


def linear(p: Place) -> Case:
    operands = p.numbers(4, 3 * p.times, 8 * p.times), p.numbers(16, 8 * p.times), p.numbers(16)
    return mt.linear, (*operands, "relu"), lambda x, w, b, activation: F.relu(F.linear(x, w, b))


def swiglu(p: Place) -> Case:
    return mt.swiglu, (p.numbers(3, 8 * p.times), p.numbers(3, 8 * p.times)), lambda gate, up: F.silu(gate) * up


def geglu(p: Place) -> Case:
    return mt.geglu, (p.numbers(3, 8 * p.times),), lambda x: F.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]


def permute(p: Place) -> Case:
    return mt.permute, (p.numbers(3, 4, 5 * p.times), [2, 0, 1]), lambda x, axes: x.permute(axes).contiguous()


def rope(p: Place) -> Case:
    angles = torch.outer(torch.arange(3 * p.times), 0.3 ** torch.arange(4, dtype=torch.float64)).to(p.device)

    def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        (a, b), c, s = x.chunk(2, -1), cos[:, None], sin[:, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1)
    return mt.rope, (p.numbers(2, 3 * p.times, 2, 8), angles.cos(), angles.sin()), turned


def embedding(p: Place) -> Case:
    return mt.embedding, (p.integers(6, 2, 4 * p.times), p.numbers(6, 8 * p.times)), F.embedding


def reduce(p: Place) -> Case:
    return mt.reduce, (p.numbers(3, 4, 5 * p.times), "mean", [0, 2]), lambda x, kind, axis: x.mean(axis)


def cumsum(p: Place) -> Case:
    return mt.cumsum, (p.numbers(3, 5 * p.times), 1), torch.cumsum


def top_k(p: Place) -> Case:
    x = torch.randperm(120, generator=torch.Generator().manual_seed(0)).reshape(3, 40)      # no two are equal
    x = x.to(p.device, p.dtype).requires_grad_()
    return mt.top_k, (x, 4), lambda x, k: tuple(torch.topk(x, k))


def softmax(p: Place) -> Case:
    return mt.softmax, (p.numbers(3, 9 * p.times),), lambda x: F.softmax(x, -1)


def log_softmax(p: Place) -> Case:
    return mt.log_softmax, (p.numbers(3, 9 * p.times),), lambda x: F.log_softmax(x, -1)


def cross_entropy(p: Place) -> Case:
    return mt.cross_entropy, (p.numbers(4, 9 * p.times), p.integers(9, 4)), F.cross_entropy


def linear_cross_entropy(p: Place) -> Case:
    operands = p.numbers(4 * p.times, 8), p.numbers(24, 8), p.integers(24, 4 * p.times)
    return mt.linear_cross_entropy, operands, lambda x, weight, labels: F.cross_entropy(x @ weight.T, labels)


def rms_norm(p: Place) -> Case:
    operands = p.numbers(3, 8 * p.times), p.numbers(8 * p.times)
    return mt.rms_norm, operands, lambda x, weight: F.rms_norm(x, weight.shape, weight, 1e-6)


def layer_norm(p: Place) -> Case:
    operands = p.numbers(3, 8 * p.times), p.numbers(8 * p.times), p.numbers(8 * p.times)
    return mt.layer_norm, operands, lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias, 1e-5)


def attention(p: Place) -> Case:
    p = p if p.dtype.itemsize == 2 else p._replace(dtype=torch.bfloat16)       # it takes 16 bits alone
    operands = p.numbers(1, 4 * p.times, 2, 16), p.numbers(1, 5 * p.times, 1, 16), p.numbers(1, 5 * p.times, 1, 16)

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)
    return mt.attention, operands, exact


def rms_norm_fp8(p: Place) -> Case:
    """The factors; what is of eight bits has no comparison of torch's."""
    def largest(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=1e-6).abs().amax(-1) / 448
    return lambda x: mt.rms_norm_fp8(x)[1], (p.numbers(3, 9 * p.times).detach(),), largest


def layer_norm_fp8(p: Place) -> Case:
    def largest(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:]).abs().amax(-1) / 448
    return lambda x: mt.layer_norm_fp8(x)[1], (p.numbers(3, 9 * p.times).detach(),), largest


def paged_attention(p: Place) -> Case:
    """One query over a page of 16 keys: all of them count."""
    p = p if p.dtype.itemsize == 2 else p._replace(dtype=torch.bfloat16)       # it takes 16 bits alone
    q, k, v = p.numbers(p.times, 1, 2, 16), p.numbers(p.times, 16, 1, 16), p.numbers(p.times, 16, 1, 16)
    operands = tuple(x.detach() for x in (q, k, v))
    table = torch.arange(p.times, dtype=torch.int32, device=q.device)[:, None]
    lengths = torch.full((p.times,), 16, dtype=torch.int32, device=q.device)

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)
    return mt.paged_attention, (*operands, table, lengths), exact


CASES: dict[str, Callable[[Place], Case]] = {made.__name__: made for made in (
    attention, cross_entropy, cumsum, embedding, geglu, layer_norm, layer_norm_fp8, linear, linear_cross_entropy,
    log_softmax, paged_attention, permute, reduce, rms_norm, rms_norm_fp8, rope, softmax, swiglu,
    top_k) if made.__name__ in mt.__all__}
