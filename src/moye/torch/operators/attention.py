"""``attention`` by ``moye.kernels``, and its gradients; ``paged_attention``, which has none.

In: q (batch, queries, heads, dim), k, v (batch, keys, heads_k, dim), bfloat16 or float16.  Out: (batch, queries, heads,
dim_v).

    out = moye.torch.attention(q, k, v, causal=True)
    out, lse = moye.torch.attention(q, k, v, window=(1024, 0), return_lse=True)
    out = moye.torch.attention(q8, k8, v8, q_scale=a, k_scale=b, v_scale=c, dtype=torch.bfloat16)
    out = moye.torch.paged_attention(q, k_cache, v_cache, page_table, lengths)

Nothing of queries times keys is kept: the gradient computes the scores again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError, UnsupportedError
from moye.kernels.options import flag, shown
from moye.torch.declare import op
from moye.torch.operators.arguments import number, require_tensors


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False,
              window: tuple[int | None, int | None] = (None, None), scale: float | None = None, softcap: float = 0.0,
              bias: Tensor | None = None, alibi: Tensor | None = None, sinks: Tensor | None = None,
              q_scale: Tensor | None = None, k_scale: Tensor | None = None, v_scale: Tensor | None = None,
              dtype: torch.dtype = torch.bfloat16, return_lse: bool = False) -> Any:
    """softmax(scale * q k^T + bias) v for each head, as ``moye.kernels.attention`` has it, in a new tensor.

    q, k, v and sinks are differentiated; ``return_lse`` gives (out, lse), and lse is not.  float32 and float64 are
    exact rather than fast: ordinary cores take them.  q, k and v of float8_e4m3fn have factors, tensors (heads) or
    (batch, heads), and no gradient; the result is then of ``dtype``.  UnsupportedError for a bias or slopes that
    require grad, ArgumentError as ``moye.kernels.attention`` has it.
    """
    require_tensors("attention", modes=4, q=q, k=k, v=v)
    require_tensors("attention", **{name: x for name, x in (("bias", bias), ("alibi", alibi)) if x is not None})
    for name, x in (("bias", bias), ("alibi", alibi)):
        if x is not None and x.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(f"attention has no gradient of {name}", hint=f"pass {name}.detach()")
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ArgumentError(f"attention: window={shown(window)} is no pair (keys behind, keys before)")
    (left, right), softcap = window, number("attention", "softcap", softcap)
    return_lse = flag("attention", "return_lse", return_lse)
    if q.dtype == torch.float8_e4m3fn:
        out, lse = _attention_8bit(q, k, v, q_scale, k_scale, v_scale, bias, alibi, sinks, causal, left, right, scale,
                                   softcap, dtype)
    elif q_scale is None and k_scale is None and v_scale is None:
        out, lse = _attention(q, k, v, bias, alibi, sinks, causal, left, right, scale, softcap)
    else:
        raise ArgumentError(f"attention: q_scale, k_scale and v_scale are for float8_e4m3fn, and q is {q.dtype}")
    return (out, lse) if return_lse else out


def _repeated(bias: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """A bias for every batch, head, query and key."""
    if bias is None:
        return None
    if bias.dim() > len(shape) or any(n not in (1, m) for n, m in zip(
            bias.shape, shape[len(shape) - bias.dim():], strict=True)):
        raise ArgumentError(f"attention: bias has shape {tuple(bias.shape)}, which is not repeated to {shape}")
    return bias.expand(shape)


@op("moye::attention")
def _attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, alibi: Tensor | None, sinks: Tensor | None,
               causal: bool, left: int | None, right: int | None, scale: float | None,
               softcap: float) -> tuple[Tensor, Tensor]:
    out, lse = _like(q, k, v)
    kernels.attention(out, q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap,
                      bias=_repeated(bias, (*lse.shape, k.shape[1])), alibi=alibi, sinks=sinks,
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
                               bias=_repeated(bias, (*lse.shape, k.shape[1])))
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
    # Where nothing counts, and the sink neither, its share is 0: -inf less itself would be NaN.
    shares = torch.exp(sinks[:, None] - lse).masked_fill(lse == -torch.inf, 0)
    return -(shares * product).sum((0, 2))


# --- without gradients -----------------------------------------------------------------------------------------------


@op("moye::attention_8bit")
def _attention_8bit(q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor | None, k_scale: Tensor | None,
                    v_scale: Tensor | None, bias: Tensor | None, alibi: Tensor | None, sinks: Tensor | None,
                    causal: bool, left: int | None, right: int | None, scale: float | None, softcap: float,
                    dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    (batch, queries, heads, _dim), keys = q.shape, k.shape[1]
    out, lse = _results(q, v.shape[-1], dtype)
    kernels.attention(out, q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap,
                      bias=_repeated(bias, (batch, heads, queries, keys)), alibi=alibi, sinks=sinks,
                      q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, lse=lse)
    return out, lse


@_attention_8bit.fake
def _like_8bit(q: Tensor, _k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    return _results(q, v.shape[-1], options[-1])


def _results(q: Tensor, dim_v: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Memory for results of this dtype, and for their logarithms."""
    batch, queries, heads, _dim = q.shape
    return (q.new_empty((batch, queries, heads, dim_v), dtype=dtype),
            q.new_empty((batch, heads, queries), dtype=torch.float32))


def paged_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, page_table: Tensor, lengths: Tensor, *,
                    window: int | None = None, scale: float | None = None, softcap: float = 0.0,
                    bias: Tensor | None = None, alibi: Tensor | None = None, sinks: Tensor | None = None,
                    k_scale: Tensor | None = None, v_scale: Tensor | None = None, return_lse: bool = False) -> Any:
    """Attention of few queries over keys and values in pages, as ``moye.kernels.paged_attention``, in a new tensor.

    It has no gradient.  ``return_lse`` gives (out, lse).  ArgumentError as ``moye.kernels.paged_attention`` has it.
    """
    require_tensors("paged_attention", modes=4, q=q, k_cache=k_cache, v_cache=v_cache)
    return_lse = flag("paged_attention", "return_lse", return_lse)
    out, lse = _paged_attention(q, k_cache, v_cache, page_table, lengths, bias, alibi, sinks, k_scale, v_scale, window,
                                scale, number("paged_attention", "softcap", softcap))
    return (out, lse) if return_lse else out


@op("moye::paged_attention")
def _paged_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, page_table: Tensor, lengths: Tensor,
                     bias: Tensor | None, alibi: Tensor | None, sinks: Tensor | None, k_scale: Tensor | None,
                     v_scale: Tensor | None, window: int | None, scale: float | None,
                     softcap: float) -> tuple[Tensor, Tensor]:
    out, lse = _results(q, v_cache.shape[-1], q.dtype)
    kernels.paged_attention(out, q, k_cache, v_cache, page_table, lengths, window=window, scale=scale, softcap=softcap,
                            bias=bias, alibi=alibi, sinks=sinks, k_scale=k_scale, v_scale=v_scale, lse=lse)
    return out, lse


@_paged_attention.fake
def _like_pages(q: Tensor, _k: Tensor, v_cache: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _results(q, v_cache.shape[-1], q.dtype)
