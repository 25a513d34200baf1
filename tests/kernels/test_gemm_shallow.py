"""``gemm_shallow``: few k of lines that begin anywhere, against float64, with every check on; what it refuses."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_shallow
from moye.kernels.gemm.shallow.config import CONFIGS, MOST, ShallowConfig, Size, Way, choose, fits, unfit
from moye.kernels.gemm.shallow.plan import size_of, suits
from moye.runtime.prepare import compile_only
from shallow_products import close, drawn, drawn_batch
from streamed_products import matrix


@pytest.mark.parametrize("seed", range(40))
def test_drawn(seed):
    with mo.checking() as reports:
        drawn(seed)
    assert reports and all(report.ok for report in reports), reports


@pytest.mark.parametrize("seed", range(60))
def test_drawn_batches(seed):
    with mo.checking() as reports:
        drawn_batch(seed)
    assert all(report.ok for report in reports), reports


@pytest.mark.parametrize("orders", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.bM}x{config.bN}")
def test_configurations(config, orders):
    """Tiles that C does not fill, of rows side by side and others."""
    rng = np.random.default_rng(config.bM)
    for K, N in ((19, 45), (40, 301)):
        A, B = (matrix(rng, rows, K, order, np.float16) for rows, order in zip((141, N), orders, strict=True))
        C = np.full((141, N), np.nan, np.float16)
        with mo.checking() as reports:
            gemm_shallow(A, B, C, config=config)
        assert reports and all(report.ok for report in reports), reports
        close(A, B, C)


@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("begin", range(0, 10, 3))
@pytest.mark.parametrize("pitch", [40, 41, 42, 44])
def test_lines_begin_anywhere(begin, pitch, order):
    """Windows of larger arrays; what lies around them is no number."""
    rng = np.random.default_rng(begin)
    memory = np.full(begin + 80 * pitch, np.nan, np.float16)
    A = np.lib.stride_tricks.as_strided(memory[begin:], (79, 39), (2 * pitch, 2))
    A[...] = rng.standard_normal(A.shape)
    A = A if order == "K" else A.T
    B = matrix(rng, 33, A.shape[1], "K", np.float16)
    C = np.full((len(A), 33), np.nan, np.float32)
    with mo.checking() as reports:
        gemm_shallow(A, B, C)
    assert all(report.ok for report in reports), reports
    close(A, B, C)


@pytest.mark.parametrize("columns", [33, 34, 40, 70])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_of_c_anywhere(columns, dtype):
    """C inside of a larger array, of which nothing else changes."""
    rng = np.random.default_rng(columns)
    A, B = (matrix(rng, rows, 21, "K", np.float16) for rows in (61, columns - 5))
    whole = rng.standard_normal((64, columns)).astype(dtype)
    before, C = whole.copy(), whole[:61, :columns - 5]
    with mo.checking() as reports:
        gemm_shallow(A, B, C)
    assert all(report.ok for report in reports), reports
    close(A, B, C)
    assert np.array_equal(whole[:, columns - 5:], before[:, columns - 5:]) and np.array_equal(whole[61:], before[61:])


@pytest.mark.parametrize("orders", ["KK", "KM", "MK"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_no_number_stays_in_its_row(value, orders):
    """Wherever it is along k: zeros beside it would make infinity no number."""
    rng = np.random.default_rng(3)
    for K in (19, 40):
        for at in (0, 1, 7, 8, K - 1):
            A, B = matrix(rng, 33, K, orders[0], np.float16), matrix(rng, 26, K, orders[1], np.float16)
            A[9, at], B[4, K - 1 - at] = value, value
            C = np.full((33, 26), np.nan, np.float32)
            gemm_shallow(A, B, C)
            with np.errstate(invalid="ignore"):
                want = A.astype(np.float64) @ B.astype(np.float64).T
            assert np.array_equal(np.isnan(C), np.isnan(want)) and np.array_equal(np.isinf(C), np.isinf(want))


def test_the_rule_takes_it(monkeypatch):
    """Few k of odd lines; not with an epilogue, nor where tensor maps describe them, nor where lines overlap."""
    dispatch, taken = importlib.import_module("moye.kernels.gemm.dispatch"), []
    for name in ("gemm_shallow", "gemm_streamed", "gemm_sm90", "gemm_sm80"):
        monkeypatch.setattr(dispatch, name, lambda *_, name=name, **more: taken.append(name))
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    for K, more in ((23, {}), (23, {"activation": "relu"}), (23, {"alpha": 2.0}), (23, {"beta": 1.0}), (128, {}),
                    (301, {})):
        A, B, C = (np.zeros(shape, np.float16) for shape in ((5000, K), (139, K), (5000, 139)))
        dispatch.gemm(A, B, C, **more)
    A = np.lib.stride_tricks.as_strided(np.zeros(6000, np.float16), (5000, 23), (2, 2))
    dispatch.gemm(A, np.zeros((139, 23), np.float16), C)
    assert taken[0] == "gemm_shallow" and "gemm_shallow" not in taken[1:], taken


@pytest.mark.long
@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float32])
@pytest.mark.parametrize("orders", ["KK", "MM"])
@pytest.mark.parametrize("K", [23, 40, 67, 125])
def test_nothing_spills(K, orders, dtype):
    """Of all configurations, of lines that are shifted and not."""
    shapes = [(12549, K), (139, K)]
    A, B = (mo.TensorLike(dtype, shape, (K, 1) if order == "K" else (1, shape[0]))
            for shape, order in zip(shapes, orders, strict=True))
    for N in (139, 512):
        Y = mo.TensorLike(dtype, (N, K), (K, 1) if orders[1] == "K" else (1, N)) if N != 139 else B
        C = mo.TensorLike(dtype, (12549, N), (N, 1))
        for config in CONFIGS:
            if fits(config, size_of(*map(mo.describe, (A, Y, C)))):
                with compile_only("sm_90a") as compiled:
                    gemm_shallow(A, Y, C, config=config)
                program, = compiled.programs
                assert program.spills == 0 and program.smem <= 227 << 10, config


def test_there_is_always_a_configuration():
    assert not any(map(unfit, CONFIGS))
    ways = [Way(turned, whole, True) for turned in (False, True) for whole in (False, True)]
    for rows in (1, 16, 129, 5000, 1 << 22):
        for width in (2, 4):
            for K in range(1, MOST // width + 1, 5):
                for way in ways:
                    size = Size(rows, 77, K, way, ways[0], 77, width, width)
                    assert fits(choose(size, 132), size)
                    few = mo.hardware.of("sm_86").block_shared
                    assert rows > 1 << 20 or fits(choose(size, 84, few), size, few)


def test_lines_far_apart_are_left_to_others():
    """Lines that do not exist are counted, too, and 32 bits count them."""
    shapes = (100, 23), (40, 23), (100, 40)
    for far in range(3):
        for step, taken in ((1 << 21, True), (1 << 22, False)):
            arrays = [mo.describe(mo.TensorLike(mo.float16, (2, shape[1]) if i == far else shape,
                                                (step, 1) if i == far else (shape[1], 1)))
                      for i, shape in enumerate(shapes)]
            if far == 2:
                arrays[0] = mo.describe(mo.TensorLike(mo.float16, (2, 23), (23, 1)))
            elif far == 0:
                arrays[2] = mo.describe(mo.TensorLike(mo.float16, (2, 40), (40, 1)))
            assert suits(*arrays) == taken, (far, step)


def test_what_is_refused():
    A, B, C = (np.zeros(shape, np.float16) for shape in ((80, 64), (70, 64), (80, 70)))
    with pytest.raises(mo.ArgumentError, match=r"B \(70, 64\) of bfloat16"):
        gemm_shallow(A, B.astype(ml_dtypes.bfloat16), C)
    with pytest.raises(mo.ArgumentError, match="at most 512 bytes"):
        gemm_shallow(np.zeros((80, 257), np.float16), np.zeros((70, 257), np.float16), C)
    with pytest.raises(mo.ArgumentError, match=r"A \(80, 64\) of float16 with strides \(128, 2\)"):
        gemm_shallow(np.zeros((80, 128), np.float16)[:, ::2], B, C)
    with pytest.raises(mo.ArgumentError, match="config"):
        gemm_shallow(A, B, C, config=3)
    for numbers, reason in (((24, 64, 2, 2, 1), "multiples of 16"), ((64, 64, 2, 1, 1), "4 warps"),
                            ((16, 16, 1, 0, 1), "positive"),
                            ((32, 512, 1, 4, 1), "multiples of 8 rows"), ((32, 192, 1, 4, 1), "multiples of 8 rows")):
        with pytest.raises(mo.ArgumentError, match=reason):
            gemm_shallow(A, B, C, config=ShallowConfig(*numbers))
    wide = [np.zeros(shape, np.float32) for shape in ((80, 128), (70, 128), (80, 70))]
    with pytest.raises(mo.ArgumentError, match="no room in shared memory for tiles of K = 128"):
        gemm_shallow(*wide, config=next(config for config in CONFIGS if (config.bM, config.bN) == (64, 256)))
    empty = np.zeros((80, 0), np.float16)
    assert gemm_shallow(A, B[:0], empty) is empty


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_the_benchmark_runs_what_it_names(kind, monkeypatch):
    """On host tensors: each configuration is launched, and is right."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    products, bench = importlib.import_module("gemm"), importlib.import_module("gemm_shallow")
    monkeypatch.setattr(products, "DEVICE", "cpu")
    row = bench.drawn(1, 1, kind, False)[0]
    problem = products.Problem(replace(row, M=min(row.M, 70), N=min(row.N, 70)))
    runs = bench.works(problem, True)
    assert len(runs) > 6
    for name, work in runs.items():
        assert name in ("moye", "cuBLAS") or problem.error(work) < 5e-3, name
