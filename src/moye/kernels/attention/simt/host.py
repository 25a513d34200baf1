"""The launches of attention by ordinary cores, forward and backward, for arrays of any strides.

In: a ``Problem`` of float32 or float64 and its arrays.  Out: a launch.

    launch_simt(problem, out, q, k, v, lse=lse)
"""

from __future__ import annotations

from typing import Any

from moye.kernels.attention.parts.arguments import Problem, sums_of
from moye.kernels.attention.simt.kernels import (
    WARPS,
    Plan,
    attention_simt_kernel,
    keys_gradient_simt_kernel,
    queries_gradient_simt_kernel,
)
from moye.kernels.attention.sm80.backward import row_products_kernel
from moye.kernels.workspace import empty, ordered

_ROWS = 8
"""Rows of a block that multiplies results with their gradients: a warp each."""


def launch_simt(problem: Problem, out: Any, q: Any, k: Any, v: Any, *, bias: Any = None, slopes: Any = None,
                sinks: Any = None, tensors: tuple[Any, ...] = (), lse: Any = None,
                offsets: tuple[Any, Any] = (None, None)) -> None:
    """Launch the kernel on arrays (batch, seqlen, heads, dim)."""
    Q, K, V, O = (ordered(x, (1, 3, 2, 0)) for x in (q, k, v, out))
    attention_simt_kernel[_grid(problem.queries, problem.heads, problem.batch), 32 * WARPS](
        Q, K, V, O, None if lse is None else ordered(lse, (2, 1, 0)), *offsets, *_numbers(problem), _bias(bias), slopes,
        sinks, tensors, _plan(problem))


def launch_gradients_simt(problem: Problem, arrays: dict[str, Any], *, bias: Any = None, slopes: Any = None,
                          offsets: tuple[Any, Any] = (None, None)) -> None:
    """Gradients dq, dk and dv from q, k, v, out, dout and lse; ``arrays`` has them by name."""
    q, k, v, out, dout, dq, dk, dv = (ordered(arrays[name], (1, 3, 2, 0)) for name in
                                      ("q", "k", "v", "out", "dout", "dq", "dk", "dv"))
    lse, plan = ordered(arrays["lse"], (2, 1, 0)), _plan(problem)
    products = empty(arrays["lse"], plan.acc, lse.shape)
    given = *offsets, *_numbers(problem), _bias(bias), slopes, (), plan
    if 0 not in dq.shape:
        row_products_kernel[(-(-lse.shape[0] // _ROWS), *lse.shape[1:]), 32 * _ROWS](products, out, dout)
    if 0 not in dk.shape:
        keys_gradient_simt_kernel[_grid(problem.keys, problem.heads_K, problem.batch), 32 * WARPS](
            q, k, v, dout, lse, products, dk, dv, *given)
    if 0 not in dq.shape:
        queries_gradient_simt_kernel[_grid(problem.queries, problem.heads, problem.batch), 32 * WARPS](
            q, k, v, dout, lse, products, dq, *given)


def _grid(rows: int, heads: int, batch: int) -> tuple[int, int, int]:
    return max(1, -(-rows // WARPS)), heads, batch


def _plan(problem: Problem) -> Plan:
    return Plan(problem.rules, sums_of(problem.dtype), problem.dim, problem.dim_v, problem.heads_of_a_key)


def _numbers(problem: Problem) -> tuple[float, float, int | None, int | None]:
    """Scale and cap, and the keys behind and before a query, or None for all."""
    rules = problem.rules
    return problem.scale, problem.softcap, problem.left if rules.left else None, \
        problem.right if rules.right else None


def _bias(bias: Any) -> Any:
    return None if bias is None else ordered(bias, (2, 3, 1, 0))
