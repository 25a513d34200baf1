"""The launch of attention on sm_80 and later, for arrays of any strides.

In: a ``Problem`` and its arrays.  Out: a launch.

    launch_sm80(problem, out, q, k, v, lse=lse)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moye.kernels.attention.parts.arguments import Problem, by_16_bytes
from moye.kernels.attention.sm80.forward import attention_sm80_kernel
from moye.kernels.attention.sm80.plan import KEYS, make_plan
from moye.kernels.workspace import ordered


def launch_sm80(problem: Problem, out: Any, q: Any, k: Any, v: Any, **given: Any) -> None:
    """Launch the kernel on arrays (batch, seqlen, heads, dim)."""
    grid, block, arguments = arguments_sm80(problem, (out, q, k, v), **given)
    attention_sm80_kernel[grid, block](*arguments)


def arguments_sm80(problem: Problem, arrays: tuple[Any, Any, Any, Any], *, bias: Any = None, slopes: Any = None,
                   sinks: Any = None, tensors: tuple[Any, ...] = (), lse: Any = None,
                   ) -> tuple[tuple[int, int, int], int, tuple[Any, ...]]:
    """Grid, block and arguments of the kernel for (out, q, k, v)."""
    out, q, k, v = arrays
    rules = replace(problem.rules, ragged=problem.keys % KEYS != 0 or problem.keys == 0)
    plan = make_plan(problem.dtype, problem.dim, problem.dim_v, rules, problem.heads_of_a_key,
                     (by_16_bytes(q), by_16_bytes(k), by_16_bytes(v), by_16_bytes(out)))
    grid = -(-problem.queries // plan.bM), problem.heads, problem.batch
    return grid, plan.threads, (
        ordered(q, (1, 3, 2, 0)), ordered(k, (1, 3, 2, 0)), ordered(v, (3, 1, 2, 0)), ordered(out, (1, 3, 2, 0)),
        None if lse is None else ordered(lse, (2, 1, 0)), problem.scale, problem.softcap if rules.softcap else None,
        problem.left if rules.left else None, problem.right if rules.right else None,
        None if bias is None else ordered(bias, (2, 3, 1, 0)), slopes, sinks, tensors, plan)
