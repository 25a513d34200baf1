"""``rms_norm`` and ``layer_norm``: the kernels of ``moye.kernels``, with gradients.

In: x (..., columns), weight and bias (columns), a residual like x.  Out: the normed rows, and with a residual the sum.

    y = moye.torch.rms_norm(x, weight)
    y, h = moye.torch.rms_norm(x, weight, residual=h)       # h = x + h; y = h / sqrt(mean(h^2) + eps) * weight

Both are one operator each way; dweight and dbias are summed in an order that each run repeats.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.torch.declare import op
from moye.torch.operators.arguments import number


def rms_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-6, *,
             residual: Tensor | None = None, offset: float = 0.0) -> Any:
    """h / sqrt(mean(h^2) + eps) * (weight + offset) + bias along the last mode, with h = x + residual.

    x (..., columns) is float32, bfloat16, float16 or float64, and so is the result; sums are float32, of float64
    float64, inside of ``torch.autocast`` as elsewhere.  weight and bias (columns) may have another of these dtypes.
    With a ``residual``, like x, it returns the pair (result, h), and h is rounded to x's dtype.  ArgumentError for
    tensors that do not fit.
    """
    out, summed, _, _ = _norm(x, weight, bias, residual, *_numbers("rms_norm", eps, offset), False)
    return out if residual is None else (out, summed)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *,
               residual: Tensor | None = None, offset: float = 0.0) -> Any:
    """(h - mean(h)) / sqrt(var(h) + eps) * (weight + offset) + bias along the last mode; else as ``rms_norm``.

    It is ``torch.nn.functional.layer_norm`` over the last mode.
    """
    out, summed, _, _ = _norm(x, weight, bias, residual, *_numbers("layer_norm", eps, offset), True)
    return out if residual is None else (out, summed)


def _numbers(who: str, eps: float, offset: float) -> tuple[float, float]:
    return number(who, "eps", eps), number(who, "offset", offset)


@op("moye::norm")
def _norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, offset: float,
          centred: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out, summed, rstd, mean = _results(x, weight, bias, residual, eps, offset, centred)
    more: dict[str, Any] = {"mean": mean} if centred else {}
    function = kernels.layer_norm if centred else kernels.rms_norm
    with torch.no_grad():
        function(out, x, weight, bias, eps=eps, offset=offset, residual=residual,
                 summed=None if residual is None else summed, rstd=rstd, **more)
    return out, summed, rstd, mean


@_norm.fake
def _results(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, offset: float,
             centred: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Room for the result, the sum, and one number a row; what there is not has no elements."""
    acc = torch.float64 if x.dtype == torch.float64 else torch.float32
    return (x.new_empty(x.shape), x.new_empty(0 if residual is None else x.shape),
            x.new_empty(x.shape[:-1], dtype=acc), x.new_empty(x.shape[:-1] if centred else 0, dtype=acc))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, residual, _, ctx.offset, ctx.centred = inputs
    _, summed, rstd, mean = output
    ctx.mark_non_differentiable(rstd, mean)
    ctx.biased, ctx.added = None if bias is None else bias.dtype, residual is not None
    ctx.residual_dtype = None if residual is None else residual.dtype
    ctx.save_for_backward(x if residual is None else summed, weight, rstd, mean)


@_norm.backward(setup=_keep)
def _gradients(ctx: Any, dout: Tensor, dsummed: Tensor | None, *_: Any) -> tuple[Any, ...]:
    h, weight, rstd, mean = ctx.saved_tensors
    need_x, need_weight, need_bias, need_residual = ctx.needs_input_grad[:4]
    dx, dweight, dbias = _norm_backward(dout, h, weight, rstd, mean, dsummed if ctx.added else None, ctx.offset,
                                        ctx.centred, need_weight, ctx.biased if need_bias else None)
    dresidual = dx.to(ctx.residual_dtype) if need_residual else None
    return (dx if need_x else None, dweight if need_weight else None, dbias if need_bias else None, dresidual,
            None, None, None)


@op("moye::norm_backward")
def _norm_backward(dout: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, mean: Tensor, dsummed: Tensor | None,
                   offset: float, centred: bool, weighted: bool,
                   biased: torch.dtype | None) -> tuple[Tensor, Tensor, Tensor]:
    dx, dweight, dbias = _room(dout, x, weight, rstd, mean, dsummed, offset, centred, weighted, biased)
    arguments = (dx, dout, x, weight, rstd, *([mean] if centred else []))
    function: Any = kernels.layer_norm_backward if centred else kernels.rms_norm_backward
    with torch.no_grad():
        function(*arguments, dweight=dweight if weighted else None, dbias=None if biased is None else dbias,
                 dsummed=dsummed, offset=offset)
    return dx, dweight, dbias


@_norm_backward.fake
def _room(dout: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, mean: Tensor, dsummed: Tensor | None,
          offset: float, centred: bool, weighted: bool, biased: torch.dtype | None) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the gradients; what is not asked for has no elements."""
    columns = x.shape[-1]
    dweight = x.new_empty(0) if weight is None or not weighted else weight.new_empty(columns)
    return x.new_empty(x.shape), dweight, x.new_empty(0 if biased is None else columns, dtype=biased or x.dtype)


# --- results of 8 bits -----------------------------------------------------------------------------------------------


def rms_norm_fp8(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-6, *,
                 residual: Tensor | None = None, offset: float = 0.0, by_block: bool = False) -> Any:
    """``rms_norm`` as float8_e4m3fn, and the factors by which it was divided: (result, factors), without a gradient.

    A factor, float32, is the largest magnitude / 448 of a row, shape (...); or with ``by_block`` of each 128 columns of
    it, (..., ceil(columns / 128)), as ``moye.kernels.gemm`` takes them.  What is all zeros has the factor 0.  With a
    ``residual`` it returns (result, factors, h).  UnsupportedError if a gradient is asked for; else as ``rms_norm``.
    """
    out, scale, summed = _norm_fp8(x, weight, bias, residual, eps, offset, False, by_block)
    return (out, scale) if residual is None else (out, scale, summed)


def layer_norm_fp8(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *,
                   residual: Tensor | None = None, offset: float = 0.0, by_block: bool = False) -> Any:
    """``layer_norm`` as float8_e4m3fn, and the factors by which it was divided; as ``rms_norm_fp8``."""
    out, scale, summed = _norm_fp8(x, weight, bias, residual, eps, offset, True, by_block)
    return (out, scale) if residual is None else (out, scale, summed)


@op("moye::norm_fp8")
def _norm_fp8(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, offset: float,
              centred: bool, by_block: bool) -> tuple[Tensor, Tensor, Tensor]:
    out, scale, summed = _results_fp8(x, weight, bias, residual, eps, offset, centred, by_block)
    function = kernels.layer_norm if centred else kernels.rms_norm
    with torch.no_grad():
        function(out, x, weight, bias, eps=eps, offset=offset, residual=residual,
                 summed=None if residual is None else summed, scale=scale)
    return out, scale if x.shape[-1] else scale.zero_(), summed


@_norm_fp8.fake
def _results_fp8(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float,
                 offset: float, centred: bool, by_block: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the result, its factors, and the sum, which has no elements without a residual."""
    factors = (*x.shape[:-1], (x.shape[-1] + 127) // 128) if by_block else x.shape[:-1]
    return (x.new_empty(x.shape, dtype=torch.float8_e4m3fn), x.new_empty(factors, dtype=torch.float32),
            x.new_empty(0 if residual is None else x.shape))
