"""Every kernel of moye.kernels in the emulator, against float64 NumPy: a table of errors, instructions and seconds.

    python tests/emulator/library.py                    # all
    python tests/emulator/library.py gemm attention     # those whose names contain one of these words
    python tests/emulator/library.py --seed 3 gemm      # another order of threads, other numbers
    python tests/emulator/library.py --draw 1 300       # 300 drawn calls, each with its own seed: drawn_*.py

A case is a function that launches and gives (got, wanted, allowed error relative to the largest number).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "cases")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

from emulator.draw import Draw  # noqa: E402
from emulator.drawn_products import PRODUCTS  # noqa: E402
from emulator.drawn_rows import ROWS  # noqa: E402
from emulator.emulated import Device, emulated  # noqa: E402
from moye import kernels  # noqa: E402

f64, f32, f16, bf16 = np.float64, np.float32, np.float16, ml_dtypes.bfloat16
CLOSE = {np.dtype(f64): 1e-12, np.dtype(f32): 2e-5, np.dtype(f16): 2e-3, np.dtype(bf16): 1.2e-2}

Answer = tuple[Any, Any, float]
Run = Callable[[np.random.Generator], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class Case:
    """One case of one function of the library."""

    kernel: str
    name: str
    run: Run


CASES: list[Case] = []


def case(kernel: str, *forms: tuple[Any, ...]) -> Callable[[Callable[..., Iterable[Answer]]], None]:
    """Add a case for each tuple of further arguments."""
    def add(function: Callable[..., Iterable[Answer]]) -> None:
        for form in forms or ((),):
            name = " ".join(str(getattr(x, "__name__", x)).replace(" ", "") for x in form)
            CASES.append(Case(kernel, name, lambda rng, form=form: function(rng, *form)))
    return add


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = f32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def poison(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.full(shape, np.nan, dtype) if np.dtype(dtype).kind not in "iu" else np.full(shape, -77, dtype)


def wide(x: Any) -> Any:
    return np.asarray(x, f64)


def close(dtype: Any, factor: float = 1.0) -> float:
    return CLOSE[np.dtype(dtype)] * factor


# --- rows ------------------------------------------------------------------------------------------------------------


def softmax_of(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@case("softmax", ((3, 40), f32), ((2, 1027), bf16), ((5, 3), f64), ((2, 9000), f16), ((1, 70001), f32))
def _softmax(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, dy, y, dx = (drawn(rng, shape, dtype) for _ in range(4))
    kernels.softmax(y, x, scale=0.7)
    want = softmax_of(0.7 * wide(x))
    yield y, want, close(dtype)
    kernels.softmax_backward(dx, dy, y, scale=0.7)
    p = wide(y)
    yield dx, 0.7 * p * (wide(dy) - (p * wide(dy)).sum(-1, keepdims=True)), close(dtype, 2)
    kernels.log_softmax(y, x)
    yield y, np.log(softmax_of(wide(x))), close(dtype)


@case("rms_norm", ((4, 96), f32), ((3, 1000), bf16), ((2, 5), f64), ((2, 20000), f16))
def _rms_norm(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, y, dy, dx = (drawn(rng, shape, dtype) for _ in range(4))
    sums = f64 if dtype is f64 else f32
    w, dw, rstd = drawn(rng, shape[-1:], dtype), poison(shape[-1:], dtype), poison(shape[:-1], sums)
    kernels.rms_norm(y, x, w, rstd=rstd)
    r = 1 / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True) + 1e-6)
    yield y, wide(x) * r * wide(w), close(dtype)
    yield rstd, r[..., 0], close(sums)
    kernels.rms_norm_backward(dx, dy, x, w, rstd, dweight=dw)
    hat, weighted = wide(x) * r, wide(dy) * wide(w)
    yield dx, r * (weighted - hat * (weighted * hat).mean(-1, keepdims=True)), close(dtype, 2)
    yield dw, (wide(dy) * hat).sum(0), close(dtype, 2)


@case("layer_norm", ((4, 96), f32), ((3, 777), bf16))
def _layer_norm(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, y, dy, dx = (drawn(rng, shape, dtype) for _ in range(4))
    w, b = drawn(rng, shape[-1:], dtype), drawn(rng, shape[-1:], dtype)
    rstd, mean = poison(shape[:-1], f32), poison(shape[:-1], f32)
    kernels.layer_norm(y, x, w, b, rstd=rstd, mean=mean)
    middle = wide(x).mean(-1, keepdims=True)
    r = 1 / np.sqrt(((wide(x) - middle) ** 2).mean(-1, keepdims=True) + 1e-5)
    hat = (wide(x) - middle) * r
    yield y, hat * wide(w) + wide(b), close(dtype)
    kernels.layer_norm_backward(dx, dy, x, w, rstd, mean)
    d = wide(dy) * wide(w)
    yield dx, r * (d - d.mean(-1, keepdims=True) - hat * (d * hat).mean(-1, keepdims=True)), close(dtype, 2)


@case("cross_entropy", ((5, 33), f32), ((4, 3000), bf16))
def _cross_entropy(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, labels = drawn(rng, shape, dtype), rng.integers(0, shape[-1], shape[:-1])
    labels[0] = -100
    loss, dx, lse = poison(shape[:-1], f32), poison(shape, dtype), poison(shape[:-1], f32)
    kernels.cross_entropy(loss, x, labels, dlogits=dx, lse=lse, reduction="none")
    counts = labels >= 0
    logs = np.log(softmax_of(wide(x)))
    want = np.where(counts, -np.take_along_axis(logs, np.maximum(labels, 0)[..., None], -1)[..., 0], 0)
    yield loss, want, close(f32)
    hot = np.eye(shape[-1])[np.maximum(labels, 0)]
    yield dx, (np.exp(logs) - hot) * counts[..., None], close(dtype)
    total = poison((), f32)
    kernels.cross_entropy(total, x, labels)
    yield total, want.sum() / counts.sum(), close(f32)


@case("linear_cross_entropy", (f32,), (bf16,))
def _linear_cross_entropy(rng: np.random.Generator, dtype: Any) -> Iterator[Answer]:
    x, w = drawn(rng, (70, 64), dtype), drawn(rng, (200, 64), dtype) / np.asarray(8, dtype)
    labels, loss = rng.integers(0, 200, 70), poison((70,), f32)
    kernels.linear_cross_entropy(loss, x, w, labels, reduction="none")
    logs = np.log(softmax_of(wide(x) @ wide(w).T))
    yield loss, -logs[np.arange(70), labels], close(dtype, 2)


# --- moves and elements ----------------------------------------------------------------------------------------------


@case("rope", ((2, 9, 3, 64), bf16), ((1, 5, 2, 34), f32))
def _rope(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, out, half = drawn(rng, shape, dtype), poison(shape, dtype), shape[-1] // 2
    angle = rng.random((40, half)) * 6
    cos, sin = np.cos(angle).astype(f32), np.sin(angle).astype(f32)
    kernels.rope(out, x, cos, sin, offset=3)
    c, s = (wide(t)[3:3 + shape[1], None] for t in (cos, sin))
    a, b = wide(x)[..., :half], wide(x)[..., half:]
    yield out, np.concatenate([a * c - b * s, b * c + a * s], -1), close(dtype)


@case("swiglu", ((7, 130), f32), ((3, 1000), bf16))
def _swiglu(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    gate, up, out, dy, dg, du = (drawn(rng, shape, dtype) for _ in range(6))
    kernels.swiglu(out, gate, up)
    g, u, d = wide(gate), wide(up), wide(dy)
    s = 1 / (1 + np.exp(-g))
    yield out, g * s * u, close(dtype)
    kernels.swiglu_backward((dg, du), dy, gate, up)
    yield dg, d * u * s * (1 + g * (1 - s)), close(dtype)
    yield du, d * g * s, close(dtype)


@case("geglu", ((7, 130), f32), ((3, 500), f16))
def _geglu(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    gate, up, out = (drawn(rng, shape, dtype) for _ in range(3))
    kernels.geglu(out, gate, up, approximate="tanh")
    g = wide(gate)
    inner = np.sqrt(2 / np.pi) * (g + 0.044715 * g ** 3)
    yield out, g * (1 + np.tanh(inner)) / 2 * wide(up), close(dtype, 2)


@case("embedding", ((50, 64), bf16), ((9, 33), f32))
def _embedding(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    table, ids = drawn(rng, shape, dtype), rng.integers(0, shape[0], (3, 11))
    out, dtable = poison((*ids.shape, shape[1]), dtype), poison(shape, dtype)
    kernels.embedding(out, table, ids)
    yield out, wide(table)[ids], 0.0
    kernels.embedding_backward(dtable, out, ids)
    want = np.zeros(shape)
    np.add.at(want, ids.ravel(), wide(out).reshape(-1, shape[1]))
    yield dtable, want, close(dtype)


@case("transpose", ((65, 130), f32), ((3, 40, 17), bf16), ((64, 64), np.uint8))
def _transpose(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x = drawn(rng, shape).astype(dtype) if dtype is not np.uint8 else rng.integers(0, 255, shape, np.uint8)
    out = poison((*shape[:-2], shape[-1], shape[-2]), dtype) if dtype is not np.uint8 else np.zeros(shape[::-1], dtype)
    kernels.transpose(out, x)
    yield out, wide(x).swapaxes(-1, -2), 0.0


@case("permute", ((5, 6, 40), (2, 0, 1)), ((4, 33, 8), (1, 0, 2)))
def _permute(rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[Answer]:
    x = drawn(rng, shape)
    out = poison(tuple(shape[a] for a in axes), f32)
    kernels.permute(out, x, axes)
    yield out, wide(x).transpose(axes), 0.0


@case("reduce", ((40, 70), 0, f32), ((40, 70), 1, bf16), ((3, 2000), None, f32), ((7, 5, 9), (0, 2), f64))
def _reduce(rng: np.random.Generator, shape: tuple[int, ...], axis: Any, dtype: Any) -> Iterator[Answer]:
    x = drawn(rng, shape, dtype)
    for kind, f in (("sum", np.sum), ("max", np.max)):
        want = f(wide(x), axis=axis)
        out = poison(want.shape, dtype)
        kernels.reduce(out, x, kind, axis=axis)
        yield out, want, close(dtype, 2)


@case("cumsum", ((3, 500), f32), ((9000,), f32), ((20, 7), f64))
def _cumsum(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Iterator[Answer]:
    x, out = drawn(rng, shape, dtype), poison(shape, dtype)
    kernels.cumsum(out, x, axis=0)
    yield out, wide(x).cumsum(0), close(dtype)


@case("top_k", ((3, 200), 5, f32), ((1, 3000), 64, bf16))
def _top_k(rng: np.random.Generator, shape: tuple[int, ...], k: int, dtype: Any) -> Iterator[Answer]:
    x, values = drawn(rng, shape, dtype), poison((shape[0], k), dtype)
    indices = np.zeros((shape[0], k), np.int32)
    kernels.top_k(values, indices, x)
    yield values, -np.sort(-wide(x), -1)[:, :k], 0.0
    yield np.take_along_axis(wide(x), indices.astype(int), -1), values, 0.0


# --- products --------------------------------------------------------------------------------------------------------


def product(rng: np.random.Generator, size: tuple[int, int, int], dtype: Any, result: Any,
            order: str) -> tuple[Any, ...]:
    """A, B and C with their orders ("K" or "M": which mode is contiguous)."""
    m, n, k = size
    a = drawn(rng, (m, k) if order[0] == "K" else (k, m), dtype)
    b = drawn(rng, (n, k) if order[1] == "K" else (k, n), dtype)
    c = poison((m, n), result)
    return (a if order[0] == "K" else a.T), (b if order[1] == "K" else b.T), c


SIZES = ((64, 64, 32), "KK"), ((130, 77, 100), "KK"), ((72, 136, 64), "MK"), ((33, 40, 48), "KM"), ((96, 64, 40), "MM")


@case("gemm_simt", *((size, order, f32) for size, order in SIZES[:3]), ((40, 24, 17), "KK", f64))
def _gemm_simt(rng: np.random.Generator, size: Any, order: str, dtype: Any) -> Iterator[Answer]:
    a, b, c = product(rng, size, dtype, dtype, order)
    kernels.gemm_simt(a, b, c)
    yield c, wide(a) @ wide(b).T, close(dtype)


@case("gemm_sm80", *((size, order, bf16, bf16) for size, order in SIZES), ((128, 128, 256), "KK", f16, f32),
      ((64, 72, 64), "KK", f32, f32))
def _gemm_sm80(rng: np.random.Generator, size: Any, order: str, dtype: Any, result: Any) -> Iterator[Answer]:
    a, b, c = product(rng, size, dtype, result, order)
    kernels.gemm_sm80(a, b, c)
    yield c, wide(a) @ wide(b).T, close(result) if dtype is not f32 else 2e-3


ALIGNED = ((64, 64, 64), "KK"), ((130, 80, 104), "KK"), ((72, 136, 64), "MK"), ((40, 40, 48), "KM"), \
    ((96, 64, 40), "MM")


@case("gemm_sm90", *((size, order, bf16, bf16) for size, order in ALIGNED), ((200, 256, 320), "KK", f16, f32),
      ((64, 72, 64), "KK", f32, f32), ((300, 520, 256), "KK", bf16, bf16))
def _gemm_sm90(rng: np.random.Generator, size: Any, order: str, dtype: Any, result: Any) -> Iterator[Answer]:
    a, b, c = product(rng, size, dtype, result, order)
    kernels.gemm_sm90(a, b, c)
    yield c, wide(a) @ wide(b).T, close(result) if dtype is not f32 else 2e-3


FORMS = (("cooperative", 2, 1, 1, 1), ("pingpong", 2, 1, 1, 1), ("cooperative", 2, 1, 2, 1),
         ("cooperative", 2, 1, 1, 2), ("cooperative", 1, 1, 1, 1))


@case("gemm_sm90 configs", *FORMS)
def _gemm_sm90_configs(rng: np.random.Generator, schedule: str, groups: int, split: int, share_a: int,
                       share_b: int) -> Iterator[Answer]:
    a, b, c = product(rng, (260, 264, 320), bf16, bf16, "KK")
    rows = 64 * groups if schedule == "cooperative" else 64
    config = kernels.WarpgroupConfig(rows, 128, 64, 3, schedule, groups, split, share_A=share_a, share_B=share_b)
    kernels.gemm_sm90(a, b, c, config=config)
    yield c, wide(a) @ wide(b).T, close(bf16)


@case("gemm", (f32,), (bf16,), (f64,))
def _gemm(rng: np.random.Generator, dtype: Any) -> Iterator[Answer]:
    a, b, c = product(rng, (100, 60, 56), dtype, dtype, "KK")
    c0 = c[...] = drawn(rng, c.shape, dtype)
    want = 0.5 * wide(a) @ wide(b).T + 2 * wide(c0)
    kernels.gemm(a, b, c, alpha=0.5, beta=2.0)
    yield c, want, close(dtype)


@case("grouped_gemm_sm90", ((0, 40, 40, 200), ), ((70, 3, 130),))
def _grouped(rng: np.random.Generator, sizes: tuple[int, ...]) -> Iterator[Answer]:
    total, n, k = sum(sizes), 136, 64
    a, c = drawn(rng, (total, k), bf16), poison((total, n), bf16)
    b = drawn(rng, (len(sizes), n, k), bf16)
    offsets = np.cumsum([0, *sizes]).astype(np.int32)
    kernels.grouped_gemm_sm90(a, b.transpose(1, 2, 0), c, offsets)
    want = np.concatenate([wide(a)[i:j] @ wide(b)[g].T for g, (i, j) in enumerate(pairwise(offsets))])
    yield c, want, close(bf16)


# --- attention -------------------------------------------------------------------------------------------------------


def attended(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Attention in float64, and the logarithms of sums of exponentials (batch, heads, queries)."""
    q, k, v = (wide(x).transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        rows, columns = scores.shape[-2:]
        scores = np.where(np.arange(columns) <= np.arange(rows)[:, None] + columns - rows, scores, -np.inf)
    lse = np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)) + scores.max(-1)
    return (np.exp(scores - lse[..., None]) @ v).transpose(0, 2, 1, 3), lse


