"""Products whose lines begin anywhere, in the simulator under every check: loaded by lines, C stored by rows.

The arrays of ``test_gemm_sm90`` begin at odd places; these begin at multiples of 16 bytes, and their lines do not.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_sm90
from moye.kernels.gemm.sm90.config import Problem, candidates, estimate
from moye.kernels.workspace import every
from moye.runtime.prepare import compile_only
from warpgroup_products import Fused, check_error, expected, poisoned, tile

BF16 = ml_dtypes.bfloat16


def matrix(rng, rows, columns, order="C", dtype=BF16):
    """Random-normal, lines without a gap, memory behind it poisoned."""
    memory = poisoned(rows * columns + 16, dtype)
    x = memory[:rows * columns].reshape((rows, columns) if order == "C" else (columns, rows))
    x[...] = rng.standard_normal(x.shape)
    return (x if order == "C" else x.T), memory


def agree(M, N, K, orders, config, *, out=BF16, beta=0, residual=False, activation="none", launches=1):
    """One product without findings, near float64; nothing behind C is written."""
    rng = np.random.default_rng([M, N, K])
    (A, _), (B, _), (R, _) = (matrix(rng, *shape) for shape in ((M, K, orders[0]), (N, K, orders[1]), (M, N)))
    C, memory = matrix(rng, M, N, orders[2:] or "C", out)
    before = C.copy() if beta else None
    if not beta:
        C[...] = np.nan
    with mo.checking() as reports:
        gemm_sm90(A, B, C, beta=beta, residual=R if residual else None, activation=activation, config=config)
    assert len(reports) == launches, f"{len(reports)} launches"
    for report in reports:
        assert report.ok, str(report)
    fused = Fused(1, beta, before, R if residual else None, None, None, None)
    check_error(C, *expected(A, B, fused, lambda x: np.maximum(x, 0) if activation == "relu" else x, gated=False))
    assert np.isnan(memory[M * N:].astype(np.float32)).all(), "something behind C was written"


# --- stored by rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 7, 63, 66, 130])
def test_rows_of_copied_operands(N):
    """Pieces that are whole, that end, and that are shorter than 16 bytes."""
    agree(70, N, 40, "CC", tile("bf16", 64, 64))


@pytest.mark.slow
@pytest.mark.parametrize("out", [np.float16, np.float32])
def test_rows_of_other_dtypes(out):
    agree(70, 71, 40, "CC", tile("bf16", 128, 128, groups=2), out=out)


@pytest.mark.slow
def test_rows_of_a_turned_product():
    """C^T is row-major where C is column-major."""
    agree(71, 70, 40, "CCF", tile("bf16", 64, 64, swap=True))
    agree(71, 70, 40, "CCF", tile("bf16", 64, 64))


@pytest.mark.slow
def test_three_warpgroups_in_turns_and_fused():
    agree(200, 129, 40, "CC", tile("bf16", 192, 64, groups=3))
    agree(200, 129, 40, "CC", tile("bf16", 64, 128, schedule="pingpong", groups=2))
    agree(70, 71, 40, "CC", tile("bf16", 64, 64), residual=True, activation="relu")


# --- loaded by lines -------------------------------------------------------------------------------------------------

SCHEDULES = {
    "one": (70, 71, 67, {"bM": 64, "bN": 64}), "two": (130, 201, 100, {"bM": 128, "bN": 128, "groups": 2}),
    "in_turns": (200, 130, 131, {"bM": 128, "bN": 64, "schedule": "pingpong", "groups": 2}),
    "tall": (257, 45, 66, {"bM": 256, "bN": 48, "groups": 2}), "narrow": (71, 13, 67, {"bM": 64, "bN": 16}),
    "turned": (3, 71, 67, {"bM": 64, "bN": 8, "swap": True}),
    "cluster": (71, 93, 667, {"bM": 64, "bN": 64, "split_k": 2}),
    "memory": (71, 93, 333, {"bM": 64, "bN": 64, "split_k": 3, "gather": "memory"}),
}


@pytest.mark.parametrize("name", [name if name in ("two", "turned") else pytest.param(name, marks=pytest.mark.slow)
                                  for name in SCHEDULES])
def test_rows_of_both_operands(name):
    """One launch: nothing is copied."""
    M, N, K, config = SCHEDULES[name]
    agree(M, N, K, "CC", tile("bf16", **config, lines=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "in_turns", "narrow", "cluster"])
def test_lines_along_the_rows(name):
    M, N, K, config = SCHEDULES[name]
    agree(M, N, K, "FF", tile("bf16", **config, lines=True))


@pytest.mark.slow
@pytest.mark.parametrize(("orders", "launches"), [("CF", 2), ("FC", 2)])
def test_of_two_orders_one_is_copied(orders, launches):
    """K comes in order in one of them alone."""
    agree(65, 71, 67, orders, tile("bf16", 64, 64, lines=True), launches=launches)


@pytest.mark.slow
def test_an_aligned_operand_beside_one_by_lines():
    agree(72, 71, 67, "FC", tile("bf16", 64, 64, lines=True))
    agree(72, 71, 67, "FF", tile("bf16", 64, 64, lines=True))
    agree(70, 72, 67, "CC", tile("bf16", 64, 64, lines=True))
    agree(70, 72, 67, "CF", tile("bf16", 64, 64, lines=True))


@pytest.mark.slow
@pytest.mark.parametrize("fused", [{"beta": 0.5}, {"residual": True, "activation": "relu"}], ids=str)
def test_what_is_fused_finds_its_rows_and_columns(fused):
    agree(70, 139, 67, "CC", tile("bf16", 128, 128, groups=2, lines=True), **fused)
    agree(11, 139, 67, "CC", tile("bf16", 64, 16, swap=True, lines=True), **fused)


@pytest.mark.parametrize("case", ["bias", "batch", "odd"])
def test_what_comes_by_lines_no_more_is_copied(case):
    """A vector is read once for several columns; three modes, and a matrix that begins elsewhere, have other lines."""
    rng, config = np.random.default_rng(5), tile("bf16", 64, 64, lines=True)
    A, B = (matrix(rng, rows, 67)[0] for rows in (40, 71))
    C, bias = np.zeros((40, 71), BF16), np.zeros(71, np.float32) if case == "bias" else None
    if case == "batch":
        A, B, C = A[:, :, None], B[:, :, None], C[:, :, None]
    if case == "odd":
        A, B = A[:, 1:], B[:, 1:]
    with mo.checking() as reports:
        gemm_sm90(A, B, C, bias=bias, config=config)
    assert [report.ok for report in reports] == [True] * 3
    A, B, C = (x[:, :, 0] if x.ndim == 3 else x for x in (A, B, C))
    check_error(C, *expected(A, B, Fused(1, 0, None, None, None, None, None), lambda x: x, gated=False))


def test_every_eighth_line():
    x = np.arange(21 * 11, dtype=np.uint16).reshape(21, 11)
    info = mo.describe(x)
    for first in range(8):
        lead = first * 11 % 8
        assert np.array_equal(every(x, info, 8, first, 1)[:, lead:], x[first::8])
        assert np.array_equal(every(x.T, mo.describe(x.T), 8, first, 0)[lead:], x.T[:, first::8])
        assert every(x, info, 8, first, 1).ctypes.data % 16 == x.ctypes.data % 16


def test_the_model_knows_what_copies_cost():
    """Few rows and a long K: two copies of all there is to read, or none."""
    copies = 3 * 72566 * 2, 18006 * 72566 * 2
    problem = Problem(3, 18006, 72566, 1, mo.bfloat16, plain=True, copies=copies, by_lines=())
    best = min(candidates(problem), key=lambda config: estimate(config, problem, 132))
    assert best.lines
    copied = min(estimate(config, problem, 132) for config in candidates(problem) if not config.lines)
    assert estimate(best, problem, 132) < 0.6 * copied


@pytest.mark.slow
@pytest.mark.parametrize(("orders", "config"), [("CC", tile("bf16", 128, 128, 5, "pingpong", 2)),
                                                ("FF", tile("bf16", 128, 128, 5, groups=2)),
                                                ("CC", tile("bf16", 64, 16, 12, swap=True))], ids=str)
def test_nothing_spills_and_rows_are_stored_in_parts(config, orders):
    M, N, K = (9 if config.swap else 300), 4097, 4099
    A, B, C = np.zeros((M, K), BF16, orders[0]), np.zeros((N, K), BF16, orders[1]), np.zeros((M, N), BF16)
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, config=replace(config, lines=True))
    program, = gathered.programs
    assert program.spills == program.stack == 0
    assert not re.findall(r"\((C75\d+)\)", program.compiled.log)
    assert len(re.findall(r"STG\.E\.128", program.sass)) == (0 if config.swap else config.rows * config.bN // 1024)
