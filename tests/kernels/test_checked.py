"""The checking simulator on every kernel of the examples: clean as they are, reported with a barrier deleted."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import moye as mo

# --- clean -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k_tiles", [1, 2, 5], ids="k_tiles={}".format)
def test_matmuls_are_clean(matmul, k_tiles):
    """For one k-tile, for two, and for several."""
    report, error = matmul.run(256, 128, k_tiles * matmul.bK, mo.check(matmul.kernel))
    assert report.ok, str(report)
    assert error < 1e-5


@pytest.mark.parametrize("K", [8, 24], ids="K={}".format)
def test_the_double_buffered_matmul_is_clean_with_early_copies(example, K):
    """Copies that complete at once, instead of at their latest legal time, change nothing."""
    module = example("09_matmul_double_buffered")
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.standard_normal((128, K), np.float32)) for _ in range(2))
    C = np.full((128, 128), np.nan, np.float32, order="F")
    report = module.matmul(A, B, C, mo.check(module.matmul_kernel, earliest=True))
    assert report.ok, str(report)
    assert np.allclose(C, A.astype(np.float64) @ B.T, atol=1e-4)


def _launches(example):
    F = np.asfortranarray
    rng = np.random.default_rng(0)
    a, v = F(rng.standard_normal((64, 64), np.float32)), rng.standard_normal(2048, np.float32)
    out, one = F(np.full((64, 64), np.nan, np.float32)), np.zeros(1, np.float32)
    counts = np.zeros(1, np.int32), np.zeros(1, np.int32)
    e1, e2, e7, e8 = map(example, ("01_copy", "02_transpose", "07_reductions", "08_elementwise"))
    return {
        "copy": lambda: e1.copy(out, a, mo.check(e1.copy_kernel)),
        "staged_copy": lambda: e1.staged_copy(out, a, mo.check(e1.staged_copy_kernel)),
        "transpose": lambda: e2.transpose(out, a, mo.check(e2.transpose_kernel)),
        "sum": lambda: e7.total_of(v, one, mo.check(e7.sum_kernel)),
        "scan": lambda: e7.scan(np.full_like(v, np.nan), v, mo.check(e7.scan_kernel)),
        "count": lambda: e7.count(v, 0.5, *counts, mo.check(e7.count_kernel)),
        "gelu": lambda: e8.gelu(out, a, 1.5, mo.check(e8.gelu_kernel)),
        "in_place": lambda: e8.in_place(a, F(a[:, :1].copy()), mo.check(e8.in_place_kernel)),
    }


@pytest.mark.parametrize("name", ["copy", "staged_copy", "transpose", "sum", "scan", "count", "gelu", "in_place"])
def test_other_kernels_are_clean(example, name):
    report = _launches(example)[name]()
    assert report.ok, str(report)


# --- the missing barrier of the manual -------------------------------------------------------------------------------


def test_the_missing_barrier_is_reported(broken):
    """Class D3: written at the two copyto lines, read at the gemm line, one finding each for sA and sB."""
    case, _ = broken
    report, _ = case.run(128, 128, 16, mo.check(case.kernel))
    copy_a, copy_b, gemm = (case.lines(p)[-1] for p in (r"mo\.copyto\(copy_A", r"mo\.copyto\(copy_B", r"mo\.gemm"))
    assert [(f.code, f.tensor, [loc.line for loc in f.locs]) for f in report.findings] == [
        ("D3", "sA", [copy_a, gemm]), ("D3", "sB", [copy_b, gemm])]
    assert not report.unsupported
    for finding in report.findings:
        assert finding.hint == "sync_threads() after cp_async_wait()"
        assert finding.threads[0] != finding.threads[1]


def test_a_plain_launch_raises_the_first_finding(broken):
    case, _ = broken
    with pytest.raises(mo.SimulationError, match=r"^D3: sA\(") as caught:
        case.run(128, 128, 16)
    assert caught.value.finding.tensor == "sA"


def test_with_a_barrier_it_is_clean(broken):
    _, fixed = broken
    report, error = fixed.run(128, 128, 16, mo.check(fixed.kernel))
    assert report.ok, str(report)
    assert error < 1e-5


# --- each barrier deleted --------------------------------------------------------------------------------------------

# What is missing where a statement is deleted, by its place in the kernel.
EXPECTED = {
    "03_matmul_tiled": ["C1", "C2"],
    "04_matmul_async": ["D1", "D3", "D4"],
    "05_matmul_vectorized": ["D1", "D3", "D4"],
    "06_matmul_overlapped": ["D1", "D3", "D4"],
    "09_matmul_double_buffered": ["D1", "D3", "D1", "D3"],
    "10_matmul_tensor_core": ["D1", "D3", "D4"],
    "11_matmul_ldmatrix": ["D1", "D3", "D4"],
    "12_matmul_tensor_core_double_buffered": ["D1", "D3", "D1", "D3"],
}


@pytest.mark.slow
def test_each_barrier_is_needed(barrier):
    """With several k-tiles, none is redundant: its deletion is reported, at the tensors that it protects."""
    case, module, number, statement = barrier
    report, _ = case.run(128, 256, 4 * case.bK, mo.check(module.matmul_kernel), module)
    place = case.lines(r"^ +mo\.(sync_threads|cp_async_wait)\(\)$").index(number)
    found = {(f.code, f.tensor) for f in report.findings}
    code = EXPECTED[case.stem][place]
    assert {(code, "sA"), (code, "sB")} <= found, f"without {statement} in line {number}: {report}"


def test_the_barrier_of_the_transpose_is_needed(example, mutate):
    source = inspect.getsource(example("02_transpose")).splitlines()
    [number] = [n for n, line in enumerate(source, 1) if line.strip() == "mo.sync_threads()"]
    module = mutate("02_transpose", number)
    src, dst = np.ones((64, 64), np.float32, order="F"), np.full((64, 64), np.nan, np.float32, order="F")
    report = module.transpose(dst, src, mo.check(module.transpose_kernel))
    assert [f.code for f in report.findings] == ["C1"], "one missing barrier, between warps and within one"
