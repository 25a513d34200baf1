"""``linear``: the product of ``torch.nn.functional.linear`` by ``moye.kernels.gemm``, and its gradients by products.

In: x (..., K), weight (N, K), bias (N,).  Out: activation(x @ weight.T + bias), of shape (..., N).

    y = moye.torch.linear(x, weight, bias, activation="gelu")

Bias and activation are part of the product where its kernel takes them; an activation that a gradient goes through is
torch's own, behind the product, because its gradient needs the sums.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from moye.errors import ArgumentError
from moye.kernels import gemm
from moye.kernels.options import shown
from moye.torch.declare import op
from moye.torch.operators.arguments import require_tensors

_ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
                "silu": torch.nn.functional.silu}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none",
           tf32: bool = False) -> Tensor:
    """activation(x @ weight.T + bias), as ``torch.nn.functional.linear`` has it; it can be differentiated twice.

    x (..., K), weight (N, K) and bias (N,) are of one dtype, float16, bfloat16, float32 or float64, and so is the
    result (..., N).  ``activation`` is "none", "relu", "gelu" or "silu".  ``tf32`` multiplies float32 on tensor cores.
    Inside of ``torch.autocast`` the operands are cast to its dtype.  ArgumentError for other shapes, dtypes and
    activations.
    """
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ArgumentError(f"linear has no activation {shown(activation)}; there are {', '.join(_ACTIVATIONS)}")
    require_tensors("linear", x=x, weight=weight, **({} if bias is None else {"bias": bias}))
    tracked = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad
                                           or (bias is not None and bias.requires_grad))
    if activation == "none" or not tracked:
        return _linear(x, weight, bias, activation, tf32)
    return _ACTIVATIONS[activation](_linear(x, weight, bias, "none", tf32))


@op("moye::linear", autocast="region")
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, tf32: bool) -> Tensor:
    _require(x, weight, bias)
    out = _like(x, weight, bias, activation, tf32)
    if not out.numel():
        return out
    A, C = _rows(x), _rows(out)
    if not x.shape[-1]:
        C.copy_(torch.zeros_like(C) if bias is None else bias)
        return _ACTIVATIONS[activation](out) if activation != "none" else out
    gemm(A, weight, C, bias=bias, activation=activation, tf32=tf32)
    return out


@_linear.fake
def _like(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, tf32: bool) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, activation, ctx.tf32 = inputs
    if activation != "none":
        raise ArgumentError("moye::linear with an activation has no gradient", hint="moye.torch.linear has one")
    need_x, need_weight = ctx.needs_input_grad[:2]      # the other operand of what is frozen is of no use
    ctx.save_for_backward(x if need_weight else None, weight if need_x else None)


@_linear.backward(setup=_keep, differentiable=True)
def _gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """Products again: of the gradient with the weight, and with x."""
    x, weight = ctx.saved_tensors
    need_x, need_weight, need_bias = ctx.needs_input_grad[:3]
    flat = _rows(gradient)
    dx = _linear(gradient, weight.t(), None, "none", ctx.tf32) if need_x else None
    dweight = _linear(flat.t(), _rows(x).t(), None, "none", ctx.tf32) if need_weight else None
    return dx, dweight, flat.sum(0) if need_bias else None, None, None


def _rows(x: Tensor) -> Tensor:
    """A matrix of x's last mode and all others."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _require(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """ArgumentError for operands that do not belong together."""
    if weight.dim() != 2 or not x.dim() or x.shape[-1] != weight.shape[1]:
        raise ArgumentError(f"linear takes x (..., K) and weight (N, K), not {tuple(x.shape)} and "
                            f"{tuple(weight.shape)}")
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ArgumentError(f"linear: bias has shape {tuple(bias.shape)}, and weight has {weight.shape[0]} rows")
    if x.dtype != weight.dtype or (bias is not None and bias.dtype != x.dtype) or not x.is_floating_point():
        dtypes = [str(operand.dtype) for operand in (x, weight, bias) if operand is not None]
        raise ArgumentError(f"linear takes operands of one dtype of floating point, not {', '.join(dtypes)}")
