"""Attention of few queries over keys and values in pages, and what it refuses.

In: q, pages of keys and values, the table of pages, lengths.  Out: out, in place.

    paged_attention(out, q, k_cache, v_cache, page_table, lengths)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.attention.decode.combine import WARPS as COMBINING
from moye.kernels.attention.decode.combine import combine_kernel
from moye.kernels.attention.decode.kernel import decode_kernel
from moye.kernels.attention.decode.plan import BLOCKS, LEAST, WARPS, DecodePlan, make_plan
from moye.kernels.attention.parts.arguments import (
    DTYPES,
    MOST_DIM,
    NARROW,
    agree,
    beside,
    bias_of,
    by_16_bytes,
    described,
    factor,
    factors,
    in_memory,
    named,
    rank_of,
    same_place,
    score_of,
)
from moye.kernels.attention.parts.scores import LEAST_SCALE, Rules
from moye.kernels.options import integer
from moye.kernels.workspace import empty, ordered

MOST_QUERIES = 16
LONG = 1024
"""Keys of a problem from which on the warps of a block share it."""
_PAGES = (16, 32, 64, 128, 256)


@mo.replayed
def paged_attention(out: Any, q: Any, k_cache: Any, v_cache: Any, page_table: Any, lengths: Any, *,
                    window: int | None = None, scale: float | None = None, softcap: float = 0.0, bias: Any = None,
                    alibi: Any = None, sinks: Any = None, score: Callable[..., Any] | None = None,
                    tensors: tuple[Any, ...] = (), k_scale: Any = None, v_scale: Any = None, lse: Any = None) -> Any:
    """out = softmax(scale * q k^T + bias) v over keys and values in pages, in place; returns out.

    ``q`` is (batch, queries, heads, dim), of 1 to 16 queries, ``k_cache`` (pages, page_size, heads_k, dim), ``v_cache``
    (pages, page_size, heads_k, dim_v) and ``out`` (batch, queries, heads, dim_v), all bfloat16 or all float16; heads_k
    divides heads.  Pages have 16, 32, 64, 128 or 256 keys.  ``page_table`` (batch, pages of a sequence), int32, says
    where key i of a sequence lies: in row i % page_size of page page_table[batch, i // page_size].  ``lengths``
    (batch), int32: the keys of each sequence, the queries' own included; entries of the table beyond are not read.
    The last query stands at the last key, and a query sees the keys up to its own place; with ``window`` only so many
    behind it.  ``scale``, ``softcap``, ``alibi``, ``sinks``, ``score``, ``tensors`` and ``lse`` (batch, heads, queries)
    are those of ``attention``; ``bias`` (batch, heads, queries, keys) has a column for each row of a sequence's pages.
    Both caches may be float8_e4m3fn (from sm_89 on); keys and values are then what is stored times ``k_scale`` and
    ``v_scale``: numbers, or float32 (heads_k), (batch, heads_k) or, for each token, (pages, page_size, heads_k).
    ArgumentError for other arguments.
    """
    _check(out, q, k_cache, v_cache, page_table, lengths)
    window, scale, softcap = _numbers(window, scale, softcap, score, tensors)
    _check_more(q, page_table, v_cache, bias, alibi, sinks, lse)
    in_memory("paged_attention", {"out": out, "lse": lse}, {
        "q": q, "k_cache": k_cache, "v_cache": v_cache, "page_table": page_table, "lengths": lengths, "bias": bias,
        "alibi": alibi, "sinks": sinks, "k_scale": k_scale, "v_scale": v_scale, **named(tensors)})
    k_scale, v_scale = (_factors(name, x, q, v_cache) for name, x in (("k_scale", k_scale), ("v_scale", v_scale)))
    batch, _, heads, dim = q.shape
    if 0 in (batch, heads):
        return out
    rules = Rules(left=window is not None, softcap=softcap != 0, score=score)
    work = _shared_out(q, v_cache, page_table, rules, by_token=_rank(v_scale) == 3)
    plan, teams = work.plan, work.teams
    results = empty(q, mo.float32, (plan.dim_v, plan.used, 2 * teams))
    log_sums = empty(q, mo.float32, (plan.used, 2 * teams))
    turned = ordered(out, (3, 2, 1, 0)), None if lse is None else ordered(lse, (2, 1, 0))
    decode_kernel[-(-teams * plan.phases // WARPS), WARPS * 32](
        *turned, ordered(q, (3, 2, 1, 0)), ordered(k_cache, (1, 3, 2, 0)), ordered(v_cache, (1, 3, 2, 0)),
        ordered(page_table, (1, 0)), lengths, results, log_sums,
        1 / math.sqrt(dim) if scale is None else scale, softcap or None, window,
        None if bias is None else ordered(bias, (2, 3, 1, 0)), alibi, sinks, tensors,
        *(ordered(x, (1, 2, 0)) if _rank(x) == 3 else x for x in (k_scale, v_scale)), work.crews, plan)
    by_share, candidates = work.problems > teams, min(work.problems, teams)
    combine_kernel.launch(*turned, lengths, window, results, log_sums, sinks, work.crews, plan, by_share,
                          grid=(candidates, max(1, min(plan.used, work.slots // candidates))), block=COMBINING * 32,
                          dependent=True)
    return out


@dataclass(frozen=True, slots=True)
class _Work:
    """How warps share a call: ``problems`` by ``crews`` of warps, of which ``slots`` are there at a time."""

    plan: DecodePlan
    problems: int
    crews: int
    slots: int

    @property
    def teams(self) -> int:
        return self.crews * self.plan.together


def _shared_out(q: Any, v_cache: Any, page_table: Any, rules: Rules, *, by_token: bool) -> _Work:
    """The plan of a call, and how many crews there are.  ArgumentError for more keys than 32 bits count."""
    (batch, queries, heads, dim), (_, page_size, heads_K, dim_v) = q.shape, v_cache.shape
    device = mo.hardware.of(mo.arch_of(q) or mo.hardware.DEFAULT_ARCH)
    dtypes = described("q", q, 4).dtype, described("v_cache", v_cache, 4).dtype
    plan = make_plan(dtypes, rules, (dim, dim_v), (heads, heads_K), queries, page_size, device, by_token=by_token,
                     whole=by_16_bytes(q))
    problems, tiles = batch * heads_K * plan.row_tiles, max(1, page_table.shape[1] * page_size // plan.keys)
    line = problems // plan.together * tiles
    if line >= 1 << 30:
        raise mo.ArgumentError(f"paged_attention: {batch} sequences of up to {tiles * plan.keys} keys are more than "
                               "numbers of 32 bits count",
                               hint="pass fewer sequences at a time, or a table of fewer pages")
    slots = mo.multiprocessors(q) * BLOCKS * WARPS
    plan = replace(plan, phases=phases_of(problems, tiles * plan.keys, slots))
    crews = max(1, min(slots // (plan.together * plan.phases), -(-line * plan.keys // LEAST)))
    return _Work(plan, problems, crews, slots)


def phases_of(problems: int, keys: int, warps: int) -> int:
    """Warps that share a problem: those of a block, where there are so many for each, and problems of many keys."""
    return WARPS if problems * WARPS <= warps and keys >= LONG else 1


def _rank(x: Any) -> int:
    """The modes of an array, none of a number and of None."""
    return len(getattr(x, "shape", ()))


def _factors(name: str, x: Any, q: Any, v_cache: Any) -> Any:
    """The factors of a cache, or ArgumentError."""
    info, batch = described("v_cache", v_cache, 4), described("q", q, 4).shape[0]
    if x is not None and info.dtype != NARROW:
        raise mo.ArgumentError(f"paged_attention: {name} is for caches of {NARROW}, and these are {info.dtype}")
    heads_K = info.shape[2]
    return factors(name, x, q, (heads_K,), (batch, heads_K), (*info.shape[:2], heads_K))


def _numbers(window: Any, scale: Any, softcap: Any, score: Callable[..., Any] | None,
             tensors: tuple[Any, ...]) -> tuple[int | None, float | None, float]:
    """The options as Python's numbers; ArgumentError for what is none."""
    who = "paged_attention"
    if window is not None:
        window = integer(who, "window", window, "no number of keys of at least 0", 0)
    scale = None if scale is None else max(factor(who, "scale", scale), LEAST_SCALE)
    softcap = factor(who, "softcap", softcap)
    score_of(who, score, tensors)
    return window, scale, softcap


def _check_more(q: Any, page_table: Any, v_cache: Any, bias: Any, alibi: Any, sinks: Any, lse: Any) -> None:
    """ArgumentError for what does not go with queries and pages that fit together."""
    (batch, queries, heads, _), page_size = described("q", q, 4).shape, described("v_cache", v_cache, 4).shape[1]
    shape = batch, heads, queries
    beside("lse", lse, q, shape)
    beside("sinks", sinks, q, (heads,))
    beside("alibi", alibi, q, shape[:2] if rank_of("alibi", alibi) == 2 else shape[1:2])
    bias_of(bias, q, (*shape, page_table.shape[1] * page_size))


def _check(out: Any, q: Any, k_cache: Any, v_cache: Any, page_table: Any, lengths: Any) -> None:
    """ArgumentError for arrays that do not fit together."""
    arrays = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "out": out}
    infos = {name: described(name, x, 4) for name, x in arrays.items()}
    first = infos["q"]
    narrow = infos["k_cache"].dtype == infos["v_cache"].dtype == NARROW
    for name, info in infos.items():
        stored = narrow and name.endswith("cache")
        if first.dtype not in DTYPES or not (stored or info.dtype == first.dtype):
            raise mo.ArgumentError("paged_attention: q, k_cache, v_cache and out are all bfloat16 or all float16, or "
                                   f"both caches {NARROW}, not q {first.dtype} and {name} {info.dtype}")
        same_place(name, info, first)
    (batch, queries, heads, dim), (pages, page_size, heads_K, dim_v) = first.shape, infos["v_cache"].shape
    agree("k_cache", infos["k_cache"].shape, (pages, page_size, heads_K, dim))
    agree("out", infos["out"].shape, (batch, queries, heads, dim_v))
    if not 1 <= queries <= MOST_QUERIES:
        raise mo.ArgumentError(f"paged_attention: 1 to {MOST_QUERIES} queries of a sequence, not {queries}")
    if page_size not in _PAGES:
        raise mo.ArgumentError(f"paged_attention: pages have {', '.join(map(str, _PAGES))} keys, not {page_size}")
    if heads_K == 0 or heads % heads_K:
        raise mo.ArgumentError(f"paged_attention: {heads} heads of queries cannot share {heads_K} heads of keys and "
                               "values")
    if not 0 < dim <= MOST_DIM or not 0 < dim_v <= MOST_DIM:
        raise mo.ArgumentError(f"paged_attention: head dimensions are 1 to {MOST_DIM}, not {dim} and {dim_v}")
    for name in ("k_cache", "v_cache"):
        if not by_16_bytes(arrays[name]):
            raise mo.ArgumentError(f"paged_attention: {name} has strides {tuple(infos[name].strides)}, and its vectors "
                                   "of the head dimension have to be whole, contiguous 16 bytes at such places")
    for name, x, rank in (("page_table", page_table, 2), ("lengths", lengths, 1)):
        info = described(name, x, rank)
        if info.dtype != mo.int32 or info.shape[0] != batch:
            raise mo.ArgumentError(f"paged_attention: {name} is {info.dtype} {tuple(info.shape)}, not int32 of {batch} "
                                   "sequences")
        same_place(name, info, first)
