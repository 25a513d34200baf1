"""Prefix sums in the checking simulator against float64: any axis and strides, long rows, infinities, in place."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from drawn_arrays import CLOSE, FLOATS, clean, drawn, poisoned, shape_of, wide
from moye.kernels import cumsum
from moye.kernels.scans import make_plan, rows_kernel
from moye.kernels.views import Mode


def check(out, x, axis, name):
    expected, scale = wide(x).cumsum(axis), np.abs(wide(x)).cumsum(axis)
    with clean() as reports:
        cumsum(out, x, axis=axis)
    assert (np.abs(wide(out) - expected) <= CLOSE[name] * (np.abs(expected) + 0.1 * scale + 1e-30)).all()
    return reports


@pytest.mark.parametrize("seed", range(16))
def test_drawn(seed):
    rng = np.random.default_rng(seed)
    name = list(FLOATS)[seed % 4]
    shape = shape_of(rng, most=4000)
    x, out = drawn(rng, shape, name), poisoned(rng, shape, name)
    check(out, x, int(rng.integers(-len(shape), len(shape))), name)


@pytest.mark.parametrize(("columns", "passes"), [(1023, 1), (5000, 1), (34000, 2)])
def test_long_rows(columns, passes):
    """More than a block takes at once, and shared by blocks."""
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    assert len(check(np.zeros_like(x), x, 1, "f32")) == passes
    x = np.asfortranarray(x)
    assert len(check(np.zeros_like(x), x, 1, "f32")) == 2


@pytest.mark.parametrize("name", ["bf16", "f32"])
def test_rows_that_begin_anywhere(name):
    """Odd rows are read and written in vectors of 16 bytes all the same, but for their ends."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((9, 257)).astype(FLOATS[name])
    report, = check(np.zeros_like(x), x, 1, name)
    widths = {line["instruction"] for line in report.counters()["lines"]}
    assert {"ld.global.v4", "st.global.v4"} <= widths
    room = np.zeros((9, 300), FLOATS[name])[:, 2:259]
    check(room, x[:, :], 1, name)


def test_in_place():
    x = np.random.default_rng(0).standard_normal((5, 3000)).astype(np.float32)
    for axis in (0, 1):
        y = x.copy()
        check(y, y, axis, "f32")


def test_integers_are_exact():
    """Sums below 2^24 do not round, whichever way they are made."""
    x = np.random.default_rng(1).integers(-50, 50, (2, 9001)).astype(np.float32)
    for axis in (0, 1):
        out = np.zeros_like(x)
        cumsum(out, x, axis=axis)
        assert np.array_equal(out, x.cumsum(axis))


def test_infinities_spoil_only_what_follows():
    x = np.ones((2, 2000), np.float32)
    x[0, 700], x[1, 300], x[1, 900] = np.nan, np.inf, -np.inf
    out = np.zeros_like(x)
    with np.errstate(invalid="ignore"):
        cumsum(out, x)
        assert np.array_equal(out, x.cumsum(1), equal_nan=True)


def test_nothing_and_what_is_refused():
    x = np.zeros((4, 6), np.float32)
    cumsum(x[:0], x[:0])
    scalar, out = np.array(3.0, np.float32), np.array(0.0, np.float32)
    cumsum(out, scalar)
    assert out == 3
    for arguments, axis, text in [((x[:, :5], x), 0, r"out has shape \(4, 5\), and x has \(4, 6\)"),
                                  ((x, x), 2, "axis 2 is none of the 2 axes"),
                                  ((x, x.astype(np.int32)), 0, "x holds int32")]:
        with pytest.raises(mo.ArgumentError, match=text):
            cumsum(*arguments, axis=axis)


def test_accesses_are_16_bytes():
    """A row of 8192 bfloat16 goes once through 256 threads; no local memory."""
    x = mo.TensorLike(mo.bfloat16, (8192, 16384))
    modes = [Mode(8192, (1, 1)), Mode(16384, (8192, 8192))]
    plan = make_plan(8192, modes, (x.info(), x.info()), True)
    assert (plan.width, plan.each, plan.threads, plan.splits) == (8, 4, 256, 1)
    program = rows_kernel.compile(x, x, None, plan, block=256, arch="sm_90a")
    moves = [line for line in program.sass.splitlines() if " LDG" in line or " STG" in line]
    assert len(moves) >= 8 and all(".128" in line for line in moves)
    assert program.spills == 0 and program.registers <= 64


def test_splits_follow_the_device(monkeypatch):
    """A small device needs fewer blocks for one row than a large one."""
    x, made = mo.TensorLike(mo.float32, (1 << 20,)).info(), []
    for count in (2, 16, 132):
        monkeypatch.setattr(mo, "multiprocessors", lambda array, count=count: count)
        made.append(make_plan(1 << 20, [Mode(1 << 20, (1, 1)), Mode(1, (0, 0))], (x, x), True).splits)
    assert made == [8, 64, 64]
