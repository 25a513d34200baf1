"""``gemm_simt`` against float64 NumPy in the simulator, checks on: shapes, transposes, dtypes, splits, scaling."""

from dataclasses import astuple, replace

import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_simt, tuned_gemm_simt
from moye.kernels.gemm.parts import arguments
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.simt import choice, few, few_kernel
from moye.kernels.gemm.simt.choice import Way, copies, streams
from moye.kernels.gemm.simt.config import (
    COSTS,
    DOUBLE,
    FLOAT,
    Problem,
    choose,
    configs,
    most_parts,
    parts_of,
    streaming,
    turned,
)

H200 = 132                              # multiprocessors

TOLERANCE = {"f4": 1e-5, "f8": 1e-13, "i4": 0.0}


def matrix(rng, shape, dtype, order):
    values = rng.integers(-50, 50, shape) if dtype == "i4" else rng.standard_normal(shape)
    return np.array(values, dtype=dtype, order=order)


def agree(M, N, K, dtype="f4", orders="FFF", alpha=1, beta=0, **options):
    rng = np.random.default_rng(M + 7 * N + 31 * K)
    A, B = matrix(rng, (M, K), dtype, orders[0]), matrix(rng, (N, K), dtype, orders[1])
    C = matrix(rng, (M, N), dtype, orders[2])
    expected = alpha * (A.astype("f8") @ B.astype("f8").T) + beta * C.astype("f8")
    if not beta:
        C[...] = np.nan if dtype != "i4" else 77
    assert gemm_simt(A, B, C, alpha=alpha, beta=beta, **options) is not None
    assert np.linalg.norm(C - expected) <= TOLERANCE[dtype] * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("config", "orders"), [
    (config, orders) for i, config in enumerate(FLOAT) for orders in (("FFF", "CCF"), ("CFF", "FCF"))[i % 2]],
    ids=lambda x: x if isinstance(x, str) else f"{x.bM}x{x.bN}x{x.bK}")
def test_every_configuration_full_and_ragged(config, orders):
    """Whole tiles, or one row less, where nothing is aligned, or four, where 16 bytes are still copied at a time.

    Either operand is copied along both of its modes; how the other one lies does not matter to that.
    """
    less = (0, 1, 4)[(FLOAT.index(config) + "FFF CFF FCF CCF".index(orders) // 4) % 3]
    agree(2 * config.bM - less, config.bN + 3 * less, 4 * config.bK - less, orders=orders, config=config, splits=1)


@pytest.mark.slow
@pytest.mark.parametrize("config", DOUBLE, ids=lambda c: f"{c.bM}x{c.bN}")
def test_double(config):
    agree(config.bM, 2 * config.bN, 3 * config.bK, "f8", config=config)
    agree(config.bM + 1, config.bN - 1, config.bK + 1, "f8", "CFC", config=config)


@pytest.mark.slow
@pytest.mark.parametrize("orders", ["FFF", "CFF", "FCF", "CCF", "FFC", "CFC", "FCC", "CCC"])
def test_all_transposes(orders):
    agree(96, 64, 48, orders=orders)
    agree(97, 63, 50, orders=orders)


@pytest.mark.slow
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (5, 3, 0), (1, 130, 17), (130, 1, 16), (0, 3, 4), (3, 0, 4)])
def test_tiny_and_empty(M, N, K):
    agree(M, N, K)


@pytest.mark.slow
@pytest.mark.parametrize("M, N, K, splits", [(64, 96, 256, 4), (63, 95, 250, 3), (64, 64, 40, 8)])
def test_split_k(M, N, K, splits):
    agree(M, N, K, splits=splits)
    agree(M, N, K, splits=splits, alpha=0.5, beta=-2.0, orders="FFC")


def copy_first(monkeypatch, which):
    """Tell ``gemm_simt`` to copy these operands."""
    monkeypatch.setattr(choice, "choose", lambda problem, multiprocessors: Way(
        *choose(turned(problem, which), multiprocessors), which))


