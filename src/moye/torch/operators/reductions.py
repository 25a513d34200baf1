"""``reduce``, ``cumsum`` and ``top_k`` by ``moye.kernels``; their gradients are torch's operations on what they gave.

In: a tensor of floating point, of any strides.  Out: contiguous tensors.

    norms = moye.torch.reduce(x, "norm2", [-1])
    values, indices = moye.torch.top_k(logits, 50)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError
from moye.kernels.top_k import MOST
from moye.torch.declare import op


@op("moye::reduce")
def reduce(x: Tensor, kind: str = "sum", axis: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """x reduced over some axes or all, as ``moye.kernels.reduce`` has it, in x's dtype (argmax and argmin: int64).

    The gradient of an extremum is shared by its equals, as that of ``torch.amax``; argmax and argmin have none.
    """
    out = _reduced_like(x, kind, axis, keepdim)
    axes: Any = None if axis is None else list(axis) if len(axis) != 1 else axis[0]
    kernels.reduce(out, x, kind, axis=axes)
    return out


@reduce.fake
def _reduced_like(x: Tensor, kind: str = "sum", axis: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    gone = _gone(x, axis)
    shape = [1 if i in gone else n for i, n in enumerate(x.shape) if keepdim or i not in gone]
    return x.new_empty(shape, dtype=torch.int64 if kind.startswith("arg") else x.dtype)


def _gone(x: Tensor, axis: Sequence[int] | None) -> list[int]:
    return [i % x.dim() for i in axis if -x.dim() <= i < x.dim()] if axis is not None else list(range(x.dim()))


def _keep_both(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.kind, ctx.axis, _ = inputs
    if ctx.kind.startswith("arg"):
        ctx.mark_non_differentiable(output)
    ctx.save_for_backward(x, output)


@reduce.backward(setup=_keep_both, differentiable=True)
def _spread(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, y = ctx.saved_tensors
    full = [1 if i in _gone(x, ctx.axis) else n for i, n in enumerate(x.shape)]
    g, y = gradient.reshape(full), y.reshape(full)
    return _slope(ctx.kind, x, y, g).to(x.dtype), None, None, None


def _slope(kind: str, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    """The gradient of x for that of y, g."""
    if kind == "sum":
        return g.expand_as(x)
    if kind == "mean":
        return (g * (y.numel() / max(x.numel(), 1))).expand_as(x)
    if kind == "logsumexp":
        return g * torch.where(y == -torch.inf, 0.0, torch.exp(x - torch.where(y == -torch.inf, 0.0, y)))
    if kind == "norm1":
        return g * torch.sign(x)
    if kind == "norm2":
        return g * torch.where(y == 0, 0.0, x / torch.where(y == 0, 1.0, y))
    largest = x.abs() if kind == "norminf" else x
    equal = ((largest == y) | (torch.isnan(largest) & torch.isnan(y))).to(x.dtype)
    axes = [i for i, n in enumerate(y.shape) if n == 1]
    shared = equal * (g / equal.sum(axes, keepdim=True))
    return shared * torch.sign(x) if kind == "norminf" else shared


@op("moye::cumsum")
def cumsum(x: Tensor, axis: int = -1) -> Tensor:
    """The inclusive prefix sums of x along an axis, in x's dtype; they can be differentiated twice."""
    out = _summed_like(x, axis)
    kernels.cumsum(out, x, axis=axis)
    return out


@cumsum.fake
def _summed_like(x: Tensor, axis: int = -1) -> Tensor:
    return x.new_empty(x.shape)


def _keep_axis(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.axis = inputs[1]


@cumsum.backward(setup=_keep_axis, differentiable=True)
def _from_behind(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    if not gradient.dim():
        return gradient, None
    return cumsum(gradient.flip(ctx.axis), ctx.axis).flip(ctx.axis), None


@op("moye::top_k")
def top_k(x: Tensor, k: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or least) elements along the last axis, sorted, and their indices (int64); k is at most 2048."""
    values, indices = _chosen_like(x, k, largest)
    kernels.top_k(values, indices, x, largest=largest)
    return values, indices


@top_k.fake
def _chosen_like(x: Tensor, k: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    if not x.dim() or not 0 <= k <= MOST:               # before there is memory for them
        raise ArgumentError(f"top_k: k is {k}, which may be 0 to {MOST}, and x has shape {tuple(x.shape)}")
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _keep_indices(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.shape = inputs[0].shape
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


@top_k.backward(setup=_keep_indices, differentiable=True)
def _scattered(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    indices, = ctx.saved_tensors
    return gradient.new_zeros(ctx.shape).scatter(-1, indices, gradient), None, None
