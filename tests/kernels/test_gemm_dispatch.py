"""Which kernel ``gemm`` picks for 16-bit operands on a Hopper GPU: what TMA can describe, and is large."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import moye as mo
from moye.kernels.gemm_sm90 import suits

gemm = importlib.import_module("moye.kernels.gemm")


def operands(M=256, N=256, K=64, dtype=np.float16, out=np.float16, order="C", pad=0):
    A, B = (np.zeros((rows, K + pad), dtype)[:, :K] for rows in (M, N))
    return np.asarray(A, order=order) if not pad else A, B, np.zeros((M, N), out)


SUITED = {"full": {}, "ragged": {"M": 300, "N": 264, "K": 72}, "contiguous_along_m": {"order": "F"},
          "padded_rows": {"pad": 8}}
OTHERS = {"few_rows": {"M": 128}, "float32_result": {"out": np.float32}, "float32": {"dtype": np.float32},
          "odd_row_stride": {"K": 60, "pad": 1}, "odd_N": {"N": 260}, "no_k": {"K": 0}}


@pytest.mark.parametrize("name", SUITED)
def test_suited(name):
    assert suits(*operands(**SUITED[name]))


@pytest.mark.parametrize("name", OTHERS)
def test_left_to_the_others(name):
    assert not suits(*operands(**OTHERS[name]))


def test_the_choice(monkeypatch):
    chosen = []
    for kernel in ("gemm_sm80", "gemm_sm90"):
        monkeypatch.setattr(gemm, kernel, lambda *_, kernel=kernel, **__: chosen.append(kernel))
    gemm.gemm(*operands())
    monkeypatch.setattr(mo, "arch_of", lambda array: "sm_90a")
    gemm.gemm(*operands())
    gemm.gemm(*operands(), alpha=2)
    gemm.gemm(*operands(), activation="relu")
    assert chosen == ["gemm_sm80", "gemm_sm90", "gemm_sm80", "gemm_sm80"]


@pytest.mark.parametrize("strides", [(0, 2), (2, 2)], ids=["one_row_for_all", "overlapping"])
def test_rows_that_tma_does_not_step_over(strides):
    _, B, C = operands()
    A = np.lib.stride_tricks.as_strided(np.zeros(1024, np.float16), (256, 64), strides)
    assert not suits(A, B, C)


def test_host_memory_has_no_architecture():
    assert mo.arch_of(np.zeros(4)) is None
