"""Gradients of RMSNorm and LayerNorm in the simulator: against float64, clean, into poison, the same bits again."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from cases.row_arrays import DTYPES, Layouts, drawn_shape
from moye.kernels import layer_norm_backward, rms_norm_backward
from moye.kernels.rows import RowPlan
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.norm_backward import norm_backward_kernel, norm_backward_staged_kernel
from moye.runtime.prepare import compile_only

bf16 = ml_dtypes.bfloat16
BOUND = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 2e-6, np.dtype(np.float16): 2e-3, np.dtype(bf16): 1e-2}


def wide(x):
    return np.asarray(x).astype(np.float64)


def close(found, want):
    assert np.abs(wide(found) - want).max() <= BOUND[found.dtype] * max(1, np.abs(want).max())


def backward(rng, where, dtype, *, centred, plan=None, wanted=(True, True), weighted=True, summed=True, kind=None):
    """One call with all checks on, each gradient compared; gives the gradients."""
    columns, acc = Layouts(where.shape[-1:]), np.float64 if dtype == np.float64 else np.float32
    x, dout, dsummed = (where.normal(rng, dtype, kind) for _ in range(3))
    weight, dx = columns.normal(rng, dtype), where.make(rng, dtype, kind)
    dweight, dbias = (columns.make(rng, dtype) if want else None for want in wanted)
    h = wide(x)
    mean = h.mean(-1, keepdims=True) if centred else np.zeros_like(h[..., :1])
    rstd = 1 / np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + 0.01)
    statistics = [t[..., 0].astype(acc) for t in ((rstd, mean) if centred else (rstd,))]
    with mo.checking() as reports:
        (layer_norm_backward if centred else rms_norm_backward)(
            dx, dout, x, weight if weighted else None, *statistics, dweight=dweight, dbias=dbias,
            dsummed=dsummed if summed else None, offset=0.5, plan=plan)
    for report in reports:
        assert report.ok, report
    hat, g = (h - mean) * rstd, wide(dout)
    inner = g * (wide(weight) + 0.5) if weighted else g
    across = inner.mean(-1, keepdims=True) if centred else 0
    want = rstd * (inner - across - hat * (inner * hat).mean(-1, keepdims=True))
    close(dx, want + wide(dsummed) if summed else want)
    rows = tuple(range(h.ndim - 1))
    for found, wanted_sum in ((dweight, (g * hat).sum(rows)), (dbias, g.sum(rows))):
        if found is not None:
            close(found, wanted_sum)
    return [t for t in (dx, dweight, dbias) if t is not None]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("columns", [1, 37, 520, 1101])
@pytest.mark.parametrize("dtype", [np.float32, bf16])
def test_lengths(dtype, columns, centred):
    backward(np.random.default_rng(columns), Layouts((9, columns)), dtype, centred=centred, kind="C")


@pytest.mark.parametrize(("rows", "columns", "dtype", "launches"), [
    (1, 4, np.float32, 1), (1, 70001, np.float32, 1), (1, 70000, bf16, 1), (9, 64, np.float32, 1),
    (26, 56, bf16, 1), (32, 64, np.float32, 1),
    (33, 64, np.float32, 2), (2, 616, bf16, 2), (12, 6399, bf16, 2), (12, 8192, bf16, 2), (3, 4095, np.float32, 2)])
def test_few_rows(rows, columns, dtype, launches):
    """A block that has all rows writes what is left, in the weight's dtype; blocks with one each leave it to others."""
    kind = mo.float32 if dtype == np.float32 else mo.bfloat16
    x = mo.TensorLike(kind, (rows, columns), (columns, 1))
    weight, number = mo.TensorLike(kind, (columns,), (1,)), mo.TensorLike(mo.float32, (rows,), (1,))
    with compile_only("sm_90a", trace_only=True) as made:
        layer_norm_backward(x, x, x, weight, number, number, dweight=weight, dbias=weight)
    assert len(made.jobs) == launches
    if columns < 10000 or dtype == np.float32:
        backward(np.random.default_rng(rows), Layouts((rows, columns)), dtype, centred=True, kind="C")


SHIFTED = {"edges": 6, "shifted": True}
PLANS = {"a cluster": (RowPlan(4, 64, cluster=2, rounds=2, **SHIFTED), (19, 777)),
         "a warp": (RowPlan(4, 32, rounds=2, full=2), (33, 256)),
         "by bulk copies": (RowPlan(4, 64, rounds=2, full=1, stages=6), (37, 500)),
         "by bulk copies, a row and a half": (RowPlan(4, 32, rounds=4, full=3, stages=6), (37, 500)),
         "by bulk copies, to a cluster": (RowPlan(4, 64, cluster=2, rounds=2, stages=5), (19, 1000)),
         "by bulk copies, at any alignment": (RowPlan(4, 64, cluster=2, rounds=2, stages=4, **SHIFTED), (19, 777)),
         "by bulk copies, a row at any alignment": (RowPlan(4, 64, rounds=3, stages=3, **SHIFTED), (19, 701)),
         "by bulk copies, all whole": (RowPlan(4, 64, rounds=1, full=1, stages=2), (21, 256)),
         "side by side": (RowPlan(4, 4, rows=8, rounds=3, **SHIFTED), (100, 45)),
         "streamed": (RowPlan(4, 64, cluster=2, rounds=2, streamed=True, **SHIFTED), (70, 777))}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", PLANS)
