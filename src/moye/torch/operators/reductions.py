"""``reduce``, ``cumsum`` and ``top_k`` by ``moye.kernels``; their gradients are torch's operations on what they gave.

In: a tensor of floating point, of any strides.  Out: contiguous tensors.

    norms = moye.torch.reduce(x, "norm2", [-1])
    values, indices = moye.torch.top_k(logits, 50)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError
from moye.kernels.top_k import MOST
from moye.torch.declare import op


def reduce(x: Tensor, kind: str = "sum", axis: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """x reduced over an axis, some or all, as ``moye.kernels.reduce`` has it, in x's dtype (argmax and argmin: int64).

    The gradient of an extremum is shared by its equals, as that of ``torch.amax``; argmax and argmin have none.
    """
    found: Tensor = _reduce(x, kind, [axis] if axis.__class__ is int else axis, keepdim)
    return found


@op("moye::reduce")
def _reduce(x: Tensor, kind: str, axis: Sequence[int] | None, keepdim: bool) -> Tensor:
    out = _reduced_like(x, kind, axis, keepdim)
    axes: Any = None if axis is None else list(axis) if len(axis) != 1 else axis[0]
    kernels.reduce(out, x, kind, axis=axes)
    return out


@_reduce.fake
def _reduced_like(x: Tensor, kind: str, axis: Sequence[int] | None, keepdim: bool) -> Tensor:
    gone = _gone(x, axis)
    shape = [1 if i in gone else n for i, n in enumerate(x.shape) if keepdim or i not in gone]
    return x.new_empty(shape, dtype=torch.int64 if kind.startswith("arg") else x.dtype)


def _gone(x: Tensor, axis: Sequence[int] | None) -> list[int]:
    return [i % x.dim() for i in axis if -x.dim() <= i < x.dim()] if axis is not None else list(range(x.dim()))


_KEPT = {"sum": 0, "mean": 0, "norm1": 1}
"""How many of (x, result) the gradient of a kind looks at; both where nothing is said."""


def _keep_used(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.kind, axis, _ = inputs
    if ctx.kind.startswith("arg"):
        ctx.mark_non_differentiable(output)
        return
    ctx.shape, ctx.gone = x.shape, _gone(x, axis)
    ctx.save_for_backward(*(x, output)[:_KEPT.get(ctx.kind, 2)])


@_reduce.backward(setup=_keep_used, differentiable=True)
def _spread(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    full = [1 if i in ctx.gone else n for i, n in enumerate(ctx.shape)]
    g = gradient.reshape(full)
    if ctx.kind == "mean":
        g = g / math.prod(ctx.shape[i] for i in ctx.gone)
    if ctx.kind in ("sum", "mean"):
        return g.expand(ctx.shape), None, None, None
    x, *result = ctx.saved_tensors
    return _slope(ctx.kind, x, result[0].reshape(full) if result else g, g, ctx.gone).to(x.dtype), None, None, None


def _slope(kind: str, x: Tensor, y: Tensor, g: Tensor, gone: list[int]) -> Tensor:
    """The gradient of x for that of y, g, which has axes of one element where x is reduced."""
    if kind == "logsumexp":
        return g * torch.where(y == -torch.inf, 0.0, torch.exp(x - torch.where(y == -torch.inf, 0.0, y)))
    if kind == "norm1":
        return g * torch.sign(x)
    if kind == "norm2":
        return g * torch.where(y == 0, 0.0, x / torch.where(y == 0, 1.0, y))
    largest = x.abs() if kind == "norminf" else x
    equal = (largest == y) | (torch.isnan(largest) & torch.isnan(y))
    count = equal.sum(gone, keepdim=True) if gone else 1        # of no axes torch takes all
    shared = equal * (g.double() / count).to(x.dtype)           # float16 has no 70000
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
