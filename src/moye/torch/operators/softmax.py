"""``softmax``, ``log_softmax`` and the cross-entropies by ``moye.kernels``, and their gradients.

In: scores or logits of any strides, masks, labels.  Out: new tensors, contiguous ones.

    p = moye.torch.softmax(x, scale=0.125, causal=0)
    loss = moye.torch.cross_entropy(logits, labels, label_smoothing=0.1)
    loss = moye.torch.linear_cross_entropy(x, weight, labels)           # of x @ weight.T, which is never whole
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError
from moye.torch.declare import op
from moye.torch.operators.arguments import number, require_tensors


def softmax(x: Tensor, dim: int = -1, *, scale: float = 1.0, mask: Tensor | None = None,
            causal: int | None = None) -> Tensor:
    """softmax(x * scale + mask) along ``dim``, of x's shape and dtype, contiguous.

    ``mask`` is repeated to x's shape: bools, true where an element counts, or numbers that are added.  With ``causal``
    (and dim -1), row i of the mode before the last counts its columns up to i + causal.  A row of which nothing counts
    is 0.  x and a mask of numbers are differentiated.  ArgumentError as ``moye.kernels.softmax`` has it.
    """
    found: Tensor = _softmax(x, mask, dim, number("softmax", "scale", scale), causal, False)
    return found


def log_softmax(x: Tensor, dim: int = -1, *, scale: float = 1.0, mask: Tensor | None = None,
                causal: int | None = None) -> Tensor:
    """The natural logarithm of ``softmax``, with its arguments; what does not count is -inf."""
    found: Tensor = _softmax(x, mask, dim, number("log_softmax", "scale", scale), causal, True)
    return found


@op("moye::softmax")
def _softmax(x: Tensor, mask: Tensor | None, dim: int, scale: float, causal: int | None, log: bool) -> Tensor:
    out = _like(x, mask, dim, scale, causal, log)
    if mask is not None and mask.dim() > x.dim():
        raise ArgumentError(f"softmax: mask has shape {tuple(mask.shape)}, which is not repeated to {tuple(x.shape)}")
    function = kernels.log_softmax if log else kernels.softmax
    function(_row(out), _row(x), axis=dim, scale=scale, mask=None if mask is None else _row(mask), causal=causal)
    return out


def _row(x: Tensor) -> Tensor:
    """One number as a row of one."""
    return x if x.dim() else x.view(1)


@_softmax.fake
def _like(x: Tensor, mask: Tensor | None, dim: int, scale: float, causal: int | None, log: bool) -> Tensor:
    return x.new_empty(x.shape)


@op("moye::softmax_backward")
def _softmax_backward(dout: Tensor, out: Tensor, dim: int, scale: float, log: bool) -> Tensor:
    dx = _gradient_like(dout, out, dim, scale, log)
    backward = kernels.log_softmax_backward if log else kernels.softmax_backward
    backward(_row(dx), _row(dout), _row(out), axis=dim, scale=scale)
    return dx


@_softmax_backward.fake
def _gradient_like(dout: Tensor, out: Tensor, dim: int, scale: float, log: bool) -> Tensor:
    return out.new_empty(out.shape)


def _keep_softmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, mask, ctx.dim, ctx.scale, _, ctx.log = inputs
    ctx.mask = None if mask is None or not mask.is_floating_point() else (mask.shape, mask.dtype)
    ctx.save_for_backward(output)


@_softmax.backward(setup=_keep_softmax)
def _softmax_gradients(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    out, = ctx.saved_tensors
    need_x, need_mask = ctx.needs_input_grad[:2]
    dx = _softmax_backward(gradient, out, ctx.dim, ctx.scale, ctx.log) if need_x else None
    dmask = None
    if ctx.mask is not None and need_mask:
        shape, dtype = ctx.mask
        # Not dx / scale: what a small scale has made too small for 16 bits is gone there.
        scores = dx if dx is not None and ctx.scale == 1 else _softmax_backward(gradient, out, ctx.dim, 1.0, ctx.log)
        dmask = scores.sum_to_size(shape).to(dtype)
    return dx, dmask, None, None, None, None


# --- cross-entropy ---------------------------------------------------------------------------------------------------


def cross_entropy(logits: Tensor, labels: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
                  ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0) -> Tensor:
    """The cross-entropy of softmax(logits) with integer labels, along the last mode of logits (rows..., columns).

    As ``torch.nn.functional.cross_entropy`` has it, with the columns last; the loss is float32, of float64 logits
    float64.  ``z_loss`` is the factor of lse ** 2.  Labels beyond the columns give NaN, or with MOYE_ASSERT=1 an error.
    Logits alone are differentiated; a ``weight`` that requires a gradient is an ArgumentError.  The others are as
    ``moye.kernels.cross_entropy`` has them.
    """
    if weight is not None and weight.requires_grad and torch.is_grad_enabled():
        raise ArgumentError("cross_entropy: weight requires a gradient, and only that of logits is computed",
                            hint="weight.detach()")
    loss: Tensor = _cross_entropy(logits, labels, weight, reduction, ignore_index,
                                  number("cross_entropy", "label_smoothing", label_smoothing),
                                  number("cross_entropy", "z_loss", z_loss))[0]
    return loss


@op("moye::cross_entropy")
def _cross_entropy(logits: Tensor, labels: Tensor, weight: Tensor | None, reduction: str, ignore_index: int,
                   label_smoothing: float, z_loss: float) -> tuple[Tensor, Tensor]:
    loss, lse = _losses_like(logits, labels, weight, reduction, ignore_index, label_smoothing, z_loss)
    kernels.cross_entropy(loss, logits, labels, lse=lse, weight=weight, reduction=reduction,
                          ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss)
    return loss, lse


@_cross_entropy.fake
def _losses_like(logits: Tensor, labels: Tensor, weight: Tensor | None, reduction: str, ignore_index: int,
                 label_smoothing: float, z_loss: float) -> tuple[Tensor, Tensor]:
    wide = _wide(logits)
    return logits.new_empty(labels.shape if reduction == "none" else (), dtype=wide), \
        logits.new_empty(labels.shape, dtype=wide)


@op("moye::cross_entropy_backward")
def _cross_entropy_backward(dloss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, weight: Tensor | None,
                            reduction: str, ignore_index: int, label_smoothing: float, z_loss: float) -> Tensor:
    dlogits = logits.new_empty(logits.shape)
    kernels.cross_entropy_backward(dlogits, dloss, logits, labels, lse, weight=weight, reduction=reduction,
                                   ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss)
    return dlogits


@_cross_entropy_backward.fake
def _logits_like(dloss: Tensor, logits: Tensor, *_: Any) -> Tensor:
    return logits.new_empty(logits.shape)


def _keep_losses(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, labels, weight, *ctx.options = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(logits, labels, weight, output[1])


@_cross_entropy.backward(setup=_keep_losses)
def _logit_gradients(ctx: Any, dloss: Tensor, _: Any) -> tuple[Any, ...]:
    logits, labels, weight, lse = ctx.saved_tensors
    return _cross_entropy_backward(dloss, logits, labels, lse, weight, *ctx.options), *[None] * 6


def _wide(x: Tensor) -> torch.dtype:
    """The dtype of sums."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


