"""``attention`` by ``moye.kernels``, and its gradients.

In: q (batch, queries, heads, dim), k, v (batch, keys, heads_k, dim).  Out: (batch, queries, heads, dim_v).

    out = moye.torch.attention(q, k, v, causal=True)
    out, lse = moye.torch.attention(q, k, v, window=(1024, 0), return_lse=True)

Nothing of queries times keys is kept: the gradient computes the scores again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import UnsupportedError
from moye.torch.declare import op


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False,
              window: tuple[int | None, int | None] = (None, None), scale: float | None = None, softcap: float = 0.0,
              bias: Tensor | None = None, alibi: Tensor | None = None, sinks: Tensor | None = None,
              return_lse: bool = False) -> Any:
    """softmax(scale * q k^T + bias) v for each head, as ``moye.kernels.attention`` has it, in a new tensor.

    q, k, v and sinks are differentiated; ``return_lse`` gives (out, lse), and lse is not.  float32 and float64 are
    exact rather than fast: ordinary cores take them.  UnsupportedError for a bias or slopes that require grad,
    ArgumentError as ``moye.kernels.attention`` has it.
    """
    for name, x in (("bias", bias), ("alibi", alibi)):
        if x is not None and x.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(f"attention has no gradient of {name}", hint=f"pass {name}.detach()")
    left, right = window
    out, lse = _attention(q, k, v, bias, alibi, sinks, causal, left, right, scale, float(softcap))
    return (out, lse) if return_lse else out


@op("moye::attention")
def _attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, alibi: Tensor | None, sinks: Tensor | None,
               causal: bool, left: int | None, right: int | None, scale: float | None,
               softcap: float) -> tuple[Tensor, Tensor]:
    out, lse = _like(q, k, v)
    kernels.attention(out, q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap,
                      bias=None if bias is None else bias.expand(*lse.shape, k.shape[1]), alibi=alibi, sinks=sinks,
                      lse=lse)
    return out, lse


@_attention.fake
def _like(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    batch, queries, heads, _dim = q.shape
    sums = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty((batch, queries, heads, v.shape[-1])), q.new_empty((batch, heads, queries), dtype=sums)


@op("moye::attention_backward")
def _attention_backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Tensor | None,
                        alibi: Tensor | None, causal: bool, left: int | None, right: int | None, scale: float | None,
                        softcap: float) -> tuple[Tensor, Tensor, Tensor]:
    gradients = _gradients_like(dout, q, k, v)
    if dout.stride(-1) != 1 or 0 in dout.stride():      # such as that of a sum, which is one number everywhere
        dout = dout.contiguous()
    kernels.attention_backward(*gradients, dout, q, k, v, out, lse, causal=causal, window=(left, right), scale=scale,
                               softcap=softcap, alibi=alibi, deterministic=torch.are_deterministic_algorithms_enabled(),
                               bias=None if bias is None else bias.expand(*lse.shape, k.shape[1]))
    return gradients


@_attention_backward.fake
def _gradients_like(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, bias, alibi, sinks, *ctx.options = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, bias, alibi, sinks, *output)


@_attention.backward(setup=_keep)
def _gradients(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, bias, alibi, sinks, out, lse = ctx.saved_tensors
    dq, dk, dv = _attention_backward(dout, q, k, v, out, lse, bias, alibi, *ctx.options)
    return dq, dk, dv, None, None, _gradient_of_sinks(dout, out, lse, sinks), *(None for _ in ctx.options)


def _gradient_of_sinks(dout: Tensor, out: Tensor, lse: Tensor, sinks: Tensor | None) -> Tensor | None:
    """A sink takes weight from all values: minus its weight times the product of result and gradient, summed up."""
    if sinks is None:
        return None
    product = (dout.to(lse.dtype) * out.to(lse.dtype)).sum(-1).transpose(1, 2)          # (batch, heads, queries)
    return -(torch.exp(sinks[:, None] - lse) * product).sum((0, 2))
