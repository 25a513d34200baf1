"""``gemm_streamed``: few rows by rows that begin anywhere, against float64, with every check on; what it refuses."""

from __future__ import annotations

import importlib
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm, gemm_streamed
from moye.kernels.gemm.streamed.config import MOST, MOST_TURNED, Size, StreamConfig, TurnedConfig, choose, options
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
           "more splits than chunks": (StreamConfig(2, 4, 7), 30, 1), "many groups": (StreamConfig(8, 1, 2), 70, 63),
           "turned": (TurnedConfig(), 131, 7), "turned splits": (TurnedConfig(3), 77, 16),
           "turned tiles": (TurnedConfig(2), 97, 31)}


@pytest.mark.parametrize("order", ["K", "M"])
@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(name, order):
    """Few rows that are shifted, or copied one by one; twice the same bits."""
    config, rows, few = CONFIGS[name]
    rng = np.random.default_rng(rows)
    along = "M" if isinstance(config, TurnedConfig) else "K"
    A, B = matrix(rng, rows, 1203, along, np.float16), matrix(rng, few, 1203, order, np.float16)
    found = []
    for _ in range(2):
        C = np.full((rows, few), np.nan, np.float32)
        with mo.checking() as reports:
            gemm_streamed(A, B, C, config=config)
        assert all(report.ok for report in reports), reports
        compare(A, B, C)
        found.append(C)
    assert np.array_equal(*found)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("begin", range(0, 16, 3))
@pytest.mark.parametrize("pitch", [40, 41, 44, 47])
def test_lines_begin_anywhere(begin, pitch, turned):
    """Windows of larger arrays; what lies around them is no number."""
    rng = np.random.default_rng(begin)
    memory = np.full(begin + 80 * pitch, np.nan, np.float16)
    A = np.lib.stride_tricks.as_strided(memory[begin:], (79, 39), (2 * pitch, 2))
    A = A.T if turned else A
    A[...] = rng.standard_normal(A.shape)
    few = np.full((5, begin + 80), np.nan, np.float16)
    B = few[:, begin:begin + A.shape[1]]
    B[...] = rng.standard_normal(B.shape)
    C = np.full((len(A), 5), np.nan, np.float32)
    with mo.checking() as reports:
        gemm_streamed(A, B, C)
    assert all(report.ok for report in reports), reports
    compare(A, B, C)


@pytest.mark.parametrize("orders", ["KK", "KM", "MK"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_no_number_stays_in_its_row(value, orders):
    """Wherever it is along k: zeros beside it would make infinity no number."""
    rng = np.random.default_rng(3)
    for at in (0, 1, 6, 7, 8, 31, 32, 70, 76):
        A, B = matrix(rng, 33, 77, orders[0], np.float16), matrix(rng, 6, 77, orders[1], np.float16)
        A[9, at], B[4, 76 - at] = value, value
        C = np.full((33, 6), np.nan, np.float32)
        gemm_streamed(A, B, C)
        with np.errstate(invalid="ignore"):
            want = A.astype(np.float64) @ B.astype(np.float64).T
        assert np.array_equal(np.isnan(C), np.isnan(want)) and np.array_equal(np.isinf(C), np.isinf(want))


def test_the_rule_takes_it(monkeypatch):
    """Where operands would be copied first; not with an epilogue, nor where tensor maps describe them."""
    dispatch, taken = importlib.import_module("moye.kernels.gemm.dispatch"), []
    for name in ("gemm_streamed", "gemm_sm90", "gemm_sm80"):
        monkeypatch.setattr(dispatch, name, lambda *_, name=name, **more: taken.append(name))
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    for K, more in ((6611, {}), (6611, {"activation": "relu"}), (6611, {"alpha": 2.0}), (6611, {"beta": 1.0}),
                    (6616, {})):
        A, B, C = np.zeros((2, K), np.float16), np.zeros((27275, K), np.float16), np.zeros((2, 27275), np.float16)
        dispatch.gemm(A, B, C, **more)
    assert taken[0] == "gemm_streamed" and "gemm_streamed" not in taken[1:]


@pytest.mark.parametrize(("few", "turned"), [(1, False), (8, False), (17, False), (40, False), (64, False), (3, True),
                                             (16, True), (32, True)])
def test_nothing_spills(few, turned):
    """Of all configurations; loads have 16 bytes, and as many blocks fit on a multiprocessor as are counted."""
    size = Size(20001, few, 9001, turned)
    for config in dict.fromkeys(replace(option, splits=1) for option in options(size, 132)):
        A = mo.TensorLike(mo.bfloat16, (20001, 9001), (1, 20001) if turned else (9001, 1))
        B, C = (mo.TensorLike(mo.bfloat16, shape, (shape[1], 1)) for shape in ((few, 9001), (20001, few)))
        with compile_only("sm_90a") as compiled:
            gemm_streamed(A, B, C, config=config)
        program, = compiled.programs
        resident = config.resident(few)
        assert program.spills == 0 and program.registers <= 256 // resident, config
        assert resident * (program.smem + 1024) <= 228 << 10 and program.sass.count("LDG.E.128") >= 16, config


def test_there_is_always_a_configuration():
    for rows in (1, 9, 128, 129, 5000, 1 << 20):
        for turned, most in ((False, MOST), (True, MOST_TURNED)):
            for few in range(1, most + 1):
                for K in (1, 32, 33, 4097, 100001):
                    size = Size(rows, few, K, turned)
                    assert choose(size, 132).blocks(size) > 0


def test_what_is_refused():
    A, B, C = np.zeros((80, 64), np.float16), np.zeros((70, 64), np.float16), np.zeros((80, 70), np.float16)
    with pytest.raises(mo.ArgumentError, match="one of them must have at most 64 rows"):
        gemm_streamed(A, B, C)
    with pytest.raises(mo.ArgumentError, match=r"float16 and B \(6, 64\) of bfloat16"):
        gemm_streamed(A, B[:6].astype(ml_dtypes.bfloat16), C[:, :6])
    with pytest.raises(mo.ArgumentError, match="config=3 is neither a StreamConfig"):
        gemm_streamed(A, B[:6], C[:, :6], config=3)
    with pytest.raises(mo.ArgumentError, match="deep=3"):
        gemm_streamed(A, B[:6], C[:, :6], config=StreamConfig(2, 3, 1))
    with pytest.raises(mo.ArgumentError, match="splits=0"):
        gemm_streamed(A, B[:6], C[:, :6], config=TurnedConfig(0))
    with pytest.raises(mo.ArgumentError, match=r"TurnedConfig\(splits=1\) is not for an operand A of strides"):
        gemm_streamed(A, B[:6], C[:, :6], config=TurnedConfig())
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
