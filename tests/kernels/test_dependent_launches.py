"""Calls of several launches: those that follow others may begin early, and touch what these make only once they waited.

The checker judges each of them beside the one before; without its wait it must say so (G3).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import moye as mo
from moye import kernels
from moye.kernels import scans
from moye.kernels.attention.dispatch import attention, attention_backward
from moye.kernels.gemm.simt import kernel as simt
from moye.kernels.gemm.simt.choice import Way
from moye.kernels.gemm.simt.config import FLOAT
from moye.kernels.gemm.simt.kernel import gemm_simt
from moye.kernels.gemm.sm90.config import WarpgroupConfig
from moye.kernels.gemm.streamed.config import options
from moye.kernels.gemm.streamed.kernel import gemm_streamed, size_of
from moye.runtime.check.checking import Session
from moye.runtime.kernel import Kernel
from random_pages import draw, run
from random_products import NumPy

embeddings = sys.modules["moye.kernels.embedding"]
CALLS: dict[str, Callable[[np.random.Generator], Any]] = {}


def call(function: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], Any]:
    CALLS[function.__name__] = function
    return function


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def nothing(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, np.nan, dtype)


@call
def cross_entropy_mean(rng):
    kernels.cross_entropy(nothing(), normal(rng, 9, 40), rng.integers(0, 40, 9))


@call
def cross_entropy_gradient(rng):
    x = normal(rng, 130, 40)                             # of fewer rows no launch counts the labels
    kernels.cross_entropy(nothing(), x, rng.integers(0, 40, 130), dlogits=x)


@call
def cross_entropy_staged(rng):
    x = normal(rng, 3, 20000, dtype=np.float16)
    kernels.cross_entropy(nothing(), x, rng.integers(0, 20000, 3), dlogits=x)


@call
def cross_entropy_backward(rng):
    x = normal(rng, 130, 40)
    kernels.cross_entropy_backward(nothing(130, 40), nothing(), x, rng.integers(0, 40, 130), nothing(130))


@call
def linear_cross_entropy(rng):
    x, W = normal(rng, 12, 16), normal(rng, 20, 16)
    kernels.linear_cross_entropy(nothing(), x, W, rng.integers(0, 20, 12), dx=nothing(12, 16), dW=nothing(20, 16))


@call
def norm_backward(rng):
    x, dout = normal(rng, 40, 64), normal(rng, 40, 64)
    kernels.rms_norm_backward(nothing(40, 64), dout, x, normal(rng, 64), normal(rng, 40), dweight=nothing(64))


@call
def total(rng):
    kernels.reduce(nothing(), normal(rng, 1 << 18))


@call
def sums_of_columns(rng):
    kernels.reduce(nothing(8), normal(rng, 1 << 14, 8), axis=0)


@call
def scan_of_a_row(rng):
    kernels.cumsum(nothing(1, 1 << 15), normal(rng, 1, 1 << 15))


@call
def scan_of_columns(rng):
    kernels.cumsum(nothing(5000, 8), normal(rng, 5000, 8), axis=0)


@call
def embedding_backward(rng):
    with mock.patch.object(embeddings, "_READ", 1 << 10):
        kernels.embedding_backward(nothing(50, 32), normal(rng, 500, 32), rng.integers(0, 50, 500))


@call
def embedding_backward_of_many(rng):
    kernels.embedding_backward(nothing(50, 32), normal(rng, 3000, 32), rng.integers(0, 50, 3000))


@call
def split_product(rng):
    kernels.gemm_sm80(normal(rng, 20, 900, dtype=np.float16), normal(rng, 24, 900, dtype=np.float16),
                      nothing(20, 24, dtype=np.float16), splits=4)


@call
def product_of_copies(rng):
    kernels.gemm_sm90(normal(rng, 70, 131, dtype=np.float16), normal(rng, 70, 131, dtype=np.float16),
                      nothing(70, 70, dtype=np.float16))


@call
def attention_gradients(rng):
    q, k, v, dout = (normal(rng, 1, 70, 2, 64, dtype=np.float16) for _ in range(4))
    out, lse = nothing(1, 70, 2, 64, dtype=np.float16), nothing(1, 2, 70)
    attention(out, q, k, v, lse=lse)
    attention_backward(*(nothing(1, 70, 2, 64, dtype=np.float16) for _ in range(3)), dout, q, k, v, out, lse)


@call
def attention_of_pages(rng):
    run(draw(random.Random(0), most=300), NumPy())


@call
def scan_in_one_pass(rng):
    with mock.patch.object(scans, "ONCE", 1 << 10):
        kernels.cumsum(nothing(1, 1 << 15), normal(rng, 1, 1 << 15))


@call
def streamed_product(rng):
    A, B = normal(rng, 131, 3001, dtype=np.float16), normal(rng, 3, 3001, dtype=np.float16)
    config = next(c for c in options(size_of(mo.describe(A), mo.describe(B)), 132) if c.splits > 1)
    gemm_streamed(A, B, nothing(131, 3, dtype=np.float16), config=config)


SMALL = next(tile for tile in FLOAT if (tile.bM, tile.bN) == (32, 32))
"""A tile of which a multiprocessor holds several."""


def turned_round_on_one_multiprocessor(rng, columns):
    """``gemm_simt`` copies its first operand: one row of so many tiles."""
    with mock.patch.object(simt.choice, "choose", lambda *_: Way(SMALL, 1, (True, False))), \
            mock.patch.object(mo, "multiprocessors", lambda array: 1):
        gemm_simt(normal(rng, 30, 70), normal(rng, columns, 70), nothing(30, columns))


@call
def product_of_an_operand_turned_round(rng):
    turned_round_on_one_multiprocessor(rng, SMALL.blocks * SMALL.bM)


# --- what is asked ---------------------------------------------------------------------------------------------------


def followers(monkeypatch, call: Callable[[np.random.Generator], Any]) -> list[tuple[bool, Any]]:
    """Of each launch of a call: whether it is a dependent one, and its report."""
    dependent: list[bool] = []
    judge = Session.launch

    def launch(self, *args, **options):
        dependent.append(options.get("dependent", False))
        judge(self, *args, **options)

    monkeypatch.setattr(Session, "launch", launch)
    with mo.checking(lints=False) as reports:
        call(np.random.default_rng(0))
    return list(zip(dependent, reports, strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_they_wait(monkeypatch, arch, name):
    """Clean, and judged whole.  The first launch is no dependent one: what came before the call is complete by then."""
    found = followers(monkeypatch, CALLS[name])
    assert not found[0][0] and sum(dependent for dependent, _ in found) > 0
    for _, report in found:
        assert report.ok and not report.not_judged, str(report)


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_wait_is_found(monkeypatch, arch, name):
    """In each launch that reads, or overwrites, what the one before it touches."""
    monkeypatch.setattr(mo, "griddepcontrol_wait", lambda: None)
    for module in [module for key, module in sys.modules.items() if key.startswith("moye.kernels")]:
        for it in vars(module).values():
            if isinstance(it, Kernel):                  # traced anew, and as it was behind this test
                for cache in ("_specialised", "_shapes", "_launchers"):
                    monkeypatch.setattr(it, cache, {})
    found = followers(monkeypatch, CALLS[name])
    told = [{finding.code for finding in report.findings} == {"G3"} for dependent, report in found if dependent]
    assert sum(told) >= len(told) - EARLY.get(name, 0), [str(report) for _, report in found]


EARLY = {"embedding_backward_of_many": 1, "linear_cross_entropy": 1}
"""So many launches have nothing to do with the one before, but with earlier ones."""


@pytest.fixture
def arch(monkeypatch):
    """Attention as on sm_90."""
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")


def copies_on_one_multiprocessor(rng, columns):
    A, B = normal(rng, 60, 131, dtype=np.float16), normal(rng, columns, 131, dtype=np.float16)
    kernels.gemm_sm90(A, B, nothing(60, columns, dtype=np.float16), config=WarpgroupConfig(64, 64, 64, 4, groups=1))


@pytest.mark.parametrize(("call", "columns", "early"), [
    (copies_on_one_multiprocessor, 64, True), (copies_on_one_multiprocessor, 190, False),
    (turned_round_on_one_multiprocessor, 160, True), (turned_round_on_one_multiprocessor, 900, False),
    (turned_round_on_one_multiprocessor, 96, False)])
def test_products_begin_early_only_where_all_blocks_fit(monkeypatch, call, columns, early):
    """And, where a multiprocessor holds several, fill it: those that begin early go where there is room first."""
    monkeypatch.setattr(mo, "multiprocessors", lambda array: 1)
    found = followers(monkeypatch, lambda rng: call(rng, columns))
    assert [dependent for dependent, _ in found][-1] == early and len(found) > 1
    assert all(report.ok for _, report in found)
