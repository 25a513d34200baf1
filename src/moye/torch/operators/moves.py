"""``permute``, ``rope`` and ``embedding``: what moves elements and turns pairs of them, by ``moye.kernels``.

In: tensors of any strides.  Out: contiguous tensors of their own.

    heads = moye.torch.permute(x, (0, 2, 1, 3))         # a copy, where torch's permute is a view
    q = moye.torch.rope(q, cos, sin, positions)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from moye import kernels
from moye.errors import ArgumentError
from moye.torch.declare import op


@op("moye::permute")
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A contiguous copy of x with its axes in this order; it can be differentiated twice."""
    out = _permuted_like(x, axes)
    kernels.permute(out, x, list(axes))
    return out


@permute.fake
def _permuted_like(x: Tensor, axes: Sequence[int]) -> Tensor:
    if any(not -x.dim() <= axis < x.dim() for axis in axes):
        raise ArgumentError(f"permute: axes={list(axes)} are no order of the {x.dim()} axes of x")
    return x.new_empty([x.shape[axis] for axis in axes])


def _keep_axes(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.axes = [axis % len(inputs[1]) for axis in inputs[1]]


@permute.backward(setup=_keep_axes, differentiable=True)
def _permuted_back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return permute(gradient, [ctx.axes.index(i) for i in range(len(ctx.axes))]), None


@op("moye::rope")
def rope(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None, offset: int = 0,
         interleaved: bool = False, inverse: bool = False) -> Tensor:
    """x (batch, seq, heads, dim) or (seq, heads, dim), turned as ``moye.kernels.rope`` has it; it can be differentiated
    twice, by x alone: tables that require a gradient are an ArgumentError."""
    out = _turned_like(x, cos, sin, positions, offset, interleaved, inverse)
    kernels.rope(out, x, cos, sin, positions=positions, offset=offset, interleaved=interleaved, inverse=inverse)
    return out


@rope.fake
def _turned_like(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None, offset: int = 0,
                 interleaved: bool = False, inverse: bool = False) -> Tensor:
    return x.new_empty(x.shape)


def _keep_tables(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, positions, *ctx.options = inputs
    if any(ctx.needs_input_grad[1:3]):
        name = "cos" if ctx.needs_input_grad[1] else "sin"
        raise ArgumentError(f"rope: {name} requires a gradient, and only that of x is computed",
                            hint=f"{name}.detach()")
    ctx.save_for_backward(cos, sin, *([positions] if positions is not None else []))


@rope.backward(setup=_keep_tables, differentiable=True)
def _turned_back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    cos, sin, *positions = ctx.saved_tensors
    offset, interleaved, inverse = ctx.options
    found = rope(gradient, cos, sin, positions[0] if positions else None, offset, interleaved, not inverse)
    return found, None, None, None, None, None, None


@op("moye::embedding")
def embedding(ids: Tensor, table: Tensor, padding_idx: int | None = None) -> Tensor:
    """table[ids], as ``torch.nn.functional.embedding`` has it; the row ``padding_idx`` gets no gradient.

    The gradient of the table is dense, and has the same bits in each run.
    """
    out = _rows_like(ids, table, padding_idx)
    if padding_idx is not None and not -table.shape[0] <= padding_idx < table.shape[0]:
        raise ArgumentError(f"embedding: padding_idx={padding_idx} is none of the {table.shape[0]} rows")
    kernels.embedding(out, table, ids)
    return out


@embedding.fake
def _rows_like(ids: Tensor, table: Tensor, padding_idx: int | None = None) -> Tensor:
    if table.dim() != 2:
        raise ArgumentError(f"embedding: table has shape {tuple(table.shape)}; it is (rows, columns)")
    return table.new_empty((*ids.shape, table.shape[1]))


@op("moye::embedding_backward")
def _embedding_backward(gradient: Tensor, ids: Tensor, rows: int, padding_idx: int | None) -> Tensor:
    out = _table_like(gradient, ids, rows, padding_idx)
    columns = gradient.shape[-1]
    kernels.embedding_backward(out, gradient.reshape(ids.numel(), columns), ids.reshape(-1), padding_idx=padding_idx)
    return out


@_embedding_backward.fake
def _table_like(gradient: Tensor, ids: Tensor, rows: int, padding_idx: int | None) -> Tensor:
    return gradient.new_empty((rows, gradient.shape[-1]))


def _keep_ids(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ids, table, padding = inputs
    ctx.rows = table.shape[0]
    ctx.padding_idx = padding if padding is None or padding >= 0 else padding + ctx.rows
    ctx.save_for_backward(ids)


@embedding.backward(setup=_keep_ids)
def _table_gradient(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    ids, = ctx.saved_tensors
    return None, _embedding_backward(gradient, ids, ctx.rows, ctx.padding_idx), None
