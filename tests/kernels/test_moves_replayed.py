"""Calls of moves, folds and gates like earlier ones are repeated, with other arrays, and plans of them prepared."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import kernels
from moye.kernels import maps, reductions, scans, scans_columns


@pytest.fixture
def decisions(monkeypatch):
    """How often a plan was made."""
    made = []
    for module in (maps, reductions, scans, scans_columns):
        monkeypatch.setattr(module, "make_plan", lambda *a, old=module.make_plan, **k: made.append(1) or old(*a, **k))
    return made


CALLS = {
    "swiglu": (lambda out, x, y: kernels.swiglu(out, x, y), lambda x, y: x / (1 + np.exp(-x)) * y),
    "swiglu_backward": (lambda out, x, y: kernels.swiglu_backward((out, y), y, x, y), None),
    "reduce": (lambda out, x, y: kernels.reduce(out[:, 0], x, axis=1), None),
    "cumsum": (lambda out, x, y: kernels.cumsum(out, x, axis=0), lambda x, y: x.cumsum(0)),
    "permute": (lambda out, x, y: kernels.permute(out, x, (0, 1)), lambda x, y: x)}


@pytest.mark.parametrize("name", CALLS)
def test_decided_once(name, decisions):
    call, expected = CALLS[name]
    for seed in range(5):
        x, y = np.random.default_rng(seed).standard_normal((2, 6, 2000)).astype(np.float32)
        out = np.zeros_like(x)
        call(out, x, y)
        if expected is not None:
            assert np.allclose(out, expected(x, y), atol=1e-4)
        elif name == "reduce":
            assert np.allclose(out[:, 0], x.sum(1), atol=1e-3)
    assert 1 <= len(decisions) <= 3                     # addresses modulo 16 are part of what is alike


def test_a_plan():
    x = np.random.default_rng(0).standard_normal((3, 400)).astype(np.float32)
    values, indices = np.zeros((3, 5), np.float32), np.zeros((3, 5), np.int64)
    plan = kernels.top_k.plan(values, indices, x)
    plan()
    assert np.array_equal(indices, np.argsort(-x, kind="stable")[:, :5])
    plan(values, indices, -x)
    assert np.array_equal(indices, np.argsort(x, kind="stable")[:, :5])


def test_an_output_that_cannot_be_written_is_refused_each_time():
    x = np.ones((4, 64), np.float32)
    for _ in range(4):
        kernels.cumsum(np.zeros_like(x), x)
    out = np.zeros_like(x)
    out.flags.writeable = False
    with pytest.raises(mo.ArgumentError, match=r"read-only|cannot be written"):
        kernels.cumsum(out, x)
    assert not out.any()
