"""RMSNorm and LayerNorm by rows, with weight, bias, a residual that is added first, and 8-bit results.

In: x (..., columns) of any strides, and what goes with it.  Out: the arrays given for it, written in place.

    rms_norm(out, x, weight, residual=r, summed=h)          # h = x + r; out = h / sqrt(mean(h^2) + eps) * weight
    layer_norm(out, x, weight, bias, rstd=rstd, mean=mean)  # and what the backward pass needs

A row is read from memory once, and held in registers or shared memory; docs/rows.md says how threads share it.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.options import real
from moye.kernels.rows.arrays import Rows, beside, in_memory
from moye.kernels.rows.norm_ahead import norm_staged_kernel
from moye.kernels.rows.norm_kernels import BLOCK, norm_kernel, norm_streamed_kernel
from moye.kernels.rows.plan import RowPlan
from moye.kernels.views import FLOATS, described, info_of

RESULTS = (*FLOATS, mo.float8_e4m3fn)


def norm(what: str, out: Any, x: Any, weight: Any, bias: Any, eps: float, offset: float, residual: Any, summed: Any,
         rstd: Any, mean: Any, scale: Any, plan: RowPlan | None, *, centred: bool) -> None:
    """Check the arguments, and launch."""
    given = Rows(what, x)
    arrays = [given.alike(name, t, dtypes, needed=name == "out") for name, t, dtypes in
              (("out", out, RESULTS), ("residual", residual, FLOATS), ("summed", summed, FLOATS))]
    if summed is not None and residual is None:
        raise mo.ArgumentError(f"{what}: summed is x + residual, and there is no residual")
    weight, bias = (given.of_columns(name, t) for name, t in (("weight", weight), ("bias", bias)))
    rstd, mean = (given.of_rows(name, t) for name, t in (("rstd", rstd), ("mean", mean)))
    eps, offset = real(what, "eps", eps, 0.0), real(what, "offset", offset)
    plan = given.checked(plan, residual)
    factor, by_row = _factor(given, out, scale)
    in_memory(what, {"out": out, "summed": summed, "rstd": rstd, "mean": mean, "scale": scale},
              {"x": x, "residual": residual, "weight": weight, "bias": bias}, in_place=("x", "residual"))
    if not given.rows or not given.columns:
        return
    if plan is None:
        block = None if scale is None or by_row else BLOCK
        plan = given.plan(held=1 if residual is None else 2, block=block, ahead=2 * given.bulky(residual))
        simple = not centred and residual is None and scale is None and given.info.dtype.bits <= 32
        plan = plan.crowded if simple and not plan.stages else plan
    plan, near = beside(plan, given.info.dtype, 1 + (residual is not None), weight, bias)
    # Clusters, and blocks that have several rows or weights shifted in their registers, take several in turn; others
    # are dealt out by the device.
    turns = plan.warps == 1 or plan.cluster > 1 or plan.shifted or plan.stages
    kernel, more = norm_streamed_kernel if plan.streamed else norm_kernel, list[Any]()
    if plan.stages:
        kernel, more = norm_staged_kernel, [_meet(what, (out, summed), (x, residual))]
    kernel.launch(arrays[0], given.matrix, weight, bias, arrays[1], arrays[2], rstd, mean, factor, eps,
                  offset, plan, centred, by_row, near, *more, grid=given.grid(plan) if turns else given.rows,
                  block=plan.threads, cluster=plan.cluster)


def _meet(what: str, written: tuple[Any, ...], read: tuple[Any, ...]) -> bool:
    """Whether one of the arrays that are written (or None) lies where one is that is read."""
    there, here = ([info_of(what, "out", x) for x in arrays if x is not None] for arrays in (written, read))
    return any(a.ptr == b.ptr and "spec" not in (a.kind, b.kind) for a in there for b in here)


def _factor(given: Rows, out: Any, scale: Any) -> tuple[Any, bool]:
    """The array of factors, merged, and whether it has one a row."""
    if scale is None:
        return None, False
    kind = described(given.what, "out", out, RESULTS).dtype
    if kind != mo.float8_e4m3fn:
        raise mo.ArgumentError(f"{given.what}: scale is for results of float8_e4m3fn, and out holds {kind}")
    info = info_of(given.what, "scale", scale)
    if info is not None and len(info.shape) == len(given.info.shape) - 1:
        return given.of_rows("scale", scale, (mo.float32,)), True
    return given.of_blocks("scale", scale, BLOCK), False


@mo.replayed
def rms_norm(out: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-6, offset: float = 0.0,
             residual: Any = None, summed: Any = None, rstd: Any = None, scale: Any = None,
             plan: RowPlan | None = None) -> None:
    """out = h / sqrt(mean(h^2) + eps) * (weight + offset) + bias along the last mode, with h = x + residual.

    ``weight`` and ``bias`` are (columns); all other arrays have the shape of ``x`` (..., columns) and any strides.
    ``residual`` is added first; the sum, rounded to the dtype of ``summed`` (or of x), is written there and normed.
    ``rstd`` (...) takes 1 / sqrt(...), for the backward pass.  ``offset`` is added to the weight (1 where weights are
    stored less one).  float32, bfloat16, float16 or float64; sums are float32, of float64 float64.

    ``out`` may hold float8_e4m3fn.  With ``scale``, float32 of shape (...) or (..., ceil(columns / 128)), it holds the
    result divided by its row's factor, or that of 128 columns: the largest magnitude / 448, which is written to
    ``scale``; 0 where all are zero.  Without rows or columns nothing is launched.  ArgumentError for arrays that do not
    fit.
    """
    norm("rms_norm", out, x, weight, bias, eps, offset, residual, summed, rstd, None, scale, plan, centred=False)


@mo.replayed
def layer_norm(out: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, offset: float = 0.0,
               residual: Any = None, summed: Any = None, rstd: Any = None, mean: Any = None, scale: Any = None,
               plan: RowPlan | None = None) -> None:
    """out = (h - mean(h)) / sqrt(var(h) + eps) * (weight + offset) + bias along the last mode, with h = x + residual.

    The variance is that of all numbers (divided by the columns), summed around the mean.  ``mean`` (...) takes the
    means; all else is as in ``rms_norm``.
    """
    norm("layer_norm", out, x, weight, bias, eps, offset, residual, summed, rstd, mean, scale, plan, centred=True)
