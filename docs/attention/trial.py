"""What tries a step: arrays of (heads, rows, 128) in bfloat16, the exact result, a checked run.

In: a step's ``attention(out, q, k, v, run=...)``.  Out: its report; SystemExit where the result is wrong.

    python docs/attention/step_5_wgmma.py
"""

import sys

import ml_dtypes
import numpy as np

import moye as mo

DIM = 128
"""Numbers of a head."""
NORM = 4e-3
"""What the error may be: the norm of the difference over the norm.  Results and weights are rounded to bfloat16."""


def arrays(heads, queries, keys, seed=0):
    """out, full of NaN, and random-normal q, k, v."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((heads, rows, DIM), np.float32).astype(ml_dtypes.bfloat16)
               for rows in (queries, keys, keys))
    return np.full_like(q, np.nan), q, k, v


def exact(q, k, v, causal=False):
    """softmax(q kᵀ / sqrt(128)) v in float64; causal: query i sees the keys 0 to i."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(DIM)
    if causal:
        scores[:, ~np.tri(*scores.shape[1:], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return weights / weights.sum(2, keepdims=True) @ v


def error(found, expected):
    """The norm of the difference, over the norm."""
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


def scratch(like, shape):
    """An array of float32 beside one of the user's."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, np.float32)
    return like.new_empty(shape, dtype=sys.modules["torch"].float32)


def require(arrays, rows, causal=False):
    """(heads, queries, keys); ArgumentError for what is no multiple of the tiles' ``rows`` (of queries, of keys)."""
    out, q, k, v = (tuple(x.shape) for x in arrays)
    if not (out == q and k == v and q[0] == k[0] and q[2] == k[2] == DIM):
        raise mo.ArgumentError(f"out and q, k and v are (heads, rows, {DIM}), not {out}, {q}, {k} and {v}")
    if q[1] % rows[0] or k[1] % rows[1] or (causal and q[1] != k[1]):
        raise mo.ArgumentError(f"this step takes multiples of {rows[0]} queries and of {rows[1]} keys, not {q[1]} and "
                               f"{k[1]}", hint="moye.kernels.attention takes any")
    return q[0], q[1], k[1]


def trial(attention, causal=False, shape=(2, 256, 256)):
    """Run a step under the checker on arrays of (heads, queries, keys), and say how it went."""
    out, q, k, v = arrays(*shape)
    reports = []

    def run(kernel):
        return Noted(mo.check(kernel), reports)

    attention(out, q, k, v, run=run)
    off = error(out, exact(q, k, v, causal))
    for report in reports:
        print(report.head)
    print(f"error {off:.1e} against float64")
    if not (off < NORM and all(report.ok for report in reports)):
        sys.exit("wrong")


class Noted:
    """A checked kernel whose reports are kept."""

    def __init__(self, kernel, reports):
        self.kernel, self.reports = kernel, reports

    def __getitem__(self, at):
        launch = self.kernel[at]
        return lambda *arguments: self.reports.append(launch(*arguments))
