"""Drawn calls of what ``drawn_calls`` leaves: gradients of gates, losses of products, norms of 8 bits, packed copies.

In: a seed.  Out: nothing, or AssertionError, as there.

    FAMILIES["gated_backward"](np.random.default_rng(3))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch

import moye as mo
from drawn_calls import FLOATS, LOWEST, computed, grows, kind_of, some
from drawn_memory import EPS, KINDS, TYPES, Memory, near, numbers, shape_of, wide
from moye import kernels

# --- gates -----------------------------------------------------------------------------------------------------------


def gated_backward(rng: np.random.Generator) -> None:
    """Packed or apart; gradients may be the arrays whose gradients they are."""
    memory, shape, name = Memory(rng), shape_of(rng), some(rng, *FLOATS)
    names = [some(rng, name, name, *FLOATS) for _ in range(5)]
    kind, packed = some(rng, "silu", "none", "tanh"), rng.random() < 0.4
    whole = (*shape[:-1], 2 * shape[-1]) if packed else shape
    inputs, written, seen = [], [], []
    for i in range(1 if packed else 2):
        values = numbers(rng, whole, names[i], str(rng.choice(KINDS[:-3])))
        if rng.random() < 0.3:
            x, out, before = memory.in_place(values, names[i])
            written.append((x, out))
        else:
            x, before = memory.given(values, names[i])
            written.append(memory.written(whole, names[i + 2]))
        inputs.append(x)
        seen.append(before)
    dout, g = memory.read(shape, names[4], str(rng.choice(KINDS[:-3])))
    grads = written[0][0] if packed else tuple(x for x, _ in written)
    if kind == "silu":
        kernels.swiglu_backward(grads, dout, *inputs)
    else:
        kernels.geglu_backward(grads, dout, *inputs, approximate=kind)
    memory.check()
    found = [out for _, out in written]
    if packed:
        n = shape[-1]
        seen, found = ([x[..., :n], x[..., n:]] for x in (seen[0], found[0]))
    eps = computed(*(str(next(name for name in FLOATS if x.dtype == TYPES[name])) for x in (*seen, g, *found)))
    (x, y), g = (wide(x) for x in seen), wide(g)
    with np.errstate(all="ignore"):
        value, slope, of_value, of_slope = _activation(kind, x)
        lost = 4 * LOWEST * (1 + np.abs(x)) ** 3 * (1 + np.abs(g))
        near(found[0], g * y * slope, np.abs(g * y) * eps * (of_slope + 4 * np.abs(slope)) + lost * (1 + np.abs(y)),
             f"dgate of {kind}")
        near(found[1], g * value, np.abs(g) * eps * (of_value + 4 * np.abs(value)) + lost, f"dup of {kind}")


def _activation(kind: str, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """(value, slope, their errors in roundings of what computes).

    1 - s, of a sigmoid s near 1, is off by a rounding of s.
    """
    size = np.abs(x)
    if kind == "none":
        below = (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
        bell = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return x * below, below + x * bell, 16 * size, 16 + size * bell * (8 + 4 * x * x)
    factor = 2 * math.sqrt(2 / math.pi)
    u = x if kind == "silu" else factor * (x + 0.044715 * x**3)
    rise = np.ones_like(x) if kind == "silu" else factor * (1 + 0.134145 * x * x)
    s, rest = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(u))
    times = 16 + 4 * np.abs(u)
    unsure = np.where(rest > 2.0**-60, np.minimum(1, rest * 2.0**53), 0)
    return x * s, s + x * s * rest * rise, times * size * s, times * (s + size * s * rest * rise) + 4 * size * rise * \
        s * unsure


# --- losses of products ----------------------------------------------------------------------------------------------


def linear_cross_entropy(rng: np.random.Generator) -> None:
    """Losses and gradients, by chunks or all at once; on sm_90a also without logits."""
    memory, name = Memory(rng), some(rng, *FLOATS)
    tokens, hidden, n = (int(some(rng, *extents)) for extents in ((0, 1, 3, 40, 130), (1, 8, 33, 64), (1, 7, 64, 130)))
    x, a = memory.read((tokens, hidden), name, some(rng, "normal", "normal", "tiny", "zeros", "equal"))
    W, w = memory.read((n, hidden), name, some(rng, "normal", "normal", "tiny", "whole"))
    ignored = int(some(rng, -100, 0))
    labels = np.where(rng.random(tokens) < 0.3, ignored, rng.integers(0, n, tokens))
    place, _ = memory.given(labels, some(rng, "i32", "i64"))
    options: dict[str, Any] = {
        "reduction": some(rng, "none", "mean", "sum") if tokens else some(rng, "none", "sum"), "ignore_index": ignored,
        "label_smoothing": float(some(rng, 0, 0, 0.1)), "z_loss": float(some(rng, 0, 0, 1e-2))}
    factor = 1.0 * (labels != ignored)
    if not options["label_smoothing"] and rng.random() < 0.3:
        options["weight"], weight = memory.given(rng.random(n) + 0.1, some(rng, *FLOATS))
        factor = factor * wide(weight)[np.where(labels == ignored, 0, labels)]
    exact = "f64" if name == "f64" else "f32"
    loss, got = memory.written((tokens,) if options["reduction"] == "none" else some(rng, (), (1,)), exact)
    found, each = {}, np.ones(())
    for what, shape, to in (("dx", (tokens, hidden), name), ("lse", (tokens,), exact), ("dW", (n, hidden), some(
            rng, name, "f32" if name in ("bf16", "f16") else name))):
        if rng.random() < 0.6:
            options[what], found[what] = memory.written(shape, to)
    if {"dx", "dW"} & set(found) and rng.random() < 0.5:
        options["dloss"], each = memory.given(rng.standard_normal(got.shape), exact)
    options["chunk"] = some(rng, None, None, 1, 32, 200) if tokens < 50 else some(rng, None, 64, 128)
    with _device(rng, memory):
        kernels.linear_cross_entropy(loss, x, W, place, **options)
    memory.check()
    options["chunks"] = -(-tokens // (options["chunk"] or max(1, tokens)))
    each = wide(each) if options["reduction"] == "none" else wide(each).reshape(())
    with np.errstate(all="ignore"):
        _losses(name, (wide(a), wide(w)), np.where(labels == ignored, 0, labels), factor, options, each, got, found)


def _device(rng: np.random.Generator, memory: Memory) -> Any:
    """A simulated device of some architecture; the GPU's own where there is one."""
    arch = some(rng, "sm_90a", "sm_90a", "sm_80")
    return mock.patch.object(mo, "arch_of", mo.arch_of if memory.library == "cuda" else lambda array: arch)


