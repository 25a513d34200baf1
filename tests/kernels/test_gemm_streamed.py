"""``gemm_streamed``: few rows by rows that begin anywhere, against float64, with every check on; what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm, gemm_streamed
from moye.kernels.gemm.streamed.config import MOST, StreamConfig, choose, options
from moye.runtime.prepare import compile_only
from streamed_products import compare, drawn, matrix

SMALL = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("seed", range(24))
def test_drawn(seed):
    with mo.checking() as reports:
        drawn(seed)
    assert reports and all(report.ok for report in reports), reports


CONFIGS = {"a block of rows": (StreamConfig(8, 1, 1), 300, 3), "warps along k": (StreamConfig(1, 8, 1), 40, 2),
           "both": (StreamConfig(2, 4, 1), 90, 12), "splits": (StreamConfig(4, 2, 3), 140, 9),
           "more splits than chunks": (StreamConfig(2, 4, 7), 30, 1), "many groups": (StreamConfig(4, 2, 2), 70, 63)}


@pytest.mark.parametrize("order", ["K", "M"])
@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(name, order):
    """Few rows that are shifted, or copied one by one; twice the same bits."""
    config, rows, few = CONFIGS[name]
    rng = np.random.default_rng(rows)
    A, B = matrix(rng, rows, 1203, "K", np.float16), matrix(rng, few, 1203, order, np.float16)
    found = []
    for _ in range(2):
        C = np.full((rows, few), np.nan, np.float32)
        with mo.checking() as reports:
            gemm_streamed(A, B, C, config=config)
        assert all(report.ok for report in reports), reports
        compare(A, B, C)
        found.append(C)
    assert np.array_equal(*found)


@pytest.mark.parametrize("begin", range(0, 16, 3))
@pytest.mark.parametrize("pitch", [40, 41, 44, 47])
def test_rows_begin_anywhere(begin, pitch):
    """Windows of larger arrays; what lies around them is no number."""
    rng = np.random.default_rng(begin)
    memory = np.full(begin + 80 * pitch, np.nan, np.float16)
    A = np.lib.stride_tricks.as_strided(memory[begin:], (79, 39), (2 * pitch, 2))
    A[...] = rng.standard_normal(A.shape)
    few = np.full((5, pitch + begin), np.nan, np.float16)
    B = few[:, begin:begin + 39]
    B[...] = rng.standard_normal(B.shape)
    C = np.full((79, 5), np.nan, np.float32)
    with mo.checking() as reports:
        gemm_streamed(A, B, C)
    assert all(report.ok for report in reports), reports
    compare(A, B, C)


@pytest.mark.parametrize("order", ["K", "M"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_no_number_stays_in_its_row(value, order):
    """Wherever it is along k: zeros beside it would make infinity no number."""
    rng = np.random.default_rng(3)
    for at in (0, 1, 6, 7, 8, 31, 32, 70, 76):
        A, B = matrix(rng, 33, 77, "K", np.float16), matrix(rng, 6, 77, order, np.float16)
        A[9, at], B[4, 76 - at] = value, value
        C = np.full((33, 6), np.nan, np.float32)
        gemm_streamed(A, B, C)
        with np.errstate(invalid="ignore"):
            want = A.astype(np.float64) @ B.astype(np.float64).T
        assert np.array_equal(np.isnan(C), np.isnan(want)) and np.array_equal(np.isinf(C), np.isinf(want))


def test_the_rule_takes_it(monkeypatch):
    """Where operands would be copied first; not with an epilogue, nor where tensor maps describe them."""
    import importlib
    dispatch, taken = importlib.import_module("moye.kernels.gemm.dispatch"), []
    for name in ("gemm_streamed", "gemm_sm90", "gemm_sm80"):
        monkeypatch.setattr(dispatch, name, lambda *_, name=name, **more: taken.append(name))
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    for K, more in ((6611, {}), (6611, {"activation": "relu"}), (6611, {"alpha": 2.0}), (6611, {"beta": 1.0}),
                    (6616, {})):
        A, B, C = np.zeros((2, K), np.float16), np.zeros((27275, K), np.float16), np.zeros((2, 27275), np.float16)
        dispatch.gemm(A, B, C, **more)
    assert taken[0] == "gemm_streamed" and "gemm_streamed" not in taken[1:]


@pytest.mark.parametrize("few", [1, 8, 17, 40, 64])
def test_nothing_spills(few):
    """Of all configurations; loads have 16 bytes, and two blocks fit on a multiprocessor."""
    for config in dict.fromkeys((option.along, option.deep) for option in options(20000, few, 9001, 132)):
        A, B, C = (mo.TensorLike(mo.bfloat16, shape, (shape[1], 1)) for shape in ((20000, 9001), (few, 9001),
                                                                                (20000, few)))
        with compile_only("sm_90a") as compiled:
            gemm_streamed(A, B, C, config=StreamConfig(*config, 1))
        program, = compiled.programs
        assert program.spills == 0 and program.registers <= 128 and 2 * (program.smem + 1024) <= 228 << 10, config
        assert program.sass.count("LDG.E.128") >= 16


def test_there_is_always_a_configuration():
    for rows in (1, 9, 128, 129, 5000, 1 << 20):
        for few in range(1, MOST + 1):
            for K in (32, 33, 4097, 100001):
                assert choose(rows, few, K, 132, single=False).blocks(rows) > 0


def test_what_is_refused():
    A, B, C = np.zeros((80, 64), np.float16), np.zeros((70, 64), np.float16), np.zeros((80, 70), np.float16)
    with pytest.raises(mo.ArgumentError, match="one of them must have at most 64 rows"):
        gemm_streamed(A, B, C)
    with pytest.raises(mo.ArgumentError, match=r"float16 and B \(6, 64\) of bfloat16"):
        gemm_streamed(A, B[:6].astype(ml_dtypes.bfloat16), C[:, :6])
    with pytest.raises(mo.ArgumentError, match="config=3 is no StreamConfig"):
        gemm_streamed(A, B[:6], C[:, :6], config=3)
    with pytest.raises(mo.ArgumentError, match="deep=3"):
        gemm_streamed(A, B[:6], C[:, :6], config=StreamConfig(2, 3, 1))
    empty = np.zeros((80, 0), np.float16)
    assert gemm_streamed(A, B[:0], empty) is empty


def test_sums_beside_gemm():
    """The same numbers as by the other kernels, up to the order of the sum."""
    rng = np.random.default_rng(8)
    A, B = matrix(rng, 70, 333, "K", np.float16), matrix(rng, 7, 333, "K", np.float16)
    ours, theirs = (np.full((70, 7), np.nan, np.float32) for _ in range(2))
    gemm_streamed(A, B, ours)
    gemm(A, B, theirs)
    assert np.abs(ours - theirs).max() < 1e-4
