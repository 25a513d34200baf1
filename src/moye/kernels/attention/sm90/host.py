"""The launches of attention on sm_90a, forward and backward.

In: a ``Problem`` and its arrays.  Out: a launch.

    launch_sm90(problem, out, q, k, v, lse=lse)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.attention.parts.arguments import Problem, by_16_bytes
from moye.kernels.attention.sm90.backward import attention_backward_sm90_kernel, numbers_kernel, queries_kernel
from moye.kernels.attention.sm90.config import (
    MOST_WIDTH,
    ForwardConfig,
    GradientConfig,
    choose,
    choose_gradient,
    seen_together,
)
from moye.kernels.attention.sm90.costs import Calls
from moye.kernels.attention.sm90.forward import attention_sm90_kernel
from moye.kernels.attention.sm90.plan import ForwardPlan, GradientPlan, make_gradient_plan, make_plan
from moye.kernels.attention.sm90.sections import section_of
from moye.kernels.attention.sm90.turned import KEYS, THREADS, WIDTH, turn_kernel
from moye.kernels.workspace import counters, empty, ordered

_LOAD, _STORE = mo.TmaLoad(), mo.TmaStore()


def launch_sm90(problem: Problem, out: Any, q: Any, k: Any, v: Any, **given: Any) -> None:
    """Launch the kernel on arrays (batch, seqlen, heads, dim) that TMA can describe; turn values of 8 bits before."""
    values = turned(v, given.get("offsets", (None, None))[1]) if problem.narrow else ordered(v, (3, 1, 2, 0))
    grid, block, arguments = arguments_sm90(problem, (out, q, k, values), **given)
    attention_sm90_kernel.launch(*arguments, grid=grid, block=block, dependent=problem.narrow)


def arguments_sm90(problem: Problem, arrays: tuple[Any, Any, Any, Any], *, bias: Any = None, slopes: Any = None,
                   sinks: Any = None, tensors: tuple[Any, ...] = (), lse: Any = None,
                   offsets: tuple[Any, Any] = (None, None), factors: tuple[Any, Any, Any] = (None, None, None),
                   config: ForwardConfig | None = None) -> tuple[int, int, tuple[Any, ...]]:
    """Grid, block and arguments of the kernel for (out, q, k, values), these (dim_v, places, heads, batch)."""
    rules, several = problem.rules, offsets[0] is not None
    ruled = rules.softcap or rules.score is not None or slopes is not None or sinks is not None
    if config is None:
        config = choose(calls_of(problem, arrays[1], arrays[2], several), (problem.dim, problem.dim_v),
                        mo.multiprocessors(arrays[0]), narrow=problem.narrow, biased=bias is not None, ruled=ruled,
                        capped=rules.softcap and (rules.left or rules.right))
    rules = replace(rules, ragged=problem.keys % config.bN != 0 or several, lacking=several, pairs=in_pairs(bias))
    lacking = config.lacks_rows(problem.queries) and not (several or ruled or bias is not None)     # or it would spill
    plan = make_plan(config, (problem.dtype, problem.out), (problem.dim, problem.dim_v), rules, problem.heads_of_a_key,
                     lacking)
    tiles, heads = -(-problem.queries // config.bM), problem.heads * problem.batch
    if several:                                         # one number more for each, some of which stand for no tile
        tiles, heads = _rows(arrays[1]) // config.bM + problem.batch, problem.heads
    counter = counters(arrays[0], 1) if config.dynamic else None
    each = problem.dtype.bytes * int(seen_together(problem.keys, *limits_of(problem), config.bM)) * (
        problem.dim + problem.dim_v)
    unequal = rules.left or rules.right or several or lacking
    section = section_of(each // problem.heads_of_a_key, heads) if unequal else None
    return min(tiles * heads, config.blocks * mo.multiprocessors(arrays[0])), config.threads, (
        *copies(plan, *arrays), ordered(arrays[0], (1, 3, 2, 0)) if several else None,
        None if lse is None else ordered(lse, (2, 1, 0)), *offsets, counter, section,
        *problem.numbers, None if bias is None else ordered(bias, (2, 3, 1, 0)), slopes, sinks, tensors, factors, plan)


def calls_of(problem: Problem, q: Any, k: Any, several: bool) -> Calls:
    """What is to be done for each head of queries; of sequences that lie one behind the other in the mean."""
    batch = problem.batch
    queries, keys = (_rows(q) / batch, _rows(k) / batch) if several else (problem.queries, problem.keys)
    return Calls(problem.heads * batch, queries, keys, *limits_of(problem), several, problem.heads_of_a_key)


def limits_of(problem: Problem) -> tuple[int | None, int | None]:
    """How many keys behind and before a query it sees, or None."""
    return problem.left if problem.rules.left else None, problem.right if problem.rules.right else None


def in_pairs(bias: Any) -> bool:
    """Whether the biases of keys 2 i and 2 i + 1 are of 16 bits, and one word of memory."""
    if bias is None:
        return False
    info = mo.describe(bias)
    assert info is not None, "arguments were checked"
    *strides, along = info.strides
    return info.dtype.bits == 16 and info.shape[3] % 2 == 0 and along == 1 and info.ptr % 4 == 0 \
        and all(step % 2 == 0 for step in strides)


def suits(problem: Problem, *arrays: Any) -> bool:
    """Whether the device has wgmma, and TMA can describe the arrays.

    Head dimensions are multiples of 16, in 8 bits of 32, up to 256; those of values no larger than those of keys.
    """
    step = 32 if problem.narrow else 16
    return mo.arch_of(arrays[0]) in (None, "sm_90a") and problem.dim % step == 0 and problem.dim_v % step == 0 \
        and problem.dim_v <= problem.dim and problem.keys > 0 and all(by_16_bytes(x) for x in arrays)


def require_suits(problem: Problem, *arrays: Any) -> None:
    """UnsupportedError for operands of 8 bits that these kernels do not take: there are no others."""
    if not suits(problem, *arrays):
        arch = mo.arch_of(arrays[0])
        raise mo.UnsupportedError(
            f"attention: q, k and v of {problem.dtype} need sm_90a, keys, arrays whose vectors are whole 16 bytes, and "
            f"head dimensions of multiples of 32, those of values no larger; this is {arch or 'the host'}, "
            f"{problem.keys} keys, dimensions {problem.dim} and {problem.dim_v}",
            hint="convert them to bfloat16 or float16")


def turned(v: Any, offsets: Any) -> Any:
    """A view (dim_v, places, heads, batch) of the values of 8 bits, contiguous along the keys."""
    info = mo.describe(v)
    assert info is not None, "arguments were checked"
    batch, keys, heads, dim_v = info.shape
    sequences = batch if offsets is None else mo.describe(offsets).shape[0] - 1      # type: ignore[union-attr]
    groups = -(-keys // KEYS) if offsets is None else keys // KEYS + sequences
    T = empty(v, info.dtype, (groups * KEYS, dim_v, heads, batch))
    blocks = max(1, min(-(-groups * dim_v // (WIDTH * THREADS)), 8 * mo.multiprocessors(v)))
    turn_kernel[(blocks, heads, sequences), THREADS](T, ordered(v, (3, 1, 2, 0)), offsets)
    return ordered(T, (1, 0, 2, 3))


def _rows(x: Any) -> int:
    """The rows of an array (batch, rows, heads, dim)."""
    info = mo.describe(x)
    assert info is not None, "arguments were checked"
    return int(info.shape[1])


def copies(plan: ForwardPlan, out: Any, q: Any, k: Any, values: Any) -> tuple[Any, ...]:
    """The TMA copies of queries, keys, values and results."""
    config = plan.config
    return (mo.make_tma_copy(_LOAD, ordered(q, (1, 3, 2, 0)), plan.Q, tile=(config.bM, plan.dim, 1, 1)),
            mo.make_tma_copy(_LOAD, ordered(k, (1, 3, 2, 0)), plan.K, tile=(config.bN, plan.dim, 1, 1)),
            mo.make_tma_copy(_LOAD, values, plan.V, tile=(plan.dim_v, config.bN, 1, 1)),
            mo.make_tma_copy(_STORE, ordered(out, (1, 3, 2, 0)), plan.O, tile=(64, plan.dim_v, 1, 1)))


# --- gradients -------------------------------------------------------------------------------------------------------

_NAMES = "q", "k", "v", "out", "dout", "dq", "dk", "dv"


def launch_gradients_sm90(problem: Problem, arrays: dict[str, Any], *, bias: Any = None, slopes: Any = None,
                          offsets: tuple[Any, Any] = (None, None), in_order: bool = False,
                          config: GradientConfig | None = None) -> None:
    """Gradients dq, dk and dv from q, k, v, out, dout and lse, which ``arrays`` has by name, and TMA can describe.

    With ``offsets``, where sequences begin, the arrays are one matrix for each head, and the problem has the longest.
    """
    rules, several, like = problem.rules, offsets[0] is not None, arrays["lse"]
    if config is None:
        calls = calls_of(problem, arrays["q"], arrays["k"], several)
        config = choose_gradient(replace(calls, heads=problem.heads_K * problem.batch), (problem.dim, problem.dim_v),
                                 mo.multiprocessors(like), biased=bias is not None, capped=rules.softcap)
    rules = replace(rules, ragged=problem.keys % config.bN != 0 or several)
    plan = make_gradient_plan(config, problem.dtype, problem.dim, problem.dim_v, rules, problem.heads_of_a_key,
                              in_order, mo.multiprocessors(arrays["q"]) if in_order else 1)
    tiles, grid = gradient_grids(problem, plan, arrays, several)
    count = math.prod(tiles)
    numbers = empty(like, mo.float32, (2 * config.bM, count))
    sums = empty(like, mo.float32, (config.bM * plan.width, count))
    turns = empty(like, mo.int32, (count,)) if in_order else None
    numbers_kernel[tiles, 256](numbers, sums, turns, *(ordered(arrays[name], (1, 3, 2, 0)) for name in ("out", "dout")),
                               ordered(arrays["lse"], (2, 1, 0)), offsets[0], plan)
    Q, K, V, dO, dQ, dK, dV = gradient_copies(plan, arrays, several)
    attention_backward_sm90_kernel.launch(
        Q, K, V, dO, dK, dV, numbers, sums, turns, *offsets, *problem.numbers,
        None if bias is None else ordered(bias, (2, 3, 1, 0)), slopes, plan, grid=grid, block=config.threads,
        dependent=True)
    queries_kernel.launch(dQ, sums, offsets[0], problem.scale, plan, grid=tiles,
                          block=plan.pieces * config.groups * 128, dependent=True)


def gradient_grids(problem: Problem, plan: GradientPlan, arrays: dict[str, Any],
                   several: bool) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The grids over queries and over keys, (tiles, heads, batch); over keys it may be in sections of heads."""
    bM, bN = plan.config.bM, plan.config.bN
    tiles = -(-problem.queries // bM), problem.heads, problem.batch
    grid = -(-problem.keys // bN), problem.heads_K, problem.batch
    if several:                                         # one number more for each, some of which stand for no tile
        tiles = _rows(arrays["q"]) // bM + problem.batch, problem.heads, 1
        grid = _rows(arrays["k"]) // bN + problem.batch, problem.heads_K, 1
    if plan.sections:                                   # L2 holds what has a row for each query: q, dout, sums of dq
        each = problem.queries * (problem.dtype.bytes * (problem.dim + problem.dim_v) + 4 * plan.width)
        heads = grid[1] * grid[2]
        section = section_of(each, heads)
        grid = section, grid[0], -(-heads // section)
    return tiles, grid


def suits_gradients(problem: Problem, arrays: dict[str, Any]) -> bool:
    """Whether the device has wgmma, TMA can describe the arrays, and the registers hold the sums."""
    return mo.arch_of(arrays["q"]) in (None, "sm_90a") and max(problem.dim, problem.dim_v) <= MOST_WIDTH \
        and problem.keys > 0 and problem.queries > 0 and all(by_16_bytes(arrays[name]) for name in _NAMES)


def gradient_copies(plan: GradientPlan, arrays: dict[str, Any], several: bool) -> tuple[Any, ...]:
    """The TMA copies of q, k, v and dout, and of dq, dk and dv; these of ``several`` sequences as they are."""
    config = plan.config
    rows, keys, piece = ((x, (*extents, 1, 1)) for x, extents in (
        (plan.queries, (config.bM, plan.width)), (plan.keys, (config.bN, plan.width)),
        (mo.tile_to_shape(mo.smem_layout_atom(plan.dtype, "k", 128), (64, 64)), (64, 64))))
    return tuple(ordered(arrays[name], (1, 3, 2, 0)) if several and atom is _STORE else
                 mo.make_tma_copy(atom, ordered(arrays[name], (1, 3, 2, 0)), layout, tile=tile)
                 for name, atom, (layout, tile) in (
                     ("q", _LOAD, rows), ("k", _LOAD, keys), ("v", _LOAD, keys), ("dout", _LOAD, rows),
                     ("dq", _STORE, piece), ("dk", _STORE, keys), ("dv", _STORE, keys)))