ATTENTION = ((1, 100, 100, 2, 1, 64), False), ((1, 70, 130, 2, 2, 128), True), ((2, 17, 40, 2, 1, 96), True), \
    ((1, 140, 200, 1, 1, 192), False), ((1, 65, 65, 1, 1, 256), True)


@case("attention", *ATTENTION)
def _attention(rng: np.random.Generator, size: tuple[int, ...], causal: bool) -> Iterator[Answer]:
    batch, queries, keys, heads, heads_k, dim = size
    q = drawn(rng, (batch, queries, heads, dim), bf16)
    k, v = (drawn(rng, (batch, keys, heads_k, dim), bf16) for _ in range(2))
    out, lse = poison(q.shape, bf16), poison((batch, heads, queries), f32)
    kernels.attention(out, q, k, v, causal=causal, lse=lse)
    want, sums = attended(q, k, v, causal)
    yield out, want, close(bf16)
    yield lse, sums, 1e-3


def gradients(q: Any, k: Any, v: Any, dout: Any, causal: bool) -> tuple[Any, Any, Any]:
    """dq, dk, dv of one batch where heads and heads_k are the same."""
    _, lse = attended(q, k, v, causal)
    q, k, v, dout = (wide(x).transpose(0, 2, 1, 3) for x in (q, k, v, dout))
    scale = 1 / np.sqrt(q.shape[-1])
    scores = scale * q @ k.swapaxes(-1, -2)
    rows, columns = scores.shape[-2:]
    seen = np.arange(columns) <= np.arange(rows)[:, None] + columns - rows if causal else True
    p = np.where(seen, np.exp(scores - lse[..., None]), 0)
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    return tuple(x.transpose(0, 2, 1, 3) for x in (ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dout))


