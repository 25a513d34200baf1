"""RMSNorm and LayerNorm in the simulator: against float64, clean, with poisoned outputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import layer_norm, rms_norm
from moye.kernels.rows import RowPlan

bf16 = ml_dtypes.bfloat16
BOUND = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-6, np.dtype(np.float16): 1e-3, np.dtype(bf16): 8e-3}


def poisoned(shape, dtype):
    return np.full(shape, np.nan, dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def normed(h, weight, bias, eps, offset, *, centred):
    """(out, mean, rstd) in float64."""
    mean = h.mean(-1, keepdims=True) if centred else np.zeros_like(h[..., :1])
    rstd = 1 / np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + eps)
    out = (h - mean) * rstd
    out = out if weight is None else out * (wide(weight) + offset)
    return out if bias is None else out + wide(bias), mean[..., 0], rstd[..., 0]


def close(found, want, dtype):
    bound = BOUND[np.dtype(dtype)]
    assert np.abs(wide(found) - want).max() <= bound * max(1, np.abs(want).max())


def run(function, out, *arrays, **options):
    """Call a function of rows with all checks on."""
    with mo.checking() as checked:
        function(out, *arrays, **options)
    for report in checked:
        assert report.ok, report
    return len(checked)


def both(x, weight=None, bias=None, residual=None, *, centred, plan=None, offset=0.0, eps=1e-3):
    """Every output, compared."""
    acc = np.float64 if x.dtype == np.float64 else np.float32
    out, summed = poisoned(x.shape, x.dtype), None if residual is None else poisoned(x.shape, x.dtype)
    rstd, mean = poisoned(x.shape[:-1], acc), poisoned(x.shape[:-1], acc)
    more = {"mean": mean} if centred else {}
    launches = run(layer_norm if centred else rms_norm, out, x, weight, bias, eps=eps, offset=offset,
                   residual=residual, summed=summed, rstd=rstd, plan=plan, **more)
    assert launches == 1
    h = wide(x) if residual is None else wide((x.astype(acc) + residual.astype(acc)).astype(x.dtype))
    if residual is not None:
        assert (wide(summed) == h).all()
    want, middle, scale = normed(h, weight, bias, eps, offset, centred=centred)
    close(out, want, x.dtype)
    close(rstd, scale, acc)
    if centred:
        close(mean, middle, acc)


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("columns", [1, 37, 64, 520, 1101])
@pytest.mark.parametrize("dtype", [np.float32, bf16, np.float64])
def test_lengths(dtype, columns, centred):
    """Rows of a part of a warp, a warp, and a block; at every alignment, with edges and without."""
    rng = np.random.default_rng(columns)
    both(normal(rng, (9, columns), dtype), normal(rng, columns, dtype), normal(rng, columns, dtype),
         normal(rng, (9, columns), dtype), centred=centred)


PLANS = {"a cluster": (RowPlan(4, 32, cluster=2, rounds=2, full=2), 512),
         "a cluster of blocks": (RowPlan(4, 64, cluster=4, rounds=2), 1996),
         "a cluster at any alignment": (RowPlan(4, 64, cluster=2, rounds=2, edges=6, shifted=True), 1001),
         "two at once": (RowPlan(4, 64, rounds=2, at_once=2, full=2), 512),
         "two at once, at any alignment": (RowPlan(4, 32, rounds=3, at_once=2, edges=6, shifted=True), 301),
         "edges of few lanes": (RowPlan(4, 4, rows=8, rounds=3, edges=6, shifted=True), 45),
         "masked": (RowPlan(4, 32, rounds=3, masked=True), 301),
         "many warps": (RowPlan(1, 512, full=1, rounds=1), 512)}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", PLANS)
def test_plans(kind, centred, monkeypatch):
    """Every way to share a row; a device of two multiprocessors, so that blocks take several rows."""
    monkeypatch.setattr(mo, "multiprocessors", lambda _: 4)
    plan, columns = PLANS[kind]
    rng = np.random.default_rng(columns)
    both(normal(rng, (19, columns), np.float32), normal(rng, columns, np.float32), None,
         normal(rng, (19, columns), np.float32), centred=centred, plan=plan)
