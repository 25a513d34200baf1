"""``swiglu`` and ``geglu``: gated activations by ``moye.kernels``, and their gradients by one kernel more.

In: gate and up, or one tensor that holds gates and behind them ups.  Out: activation(gate) * up.

    y = moye.torch.swiglu(x @ w_gate_up)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError
from moye.torch.declare import op


@op("moye::gated")
def _gated(gate: Tensor, up: Tensor | None, activation: str) -> Tensor:
    out = _like(gate, up, activation)
    if activation == "silu":
        kernels.swiglu(out, gate, up)
    else:
        kernels.geglu(out, gate, up, approximate=activation)
    return out


@_gated.fake
def _like(gate: Tensor, up: Tensor | None, activation: str) -> Tensor:
    if not gate.dim():
        raise ArgumentError("swiglu and geglu: gate is one number, and must have a mode or more",
                            hint="pass gate.reshape(1)")
    last = gate.shape[-1:] if up is not None else [gate.shape[-1] // 2]
    return gate.new_empty((*gate.shape[:-1], *last))


@op("moye::gated_backward")
def _gated_backward(dout: Tensor, gate: Tensor, up: Tensor | None, activation: str) -> list[Tensor]:
    """The gradient of gate, and of up if it is a tensor of its own."""
    grads = _gradients_like(dout, gate, up, activation)
    given: Any = grads[0] if up is None else tuple(grads)
    if activation == "silu":
        kernels.swiglu_backward(given, dout, gate, up)
    else:
        kernels.geglu_backward(given, dout, gate, up, approximate=activation)
    return grads


@_gated_backward.fake
def _gradients_like(dout: Tensor, gate: Tensor, up: Tensor | None, activation: str) -> list[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (gate, up) if x is not None]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    gate, up, ctx.activation = inputs
    ctx.save_for_backward(gate, *([up] if up is not None else []))


@_gated.backward(setup=_keep)
def _gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    gate, *up = ctx.saved_tensors
    grads = _gated_backward(gradient, gate, up[0] if up else None, ctx.activation)
    return grads[0], grads[1] if up else None, None


def swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """silu(gate) * up; without ``up`` the second half of gate's last axis is it.

    Tensors of floating point of one shape and any strides; the result is contiguous and of gate's dtype.  ArgumentError
    for anything else.
    """
    result: Tensor = _gated(gate, up, "silu")
    return result


def geglu(gate: Tensor, up: Tensor | None = None, approximate: str = "none") -> Tensor:
    """gelu(gate) * up, as ``swiglu`` in all else; ``approximate`` is "none" or "tanh"."""
    gelu = "'silu'" if isinstance(approximate, str) and approximate == "silu" else approximate
    result: Tensor = _gated(gate, up, gelu)
    return result