@case("attention_backward", ((1, 70, 70, 2, 2, 64), True, False), ((1, 130, 90, 1, 1, 128), False, True),
      ((1, 40, 50, 1, 1, 192), False, False))
def _attention_backward(rng: np.random.Generator, size: tuple[int, ...], causal: bool, fixed: bool) -> Iterator[Answer]:
    batch, queries, keys, heads, heads_k, dim = size
    q, dout = (drawn(rng, (batch, queries, heads, dim), bf16) for _ in range(2))
    k, v = (drawn(rng, (batch, keys, heads_k, dim), bf16) for _ in range(2))
    out, lse = poison(q.shape, bf16), poison((batch, heads, queries), f32)
    kernels.attention(out, q, k, v, causal=causal, lse=lse)
    found = tuple(poison(x.shape, bf16) for x in (q, k, v))
    kernels.attention_backward(*found, dout, q, k, v, out, lse, causal=causal, deterministic=fixed)
    for got, want in zip(found, gradients(q, k, v, dout, causal), strict=True):
        yield got, want, close(bf16, 2)


@case("attention_varlen", ((30, 0, 70), (30, 5, 90)))
def _attention_varlen(rng: np.random.Generator, queries: tuple[int, ...], keys: tuple[int, ...]) -> Iterator[Answer]:
    q = drawn(rng, (sum(queries), 2, 64), bf16)
    k, v = (drawn(rng, (sum(keys), 2, 64), bf16) for _ in range(2))
    out, (at, of) = poison(q.shape, bf16), (np.cumsum([0, *n]).astype(np.int32) for n in (queries, keys))
    kernels.attention_varlen(out, q, k, v, at, of, causal=True)
    parts = [attended(q[None, a:b], k[None, c:d], v[None, c:d], True)[0][0]
             for (a, b), (c, d) in zip(pairwise(at), pairwise(of), strict=True) if b > a]
    yield out, np.concatenate(parts), close(bf16)


