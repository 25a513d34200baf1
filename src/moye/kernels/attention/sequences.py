"""Attention of sequences of any lengths that lie one behind the other, and its gradients.

In: q (total, heads, dim), k, v (total_k, heads_k, dim), where each sequence begins.  Out: out (total, heads, dim).

    attention_varlen(out, q, k, v, offsets, offsets, longest_q=512, longest_k=512, causal=True)

``offsets`` are int32 (sequences + 1) on the device, from 0 on: they are not read on the host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.attention.dispatch import launch_of, launch_of_gradients
from moye.kernels.attention.parts.arguments import (
    Problem,
    Window,
    beside,
    described,
    factors_of,
    in_memory,
    like_q,
    problem_of,
    require_wide,
)
from moye.kernels.attention.sm90.host import launch_sm90, require_suits
from moye.kernels.options import integer
from moye.kernels.workspace import as_one, zeros


@mo.replayed
def attention_varlen(out: Any, q: Any, k: Any, v: Any, offsets_q: Any, offsets_k: Any, *,
                     longest_q: int | None = None, longest_k: int | None = None, causal: bool = False,
                     window: Window = (None, None), scale: float | None = None, softcap: float = 0.0,
                     alibi: Any = None, sinks: Any = None, q_scale: Any = None, k_scale: Any = None,
                     v_scale: Any = None, lse: Any = None) -> Any:
    """``attention`` of each sequence, in place; returns out.

    Queries of sequence s are rows ``offsets_q[s]`` to ``offsets_q[s + 1]`` of q (total, heads, dim) and of out, its
    keys those of ``offsets_k`` of k and v (total_k, heads_k, dim).  ``longest_q`` and ``longest_k`` say how many
    queries and keys the longest has, by default all of them: without wgmma this costs blocks that find nothing to do,
    and longer sequences cost time.  ``lse`` is (heads, total), and factors have a row for each sequence.  The rest is
    as in ``attention``.  ArgumentError for other arguments.
    """
    problem, offsets = _problem(out, q, k, v, offsets_q, offsets_k, (longest_q, longest_k), causal, window, scale,
                                softcap)
    problem, factors = factors_of(problem, q, q_scale, k_scale, v_scale)
    beside("lse", lse, q, (problem.heads, q.shape[0]))
    beside("alibi", alibi, q, (problem.heads,))
    beside("sinks", sinks, q, (problem.heads,))
    in_memory("attention_varlen", {"out": out, "lse": lse}, {
        "q": q, "k": k, "v": v, "offsets_q": offsets_q, "offsets_k": offsets_k, "alibi": alibi, "sinks": sinks,
        "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale})
    if 0 not in (problem.batch, *q.shape):
        given = {"slopes": alibi, "sinks": sinks, "lse": None if lse is None else as_one(lse), "offsets": offsets}
        whole, views = [as_one(x) for x in (out, q, k, v)], (as_one(out), as_one(q), _some(k), _some(v))
        if problem.narrow:
            require_suits(problem, *whole)
            launch_sm90(problem, *views, factors=factors, **given)
        else:
            launch_of(problem, *whole)(problem, *views, **given)
    return out


@mo.replayed
def attention_varlen_backward(dq: Any, dk: Any, dv: Any, dout: Any, q: Any, k: Any, v: Any, out: Any, lse: Any,
                              offsets_q: Any, offsets_k: Any, *, longest_q: int | None = None,
                              longest_k: int | None = None, causal: bool = False, window: Window = (None, None),
                              scale: float | None = None, softcap: float = 0.0,
                              alibi: Any = None) -> tuple[Any, Any, Any]:
    """The gradients of ``attention_varlen``, in place; returns (dq, dk, dv).  As ``attention_backward``."""
    problem, offsets = _problem(out, q, k, v, offsets_q, offsets_k, (longest_q, longest_k), causal, window, scale,
                                softcap)
    require_wide("attention_varlen_backward", problem)
    for name, x, like in (("dout", dout, out), ("dq", dq, q), ("dk", dk, k), ("dv", dv, v)):
        like_q(name, as_one(x), as_one(q), (1, *like.shape))
    if lse is None:
        raise mo.ArgumentError("attention_varlen_backward: lse is None",
                               hint="attention_varlen writes it: attention_varlen(..., lse=lse)")
    beside("lse", lse, q, (problem.heads, q.shape[0]))
    beside("alibi", alibi, q, (problem.heads,))
    in_memory("attention_varlen_backward", {"dq": dq, "dk": dk, "dv": dv}, {
        "dout": dout, "q": q, "k": k, "v": v, "out": out, "lse": lse, "offsets_q": offsets_q, "offsets_k": offsets_k,
        "alibi": alibi})
    if 0 not in (problem.batch, problem.heads):
        read = {"q": q, "k": k, "v": v, "out": out, "dout": dout, "lse": lse}
        written = {"dq": dq, "dk": dk, "dv": dv}
        arrays = {name: _some(x) for name, x in read.items()} | {name: as_one(x) for name, x in written.items()}
        launch_of_gradients(problem, arrays)(problem, arrays, slopes=alibi, offsets=offsets)
    return dq, dk, dv


def _some(x: Any) -> Any:
    """As one matrix; where there are no rows at all, one of zeros, which nobody reads."""
    if 0 not in x.shape:
        return as_one(x)
    info = described("x", x, len(x.shape))
    return as_one(zeros(x, info.dtype, tuple(max(1, n) for n in x.shape)))


def _problem(out: Any, q: Any, k: Any, v: Any, offsets_q: Any, offsets_k: Any,
             longest: tuple[int | None, ...], causal: bool, window: Window, scale: float | None,
             softcap: float) -> tuple[Problem, tuple[Any, Any]]:
    """The problem as if all sequences were the longest, and where they begin."""
    for name, x in (("q", q), ("k", k), ("v", v), ("out", out)):
        described(name, x, 3)
    problem = problem_of(*(as_one(x) for x in (out, q, k, v)), causal=causal, window=window, scale=scale,
                         softcap=softcap, score=None)
    sequences = described("offsets_q", offsets_q, 1).shape[0] - 1
    for name, x in (("offsets_q", offsets_q), ("offsets_k", offsets_k)):
        info, there = described(name, x, 1), described("q", q, 3)
        if info.dtype != mo.int32 or info.shape != (sequences + 1,) or sequences < 0 or info.device != there.device:
            raise mo.ArgumentError(f"attention_varlen: {name} is {info.dtype} {tuple(info.shape)}; offsets_q and "
                                   "offsets_k are int32 (sequences + 1), on the device of q")
    longest = tuple(None if value is None else integer("attention_varlen", name, value, "no length", 0)
                    for name, value in zip(("longest_q", "longest_k"), longest, strict=True))
    queries, keys = (total if most is None else min(most, total) for most, total in
                     zip(longest, (problem.queries, problem.keys), strict=True))
    return replace(problem, batch=sequences, queries=queries, keys=keys), (offsets_q, offsets_k)