def _losses(name: str, operands: tuple[np.ndarray, np.ndarray], chosen: np.ndarray, factor: np.ndarray,
            options: dict[str, Any], each: np.ndarray, got: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """Compare; logits may be off by a rounding to the dtype of the operands, and by those of their sums."""
    (x, w), smoothing, z = operands, options["label_smoothing"], options["z_loss"]
    s, n = x @ w.T, w.shape[0]
    sums = (2.0**-21 if name != "f64" else 2.0**-50) * (8 + x.shape[1] / 32)
    off = (EPS[name] * np.abs(s) + sums * (np.abs(x) @ np.abs(w).T)).max(-1, initial=0) + LOWEST
    top = s.max(-1, initial=-np.inf)
    total = top + np.log(np.exp(s - top[:, None]).sum(-1))
    label = s[np.arange(len(s)), chosen]
    less = (1 - smoothing) * label + smoothing * s.mean(-1)
    losses = np.where(factor, (total - less + z * total**2) * factor, 0)
    room = 2 * off + computed(name) * grows(n) * 4 * (1 + np.abs(total) + np.abs(s).max(-1, initial=0))
    bound = factor * room * (1 + 2 * z * (np.abs(total) + room))
    count = factor.sum() if options["reduction"] == "mean" else 1.0
    if "lse" in found:
        near(found["lse"], total, room, f"lse of {name}")
    if options["reduction"] == "none":
        near(got, losses, bound, f"losses of {name}")
    else:
        added = np.abs(losses).sum() * computed(name) * grows(losses.size)
        near(got.reshape(()), losses.sum() / count, (bound.sum() + added) / count, f"loss of {name}")
    p, one = np.exp(s - total[:, None]), np.zeros_like(s)
    one[np.arange(len(s)), chosen] = 1 - smoothing
    scale = np.where(factor, each * factor / count, 0)[:, None]
    lean = 1 + 2 * z * total[:, None]
    d = np.where(factor[:, None], (p * lean - smoothing / n - one) * scale, 0)
    parts = p * (1 + 2 * z * np.abs(total[:, None])) + one + smoothing / n
    wrong = np.abs(scale) * (p * np.expm1(2 * room)[:, None] * (np.abs(lean) + 2 * z * room[:, None])
                             + 2 * z * p * room[:, None] + 8 * computed(name) * parts)
    wrong = wrong + EPS[name] * (np.abs(d) + wrong) + (2.0**-25 if name == "f16" else LOWEST)
    for what, rows, columns in (("dx", d, w), ("dW", d.T, x)):
        if what in found:
            error = wrong if what == "dx" else wrong.T
            size = np.abs(rows) @ np.abs(columns)
            more = sums * size * (1 + rows.shape[1] / 32)
            if what == "dW":                            # rounded for each chunk
                more = more + (options["chunks"] - 1) * EPS[name] * 2 * size
            near(found[what], rows @ columns, error @ np.abs(columns) + more + LOWEST, f"{what} of {name}")


# --- norms of 8 bits -------------------------------------------------------------------------------------------------


def norm_fp8(rng: np.random.Generator) -> None:
    """Results of float8_e4m3fn: as they are, or with a factor for each row or each 128 columns."""
    memory, shape, name, centred = Memory(rng), shape_of(rng), some(rng, *FLOATS), bool(rng.integers(2))
    columns, options, way = shape[-1:], {}, some(rng, "", "row", "block")
    x, values = memory.read(shape, name, kind_of(rng, finite=True))
    eps, offset = options["eps"], options["offset"] = float(some(rng, 1e-6, 1e-2, 1.0)), float(some(rng, 0, 1))
    given, out = memory.written(shape, "e4m3")
    h = values
    if rng.random() < 0.3:
        options["residual"], residual = memory.read(shape, some(rng, name, *FLOATS))
        acc = np.float64 if name == "f64" else np.float32
        h = (values.astype(acc) + residual.astype(acc)).astype(values.dtype)
    weight = bias = None
    if rng.random() < 0.6:
        options["weight"], weight = memory.read(columns, some(rng, name, *FLOATS))
    if rng.random() < 0.4:
        options["bias"], bias = memory.read(columns, some(rng, name, *FLOATS))
    scale = None
    if way:
        options["scale"], scale = memory.written((*shape[:-1], *(() if way == "row" else (-(-shape[-1] // 128),))),
                                                 "f32")
    (kernels.layer_norm if centred else kernels.rms_norm)(given, x, **options)
    memory.check()
    if not out.size:
        return
    h, e, n = wide(h), computed(name), shape[-1]
    size = np.abs(h).max(-1, keepdims=True)
    middle = h.mean(-1, keepdims=True) if centred else np.zeros_like(size)
    var = ((h - middle) ** 2).mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    off = grows(n) * e * size if centred else np.zeros_like(size)
    part = (2 * np.sqrt(var) * off + off**2) / (2 * (var + eps)) + 8 * grows(n) * e
    hat, factor = (h - middle) * rstd, 1.0 if weight is None else wide(weight) + offset
    want = hat * factor + (0 if bias is None else wide(bias))
    error = 2 * np.abs(factor) * (off * rstd + np.abs(hat) * part) + 8 * EPS["f32"] * (
        np.abs(want) + np.abs(hat) * (1.0 if weight is None else np.abs(wide(weight)) + abs(offset))) + LOWEST
    _narrowed(out, want, error, None if scale is None else wide(scale), way)


def _narrowed(out: np.ndarray, want: np.ndarray, error: np.ndarray, scale: np.ndarray | None, way: str) -> None:
    """Compare results of 8 bits, which saturate, and their factors."""
    if scale is None:
        _saturated(out, want, error, "norm of 8 bits")
        return
    n = want.shape[-1]
    starts = np.arange(0, n, 128 if way == "block" else n)
    largest, unsure = (np.maximum.reduceat(x, starts, -1) for x in (np.abs(want), error))
    factors = scale if way == "block" else scale[..., None]
    near(factors.astype(np.float32), largest / 448, unsure / 448 + LOWEST, "factors")
    spread = np.repeat(factors, np.diff([*starts, n]), -1)
    assert not wide(out)[spread == 0].any(), "zeros have a factor of 0"
    clear = spread > 2.0**-100
    divided = np.where(clear, want / np.where(clear, spread, 1), 0)
    bound = np.where(clear, (error + 4 * EPS["f32"] * np.abs(want)) / np.where(clear, spread, 1), 0)
    held = np.where(clear, out, 0).astype(out.dtype)
    _saturated(held, divided, bound, "norm of 8 bits with factors")


def _saturated(out: np.ndarray, want: np.ndarray, error: np.ndarray, what: str) -> None:
    """``near`` of numbers that end at 448."""
    low, high = (np.clip(want + side * error, -448, 448) for side in (-1, 1))
    near(out, (low + high) / 2, (high - low) / 2, what)


# --- copies ----------------------------------------------------------------------------------------------------------


def _drawn(rng: np.random.Generator, memory: Memory, shape: tuple[int, ...], name: str) -> tuple[Any, np.ndarray]:
    """An input of numbers of any dtype."""
    if name in EPS:
        return memory.read(shape, name, kind_of(rng))
    whole = rng.integers(-2**63, 2**63 - 1, shape, endpoint=True) if name[0] == "i" else rng.standard_normal(shape)
    return memory.given(whole.astype(TYPES[name]), name)


def transpose(rng: np.random.Generator) -> None:
    """Two axes change places."""
    memory, shape = Memory(rng), shape_of(rng)
    x, seen = _drawn(rng, memory, shape, name := some(rng, "bf16", "f32", "f64", "i8", "i64", "e4m3"))
    first, second = (int(i) for i in rng.integers(-len(shape), len(shape), 2))
    want = seen.swapaxes(first, second)
    given, out = memory.written(want.shape, name)
    kernels.transpose(given, x, first, second)
    memory.check()
    bits = f"u{out.dtype.itemsize}"
    assert np.array_equal(np.ascontiguousarray(out).view(bits), np.ascontiguousarray(want).view(bits)), "transpose"


def packed(rng: np.random.Generator) -> None:
    """The same elements, contiguous along K, in lines that begin at multiples of 16 bytes."""
    memory, rank = Memory(rng), int(some(rng, 2, 3))
    shape = tuple(int(some(rng, 0, 1, 2, 7, 8, 17, 64, 65, 130, 257)) for _ in range(2))
    shape = (*shape, int(some(rng, 0, 1, 2, 3))) if rank == 3 else shape
    x, seen = _drawn(rng, memory, shape, name := some(rng, "bf16", "f16", "f32", "i8", "i32", "e4m3"))
    result = kernels.packed(x)
    memory.check()
    info, size = mo.describe(result), np.dtype(TYPES[name]).itemsize
    assert tuple(info.shape) == shape, "packed: shape"
    if 0 in shape:
        return
    assert info.ptr % 16 == 0 and (shape[1] == 1 or info.strides[1] == 1), "packed: K is contiguous"
    assert all(step * size % 16 == 0 for i, step in enumerate(info.strides) if i != 1 and shape[i] > 1), "packed: lines"
    bits = f"u{size}"
    if isinstance(result, torch.Tensor):
        word = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[size]
        got = result.contiguous().view(word).cpu().numpy().view(bits)
    else:
        got = np.ascontiguousarray(result).view(bits)
    assert np.array_equal(got, np.ascontiguousarray(seen).view(bits)), f"packed {name} of {shape}"


FAMILIES: dict[str, Callable[[np.random.Generator], None]] = {
    "gated_backward": gated_backward, "linear_cross_entropy": linear_cross_entropy, "norm_fp8": norm_fp8,
    "transpose": transpose, "packed": packed}
