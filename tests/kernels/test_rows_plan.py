"""The rule by which threads share rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye import kernels
from moye.kernels import cross_entropy, rms_norm, softmax
from moye.kernels.rows import RowPlan, Shape, row_plan
from moye.kernels.rows.plan import widest
from moye.runtime.prepare import compile_only


@pytest.mark.parametrize("rows, columns, bits, lanes, side, rounds, cluster, at_once", [
    (16384, 64, 16, 8, 16, 1, 1, 1), (16384, 1024, 16, 32, 4, 4, 1, 1), (16384, 4096, 16, 128, 1, 4, 1, 1),
    (16384, 8192, 16, 256, 1, 4, 1, 1), (16384, 4096, 32, 256, 1, 4, 1, 1), (16384, 32768, 16, 512, 1, 4, 2, 1),
    (1024, 131072, 16, 512, 1, 4, 8, 1), (128, 262144, 32, 1024, 1, 8, 8, 1), (1, 8192, 16, 1024, 1, 1, 1, 1),
    (1, 65536, 16, 1024, 1, 1, 8, 1), (64, 65536, 16, 1024, 1, 2, 4, 1)])
def test_the_rule(rows, columns, bits, lanes, side, rounds, cluster, at_once):
    plan = row_plan(Shape(rows, columns, bits))
    assert (plan.lanes, plan.rows, plan.rounds, plan.cluster, plan.at_once) == (lanes, side, rounds, cluster, at_once)
    assert plan.whole and not plan.streamed


@pytest.mark.parametrize("bits, columns", [(16, 262144), (32, 262144), (64, 131072)])
def test_what_no_registers_hold_is_streamed(bits, columns):
    """A thread of 1024 has 32 elements at most, or 128 bytes; eight blocks share a row where there are clusters."""
    for clusters, most in ((True, columns), (False, columns // 8)):
        assert not row_plan(Shape(64, most, bits), clusters=clusters).streamed
        assert row_plan(Shape(64, most + 8, bits), clusters=clusters).streamed


def test_sums_over_rows_take_128_registers():
    """Or 64, where a row has a vector for each of more than 512 threads and does not come by bulk copies."""
    for rows, columns, lanes, rounds, cluster in ((16384, 4096, 256, 2, 1), (16384, 8192, 512, 2, 1),
                                                  (700, 8192, 1024, 1, 1), (16384, 65536, 512, 4, 4)):
        plan = row_plan(Shape(rows, columns, 16, held=2, sums=1, ahead=1))
        assert (plan.lanes, plan.rounds, plan.cluster, plan.at_once) == (lanes, rounds, cluster, 1)
        assert plan.resident * plan.threads <= (512 if plan.rounds > 1 else 1024)


def test_rows_that_pass():
    """Long rows of which one read says all: small blocks in a loop; of few rows several blocks have parts."""
    for rows, columns, shifted, lanes, cluster in (
            (16384, 8192, False, 128, 1), (8192, 128256, False, 512, 1), (7507, 4992, False, 160, 1),
            (16384, 2304, False, 96, 1), (300, 70001, True, 448, 1), (143, 208760, False, 480, 2),
            (92, 235360, False, 480, 4), (64, 128256, False, 128, 8), (3, 262144, False, 512, 8)):
        plan = row_plan(Shape(rows, columns, 16, shifted=shifted, passed=True))
        assert plan.streamed and (plan.lanes, plan.cluster, plan.resident) == (lanes, cluster, 2048 // lanes)
    for rows, columns, shifted in ((64, 8192, False), (16384, 2000, False), (16384, 4097, True)):
        shape = Shape(rows, columns, 16, shifted=shifted)
        assert row_plan(replace(shape, passed=True)) == row_plan(shape)
    shape = Shape(64, 128256, 16)
    assert row_plan(replace(shape, passed=True), clusters=False) == row_plan(shape, clusters=False)


def test_many_short_rows_that_begin_anywhere():
    """Eight lanes or more, where a kernel keeps nothing between rows; others have a lane for each vector."""
    for rows, columns, lanes in (
            (119365, 238, 8), (60000, 301, 8), (30001, 487, 16), (20000, 700, 32), (3000, 238, 32)):
        shape = Shape(rows, columns, 16, shifted=True)
        assert (row_plan(replace(shape, alone=True)).lanes, row_plan(shape).lanes) == (lanes, 32)


def test_crowded():
    """A quarter more blocks of whole rows, of no others."""
    plan = row_plan(Shape(16384, 8192, 16))
    assert (plan.resident, plan.crowded.resident) == (4, 5)
    for shape in (Shape(16384, 8193, 16, shifted=True), Shape(1024, 131072, 16), Shape(16384, 64, 16)):
        assert row_plan(shape).crowded == row_plan(shape)
    assert row_plan(Shape(16384, 65544, 16, held=2, sums=True)).streamed


def test_no_plan_of_the_rule_has_a_fault():
    """Drawn shapes, of every kind."""
    rng = np.random.default_rng(1)
    for _ in range(600):
        bits = int(rng.choice([16, 32, 64]))
        width = 1 << int(rng.integers(0, (128 // bits).bit_length()))
        columns = int(2 ** rng.uniform(0, 19)) // width * width if rng.random() < 0.5 else int(2 ** rng.uniform(0, 19))
        kind = rng.choice(["plain", "shifted", "masked", "sums", "passed", "ahead"])
        shape = Shape(int(2 ** rng.uniform(0, 14)), max(1, columns), bits, width,
                      shifted=kind == "shifted", masked=kind == "masked", held=int(rng.integers(1, 3)),
                      sums=kind == "sums", passed=kind == "passed", ahead=int(rng.integers(1, 3)) * (kind == "ahead"))
        plan = row_plan(shape, clusters=bool(rng.random() < 0.8))
        assert plan.fault(shape.columns) == "", (shape, plan)


@pytest.mark.parametrize(("plan", "words"), [
    (RowPlan(4, 32, rows=2, rounds=2, stages=2), "stages=2: bulk copies bring one row to a block"),
    (RowPlan(4, 64, streamed=True, stages=2), "stages=2: bulk copies"),
    (RowPlan(4, 32), "has 32 vectors of 4 elements"),
    (RowPlan(4, 48, rounds=2), "lanes=48, rows=1: a row has a power of two"), (RowPlan(4, 2048), "has 2048 threads"),
    (RowPlan(4, 64, rounds=2, full=2), "full=2: only 1 rounds are whole"),
    (RowPlan(8, 32, cluster=3), "cluster=3 is none of"),
    (RowPlan(4, 64, shifted=True), "edges=0: 6 elements may lie beside the vectors"),
    (RowPlan(4, 16, rows=2, rounds=2, cluster=2), "cluster=2, lanes=16, rows=2: each block of a cluster has whole"),
    (RowPlan(4, 32, rounds=2, masked=True, edges=3), "masked=True, shifted=False, edges=3: where vectors have"),
    (RowPlan(0, 64), "width=0 is no whole number"), (RowPlan(3, 96), "width=3 is no power of two"),
    (RowPlan(4, 64.0), "lanes=64.0 is no whole number"), (RowPlan(4, 64, resident=40), "resident=40 is no whole"),
    (RowPlan(4, 64, full=-1), "full=-1 is no whole number from 0")])
def test_plans_that_no_kernel_can_have_are_refused(plan, words):
    """Rows of 256 columns; each would leave elements out, or read others."""
    x = np.zeros((9, 256), np.float32)
    for call in (lambda: softmax(x, x, plan=plan), lambda: rms_norm(x, x, plan=plan),
                 lambda: cross_entropy(np.zeros((), np.float32), x, np.zeros(9, np.int64), plan=plan)):
        with pytest.raises(mo.ArgumentError, match=re.escape(words)):
            call()


@pytest.mark.parametrize(("x", "plan", "words"), [
    (np.zeros((40, 256), np.float32)[:, ::2], RowPlan(4, 32, edges=6, shifted=True), "elements of a row are no"),
    (np.zeros((40, 129), np.float32)[:, :128], RowPlan(4, 32, edges=6, shifted=True), "do not begin alike"),
    (np.zeros((40, 129), np.float32)[:, :128], RowPlan(4, 32, full=1, stages=2), "do not begin at multiples of 16"),
    (np.zeros((40, 256), np.float32)[:, ::2], RowPlan(4, 32, full=1, stages=2), "elements of a row are no")])
def test_plans_that_rows_cannot_have_are_refused(x, plan, words):
    """Rows of 128 columns, in arrays that lie otherwise than the plan says; the result's rows lie one after another."""
    out = np.zeros((40, 128), np.float32)
    for call in (lambda: softmax(out, x, plan=plan), lambda: rms_norm(out, x, plan=plan),
                 lambda: cross_entropy(np.zeros((), np.float32), x, np.zeros(40, np.int64), dlogits=out, plan=plan)):
        with pytest.raises(mo.ArgumentError, match=re.escape(words)):
            call()