# --- of a product ----------------------------------------------------------------------------------------------------


def linear_cross_entropy(x: Tensor, weight: Tensor, labels: Tensor, *, reduction: str = "mean",
                         ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0,
                         chunk: int | None = None) -> Tensor:
    """``cross_entropy`` of logits x @ weight.T, which are never whole in memory; x (tokens, hidden), weight (columns,
    hidden), labels (tokens).

    Gradients of "mean" and "sum" are computed in the forward pass, chunk by chunk, and multiplied by that of the loss
    in the backward pass.  "none" computes the logits again there, and so does float16, whose gradients would be too
    small for it before a loss scale is known.  Inside of ``torch.autocast`` x and weight are cast to
    its dtype.  The rest is as in ``moye.kernels.linear_cross_entropy``.
    """
    require_tensors("linear_cross_entropy", x=x, weight=weight)
    options = (ignore_index, number("linear_cross_entropy", "label_smoothing", label_smoothing),
               number("linear_cross_entropy", "z_loss", z_loss), chunk)
    tracked = torch.is_grad_enabled() and not (isinstance(reduction, str) and reduction == "none")
    if tracked and reduction in ("mean", "sum") and _computed_in(x) is torch.float16:
        total = _linear_cross_entropy(x, weight, labels, "none", *options, False, False)[0].sum()
        return total if reduction == "sum" else total / (labels != ignore_index).sum()
    found: Tensor = _linear_cross_entropy(x, weight, labels, reduction, *options, tracked and x.requires_grad,
                                          tracked and weight.requires_grad)[0]
    return found