def test_plans(kind, centred, monkeypatch):
    """Every way to share a row, with blocks that take several; and twice the same bits."""
    monkeypatch.setattr(mo, "multiprocessors", lambda _: 4)
    monkeypatch.setattr(mo, "resident_clusters", lambda *_: 1)              # folds come round to where the first were
    plan, shape = PLANS[kind]
    found, again = (backward(np.random.default_rng(1), Layouts(shape), np.float32, centred=centred, plan=plan, kind="C")
                    for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(found, again, strict=True))


@pytest.mark.parametrize("columns", [1024, 4096, 8192, 65536])
def test_compiled(columns):
    """Four loads and a store of 16 bytes a vector, two of them ahead, or from shared memory; no local memory."""
    x, weight = mo.TensorLike(mo.bfloat16, (16384, columns), (columns, 1)), mo.TensorLike(mo.bfloat16, (columns,))
    rstd, plan = mo.TensorLike(mo.float32, (16384,)), Rows("", x).plan(held=2, sums=1, ahead=1)
    partial = mo.TensorLike(mo.float32, (columns, 132, 1))
    kernel, more = (norm_backward_staged_kernel, [False]) if plan.stages else (norm_backward_kernel, [])
    program = kernel.compile(x, x, x, weight, rstd, None, None, partial, 0.0, plan, (True, False), *more,
                             block=plan.threads, cluster=plan.cluster, arch="sm_90a")
    assert program.spills == 0 and program.registers <= 128 and "LDL" not in program.sass
    loads = {name: program.sass.count(name) // plan.rounds for name in ("LDG.E.128", "LDS.128", "UBLKCP")}
    if plan.stages:
        assert loads["LDG.E.128"] == 1 and loads["LDS.128"] >= 4 and loads["UBLKCP"]    # the weights; x and dout, twice
    else:
        assert loads["LDG.E.128"] == 5 and not loads["UBLKCP"]          # x and dout, first and ahead; the weights
    assert program.sass.count("STG.E.128") == 3 * plan.rounds          # dx; the sums, two a vector


@pytest.mark.parametrize("columns", [513, 4097, 7168, 8192, 65537])
def test_nothing_spills_with_all_gradients(columns):
    """Both sums, a gradient of the sum itself; rows of whole vectors, and rows that begin anywhere."""
    x, rows = mo.TensorLike(mo.bfloat16, (16384, columns), (columns, 1)), mo.TensorLike(mo.float32, (16384,))
    w = mo.TensorLike(mo.bfloat16, (columns,))
    with compile_only("sm_90a") as compiled:
        layer_norm_backward(x, x, x, w, rows, rows, dweight=w, dbias=w, dsummed=x)
    assert [program.spills for program in compiled.programs] == [0, 0]


@pytest.mark.parametrize("columns", [125260, 125261, 131072, 262144])
def test_long_rows_do_not_spill(columns):
    x, rows = mo.TensorLike(mo.bfloat16, (400, columns), (columns, 1)), mo.TensorLike(mo.float32, (400,))
    w = mo.TensorLike(mo.bfloat16, (columns,))
    with compile_only("sm_90a") as compiled:
        layer_norm_backward(x, x, x, w, rows, rows, dweight=w, dbias=w)
    assert [program.spills for program in compiled.programs] == [0, 0] + [0] * (columns > 131072)


@pytest.mark.parametrize("columns, dtype", [(25000, mo.bfloat16), (65537, mo.bfloat16), (131072, mo.bfloat16),
                                            (46303, mo.float32), (65536, mo.float32)])
def test_long_rows_keep_their_sums(columns, dtype):
    """One launch for all gradients of a row, whose sums a cluster keeps in its registers, and one that folds them."""
    x, rows = mo.TensorLike(dtype, (2000, columns), (columns, 1)), mo.TensorLike(mo.float32, (2000,))
    w = mo.TensorLike(dtype, (columns,))
    with compile_only("sm_90a") as compiled:
        rms_norm_backward(x, x, x, w, rows, dweight=w)
    first, second = compiled.programs
    assert "norm_backward_staged" in first.source and "fold_partial" in second.source
    assert first.spills == second.spills == 0 and first.registers <= 128


ALONE = {"whole": (RowPlan(4, 64, cluster=2, rounds=2, full=2), (9, 1024)),
         "begin anywhere": (RowPlan(4, 64, cluster=2, rounds=2, **SHIFTED), (17, 777)),
         "a part": (RowPlan(4, 96, cluster=2, rounds=3, full=1), (7, 1000)),
         "too many": (RowPlan(4, 32, cluster=2, rounds=5), (7, 1100))}


@pytest.mark.parametrize("place", ["", "dout", "x", "dsummed"])
@pytest.mark.parametrize("kind", ALONE)
def test_rows_too_long_for_sums(kind, place, monkeypatch):
    """Sums over rows apart, and then dx from one read, or from two of what is more than a thread holds."""
    plan, shape = ALONE[kind]
    monkeypatch.setattr(Rows, "plan", lambda self, *, held, sums=0, **_: replace(plan, streamed=sums > 0))
    monkeypatch.setattr(mo, "multiprocessors", lambda _: 2)
    rng = np.random.default_rng(0)
    numbers = dict(zip(("dout", "x", "dsummed"), rng.standard_normal((3, *shape)).astype(np.float32), strict=True))
    dx = numbers[place] if place else np.full(shape, np.nan, np.float32)
    dout, x, dsummed = (numbers[name].astype(np.float64) for name in ("dout", "x", "dsummed"))
    weight, rstd = rng.standard_normal((2, shape[1])).astype(np.float32)[0], np.full(shape[0], 0.5, np.float32)
    found = np.full((2, shape[1]), np.nan, np.float32)
    with mo.checking() as reports:
        rms_norm_backward(dx, numbers["dout"], numbers["x"], weight, rstd, dweight=found[0], dbias=found[1],
                          dsummed=numbers["dsummed"])
    assert all(report.ok for report in reports), next(str(report) for report in reports if not report.ok)
    inner = dout * weight
    close(dx, 0.5 * (inner - 0.5 * x * (inner * 0.5 * x).mean(-1, keepdims=True)) + dsummed)
    close(found, np.stack([(dout * 0.5 * x).sum(0), dout.sum(0)]))


def drawn(seed):
    """A call with arrays of drawn layouts and dtypes, and with or without each of its options."""
    rng = np.random.default_rng(seed)
    where, dtype = Layouts(drawn_shape(rng)), DTYPES[rng.integers(4)]
    backward(rng, where, dtype, centred=bool(rng.integers(2)), wanted=(rng.integers(2) > 0, rng.integers(2) > 0),
             weighted=bool(rng.integers(4)), summed=bool(rng.integers(2)))


@pytest.mark.parametrize("seed", range(12))
def test_drawn(seed):
    drawn(seed)


@pytest.mark.parametrize("place", ["dout", "x", "dsummed"])
def test_streamed_in_place(place):
    """The sums over rows are of what dx takes the place of."""
    plan, shape = PLANS["streamed"][0], (5, 777)
    numbers = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    rstd, results = np.full(5, 0.5, np.float32), []
    for dx in (np.empty(shape, np.float32), None):
        given = dict(zip(("dout", "x", "dsummed"), numbers.copy(), strict=True))
        sums = np.empty((2, 777), np.float32)
        dx = given[place] if dx is None else dx
        rms_norm_backward(dx, given["dout"], given["x"], None, rstd, dweight=sums[0], dbias=sums[1],
                          dsummed=given["dsummed"], plan=plan)
        results.append((dx, sums))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_no_rows():
    """Sums of nothing are zero."""
    x, rstd, dweight = np.zeros((0, 40), np.float32), np.zeros(0, np.float32), np.full(40, np.nan, np.float32)
    rms_norm_backward(x, x, x, None, rstd, dweight=dweight)
    assert (dweight == 0).all()


def test_in_place_and_repeated():
    """dx takes the place of dout; the third call is a repeated one."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        x, dout = (rng.standard_normal((5, 64)).astype(np.float32) for _ in range(2))
        rstd, dweight = np.ones(5, np.float32), np.full(64, np.nan, np.float32)
        want = dout - x * (x * dout).mean(1, keepdims=True)
        sums = (dout * x).sum(0)
        rms_norm_backward(dout, dout, x, None, rstd, dweight=dweight)
        assert np.allclose(dout, want, atol=1e-5) and np.allclose(dweight, sums, atol=1e-5)


def test_refused():
    x, rstd = np.zeros((4, 8), np.float32), np.zeros(4, np.float32)
    with pytest.raises(mo.ArgumentError, match="rstd holds float64; it may hold float32"):
        rms_norm_backward(x, x, x, None, rstd.astype(np.float64))
    with pytest.raises(mo.ArgumentError, match=r"rms_norm_backward: dweight has shape \(4,\), and must have \(8,\)"):
        rms_norm_backward(x, x, x, None, rstd, dweight=rstd)
    with pytest.raises(mo.ArgumentError, match="layer_norm_backward: mean is a NoneType, and no array"):
        layer_norm_backward(x, x, x, None, rstd, None)


@pytest.mark.parametrize("slots", [1, 8, 32])
def test_sums_of_blocks_are_folded(slots, monkeypatch):
    """By a thread for each column, or several below each other, of which some have nothing."""
    monkeypatch.setattr("moye.kernels.rows.norm_backward._SLOTS", ((1 << 30, slots),))
    for rows, columns in ((5, 300), (40, 33)):
        backward(np.random.default_rng(slots), Layouts((rows, columns)), np.float32, centred=True)