@pytest.mark.parametrize("M, N, K", [(68, 36, 40), (67, 35, 41), (30, 202, 9)])
@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_copied_first(M, N, K, which, monkeypatch):
    """Long products are; these are too short for it, unless they are told to.  Copies have rows that C does not."""
    copy_first(monkeypatch, which)
    for orders in ("CCF", "CCC", "FFF"):
        with mo.checking() as reports:
            agree(M, N, K, orders=orders, beta=0.5)
        assert [report.ok for report in reports] == [True] * (1 + sum(which))
    agree(M, N, K, "i4", orders="CCF")


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_batches_are_copied_first(which, monkeypatch):
    copy_first(monkeypatch, which)
    rng = np.random.default_rng(4)
    A, B, C = (np.moveaxis(matrix(rng, shape, "f4", "C"), 0, 2) for shape in ((3, 67, 41), (3, 35, 41), (3, 67, 35)))
    C[...] = np.nan
    with mo.checking() as reports:
        gemm_simt(A, B, C)
    assert [report.ok for report in reports] == [True] * (1 + sum(which))
    expected = np.einsum("mkl,nkl->mnl", A.astype("f8"), B.astype("f8"))
    assert np.linalg.norm(C - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("lines", ["C", "F"])
def test_a_single_row_has_any_stride(lines):
    """That of the transpose of a column is 1: the row lies along K all the same, and is multiplied without tiles."""
    rng = np.random.default_rng(3)
    column, B = rng.standard_normal((4096, 1)).astype("f4"), rng.standard_normal((200, 4096)).astype("f4")
    A, C = np.asarray(column.T, order=lines), np.full((1, 200), np.nan, "f4")
    with mo.checking() as reports:
        gemm_simt(A, B, C)
    assert [report.kernel for report in reports] == ["gemm_few_kernel"] and reports[0].ok
    expected = A.astype("f8") @ B.astype("f8").T
    assert np.linalg.norm(C - expected) <= 1e-5 * np.linalg.norm(expected)


def test_what_is_copied_first():
    """Operands of 4 bytes along K, or whose lines begin anywhere, where arrays can be made and products are long."""
    lying = Problem(4096, 4096, 4096, 4, ("k vector", "k"))
    assert choice.choose(lying, H200).copied == (True, True) and len(copies(lying, H200)) == 4
    assert turned(lying, (True, False)).majors == ("vector", "k")
    assert choice.choose(replace(lying, majors=("vector", "k")), H200).copied == (False, True)
    assert copies(replace(lying, majors=("vector", "element")), H200) == [(False, False), (False, True)]
    assert choice.choose(replace(lying, K=16), H200).copied == (False, False)
    for other in (replace(lying, K=4, M=64), replace(lying, workspace=False), replace(lying, bytes=8),
                  replace(lying, majors=("vector", "vector"))):
        assert copies(other, H200) == [(False, False)] and choice.choose(other, H200).copied == (False, False)


def test_the_trees_correct_the_costs_that_there_are():
    """Fitted costs ask for fitted trees: gemm_simt_choice_fit.py."""
    with np.load(choice.FITTED) as found:
        assert found["costs"].tolist() == list(astuple(COSTS))


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_a_way_near_the_best_of_the_model(seed):
    """And the least of what is corrected; batches, of which none were measured, follow the model."""
    rng = np.random.default_rng(seed)
    M, N, K = (int(np.exp(rng.uniform(0, np.log(6000)))) for _ in range(3))
    problem = Problem(M, N, K, 4, (("vector", "k")[rng.integers(2)], ("element", "k vector")[rng.integers(2)]))
    found = choice.timed(problem, H200)
    short = choice.shortlist(found)
    rows = np.array([choice.features(way, problem, us, H200) for us, way in short])
    assert rows.shape[1] == len(choice.FEATURES)
    best = min(zip(choice.corrected(short, problem, H200), short, strict=True), key=lambda one: one[0])[1][1]
    assert choice.choose(problem, H200) == best and best in [way for _, way in found]
    assert best.estimate(problem, H200) <= 1.6 * found[0][0]
    many = replace(problem, batches=3)
    assert choice.choose(many, H200) == choice.timed(many, H200)[0][1]


def test_scaling_and_accumulation():
    agree(130, 70, 40, alpha=2.0, beta=0.5)
    agree(130, 70, 40, "f8", alpha=0.1, beta=0.3)


def drawn_matrices(rng, shape, dtype, batches):
    """A matrix or a batch of them, (.., .., L), lines along either mode, batches before or behind them, some apart."""
    order = [1, 0] if rng.random() < 0.5 else [0, 1]
    whole = [*shape] if batches is None else [*shape, batches]
    if batches is not None:
        order.insert(int(rng.choice([0, 0, 0, 2])), 2)
    extents = [whole[i] for i in order]
    extents[-1] += int(rng.choice([0, 0, 1, 4]))
    values = matrix(rng, extents, dtype, "C").transpose(np.argsort(order))
    return values[:shape[0], :shape[1]] if batches is None else values[:shape[0], :shape[1], :batches]


@pytest.mark.parametrize("seed", range(24))
def test_batches_and_epilogues_drawn(seed):
    """By the rule, by some configuration, split or not, few rows beside what streams: all that can be fused."""
    rng = np.random.default_rng(seed)
    dtype = ("f4", "f4", "f4", "i4", "f8")[seed % 5]
    batches = [None, 1, 2, 3][rng.integers(4)]
    M, N, K = (int(np.exp(rng.uniform(0, np.log(n)))) for n in ((8.99, 150, 500) if seed % 3 == 0 else (150, 150, 90)))
    A, B, C, R = (drawn_matrices(rng, shape, dtype, batches) for shape in ((M, K), (N, K), (M, N), (M, N)))
    bias = matrix(rng, (N, 3), dtype, "C")[:, rng.integers(3)] if rng.random() < 0.6 else None
    given = {"alpha": int(rng.choice([1, 1, 2])), "beta": int(rng.choice([0, 0, -3])), "bias": bias,
             "residual": [None, R, C][rng.integers(3)], "activation": ["none", "relu"][rng.integers(2)]}
    if rng.random() < 0.4:
        tiles = configs(8 if dtype == "f8" else 4)
        given["config"], given["splits"] = tiles[rng.integers(len(tiles))], int(rng.choice([1, 1, 3]))
    sums = np.einsum("mk...,nk...->mn...", A.astype("f8"), B.astype("f8")) * given["alpha"]
    if given["beta"]:
        sums += given["beta"] * C.astype("f8")
    if given["residual"] is not None:
        sums += given["residual"].astype("f8")
    if bias is not None:
        sums += bias.astype("f8")[:, None] if batches else bias.astype("f8")
    expected = np.maximum(sums, 0) if given["activation"] == "relu" else sums
    if not given["beta"] and given["residual"] is not C:
        C[...] = np.nan if dtype != "i4" else 77
    with mo.checking() as reports:
        gemm_simt(A, B, C, **given)
    assert reports and all(report.ok for report in reports)
    assert np.linalg.norm(C - expected) <= TOLERANCE[dtype] * np.linalg.norm(expected)


def test_one_matrix_for_a_whole_batch():
    """A stride of 0 between the matrices of an operand."""
    rng = np.random.default_rng(5)
    A, B = matrix(rng, (40, 24), "f4", "C"), matrix(rng, (50, 24, 3), "f4", "F")
    C = np.full((40, 50, 3), np.nan, "f4")
    gemm_simt(np.broadcast_to(A[:, :, None], (40, 24, 3)), B, C)
    expected = np.einsum("mk,nkl->mnl", A.astype("f8"), B.astype("f8"))
    assert np.linalg.norm(C - expected) <= 1e-5 * np.linalg.norm(expected)


def test_int32_is_exact():
    agree(67, 33, 17, "i4")
    agree(128, 128, 32, "i4", "FCC")


def test_strided_views_of_larger_arrays():
    rng = np.random.default_rng(5)
    whole = rng.standard_normal((200, 300)).astype("f4")
    A, B = whole[1:98:2, 3:40], whole[5:70, 100:137]
    C = np.full((130, 100), np.nan, "f4", order="F")[:49, 3:68]
    gemm_simt(A, B, C)
    expected = A.astype("f8") @ B.astype("f8").T
    assert np.linalg.norm(C - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("change, message", [
    (lambda A, B, C: (A[:, :7], B, C), "are not .M, K., .N, K. and .M, N."),
    (lambda A, B, C: (A.astype("f8"), B, C), "B holds float32, A float64; A, B and C are all"),
    (lambda A, B, C: (A[0], B, C), "A must be a matrix or a batch of them, not .8,."),
    (lambda A, B, C: ("A", B, C), "A must be a matrix or a batch of them, not a str"),
])
def test_wrong_arguments(change, message):
    A, B, C = (np.zeros(s, "f4", order="F") for s in ((16, 8), (16, 8), (16, 16)))
    C[...] = 3
    with pytest.raises(mo.ArgumentError, match=message):
        gemm_simt(*change(A, B, C))
    assert (C == 3).all()


def test_the_choice_needs_no_search_and_fills_the_machine():
    large, parts = choose(Problem(4096, 4096, 4096, 4), H200)
    assert large.bM * large.bN >= 128 * 96 and parts == 1
    config, parts = choose(Problem(96, 64, 4096, 4), H200)
    assert parts > 4 and config.bM * config.bN <= 96 * 64


@pytest.mark.parametrize("problem", [Problem(96, 64, 4096, 4), Problem(1, 5000, 8192, 4), Problem(700, 900, 131072, 4),
                                     Problem(50, 70, 3000, 8)])
def test_blocks_that_wait_for_each_other_are_on_the_device_together(problem):
    for config in (FLOAT if problem.bytes == 4 else DOUBLE):
        found = parts_of(config, problem, H200)
        assert 1 in found and max(found) <= most_parts(config, problem.K, H200) <= H200
        assert max(found) * 2 * config.bK <= problem.K
        assert parts_of(config, replace(problem, workspace=False), H200) == [1]


@pytest.mark.parametrize("config", (*FLOAT, *DOUBLE), ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_a_multiprocessor_holds_as_many_blocks_as_the_configuration_says(config):
    size = 4 if config in FLOAT else 8
    stage = (config.bM + config.bN) * (config.bK * size + 16)           # where both operands lie along K
    assert config.blocks * (config.stages * stage + 1024) <= 228 << 10
    assert config.blocks * config.threads <= 2048
    assert (config.bM, config.bN) == (config.lM * config.wM * config.tM, config.lN * config.wN * config.tN)


@pytest.mark.slow
def test_sums_of_several_blocks_repeat():
    rng = np.random.default_rng(3)
    A, B = matrix(rng, (50, 700), "f4", "C"), matrix(rng, (40, 700), "f4", "C")
    found = [gemm_simt(A, B, np.full((50, 40), np.nan, "f4"), splits=5).tobytes() for _ in range(2)]
    assert found[0] == found[1]


def test_tuned_takes_the_first_configuration_that_fits():
    rng = np.random.default_rng(5)
    A, B = matrix(rng, (40, 24), "f4", "F"), matrix(rng, (50, 24), "f4", "C")
    C = np.full((40, 50), np.nan, "f4", order="F")
    tuned_gemm_simt(A, B, C, alpha=2)
    expected = 2 * A.astype("f8") @ B.astype("f8").T
    assert np.linalg.norm(C - expected) <= 1e-5 * np.linalg.norm(expected)
    best = tuned_gemm_simt.best(A, B, C)
    assert best["config"] in FLOAT and best["splits"] == 1


def test_tuned_leaves_out_what_does_not_fit():
    A64, B64 = np.zeros((64, 64), "f8"), np.zeros((64, 64), "f8")
    assert tuned_gemm_simt.best(A64, B64, np.zeros((64, 64), "f8"))["config"] in DOUBLE
    why = tuned_gemm_simt.options.prune(mo.Config(config=FLOAT[0], splits=8), A=np.zeros((128, 64), "f4"),
                                        B=np.zeros((128, 64), "f4"), C=np.zeros((128, 128), "f4"))
    assert "split" in why


def test_tuned_complains_as_gemm_simt_does():
    with pytest.raises(mo.ArgumentError, match="must be a matrix"):
        tuned_gemm_simt(np.zeros(4, "f4"), np.zeros((4, 4), "f4"), np.zeros((4, 4), "f4"))


# --- few rows beside an operand that streams -------------------------------------------------------------------------


def few_agree(R, F, K, plan=None, order="C", dtype="f4", alpha=1, beta=0, last="C", lead=0):
    """The kernel itself, by the rule's plan or another; ``lead``: elements in front of each row of X."""
    rng = np.random.default_rng(R + 7 * F + 31 * K)
    X, S = matrix(rng, (R, K + lead), dtype, "C")[:, lead:], matrix(rng, (F, K), dtype, order)
    C = matrix(rng, (R, F), dtype, last)
    expected = alpha * (X.astype("f8") @ S.astype("f8").T) + beta * C.astype("f8")
    if not beta:
        C[...] = np.nan
    plan = plan or few.choose(few.Few(R, F, K, X.itemsize, lead == 0 and K % (16 // X.itemsize) == 0), H200)
    plan = replace(plan, epilogue=Epilogue(scaled=alpha != 1, accumulate=beta != 0))
    few_kernel.multiply(X, S, C, plan, few.Few(R, F, K, 8 if dtype == "f8" else 4), alpha=scalar(alpha, dtype),
                        beta=scalar(beta, dtype))
    assert np.linalg.norm(C - expected) <= TOLERANCE[dtype] * np.linalg.norm(expected)


def scalar(x, dtype):
    return arguments.scalar(x, {"f4": mo.float32, "f8": mo.float64}[dtype], "test")


@pytest.mark.parametrize(("rows", "deep"), [(4, 1), (4, 2), (4, 4), (2, 4), (2, 8), (1, 8), (1, 1), (8, 1)])
@pytest.mark.parametrize("width", [1, 4])
def test_few_rows_by_every_plan(rows, deep, width):
    """Full rows and warps, and some less; more K than a warp reads at a time, and less."""
    for F, most in ((1, 1), (3, 4), (4, 4)) if rows == 8 else ((2, 2), (5, 8), (8, 8)):
        few_agree(16 // deep * rows - F % 3, F, 132 * deep + 4, few.FewPlan(most, rows, deep, width))
    few_agree(3, 2, 8 * deep, few.FewPlan(2, rows, deep, width))


@pytest.mark.parametrize("seed", range(12))
def test_few_rows_drawn(seed):
    rng = np.random.default_rng(seed)
    R, F, K = (int(np.exp(rng.uniform(0, np.log(n)))) for n in (300, 8.99, 700))
    alpha, beta = (rng.choice([1, 0.5]), rng.choice([0, -1.5]))
    few_agree(R, F, K, order=rng.choice(["C", "F"]), last=rng.choice(["C", "F"]), alpha=float(alpha), beta=float(beta),
              lead=int(rng.integers(4)), dtype="f8" if seed % 4 == 3 else "f4")


def test_what_streams():
    """Operands of float32 along K beside up to eight rows of the other one, which lie along K, too."""
    problem = Problem(4096, 8, 1024, 4, ("k vector", "k"))
    assert streaming(problem, "A") == few.Few(4096, 8, 1024, 4, True) and streaming(problem, "B") is None
    assert streaming(replace(problem, majors=("k", "k")), "A") == few.Few(4096, 8, 1024, 4)
    assert streaming(Problem(3, 500, 70, 4, ("k", "k")), "B") == few.Few(500, 3, 70, 4)
    for other in (replace(problem, N=9), replace(problem, majors=("k", "vector")), replace(problem, bytes=8)):
        assert streaming(other, "A") is None and streams(other, H200) == ""


@pytest.mark.parametrize(("M", "N", "orders"), [(2, 130, "CCC"), (130, 3, "CCF"), (5, 70, "CCF"), (70, 8, "CCC")])
def test_few_rows_are_multiplied_as_the_other_operand_streams(M, N, orders, monkeypatch):
    asked = []
    monkeypatch.setattr(choice, "streams", lambda problem, _: asked.append(problem) or next(
        side for side in "AB" if streaming(problem, side)))
    agree(M, N, 203, orders=orders, alpha=0.5, beta=2.0)
    agree(M, N, 204, orders=orders)
    agree(M, N, 40, orders=orders, splits=2)            # a number of parts asks for tiles
    assert len(asked) == 2


def test_few_rows_take_numbers_that_are_none():
    X, S = np.ones((6, 40), "f4"), np.ones((2, 40), "f4")
    X[1, 7], S[1, 3] = np.inf, np.nan
    C = np.zeros((6, 2), "f4")
    size = few.Few(6, 2, 40, 4, True)
    few_kernel.multiply(X, S, C, few.choose(size, H200), size)
    assert np.isinf(C[1, 0]) and np.isnan(C[:, 1]).all() and (C[[0, 2, 3, 4, 5], 0] == 40).all()


@pytest.mark.parametrize("K", [1 << 20, 1 << 28, (1 << 31) - 1])
def test_parts_are_counted_in_32_bits(K):
    for bK in (16, 32):
        config = next(config for config in configs(4) if config.bK == bK)
        parts = most_parts(config, K, H200)
        assert 1 < parts <= H200 and parts * -(-K // bK) < 1 << 31