def _computed_in(x: Tensor) -> torch.dtype:
    """The dtype of a product with x."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


@op("moye::linear_cross_entropy", autocast="region")
def _linear_cross_entropy(x: Tensor, weight: Tensor, labels: Tensor, reduction: str, ignore_index: int,
                          label_smoothing: float, z_loss: float, chunk: int | None, need_x: bool,
                          need_weight: bool) -> tuple[Tensor, Tensor, Tensor]:
    loss, dx, dweight = _product_like(x, weight, labels, reduction, ignore_index, label_smoothing, z_loss, chunk,
                                      need_x, need_weight)
    kernels.linear_cross_entropy(loss, x, weight, labels, dx=dx if need_x else None,
                                 dW=dweight if need_weight else None, reduction=reduction, ignore_index=ignore_index,
                                 label_smoothing=label_smoothing, z_loss=z_loss, chunk=chunk)
    return loss, dx, dweight


@_linear_cross_entropy.fake
def _product_like(x: Tensor, weight: Tensor, labels: Tensor, reduction: str, ignore_index: int, label_smoothing: float,
                  z_loss: float, chunk: int | None, need_x: bool, need_weight: bool) -> tuple[Tensor, Tensor, Tensor]:
    return (x.new_empty(labels.shape if reduction == "none" else (), dtype=_wide(x)),
            x.new_empty(x.shape if need_x else (0,)), weight.new_empty(weight.shape if need_weight else (0,)))


@op("moye::linear_cross_entropy_backward")
def _linear_cross_entropy_backward(dloss: Tensor, x: Tensor, weight: Tensor, labels: Tensor, reduction: str,
                                   ignore_index: int, label_smoothing: float, z_loss: float,
                                   chunk: int | None) -> tuple[Tensor, Tensor]:
    """Both gradients for losses of each token, from the logits once more."""
    dx, dweight = x.new_empty(x.shape), weight.new_empty(weight.shape)
    kernels.linear_cross_entropy(torch.empty_like(dloss), x, weight, labels, dx=dx, dW=dweight, dloss=dloss,
                                 reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing,
                                 z_loss=z_loss, chunk=chunk)
    return dx, dweight


@_linear_cross_entropy_backward.fake
def _product_gradients_like(dloss: Tensor, x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _keep_product(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, labels, reduction, *_, need_x, need_weight = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.made, ctx.options = (need_x, need_weight), inputs[3:8]
    ctx.save_for_backward(*((x, weight, labels) if reduction == "none" else output[1:]))


@_linear_cross_entropy.backward(setup=_keep_product)
def _product_gradients(ctx: Any, dloss: Tensor, *_: Any) -> tuple[Any, ...]:
    if ctx.options[0] == "none":
        found = _linear_cross_entropy_backward(dloss, *ctx.saved_tensors, *ctx.options)
    else:
        found = tuple(_times(made, dloss) if need else None
                      for made, need in zip(ctx.saved_tensors, ctx.made, strict=True))
    return *found, *[None] * 8


def _times(made: Tensor, factor: Tensor) -> Tensor:
    """made * factor, multiplied in the wider dtype of both: a scale of losses may be too large for float16."""
    return torch.mul(made, factor.reshape(1), out=torch.empty_like(made))
