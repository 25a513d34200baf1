"""Reductions in the checking simulator against float64: all kinds, any axes and strides, infinities, NaN, ties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import moye as mo
from drawn_arrays import CLOSE, FLOATS, clean, close, drawn, poisoned, shape_of, wide
from moye.kernels import reduce, reductions
from moye.kernels.folds import FOLDS
from moye.kernels.reductions import make_plan, rows_kernel
from moye.kernels.views import Mode

KINDS = list(FOLDS)


def exact(kind, x, axes):
    """In float64, NaN and infinities as in PyTorch."""
    x = wide(x)
    if kind.startswith("arg"):
        return getattr(x, kind)(axis=axes)
    if kind.startswith("norm"):
        return {"1": abs(x).sum(axes), "2": np.sqrt((x * x).sum(axes)), "inf": abs(x).max(axes, initial=0)}[kind[4:]]
    if kind != "logsumexp":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(x, kind)(axis=axes)
    top = x.max(axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(axes)) + np.squeeze(top, axes)


def check(kind, x, axis, out, name, keep=False):
    with clean() as reports:
        reduce(out, x, kind, axis=axis)
    axes = tuple(range(x.ndim)) if axis is None else axis
    if kind.startswith("arg"):
        expected = exact(kind, x, axis)
        assert np.array_equal(out.reshape(np.shape(expected)), expected)
    else:
        expected = np.asarray(exact(kind, x, axes))
        scale = float(np.abs(wide(x)).sum(axes).max(initial=0)) if kind in ("sum", "mean") else 0
        error = np.abs(wide(out).reshape(expected.shape) - expected)
        assert (error <= CLOSE[name] * (np.abs(expected) + 0.5 + scale * 0.1)).all(), f"{kind}: {error.max():.1e}"
    return reports


@pytest.mark.parametrize("seed", range(20))
def test_drawn(seed):
    rng = np.random.default_rng(seed)
    name, kind = list(FLOATS)[seed % 4], KINDS[seed % len(KINDS)]
    shape = shape_of(rng, most=3000)
    x = drawn(rng, shape, name)
    axes = sorted(int(i) for i in rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False))
    axis = axes[0] if kind.startswith("arg") or len(axes) == 1 else tuple(axes)
    gone = [axis] if isinstance(axis, int) else axis
    keep = bool(seed % 2)
    kept = tuple(1 if i in gone else n for i, n in enumerate(shape) if keep or i not in gone)
    out = poisoned(rng, kept, name)
    if kind.startswith("arg"):
        out = np.full(kept, -1, [np.int32, np.int64][seed // 2 % 2])
    check(kind, x, axis, out, name)


@pytest.mark.parametrize(("kind", "few"), [("sum", 64), ("norminf", 0), ("argmin", 64), ("argmin", 0),
                                           ("logsumexp", 0)])
def test_long_rows_and_columns_are_shared_by_blocks(kind, few, monkeypatch):
    """Several blocks an output, and a second kernel, in which threads or a block join; all axes at once too."""
    monkeypatch.setattr(reductions, "_FEW", few)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 34001)).astype(np.float32)
    x = np.round(x, 1) if kind.startswith("arg") else x
    dtype = np.int64 if kind.startswith("arg") else np.float32
    for array, axis in ((x, 1), (x.T, 0), (np.ascontiguousarray(x.T), 0), (x, None)):
        out = np.zeros(() if axis is None else (3,), dtype)
        assert len(check(kind, array, axis, out, "f32")) == 2


def test_blocks_and_warps_by_row():
    rng = np.random.default_rng(4)
    for columns in (1, 7, 33, 129, 1030, 4097):
        x = rng.standard_normal((19, columns)).astype(np.float32)
        check("max", x, 1, np.zeros(19, np.float32), "f32")
        check("argmin", x, 1, np.zeros(19, np.int32), "f32")


@pytest.mark.parametrize("kind", ["sum", "argmax", "argmin"])
def test_rows_that_begin_anywhere(kind):
    """Odd rows are read in vectors of 16 bytes all the same, but for their ends; infinities do not win by what is
    around."""
    rng = np.random.default_rng(6)
    x = np.round(rng.standard_normal((9, 1057)), 1).astype(FLOATS["bf16"])
    if kind != "sum":
        x[::2] = -np.inf if kind == "argmax" else np.inf
    out = np.zeros(9, np.int32 if kind != "sum" else np.float32)
    report, = check(kind, x, 1, out, "bf16")
    assert "ld.global.v4" in {line["instruction"] for line in report.counters()["lines"]}
    short = x[:, :257].copy()                           # few short rows go element by element
    report, = check(kind, short, 1, out, "bf16")
    assert "ld.global.v4" not in {line["instruction"] for line in report.counters()["lines"]}


def test_the_same_bits_in_each_run():
    x = (10.0 ** np.random.default_rng(5).integers(-8, 8, 40001)).astype(np.float32)
    results = []
    for _ in range(3):
        out = np.zeros(1, np.float32)
        reduce(out, x)
        results.append(out[0])
    assert len(set(results)) == 1


@pytest.mark.parametrize("name", ["f16", "f64"])
def test_infinities_and_nan(name):
    inf, nan = np.inf, np.nan
    rows = np.array([[1, inf, 2, 3], [-inf, -inf, -inf, -inf], [nan, 1, inf, nan], [-inf, 5, nan, 7],
                     [inf, -inf, inf, 0], [-0.0, 0.0, -0.0, 0.0]], FLOATS[name])
    with np.errstate(invalid="ignore"):
        for kind in KINDS:
            dtype = np.int32 if kind.startswith("arg") else rows.dtype
            for x, axis in ((rows, 1), (np.ascontiguousarray(rows.T), 0)):
                out = np.zeros(6, dtype)
                reduce(out, x, kind, axis=axis)
                assert np.array_equal(wide(out), wide(exact(kind, rows, 1)).astype(dtype), equal_nan=True), kind


def test_ties_take_the_lowest_index():
    x = np.zeros((50, 300), np.float32)
    x[:, 77:] = 1
    for array, axis in ((x, 1), (x.T, 0)):
        out = np.zeros(50, np.int32)
        reduce(out, array, "argmax", axis=axis)
        assert (out == 77).all()
        reduce(out, array, "argmin", axis=axis)
        assert (out == 0).all()


def test_no_elements():
    x, out = np.zeros((3, 0), np.float32), np.full(3, 9, np.float32)
    for kind, expected in (("sum", 0), ("norm2", 0), ("mean", np.nan), ("logsumexp", -np.inf)):
        reduce(out, x, kind, axis=1)
        assert np.array_equal(out, np.full(3, expected, np.float32), equal_nan=True)
    with pytest.raises(mo.ArgumentError, match=r"max of no elements: x has shape \(3, 0\)"):
        reduce(out, x, "max", axis=1)
    reduce(np.zeros(0, np.float32), x, "max", axis=0)


def test_wide_sums_of_narrow_elements():
    """float32 results of 16-bit elements are not rounded to 16 bits on the way."""
    x = np.full((2, 5000), 1.001, np.float16)
    out = np.zeros(2, np.float32)
    reduce(out, x, axis=1)
    close(out, wide(x).sum(1), "f32")


def test_what_is_refused():
    x, out = np.zeros((4, 6), np.float32), np.zeros(4, np.float32)
    for arguments, options, text in [((out, x, "median"), {}, "kind 'median' is none of sum, mean"),
                                     ((out, x), {"axis": 2}, "axis 2 is none of the 2 axes"),
                                     ((out, x), {"axis": (1, -1)}, "names an axis twice"),
                                     ((out, x), {"axis": 0}, r"out has shape \(4,\), and x without axes \(0,\)"),
                                     ((out, x, "argmax"), {"axis": 1}, "out holds float32; it may hold int32, int64"),
                                     ((out, x.astype(np.int32)), {"axis": 1}, "x holds int32")]:
        with pytest.raises(mo.ArgumentError, match=text):
            reduce(*arguments, **options)
    with pytest.raises(mo.ArgumentError, match="takes one axis or all"):
        reduce(np.zeros(4, np.int32), np.zeros((4, 5, 6), np.float32), "argmax", axis=(1, 2))


@pytest.mark.parametrize(("kind", "rows", "columns", "lanes"), [
    ("argmax", 25, 1864, 256), ("argmax", 25, 512, 16), ("argmax", 1000, 1864, 32), ("sum", 25, 1864, 256),
    ("sum", 25, 1000, 32), ("sum", 1000, 1864, 32), ("max", 132, 1032, 256), ("max", 133, 1032, 32)])
def test_few_rows_have_whole_blocks(kind, rows, columns, lanes):
    """Where a warp would ask twice or more, and no other row fills the device meanwhile."""
    x = mo.TensorLike(mo.bfloat16, (rows, columns), (columns, 1))
    plan = make_plan(FOLDS[kind], [Mode(columns, (1, 1))], [Mode(rows, (columns, 1))], x.info(), True)
    assert plan.lanes == lanes


def test_loads_are_16_bytes():
    """Four vectors on their way; no local memory."""
    x, out = mo.TensorLike(mo.bfloat16, (8192, 16384)), mo.TensorLike(mo.float32, (16384, 1))
    plan = make_plan(FOLDS["sum"], [Mode(8192, (1, 1))], [Mode(16384, (8192, 1))], x.info(), True)
    assert (plan.width, plan.lanes, plan.splits) == (8, 256, 1)
    program = rows_kernel.compile((out,), x, (1,), 8192, plan, block=256, arch="sm_90a")
    loads = [line for line in program.sass.splitlines() if " LDG" in line]
    assert len(loads) >= 4 and all(".128" in line for line in loads)
    assert program.spills == 0 and program.registers <= 64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [5, 300, 2500])
def test_exponentials_of_what_is_no_number(dtype, axis, length):
    """Infinities and NaN at drawn places, and numbers whose exponentials are beyond all others."""
    rng = np.random.default_rng(length)
    x = rng.standard_normal((8, length)).astype(dtype)
    for row, value in enumerate((-np.inf, np.inf, np.nan, 3e38, -3e38)):
        x[row, rng.integers(length)] = value
    x[5], x[6], x[7, ::2] = -np.inf, -3e38, -np.inf
    x[2, 0] = -np.inf if x[2, 0] == x[2, 0] else x[2, 0]
    wide, out = x.astype(np.float64), np.full(8, 9, dtype)
    with np.errstate(all="ignore"):
        top = wide.max(1, keepdims=True)
        base = np.where(np.isfinite(top), top, 0)
        wanted = (np.log(np.exp(wide - base).sum(1, keepdims=True)) + top)[:, 0]
    reduce(out, x if axis else np.ascontiguousarray(x.T), "logsumexp", axis=axis)
    np.testing.assert_allclose(out, wanted.astype(dtype), rtol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in FOLDS if not kind.startswith(("arg", "max", "min"))])
def test_no_elements_down_columns(kind):
    """Whether or not these are few: nothing is shared out."""
    for columns in (1, 7, 5000):
        out = np.full(columns, 7, np.float32)
        reduce(out, np.zeros((3, columns), np.float32)[:0], kind, axis=0)       # with strides, as torch's have
        expected = {"mean": np.nan, "logsumexp": -np.inf}.get(kind, 0)
        assert np.array_equal(out, np.full(columns, expected, np.float32), equal_nan=True)


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize(("shape", "axis"), [((1, 1094), 0), ((3, 1, 50), 1), ((5, 1), 1), ((1,), None)])
def test_of_one_element(kind, shape, axis):
    """A copy, of magnitudes for norms, or index 0: of NaN as well."""
    x = np.random.default_rng(9).standard_normal(shape).astype(np.float32)
    x.flat[0] = np.nan
    kept = x.reshape(() if axis is None else [n for i, n in enumerate(shape) if i != axis])
    out = np.full(kept.shape, 77, np.int64 if kind.startswith("arg") else np.float32)
    reduce(out, x, kind, axis=axis)
    expected = np.zeros_like(out) if kind.startswith("arg") else abs(kept) if kind.startswith("norm") else kept
    assert np.allclose(out, expected, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("rows, columns", [(33, 72), (384, 20), (385, 20), (236, 2176), (1000, 40), (3, 129)])
@pytest.mark.parametrize("kind", ["sum", "argmax", "logsumexp"])
def test_few_outputs_down_columns(kind, rows, columns):
    """Threads that join what was found of an output share it: of any width, and in one launch or two."""
    x = np.random.default_rng(10).standard_normal((rows, columns)).astype(np.float32)
    check(kind, x, 0, np.zeros(columns, np.int32 if kind == "argmax" else np.float32), "f32")
