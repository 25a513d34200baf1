"""Prefix sums in the checking simulator against float64: any axis and strides, long rows, infinities, in place."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from drawn_arrays import CLOSE, FLOATS, clean, drawn, poisoned, shape_of, wide
from moye.kernels import cumsum, scans, scans_columns
from moye.kernels.scans import chained_kernel, make_plan, rows_kernel
from moye.kernels.scans_columns import columns_kernel
from moye.kernels.scans_columns import make_plan as plan_of_columns
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


@pytest.mark.parametrize(("shape", "name", "shared"), [
    ((5, 3000), "f32", False), ((260, 40), "bf16", True), ((257, 33), "f32", True), ((260, 16), "f64", True),
    ((90, 3), "f16", False), ((33, 700), "bf16", False)])
def test_down_columns(shape, name, shared):
    """In one pass: blocks have their columns alone, or share them; in place, too."""
    x = np.random.default_rng(shape).standard_normal(shape).astype(FLOATS[name])
    reports = check(x, x, 0, name)
    assert [report.kernel for report in reports] == ["clear_kernel"] * shared + ["columns_kernel"]


@pytest.mark.parametrize("seed", range(4))
def test_drawn_columns(seed):
    """Few columns of many rows, in the memory of a larger array, and with another axis beside or between."""
    rng = np.random.default_rng([7, seed])
    name = list(FLOATS)[seed % 4]
    columns, rows = int(rng.choice([1, 3, 8, 16, 24, 33, 40])), int(rng.integers(2, 600))
    shape = [(rows, columns), (2, rows, columns), (rows, 3, columns)][int(rng.integers(3))]
    room = rng.standard_normal((*shape[:-1], columns + int(rng.choice([0, 1, 8])))).astype(FLOATS[name])
    x = room[..., :columns]
    check(x if seed % 3 == 0 else poisoned(rng, shape, name), x, shape.index(rows), name)


@pytest.mark.parametrize("threads", [256, 512])
def test_parts_of_columns(threads, monkeypatch):
    """A small device: a block takes several parts of its columns in turn, alone or with another one."""
    monkeypatch.setattr(mo, "multiprocessors", lambda array: 1)
    monkeypatch.setattr(scans_columns, "RUNNING", threads)
    x = np.random.default_rng(3).standard_normal((600, 32)).astype(np.float32)
    check(np.zeros_like(x), x, 0, "f32")


@pytest.mark.parametrize("bits", [0xFFFFFFFF, 0xFF800000])
def test_whatever_a_part_sums_to_is_told(bits):
    """NaN of all bits is no sum that is missing; infinities go down their own column alone."""
    x = np.ones((257, 32), np.float32)
    x.view(np.uint32)[3, 5], out = bits, np.zeros_like(x)
    with np.errstate(invalid="ignore"), clean() as reports:
        cumsum(out, x, axis=0)
    assert len(reports) == 2 and np.array_equal(out, x.cumsum(0), equal_nan=True)


@pytest.mark.parametrize("name", ["bf16", "f32"])
def test_rows_that_begin_anywhere(name):
    """Odd rows are read and written in vectors of 16 bytes all the same, but for their ends."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((9, 1057)).astype(FLOATS[name])
    report, = check(np.zeros_like(x), x, 1, name)
    widths = {line["instruction"] for line in report.counters()["lines"]}
    assert {"ld.global.v4", "st.global.v4"} <= widths
    room = np.zeros((9, 1100), FLOATS[name])[:, 2:1059]
    check(room, x[:, :], 1, name)


@pytest.mark.parametrize("rows, columns", [(9, 257), (1, 937), (3, 1022), (64, 1)])
def test_few_short_rows(rows, columns):
    """They go in as wide vectors as divide them."""
    x = np.random.default_rng(8).standard_normal((rows, columns)).astype(np.float32)
    check(np.zeros_like(x), x, 1, "f32")


@pytest.mark.parametrize("rows, columns", [(1, 33), (2, 577), (5, 864), (13, 1408), (16, 40), (31, 264), (32, 8)])
def test_few_rows_down_columns(rows, columns):
    """A thread has all rows of its columns: nobody waits for another."""
    x = np.random.default_rng(9).standard_normal((rows, columns)).astype(FLOATS["bf16"])
    report, = check(np.zeros_like(x), x, 0, "bf16")
    assert not any("shared" in line["instruction"] for line in report.counters()["lines"])


