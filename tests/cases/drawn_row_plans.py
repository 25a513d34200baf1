"""Calls of the kernels of rows with drawn plans: each is refused in one sentence, or right and clean.

In: a seed.  Out: a ``Call``; ``judged(call)`` says how it ended: "right", "refused", or what is wrong with it.

>>> judged(drawn_call(7))
'right'

Most plans fit rows of their length; some are off by one in some field, or suit other strides than the arrays have.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

import moye as mo
import probabilities as exact
from moye import kernels
from moye.kernels.rows import RowPlan

COLUMNS = (1, 3, 8, 16, 33, 64, 100, 128, 250, 256, 500, 512, 700, 1000, 1024)
MOST = 24
"""Vectors of a thread: more take long."""
ODD = {"width": (0, 3, 5, -1, 16, 2.0), "lanes": (0, 3, -32, 24, 33), "rows": (0, 2, 3, 4, -1, 64), "rounds": (0, -1),
       "cluster": (0, 2, 3, 4, 16, -1), "edges": (-1, 0, 1, 3, 50, 2000), "full": (-1, 1, 2, 99), "at_once": (0, -1, 3),
       "resident": (0, -1, 40), "stages": (-1, 1, 2, 9), "shifted": (True,), "masked": (True,), "streamed": (True,)}
FAMILIES = ("softmax", "log_softmax", "masked", "softmax_backward", "cross_entropy", "gradient", "rms_norm",
            "layer_norm", "residual", "rms_norm_backward", "layer_norm_backward")


@dataclass(frozen=True)
class Call:
    """One of FAMILIES with rows of a dtype, poisoned memory for its result, and a plan."""

    seed: int
    family: str
    dtype: str
    x: np.ndarray
    out: np.ndarray
    plan: RowPlan

    def __str__(self):
        return f"{self.seed}: {self.family} {self.dtype} {self.x.shape}, strides {self.x.strides}, {self.plan}"


def drawn_call(seed):
    """The call of a seed; its plan leaves no thread more than MOST vectors."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    kind = rng.choice([*exact.DTYPES])
    dtype, shape = exact.DTYPES[kind], (rng.choice([1, 2, 5, 9, 17, 40]), rng.choice(COLUMNS))
    values = (3 * numbers.standard_normal(shape)).astype(dtype)
    x = exact.drawn(numbers, shape, dtype, values) if rng.random() < 0.6 else values
    out = exact.drawn(numbers, shape, dtype) if rng.random() < 0.3 else np.full_like(values, np.nan)
    plan = drawn_plan(rng, shape[1], 128 // (8 * x.itemsize))
    while max(1, plan.width) * max(1, plan.lanes) * max(1, plan.cluster) * MOST < shape[1]:
        plan = drawn_plan(rng, shape[1], 128 // (8 * x.itemsize))
    return Call(seed, rng.choice(FAMILIES), kind, x, out, plan)


def drawn_plan(rng, columns, most):
    """A plan of vectors of up to ``most`` elements, of which six in seven fit so many columns."""
    shifted, masked = rng.random() < 0.3, rng.random() < 0.3
    width, lanes = min(most, rng.choice([1, 2, 4, 8])), rng.choice([1, 2, 4, 8, 16, 32, 32, 64, 96, 128])
    rows = rng.choice([1, 1, 2, 4]) if lanes <= 32 else 1
    cluster = rng.choice([1, 1, 2, 4]) if lanes >= 32 and rows == 1 else 1
    each = lanes * cluster
    vectors, sure = -(-columns // width) if masked else columns // width, max(0, columns - (width - 1) * shifted)
    fields = {"width": width, "lanes": lanes, "rows": rows, "cluster": cluster, "shifted": shifted and not masked,
              "masked": masked, "rounds": max(1, -(-vectors // each)) + (rng.random() < 0.2),
              "edges": 0 if masked else 2 * (width - 1) if shifted else columns % width,
              "full": 0 if masked else rng.choice([0, sure // width // each]), "at_once": rng.choice([1, 1, 1, 2]),
              "resident": rng.choice([1, 2]), "streamed": rng.random() < 0.2}
    if rng.random() < 0.4 and rows == 1 and not masked:
        fields |= {"stages": rng.choice([1, 2, 3]) * fields["rounds"] + rng.choice([0, 0, 1, 3]), "at_once": 1,
                   "streamed": False}
    if rng.random() < 0.15:
        name = rng.choice([*ODD])
        fields[name] = rng.choice(ODD[name])
    return RowPlan(**fields)


def judged(call):
    """"right", "refused", or what is wrong."""
    with mo.checking() as reports:
        try:
            FUNCTIONS[call.family](call)
        except mo.MoyeError as error:
            return "refused" if str(error).partition("\n")[0] else "an error without a sentence"
        except AssertionError as error:
            return str(error) or "other numbers than expected"
    return next((str(report) for report in reports if not report.ok), "right")


def _near(got, want, bound):
    error = exact.largest_error(got, want)
    assert error < bound, f"an error of {error:.2g}, and at most {bound:.2g} is right"


def _softmax(call, log=False, **options):
    (kernels.log_softmax if log else kernels.softmax)(call.out, call.x, plan=call.plan, **options)
    _near(call.out, exact.softmax(call.x, log=log, **options), exact.LOOSE[call.dtype])


def _masked(call):
    rng = np.random.default_rng(call.seed)
    causal = int(rng.integers(0, call.x.shape[1])) if rng.random() < 0.5 else None
    _softmax(call, log=bool(rng.integers(2)), mask=rng.random(call.x.shape) < 0.7, causal=causal)


def _softmax_backward(call):
    log, dy = bool(call.seed % 2), np.random.default_rng(call.seed + 1).standard_normal(call.x.shape)
    y, dy = exact.softmax(call.x, log=log).astype(call.x.dtype), dy.astype(call.x.dtype)
    wide, upper = y.astype(np.float64), dy.astype(np.float64)
    share = np.exp(wide) if log else wide
    total = (upper if log else wide * upper).sum(-1, keepdims=True)
    want = upper - share * total if log else wide * (upper - total)
    (kernels.log_softmax_backward if log else kernels.softmax_backward)(call.out, dy, y, plan=call.plan)
    _near(call.out, want, 4 * exact.LOOSE[call.dtype])


def _cross_entropy(call, gradient=False):
    labels = np.random.default_rng(call.seed).integers(0, call.x.shape[1], len(call.x))
    loss = np.full(len(labels), np.nan, _wide(call))
    want = exact.cross_entropy(call.x, labels, reduction="none")
    kernels.cross_entropy(loss, call.x, labels, reduction="none", plan=call.plan,
                          dlogits=call.out if gradient else None)
    _near(loss, want[0], exact.LOOSE_LOSS.get(call.dtype, 4e-6))
    if gradient:
        _near(call.out, want[2], 2 * exact.LOOSE[call.dtype])


def _wide(call):
    return np.float64 if call.dtype == "f64" else np.float32


def _normed(call, centred):
    """(x less its mean, mean, 1 / deviation, weights), in float64 but for the weights."""
    x, weight = call.x.astype(np.float64), np.random.default_rng(call.seed).standard_normal(call.x.shape[1])
    mean = x.mean(-1, keepdims=True) * centred
    return x - mean, mean, 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6), weight.astype(call.x.dtype)


def _norm(call, centred=False):
    x, _, rstd, weight = _normed(call, centred)
    (kernels.layer_norm if centred else kernels.rms_norm)(call.out, call.x, weight, eps=1e-6, plan=call.plan)
    _near(call.out, x * rstd * weight.astype(np.float64), 3 * exact.LOOSE[call.dtype])


def _residual(call):
    """A norm of the sum of two arrays, which is written, too."""
    centred, r = bool(call.seed % 2), np.random.default_rng(call.seed + 1).standard_normal(call.x.shape)
    r, summed, acc = r.astype(call.x.dtype), np.full_like(call.x, np.nan), _wide(call)
    total = (call.x.astype(acc) + r.astype(acc)).astype(call.x.dtype)
    x, _, rstd, weight = _normed(replace(call, x=total), centred)
    (kernels.layer_norm if centred else kernels.rms_norm)(call.out, call.x, weight, residual=r, summed=summed, eps=1e-6,
                                                          plan=call.plan)
    assert np.array_equal(summed, total), "another sum than that of both"
    _near(call.out, x * rstd * weight.astype(np.float64), 3 * exact.LOOSE[call.dtype])


def _norm_backward(call, centred=False):
    x, mean, rstd, weight = _normed(call, centred)
    dy = np.random.default_rng(call.seed + 1).standard_normal(x.shape).astype(call.x.dtype)
    share, normal = dy.astype(np.float64) * weight.astype(np.float64), x * rstd
    want = (share - normal * (share * normal).mean(-1, keepdims=True) - share.mean(-1, keepdims=True) * centred) * rstd
    dweight, told = np.full(len(weight), np.nan, weight.dtype), [t[:, 0].astype(_wide(call)) for t in (rstd, mean)]
    if centred:
        kernels.layer_norm_backward(call.out, dy, call.x, weight, *told, dweight=dweight, plan=call.plan)
    else:
        kernels.rms_norm_backward(call.out, dy, call.x, weight, told[0], dweight=dweight, plan=call.plan)
    # A single column's gradient of layer_norm is 0 by two numbers that cancel, as large as rstd.
    _near(call.out / max(1.0, rstd.max()), want / max(1.0, rstd.max()), 10 * exact.LOOSE[call.dtype])
    _near(dweight, (dy.astype(np.float64) * normal).sum(0), 3 * exact.LOOSE[call.dtype])


FUNCTIONS = {"softmax": _softmax, "log_softmax": lambda call: _softmax(call, log=True), "masked": _masked,
             "softmax_backward": _softmax_backward, "cross_entropy": _cross_entropy,
             "gradient": lambda call: _cross_entropy(call, gradient=True), "residual": _residual,
             "rms_norm": _norm, "layer_norm": lambda call: _norm(call, centred=True),
             "rms_norm_backward": _norm_backward,
             "layer_norm_backward": lambda call: _norm_backward(call, centred=True)}
