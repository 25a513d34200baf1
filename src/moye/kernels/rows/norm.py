"""RMSNorm and LayerNorm by rows, with weight, bias, a residual that is added first, and 8-bit results.

In: x (..., columns) of any strides, and what goes with it.  Out: the arrays given for it, written in place.

    rms_norm(out, x, weight, residual=r, summed=h)          # h = x + r; out = h / sqrt(mean(h^2) + eps) * weight
    layer_norm(out, x, weight, bias, rstd=rstd, mean=mean)  # and what the backward pass needs

A row is read once and held in registers; docs/rows.md says how threads share it.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.rows import parts
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.plan import RowPlan

_KEPT = 16
"""Registers of a thread for weights."""
TOP = 448.0
"""The largest float8_e4m3fn."""
_LEAST = 2.0 ** -126
"""Factors below the least normal float32 count as zero: their inverse may be infinite."""


def stays(plan: RowPlan, *vectors: Any) -> bool:
    """Whether a thread keeps its parts of these vectors in registers, 64 bytes at most, from row to row."""
    words = [max(1, plan.width * t.dtype.bits // 32) for t in vectors if t is not None]
    return bool(plan.rounds * sum(words) <= _KEPT)


@mo.jit
def affine(piece, weight, bias):
    """Weights and biases of a piece, or None."""
    return (None if weight is None else parts.read(piece, weight), None if bias is None else parts.read(piece, bias))


@mo.jit
def scaled(values, gain, offset, acc):
    """values * (weight + offset) + bias."""
    weight, bias = gain
    if weight is not None:
        values = values * (weight.to(acc) + offset)
    if bias is not None:
        values = values + bias.to(acc)
    return values


@mo.jit
def load(piece, rX, rR, rS):
    """x, or the sum of x and the residual as it is rounded to ``summed``, which is written."""
    held = parts.read(piece, rX)
    if rR is not None:
        acc = mo.float64 if held.dtype == mo.float64 else mo.float32
        held = (held.to(acc) + parts.read(piece, rR).to(acc)).to(held.dtype if rS is None else rS.tensor.dtype)
        if rS is not None:
            parts.write(piece, rS, held)
    return held


@mo.jit
def optional_row(plan, where, matrix, number):
    """A row of a matrix that may be None."""
    return None if matrix is None else parts.row(plan, where, matrix, number)


@mo.jit
def statistics(plan, where, rows, n, eps, centred, room, acc):
    """(mean or None, 1 / sqrt(variance + eps)) of each of some rows that are held; without a mean of the squares."""
    means = [None for _ in rows]
    if centred:
        sums = [parts.total([held.to(acc) for held in row]) for row in rows]
        means = [total / n for total in parts.fold(plan, sums, "add", room)]
    squares = []
    for row, mean in zip(rows, means, strict=True):
        each = [held.to(acc) for held in row]
        if centred:
            each = [parts.only(piece, values - mean) for piece, values in zip(where.pieces, each, strict=True)]
        squares.append(parts.total([values * values for values in each]))
    return means, [mo.rsqrt(total / n + eps) for total in parts.fold(plan, squares, "add", room)]


@mo.kernel
def norm_kernel(out, x, weight, bias, residual, summed, rstd, mean, eps: mo.Constexpr,
                offset: mo.Constexpr, plan: mo.Constexpr, centred: mo.Constexpr):
    """out = (x - mean) * rstd * (weight + offset) + bias; ``plan.at_once`` rows are on their way together."""
    mo.min_blocks(plan.resident)
    gO, gX = parts.as_rows(out), parts.as_rows(x)                           # (rows, columns)
    gR, gS = (None if t is None else parts.as_rows(t) for t in (residual, summed))
    acc = mo.float64 if x.dtype == mo.float64 else mo.float32
    where = parts.place(plan, gX)
    n, room = where.columns, parts.scratch(plan, acc, plan.at_once)
    kept = stays(plan, weight, bias)
    gains = [affine(piece, weight, bias) for piece in where.pieces] if kept else []
    for first in mo.range(where.first, where.rows, where.step * plan.at_once):
        turns = [first + k * where.step for k in range(plan.at_once)]
        held = []
        for turn in turns:
            rX, rR, rS = (optional_row(plan, where, t, turn) for t in (gX, gR, gS))
            held.append([load(piece, rX, rR, rS) for piece in where.pieces])
        means, scales = statistics(plan, where, held, n, eps, centred, room, acc)
        for turn, row, middle, scale in zip(turns, held, means, scales, strict=True):
            rO = parts.row(plan, where, gO, turn)
            for i in mo.static_range(len(where.pieces)):
                piece, values = where.pieces[i], row[i].to(acc)
                centre = values - middle if centred else values
                gain = gains[i] if kept else affine(piece, weight, bias)
                parts.write(piece, rO, scaled(centre * scale, gain, offset, acc))
            parts.note(where, rO, turn, ((rstd, scale), (mean, middle)))


def norm(what: str, out: Any, x: Any, weight: Any, bias: Any, eps: float, offset: float, residual: Any, summed: Any,
         rstd: Any, mean: Any, plan: RowPlan | None, *, centred: bool) -> None:
    """Check the arguments, and launch."""
    given = Rows(what, x)
    arrays = [given.alike(name, t) for name, t in (("out", out), ("residual", residual), ("summed", summed))]
    if summed is not None and residual is None:
        raise mo.ArgumentError(f"{what}: summed is x + residual, and there is no residual")
    weight, bias = (given.of_columns(name, t) for name, t in (("weight", weight), ("bias", bias)))
    rstd, mean = (given.of_rows(name, t) for name, t in (("rstd", rstd), ("mean", mean)))
    if not given.rows or not given.columns:
        return
    plan = plan or given.plan(held=1 if residual is None else 2)
    grid = plan.blocks(given.rows, given.multiprocessors)
    norm_kernel.launch(arrays[0], given.matrix, weight, bias, arrays[1], arrays[2], rstd, mean, float(eps),
                       float(offset), plan, centred, grid=grid, block=plan.threads, cluster=plan.cluster)


def rms_norm(out: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-6, offset: float = 0.0,
             residual: Any = None, summed: Any = None, rstd: Any = None, plan: RowPlan | None = None) -> None:
    """out = h / sqrt(mean(h^2) + eps) * (weight + offset) + bias along the last mode, with h = x + residual."""
    norm("rms_norm", out, x, weight, bias, eps, offset, residual, summed, rstd, None, plan, centred=False)


def layer_norm(out: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, offset: float = 0.0,
               residual: Any = None, summed: Any = None, rstd: Any = None, mean: Any = None,
               plan: RowPlan | None = None) -> None:
    """out = (h - mean(h)) / sqrt(var(h) + eps) * (weight + offset) + bias by rows, with h = x + residual."""
    norm("layer_norm", out, x, weight, bias, eps, offset, residual, summed, rstd, mean, plan, centred=True)
