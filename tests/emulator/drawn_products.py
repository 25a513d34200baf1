"""Drawn calls of the kernels that multiply matrices: gemm in all its forms, attention; each against float64.

In: a ``Draw``.  Out: AssertionError where an element is wrong; ``PRODUCTS`` has a function for each family.

    draw = Draw(7, "grouped"); PRODUCTS["grouped"](draw); draw.intact()

``gemm``, ``attention`` and ``pages`` are what tests/cases/random_*.py draw; configurations, which the rule takes on a
GPU for other sizes, are drawn here.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import moye as mo
import random_attention
import random_pages
import random_products
import scaled_products
from emulator.draw import FLOATS, UNIT, Draw, eps_of, wide
from moye import kernels
from moye.kernels.gemm.simt.config import configs as simt_configs
from moye.kernels.gemm.sm80.config import configs as sm80_configs

PRODUCTS: dict[str, Callable[[Draw], None]] = {}


def family(function: Callable[[Draw], None]) -> Callable[[Draw], None]:
    PRODUCTS[function.__name__] = function
    return function


# --- matrices --------------------------------------------------------------------------------------------------------


@family
def gemm(draw: Draw) -> None:
    """All that ``gemm`` takes, in all strides, on each architecture, with the configurations of sm_90a."""
    product = random_products.simulated(int(draw.rng.integers(1 << 30)))
    draw.note(product=product)
    with mock.patch.object(mo, "arch_of", lambda array: product.arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: product.blocks):
        random_products.run(product, random_products.NumPy())


def extents(draw: Draw, work: int) -> tuple[int, int, int]:
    """M, N and K: around multiples of a tile, short, or deep."""
    while True:
        found = tuple(draw.one(1, 7, 8, 33, 64, 72, 127, 128, 130, 200, 257, 300) for _ in range(2))
        K = draw.one(1, 8, 17, 32, 40, 64, 100, 136, 256, 333, 1000)
        if found[0] * found[1] * K <= work:
            return (*found, K)


def operand(draw: Draw, shape: tuple[int, ...], dtype: Any) -> Any:
    """Contiguous along either of the first two modes, or with gaps, or begun anywhere."""
    integer = np.dtype(FLOATS.get(dtype, dtype)).kind in "iu"
    values = draw.rng.integers(0 if np.dtype(FLOATS.get(dtype, dtype)).kind == "u" else -9, 10, shape) if integer \
        else draw.normal(shape)
    if draw.chance(0.5):
        return draw.given(values, dtype)
    return draw.given(values.swapaxes(0, 1), dtype).swapaxes(0, 1)


def multiplied(draw: Draw, function: Callable[..., Any], A: Any, B: Any, C: Any, want: Any, loose: float,
               **options: Any) -> None:
    """Launch alpha A B^T + beta C + bias and compare; ``loose``: of the sum of magnitudes."""
    alpha, beta, before, bias = options["alpha"], options["beta"], wide(C), options.get("bias")
    terms = abs(alpha) * (np.abs(wide(A)) @ np.abs(wide(B)).T) + (np.abs(beta * before) if beta else 0)
    want = alpha * want + (beta * before if beta else 0) + (0 if bias is None else wide(bias))
    terms = terms + (0 if bias is None else np.abs(wide(bias)))
    function(A, B, C, **options)
    if C.dtype.kind == "i":
        assert np.array_equal(wide(C), want), f"{int((wide(C) != want).sum())} of {want.size} are wrong"
    else:
        draw.near("C", C, want, loose * terms)


@family
def gemm_simt(draw: Draw) -> None:
    """Each configuration, and K shared by blocks; with what is added to sums."""
    name = draw.one("f32", "f32", "f64", "s32")
    dtype = np.int32 if name == "s32" else name
    config = draw.one(None, *simt_configs(8 if name == "f64" else 4))
    M, N, K = extents(draw, 3_000_000)
    most = 1 if config is None else max(1, min(132, -(-K // config.bK)))
    options = {"alpha": draw.one(1, 2, -1), "beta": draw.one(0, 0, 1, -2), "config": config,
               "splits": draw.one(None, None, draw.whole(1, most)) if config is not None else None}
    draw.note(name=name, M=M, N=N, K=K, **options)
    A, B = operand(draw, (M, K), dtype), operand(draw, (N, K), dtype)
    options["bias"] = draw.room((N,), dtype, values=draw.rng.integers(-9, 10, (N,))) if draw.one(False, True) else None
    C = draw.room((M, N), dtype, values=draw.rng.integers(-9, 10, (M, N)) if options["beta"] else None)
    multiplied(draw, kernels.gemm_simt, A, B, C, wide(A) @ wide(B).T, 32 * eps_of(A), **options)


_NARROW = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}


@family
def gemm_sm80(draw: Draw) -> None:
    """Each configuration of each dtype, also those for rows that begin anywhere."""
    name = draw.one("bf16", "f16", "f32", "f64", *_NARROW)
    dtype = np.dtype(_NARROW.get(name, FLOATS.get(name)))
    like = {"e4m3": mo.float8_e4m3fn, "e5m2": mo.float8_e5m2, "s8": mo.int8, "u8": mo.uint8, "bf16": mo.bfloat16,
            "f16": mo.float16, "f32": mo.float32, "f64": mo.float64}[name]
    config = draw.one(None, *sm80_configs(like, draw.one(80, 90)))
    M, N, K = extents(draw, 4_000_000)
    out = np.int32 if dtype.kind in "iu" else "f64" if name == "f64" else draw.one("bf16", "f16", "f32")
    options = {"alpha": draw.one(1, 2, -1), "beta": draw.one(0, 0, 1, -2), "config": config,
               "splits": draw.one(None, None, 1, 2, 3) if config is not None else None}
    draw.note(name=name, M=M, N=N, K=K, out=out, **options)
    A, B = operand(draw, (M, K), dtype), operand(draw, (N, K), dtype)
    C = draw.room((M, N), out, values=draw.rng.integers(-9, 10, (M, N)) if options["beta"] else None)
    loose = 2.0 ** -10 if name == "f32" else 2.0 ** -20 if name != "f64" else 32 * UNIT["f64"]
    multiplied(draw, kernels.gemm_sm80, A, B, C, wide(A) @ wide(B).T, loose, **options)


@family
def scaled(draw: Draw) -> None:
    """Factors of blocks of 8-bit operands, in any strides."""
    M, N, K = extents(draw, 6_000_000)
    out, orders, odd = draw.one("bf16", "f16", "f32"), draw.one("CC", "CF", "FC", "FF"), draw.one("", "", "A", "bC")
    of_factors, dtypes = draw.one("FC", "CC", "FF"), (draw.one("e4m3", "e5m2"), draw.one("e4m3", "e5m2"))
    alpha = draw.one(1.0, 1.0, -0.5)
    draw.note(M=M, N=N, K=K, out=out, orders=orders, odd=odd, factors=of_factors, dtypes=dtypes, alpha=alpha)
    A, B, C, a, b = scaled_products.operands(M, N, K, orders, of_factors, out=out, odd=odd, dtypes=dtypes)
    want, error = scaled_products.exact(A, B, a, b)
    kernels.gemm(A, B, C, scale_a=a, scale_b=b, alpha=alpha)
    # 14 bits of each 128 of K, before they are promoted
    draw.near("C", C, alpha * want, abs(alpha) * (16 * error + 2.0 ** -10 * error / 4e-7 / np.sqrt(K + 16)))


@family
def grouped(draw: Draw) -> None:
    """Groups of any heights, and lists of matrices that lie anywhere; with factors of blocks, too."""
    apart, name = draw.chance(0.4), draw.one("bf16", "f16", "f32", "e4m3", "s8")
    dtype = np.dtype(_NARROW.get(name, FLOATS.get(name)))
    out = np.int32 if name == "s8" else draw.one("bf16", "f16", "f32")
    count, N, K = draw.whole(1, 5), draw.one(8, 40, 72, 71, 136, 264), draw.one(16, 64, 100, 128, 200)
    heights = [draw.one(0, 1, 5, 40, 64, 127, 128, 129, 200) for _ in range(count)]
    alpha = draw.one(1, 1, 2)
    with_factors = name == "e4m3" and draw.chance(0.5)
    loose = {"f32": 2.0 ** -10, "e4m3": 2.0 ** -12}.get(name, 2.0 ** -20)
    draw.note(apart=apart, name=name, out=out, N=N, K=K, heights=heights, alpha=alpha, factors=with_factors)
    if apart:
        As, Bs = ([operand(draw, (n, K), dtype) for n in each] for each in (heights, [N] * count))
        Cs = [draw.room((n, N), out) for n in heights]
        more: dict[str, Any] = {}
        if with_factors:
            more = {key: [draw.given(np.exp(draw.normal(s)), "f32") for s in shapes] for key, shapes in (
                ("scale_a", [(n, -(-K // 128)) for n in heights]), ("scale_b", [(-(-N // 128), -(-K // 128))] * count))}
        kernels.grouped_gemm_sm90(As, Bs, Cs, alpha=alpha, **more)
        parts = list(zip(As, Bs, Cs, *(more.values() or ([None] * count,) * 2), strict=True))
    else:
        ends = np.cumsum([0, *heights]).astype(np.int32)
        A, B = operand(draw, (sum(heights), K), dtype), operand(draw, (N, K, count), dtype)
        C, more = draw.room((sum(heights), N), out), {}
        if with_factors:
            more = {"scale_a": draw.given(np.exp(draw.normal((sum(heights), -(-K // 128)))), "f32"),
                    "scale_b": draw.given(np.exp(draw.normal((-(-N // 128), -(-K // 128), count))), "f32")}
        kernels.grouped_gemm_sm90(A, B, C, draw.given(ends), alpha=alpha, **more)
        parts = [(A[i:j], B[..., g], C[i:j], *((more["scale_a"][i:j], more["scale_b"][..., g]) if more else
                                               (None, None))) for g, (i, j) in enumerate(pairwise(ends))]
    for number, (a, b, c, of_a, of_b) in enumerate(parts):
        x, y = wide(a), wide(b)
        if of_a is not None:
            x = x * scaled_products.by_element(of_a, len(x), K, 1)
            y = y * scaled_products.by_element(of_b, N, K, 128)
        want, terms = alpha * x @ y.T, alpha * np.abs(x) @ np.abs(y).T
        if c.dtype.kind == "i":
            assert np.array_equal(wide(c), want), f"group {number} is wrong"
        else:
            draw.near(f"C{number}", c, want, loose * terms)


# --- attention -------------------------------------------------------------------------------------------------------


@family
def attention(draw: Draw) -> None:
    """With its gradients, in 8, 16, 32 and 64 bits, by each of the three kernels."""
    rng = random.Random(int(draw.rng.integers(1 << 30)))
    case = random_attention.draw(rng, most=180, archs=("sm_80", "sm_90a", "sm_90a"), work=1 << 22)
    if not case.out and draw.chance(0.2):
        case = dataclasses.replace(case, dtype=draw.one("f32", "f64"))
    draw.note(case=case)
    with mock.patch.object(mo, "arch_of", lambda array: case.arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: case.blocks):
        random_attention.run(case, random_products.NumPy())


@family
def pages(draw: Draw) -> None:
    case = random_pages.draw(random.Random(int(draw.rng.integers(1 << 30))), most=200)
    draw.note(case=case)
    with mock.patch.object(mo, "multiprocessors", lambda array: case.blocks):
        random_pages.run(case, random_products.NumPy())


def scores(draw: Draw, q: Any, k: Any, options: dict[str, Any], slopes: Any) -> tuple[Any, Any, Any]:
    """(scores, -inf where they do not count; their derivative by the product; scale) of one sequence, heads first."""
    scale = options.get("scale") or 1 / np.sqrt(q.shape[-1])
    s = scale * np.einsum("qhd,khd->hqk", q, k)
    slope = np.full_like(s, scale)
    if cap := options.get("softcap", 0.0):
        s = cap * np.tanh(s / cap)
        slope = scale * (1 - (s / cap) ** 2)
    row, column = np.arange(s.shape[1])[:, None] + s.shape[2] - s.shape[1], np.arange(s.shape[2])
    if slopes is not None:
        s = s - wide(slopes)[:, None, None] * np.abs(row - column)
    left, right = options["window"]
    right = 0 if options["causal"] else right
    seen = (column >= row - left if left is not None else column >= -1) & (
        column <= row + right if right is not None else column >= -1)
    return np.where(seen, s, -np.inf), slope, scale


@family
def varlen(draw: Draw) -> None:
    """Sequences of any lengths, none of them among these, and the gradients."""
    name, heads_k = draw.one("bf16", "f16", "bf16", "f16", "f32", "f64"), draw.one(1, 2)
    heads, dim, count = heads_k * draw.one(1, 2, 3), draw.one(32, 64, 64, 96, 128, 40), draw.whole(1, 4)
    queries, keys = ([draw.one(0, 1, 7, 33, 64, 65, 130) for _ in range(count)] for _ in range(2))
    if draw.chance(0.4):
        keys = queries
    options: dict[str, Any] = {"causal": draw.chance(0.5), "softcap": draw.one(0.0, 0.0, 5.0), "window": (
        draw.one(None, None, 0, 20), draw.one(None, None, 3)), "scale": draw.one(None, 0.25)}
    arch, blocks, bounded = draw.one("sm_90a", "sm_90a", "sm_80"), draw.one(132, 3), draw.chance(0.5)
    with_slopes, with_sinks = draw.chance(0.2), draw.chance(0.2)
    draw.note(name=name, heads=heads, heads_k=heads_k, dim=dim, queries=queries, keys=keys, arch=arch, blocks=blocks,
              bounded=bounded, slopes=with_slopes, sinks=with_sinks, **options)
    sums = "f64" if name == "f64" else "f32"
    q, dout = (draw.given(draw.normal((sum(queries), heads, dim)), name, plain=0.8) for _ in range(2))
    k, v = (draw.given(draw.normal((sum(keys), heads_k, dim)), name, plain=0.8) for _ in range(2))
    out, lse = draw.room(q.shape, name, plain=0.8), draw.room((heads, sum(queries)), sums)
    ends = [draw.given(np.cumsum([0, *lengths]).astype(np.int32), plain=1) for lengths in (queries, keys)]
    given: dict[str, Any] = dict(options)
    if with_slopes:
        given["alibi"] = draw.given(np.abs(draw.normal(heads)) / 8, sums, plain=1)
    if bounded:
        given |= {"longest_q": max(1, *queries, 0), "longest_k": max(1, *keys, 0)}
    sinks = {"sinks": draw.given(draw.normal(heads), sums, plain=1)} if with_sinks else {}
    gradients = [draw.room(x.shape, name, plain=0.8) for x in (q, k, v)]
    with mock.patch.object(mo, "arch_of", lambda array: arch), \
            mock.patch.object(mo, "multiprocessors", lambda array: blocks):
        kernels.attention_varlen(out, q, k, v, *ends, lse=lse, **given, **sinks)
        if not sinks:
            kernels.attention_varlen_backward(*gradients, dout, q, k, v, out, lse, *ends, **given)
    loose = 4 * UNIT[name] if name in ("bf16", "f16") else 256 * UNIT[name]
    for (i, j), (m, n) in zip(pairwise(ends[0]), pairwise(ends[1]), strict=True):
        _sequence(draw, [wide(x) for x in (q[i:j], k[m:n], v[m:n], dout[i:j])], (out[i:j], lse[:, i:j]),
                  None if sinks else (gradients[0][i:j], gradients[1][m:n], gradients[2][m:n]), given,
                  sinks.get("sinks"), loose)


def _sequence(draw: Draw, inputs: list[Any], found: tuple[Any, Any], gradients: Any, options: dict[str, Any],
              sinks: Any, loose: float) -> None:
    """One sequence against float64."""
    (q, k, v, dout), heads_k = inputs, inputs[1].shape[1]
    group = q.shape[1] // heads_k
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s, slope, _ = scores(draw, q, k, options, options.get("alibi"))
    top = s.max(-1, keepdims=True, initial=-np.inf)
    extra = 0.0
    if sinks is not None:
        top = np.maximum(top, wide(sinks)[:, None, None])
    top = np.where(np.isinf(top), 0, top)
    if sinks is not None:
        extra = np.exp(wide(sinks)[:, None, None] - top)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True) + extra
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    lse = np.where(total[..., 0] == 0, -np.inf, lse)
    p = e / np.where(total == 0, 1, total)
    out, parts = np.einsum("hqk,khd->qhd", p, v), np.einsum("hqk,khd->qhd", p, np.abs(v))
    draw.near("out", found[0], out, 2 * loose * (parts + np.abs(v).max(initial=0) * 2.0 ** -10))
    draw.near("lse", found[1], lse, np.where(np.isinf(lse), 0, 1e-4 if found[1].dtype == np.float32 else 1e-12))
    if gradients is None:
        return
    dp = np.einsum("qhd,khd->hqk", dout, v)
    mean = (p * dp).sum(-1, keepdims=True)
    ds = p * (dp - mean) * slope
    size = loose * (np.abs(ds) + p * np.abs(slope) * (np.abs(dp) + np.abs(mean) + 2.0))
    for name, got, want, bound in (
            ("dq", gradients[0], np.einsum("hqk,khd->qhd", ds, k), np.einsum("hqk,khd->qhd", size, np.abs(k))),
            ("dk", gradients[1], np.einsum("hqk,qhd->khd", ds, q), np.einsum("hqk,qhd->khd", size, np.abs(q))),
            ("dv", gradients[2], np.einsum("hqk,qhd->khd", p, dout), 2 * loose * np.einsum("hqk,qhd->khd", p, np.abs(
                dout)))):
        if name != "dq":
            want, bound = (x.reshape(len(x), heads_k, group, q.shape[-1]).sum(2) for x in (want, bound))
        draw.near(name, got, want, bound + loose * 2.0 ** -8)
