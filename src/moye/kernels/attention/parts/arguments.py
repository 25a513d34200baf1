"""The arguments of attention, checked: what problem they are.

In: arrays (batch, seqlen, heads, dim) and options.  Out: a ``Problem``, or ArgumentError in one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import LEAST_SCALE, Rules
from moye.kernels.options import flag, function, integer, real, shown
from moye.kernels.views import FLOATS, info_of, outputs

Window = tuple[int | None, int | None]
DTYPES = (mo.bfloat16, mo.float16)
EXACT = (mo.float32, mo.float64)
"""What ordinary cores multiply."""
NARROW = mo.float8_e4m3fn
"""What q, k and v may be instead, and caches; results have 16 bits."""
MOST_DIM = 256


@dataclass(frozen=True, slots=True)
class Problem:
    """What is asked for: dtypes of operands and of the result, extents, the rules of the scores with their numbers."""

    dtype: Any
    out: Any
    batch: int
    queries: int
    keys: int
    heads: int
    heads_K: int
    dim: int
    dim_v: int
    rules: Rules
    scale: float
    softcap: float
    left: int
    right: int

    @property
    def numbers(self) -> tuple[float, float | None, int | None, int | None]:
        """What kernels get: scale, cap, keys behind and before a query; None for rules that there are not."""
        rules = self.rules
        return self.scale, self.softcap if rules.softcap else None, self.left if rules.left else None, \
            self.right if rules.right else None

    @property
    def narrow(self) -> bool:
        """Whether operands have 8 bits."""
        return self.dtype is NARROW

    @property
    def heads_of_a_key(self) -> int:
        """Heads of queries that share a head of keys and values."""
        return self.heads // self.heads_K


def problem_of(out: Any, q: Any, k: Any, v: Any, *, causal: bool, window: Window, scale: float | None,
               softcap: float, score: Callable[..., Any] | None) -> Problem:
    """The problem of these arrays; ArgumentError where they do not fit together."""
    infos = {"q": described("q", q, 4), "k": described("k", k, 4), "v": described("v", v, 4),
             "out": described("out", out, 4)}
    a, b, c, o = infos.values()
    results = DTYPES if a.dtype == NARROW else (a.dtype,)
    for name, x in infos.items():
        if a.dtype not in (*DTYPES, *EXACT, NARROW) or x.dtype not in (results if x is o else (a.dtype,)):
            raise mo.ArgumentError("attention: q, k, v and out are all bfloat16, all float16, all float32 or all "
                                   f"float64, or q, k and v {NARROW} and out of 16 bits, not q {a.dtype} and {name} "
                                   f"{x.dtype}")
        same_place(name, x, a)
    batch, queries, heads, dim = a.shape
    _, keys, heads_K, dim_v = c.shape
    agree("k", b.shape, (batch, keys, heads_K, dim))
    agree("v", c.shape, (batch, keys, heads_K, dim_v))
    agree("out", o.shape, (batch, queries, heads, dim_v))
    if heads_K == 0 or heads % heads_K:
        raise mo.ArgumentError(f"attention: {heads} heads of queries cannot share {heads_K} heads of keys and values")
    if not 0 < dim <= MOST_DIM or not 0 < dim_v <= MOST_DIM:
        raise mo.ArgumentError(f"attention: head dimensions are 1 to {MOST_DIM}, not {dim} and {dim_v}")
    left, right = limits(causal, window)
    scale, softcap = None if scale is None else factor("attention", "scale", scale), \
        factor("attention", "softcap", softcap)
    rules = Rules(left is not None, right is not None, False, softcap=softcap != 0, score=score)
    return Problem(a.dtype, o.dtype, batch, queries, keys, heads, heads_K, dim, dim_v, rules,
                   1 / math.sqrt(dim) if scale is None else max(scale, LEAST_SCALE), softcap,
                   0 if left is None else left, 0 if right is None else right)


_MOST = 2.0**126


def factor(who: str, name: str, x: Any) -> float:
    """A number that float32 has, of at least 0; ArgumentError for anything else."""
    found = real(who, name, x)
    if not 0 <= found <= _MOST:
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is no number from 0 to 2**126")
    return found


def described(name: str, x: Any, rank: int) -> Any:
    """An array of this rank that does not run backwards; ArgumentError for anything else."""
    info = info_of("attention", name, x)
    if info is None:
        raise mo.ArgumentError(f"attention: {name} is a {type(x).__name__}, no array")
    if not hasattr(x, "shape"):                         # of DLPack's protocol alone: views are needed all over
        raise mo.ArgumentError(f"attention: {name} is a {type(x).__name__}, which has no shape and no views",
                               hint="pass a torch, CuPy, JAX or NumPy array, as by from_dlpack")
    if len(info.shape) != rank:
        raise mo.ArgumentError(f"attention: {name} has {len(info.shape)} modes, not {rank}: {_NAMED[rank]}")
    if any(step < 0 and n > 1 for n, step in zip(info.shape, info.strides, strict=True)):
        raise mo.ArgumentError(f"attention: {name} has a negative stride {min(info.strides)}", hint="pass a copy")
    return info


def rank_of(name: str, x: Any) -> int:
    """The modes of an array, none of a number and of None."""
    info = info_of("attention", name, x)
    return 0 if info is None else len(info.shape)


_NAMED = {1: "(heads) or (sequences + 1)", 2: "(batch, heads)", 3: "(batch, heads, seqlen) or (total, heads, dim)",
          4: "(batch, seqlen, heads, dim)"}


def agree(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """ArgumentError for an array of another shape."""
    if tuple(shape) != expected:
        raise mo.ArgumentError(f"attention: {name} is {tuple(shape)} where the others ask for {expected}")


def beside(name: str, x: Any, q: Any, expected: tuple[int, ...]) -> None:
    """ArgumentError for anything but None, or float32 (of float64 float64) of this shape on the device of q."""
    if x is None:
        return
    info, other = described(name, x, len(expected)), mo.describe(q)
    agree(name, info.shape, expected)
    if other is not None:
        if info.dtype != sums_of(other.dtype):
            raise mo.ArgumentError(f"attention: {name} is {info.dtype}, not {sums_of(other.dtype)}")
        same_place(name, info, other)


def sums_of(dtype: Any) -> Any:
    """What is summed in, and what numbers beside the operands hold: float64 for float64, else float32."""
    return mo.float64 if dtype == mo.float64 else mo.float32


def bias_of(bias: Any, q: Any, expected: tuple[int, ...]) -> None:
    """ArgumentError for anything but None, or floats of this shape on the device of q."""
    if bias is None:
        return
    info = described("bias", bias, 4)
    agree("bias", info.shape, expected)
    if info.dtype not in FLOATS:
        raise mo.ArgumentError(f"attention: bias is {info.dtype}; it may be {', '.join(map(str, FLOATS))}")
    same_place("bias", info, described("q", q, 4))


def in_memory(who: str, written: dict[str, Any], read: dict[str, Any]) -> None:
    """ArgumentError for outputs that cannot be written, or share memory with another array; None is not there."""
    outputs(who, *({name: info_of(who, name, x) for name, x in arrays.items() if x is not None}
                   for arrays in (written, read)))


def score_of(who: str, score: Any, tensors: Any) -> None:
    """ArgumentError for a score that is no function of (score, query, key, head, batch, *tensors), and for tensors of
    which there is no tuple, or nobody to take them."""
    if not isinstance(tensors, tuple):
        raise mo.ArgumentError(f"{who}: tensors={shown(tensors)} is no tuple of arrays")
    if tensors and score is None:
        raise mo.ArgumentError(f"{who}: tensors are handed to a score function, and there is none")
    function(who, "score", score, 5 + len(tensors))


def named(tensors: tuple[Any, ...]) -> dict[str, Any]:
    """What a score function is handed, each under a name for errors."""
    return {f"tensors[{i}]": x for i, x in enumerate(tensors)}


def factors(name: str, x: Any, q: Any, *shapes: tuple[int, ...]) -> Any:
    """A number that is no array, None, or float32 of one of these shapes on the device of q; else ArgumentError."""
    if x is None:
        return None
    if not isinstance(x, bool) and isinstance(x, Real):
        return factor("attention", name, x)
    info, other = info_of("attention", name, x), mo.describe(q)
    if info is None or other is None:
        raise mo.ArgumentError(f"attention: {name} is a {type(x).__name__}, no number and no array")
    if tuple(info.shape) not in shapes:
        raise mo.ArgumentError(f"attention: {name} is {tuple(info.shape)}, and not one of "
                               f"{', '.join(map(str, shapes))}")
    if info.dtype != mo.float32:
        raise mo.ArgumentError(f"attention: {name} is {info.dtype}, not float32")
    same_place(name, info, other)
    return x


def require_wide(what: str, problem: Problem) -> None:
    """ArgumentError for operands of 8 bits, which have no gradients."""
    if problem.narrow:
        raise mo.ArgumentError(f"{what}: q, k and v are {problem.dtype}, and gradients are of bfloat16 or float16")


def factors_of(problem: Problem, q: Any, q_scale: Any, k_scale: Any, v_scale: Any) -> tuple[Problem, tuple[Any, ...]]:
    """The problem with those of queries and keys that are numbers in its scale; the others, of (q, k, v)."""
    if not problem.narrow:
        for name, x in (("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale)):
            if x is not None:
                raise mo.ArgumentError(f"attention: {name} is for q, k and v of {NARROW}, and these are "
                                       f"{problem.dtype}")
        return problem, (None, None, None)
    each = [factors(name, x, q, (count,), (problem.batch, count)) for name, x, count in
            (("q_scale", q_scale, problem.heads), ("k_scale", k_scale, problem.heads_K),
             ("v_scale", v_scale, problem.heads_K))]
    numbers = [x for x in each[:2] if isinstance(x, float)]
    kept = (*(None if isinstance(x, float) else x for x in each[:2]), each[2])
    scale = factor("attention", "scale * q_scale * k_scale", math.prod(numbers, start=problem.scale))
    return replace(problem, scale=max(scale, LEAST_SCALE)), kept


def like_q(name: str, x: Any, q: Any, expected: tuple[int, ...]) -> None:
    """ArgumentError for anything but an array of this shape, of the dtype and on the device of q."""
    info, other = described(name, x, 4), described("q", q, 4)
    agree(name, info.shape, expected)
    if info.dtype != other.dtype:
        raise mo.ArgumentError(f"attention: {name} is {info.dtype}, and q is {other.dtype}")
    same_place(name, info, other)


def same_place(name: str, info: Any, first: Any) -> None:
    """ArgumentError for an array that is not where q is."""
    if info.device != first.device:
        raise mo.ArgumentError(f"attention: q is on {_place(first)} but {name} is on {_place(info)}")


def limits(causal: bool, window: Window) -> Window:
    """How many keys a query sees behind and before it; None: all."""
    try:
        left, right = (None if x is None else integer("attention", "window", x, least=0) for x in window)
    except (mo.ArgumentError, TypeError, ValueError):
        raise mo.ArgumentError(f"attention: window={shown(window)} is no pair (keys behind, keys before) of numbers of "
                               "at least 0, or None for all") from None
    return left, (0 if flag("attention", "causal", causal) else right)


def by_16_bytes(x: Any) -> bool:
    """Whether all vectors of the head dimension begin at multiples of 16 bytes and are whole."""
    info = mo.describe(x)
    assert info is not None, "arguments were checked"
    each = 16 // info.dtype.bytes
    return info.shape[3] % each == 0 and info.strides[3] == 1 and info.ptr % 16 == 0 \
        and all(step % each == 0 for step in info.strides[:3])


def _place(info: Any) -> str:
    return "the host" if info.device is None else f"cuda:{info.device}"
