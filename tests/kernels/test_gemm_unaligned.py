"""Products whose lines begin anywhere, in the simulator under every check: C stored by rows, rows shifted.

The arrays of ``test_gemm_sm90`` begin at odd places; these begin at multiples of 16 bytes, and their lines do not.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import TensorConfig, gemm_sm80, gemm_sm90
from moye.kernels.gemm.sm80.config import configs as sm80_configs
from moye.kernels.gemm.sm80.plan import major_of
from moye.kernels.gemm.sm90 import host
from moye.kernels.gemm.sm90.choice import choose
from moye.kernels.gemm.sm90.config import Problem, estimate, takes_rows, tiles_of
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.runtime.prepare import compile_only
from warpgroup_products import Fused, check_error, expected, poisoned, tile

BF16 = ml_dtypes.bfloat16


def matrix(rng, rows, columns, order="C", dtype=BF16):
    """Random-normal, lines without a gap, memory behind it poisoned."""
    memory = poisoned(rows * columns + 16, dtype)
    x = memory[:rows * columns].reshape((rows, columns) if order == "C" else (columns, rows))
    x[...] = rng.standard_normal(x.shape)
    return (x if order == "C" else x.T), memory


def agree(M, N, K, orders, config, *, out=BF16, beta=0, residual=False, activation="none"):
    """One product without findings, near float64; nothing behind C is written."""
    rng = np.random.default_rng([M, N, K])
    (A, _), (B, _), (R, _) = (matrix(rng, *shape) for shape in ((M, K, orders[0]), (N, K, orders[1]), (M, N)))
    C, memory = matrix(rng, M, N, orders[2:] or "C", out)
    before = C.copy() if beta else None
    if not beta:
        C[...] = np.nan
    with mo.checking() as reports:
        gemm_sm90(A, B, C, beta=beta, residual=R if residual else None, activation=activation, config=config)
    assert reports
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
    """Wide ones element by element."""
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


@pytest.mark.parametrize("seed", range(14))
def test_drawn_rows(seed):
    """Tiles of any width that share columns with their neighbours, rows with gaps, batches, clusters, what is fused."""
    rng = np.random.default_rng(seed)
    bN, (bM, schedule, groups) = 16 * int(rng.integers(1, 13)), ((64, "cooperative", 1), (128, "cooperative", 2),
                                                                 (128, "pingpong", 2))[rng.integers(3)]
    M, N, K = int(rng.integers(1, 150)), int(rng.integers(1, 3 * bN + 2)), 8 * int(rng.integers(1, 12))
    shared = rng.integers(3) if bM * bN >= 128 * 64 and schedule == "cooperative" else 0
    config = tile("bf16", bM, bN, 2, schedule, groups, share_A=1 + int(shared == 1), share_B=1 + int(shared == 2))
    batch, gap = (int(rng.integers(1, 3)),) if rng.random() < 0.3 else (), int(rng.integers(0, 4))
    memory = poisoned(math.prod((*batch, M, N + gap)), BF16).reshape(*batch, M, N + gap)
    A, B = (rng.standard_normal((*batch, n, K)).astype(BF16) for n in (M, N))
    bias = rng.standard_normal(N).astype(BF16) if rng.random() < 0.3 else None
    want = A.astype(np.float64) @ np.swapaxes(B, -1, -2).astype(np.float64)
    with mo.checking() as reports:
        gemm_sm90(*(np.moveaxis(x, 0, -1) if batch else x for x in (A, B, memory[..., :N])), bias=bias, config=config)
    assert reports and all(report.ok for report in reports), reports
    want += 0 if bias is None else bias.astype(np.float64)
    assert np.abs(memory[..., :N].astype(np.float64) - want).max() < 0.01 * max(1, np.abs(want).max())
    assert np.isnan(memory[..., N:].astype(np.float32)).all(), "something between rows of C was written"


@pytest.mark.parametrize("N", [48, 49, 95, 96, 97, 145, 161])
def test_tiles_share_columns_with_their_neighbours(N):
    """As many tiles as cover rows of any begin, none more: the grid has a block for each, and the model knows them."""
    config, c = tile("bf16", 64, 48, 2), mo.TensorLike(mo.bfloat16, (64, N), (N, 1))
    spaced = mo.TensorLike(mo.bfloat16, (N, 64), (64, 1))
    recipe = host._recipe(*(mo.describe(x) for x in (mo.TensorLike(mo.bfloat16, (64, 64), (64, 1)), spaced, c)),
                          Fusion(), False, config, 132)
    overlap = 16 if N > 48 and N % 8 else 0             # of the only tile, and where TMA stores C, none
    starts = range(0, N + (overlap and 15), 48 - overlap)       # rows begin up to 15 columns in front of a sector
    assert recipe.plan.C.overlap == overlap and math.prod(recipe.grid) == len(starts)
    problem = host.problem_of(*(mo.describe(x) for x in (mo.TensorLike(mo.bfloat16, (64, 64), (64, 1)), spaced, c)),
                              Fusion(), False)
    assert tiles_of(config, problem) == (1, len(starts))


@pytest.mark.parametrize(("change", "wanted"), [
    ({}, True), ({"bN": 32}, False), ({"store": "element"}, False), ({"stages": 5}, True), ({"stages": 6}, False)])
def test_what_has_no_room_for_rows_is_stored_by_threads(change, wanted):
    """Narrow tiles cannot share columns, and stages may leave no memory for 64 rows of each warpgroup."""
    config = replace(tile("bf16", 128, 128, 4, groups=2), **change)
    assert takes_rows(config, 2, 333) == wanted
    assert takes_rows(replace(config, stages=2), 2, 32) == (change.get("store") != "element")


def test_the_model_knows_what_copies_cost():
    """They cost every configuration the same, and what reads operands as they lie is compared with the sum."""
    problem = Problem(3, 18006, 72566, 1, mo.bfloat16, plain=True)
    copied = replace(problem, copies=(3 * 72566 * 2, 18006 * 72566 * 2))
    best = choose(problem, 132)
    assert choose(copied, 132) == best
    assert estimate(best, copied, 132) > 2 * estimate(best, problem, 132)


@pytest.mark.slow
@pytest.mark.parametrize(("orders", "config"), [("CC", tile("bf16", 128, 128, 5, "pingpong", 2)),
                                                ("FF", tile("bf16", 128, 256, 3, groups=2))], ids=str)
def test_nothing_spills_and_rows_are_stored_in_parts(config, orders):
    """Of tiles inside of C, and of those at its edges; 16 or 32 threads have the parts of a row."""
    M, N, K = 300, 4097, 4099
    A, B, C = np.zeros((M, K), BF16, orders[0]), np.zeros((N, K), BF16, orders[1]), np.zeros((M, N), BF16)
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, config=config)
    program = gathered.programs[-1]
    assert program.spills == program.stack == 0
    assert not re.findall(r"\((C75\d+)\)", program.compiled.log)
    assert len(re.findall(r"STG\.E\.128", program.sass)) == 2 * config.rows // 64 * (config.bN // 16)


# --- rows shifted on their way to shared memory ----------------------------------------------------------------------

SHIFTED = TensorConfig(64, 64, 64, 2, 2, 2, 2)


def shifted(M, N, K, orders="CC", *, splits=1, config=SHIFTED, dtype=BF16, out=None, **fused):
    """``gemm_sm80`` without findings, near float64, nothing read that is not of the operands."""
    rng = np.random.default_rng([M, N, K])
    (A, _), (B, _) = (matrix(rng, rows, K, order, dtype) for rows, order in ((M, orders[0]), (N, orders[1])))
    C, memory = matrix(rng, M, N, dtype=out or dtype)
    C[...] = np.nan
    with mo.checking() as reports:
        gemm_sm80(A, B, C, config=config, splits=splits, **fused)
    assert len(reports) == (1 if splits == 1 else 2)
    for report in reports:
        assert report.ok, str(report)
    check_error(C, *expected(A, B, Fused(1, 0, None, None, None, None, None), lambda x: x, gated=False))
    assert np.isnan(memory[M * N:].astype(np.float32)).all()


@pytest.mark.parametrize("size", [(65, 71, 67), (3, 7, 9), (1, 71, 129), (70, 72, 130)], ids=str)
def test_rows_that_begin_anywhere(size):
    """By 2, 4 or 8 bytes, one row, and fewer elements than a tile has."""
    shifted(*size)


@pytest.mark.parametrize("size", [(65, 71, 67), (9, 11, 3), (70, 13, 130), (34, 36, 129)], ids=str)
def test_lines_along_the_rows_that_begin_anywhere(size):
    """Fewer rows than a tile has, lines that begin 2, 4 and 8 bytes behind, and fewer than the tile takes."""
    shifted(*size, "FF")


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC"])
@pytest.mark.parametrize("config", sm80_configs(mo.bfloat16, shifted=True), ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_each_configuration_for_them(config, orders):
    shifted(config.bM + 5, config.bN + 3, 131, orders, config=config, dtype=np.float16)


def test_rows_of_four_bytes_that_begin_anywhere():
    """Four elements are 16 bytes."""
    shifted(65, 71, 67, out=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "FF"])
def test_one_row_of_c_more_or_less_than_16_bytes_and_fused(orders):
    for N in (1, 7, 9, 15, 63, 129):
        shifted(9, N, 33, orders)
    for splits in (2, 3):
        shifted(70, 71, 397, orders, splits=splits)


def test_a_single_stage_is_refused():
    A, C = np.zeros((64, 67), BF16), np.zeros((64, 64), BF16)
    with pytest.raises(mo.ArgumentError, match="at least 2"):
        gemm_sm80(A, A, C, config=replace(SHIFTED, stages=1))


@pytest.mark.slow
def test_beside_an_operand_of_another_kind():
    """Aligned rows, aligned lines along the rows, and splits of K."""
    shifted(65, 72, 66, "CF")
    shifted(64, 71, 67, "FC")
    shifted(65, 71, 64)
    shifted(70, 30, 333, splits=2)


@pytest.mark.parametrize("order", ["C", "F"])
def test_operands_that_begin_elsewhere_and_nan_beyond_their_rows(order):
    """Neighbours in the same 16 bytes are NaN, and so are rows and columns of which only some are multiplied."""
    rng = np.random.default_rng(8)
    A, B = (np.full((rows + 7, 75), np.nan, BF16, order) for rows in (33, 41))
    A, B = A[2:-5, 3:70], B[2:-5, 3:70]
    A[...], B[...] = (rng.standard_normal(X.shape) for X in (A, B))
    C = np.full((33, 41), np.nan, BF16)
    with mo.checking() as reports:
        gemm_sm80(A, B, C, config=SHIFTED)
    assert [report.ok for report in reports] == [True]
    check_error(C, *expected(A, B, Fused(1, 0, None, None, None, None, None), lambda x: x, gated=False))


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "FF"])
@pytest.mark.parametrize("config", sm80_configs(mo.bfloat16, shifted=True)[::2], ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_lines_come_16_bytes_at_a_time_and_nothing_spills(config, orders):
    A, B, C = np.zeros((301, 4097), BF16, orders[0]), np.zeros((401, 4097), BF16, orders[1]), np.zeros((301, 401), BF16)
    with compile_only("sm_90a") as gathered:
        gemm_sm80(A, B, C, config=config, splits=1)
    program, = gathered.programs
    assert program.spills == program.stack == 0
    assert "LDGSTS.E.BYPASS.128" in program.sass and "STG.E.128" in program.sass


# --- lines of 32 bits, multiplied where they arrive ------------------------------------------------------------------

WORDS = TensorConfig(64, 64, 32, 3, 2, 2, 2)


def words(M, N, K, orders="CC", *, splits=1, config=WORDS, lead=0, gap=0):
    """``gemm_sm80`` of float32 without findings, near float64; what lies around the operands is NaN."""
    rng = np.random.default_rng([M, N, K])
    operands = []
    for rows, order in zip((M, N), orders, strict=True):
        lines, extent = (rows, K) if order == "C" else (K, rows)
        memory = np.full(lead + lines * (extent + gap), np.nan, np.float32)
        X = memory[lead:].reshape(lines, extent + gap)[:, :extent]
        X[...] = rng.standard_normal(X.shape)
        operands.append(X if order == "C" else X.T)
    C = np.full((M, N), np.nan, np.float32)
    with mo.checking() as reports:
        gemm_sm80(*operands, C, config=config, splits=splits)
    assert len(reports) == (1 if splits == 1 else 2)
    for report in reports:
        assert report.ok, str(report)
    want = operands[0].astype(np.float64) @ operands[1].T.astype(np.float64)
    assert np.abs(C - want).max() < 2 ** -10 * 3 * math.sqrt(K)


@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC"])
@pytest.mark.parametrize("size", [(65, 71, 67), (9, 11, 195), (70, 13, 5)], ids=str)
def test_lines_of_words_that_begin_anywhere(size, orders):
    """By 4, 8 or 12 bytes; whole k tiles in the middle, and rows and k that end inside of 16 bytes."""
    words(*size, orders)


@pytest.mark.parametrize("orders", ["CC", "FF"])
@pytest.mark.parametrize(("lead", "gap"), [(1, 0), (2, 3), (3, 1), (5, 6)])
def test_their_memory_begins_and_ends_inside_of_16_bytes(lead, gap, orders):
    words(35, 41, 163, orders, lead=lead, gap=gap)
    words(35, 41, 163, orders, lead=lead, gap=gap, splits=2)


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC"])
@pytest.mark.parametrize("config", sm80_configs(mo.float32, shifted=True), ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}-{c.wM}")
def test_each_configuration_for_words(config, orders):
    """Also beside an operand whose lines are aligned."""
    words(config.bM + 5, config.bN + 3, 3 * config.bK + 7, orders, config=config)
    words(config.bM + 8, config.bN + 3, 2 * config.bK, orders, config=config)


def test_lines_that_overlap_come_one_by_one():
    """Windows of a signal: their lines begin closer to each other than they are long."""
    signal = np.random.default_rng(1).standard_normal(90).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(signal, 37)
    C = np.full((54, 54), np.nan, np.float32)
    with mo.checking() as reports:
        gemm_sm80(windows, windows, C, config=WORDS)
    assert [report.ok for report in reports] == [True]
    assert np.abs(C - windows.astype(np.float64) @ windows.T.astype(np.float64)).max() < 0.03


def test_a_thread_multiplies_lines_that_begin_alike():
    """What ``in_place`` rests on: rows of a fragment are equal modulo 4, and so are its k."""
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.make_layout((2, 2, 1)), (32, 32, 8))
    for thread in range(128):
        own = mma.get_slice(thread)
        for part, lane in ((own.partition_A, thread % 32), (own.partition_B, thread % 32)):
            at = part(mo.identity_tensor((64, 32)))
            places = [at[i] for i in range(mo.size(at))]
            assert {row % 4 for row, _ in places} == {lane // 4 % 4}
            assert {k % 4 for _, k in places} == {lane % 4}


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["CC", "FF"])
@pytest.mark.parametrize("config", sm80_configs(mo.float32, shifted=True)[::3], ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_words_come_16_bytes_at_a_time_and_nothing_spills(config, orders):
    A, B, C = (np.zeros(shape, np.float32, order) for shape, order in
               (((301, 4097), orders[0]), ((401, 4097), orders[1]), ((301, 401), "C")))
    with compile_only("sm_90a") as gathered:
        gemm_sm80(A, B, C, config=config, splits=1)
    program, = gathered.programs
    assert program.spills == program.stack == 0
    assert "LDGSTS.E.BYPASS.LTC128B.128" in program.sass


# --- batches of both -------------------------------------------------------------------------------------------------


def batches(rng, count, rows, K, order, dtype, *, beside=False, lead=0):
    """(rows, K, count), one behind the other or ``beside`` each other in the rows; what lies around them is NaN."""
    lines, extent = (rows, K) if order == "C" else (K, rows)
    shape = (lines, count, extent) if beside else (count, lines, extent)
    memory = np.full(lead + math.prod(shape) + 9, np.nan, dtype)
    X = memory[lead:lead + math.prod(shape)].reshape(shape)
    X[...] = rng.standard_normal(shape)
    X = np.moveaxis(X, 1 if beside else 0, 2)                           # (lines, extent, count)
    return X if order == "C" else X.transpose(1, 0, 2)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("orders", ["CC", "FF", "CF"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_batches_that_begin_anywhere(dtype, orders, beside, splits):
    """Each batch begins otherwise far behind 16 bytes; one B may be that of all."""
    rng = np.random.default_rng([splits, beside])
    config = SHIFTED if dtype is np.float16 else WORDS
    for size, lead, shared in (((35, 41, 163), 3, False), ((9, 70, 67), 0, True)):
        A, B = (batches(rng, 3, rows, size[2], order, dtype, beside=beside, lead=lead)
                for rows, order in zip(size, orders, strict=False))
        B = np.broadcast_to(B[:, :, :1], B.shape) if shared else B
        C = np.full((3, *size[:2]), np.nan, dtype).transpose(1, 2, 0)
        majors = [major_of(mo.describe(X), X.shape[0], X.shape[1]) for X in (A, B)]
        assert all(major.startswith("shift") for major in majors)
        with mo.checking() as reports:
            gemm_sm80(A, B, C, config=config, splits=splits)
        for report in reports:
            assert report.ok, str(report)
        want = np.einsum("mkl,nkl->mnl", A.astype(np.float64), B.astype(np.float64))
        assert np.abs(C - want).max() < 2 ** -10 * 3 * math.sqrt(size[2])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("orders", ["CC", "FF"])
def test_batches_come_16_bytes_at_a_time_and_nothing_spills(orders, dtype):
    rng = np.random.default_rng(6)
    A, B = (batches(rng, 3, rows, 197, order, dtype) for rows, order in zip((301, 401), orders, strict=True))
    C = np.zeros((3, 301, 401), dtype).transpose(1, 2, 0)
    for config in sm80_configs(mo.float16 if dtype is np.float16 else mo.float32, shifted=True)[::3]:
        with compile_only("sm_90a") as gathered:
            gemm_sm80(A, B, C, config=config, splits=1)
        program, = gathered.programs
        assert program.spills == program.stack == 0
        assert "LDGSTS.E.BYPASS" in program.sass