@case("paged_attention", (64, 1), (128, 4))
def _paged_attention(rng: np.random.Generator, dim: int, group: int) -> Iterator[Answer]:
    page, lengths = 64, np.array([5, 150], np.int32)
    table = rng.permutation(8).reshape(2, 4).astype(np.int32)
    caches = [drawn(rng, (8, page, 2, dim), bf16) for _ in range(2)]
    q = drawn(rng, (2, 1, 2 * group, dim), bf16)
    out = poison(q.shape, bf16)
    kernels.paged_attention(out, q, *caches, table, lengths)
    for i, length in enumerate(lengths):
        k, v = (cache[table[i]].reshape(-1, 2, dim)[None, :length] for cache in caches)
        yield out[i:i + 1], attended(q[i:i + 1], k, v, False)[0], close(bf16)


# --- the table -------------------------------------------------------------------------------------------------------


def error_of(got: Any, want: Any) -> float:
    """The largest difference, relative to the largest number; infinite where a NaN is left."""
    got, want = wide(got), wide(want)
    if got.shape != want.shape or np.isnan(got).any():
        return float("inf")
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-30))


def judged(one: Case, seed: int) -> tuple[str, float, Device | None]:
    """A verdict, the largest error relative to what is allowed, and the device that ran."""
    worst, failed = 0.0, ""
    with emulated(seed) as device:
        try:
            for number, (got, want, allowed) in enumerate(one.run(np.random.default_rng(seed))):
                error = error_of(got, want)
                worst = max(worst, error)
                if not error <= allowed:
                    failed = failed or f"answer {number} is off by {error:.1e}, and {allowed:.1e} is allowed"
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
    return failed or "right", worst, device


