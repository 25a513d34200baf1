"""Drawn calls of the kernels that memory bounds: rows, gates, moves, reductions; each against float64.

In: a ``Draw``.  Out: AssertionError where an element is wrong; ``ROWS`` has a function for each family.

    draw = Draw(7, "rope"); ROWS["rope"](draw); draw.intact()

``noise`` is what float32 (of float64 float64) may lose on the way, generously: a fault of a kernel is larger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import probabilities as exact
from emulator.draw import FLOATS, UNIT, Draw, coarsest, eps_of, wide
from moye import kernels
from moye.kernels import scans
from moye.kernels.folds import FOLDS

ROWS: dict[str, Callable[[Draw], None]] = {}


def family(function: Callable[[Draw], None]) -> Callable[[Draw], None]:
    ROWS[function.__name__] = function
    return function


# --- softmax and losses ----------------------------------------------------------------------------------------------


@family
def softmax(draw: Draw) -> None:
    """And its logarithm, and the gradients of both."""
    name, shape, log = draw.dtype(), draw.shape(), draw.chance(0.5)
    options: dict[str, Any] = {"scale": draw.one(1.0, 0.125, 2.5),
                               "axis": draw.whole(-len(shape), len(shape) - 1) if draw.chance(0.25) else -1}
    x, kind = draw.normal(shape, 3), draw.one("", "", "", "bool", "float")
    masked = tuple(n if draw.chance(0.6) else 1 for n in shape)[draw.whole(0, len(shape) - 1):]
    if kind == "bool":
        options["mask"] = draw.given(draw.rng.random(masked) < 0.7)
    elif kind == "float":
        added = np.where(draw.rng.random(masked) < 0.2, -np.inf, draw.normal(masked))
        options["mask"] = draw.given(added, draw.one("f32", "bf16", name))
    if len(shape) > 1 and options["axis"] == -1 and draw.chance(0.3):
        options["causal"] = draw.whole(-2, shape[-1] + 2)
    place = draw.chance(0.2)
    draw.note(name=name, shape=shape, log=log, kind=kind, place=place,
              **{key: value for key, value in options.items() if key != "mask"})
    x = draw.room(shape, name, values=x) if place else draw.given(x, name)
    before = wide(x)
    out = x if place else draw.room(shape, draw.beside(name))
    (kernels.log_softmax if log else kernels.softmax)(out, x, **options)
    want = exact.softmax(before, log=log, **options)
    most = np.abs(before).max() * options["scale"] + 8 + 2 * (kind == "float")
    noise = coarsest(out, x) * 16 * most
    draw.near("out", out, want, np.where(np.isfinite(want), noise if log else noise * np.abs(want), 0))
    _gradient(draw, name, out, {key: options[key] for key in ("axis", "scale")}, log)


def _gradient(draw: Draw, name: str, y: Any, options: dict[str, Any], log: bool) -> None:
    dy, place, of_dy = draw.normal(y.shape), draw.chance(0.2), draw.beside(name)
    dy = draw.room(y.shape, of_dy, values=dy) if place else draw.given(dy, of_dy)
    dx = dy if place else draw.room(y.shape, draw.beside(name))
    draw.note(y=y.dtype, dy=dy.dtype, dx=dx.dtype)
    want = exact.softmax_gradient(dy, y, log=log, **options)
    wide_dy, p = wide(dy), np.exp(wide(y)) if log else wide(y)
    terms = np.where(p > 0, np.abs(wide_dy if log else p * wide_dy), 0).sum(options["axis"], keepdims=True)
    size = np.abs(wide_dy) * (1 if log else p) + p * terms * (1 + 40 * log)
    (kernels.log_softmax_backward if log else kernels.softmax_backward)(dx, dy, y, **options)
    draw.near("dx", dx, want, coarsest(y, dy, dx) * 32 * options["scale"] * size)


@family
def cross_entropy(draw: Draw) -> None:
    """The loss alone, with the gradient, and the gradient alone, perhaps over the logits."""
    name, shape = draw.dtype(), draw.shape()
    of_sums = "f64" if name == "f64" else "f32"
    *rows, n = shape
    ignored = draw.one(-100, 0)
    labels = np.where(draw.rng.random(rows) < 0.2, ignored, draw.rng.integers(0, n, rows))
    options: dict[str, Any] = {"reduction": draw.one("none", "mean", "sum"), "ignore_index": ignored,
                               "label_smoothing": draw.one(0.0, 0.1), "z_loss": draw.one(0.0, 1e-3)}
    if draw.chance(0.3):
        options |= {"weight": draw.given(0.1 + np.abs(draw.normal((n,))), draw.beside(of_sums)), "label_smoothing": 0.0}
    if (labels == ignored).all() and options["reduction"] == "mean":
        options["reduction"] = "sum"
    way = draw.one("loss", "both", "gradient", "over")
    draw.note(name=name, shape=shape, way=way, **{k: v for k, v in options.items() if k != "weight"},
              weight="weight" in options)
    labels = draw.given(labels, draw.one(np.int32, np.int64))
    x = draw.normal(shape, 3)
    x = draw.room(shape, name, values=x) if way == "over" else draw.given(x, name)
    of_loss = tuple(rows) if options["reduction"] == "none" else ()
    dloss, loss = draw.given(draw.normal(of_loss), draw.beside(of_sums)), draw.room(of_loss, draw.beside(of_sums))
    lse = draw.room(tuple(rows), draw.beside(of_sums, "f32", "f64"))
    loss_want, lse_want, dx_want = exact.cross_entropy(wide(x), wide(labels).astype(np.int64), dloss=wide(dloss),
                                                       **options)
    most, eps = float(np.abs(wide(x)).max()) + 10, coarsest(x, lse, loss, dloss)
    if way in ("loss", "gradient"):
        kernels.cross_entropy(loss, x, labels, lse=lse, **options)
        draw.near("lse", lse, lse_want, 16 * eps * most)
    dx = x if way == "over" else draw.room(shape, draw.beside(name))
    draw.note(dx=dx.dtype, loss=loss.dtype, lse=lse.dtype, dloss=dloss.dtype)
    if way == "gradient":
        kernels.cross_entropy_backward(dx, dloss, x, labels, lse, **options)
    elif way != "loss":
        kernels.cross_entropy(loss, x, labels, dlogits=dx, dloss=dloss, **options)
    heavy = float(np.abs(wide(options["weight"])).max()) if "weight" in options else 1.0
    draw.near("loss", loss, loss_want, 64 * eps * most * heavy * (len(labels.ravel()) if options[
        "reduction"] == "sum" else 1))
    if way != "loss":
        size = np.abs(dx_want) + np.abs(np.broadcast_to(wide(dloss)[..., None] if of_loss else wide(dloss), shape))
        draw.near("dx", dx, dx_want, 32 * eps * most * heavy * size)


@family
def linear_cross_entropy(draw: Draw) -> None:
    """Chunks of tokens; 16 bits without gradients on sm_90a have no logits."""
    name = draw.one("bf16", "f16", "f32", "f64")
    half = name in ("bf16", "f16")
    tokens, hidden, columns = draw.whole(1, 140), draw.one(8, 24, 64, 72, 33, 128), draw.whole(1, 300)
    chunk, wants = draw.one(None, None, 7, 32), draw.one("", "", "x", "W", "xW")
    options = {"reduction": draw.one("mean", "none", "sum"), "label_smoothing": draw.one(0.0, 0.1),
               "z_loss": draw.one(0.0, 1e-3)}
    draw.note(name=name, tokens=tokens, hidden=hidden, columns=columns, chunk=chunk, wants=wants, **options)
    x, W = draw.given(draw.normal((tokens, hidden)), name), draw.given(draw.normal((columns, hidden)) / 8, name)
    labels = draw.rng.integers(0, columns, tokens)
    labels[1:][draw.rng.random(tokens - 1) < 0.2] = -100
    labels = draw.given(labels, draw.one(np.int32, np.int64))
    sums = FLOATS["f64" if name == "f64" else "f32"]
    of_loss = (tokens,) if options["reduction"] == "none" else ()
    loss, lse, dloss = draw.room(of_loss, sums), draw.room((tokens,), sums), draw.given(draw.normal(of_loss), sums)
    dx = draw.room(x.shape, name) if "x" in wants else None
    dW = draw.room(W.shape, draw.one("f32", name) if half else name) if "W" in wants else None
    logits = wide(x) @ wide(W).T
    want, want_lse, d = exact.cross_entropy(logits, labels, dloss=wide(dloss), **options)
    more = {"dloss": dloss} if wants else {}
    kernels.linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW, lse=lse, chunk=chunk, **more, **options)
    loose = 4 * UNIT[name] if half else 200 * UNIT[name]
    most = max(1.0, float(np.abs(logits).max()))
    draw.near("loss", loss, want, loose * most * (tokens if options["reduction"] == "sum" else 1))
    draw.near("lse", lse, want_lse, loose * most)
    for told, got, exactly, parts in (("dx", dx, d @ wide(W), np.abs(d) @ np.abs(wide(W))),
                                      ("dW", dW, d.T @ wide(x), np.abs(d).T @ np.abs(wide(x)))):
        if got is not None:
            chunks = 1 if chunk is None else -(-tokens // chunk)
            draw.near(told, got, exactly, loose * (most * parts + chunks * np.abs(exactly).max()))


# --- norms -----------------------------------------------------------------------------------------------------------


def normed(h: Any, eps: float, centred: bool) -> tuple[Any, Any, Any]:
    """(what a norm makes of rows before the weight, means, 1 / deviations), each with a last mode."""
    mean = h.mean(-1, keepdims=True) if centred else np.zeros_like(h[..., :1])
    rstd = 1 / np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + eps)
    return (h - mean) * rstd, mean, rstd


@family
def norm(draw: Draw) -> None:
    """RMSNorm and LayerNorm with each of their options, into eight bits, too."""
    name, shape, centred = draw.dtype(), draw.shape(), draw.chance(0.5)
    narrow = draw.one("", "", "", "row", "block")
    to = "e4m3" if narrow else draw.beside(name)
    sums, eps, offset = FLOATS["f64" if name == "f64" else "f32"], draw.one(1e-3, 1e-6), draw.one(0.0, 1.0)
    which = {key: draw.chance(0.6) for key in ("weight", "bias", "residual", "summed", "rstd", "mean")}
    draw.note(name=name, shape=shape, centred=centred, to=to, narrow=narrow, eps=eps, offset=offset,
              **{key: 1 for key, value in which.items() if value})
    x = draw.given(draw.normal(shape) + draw.one(0, 0, 3), name)
    arrays: dict[str, Any] = {key: draw.given(draw.normal(shape[-1:]), draw.beside(name)) for key in ("weight", "bias")
                              if which[key]}
    if which["residual"]:
        arrays["residual"] = draw.given(draw.normal(shape), draw.beside(name))
        if which["summed"]:
            arrays["summed"] = draw.room(shape, draw.beside(name))
    if which["rstd"]:
        arrays["rstd"] = draw.room(shape[:-1], sums)
    if centred and which["mean"]:
        arrays["mean"] = draw.room(shape[:-1], sums)
    out = draw.room(shape, ml_dtypes.float8_e4m3fn if narrow else to)
    if narrow:
        arrays["scale"] = draw.room((*shape[:-1], -(-shape[-1] // 128)) if narrow == "block" else shape[:-1], "f32")
    draw.note(dtypes={key: str(array.dtype) for key, array in arrays.items()})
    (kernels.layer_norm if centred else kernels.rms_norm)(out, x, eps=eps, offset=offset, **arrays)
    h = wide(x)
    if which["residual"]:
        held = arrays.get("summed", x).dtype
        h = wide((x.astype(sums) + arrays["residual"].astype(sums)).astype(held))
        if which["summed"]:
            draw.near("summed", arrays["summed"], h)
    hat, mean, rstd = normed(h, eps, centred)
    u = coarsest(x, *arrays.values())
    # the mean of what is nearly constant, and what is taken from it, lose what their size has more digits of
    most = np.abs(h).max(-1, keepdims=True)
    blur = 32 * u * (1 + (most * rstd) ** 2 * centred) * (np.abs(hat) + centred * most * rstd)
    w = wide(arrays["weight"]) + offset if which["weight"] else 1.0
    want, noise = hat * w, blur * np.abs(w)
    if which["bias"]:
        want, noise = want + wide(arrays["bias"]), noise + 4 * u * np.abs(wide(arrays["bias"]))
    if "rstd" in arrays:
        draw.near("rstd", arrays["rstd"], rstd[..., 0], (32 * u * rstd * (1 + (most * rstd) ** 2 * centred))[..., 0])
    if "mean" in arrays:
        draw.near("mean", arrays["mean"], mean[..., 0], 32 * u * most[..., 0])
    if narrow:
        _narrow(draw, out, arrays["scale"], want, noise, narrow == "block")
    else:
        draw.near("out", out, want, noise)


def _narrow(draw: Draw, out: Any, scale: Any, want: Any, noise: Any, block: bool) -> None:
    """Results of eight bits and their factors: a result is at most one step away."""
    columns = want.shape[-1]
    each = 128 if block else columns
    padded = np.zeros((*want.shape[:-1], -(-columns // each) * each))
    padded[..., :columns] = want
    factor = np.abs(padded).reshape(*want.shape[:-1], -1, each).max(-1) / 448
    draw.near("scale", scale, factor if block else factor[..., 0], 1e-5 * np.abs(factor).max() + noise.max() / 448)
    spread = np.repeat(factor, each, -1)[..., :columns]
    share = np.divide(want, spread, where=spread > 0, out=np.zeros_like(want))
    loose = np.maximum(np.abs(share) / 16, 2.0 ** -10) * 1.001 + np.divide(
        2 * noise, spread, where=spread > 0, out=np.zeros_like(want))
    assert (np.abs(wide(out) - share) <= loose).all(), "results of eight bits are off by more than a step"


@family
def norm_backward(draw: Draw) -> None:
    """Gradients by x, the weight and the bias; dx may take the place of what is read."""
    name, shape, centred = draw.dtype(), draw.shape(40000), draw.chance(0.5)
    sums, offset, place = FLOATS["f64" if name == "f64" else "f32"], draw.one(0.0, 1.0), draw.one("", "", "dout", "x")
    which = {key: draw.chance(0.6) for key in ("weight", "dweight", "dbias", "dsummed")}
    draw.note(name=name, shape=shape, centred=centred, offset=offset, place=place,
              **{key: 1 for key, value in which.items() if value})
    values = {"x": draw.normal(shape), "dout": draw.normal(shape)}
    x, dout = (draw.room(shape, t, values=values[key]) if place == key else draw.given(values[key], t)
               for key, t in (("x", name), ("dout", draw.beside(name))))
    weight = draw.given(draw.normal(shape[-1:]), draw.beside(name)) if which["weight"] else None
    h, g = wide(x), wide(dout)
    hat, mean, rstd = normed(h, 0.01, centred)
    statistics = [draw.given(t[..., 0], sums) for t in ((rstd, mean) if centred else (rstd,))]
    more: dict[str, Any] = {key: draw.room(shape[-1:], draw.beside(name)) for key in ("dweight", "dbias") if which[key]}
    if which["dsummed"]:
        more["dsummed"] = draw.given(draw.normal(shape), draw.beside(name))
    dx = {"dout": dout, "x": x}.get(place)
    dx = draw.room(shape, draw.beside(name)) if dx is None else dx
    draw.note(dx=dx.dtype, dout=dout.dtype, weight=getattr(weight, "dtype", None),
              dtypes={key: str(array.dtype) for key, array in more.items()})
    hat = (h - mean) * rstd
    inner = g * (wide(weight) + offset) if weight is not None else g
    across = inner.mean(-1, keepdims=True) if centred else 0
    want = rstd * (inner - across - hat * (inner * hat).mean(-1, keepdims=True))
    size = rstd * (np.abs(inner) + np.abs(inner).mean(-1, keepdims=True) + np.abs(hat) * np.abs(inner * hat).mean(
        -1, keepdims=True)) + (np.abs(wide(more["dsummed"])) if which["dsummed"] else 0)
    (kernels.layer_norm_backward if centred else kernels.rms_norm_backward)(
        dx, dout, x, weight, *statistics, offset=offset, **more)
    u, rows = coarsest(x, dout, dx, weight, *more.values()), tuple(range(len(shape) - 1))
    draw.near("dx", dx, want + (wide(more["dsummed"]) if which["dsummed"] else 0), 64 * u * size)
    for key, terms in (("dweight", g * hat), ("dbias", g)):
        if which[key]:
            draw.near(key, more[key], terms.sum(rows), 32 * u * (np.abs(terms) + np.abs(g)).sum(rows))


# --- elements --------------------------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[float])


def gate_of(kind: str, x: Any) -> tuple[Any, Any]:
    """An activation and its derivative in float64."""
    if kind == "silu":
        s = 1 / (1 + np.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    if kind == "none":
        below = (1 + _erf(x / math.sqrt(2))) / 2
        return x * below, below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


@family
def gated(draw: Draw) -> None:
    """SwiGLU and both GeGLUs: apart or in one array, and so their gradients, which may lie over what they are of."""
    kind, shape, backward = draw.one("silu", "none", "tanh"), draw.shape(40000), draw.chance(0.6)
    name = draw.dtype()
    packed, grads, place = draw.chance(0.4), draw.chance(0.4), backward and draw.chance(0.25)
    names = [name, *(draw.beside(name) for _ in range(4))]
    both = (*shape[:-1], 2 * shape[-1])
    draw.note(kind=kind, shape=shape, backward=backward, packed=packed, grads=grads, place=place, names=names)
    values = draw.normal(both, 2)
    if packed:
        joined = draw.room(both, names[0], values=values) if place else draw.given(values, names[0])
        arrays, (gate, up) = (joined,), np.split(joined, 2, -1)
    else:
        arrays = gate, up = tuple(draw.room(shape, n, values=v) if place else draw.given(v, n)
                                  for n, v in zip(names, np.split(values, 2, -1), strict=False))
    x, u = wide(gate), wide(up)
    value, slope = gate_of(kind, x)
    function = getattr(kernels, ("swiglu" if kind == "silu" else "geglu") + ("_backward" if backward else ""))
    call = function if kind == "silu" else functools.partial(function, approximate=kind)
    if not backward:
        out = draw.room(shape, names[2])
        call(out, *arrays)
        draw.near("out", out, value * u, 64 * eps_of(out, *arrays) * np.abs(u) * (np.abs(value) + np.abs(x)))
        return
    dout = draw.given(draw.normal(shape), names[2])
    if place:
        found = arrays[0] if packed else arrays
    else:
        found = draw.room(both, names[3]) if grads else tuple(draw.room(shape, n) for n in names[3:])
    call(found, dout, *arrays)
    dgate, dup = found if isinstance(found, tuple) else np.split(found, 2, -1)
    loss, d = 64 * eps_of(dgate, dup, dout, *arrays), wide(dout)
    draw.near("dgate", dgate, d * u * slope, loss * np.abs(d * u) * (1 + x * x))
    draw.near("dup", dup, d * value, loss * np.abs(d) * (np.abs(value) + np.abs(x)))


@family
def rope(draw: Draw) -> None:
    """Both pairings, parts of heads, positions of each kind, in place, and back."""
    name, three, place = draw.dtype(), draw.chance(0.2), draw.chance(0.2)
    batch, seq, heads = 1 if three else draw.whole(1, 4), draw.one(1, 2, 7, 33, 100), draw.whole(1, 5)
    dim = draw.one(2, 6, 15, 16, 31, 32, 48, 64, 80, 128)
    half = dim // 2 if draw.chance(0.6) else draw.whole(0, dim // 2)
    options = {"offset": draw.one(0, 0, 3), "interleaved": draw.chance(0.5), "inverse": draw.chance(0.3)}
    shape = (seq, heads, dim) if three else (batch, seq, heads, dim)
    kind, of_tables = draw.one("", "", "seq", "batch") if not three else draw.one("", "seq"), draw.one(
        "f64" if name == "f64" else "f32", "f32", name)
    to = name if place else draw.beside(name)
    draw.note(name=name, to=to, shape=shape, half=half, kind=kind, tables=of_tables, place=place, **options)
    angles = draw.rng.random((seq + 8, half)) * 6
    cos, sin = draw.given(np.cos(angles), of_tables), draw.given(np.sin(angles), of_tables)
    ids = {"": None, "seq": (seq,), "batch": (batch, seq)}[kind]
    positions = None if ids is None else draw.given(draw.rng.integers(0, seq + 4, ids), draw.one(np.int32, np.int64))
    x = draw.normal(shape)
    x = draw.room(shape, name, values=x) if place else draw.given(x, name)
    out = x if place else draw.room(shape, to)
    before = wide(x).reshape(batch, seq, heads, dim)
    kernels.rope(out, x, cos, sin, positions=positions, **options)
    places = np.broadcast_to(np.arange(seq) if positions is None else positions, (batch, seq)) + options["offset"]
    c, s = wide(cos)[places][:, :, None], wide(sin)[places][:, :, None] * (-1 if options["inverse"] else 1)
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if options["interleaved"] else (
        slice(0, half), slice(half, 2 * half))
    want, a, b = before.copy(), before[..., first], before[..., second]
    want[..., first], want[..., second] = a * c - b * s, b * c + a * s
    draw.near("out", out, want.reshape(shape), 8 * eps_of(x, out, cos) * np.abs(before).max())


@family
def embedding(draw: Draw) -> None:
    """Rows of a table of any dtype, bit by bit."""
    dtype = np.dtype(draw.one(*FLOATS.values(), np.int8, np.int32, np.int64))
    columns, rows = draw.columns(3000), draw.whole(1, 60)
    shape = tuple(draw.whole(1, 6) for _ in range(draw.whole(0, 3)))
    draw.note(dtype=dtype, rows=rows, columns=columns, shape=shape)
    table = draw.given(draw.rng.integers(0, 256, (rows, columns, dtype.itemsize), np.uint8).view(dtype)[..., 0])
    ids = draw.given(draw.rng.integers(0, rows, shape), draw.one(np.int32, np.int64))
    out = draw.room((*shape, columns), dtype)
    kernels.embedding(out, table, ids)
    draw.equal("out", out, table[ids])


@family
def embedding_backward(draw: Draw) -> None:
    """Sums of the rows of each id, searched and sorted."""
    name = draw.dtype()
    to = draw.beside(name)
    sort = draw.chance(0.5)
    rows, count, columns = draw.whole(1, 600 if sort else 60), draw.one(0, 1, 7, 130, 301), draw.columns(1500)
    padding = draw.whole(0, rows - 1) if draw.chance(0.3) else None
    draw.note(name=name, to=to, rows=rows, count=count, columns=columns, padding=padding, sort=sort)
    ids = draw.given(draw.rng.integers(0, rows, count), draw.one(np.int32, np.int64))
    dout, dtable = draw.given(draw.normal((count, columns)), name), draw.room((rows, columns), to)
    with mock.patch("moye.kernels.embedding.SEARCHED", 0 if sort else 16384):
        kernels.embedding_backward(dtable, dout, ids, padding_idx=padding)
    want, size = np.zeros((rows, columns)), np.zeros((rows, columns))
    np.add.at(want, ids, wide(dout))
    np.add.at(size, ids, np.abs(wide(dout)))
    if padding is not None:
        want[padding] = 0
    draw.near("dtable", dtable, want, 300 * eps_of(dout, dtable) * size)


# --- moves and sums --------------------------------------------------------------------------------------------------

_ANY = (np.uint8, ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.float8_e4m3fn, np.int32, np.int16, np.int64)


@family
def permute(draw: Draw) -> None:
    """Any dtype, rank and order; two axes exchanged is ``transpose``."""
    dtype, rank = np.dtype(draw.one(*_ANY)), draw.whole(1, 5)
    while True:
        shape = tuple(draw.one(1, 2, 3, 7, 8, 16, 31, 33, 64, 65, 130, 260) for _ in range(rank))
        if math.prod(shape) <= 40000:
            break
    axes = tuple(int(i) for i in draw.rng.permutation(rank))
    two = tuple(sorted(draw.rng.choice(rank, 2, replace=False))) if rank > 1 and draw.chance(0.4) else ()
    if two:
        axes = tuple(two[1 - two.index(i)] if i in two else i for i in range(rank))
    draw.note(dtype=dtype, shape=shape, axes=axes, two=two)
    x = draw.given(draw.rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0])
    out = draw.room(tuple(shape[i] for i in axes), dtype)
    if two:
        kernels.transpose(out, x, int(two[0]), int(two[1]) - rank)
    else:
        kernels.permute(out, x, axes)
    draw.equal("out", out, x.transpose(axes))


@family
def packed(draw: Draw) -> None:
    """A copy that TMA can load: elements of 1, 2 or 4 bytes in any order."""
    dtype, batches = np.dtype(draw.one(np.uint8, ml_dtypes.bfloat16, np.float32)), draw.one((), (), (1,), (3,))
    shape = (draw.one(1, 2, 63, 64, 130, 257), draw.one(1, 3, 16, 33, 64, 127, 300), *batches)
    order = draw.rng.permutation(len(shape))
    draw.note(dtype=dtype, shape=shape, order=order)
    bits = draw.rng.integers(0, 256, (*(shape[i] for i in order), dtype.itemsize), np.uint8).view(dtype)[..., 0]
    x = draw.given(bits).transpose(np.argsort(order))
    found = kernels.packed(x)
    assert found.strides[1] == dtype.itemsize or shape[1] == 1, f"strides {found.strides}"
    assert all(n % 16 == 0 for n in (found.strides[0], *found.strides[2:])), f"strides {found.strides}"
    draw.equal("packed", found, x)


def reduced(kind: str, x: Any, axes: tuple[int, ...]) -> Any:
    """In float64; of arg... the axis is one, or all."""
    if kind.startswith("arg"):
        return getattr(x, kind)(axis=axes[0] if len(axes) == 1 else None)
    if kind.startswith("norm"):
        return {"1": abs(x).sum(axes), "2": np.sqrt((x * x).sum(axes)), "inf": abs(x).max(axes)}[kind[4:]]
    if kind != "logsumexp":
        return getattr(x, kind)(axis=axes)
    top = x.max(axes, keepdims=True)
    return np.log(np.exp(x - top).sum(axes)) + np.squeeze(top, axes)


@family
def reduce(draw: Draw) -> None:
    """Each kind over some axes, into any dtype, with the axes kept or not."""
    kind, name = draw.one(*FOLDS), draw.dtype()
    shape = draw.shape(40000)
    if draw.chance(0.4):
        shape = tuple(draw.one(1, 2, 3, 7, 16, 17, 31, 33, 64) for _ in range(draw.whole(1, 4)))
        shape = shape if math.prod(shape) <= 40000 else shape[:2]
    if draw.chance(0.3):
        shape = shape[::-1]
    axes = tuple(sorted(int(i) for i in draw.rng.choice(len(shape), draw.whole(1, len(shape)), replace=False)))
    if kind.startswith("arg") and len(axes) < len(shape):
        axes = axes[:1]
    axis: Any = axes[0] if len(axes) == 1 else None if len(axes) == len(shape) and draw.chance(0.5) else axes
    keep = draw.chance(0.5)
    to = draw.one(np.int32, np.int64) if kind.startswith("arg") else draw.beside(name)
    draw.note(kind=kind, name=name, shape=shape, axis=axis, keep=keep, to=to)
    x = draw.given(draw.one(1, 1, 100) * draw.normal(shape) + draw.one(0, 0, 3), name)
    if draw.chance(0.3):                                # many are equal
        x = draw.given(np.round(wide(x)), name)
    out = draw.room(tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes), to)
    kernels.reduce(out, x, kind, axis=axis)
    want = np.asarray(reduced(kind, wide(x), axes)).reshape(out.shape)
    if kind.startswith("arg"):
        assert np.array_equal(out, want), f"{int((out != want).sum())} indices are wrong"
        return
    size, u = np.abs(wide(x)).sum(axes).reshape(out.shape), eps_of(x)
    count = math.prod(shape[i] for i in axes)
    noise = {"sum": 64 * size, "norm1": 64 * size, "mean": 64 * size / count, "norm2": 64 * np.abs(want),
             "logsumexp": 64 * (np.abs(want) + 16)}.get(kind, 0.0)
    draw.near("out", out, want, u * np.asarray(noise))


@family
def cumsum(draw: Draw) -> None:
    """Prefix sums along any axis, in place, over rows that blocks share, once or twice read."""
    name = draw.dtype()
    shape = draw.shape(60000) if draw.chance(0.8) else (draw.whole(1, 2), draw.one(33001, 34000))
    axis, place = draw.whole(-len(shape), len(shape) - 1), draw.chance(0.2)
    to, once = name if place else draw.beside(name), draw.one(1000, None)
    draw.note(name=name, to=to, shape=shape, axis=axis, place=place, once=once)
    x = draw.normal(shape)
    x = draw.room(shape, name, values=x) if place else draw.given(x, name)
    out, before = x if place else draw.room(shape, to), wide(x)
    with mock.patch.object(scans, "ONCE", once or scans.ONCE):
        kernels.cumsum(out, x, axis=axis)
    draw.near("out", out, before.cumsum(axis), 32 * eps_of(x, out) * np.abs(before).cumsum(axis))


@family
def top_k(draw: Draw) -> None:
    """Any k, both directions; with ties, NaN, zeros of both signs and infinities."""
    name, rows = draw.dtype(), tuple(draw.whole(1, 4) for _ in range(draw.whole(0, 2)))
    n = draw.columns(6000)
    k, largest = min(n, draw.one(1, 2, 5, 8, 33, 64, 200, 1000, 2048)), draw.chance(0.6)
    draw.note(name=name, rows=rows, n=n, k=k, largest=largest)
    x = draw.normal((*rows, n))
    if draw.chance(0.5):
        x = np.round(2 * x)
        for special in (np.nan, np.inf, -np.inf, -0.0):
            x[draw.rng.random(x.shape) < 0.02] = special
    x = draw.given(x, name)
    values, indices = draw.room((*rows, k), name), draw.room((*rows, k), draw.one(np.int32, np.int64))
    kernels.top_k(values, indices, x, largest=largest)
    y = wide(x)
    rank = np.where(np.isnan(y), np.inf, y)
    places = np.broadcast_to(np.arange(n), y.shape)
    order = np.lexsort((places, *((-rank, ~np.isnan(y)) if largest else (rank, np.isnan(y)))), axis=-1)[..., :k]
    assert np.array_equal(indices, order), f"{int((indices != order).sum())} indices are wrong"
    assert np.array_equal(wide(values), np.take_along_axis(y, order, -1), equal_nan=True), "values are wrong"
