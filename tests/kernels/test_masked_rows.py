"""The ragged kernels of benchmarks: against NumPy, clean reports, wide accesses without spills."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import masked_kernels as kernels
import masked_rows as rows
import moye as mo


@pytest.mark.parametrize("n", [1, 511, 4096, 5001])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_add(n, dtype):
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    out = np.zeros_like(a)
    kernels.launch_add(out, a, b, threads=64)
    assert (out == a + b).all()
    width = 16 // a.itemsize
    report = mo.check(kernels.add)[-(-n // (width * 128)), 64](out, a, b, width, 2)
    assert report.ok and not report.lints, report


@pytest.mark.parametrize("columns", [8, 300, 301, 519])
@pytest.mark.parametrize("dtype, bound", [(np.float32, 1e-6), (ml_dtypes.bfloat16, 1e-2)])
def test_rms_norm(columns, dtype, bound):
    """Rows at every alignment; more rows than blocks."""
    rng = np.random.default_rng(columns)
    x, weight = rng.standard_normal((19, columns)).astype(dtype), rng.standard_normal(columns).astype(dtype)
    out = np.zeros_like(x)
    width, threads, rounds = kernels.rows_plan(columns, x.itemsize * 8)
    assert mo.check(kernels.rms_norm)[8, threads](out, x, weight, 1e-6, width, rounds, 3).ok
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-6) * weight.astype(np.float64)
    assert np.abs(out.astype(np.float64) - want).max() <= bound * np.abs(want).max()


def test_rows_that_change_their_alignment():
    """Blocks in no multiple of 8 are slower, and right."""
    x = np.random.default_rng(0).standard_normal((12, 53)).astype(np.float32)
    out, weight = np.zeros_like(x), np.ones(53, np.float32)
    width, threads, rounds = kernels.rows_plan(53, 32)
    kernels.rms_norm[5, threads](out, x, weight, 0.0, width, rounds, 3)
    assert np.allclose(out, x / np.sqrt((x * x).mean(1, keepdims=True)), rtol=1e-5)


@pytest.mark.parametrize("dtype, rounds", [(np.float32, 4), (ml_dtypes.bfloat16, 2)])
def test_as_many_wide_accesses_as_without_predicates(dtype, rounds):
    x, weight = np.zeros((16, 4097), dtype), np.zeros(4097, dtype)
    plan = kernels.rows_plan(4097, x.itemsize * 8)
    program = kernels.rms_norm.compile(np.zeros_like(x), x, weight, 1e-6, plan[0], plan[2], 3, block=plan[1],
                                       arch="sm_90a")
    assert plan[2] == rounds and program.spills == 0
    lines = program.ptx.splitlines()
    assert sum("ld.global.nc.v4" in line for line in lines) == 2 * rounds       # x and the weights
    assert sum("st.global.v4" in line for line in lines) == rounds


def test_predicates_leave_the_loop():
    """Whether all of a vector is inside is known before the rows: four blocks on a multiprocessor, and no spills."""
    x, weight = np.zeros((16, 4097), ml_dtypes.bfloat16), np.zeros(4097, ml_dtypes.bfloat16)
    width, threads, rounds = kernels.rows_plan(4097, 16)
    program = kernels.rms_norm.compile(np.zeros_like(x), x, weight, 1e-6, width, rounds, 4, block=threads,
                                       arch="sm_90a")
    assert program.spills == 0 and program.registers <= 56


WAYS = {"granules": ("granules", (8, 2, 2)), "edges": ("edges", (8, 8, 2, 1, 2)),
        "sectors": ("edges", (8, 16, 2, 1, 2)), "pairs": ("edges", (8, 8, 2, 2, 2)),
        "staged": ("staged", (8, 1024, 2, 2, 2))}


@pytest.mark.parametrize("columns", [96, 301, 303, 510])
@pytest.mark.parametrize("way", WAYS)
def test_other_ways(way, columns):
    """Each way of rows that begin anywhere: the result, and a clean report."""
    name, statics = WAYS[way]
    rng = np.random.default_rng(columns)
    x, weight = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((40, columns), columns))
    out = np.zeros_like(x)
    report = mo.check(getattr(rows, name))[16, 64](out.reshape(-1), x.reshape(-1), weight, 1e-6, *statics)
    assert report.ok, report
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-6) * weight.astype(np.float64)
    assert np.abs(out.astype(np.float64) - want).max() <= 1e-2 * np.abs(want).max()


@pytest.mark.parametrize("launch", ["edges", "granules", "staged"])
def test_ways_are_launched(launch):
    """More blocks than rows, and rows of all alignments."""
    x = np.random.default_rng(1).standard_normal((48, 77)).astype(ml_dtypes.bfloat16)
    out, wide = np.zeros_like(x), x.astype(np.float64)
    getattr(rows, f"launch_{launch}")(out, x, np.ones(77, ml_dtypes.bfloat16), resident=1)
    assert np.allclose(out.astype(np.float64), wide / np.sqrt((wide * wide).mean(1, keepdims=True)), rtol=1e-2)


def test_edges_leave_half_of_the_loop():
    """Fewer instructions than masked vectors: no thread takes a vector apart."""
    x, weight = np.zeros(16 * 4097, ml_dtypes.bfloat16), np.zeros(4097, ml_dtypes.bfloat16)
    program = rows.edges.compile(np.zeros_like(x), x, weight, 1e-6, 8, 8, 2, 1, 4, block=256, arch="sm_90a")
    assert program.spills == 0 and sum("ISETP" in line for line in program.sass.splitlines()) < 40
    assert sum("ld.global.nc.v4" in line for line in program.ptx.splitlines()) == 2
