"""RMSNorm and LayerNorm in the simulator: against float64, clean, with poisoned outputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from cases.row_arrays import DTYPES, Layouts, drawn_shape
from moye.kernels import layer_norm, rms_norm
from moye.kernels.rows import RowPlan
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.norm_kernels import norm_kernel

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
@pytest.mark.parametrize("dtype", [np.float32, bf16])
def test_lengths(dtype, columns, centred):
    """Rows of a part of a warp, a warp, and a block; at every alignment, with edges and without."""
    rng = np.random.default_rng(columns)
    both(normal(rng, (9, columns), dtype), normal(rng, columns, dtype), normal(rng, columns, dtype),
         normal(rng, (9, columns), dtype), centred=centred)


SHIFTED = {"edges": 6, "shifted": True}
PLANS = {"a cluster": (RowPlan(4, 32, cluster=2, rounds=2, full=2), 512),
         "a cluster of blocks": (RowPlan(4, 64, cluster=4, rounds=2), 1996),
         "a cluster at any alignment": (RowPlan(4, 64, cluster=2, rounds=2, **SHIFTED), 1001),
         "by bulk copies": (RowPlan(4, 64, rounds=2, stages=4), 500),
         "by bulk copies, a row and a half": (RowPlan(4, 32, rounds=4, full=3, stages=6), 500),
         "by bulk copies, to a cluster": (RowPlan(4, 96, cluster=2, rounds=2, stages=5), 1000),
         "by bulk copies, at any alignment": (RowPlan(4, 64, cluster=2, rounds=2, stages=4, **SHIFTED), 777),
         "by bulk copies, weights beside them": (RowPlan(4, 32, cluster=2, rounds=4, stages=7, **SHIFTED), 777),
         "two at once": (RowPlan(4, 64, rounds=2, at_once=2, full=2), 512),
         "two at once, at any alignment": (RowPlan(4, 32, rounds=3, at_once=2, **SHIFTED), 301),
         "side by side, weights in no register": (RowPlan(4, 16, rows=4, rounds=12, **SHIFTED), 733),
         "edges of few lanes": (RowPlan(4, 4, rows=8, rounds=3, **SHIFTED), 45),
         "masked": (RowPlan(4, 32, rounds=3, masked=True), 301),
         "many warps": (RowPlan(1, 512, full=1), 512),
         "streamed": (RowPlan(4, 32, rounds=3, streamed=True), 384),
         "streamed by a cluster": (RowPlan(4, 64, cluster=2, rounds=2, streamed=True, **SHIFTED), 1001)}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", PLANS)
def test_plans(kind, centred, monkeypatch):
    """Every way to share a row; few multiprocessors, so that blocks take several rows."""
    monkeypatch.setattr(mo, "multiprocessors", lambda _: 4)
    monkeypatch.setattr(mo, "resident_clusters", lambda *_: 1)              # folds come round to where the first were
    plan, columns = PLANS[kind]
    rng = np.random.default_rng(columns)
    both(normal(rng, (19, columns), np.float32), normal(rng, columns, np.float32), None,
         normal(rng, (19, columns), np.float32), centred=centred, plan=plan)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("plan, columns", [
    (RowPlan(8, 64, cluster=2, stages=2), 1000), (RowPlan(8, 64, rounds=2, stages=5), 1000),
    (RowPlan(8, 32, rounds=2, cluster=2, stages=4, edges=14, shifted=True), 1001)])
def test_rows_ahead_in_place(plan, columns, residual):
    """The result over x, and the sum over the residual: nobody reads what another thread has written."""
    rng = np.random.default_rng(1)
    x, r, weight = normal(rng, (9, columns), bf16), normal(rng, (9, columns), bf16), normal(rng, columns, bf16)
    h = (x.astype(np.float32) + r.astype(np.float32)).astype(bf16) if residual else x.copy()
    want = normed(wide(h), weight, None, 1e-5, 0.0, centred=True)[0]
    run(layer_norm, x, x, weight, eps=1e-5, plan=plan, **({"residual": r, "summed": r} if residual else {}))
    close(x, want, bf16)
    assert not residual or (r == h).all()


@pytest.mark.parametrize("dtype", [np.float16, bf16, np.float32])
@pytest.mark.parametrize("kind", ["far from zero", "one huge element", "all equal"])
def test_variances_about_a_few_elements(kind, dtype):
    """What rows by bulk copies lose of a variance: next to nothing far from zero, little where a sample is huge."""
    rng, columns = np.random.default_rng(3), 2048
    x = rng.standard_normal((3, columns))
    x = {"far from zero": 100 + 0.1 * x, "all equal": np.full_like(x, 37.0),
         "one huge element": np.where(np.arange(columns) == 0, 1e4, x)}[kind].astype(dtype)
    out, rstd, width = np.full_like(x, np.nan), np.full(3, np.nan, np.float32), 16 // x.itemsize
    layer_norm(out, x, eps=1e-5, rstd=rstd, plan=RowPlan(width, 64, rounds=1024 // (64 * width), cluster=2,
                                                         stages=2048 // (64 * width)))
    want, _, scale = normed(x.astype(np.float64), None, None, 1e-5, 0.0, centred=True)
    assert np.abs(rstd / scale - 1).max() < (2e-5 if kind == "one huge element" else 4e-6)
    assert np.abs(out.astype(np.float64) - want).max() <= 1e-2 * np.abs(want).max()


@pytest.mark.parametrize("columns, dtype, wide, single", [
    (8192, mo.bfloat16, (8, 4), 0), (4096, mo.float32, (8, 4), 0), (4097, mo.bfloat16, (4, 4), 35),
    (131072, mo.bfloat16, (8, 4), 0)])
def test_compiled(columns, dtype, wide, single):
    """Loads of x and the weights and stores are 16 bytes wide but for edges; no local memory, 64 registers."""
    x, weight = mo.TensorLike(dtype, (16384, columns), (columns, 1)), mo.TensorLike(dtype, (columns,))
    plan = Rows("rms_norm", x).plan()
    program = norm_kernel.compile(x, x, weight, None, None, None, None, None, None, 1e-6, 0.0, plan, False, False,
                                  False, block=plan.threads, cluster=plan.cluster, arch="sm_90a")
    assert program.spills == 0 and program.registers <= 64 and "LDL" not in program.sass
    assert (program.sass.count("LDG.E.128"), program.sass.count("STG.E.128")) == wide
    assert program.sass.count("LDG.E.U16") + program.sass.count("STG.E.U16") == single


def drawn(seed):
    """A call with arrays of drawn layouts and dtypes, and with or without each of its options."""
    rng = np.random.default_rng(seed)
    where, dtype, centred = Layouts(drawn_shape(rng)), DTYPES[rng.integers(4)], bool(rng.integers(2))
    acc = np.float64 if dtype == np.float64 else np.float32
    x, out = where.normal(rng, dtype), where.make(rng, DTYPES[rng.integers(4)] if rng.integers(2) else dtype)
    residual, summed = where.normal(rng, dtype), where.make(rng, dtype)
    weight, bias = (Layouts(where.shape[-1:]).normal(rng, dtype) for _ in range(2))
    rstd = Layouts((*where.shape[:-1], 1)).make(rng, acc)[..., 0]
    weight, bias, residual, rstd = (t if rng.integers(4) else None for t in (weight, bias, residual, rstd))
    summed = summed if residual is not None and rng.integers(2) else None
    run(layer_norm if centred else rms_norm, out, x, weight, bias, eps=0.01, offset=1.0, residual=residual,
        summed=summed, rstd=rstd)
    h = wide(x) if residual is None else wide((x.astype(acc) + residual.astype(acc)).astype(dtype))
    want, _, scale = normed(h, weight, bias, 0.01, 1.0, centred=centred)
    close(out, want, out.dtype if BOUND[out.dtype] > BOUND[x.dtype] else x.dtype)
    if summed is not None:
        assert (wide(summed) == h).all()
    if rstd is not None:
        close(rstd, scale, acc)


@pytest.mark.parametrize("seed", range(24))
def test_drawn(seed):
    drawn(seed)


f8 = ml_dtypes.float8_e4m3fn


def quantised(want, block):
    """(results in 8 bits, factors) of results in float64, by rows or by blocks of columns."""
    columns = want.shape[-1]
    block = block or max(1, columns)
    padded = np.zeros((*want.shape[:-1], -(-columns // block) * block))
    padded[..., :columns] = want
    factor = np.abs(padded).reshape(*want.shape[:-1], -1, block).max(-1) / 448
    spread = np.repeat(factor, block, -1)[..., :columns]
    return np.divide(want, spread, where=spread > 0, out=np.zeros_like(want)), factor


STREAMED = RowPlan(8, 32, rounds=2, streamed=True)


@pytest.mark.parametrize("block", [None, 128])
@pytest.mark.parametrize("dtype, shape, plan", [
    (bf16, (5, 512), None), (np.float32, (3, 301), None), (bf16, (2, 3, 100), None), (np.float64, (3, 130), None),
    (bf16, (3, 1536), None), (np.float16, (2, 3), None), (bf16, (2, 512), STREAMED)])
def test_quantised(dtype, shape, plan, block):
    """One row is zero: its factor is, too.  Every result is at most one step of 8 bits away."""
    rng = np.random.default_rng(shape[-1])
    x, weight = normal(rng, shape, dtype), normal(rng, shape[-1], dtype)
    x[(0,) * (len(shape) - 1)] = 0
    out = np.zeros(shape, f8)
    scale = poisoned((*shape[:-1], -(-shape[-1] // block)) if block else shape[:-1], np.float32)
    run(rms_norm, out, x, weight, eps=1e-3, scale=scale, plan=plan)
    want, factor = quantised(normed(wide(x), weight, None, 1e-3, 0, centred=False)[0], block)
    assert np.allclose(scale, factor if block else factor[..., 0], rtol=2e-6)
    assert (np.abs(wide(out) - want) <= np.maximum(np.abs(want) / 16, 2.0 ** -10) * 1.0001).all()
    assert wide(out).max() == 448 or wide(out).min() == -448


def test_rows_without_a_number():
    """NaN and infinity stay in their row; a mean of huge squares is infinite, and its row zero."""
    x = np.ones((6, 200), np.float32)
    x[1, 7], x[2, 8], x[3, 9], x[4] = np.nan, np.inf, -np.inf, 3e38
    out = np.zeros_like(x)
    run(rms_norm, out, x)
    assert (out[[0, 5]] == 1 / np.sqrt(np.float32(1 + 1e-6))).all()
    assert np.isnan(out[1]).all() and np.isnan(out[2, 8]) and np.isnan(out[3, 9])
    assert (np.delete(out[2], 8) == 0).all() and (out[4] == 0).all()
    run(layer_norm, out, x)
    assert np.isnan(out[1:4]).all() and (out[[0, 5]] == 0).all()


def test_in_place_and_repeated():
    """The sum may take the place of the residual, and the result that of x; the third call is a repeated one."""
    rng = np.random.default_rng(0)
    for plan in (None, RowPlan(4, 32, rounds=2, streamed=True)):
        for _ in range(4):
            x, residual = (normal(rng, (7, 256), np.float32) for _ in range(2))
            h = wide(x + residual)
            rms_norm(x, x, residual=residual, summed=residual, plan=plan)
            close(residual, h, np.float32)
            close(x, normed(h, None, None, 1e-6, 0, centred=False)[0], np.float32)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (3, 0, 8), (0,)])
def test_nothing_to_do(shape):
    x = np.zeros(shape, np.float32)
    assert run(rms_norm, x, x) == 0


X = np.zeros((4, 8), np.float32)
REFUSED = {
    "rms_norm: x is a list, and no array": lambda: rms_norm(X, [1.0]),
    "rms_norm: x holds int32; it may hold bfloat16, float16, float32, float64":
        lambda: rms_norm(X, X.astype(np.int32)),
    "rms_norm: x is a single number, and must have rows": lambda: rms_norm(X, np.zeros((), np.float32)),
    "layer_norm: out has shape (4, 7), and must have (4, 8), as x has (4, 8)": lambda: layer_norm(X[:, 1:], X),
    "rms_norm: weight has shape (4,), and must have (8,), as x has (4, 8)": lambda: rms_norm(X, X, X[:, 0]),
    "rms_norm: rstd has shape (8,), and must have (4,), as x has (4, 8)": lambda: rms_norm(X, X, rstd=X[0]),
    "rms_norm: summed is x + residual, and there is no residual": lambda: rms_norm(X, X, summed=X),
    "rms_norm: scale is for results of float8_e4m3fn, and out holds float32": lambda: rms_norm(X, X, scale=X),
    "rms_norm: scale has shape (4, 8), and must have (4, 1), as x has (4, 8)":
        lambda: rms_norm(X.astype(f8), X, scale=X),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refused(sentence):
    with pytest.raises(mo.ArgumentError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence
