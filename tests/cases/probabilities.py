"""Softmax and cross-entropy in float64, and drawn problems for them: shapes, strides, dtypes, masks, labels.

``softmax(x, ...)`` and ``cross_entropy(x, labels, ...)`` are what the kernels of ``moye.kernels`` should give, and
``compare_softmax(*softmax_problem(seed))`` asserts it.  ``drawn(rng, shape, dtype)`` is an array of any strides whose
memory around it is poisoned.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from moye import kernels

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
LOOSE = {"f16": 1e-3, "bf16": 8e-3, "f32": 4e-6, "f64": 1e-13}
"""Of results that are rounded to a dtype, relative to the largest."""
LOOSE_LOSS = {"f64": 1e-12}
"""Of losses and logarithms of sums, which are float32 elsewhere."""


def softmax(x, axis=-1, scale=1.0, mask=None, causal=None, log=False):
    """(softmax of x * scale + mask, rows of which nothing counts), or its logarithm."""
    s = x.astype(np.float64) * scale
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask.astype(np.float64)
    if causal is not None:
        s = np.where(np.arange(x.shape[-1]) <= np.arange(x.shape[-2])[:, None] + causal, s, -np.inf)
    top = s.max(axis, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis, keepdims=True)
    total = np.where(total == 0, 1, total)
    return s - np.where(np.isneginf(top), 0, top) - np.log(total) if log else e / total


def softmax_gradient(dy, y, axis=-1, scale=1.0, log=False):
    """The gradient of x for that of softmax(x * scale), or of its logarithm."""
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    if log:
        counts = ~np.isneginf(y)
        dy = np.where(counts, dy, 0)
        return np.where(counts, dy - np.exp(y) * dy.sum(axis, keepdims=True), 0) * scale
    return y * (dy - (dy * y).sum(axis, keepdims=True)) * scale


def cross_entropy(x, labels, *, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0, z_loss=0.0,
                  dloss=1.0):
    """(loss, lse of rows, gradient of x times dloss)."""
    x = x.astype(np.float64)
    top = x.max(-1)
    lse = top + np.log(np.exp(x - top[..., None]).sum(-1))
    counts = labels != ignore_index
    columns = np.where(counts, labels, 0)[..., None]
    factor = counts * (1.0 if weight is None else weight.astype(np.float64)[columns[..., 0]])
    own = np.take_along_axis(x, columns, -1)[..., 0]
    loss = (1 - label_smoothing) * (lse - own) + z_loss * lse ** 2
    if label_smoothing:
        loss = loss + label_smoothing * (lse - x.mean(-1))
    loss = loss * factor
    gradient = np.exp(x - lse[..., None]) * (1 + 2 * z_loss * lse[..., None]) - label_smoothing / x.shape[-1]
    one = np.zeros_like(x)
    np.put_along_axis(one, columns, 1 - label_smoothing, -1)
    count = factor.sum() if reduction == "mean" else 1.0
    each = np.asarray(dloss, np.float64) * factor / count
    gradient = np.where(counts[..., None], (gradient - one) * each[..., None], 0)
    return (loss if reduction == "none" else loss.sum() / count), lse, gradient


def drawn(rng, shape, dtype, values=None):
    """An array of this shape, of random strides and begin, in memory that is otherwise NaN; filled with ``values``."""
    room = [int(n + rng.integers(0, 3)) for n in shape]
    if len(shape) > 1 and rng.random() < 0.3:
        room[-1] += -room[-1] % 16
    order = rng.permutation(len(shape)) if rng.random() < 0.3 else np.arange(len(shape))
    memory = np.full(int(np.prod(room)) + 16, np.nan, dtype)
    start = int(rng.integers(0, 9)) if rng.random() < 0.4 else 0
    full = memory[start:start + int(np.prod(room))].reshape([room[i] for i in order]).transpose(np.argsort(order))
    x = full[tuple(slice(0, n) for n in shape)]
    if values is not None:
        x[...] = values
    return x


def largest_error(got, want):
    """The largest difference, relative to the largest number; infinities and NaN must be at the same places."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), "other infinities or NaN than expected"
    assert np.isfinite(got[finite]).all(), "infinities or NaN where numbers are expected"
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - want[finite]).max() / max(np.abs(want[finite]).max(), 0.1))


# --- drawn problems --------------------------------------------------------------------------------------------------

COLUMNS = (1, 2, 7, 33, 100, 128, 513, 1000, 2048, 5000)


