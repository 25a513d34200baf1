"""The launches of attention on sm_80 and later, forward and backward, for arrays of any strides.

In: a ``Problem`` and its arrays.  Out: a launch.

    launch_sm80(problem, out, q, k, v, lse=lse)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.attention.parts.arguments import Problem, by_16_bytes
from moye.kernels.attention.sm80.backward import (
    keys_gradient_kernel,
    queries_gradient_kernel,
    row_products_kernel,
)
from moye.kernels.attention.sm80.forward import attention_sm80_kernel
from moye.kernels.attention.sm80.plan import TILE, forward_plan, gradient_plan
from moye.kernels.workspace import empty, ordered

_ROWS = 8
"""Rows of a block that multiplies results with their gradients: a warp each."""


def launch_sm80(problem: Problem, out: Any, q: Any, k: Any, v: Any, **given: Any) -> None:
    """Launch the kernel on arrays (batch, seqlen, heads, dim)."""
    grid, block, arguments = arguments_sm80(problem, (out, q, k, v), **given)
    attention_sm80_kernel[grid, block](*arguments)


def arguments_sm80(problem: Problem, arrays: tuple[Any, Any, Any, Any], *, bias: Any = None, slopes: Any = None,
                   sinks: Any = None, tensors: tuple[Any, ...] = (), lse: Any = None,
                   offsets: tuple[Any, Any] = (None, None)) -> tuple[tuple[int, int, int], int, tuple[Any, ...]]:
    """Grid, block and arguments of the kernel for (out, q, k, v)."""
    out, q, k, v = arrays
    rules = replace(problem.rules, ragged=problem.keys % TILE != 0 or problem.keys == 0 or offsets[1] is not None)
    plan = forward_plan(problem.dtype, problem.dim, problem.dim_v, rules, problem.heads_of_a_key,
                        (by_16_bytes(q), by_16_bytes(k), by_16_bytes(v), by_16_bytes(out)))
    grid = max(1, -(-problem.queries // plan.bM)), problem.heads, problem.batch
    return grid, plan.threads, (
        ordered(q, (1, 3, 2, 0)), ordered(k, (1, 3, 2, 0)), ordered(v, (1, 3, 2, 0)), ordered(out, (1, 3, 2, 0)),
        None if lse is None else ordered(lse, (2, 1, 0)), *offsets, *problem.numbers,
        None if bias is None else ordered(bias, (2, 3, 1, 0)), slopes, sinks, tensors, plan)


def launch_gradients(problem: Problem, arrays: dict[str, Any], *, bias: Any = None, slopes: Any = None,
                     tensors: tuple[Any, ...] = (), offsets: tuple[Any, Any] = (None, None)) -> None:
    """Gradients dq, dk and dv from q, k, v, out, dout and lse; ``arrays`` has them by name.

    With ``offsets``, where sequences begin, the arrays are one matrix for each head, and the problem has the longest.
    """
    rules, names = replace(problem.rules, ragged=True), ("q", "k", "v", "dout", "dq", "dk", "dv")
    plan = gradient_plan(problem.dtype, problem.dim, problem.dim_v, rules, problem.heads_of_a_key,
                         tuple(by_16_bytes(arrays[name]) for name in names))
    q, k, v, dout, dq, dk, dv = (ordered(arrays[name], (1, 3, 2, 0)) for name in names)
    lse = ordered(arrays["lse"], (2, 1, 0))
    products = empty(arrays["lse"], mo.float32, lse.shape)
    given = *offsets, *problem.numbers, None if bias is None else ordered(bias, (2, 3, 1, 0)), slopes, tensors
    if 0 not in dq.shape:
        row_products_kernel[(-(-lse.shape[0] // _ROWS), *lse.shape[1:]), 32 * _ROWS](
            products, ordered(arrays["out"], (1, 3, 2, 0)), dout)
    if 0 not in dk.shape:
        launch = keys_gradient_kernel[(max(1, -(-problem.keys // TILE)), problem.heads_K, problem.batch), plan.threads]
        for pair in ((dk, dv),) if plan.at_once else ((dk, None), (None, dv)):
            launch(q, k, v, dout, lse, products, *pair, *given, plan)
    if 0 not in dq.shape:
        queries_gradient_kernel[(max(1, -(-problem.queries // TILE)), problem.heads, problem.batch), plan.threads](
            q, k, v, dout, lse, products, dq, *given, plan)
