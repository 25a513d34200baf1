"""Cross-entropy of rows against float64: drawn problems, gradients in place, long rows, labels, what is refused."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import probabilities as exact
from moye.kernels import cross_entropy, cross_entropy_backward
from moye.kernels.rows import cross_entropy as host
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.entropy import cross_entropy_kernel
from moye.kernels.rows.plan import RowPlan
from moye.kernels.rows.views import plan_of
from moye.runtime.prepare import compile_only


@pytest.mark.parametrize("seed", range(20))
def test_drawn(seed):
    exact.compare_entropy(*exact.entropy_problem(seed))


def problem(rows, columns, dtype=np.float32):
    rng = np.random.default_rng(columns)
    labels = rng.integers(0, columns, rows)
    labels[1] = -100
    return rng.standard_normal((rows, columns)).astype(dtype), labels, np.asarray(1.5, np.float32)


@pytest.mark.parametrize("columns, dtype, kind", [(40000, np.float32, "f32"), (70001, ml_dtypes.bfloat16, "bf16")])
def test_long_rows_are_spread_over_a_cluster(columns, dtype, kind):
    x, labels, dloss = problem(3, columns, dtype)
    assert plan_of(Rows("cross_entropy", x)).cluster > 1
    with mo.checking() as reports:
        exact.compare_entropy(kind, x, labels, dloss, {"label_smoothing": 0.1})
    assert len(reports) == 7 and all(report.ok for report in reports), reports


@pytest.mark.parametrize("ignored", [-2 ** 40, 2 ** 32, 2 ** 32 + 3, -2 ** 63])
def test_ignored_labels_of_64_bits(ignored):
    """They are no columns, though their lower 32 bits may be."""
    x, labels, dloss = problem(7, 90)
    labels[[1, 5]] = ignored
    with mo.checking() as reports:
        exact.compare_entropy("f32", x, labels, dloss, {"ignore_index": ignored})
    assert reports and all(report.ok for report in reports), reports


STAGED = [(1000, ml_dtypes.bfloat16, RowPlan(8, 32, rounds=2, cluster=2, stages=4)),
          (1001, ml_dtypes.bfloat16, RowPlan(8, 64, rounds=1, cluster=2, stages=3, edges=14, shifted=True)),
          (701, np.float32, RowPlan(4, 64, rounds=3, stages=4, edges=6, shifted=True)),
          (2048, ml_dtypes.bfloat16, RowPlan(8, 64, rounds=2, cluster=2, full=2, stages=5)),
          (700, np.float32, RowPlan(4, 64, rounds=3, stages=6))]


@pytest.mark.parametrize("columns, dtype, plan", STAGED)
def test_rows_by_bulk_copies(columns, dtype, plan):
    """Several rows ahead, gradients over the logits; a label that is ignored, one that is none, weights, NaN."""
    x, labels, _ = problem(23, columns, dtype)
    x[4, 7], x[5, :columns // 2] = np.nan, -np.inf
    labels[5], weight = columns - 1, np.random.default_rng(0).random(columns).astype(np.float32)
    options = {"z_loss": 1e-3, "weight": weight, "reduction": "none"}
    loss, lse = (np.full(23, 7, np.float32) for _ in range(2))
    want = exact.cross_entropy(x, labels, dloss=np.ones(23), **options)
    with mo.checking() as reports:
        cross_entropy(loss, x, labels, lse=lse, dlogits=x, plan=plan, **options)
    assert len(reports) == 1 and reports[0].ok, reports
    few = 1e-6 if dtype == np.float32 else 4e-3
    for found, wanted, bound in zip((loss, lse, x), want, (1e-5, 1e-5, few), strict=True):
        assert (np.isnan(found.astype(np.float64)) == np.isnan(wanted)).all()
        assert np.nanmax(np.abs(found.astype(np.float64) - wanted)) < bound * max(1, np.nanmax(np.abs(wanted)))
    assert loss[1] == 0 and (x[1] == 0).all() and np.isnan(loss[4])


def test_many_long_rows_come_by_bulk_copies():
    """Gradients in floats of up to 32 bits, without smoothing; nothing spills."""
    def programs(dtype, **options):
        x, row = mo.TensorLike(dtype, (4096, 128256), (128256, 1)), mo.TensorLike(mo.float32, (4096,))
        with compile_only("sm_90a") as built:
            cross_entropy(row, x, mo.TensorLike(mo.int64, (4096,)), reduction="none", dlogits=x, **options)
        return built.programs
    for dtype in (mo.bfloat16, mo.float32):
        program, = programs(dtype)
        assert "cross_entropy_staged" in program.source and program.spills == 0
        assert not any("cross_entropy_staged" in p.source for p in programs(dtype, label_smoothing=0.1))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_are_added_up_by_a_cluster(reduction, monkeypatch):
    """Of many rows, each block has some, or none; the gradient's count, too."""
    monkeypatch.setattr(host, "_ALONE", 0)
    x, labels, dloss = problem(1500, 9)
    loss, dx, options = np.full((), np.nan, np.float32), np.full_like(x, np.nan), {"reduction": reduction}
    want = exact.cross_entropy(x, labels, dloss=dloss, **options)
    with mo.checking() as reports:
        cross_entropy(loss, x, labels, dlogits=dx, dloss=dloss, **options)
    assert all(report.ok for report in reports) and "(8, 1, 1)" in str(reports[-1]), reports
    assert exact.largest_error(loss, want[0]) < 1e-6 and exact.largest_error(dx, want[2]) < 1e-6