def rows_of(rng, fewest, most):
    """A shape of 1 to 4 modes: few rows of some columns."""
    return (*(int(n) for n in rng.integers(1, 6, int(rng.integers(fewest, most)))), int(rng.choice(COLUMNS)))


def softmax_problem(seed):
    """(name of a dtype, x, dy, options of softmax, whether of its logarithm) of a drawn call."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(list(DTYPES)))
    shape = rows_of(rng, 0, 4)
    x, dy = (drawn(rng, shape, DTYPES[kind], scale * rng.standard_normal(shape)) for scale in (3, 1))
    options = {"scale": float(rng.choice([1, 0.125, 2.5])), "axis": -1}
    if rng.random() < 0.2:
        options["axis"] = int(rng.integers(-len(shape), len(shape)))
    which, some = rng.random(), tuple(n if rng.random() < 0.6 else 1 for n in shape)[int(rng.integers(0, len(shape))):]
    if which < 0.25:
        options["mask"] = drawn(rng, some, bool, rng.random(some) < 0.7)
    elif which < 0.5:
        added = np.where(rng.random(some) < 0.2, -np.inf, rng.standard_normal(some))
        options["mask"] = drawn(rng, some, np.float32, added)
    if len(shape) > 1 and options["axis"] == -1 and rng.random() < 0.3:
        options["causal"] = int(rng.integers(-2, shape[-1] + 2))
    return kind, x, dy, options, bool(rng.integers(2))


def entropy_problem(seed):
    """(name of a dtype, logits, labels, dloss, options of cross_entropy) of a drawn call."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(list(DTYPES)))
    wide = np.float64 if kind == "f64" else np.float32
    *rows, n = shape = rows_of(rng, 0, 3)
    x = drawn(rng, shape, DTYPES[kind], 3 * rng.standard_normal(shape))
    ignored = int(rng.choice([-100, 0]))
    labels = np.where(rng.random(rows) < 0.3, ignored, rng.integers(0, n, rows))
    labels = labels.astype(rng.choice([np.int32, np.int64]))
    options = {"reduction": str(rng.choice(["none", "mean", "sum"])), "ignore_index": ignored,
               "label_smoothing": float(rng.choice([0, 0.1])), "z_loss": float(rng.choice([0, 1e-3]))}
    if rng.random() < 0.3:
        options |= {"weight": np.abs(rng.standard_normal(n)).astype(wide), "label_smoothing": 0.0}
    if options["reduction"] == "mean" and (labels == ignored).all():
        options["reduction"] = "sum"
    of_loss = rows if options["reduction"] == "none" else ()
    return kind, x, labels, np.asarray(rng.standard_normal(of_loss), wide), options


# --- kernels beside them ---------------------------------------------------------------------------------------------

def compare_softmax(kind, x, dy, options, log, anywhere=True):
    """Forward and backward of a problem, in poisoned memory."""
    rng = np.random.default_rng(1)
    out, dx = (drawn(rng, x.shape, x.dtype) if anywhere else np.full_like(x, np.nan) for _ in range(2))
    (kernels.log_softmax if log else kernels.softmax)(out, x, **options)
    again = {name: options[name] for name in ("axis", "scale")}
    (kernels.log_softmax_backward if log else kernels.softmax_backward)(dx, dy, out, **again)
    assert largest_error(out, softmax(x, log=log, **options)) < LOOSE[kind]
    assert largest_error(dx, softmax_gradient(dy, out, log=log, **again)) < 2 * LOOSE[kind]


def compare_entropy(kind, x, labels, dloss, options):
    """The loss alone, with its gradient, the gradient alone, and over the logits."""
    rng, wide = np.random.default_rng(2), dloss.dtype
    loss, again, lse = np.full(dloss.shape, np.nan, wide), np.full(dloss.shape, np.nan, wide), \
        np.full(labels.shape, np.nan, wide)
    dx, dx_again = (drawn(rng, x.shape, x.dtype) for _ in range(2))
    want = cross_entropy(x, labels, dloss=dloss, **options)
    kernels.cross_entropy(loss, x, labels, lse=lse, **options)
    kernels.cross_entropy(again, x, labels, dlogits=dx, dloss=dloss, **options)
    kernels.cross_entropy_backward(dx_again, dloss, x, labels, lse, **options)
    kernels.cross_entropy(again, x, labels, dlogits=x, dloss=dloss, **options)
    for got, exactly in ((loss, want[0]), (again, want[0]), (lse, want[1])):
        assert largest_error(got, exactly) < LOOSE_LOSS.get(kind, 4e-6)
    for got in (dx, dx_again, x):
        assert largest_error(got, want[2]) < 2 * LOOSE[kind]