@pytest.mark.parametrize(("rows", "columns", "name"), [(2, 34000, "f32"), (1, 66001, "bf16"), (3, 33001, "f32")])
def test_one_pass(rows, columns, name, monkeypatch):
    """Rows that several blocks share are read once; parts that come short and rows that begin anywhere."""
    monkeypatch.setattr(scans, "ONCE", 1000)
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(FLOATS[name])
    out = x if rows == 2 else np.zeros_like(x)          # in place, too
    clearing, chained = check(out, x, 1, name)
    assert "clear_kernel" in str(clearing) and "chained_kernel" in str(chained)


@mo.kernel
def prefixes_kernel(out, words):
    """out[p]: what look_back gives part p."""
    part = mo.size(out) - 1 - mo.block_idx().x
    if part > 0:
        carry = scans.look_back(words, part)
        if mo.thread_idx().x == 0:
            out[part] = carry


@pytest.mark.parametrize("parts", [33, 300])
def test_all_ways_to_look_back_give_the_same_bits(parts):
    """Whichever prefixes are there, a part's carry is the fold of the sums before it from the left."""
    rng = np.random.default_rng(parts)
    sums = (rng.standard_normal(parts) * 10.0 ** rng.integers(-5, 5, parts)).astype(np.float32)
    upto = np.add.accumulate(sums, dtype=np.float32)
    for share in (0.0, 0.02):
        known = rng.random(parts) < share
        known[0] = True
        bits = np.where(known, upto, sums).astype(np.float32).view(np.uint32).astype(np.int64)
        words = np.where(known, 2, 1) << 32 | bits
        out = np.zeros(parts, np.float32)
        with clean():
            prefixes_kernel[min(parts, 40), 32](out, words)
        assert np.array_equal(out[max(1, parts - 40):], upto[max(0, parts - 41):-1])


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
    plan = make_plan(8192, modes, (x.info(), x.info()))
    assert (plan.width, plan.each, plan.threads, plan.splits) == (8, 4, 256, 1)
    program = rows_kernel.compile(x, x, None, plan, block=256, arch="sm_90a")
    moves = [line for line in program.sass.splitlines() if " LDG" in line or " STG" in line]
    assert len(moves) >= 8 and all(".128" in line for line in moves)
    assert program.spills == 0 and program.registers <= 64
    plan = make_plan(1 << 24, [Mode(1 << 24, (1, 1)), Mode(4, (1 << 24, 1 << 24))], (x.info(), x.info()))
    assert plan.chained and plan.threads == 512
    x, words = mo.TensorLike(mo.bfloat16, (1 << 24, 4)), mo.TensorLike(mo.int64, (plan.splits, 4))
    program = chained_kernel.compile(x, x, words, mo.TensorLike(mo.int32, (1,)), plan, block=512, arch="sm_90a")
    moves = [line for line in program.sass.splitlines() if " LDG" in line or " STG" in line]
    assert sum(".128" in line for line in moves) == 8 and program.spills == 0 and program.registers <= 64


@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float32, mo.float64])
@pytest.mark.parametrize(("n", "columns"), [(49497, 204), (17897, 2688), (143, 9856), (2239, 1441), (20, 100000)])
def test_columns_do_not_spill(dtype, n, columns):
    x = mo.TensorLike(dtype, (columns, n))
    plan, grid = plan_of_columns([Mode(columns, (1, 1)), Mode(n, (columns, columns))], (x.info(), x.info()))
    words = mo.TensorLike(plan.bits, (plan.columns, -(-n // plan.rows), grid[0])) if plan.shared else None
    program = columns_kernel.compile(x, x, words, plan, block=plan.threads, arch="sm_90a")
    assert program.spills == 0 and program.registers * plan.threads * (768 // plan.threads) <= 1 << 16
    wide_ones = [line for line in program.sass.splitlines() if (" LDG" in line or " STG" in line) and ".128" in line]
    assert len(wide_ones) >= 16 or plan.width * dtype.bytes < 16


def test_splits_follow_the_device(monkeypatch):
    """A small device needs fewer blocks for one row than a large one."""
    x, made = mo.TensorLike(mo.float32, (1 << 20,)).info(), []
    for count in (2, 16, 132):
        monkeypatch.setattr(mo, "multiprocessors", lambda array, count=count: count)
        made.append(make_plan(1 << 20, [Mode(1 << 20, (1, 1)), Mode(1, (0, 0))], (x, x)).splits)
    assert made == [8, 64, 64]
