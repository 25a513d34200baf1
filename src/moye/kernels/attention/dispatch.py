"""Attention for every call: the kernel for the device and the arrays.

In: q (batch, queries, heads, dim), k, v (batch, keys, heads_k, dim).  Out: out (batch, queries, heads, dim), in place.

    attention(out, q, k, v, causal=True)
    attention(out, q, k, v, window=(1024, 0), softcap=30.0, lse=lse)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import moye as mo
from moye.kernels.attention.parts.arguments import (
    EXACT,
    Problem,
    Window,
    beside,
    bias_of,
    factors_of,
    in_memory,
    like_q,
    named,
    problem_of,
    rank_of,
    require_wide,
    score_of,
)
from moye.kernels.attention.simt.host import launch_gradients_simt, launch_simt
from moye.kernels.attention.sm80.host import launch_gradients, launch_sm80
from moye.kernels.attention.sm90.host import (
    launch_gradients_sm90,
    launch_sm90,
    require_suits,
    suits,
    suits_gradients,
)
from moye.kernels.options import flag


@mo.replayed
def attention(out: Any, q: Any, k: Any, v: Any, *, causal: bool = False, window: Window = (None, None),
              scale: float | None = None, softcap: float = 0.0, bias: Any = None, alibi: Any = None, sinks: Any = None,
              score: Callable[..., Any] | None = None, tensors: tuple[Any, ...] = (), q_scale: Any = None,
              k_scale: Any = None, v_scale: Any = None, lse: Any = None) -> Any:
    """out = softmax(scale * q k^T + bias) v for each head, in place; returns out.

    ``q`` is (batch, queries, heads, dim), ``k`` (batch, keys, heads_k, dim), ``v`` (batch, keys, heads_k, dim_v) and
    ``out`` (batch, queries, heads, dim_v), all bfloat16 or all float16; or all float32 or all float64, which ordinary
    cores take, exact rather than fast.  heads_k divides heads, and head h takes keys and values of head h // (heads /
    heads_k).  The last query stands at the last key.  ``causal``: a query sees the keys up to its own place; ``window``
    = (behind, before): only so many more than that.  ``scale`` is 1 / sqrt(dim) by default; ``softcap`` c makes scores
    c * tanh(scores / c).  ``alibi`` (heads) or (batch, heads), float32: each score loses its slope times the distance.
    ``bias`` (batch, heads, queries, keys) is added, of any strides, 0 too.  ``score`` is a traced function (score,
    query, key, head, batch, *tensors) of what the score becomes.  ``sinks`` (heads), float32, are scores without a
    value.  A query that sees no key gives 0, and -inf in ``lse`` (batch, heads, queries), float32: the logarithms of
    the sums of exponentials.  Beside float64, lse, alibi and sinks are float64.  ArgumentError for other arguments.

    On sm_90a, q, k and v may be float8_e4m3fn beside an ``out`` of 16 bits: they are then what is stored times
    ``q_scale``, ``k_scale`` and ``v_scale``, numbers or float32 (heads) or (batch, heads), of keys and values (heads_k)
    or (batch, heads_k).  Exponentials are rounded to e4m3, too, and sums of products have 14 bits.  UnsupportedError
    where there is no kernel for them.
    """
    problem = problem_of(out, q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, score=score)
    problem, factors = factors_of(problem, q, q_scale, k_scale, v_scale)
    score_of("attention", score, tensors)
    _check_more(problem, q, bias, alibi, lse)
    beside("sinks", sinks, q, (problem.heads,))
    in_memory("attention", {"out": out, "lse": lse},
              {"q": q, "k": k, "v": v, "bias": bias, "alibi": alibi, "sinks": sinks, "q_scale": q_scale,
               "k_scale": k_scale, "v_scale": v_scale, **named(tensors)})
    if 0 in (problem.batch, problem.heads, problem.queries):
        return out
    given: dict[str, Any] = {"bias": _read(problem, bias), "slopes": alibi, "sinks": sinks, "tensors": tensors,
                             "lse": lse}
    if problem.narrow:
        require_suits(problem, out, q, k, v)
        launch_sm90(problem, out, q, k, v, factors=factors, **given)
    else:
        launch_of(problem, out, q, k, v)(problem, out, q, k, v, **given)
    return out


@mo.replayed
def attention_backward(dq: Any, dk: Any, dv: Any, dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *,
                       causal: bool = False, window: Window = (None, None), scale: float | None = None,
                       softcap: float = 0.0, bias: Any = None, alibi: Any = None,
                       deterministic: bool = False) -> tuple[Any, Any, Any]:
    """The gradients of ``attention`` by q, k and v for ``dout``, that of its result; in place; returns (dq, dk, dv).

    All arrays but ``lse`` are of one dtype; ``dout`` is like ``out``, and dq, dk and dv are like q, k and v.  ``out``
    and ``lse`` are what ``attention`` gave, and options are as there.  dk and dv have the same bits in each run,
    and so has dq if ``deterministic``: blocks on sm_90a add to it in memory, in float32, and only wait for each other
    if they have to.  ArgumentError for other arguments.
    """
    problem = problem_of(out, q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, score=None)
    deterministic = flag("attention_backward", "deterministic", deterministic)
    require_wide("attention_backward", problem)
    for name, x, like in (("dout", dout, out), ("dq", dq, q), ("dk", dk, k), ("dv", dv, v)):
        like_q(name, x, q, tuple(like.shape))
    if lse is None:
        raise mo.ArgumentError("attention_backward: lse is None", hint="attention writes it: attention(..., lse=lse)")
    _check_more(problem, q, bias, alibi, lse)
    in_memory("attention_backward", {"dq": dq, "dk": dk, "dv": dv},
              {"dout": dout, "q": q, "k": k, "v": v, "out": out, "lse": lse, "bias": bias, "alibi": alibi})
    if 0 not in (problem.batch, problem.heads):
        arrays = {"q": q, "k": k, "v": v, "out": out, "dout": dout, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
        launch = launch_of_gradients(problem, arrays)
        how = {"in_order": deterministic} if launch is launch_gradients_sm90 else {}    # the others always are
        launch(problem, arrays, bias=_read(problem, bias), slopes=alibi, **how)
    return dq, dk, dv


def launch_of(problem: Problem, *arrays: Any) -> Callable[..., None]:
    """The launch for arrays of 16 bits or more: by wgmma, by mma.sync, or by ordinary cores."""
    if problem.dtype in EXACT:
        return launch_simt
    return launch_sm90 if suits(problem, *arrays) else launch_sm80


def launch_of_gradients(problem: Problem, arrays: dict[str, Any]) -> Callable[..., None]:
    """The launch for gradients of these arrays, by name."""
    if problem.dtype in EXACT:
        return launch_gradients_simt
    return launch_gradients_sm90 if suits_gradients(problem, arrays) else launch_gradients


def _read(problem: Problem, bias: Any) -> Any:
    """The bias that kernels read: they clip to its last element, and without queries or keys it has none."""
    return None if 0 in (problem.queries, problem.keys) else bias


def _check_more(problem: Problem, q: Any, bias: Any, alibi: Any, lse: Any) -> None:
    """ArgumentError for further arrays that do not fit the problem."""
    shape = problem.batch, problem.heads, problem.queries
    beside("lse", lse, q, shape)
    beside("alibi", alibi, q, shape[:2] if rank_of("alibi", alibi) == 2 else shape[1:2])
    bias_of(bias, q, (*shape, problem.keys))