# --- drawn calls -----------------------------------------------------------------------------------------------------


FAMILIES: dict[str, Callable[[Draw], None]] = {**ROWS, **PRODUCTS}


def tried(family: str, seed: int) -> tuple[str, Draw]:
    """What is wrong with a drawn call, empty if nothing is; and what was drawn."""
    draw = Draw(seed, family)
    with emulated(seed, draw.one(132, 132, 132, 5, 1)), np.errstate(all="ignore"):
        try:
            FAMILIES[family](draw)
            draw.intact()
        except Exception as error:
            return f"{type(error).__name__}: {error}", draw
    return "", draw


def draws(names: Sequence[str], first: int, count: int, seconds: float) -> int:
    """Families in turn, and a line for each call that is wrong: how many there are."""
    families = [name for name in FAMILIES if not names or name in names]
    start, ran, wrong = time.perf_counter(), 0, 0
    for seed in range(first, first + count):
        if time.perf_counter() - start > seconds:
            break
        family, ran = families[seed % len(families)], ran + 1
        found, draw = tried(family, seed)
        if found:
            wrong += 1
            print(f"{family} --draw {seed}: {found}\n  {', '.join(draw.notes)}", flush=True)
    print(f"{ran} calls, {wrong} wrong, {time.perf_counter() - start:.0f} s")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=int, nargs=2, metavar=("SEED", "COUNT"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    if options.draw:
        return bool(draws(options.names, *options.draw, options.seconds))
    wrong = 0
    print(f"{'kernel':22} {'case':44} {'error':>9} {'instructions':>13} {'seconds':>8}  verdict")
    for one in CASES:
        if options.names and not any(word in one.kernel for word in options.names):
            continue
        start = time.perf_counter()
        verdict, error, device = judged(one, options.seed)
        wrong += verdict != "right"
        count = sum(launch.instructions for launch in device.launches) if device else 0
        print(f"{one.kernel:22} {one.name:44} {error:9.1e} {count:13} {time.perf_counter() - start:8.1f}  {verdict}",
              flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