def test_streamed_rows(monkeypatch):
    """Rows that are read again, in three ways."""
    plan = RowPlan(4, 64, 1, -(-3000 // 256), 1, streamed=True)
    monkeypatch.setattr(host, "plan_of", lambda given, **_: plan)
    x, labels, dloss = problem(4, 3000)
    loss, lse, dx = np.full((), np.nan, np.float32), np.full(4, np.nan, np.float32), np.full_like(x, np.nan)
    options = {"label_smoothing": 0.1, "z_loss": 1e-3, "reduction": "sum"}
    want = exact.cross_entropy(x, labels, dloss=dloss, **options)
    with mo.checking() as reports:
        cross_entropy(loss, x, labels, lse=lse, **options)
        cross_entropy_backward(dx, dloss, x, labels, lse, **options)
        cross_entropy(loss, x, labels, dlogits=x, dloss=dloss, **options)
    assert all(report.ok for report in reports), reports
    assert exact.largest_error(loss, want[0]) < 1e-6 and exact.largest_error(lse, want[1]) < 1e-6
    assert exact.largest_error(dx, want[2]) < 1e-6 and exact.largest_error(x, want[2]) < 1e-6


@pytest.mark.parametrize("columns", [5, 96, 1030])
def test_clean_over_the_logits(columns):
    """Rows of a part of a warp, of a warp and of a block: nobody overwrites a logit that is still wanted."""
    x, labels, dloss = problem(9, columns)
    want = exact.cross_entropy(x, labels, dloss=dloss)
    loss = np.zeros(1, np.float32)
    with mo.checking() as reports:
        cross_entropy(loss, x, labels, dlogits=x, dloss=dloss)
    assert len(reports) == 2 and all(report.ok for report in reports), reports
    assert exact.largest_error(x, want[2]) < 1e-6 and exact.largest_error(loss[0], want[0]) < 1e-6


@pytest.mark.parametrize("label", [7, -1, 1 << 32])
def test_labels_that_are_no_columns(label, monkeypatch):
    """The simulator says which; without asserts the row's loss and gradient are NaN, and no other row's."""
    x, labels, _ = problem(4, 7)
    labels[2] = label
    loss, dx = np.zeros(4, np.float32), np.zeros_like(x)
    with pytest.raises(mo.SimulationError, match=r"thread \d+ of block .* the label of a row is none of the columns"):
        cross_entropy(loss, x, labels, dlogits=dx, reduction="none")
    monkeypatch.setenv("MOYE_CHECK", "0")
    cross_entropy(loss, x, labels, dlogits=dx, reduction="none")
    assert np.isnan(loss[2]) and np.isnan(dx[2]).all() and np.isfinite(np.delete(loss, 2)).all()
    assert np.isfinite(np.delete(dx, 2, 0)).all() and loss[1] == 0 and (dx[1] == 0).all()


def test_infinite_logits():
    """-inf is a class that cannot be: as the label its loss is inf.  +inf and NaN make their rows NaN."""
    x, labels, _ = problem(6, 50)
    labels[:] = 3
    x[0, 3], x[1, 4], x[2, 5], x[3, 6] = -np.inf, -np.inf, np.inf, np.nan
    loss = np.zeros(6, np.float32)
    cross_entropy(loss, x, labels, reduction="none")
    assert loss[0] == np.inf and np.isnan(loss[2:4]).all() and np.isfinite(loss[[1, 4, 5]]).all()
    assert exact.largest_error(loss[[1, 4]], exact.cross_entropy(x[[1, 4]], labels[[1, 4]], reduction="none")[0]) < 1e-6


def test_means_of_nothing():
    x, labels, _ = problem(3, 20)
    loss, dx = np.zeros((), np.float32), np.full_like(x, np.nan)
    cross_entropy(loss, x, np.full_like(labels, -100), dlogits=dx)
    assert np.isnan(loss) and (dx == 0).all()                           # as PyTorch has it
    empty, none = np.zeros((0, 20), np.float32), np.zeros(0, np.int64)
    cross_entropy(np.zeros(0, np.float32), empty, none, reduction="none")
    loss[...] = 1
    cross_entropy(loss, empty, none, reduction="sum")
    assert loss == 0
    with pytest.raises(mo.ArgumentError, match="there is no mean of no rows"):
        cross_entropy(loss, empty, none)


def test_the_same_bits_again():
    """Sums go in one order: two calls give one result."""
    x, labels, _ = problem(3000, 9)
    losses = [np.zeros((), np.float32) for _ in range(2)]
    for loss in losses:
        cross_entropy(loss, x, labels)
    assert losses[0].tobytes() == losses[1].tobytes()


def test_calls_that_are_repeated():
    """The third call and later ones make the launches of the second, also those on scratch memory and its views."""
    for columns in (40, 40, 40, 40, 41, 41, 41):
        x, labels, _ = problem(5, columns)
        x, labels = x * np.float32(np.random.default_rng().random()), (labels * 7) % columns
        loss, dx = np.full(1, np.nan, np.float32), np.full_like(x, np.nan)
        cross_entropy(loss, x.reshape(5, 1, columns), labels.reshape(5, 1), dlogits=dx.reshape(5, 1, columns))
        want = exact.cross_entropy(x, labels)
        assert exact.largest_error(loss[0], want[0]) < 1e-6 and exact.largest_error(dx, want[2]) < 1e-6
    cross_entropy.plan(loss, x, labels, dlogits=dx)


x8, i4, one = np.zeros((4, 8), np.float32), np.zeros(4, np.int64), np.zeros((), np.float32)


@pytest.mark.parametrize("call, words", [
    (lambda: cross_entropy(one, x8, i4[:3]), "labels has shape (3,), and must have (4,)"),
    (lambda: cross_entropy(one, x8, i4.astype(np.float32)), "labels holds float32; it may hold int32, int64"),
    (lambda: cross_entropy(one, x8.astype(np.int32), i4), "logits holds int32; it may hold bfloat16"),
    (lambda: cross_entropy(np.zeros(4, np.float32), x8, i4), "must have one element, as reduction is 'mean'"),
    (lambda: cross_entropy(one, x8, i4, reduction="none"), "loss has shape (), and must have (4,), one for each row"),
    (lambda: cross_entropy(one, x8, i4, reduction="max"), "reduction='max' is none of none, mean, sum"),
    (lambda: cross_entropy(one, x8, i4, ignore_index=0.5), "ignore_index=0.5 is no integer"),
    (lambda: cross_entropy(one, x8, i4, label_smoothing=2), "label_smoothing=2 is not between 0 and 1"),
    (lambda: cross_entropy(one, x8, i4, z_loss=float("nan")), "z_loss=nan is not finite"),
    (lambda: cross_entropy(one, x8, i4, weight=x8[0], label_smoothing=0.1), "with weight: no kernel does both"),
    (lambda: cross_entropy(one, x8, i4, weight=x8[0, :7]), "weight has shape (7,), and must have (8,)"),
    (lambda: cross_entropy(one, x8, i4, dloss=one), "there is no dlogits to multiply by it"),
    (lambda: cross_entropy(one, x8[:3], i4[:3], dlogits=x8[1:]), "dlogits shares memory with logits"),
    (lambda: cross_entropy(one, np.zeros((4, 0), np.float32), i4), "logits have shape (4, 0), and no columns"),
    (lambda: cross_entropy_backward(x8, one, x8, i4, x8), "lse has shape (4, 8), and must have (4,)"),
])
def test_refused(call, words):
    with pytest.raises(mo.ArgumentError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("columns, dtype", [(1025, mo.bfloat16), (8192, mo.bfloat16), (20481, mo.bfloat16),
                                            (50257, mo.float16), (131072, mo.bfloat16), (4096, mo.float64)])
def test_smoothed_gradients_spill_nothing(columns, dtype):
    x, labels = mo.TensorLike(dtype, (16384, columns), (columns, 1)), mo.TensorLike(mo.int64, (16384,))
    with compile_only("sm_90a") as compiled:
        cross_entropy(mo.TensorLike(mo.float32, (1,)), x, labels, dlogits=x, label_smoothing=0.1)
    assert [program.spills for program in compiled.programs] == [0, 0, 0]


@pytest.mark.parametrize("columns, dtype, gradient", [(8192, mo.bfloat16, False), (4097, mo.bfloat16, True),
                                                      (131072, mo.bfloat16, True)])
def test_accesses_are_wide_and_rows_are_read_once(columns, dtype, gradient):
    x = mo.TensorLike(dtype, (16384, columns), (columns, 1))
    loss, labels, plan = mo.TensorLike(mo.float32, (16384,)), mo.TensorLike(mo.int64, (16384,)), plan_of(Rows("", x))
    program = cross_entropy_kernel.compile(loss, loss, x if gradient else None, None, x, labels, None, None, -100, 0.0,
                                           0.0, plan, False, False, block=plan.threads, cluster=plan.cluster,
                                           arch="sm_90a")
    assert program.spills == 0 and program.registers * plan.threads * plan.resident <= 65536
    lines = program.sass.splitlines()
    assert sum("LDG.E.128" in line for line in lines) == plan.rounds
    assert sum("STG.E.128" in line for line in lines) == (plan.rounds if gradient else 0)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("level", [0.0, 1e4, -3e5, 4e6, -5e6, 1e9, 2e38, -3e38])
def test_logits_of_any_size_that_pass(dtype, level):
    """A rounded product with the base-2 factor would shift every exponential of large logits."""
    rng = np.random.default_rng(4)
    x = (level + rng.standard_normal((40, 1030)) * max(3.0, abs(level) * 2.0 ** -22)).astype(dtype)
    x[3, ::2], x[5, 1:] = -np.inf, -np.inf
    labels = rng.integers(0, 515, 40) * 2 + 1
    labels[5] = 0
    plan = RowPlan(2, 64, rounds=9, full=0, edges=0, streamed=True, resident=8)
    loss, lse = (np.full(40, np.nan, np.float64 if dtype == np.float64 else np.float32) for _ in range(2))
    cross_entropy(loss, x, labels, lse=lse, reduction="none", plan=plan)
    wide = x.astype(np.float64)
    top = wide.max(axis=1)
    rest = np.log(np.exp(wide - top[:, None]).sum(axis=1))
    want = top - wide[np.arange(40), labels] + rest
    near = np.isfinite(want)
    assert np.allclose(loss[near], want[near], rtol=3e-6, atol=3e-6) and np.array_equal(loss[~near], want[~near])
    assert np.allclose(lse, top + rest, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float16, mo.float32, mo.float64], ids=str)
@pytest.mark.parametrize("columns", [4992, 9001, 128256])
def test_rows_that_pass_spill_nothing(columns, dtype):
    rows, wide = 4000, mo.float64 if dtype == mo.float64 else mo.float32
    numbers, array = mo.TensorLike(wide, (rows,)), mo.TensorLike(dtype, (rows, columns), strides=(columns, 1))
    with compile_only("sm_90a") as compiled:
        cross_entropy(numbers, array, mo.TensorLike(mo.int64, (rows,)), lse=numbers, reduction="none")
    program, = compiled.programs
    assert program.spills == program.stack == 0
