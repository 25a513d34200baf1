"""Operators of PyTorch that tests share: one with a gradient of any order, one with a first one, one in place, and one
of many kinds of arguments.  Import it after ``torch = pytest.importorskip("torch")``.
"""

from __future__ import annotations

import torch
from torch import Tensor

import moye as mo
from moye.torch import op

THREADS = 128


@mo.kernel
def add_kernel(out, x, y, alpha):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i] + alpha * y[i]


def added(out, x, y, alpha):
    add_kernel[mo.ceil_div(out.numel(), THREADS), THREADS](out.view(-1), x.reshape(-1), y.reshape(-1), alpha)


@op("testing::scaled_add", autocast=torch.float16)
def scaled_add(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    """x + alpha * y, shapes alike."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    added(out, x, y, alpha)
    return out


def keep_alpha(ctx, inputs, output):
    ctx.alpha = inputs[2]


@scaled_add.backward(setup=keep_alpha, differentiable=True)
def _(ctx, gradient):
    return gradient, scaled_add(torch.zeros_like(gradient), gradient, ctx.alpha), None


@op("testing::square")
def square(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    multiply_into(out, x, x)
    return out


@square.backward(setup=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
def _(ctx, gradient):
    out = torch.zeros_like(gradient)
    multiply_into(out, gradient, 2 * ctx.saved_tensors[0])
    return out


@mo.kernel
def multiply_kernel(out, x, y):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(out):
        out[i] += x[i] * y[i]


@op("testing::multiply_into", mutates=("out",))
def multiply_into(out: Tensor, x: Tensor, y: Tensor, *, times: int = 1) -> None:
    for _ in range(times):
        multiply_kernel[mo.ceil_div(out.numel(), THREADS), THREADS](out.view(-1), x.reshape(-1), y.reshape(-1))


@op("testing::parts", fake=lambda xs, of, negate, name, dtype: (xs[0].new_empty(xs[0].shape[0], dtype=dtype),
                                                               xs[0].new_empty(of)))
def parts(xs: list[Tensor], of: int, negate: bool = False, name: str = "", dtype: torch.dtype = torch.float32
          ) -> tuple[Tensor, Tensor]:
    first, second = (xs[0].new_zeros(n, dtype=kind) for n, kind in ((xs[0].shape[0], dtype), (of, xs[0].dtype)))
    for x in xs:
        added(first, first.clone(), x.to(dtype), -1.0 if negate else 1.0)
    return first, second


def numbers(*shape, dtype=torch.float64, grad=True, device="cpu"):
    """Normal numbers that depend on the shape alone."""
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(shape, generator=generator, dtype=torch.float64)
            .to(device, dtype).requires_grad_(grad))
