"""Cross-entropy of a product whose logits are never whole in memory: losses, gradients, chunks, what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
import probabilities as exact
from moye.kernels import linear_cross_entropy
from moye.kernels.rows import linear_cross_entropy as host
from moye.kernels.rows.linear_sums import CONFIG, Parts, launch_sums, plan_of, row_parts_kernel, suits


def problem(kind, tokens, hidden, columns):
    rng = np.random.default_rng(tokens)
    x, W = (rng.standard_normal(shape).astype(exact.DTYPES[kind]) for shape in ((tokens, hidden), (columns, hidden)))
    labels = rng.integers(0, columns, tokens)
    labels[1] = -100
    return x, (W / 8).astype(W.dtype), labels


OPTIONS = {"label_smoothing": 0.1, "z_loss": 1e-3}


@pytest.mark.parametrize("kind, tokens, hidden, columns, chunk, bound", [
    ("f64", 10, 16, 33, 4, 1e-13), ("f32", 20, 24, 70, 7, 1e-6), ("bf16", 33, 64, 257, None, 1e-2)])
def test_losses_and_gradients(kind, tokens, hidden, columns, chunk, bound):
    x, W, labels = problem(kind, tokens, hidden, columns)
    wide = np.float64 if kind == "f64" else np.float32
    exactly = [t.astype(np.float64) for t in (x, W)]
    loss, lse, dlogits = exact.cross_entropy(exactly[0] @ exactly[1].T, labels, dloss=2.0, **OPTIONS)
    got, sums = np.full((), np.nan, wide), np.full(tokens, np.nan, wide)
    dx, dW = np.full_like(x, np.nan), np.full_like(W, np.nan)
    linear_cross_entropy(got, x, W, labels, dx=dx, dW=dW, dloss=np.asarray(2, wide), lse=sums, chunk=chunk, **OPTIONS)
    assert exact.largest_error(got, loss) < bound and exact.largest_error(sums, lse) < bound
    assert exact.largest_error(dx, dlogits @ exactly[1]) < bound
    assert exact.largest_error(dW, dlogits.T @ exactly[0]) < bound


def test_calls_that_are_repeated():
    """Products and rows of several chunks, of other numbers each time."""
    for turn in range(4):
        x, W, labels = problem("f32", 20, 24, 70)
        x += turn
        want = exact.cross_entropy(x @ W.T.astype(np.float64), labels)
        loss, dx, dW = np.zeros(1, np.float32), np.full_like(x, np.nan), np.full_like(W, np.nan)
        linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW, chunk=7)
        assert exact.largest_error(loss[0], want[0]) < 1e-6
        assert exact.largest_error(dW, want[2].T @ x.astype(np.float64)) < 1e-5
    linear_cross_entropy.plan(loss, x, W, labels, dx=dx, dW=dW, chunk=7)


def test_losses_of_each_token_and_one_gradient():
    x, W, labels = problem("f32", 9, 24, 70)
    want, _, dlogits = exact.cross_entropy(x @ W.T.astype(np.float64), labels, reduction="none",
                                           dloss=np.arange(9.0))
    loss, dW = np.full(9, np.nan, np.float32), np.full_like(W, np.nan)
    linear_cross_entropy(loss, x, W, labels, dW=dW, dloss=np.arange(9, dtype=np.float32), reduction="none", chunk=4)
    assert exact.largest_error(loss, want) < 1e-6 and exact.largest_error(dW, dlogits.T @ x.astype(np.float64)) < 1e-6


def test_a_gradient_of_w_in_float32():
    """It loses nothing from chunk to chunk."""
    x, W, labels = problem("bf16", 60, 32, 130)
    logits = x.astype(np.float64) @ W.astype(np.float64).T
    want = exact.cross_entropy(logits, labels)[2].T @ x.astype(np.float64)
    errors = []
    for dtype in (W.dtype, np.float32):
        dW = np.full(W.shape, np.nan, dtype)
        linear_cross_entropy(np.zeros((), np.float32), x, W, labels, dW=dW, chunk=8)
        errors.append(exact.largest_error(dW, want))
    assert errors[1] < 4e-3 and errors[1] < errors[0] / 1.3


@pytest.mark.parametrize("kind, tokens, columns, hidden, smoothing", [("bf16", 130, 600, 128, 0.1),
                                                                     ("f16", 40, 520, 72, 0.0)])
def test_sums_without_logits(kind, tokens, columns, hidden, smoothing):
    """What sm_90a does without gradients: more tiles than one, in both modes, and edges of both."""
    x, W, labels = problem(kind, tokens, hidden, columns)
    want = exact.cross_entropy(x.astype(np.float64) @ W.astype(np.float64).T, labels, reduction="none",
                               label_smoothing=smoothing, z_loss=1e-3)
    loss, lse = np.full(tokens, np.nan, np.float64), np.full(tokens, np.nan, np.float32)
    with mo.checking() as reports:
        launch_sums(loss, lse, x, W, labels, None, -100, smoothing, 1e-3)
    assert len(reports) == 2 and all(report.ok for report in reports), reports
    assert exact.largest_error(loss, want[0]) < 1e-6 and exact.largest_error(lse, want[1]) < 1e-6


@pytest.mark.parametrize("dtype, ignored", [(np.int64, 2**40 + 3), (np.int64, -2**63), (np.int32, -2**31)])
def test_sums_of_an_ignored_label_that_is_no_column_of_32_bits(dtype, ignored):
    """No part of a label that does not count is taken for a column, and nothing overflows."""
    x, W, labels = problem("bf16", 10, 64, 300)
    want = exact.cross_entropy(x.astype(np.float64) @ W.astype(np.float64).T, labels, reduction="none")
    labels = np.where(labels == -100, ignored, labels).astype(dtype)
    loss, lse = np.full(10, np.nan, np.float64), np.full(10, np.nan, np.float32)
    with mo.checking() as reports:
        launch_sums(loss, lse, x, W, labels, None, ignored, 0.0, 0.0)
    assert all(report.ok for report in reports), "\n".join(map(str, reports))
    assert exact.largest_error(loss, want[0]) < 1e-6


def test_sums_suit_what_tma_loads():
    a, w = (mo.describe(t) for t in problem("bf16", 8, 64, 16)[:2])
    assert suits(a, w, "sm_90a") and not suits(a, w, "sm_80") and not suits(a, w, None)
    narrow = mo.describe(problem("bf16", 8, 63, 16)[0])
    assert not suits(narrow, narrow, "sm_90a")


def test_sums_as_compiled():
    """Four products in the loop, no spills, and nothing that ptxas serialises."""
    def like(*shape, dtype=mo.bfloat16):
        return mo.TensorLike(dtype, shape, (shape[1], 1) if len(shape) == 2 else (1,))

    plan, (M, N, K) = plan_of(mo.bfloat16), (8192, 128256, 4096)
    copies = [mo.TmaCopy(mo.TmaLoad(), like(*shape), side.box, (rows, CONFIG.bK), 1)
              for shape, side, rows in (((M, K), plan.A, CONFIG.bM), ((N, K), plan.B, CONFIG.bN))]
    part = mo.TensorLike(mo.float32, (M, 501), (1, M))
    parts = Parts(part, part, None, like(M, dtype=mo.float32))
    program = row_parts_kernel.compile(*copies, like(M, dtype=mo.int64), parts, plan, block=CONFIG.threads,
                                       arch="sm_90a")
    assert program.spills == 0 and not program.notes
    assert sum("HGMMA.64x256x16" in line for line in program.sass.splitlines()) == 4


def test_chunks():
    """As many tokens as hidden, at least 1024; of nearly one size."""
    assert [host.chunk_of(*of) for of in ((8192, 4096), (8192, 512), (5000, 4096), (100, 64), (8193, 8192))] == \
        [4096, 1024, 2560, 128, 4224]


def test_memory_for_the_logits_of_one_chunk(monkeypatch):
    made = []
    monkeypatch.setattr(host, "empty", lambda like, dtype, shape: made.append(shape) or np.empty(shape, dtype.numpy,
                                                                                                "F"))
    x, W, labels = problem("f32", 40, 24, 70)
    linear_cross_entropy(np.zeros((), np.float32), x, W, labels, dx=np.zeros_like(x), chunk=16)
    assert made == [(128, 16)]


x8, w8, i4, one = np.zeros((4, 8), np.float32), np.zeros((5, 8), np.float32), np.zeros(4, np.int64), \
    np.zeros((), np.float32)


@pytest.mark.parametrize("call, words", [
    (lambda: linear_cross_entropy(one, x8, w8.T, i4), "x (4, 8) and W (8, 5) are not (tokens, hidden) and (columns"),
    (lambda: linear_cross_entropy(one, x8, w8.astype(np.float16), i4), "x holds float32 and W float16; they must be"),
    (lambda: linear_cross_entropy(one, x8, w8, i4[:3]), "labels has shape (3,), and must have (4,)"),
    (lambda: linear_cross_entropy(one, x8, w8, i4, dx=w8), "dx has shape (5, 8), and must have (4, 8), as x has"),
    (lambda: linear_cross_entropy(one, x8, w8, i4, dx=x8), "dx shares memory with x, which is read while dx is"),
    (lambda: linear_cross_entropy(one, x8, w8, i4, dloss=one), "there is no dx or dW to multiply by it"),
    (lambda: linear_cross_entropy(one, x8, w8, i4, chunk=0), "chunk=0 is no positive number of tokens"),
    (lambda: linear_cross_entropy(one, x8, w8, i4, label_smoothing=3), "label_smoothing=3 is not between 0 and 1"),
    (lambda: linear_cross_entropy(i4, x8, w8, i4), "loss holds int64; it may hold bfloat16"),
])
def test_refused(call, words):
    with pytest.raises(mo.ArgumentError, match=re.escape(words)):
        call()
