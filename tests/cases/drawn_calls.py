"""Drawn calls of what ``moye.kernels`` has beside products and attention, compared with float64.

In: a seed.  Out: nothing, or AssertionError: a wrong element, memory around an output or an input that was written.

    FAMILIES["softmax"](np.random.default_rng(3))

Arrays lie as ``drawn_memory`` draws them, hold numbers of all its kinds, and have each a dtype of its own where a
kernel allows it.  Errors are bounded by what was added up, in the dtype that computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from drawn_memory import EPS, KINDS, TYPES, Memory, name_of, near, numbers, shape_of, wide
from moye import kernels

FLOATS = ("bf16", "f16", "f32", "f64")
LOWEST = 2.0**-124
"""Where float32 loses bits, or all of a number."""


def some(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def kind_of(rng: np.random.Generator, *, finite: bool = False) -> str:
    return str(rng.choice(KINDS[:-4] if finite else KINDS))


def computed(*names: str) -> float:
    """The rounding of what computes."""
    return EPS["f64"] if "f64" in names else EPS["f32"]


def grows(n: int) -> float:
    """Roundings of a sum of so many terms: some threads take many, one after the other."""
    return 8 + n / 32


# --- softmax ---------------------------------------------------------------------------------------------------------


def softmax(rng: np.random.Generator) -> None:
    memory, shape, name = Memory(rng), shape_of(rng), some(rng, *FLOATS)
    log, axis, options = bool(rng.integers(2)), int(rng.integers(-len(shape), len(shape))), {}
    x, values = memory.read(shape, name, kind_of(rng))
    scale = options["scale"] = float(some(rng, 1, 0.125, 3.7, 1e-3))
    added, hidden = np.zeros(shape), np.zeros(shape, bool)
    if rng.random() < 0.4:
        few = tuple(n if rng.random() < 0.6 else 1 for n in shape)[int(rng.integers(len(shape))):]
        if rng.random() < 0.5:
            options["mask"], mask = memory.given(rng.random(few) < some(rng, 0.1, 0.7), "bool")
            hidden = np.broadcast_to(~mask, shape)
        else:
            mask = np.where(rng.random(few) < 0.2, -np.inf, rng.standard_normal(few))
            options["mask"], mask = memory.given(mask, some(rng, *FLOATS))
            added = np.broadcast_to(wide(mask), shape)
    to = some(rng, name, *FLOATS)
    if len(shape) > 1 and axis % len(shape) == len(shape) - 1 and rng.random() < 0.4:
        options["causal"] = int(rng.integers(-3, shape[-1] + 3))
    if to == name and rng.random() < 0.2 and options.get("mask") is None:
        x, out, values = memory.in_place(numbers(rng, shape, name, kind_of(rng)), name)
        given = x
    else:
        given, out = memory.written(shape, to)
    (kernels.log_softmax if log else kernels.softmax)(given, x, axis=axis, **options)
    memory.check()
    if not values.size:
        return
    with np.errstate(all="ignore"):
        s = np.where(hidden, -np.inf, wide(values) * scale + added)
        if "causal" in options:
            s = np.where(np.arange(shape[-1]) <= np.arange(shape[-2])[:, None] + options["causal"], s, -np.inf)
        top = s.max(axis, keepdims=True)
        none = np.isneginf(top)
        each = np.exp(s - np.where(none, 0, top))
        total = each.sum(axis, keepdims=True)
        size = np.where(np.isfinite(s), np.abs(s), 0).max(axis, keepdims=True) + np.abs(np.where(none, 0, top))
        error = (grows(shape[axis]) + 8 * size) * computed(name)
        if log:
            want, error = np.where(none, -np.inf, s - top - np.log(total)), error + LOWEST
        else:
            want = np.where(none, 0, each / total)
            error = error * want + LOWEST
    near(out, want, error, f"softmax of {name}")


def softmax_backward(rng: np.random.Generator) -> None:
    memory, shape, name = Memory(rng), shape_of(rng), some(rng, *FLOATS)
    log, axis = bool(rng.integers(2)), int(rng.integers(-len(shape), len(shape)))
    scale = float(some(rng, 1, 0.125, 3.7))
    z = rng.standard_normal(shape) * 3
    z = np.where(rng.random(shape) < 0.1, -np.inf, z)
    with np.errstate(all="ignore"):
        e = np.exp(z) if not z.size else np.exp(z - z.max(axis, keepdims=True, initial=-1e9))
        p = e / np.maximum(e.sum(axis, keepdims=True), 1e-300)
        y, out = memory.given(np.log(p) if log else p, name)
    other = some(rng, name, *FLOATS)
    if rng.random() < 0.25:
        dy, dx, d = memory.in_place(numbers(rng, shape, other, kind_of(rng, finite=True)), other)
        to, given = other, dy
    else:
        dy, d = memory.read(shape, other, kind_of(rng, finite=True))
        to = some(rng, *FLOATS)
        given, dx = memory.written(shape, to)
    (kernels.log_softmax_backward if log else kernels.softmax_backward)(given, dy, y, axis=axis, scale=scale)
    memory.check()
    if not out.size:
        return
    out, d, eps = wide(out), wide(d), computed(name) * grows(shape[axis])
    if log:
        counts = ~np.isneginf(out)
        d, p = np.where(counts, d, 0), np.exp(out)
        want = np.where(counts, d - p * d.sum(axis, keepdims=True), 0) * scale
        error = (np.abs(d) + p * np.abs(d).sum(axis, keepdims=True) * (1 + np.where(counts, np.abs(out), 0)))
    else:
        want = out * (d - (d * out).sum(axis, keepdims=True)) * scale
        error = np.abs(out) * (np.abs(d) + np.abs(d * out).sum(axis, keepdims=True))
    near(dx, want, error * scale * eps * 2 + LOWEST, f"softmax_backward of {name}")


def cross_entropy(rng: np.random.Generator) -> None:
    """Losses, and both ways to their gradients."""
    memory, name = Memory(rng), some(rng, *FLOATS)
    *rows, n = shape = (*shape_of(rng, most=20, fewest=0, longest=3), int(some(rng, 1, 2, 7, 33, 64, 129)))
    kind = some(rng, "normal", "peaked", "tiny", "equal", "zeros", "denormal", "-inf")
    ignored = int(some(rng, -100, 0, 1, -(2**30)))
    labels = np.where(rng.random(rows) < 0.3, ignored, rng.integers(0, n, rows))
    labels = labels if n > 1 or ignored != 1 else np.zeros_like(labels)
    chosen, x = np.where(labels == ignored, 0, labels)[..., None], numbers(rng, shape, name, kind)
    own = np.take_along_axis(x, chosen, -1)
    np.put_along_axis(x, chosen, np.where(np.isinf(own), np.zeros_like(own), own), -1)     # a finite one in each row
    logits, x = memory.given(x, name)
    if not np.isfinite(np.take_along_axis(wide(x), chosen, -1)).all():
        return                                          # rows that share memory
    place, _ = memory.given(labels, some(rng, "i32", "i64"))
    reduction = some(rng, "none", "mean", "sum") if math.prod(rows) else some(rng, "none", "sum")
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": ignored, "z_loss": float(some(rng, 0, 0, 1e-2)),
                               "label_smoothing": float(some(rng, 0, 0, 0.1, 1)) if kind != "-inf" else 0.0}
    factor = 1.0 * (labels != ignored)
    if not options["label_smoothing"] and rng.random() < 0.3:
        options["weight"], weight = memory.given(rng.random(n) + 0.1, some(rng, *FLOATS))
        factor = factor * wide(weight)[chosen[..., 0]]
    exact = "f64" if name == "f64" else "f32"
    loss, got = memory.written(tuple(rows) if reduction == "none" else some(rng, (), (1,)), some(rng, exact, "f64"))
    lse, sums = memory.written(tuple(rows), exact)
    gradients = [memory.written(shape, some(rng, name, *FLOATS)) for _ in range(2)]
    dloss, each = memory.given(rng.standard_normal(got.shape), exact) if rng.random() < 0.5 else (None, np.ones(()))
    kernels.cross_entropy(loss, logits, place, lse=lse, dlogits=gradients[0][0], dloss=dloss, **options)
    kernels.cross_entropy_backward(gradients[1][0], dloss, logits, place, lse, **options)
    memory.check()
    each = wide(each) if reduction == "none" else wide(each).reshape(())
    with np.errstate(all="ignore"):
        _entropies(name, wide(x), chosen, factor, options, each, got, sums, [found for _, found in gradients])


def _entropies(name: str, x: np.ndarray, chosen: np.ndarray, factor: np.ndarray, options: dict[str, Any],
               each: np.ndarray, got: np.ndarray, sums: np.ndarray, gradients: list[np.ndarray]) -> None:
    """Compare them; ``chosen`` are the columns of labels, ``factor`` their weights, 0 for those that do not count."""
    smoothing, z, n = options["label_smoothing"], options["z_loss"], x.shape[-1]
    top = x.max(-1)
    total = top + np.log(np.exp(x - top[..., None]).sum(-1))
    less = (1 - smoothing) * np.take_along_axis(x, chosen, -1)[..., 0] + (smoothing * x.mean(-1) if smoothing else 0)
    losses = np.where(factor, (total - less + z * total**2) * factor, 0)
    size = np.where(np.isfinite(x), np.abs(x), 0).max(-1) + np.abs(total) + 1
    eps = computed(name) * grows(n) * 2
    bound = eps * size * (1 + 2 * z * size) * factor
    count = factor.sum() if options["reduction"] == "mean" else 1.0
    near(sums, total, eps * size, f"lse of {name}")
    if options["reduction"] == "none":
        near(got, losses, bound + LOWEST, f"losses of {name}")
    else:
        rounded = np.abs(losses).sum() * computed(name_of(got)) * grows(losses.size)
        near(got.reshape(()), losses.sum() / count, (bound.sum() + rounded) / count + LOWEST, f"loss of {name}")
    p, one = np.exp(x - total[..., None]), np.zeros_like(x)
    np.put_along_axis(one, chosen, 1 - smoothing, -1)
    scale = np.where(factor, each * factor / count, 0)[..., None]
    want = np.where(factor[..., None], (p * (1 + 2 * z * total[..., None]) - smoothing / n - one) * scale, 0)
    room = p * (1 + 2 * z * size[..., None]) + one + smoothing / n
    for found in gradients:
        near(found, want, np.abs(scale) * eps * size[..., None] * room * 2 + LOWEST, f"dlogits of {name}")


# --- norms -----------------------------------------------------------------------------------------------------------


def norm(rng: np.random.Generator) -> None:
    memory, shape, name, centred = Memory(rng), shape_of(rng), some(rng, *FLOATS), bool(rng.integers(2))
    acc, columns, options = np.float64 if name == "f64" else np.float32, shape[-1:], {}
    x, values = memory.read(shape, name, kind := kind_of(rng))
    h, to = values, some(rng, name, *FLOATS)
    eps, offset = options["eps"], options["offset"] = float(some(rng, 1e-6, 1e-2, 1.0)), float(some(rng, 0, 1))
    given, out = memory.written(shape, to)
    summed = None
    with np.errstate(all="ignore"):
        if rng.random() < 0.4:
            other = some(rng, name, *FLOATS)
            options["residual"], residual = memory.read(shape, other, kind if kind != "large" else "normal")
            h = (values.astype(acc) + residual.astype(acc)).astype(values.dtype)
            if rng.random() < 0.6:
                options["summed"], summed = memory.written(shape, name)
    weight = bias = None
    if rng.random() < 0.6:
        options["weight"], weight = memory.read(columns, some(rng, name, *FLOATS))
    if rng.random() < 0.4:
        options["bias"], bias = memory.read(columns, some(rng, name, *FLOATS))
    rstd = mean = None
    if rng.random() < 0.5:
        options["rstd"], rstd = memory.written(shape[:-1], some(rng, "f32", "f64"))
        if centred:
            options["mean"], mean = memory.written(shape[:-1], some(rng, "f32", "f64"))
    (kernels.layer_norm if centred else kernels.rms_norm)(given, x, **options)
    memory.check()
    if not out.size:
        return
    with np.errstate(all="ignore"):
        if summed is not None:
            assert np.array_equal(wide(summed), wide(h), equal_nan=True), "summed"
        h, e = wide(h), computed(name)
        n, size = shape[-1], np.abs(h).max(-1, keepdims=True)
        middle = h.mean(-1, keepdims=True) if centred else np.zeros_like(size)
        var = ((h - middle) ** 2).mean(-1, keepdims=True)
        scale = 1 / np.sqrt(var + eps)
        off = grows(n) * e * size if centred else np.zeros_like(size)
        part = np.nan_to_num((2 * np.sqrt(var) * off + off**2) / (2 * (var + eps))) + 8 * grows(n) * e
        hat = (h - middle) * scale
        scattered = np.nan_to_num(off * scale + np.abs(hat) * part)
        factor = 1.0 if weight is None else wide(weight) + offset
        terms = 1.0 if weight is None else np.abs(wide(weight)) + abs(offset)
        want = hat * factor + (0 if bias is None else wide(bias))
        error = 2 * np.abs(factor) * scattered + 4 * e * (np.abs(want) + np.abs(hat) * terms)
        near(out, want, error + LOWEST, f"norm of {name}")
        if rstd is not None:
            near(rstd, scale[..., 0], (part * scale)[..., 0], "rstd")
        if mean is not None:
            near(mean, middle[..., 0], (off + LOWEST)[..., 0], "mean")


def norm_backward(rng: np.random.Generator) -> None:
    memory, shape, name, centred = Memory(rng), shape_of(rng), some(rng, *FLOATS), bool(rng.integers(2))
    acc, options = "f64" if name == "f64" else "f32", {}
    x, h = memory.read(shape, name, kind_of(rng, finite=True))
    dout, g = memory.read(shape, some(rng, name, *FLOATS), kind_of(rng, finite=True))
    rstd, scale = memory.given(np.abs(rng.standard_normal(shape[:-1])) + 0.1, acc)
    mean, middle = memory.given(rng.standard_normal(shape[:-1]), acc) if centred else (None, np.zeros(shape[:-1]))
    weight, factor = memory.read(shape[-1:], some(rng, name, *FLOATS)) if rng.random() < 0.7 else (None, np.ones(()))
    offset = options["offset"] = float(some(rng, 0, 1)) if weight is not None else 0.0
    more = np.zeros(())
    if rng.random() < 0.3:
        options["dsummed"], more = memory.read(shape, some(rng, name, *FLOATS))
    sums = {}
    for what in ("dweight", "dbias"):
        if rng.random() < 0.5:
            options[what], sums[what] = memory.written(shape[-1:], some(rng, name, *FLOATS))
    to = some(rng, name, *FLOATS)
    given, dx = memory.written(shape, to)
    statistics = (rstd, mean) if centred else (rstd,)
    backward = kernels.layer_norm_backward if centred else kernels.rms_norm_backward
    backward(given, dout, x, weight, *statistics, **options)
    memory.check()
    if not shape[-1]:
        return
    h, g, scale, middle, eps = wide(h), wide(g), wide(scale)[..., None], wide(middle)[..., None], computed(name)
    hat, room = (h - middle) * scale, (np.abs(h) + np.abs(middle)) * scale
    rows = tuple(range(len(shape) - 1))
    length = math.prod(shape[:-1])
    for what, found in sums.items():
        want, size = ((g * hat), np.abs(g) * room) if what == "dweight" else (g, np.abs(g))
        near(found, want.sum(rows), 2 * eps * grows(length) * size.sum(rows) + LOWEST, f"{what} of {name}")
    if not dx.size:
        return
    inner = g * (wide(factor) + offset)
    across = inner.mean(-1, keepdims=True) if centred else 0
    want = scale * (inner - across - hat * (inner * hat).mean(-1, keepdims=True)) + wide(more)
    size = scale * (np.abs(inner) + np.abs(inner).mean(-1, keepdims=True) + room * (np.abs(inner) * room).mean(
        -1, keepdims=True)) + np.abs(wide(more))
    near(dx, want, 4 * eps * grows(shape[-1]) * size + LOWEST, f"norm_backward of {name}")


# --- element by element ----------------------------------------------------------------------------------------------


def gated(rng: np.random.Generator) -> None:
    memory, shape, name = Memory(rng), shape_of(rng), some(rng, *FLOATS)
    names = [some(rng, name, name, *FLOATS) for _ in range(2)]
    kind = some(rng, "silu", "none", "tanh")
    packed = shape[-1] % 2 == 0 and rng.random() < 0.4
    gate, x = memory.read(shape, names[0], kind_of(rng, finite=kind != "silu"))
    if packed:
        half = shape[-1] // 2
        up, x, y, shape = None, x[..., :half], x[..., half:], (*shape[:-1], half)
    else:
        up, y = memory.read(shape, names[1], kind_of(rng, finite=True))
    given, out = memory.written(shape, to := some(rng, name, *FLOATS))
    arguments = (given, gate) if packed else (given, gate, up)
    if kind == "silu":
        kernels.swiglu(*arguments)
    else:
        kernels.geglu(*arguments, approximate=kind)
    memory.check()
    x, y, eps = wide(x), wide(y), computed(*names[:2 - packed], to)
    with np.errstate(all="ignore"):
        if kind == "silu":
            value = x / (1 + np.exp(-x))
            error = (16 + 4 * np.abs(x)) * np.abs(value)
        elif kind == "none":
            value = x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
            error = 16 * np.abs(x)
        else:
            u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            value = x * (1 / (1 + np.exp(-2 * u)))
            error = (16 + 8 * np.abs(u)) * np.abs(value)
        lost = 4 * LOWEST * (1 + np.abs(x)) * (1 + np.abs(y))
        near(out, value * y, eps * error * np.abs(y) + lost, f"{kind} of {names}")


def moves(rng: np.random.Generator) -> None:
    memory, shape = Memory(rng), shape_of(rng)
    name = some(rng, "bf16", "f16", "f32", "f64", "i8", "i32", "i64", "bool", "e4m3")
    axes = [int(i) for i in rng.permutation(len(shape))]
    if name == "bool" or name[0] == "i":
        whole = rng.random(shape) < 0.5 if name == "bool" else rng.integers(-2**63, 2**63 - 1, shape, endpoint=True)
        x, seen = memory.given(whole.astype(TYPES[name]), name)
    elif name == "e4m3":
        x, seen = memory.given(rng.standard_normal(shape), name)
    else:
        x, seen = memory.read(shape, name, kind_of(rng))
    given, out = memory.written(tuple(shape[i] for i in axes), name)
    kernels.permute(given, x, [i - len(shape) if rng.random() < 0.3 else i for i in axes])
    memory.check()
    bits = f"u{out.dtype.itemsize}"
    assert np.array_equal(np.ascontiguousarray(out).view(bits), np.ascontiguousarray(seen.transpose(axes)).view(bits))


def rope(rng: np.random.Generator) -> None:
    memory, name = Memory(rng), some(rng, *FLOATS)
    batch, seq, heads = (int(some(rng, 0, 1, 2, 3, 5, 7)) for _ in range(3))
    dim, length = int(some(rng, 2, 3, 6, 8, 15, 16, 32)), int(rng.integers(1, 20))
    half = int(rng.integers(0, dim // 2 + 1))
    shape = (batch, seq, heads, dim) if rng.random() < 0.7 else (seq, heads, dim)
    batch = batch if len(shape) == 4 else 1
    table = some(rng, "f32", "f64", name)
    cos, c = memory.read((length, half), table)
    sin, s = memory.read((length, half), table)
    options, way = {"interleaved": bool(rng.integers(2)), "inverse": bool(rng.integers(2))}, int(rng.integers(3))
    if way or length < seq:
        offset = int(rng.integers(-3, 4))
        told = (seq,) if way < 2 or len(shape) == 3 else (batch, seq)
        options["positions"], places = memory.given(rng.integers(0, length, told) - offset, some(rng, "i32", "i64"))
    else:
        offset = int(rng.integers(0, length - seq + 1))
        places = np.arange(seq)
    places = np.broadcast_to(places, (batch, seq)) + offset
    values = numbers(rng, shape, name, kind_of(rng))
    if rng.random() < 0.3:
        x, out, values = memory.in_place(values, name)
        given, to = x, name
    else:
        x, values = memory.given(values, name)
        given, out = memory.written(shape, to := some(rng, name, *FLOATS))
    kernels.rope(given, x, cos, sin, offset=offset, **options)
    memory.check()
    c, s = wide(c)[places][:, :, None], wide(s)[places][:, :, None] * (-1 if options["inverse"] else 1)
    if len(shape) == 3:
        c, s = c[0], s[0]
    one, two = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if options["interleaved"] else (
        slice(0, half), slice(half, 2 * half))
    x = wide(values)
    want, error = x.copy(), np.zeros(shape)
    with np.errstate(all="ignore"):
        want[..., one], want[..., two] = x[..., one] * c - x[..., two] * s, x[..., two] * c + x[..., one] * s
        error[..., one] = np.abs(x[..., one] * c) + np.abs(x[..., two] * s)
        error[..., two] = np.abs(x[..., two] * c) + np.abs(x[..., one] * s)
    near(out, want, 4 * computed(name, to) * error + 1e-44, f"rope of {name}")


# --- folds -----------------------------------------------------------------------------------------------------------

FOLDS = ("sum", "mean", "max", "min", "norm1", "norm2", "norminf", "logsumexp", "argmax", "argmin")


def reduce(rng: np.random.Generator) -> None:
    memory, shape, name, kind = Memory(rng), shape_of(rng), some(rng, *FLOATS), some(rng, *FOLDS)
    x, values = memory.read(shape, name, some(rng, kind_of(rng), "whole"))
    count = 1 if kind.startswith("arg") else int(rng.integers(1, len(shape) + 1))
    axes = tuple(int(i) for i in rng.choice(len(shape), count, replace=False))
    whole = rng.random() < 0.15
    gone = tuple(range(len(shape))) if whole else axes
    keep = rng.random() < 0.4
    rest = tuple(1 if i in gone else n for i, n in enumerate(shape) if keep or i not in gone)
    to = some(rng, "i32", "i64") if kind.startswith("arg") else some(rng, name, *FLOATS)
    n = math.prod(shape[i] for i in gone)
    if n == 0 and kind in ("max", "min", "argmax", "argmin"):
        return
    given, out = memory.written(rest, to)
    axis = None if whole else axes[0] if len(axes) == 1 else [i - len(shape) if rng.random() < 0.3 else i for i in axes]
    kernels.reduce(given, x, kind, axis=axis)
    memory.check()
    v, e = wide(values), computed(name)
    with np.errstate(all="ignore"):
        if kind.startswith("arg"):
            y = np.moveaxis(v, gone, range(len(gone))).reshape(n, -1) if not whole else v.reshape(-1, 1)
            want = getattr(y, kind)(0) if y.shape[1] else np.zeros(0)
            assert np.array_equal(out.reshape(-1), want.reshape(-1)), f"{kind} of {name}"
            return
        total = np.abs(v).sum(gone)
        if kind in ("sum", "mean"):
            want, error = v.sum(gone), e * grows(n) * total
            want, error = (want / n, error / max(n, 1)) if kind == "mean" else (want, error)
        elif kind == "norm1":
            want, error = total, e * grows(n) * total
        elif kind == "norm2":
            want = np.sqrt((v * v).sum(gone))
            error = e * grows(n) * want + math.sqrt(max(n, 1) * LOWEST)
        elif kind == "logsumexp":
            top = v.max(gone, keepdims=True, initial=-np.inf)
            base = np.where(np.isfinite(top), top, 0)
            want = np.log(np.exp(v - base).sum(gone)) + base.reshape(total.shape)
            size = 8 * np.abs(want) + 4 * np.abs(np.where(np.isfinite(v), v, 0)).max(gone, initial=0)
            error = e * (grows(n) + np.where(np.isfinite(want), size, 0))
        elif kind == "norminf":
            want, error = np.abs(v).max(gone, initial=0), 0
        else:
            want, error = getattr(v, kind)(gone), 0
    near(out.reshape(np.shape(want)), want, error, f"{kind} of {name}")


def cumsum(rng: np.random.Generator) -> None:
    memory, shape, name = Memory(rng), shape_of(rng), some(rng, *FLOATS)
    axis = int(rng.integers(-len(shape), len(shape)))
    if rng.random() < 0.3:
        x, out, values = memory.in_place(numbers(rng, shape, name, kind_of(rng)), name)
        given, to = x, name
    else:
        x, values = memory.read(shape, name, kind_of(rng))
        given, out = memory.written(shape, to := some(rng, name, *FLOATS))
    kernels.cumsum(given, x, axis=axis)
    memory.check()
    with np.errstate(all="ignore"):
        y = wide(values)
        near(out, y.cumsum(axis), computed(name, to) * (8 + shape[axis]) * np.abs(y).cumsum(axis), f"cumsum of {name}")


def top_k(rng: np.random.Generator) -> None:
    memory, shape, name, largest = Memory(rng), shape_of(rng, longest=4), some(rng, *FLOATS), bool(rng.integers(2))
    x, values = memory.read(shape, name, kind_of(rng))
    k = int(rng.integers(0, shape[-1] + 1))
    best, got = memory.written((*shape[:-1], k), name)
    places, indices = memory.written((*shape[:-1], k), some(rng, "i32", "i64"))
    kernels.top_k(best, places, x, largest=largest)
    memory.check()
    y = wide(values)
    nan = np.isnan(y)
    key = np.where(nan, 0, y + 0.0)
    number = np.broadcast_to(np.arange(shape[-1]), shape)
    order = np.lexsort((number, *((-key, ~nan) if largest else (key, nan))), axis=-1)[..., :k]
    assert np.array_equal(indices, order), f"top_k of {name}"
    assert np.array_equal(wide(got), np.take_along_axis(y, order, -1), equal_nan=True)


def embedding(rng: np.random.Generator) -> None:
    memory, name = Memory(rng), some(rng, "bf16", "f16", "f32", "f64", "i8", "e4m3")
    rows, columns = int(some(rng, 1, 2, 7, 33, 200)), int(some(rng, 0, 1, 3, 8, 40, 65))
    shape = shape_of(rng, most=60, fewest=0, longest=3)
    if name in ("i8", "e4m3"):
        table, seen = memory.given(rng.integers(-100, 100, (rows, columns)), name)
    else:
        table, seen = memory.read((rows, columns), name, kind_of(rng))
    ids, places = memory.given(rng.integers(0, rows, shape), some(rng, "i32", "i64"))
    given, out = memory.written((*shape, columns), name)
    kernels.embedding(given, table, ids)
    memory.check()
    assert np.array_equal(wide(out), wide(seen[places]), equal_nan=True)


def embedding_backward(rng: np.random.Generator) -> None:
    memory, name = Memory(rng), some(rng, *FLOATS)
    rows, columns = int(some(rng, 0, 1, 2, 7, 33)), int(some(rng, 0, 1, 3, 8, 40, 65))
    count = int(some(rng, 0, 1, 5, 33, 130)) if rows else 0
    dout, values = memory.read((count, columns), name, kind_of(rng))
    ids, places = memory.given(rng.integers(0, max(rows, 1), count), some(rng, "i32", "i64"))
    given, out = memory.written((rows, columns), to := some(rng, name, *FLOATS))
    padding = int(rng.integers(rows)) if rows and rng.random() < 0.3 else None
    kernels.embedding_backward(given, dout, ids, padding_idx=padding)
    memory.check()
    want, size = np.zeros((rows, columns)), np.zeros((rows, columns))
    with np.errstate(all="ignore"):
        np.add.at(want, places, wide(values))
        np.add.at(size, places, np.abs(wide(values)))
    if padding is not None:
        want[padding] = size[padding] = 0
    near(out, want, computed(name, to) * (8 + count) * size, f"embedding_backward of {name}")


FAMILIES: dict[str, Callable[[np.random.Generator], None]] = {
    "softmax": softmax, "softmax_backward": softmax_backward, "cross_entropy": cross_entropy, "norm": norm,
    "norm_backward": norm_backward, "gated": gated, "moves": moves, "rope": rope, "reduce": reduce, "cumsum": cumsum,
    "top_k": top_k, "embedding": embedding, "embedding_backward": embedding_backward}
