"""Softmax of rows against float64: drawn shapes, strides and masks; long rows; what is refused; the machine code."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import probabilities as exact
from moye.kernels import log_softmax, log_softmax_backward, softmax, softmax_backward
from moye.kernels.rows import softmax as rows_softmax
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.plan import RowPlan
from moye.kernels.rows.views import plan_of


@pytest.mark.parametrize("seed", range(20))
def test_drawn(seed):
    exact.compare_softmax(*exact.softmax_problem(seed))


def problem(rows, columns, dtype=np.float32):
    rng = np.random.default_rng(columns)
    return tuple(rng.standard_normal((rows, columns)).astype(dtype) for _ in range(2))


@pytest.mark.parametrize("columns, dtype", [(40000, np.float32), (70001, ml_dtypes.bfloat16)])
def test_long_rows_are_spread_over_a_cluster(columns, dtype):
    x, dy = problem(2, columns, dtype)
    assert plan_of(Rows("softmax", x)).cluster > 1
    with mo.checking() as reports:
        exact.compare_softmax("f32" if dtype == np.float32 else "bf16", x, dy, {"scale": 0.5, "axis": -1}, False)
    assert len(reports) == 2 and all(report.ok for report in reports), reports


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("columns, dtype, plan", [
    (1000, ml_dtypes.bfloat16, RowPlan(8, 32, rounds=2, cluster=2, stages=4)),
    (1001, ml_dtypes.bfloat16, RowPlan(8, 64, rounds=1, cluster=2, stages=3, edges=14, shifted=True)),
    (2048, ml_dtypes.bfloat16, RowPlan(8, 64, rounds=2, cluster=2, full=2, stages=5)),
    (700, np.float32, RowPlan(4, 64, rounds=3, stages=6)), (512, np.float64, RowPlan(2, 128, cluster=4, stages=3)),
    (1030, np.float64, RowPlan(2, 96, rounds=6, stages=7))])
def test_rows_by_bulk_copies(columns, dtype, plan, log):
    """Several rows ahead, also in place; a NaN, infinities, and a row of which nothing counts."""
    x = problem(21, columns, dtype)[0]
    x[1, 7], x[2, columns - 1], x[3, :columns // 2], x[4] = np.nan, np.inf, -np.inf, -np.inf
    want, out = exact.softmax(x, scale=0.7, log=log), np.full_like(x, 7)
    with mo.checking() as reports:
        (log_softmax if log else softmax)(out, x, scale=0.7, plan=plan)
        (log_softmax if log else softmax)(x, x, scale=0.7, plan=plan)
    assert len(reports) == 2 and all(report.ok for report in reports), reports
    assert np.array_equal(out.view(np.uint8), x.view(np.uint8))
    sane = [0, *range(4, 21)]
    assert exact.largest_error(out[sane], want[sane]) < (2e-2 if dtype == ml_dtypes.bfloat16 else 2e-6)
    assert np.isnan(out[1:3].astype(np.float64)).all() and (out[3, :columns // 2] == (-np.inf if log else 0)).all()


def test_many_long_rows_come_by_bulk_copies():
    """A block of a cluster has a part of 64 KB, and two more of them on their way; nothing spills."""
    for dtype, columns, cluster in ((mo.bfloat16, 131072, 4), (mo.bfloat16, 128256, 4), (mo.bfloat16, 65536, 2),
                                    (mo.float32, 131072, 8)):
        x = mo.TensorLike(dtype, (4096, columns), (columns, 1))
        plan = plan_of(Rows("softmax", x), ahead=1)
        assert (plan.cluster, plan.lanes, plan.stages, plan.resident) == (cluster, 1024, 3 * plan.rounds, 1)
        assert plan_of(Rows("softmax", replace(x, shape=(16, columns))), ahead=1).stages == 0
        for log in (False, True):
            program = rows_softmax.softmax_staged_kernel.compile(x, x, 1.0, plan, log, block=plan.threads,
                                                                 cluster=plan.cluster, arch="sm_90a")
            assert program.spills == 0 and program.registers <= 64


def streamed(given, held=1, ahead=0):
    """A plan of two blocks of 64 threads, as rows have that no cluster can hold."""
    n, width = given.columns, 128 // given.info.dtype.bits
    shifted = n % width != 0
    edges = 2 * (width - 1) if shifted else 0
    return RowPlan(width, 64, 1, -(-n // (width * 128)), 2, 0, edges, shifted, streamed=True)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("columns, dtype", [(3000, np.float32), (2501, np.float16)])
def test_streamed_rows(columns, dtype, log, monkeypatch):
    """Rows that are read again, with a mask that leaves nothing of one of them."""
    monkeypatch.setattr(rows_softmax, "plan_of", streamed)
    x, dy = problem(4, columns, dtype)
    mask = np.random.default_rng(0).random(x.shape) < 0.7
    mask[2] = False
    with mo.checking() as reports:
        kind = "f32" if dtype == np.float32 else "f16"
        exact.compare_softmax(kind, x, dy, {"scale": 0.7, "axis": -1}, log, anywhere=False)
        out = np.full_like(x, np.nan)
        (log_softmax if log else softmax)(out, x, mask=mask, causal=columns - 3)
    assert exact.largest_error(out, exact.softmax(x, mask=mask, causal=columns - 3, log=log)) < 1e-3
    assert len(reports) == 3 and all(report.ok for report in reports), reports


@pytest.mark.parametrize("columns", [5, 96, 1030])
def test_in_place_and_clean(columns):
    x, dy = problem(9, columns)
    want = exact.softmax(x)
    with mo.checking() as reports:
        softmax(x, x)
        softmax_backward(dy, dy, x)
    assert exact.largest_error(x, want) < 1e-6
    assert len(reports) == 2 and all(report.ok for report in reports), reports


def test_a_row_of_which_nothing_counts():
    """It is 0, its logarithm -inf; both gradients are 0."""
    x, dy = problem(3, 40)
    mask = np.array([[True], [False], [True]])
    out, dx = np.full_like(x, np.nan), np.full_like(x, np.nan)
    for forward, backward, nothing in ((softmax, softmax_backward, 0), (log_softmax, log_softmax_backward, -np.inf)):
        forward(out, x, mask=mask)
        backward(dx, dy, out)
        assert (out[1] == nothing).all() and (dx[1] == 0).all() and np.isfinite(out[[0, 2]]).all()


def test_nan_and_infinities():
    """A NaN or +inf makes its row NaN, and no other; -inf counts for nothing."""
    x, _ = problem(5, 300)
    x[1, 7], x[2, 299], x[3, :200] = np.nan, np.inf, -np.inf
    out = np.full_like(x, 2)
    softmax(out, x)
    assert np.isnan(out[1:3]).all() and exact.largest_error(out[[0, 3, 4]], exact.softmax(x[[0, 3, 4]])) < 1e-6


def test_large_scores_keep_their_digits():
    x = np.float32(1e4) + problem(2, 1000)[0]
    out = np.zeros_like(x)
    softmax(out, x)
    assert exact.largest_error(out, exact.softmax(x)) < 2e-6
    log_softmax(out, x)
    assert exact.largest_error(out, exact.softmax(x, log=True)) < 1e-6


def test_no_rows_and_no_columns():
    for shape in ((0, 8), (3, 0), (0,)):
        softmax(np.zeros(shape, np.float32), np.zeros(shape, np.float32))


x8 = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize("call, words", [
    (lambda: softmax(np.zeros((4, 7), np.float32), x8), "out has shape (4, 7), and must have (4, 8), as x has (4, 8)"),
    (lambda: softmax(x8, [1.0]), "x is a list, and no array"),
    (lambda: softmax(x8, np.zeros((4, 8), np.int32)), "x holds int32; it may hold bfloat16, float16"),
    (lambda: softmax(x8, x8, axis=2), "axis=2 is none of the 2 modes of x"),
    (lambda: softmax(x8, x8, scale=-1.0), "scale=-1.0, and must be a number above 0"),
    (lambda: softmax(x8, x8, mask=np.ones(7, bool)), "mask has shape (7,), which is not repeated to (4, 8)"),
    (lambda: softmax(x8, x8, mask=np.ones(8, np.int32)), "mask holds int32; it may hold bool"),
    (lambda: softmax(x8, x8, axis=0, causal=0), "needs a mode of queries before the last"),
    (lambda: softmax(x8[1:], x8[:3]), "out shares memory with x, which is read while out is written"),
    (lambda: softmax_backward(x8, np.zeros(8, np.float32), x8), "dout has shape (8,), and must have (4, 8), as out"),
])
def test_refused(call, words):
    with pytest.raises(mo.ArgumentError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("columns, dtype, rounds", [(8192, mo.bfloat16, 4), (4096, mo.float32, 4),
                                                    (4097, mo.bfloat16, 4), (131072, mo.bfloat16, 4)])
def test_accesses_are_wide_and_rows_are_read_once(columns, dtype, rounds):
    x = mo.TensorLike(dtype, (16384, columns), (columns, 1))
    plan = plan_of(Rows("softmax", x))
    program = rows_softmax.softmax_kernel.compile(x, x, None, 1.0, 1, 0, plan, rows_softmax.Scores(),
                                                  block=plan.threads, cluster=plan.cluster, arch="sm_90a")
    assert plan.rounds == rounds and program.spills == 0
    assert program.registers * plan.threads * plan.resident <= 65536
    lines = program.sass.splitlines()
    assert sum("LDG.E.128" in line for line in lines) == sum("STG.E.128" in line for line in lines) == rounds
    assert sum(" LDG" in line for line in lines) == rounds + (columns % 8 != 0)