ROWS = re.compile(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|( again)? \|$", re.M)


def test_the_table_of_the_page():
    """docs/rows.md has what the rule gives."""
    found = ROWS.findall((Path(__file__).parents[2] / "docs/rows.md").read_text())
    assert len(found) >= 10
    for *numbers, again in found:
        bits, rows, columns, cluster, threads, side, vectors = map(int, numbers)
        plan = row_plan(Shape(rows, columns, bits))
        assert (plan.cluster, plan.lanes, plan.rows, plan.rounds) == (cluster, threads, side, vectors), numbers
        assert plan.streamed == bool(again)


def test_every_element_has_a_thread():
    """Drawn shapes: the vectors of all rounds and the edges cover a row of any alignment, and blocks are legal."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        bits = int(rng.choice([16, 32, 64]))
        width = int(2 ** rng.integers(0, 8 - int(np.log2(bits)) + 1))
        columns, shifted = int(2 ** rng.uniform(0, 20)), bool(rng.integers(2) and width > 1)
        masked = bool(rng.integers(2)) and not shifted
        shape = Shape(int(2 ** rng.uniform(0, 16)), columns, bits, width, shifted, masked, int(rng.integers(1, 4)),
                      bool(rng.integers(2)))
        plan = row_plan(shape, clusters=bool(rng.integers(2)))
        width, shifted = plan.width, plan.shifted       # few rows that begin anywhere may go element by element
        assert plan.threads <= 1024 and plan.threads % 32 == 0 and plan.cluster in (1, 2, 4, 8)
        assert plan.rows == 1 or plan.lanes in (1, 2, 4, 8, 16, 32)
        each = plan.lanes * plan.cluster
        for lead in range(width if shifted else 1):
            vectors = -(-columns // width) if masked else max(0, columns - lead) // width
            assert vectors <= plan.rounds * each and plan.full * each <= vectors
            assert masked or columns - vectors * width <= plan.edges or plan.edges >= columns
        blocks = plan.blocks(shape.rows, 132)
        assert blocks % plan.cluster == 0
        turns = -(-shape.rows // (plan.rows * (blocks // plan.cluster)))
        assert turns == 1 or not shifted or (blocks // plan.cluster) % width == 0


@pytest.mark.parametrize("starts, pitches, alike, expected", [
    ((0, 0), (4096, 4096), True, (8, False)), ((0, 0), (4097, 4097), True, (8, True)),
    ((0, 0), (4097, 4105), True, (8, True)), ((0, 0), (4097, 4096), True, (1, False)),
    ((0, 4), (4096, 4096), True, (4, False)), ((0, 0), (4100, 4100), True, (8, True)),
    ((0,), (4100, 8200), False, (4, False)), ((1,), (4097,), True, (1, False)), ((0,), (), True, (8, False))])
def test_the_widest_access(starts, pitches, alike, expected):
    assert widest(16, starts, pitches, alike=alike) == expected


def test_rows_with_sums_come_by_bulk_copies():
    """Six of them ahead on a multiprocessor, whatever their length; not where a block has few, nor on sm_80."""
    for columns in (2048, 4096, 8192):
        whole = Shape(16384, columns, 16, held=2, sums=1, ahead=1)
        for shape in (whole, replace(whole, columns=columns - 8, shifted=True), replace(whole, columns=columns - 1)):
            plan = row_plan(shape)
            assert plan.stages == 12 and plan.rounds == 2 and plan.resident * plan.threads == 512
            assert plan.stages // 2 * plan.resident * columns * 4 <= 200 << 10
        for shape in (replace(whole, rows=500), replace(whole, width=4), replace(whole, ahead=0)):
            assert not row_plan(shape).stages
        assert not row_plan(whole, clusters=False).stages


@pytest.mark.parametrize("bits, columns, sums, cluster, two", [
    (16, 16384, 1, 1, True), (16, 65536, 2, 4, True), (16, 131072, 2, 8, True), (16, 262144, 1, 8, False),
    (32, 32768, 1, 4, True), (32, 131072, 1, 8, False)])
def test_long_rows_with_sums(bits, columns, sums, cluster, two):
    """As few blocks as have room for three rows; more columns than registers have sums for are read apart."""
    plan = row_plan(Shape(2000, columns, bits, held=2, sums=sums, ahead=1))
    assert (plan.cluster, plan.resident, plan.streamed) == (cluster, 1, False) and plan.threads <= 512
    assert plan.stages >= (2 if two else 1) * plan.rounds and plan.rounds * plan.width * sums <= 64
    assert row_plan(Shape(2000, 2 * columns, bits, held=2, sums=2, ahead=1)).streamed == (cluster == 8)


@pytest.mark.parametrize("columns, width, shifted, expected", [
    (112, 8, False, (4, 32, 1)), (544, 8, False, (4, 160, 1)), (4096, 8, False, (8, 512, 1)),
    (1001, 8, True, (1, 1024, 1)), (4097, 8, True, (8, 512, 1)), (1002, 8, False, (2, 512, 1))])
def test_few_rows_have_narrow_vectors(columns, width, shifted, expected):
    """And ask for all at once; rows that pass, and many rows, do not."""
    plan = row_plan(Shape(5, columns, 16, width, shifted))
    assert (plan.width, plan.lanes, plan.rounds) == expected and plan.eager
    many = row_plan(Shape(5000, columns, 16, width, shifted))
    assert many.width == width and not many.eager
    passing = row_plan(Shape(5, columns, 16, width, passed=True))
    assert passing.width == width


def test_blocks_of_columns_keep_their_width():
    assert row_plan(Shape(5, 128, 16, 8, least=4)).width == 4 and row_plan(Shape(5, 128, 16, 8, least=8)).width == 8


@pytest.mark.parametrize("columns", [20001, 70001, 131071])
@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float32])
def test_one_odd_row(columns, dtype):
    """It begins with a vector, and nothing is said of a second one: kernels that promise that are not launched."""
    x, weight = mo.TensorLike(dtype, (1, columns), (columns, 1)), mo.TensorLike(dtype, (columns,))
    number, label = mo.TensorLike(mo.float32, (1,)), mo.TensorLike(mo.int32, (1,))
    with compile_only("sm_90a", trace_only=True) as made:
        kernels.rms_norm(x, x, weight)
        kernels.layer_norm_backward(x, x, x, weight, number, number, dweight=weight, dbias=weight)
        kernels.softmax(x, x)
        kernels.softmax_backward(x, x, x)
        kernels.cross_entropy(number, x, label)
        kernels.cross_entropy(number, x, label, dlogits=x)
    assert len(made.jobs) >= 6
