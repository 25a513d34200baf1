"""What all matrix products have in common: they return C, take modes of extent 1, and arrays only described."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm, gemm_simt, gemm_sm80, gemm_sm90
from moye.runtime.arguments import tensor_spec
from moye.runtime.arrays import natural_strides

SUMS = {"float32": "float32", "float64": "float64", "int32": "int32", "float16": "float16", "int8": "int32"}
PRODUCTS = [(gemm, dtype) for dtype in SUMS] + [(gemm_simt, "float64"), (gemm_simt, "int32"), (gemm_sm80, "float16"),
                                                 (gemm_sm80, "float64"), (gemm_sm90, "float16"), (gemm_sm90, "int8")]


def operands(dtype, M, N, K, *tail, order="C"):
    rng = np.random.default_rng(M * N + K)
    A, B = (rng.integers(-3, 4, (rows, K, *tail)).astype(dtype) for rows in (M, N))
    return A, B, np.full((M, N, *tail), 9, SUMS[dtype], order)


def product(A, B):
    return np.einsum("mk...,nk...->mn...", A.astype(float), B.astype(float))


# --- what is returned ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("function", "dtype"), PRODUCTS, ids=lambda x: getattr(x, "__name__", x))
def test_it_returns_c(function, dtype, order):
    for M, N, K in ((16, 8, 16), (8, 8, 32)):           # where C.T has another shape, and where it has not
        A, B, C = operands(dtype, M, N, K, order=order)
        assert function(A, B, C) is C
        assert np.array_equal(C, product(A, B))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("function", "dtype"), [(gemm_simt, "float32"), (gemm_sm80, "float16")])
def test_it_returns_c_where_k_is_split(function, dtype, order):
    A, B, C = operands(dtype, 24, 16, 200, order=order)
    assert function(A, B, C, splits=3) is C
    assert np.array_equal(C, product(A, B))


@pytest.mark.slow
@pytest.mark.parametrize(("function", "dtype"), PRODUCTS, ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("shape", [(0, 4, 16), (4, 0, 16), (4, 8, 0)])
def test_it_returns_c_where_there_is_nothing_to_do(function, dtype, shape):
    for order in "CF":
        A, B, C = operands(dtype, *shape, order=order)
        assert function(A, B, C) is C and not C.any()


def test_a_view_is_returned_as_it_was_given():
    room = np.zeros((8, 40), np.float32)
    A, B, _ = operands("float32", 8, 10, 4)
    C = room[:, ::4]
    assert gemm(A, B, C) is C and np.array_equal(room[:, ::4], product(A, B))
    assert not np.delete(room, np.s_[::4], axis=1).any()


# --- modes of extent 1 -----------------------------------------------------------------------------------------------

UNITS = [(64, 32, 64, 1), (33, 32, 1), (1, 64, 32), (64, 1, 32), (1, 1, 1), (7, 20, 32, 1), (16, 1, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", UNITS, ids=str)
@pytest.mark.parametrize(("function", "dtype"), [(gemm, "float16"), (gemm, "float64"), (gemm, "int8"),
                                                 (gemm_sm90, "float16")], ids=lambda x: getattr(x, "__name__", x))
def test_modes_of_extent_1(function, dtype, shape):
    A, B, C = operands(dtype, *shape)
    function(A, B, C)
    assert np.array_equal(C, product(A, B))


def with_stride(x, mode, step):
    """The same array, with another stride along a mode of extent 1."""
    strides = [step * x.itemsize if i == mode else s for i, s in enumerate(x.strides)]
    return np.lib.stride_tricks.as_strided(x, x.shape, strides)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 3, 8, 1 << 20])
@pytest.mark.parametrize(("shape", "mode"), [((32, 16, 16, 1), 2), ((32, 16, 1), 1), ((1, 16, 32), 0)], ids=str)
def test_any_stride_along_a_mode_of_extent_1(shape, mode, step):
    A, B, C = operands("float16", *shape)
    A, C = with_stride(A, mode, step), with_stride(C, mode, step) if mode != 1 else C
    gemm(A, B, C)
    assert np.array_equal(C, product(A, B))


@pytest.mark.parametrize(("shape", "strides"), [((5, 1), (1, 1)), ((1, 5), (1, 1)), ((4, 6, 1), (6, 1, 1)),
                                                ((4, 1, 6), (6, 1, 1)), ((1, 4, 1), (1, 1, 1))])
def test_what_a_kernel_is_specialised_on_steps_by_1_along_one_mode(shape, strides):
    """The class: a mode of extent 1 beside it hides what the others are aligned to."""
    info = mo.describe(np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), shape, [4 * s for s in strides]))
    spec = tensor_spec(info._replace(strides=natural_strides(info.shape, info.strides)))
    assert [e > 1 for s, e in zip(spec.strides, shape, strict=True) if s == 1] == [True]


# --- arrays that are only described ----------------------------------------------------------------------------------


def described(x):
    return mo.TensorLike(mo.describe(x).dtype, x.shape, tuple(s // x.itemsize for s in x.strides))


def launches(function, *arrays):
    with mo.compile_only("sm_90a", trace_only=True) as gathered:
        function(*arrays)
    return [(job.spec.func.name, [(spec.key if hasattr(spec, "key") else spec) for spec in job.call.specs.values()])
            for job in gathered.jobs]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "dtype"), [(gemm, "float32"), (gemm, "float64"), (gemm, "int32"),
                                                 (gemm_sm90, "float16"), (gemm_sm90, "float32"), (gemm_sm90, "int8")],
                         ids=lambda x: getattr(x, "__name__", x))
def test_described_arrays_compile_what_arrays_launch(function, dtype):
    seen = set()
    for (M, N, K), turned, order in itertools.product([(64, 48, 512), (33, 40, 100)], [False, True], "CF"):
        A, B, C = operands(dtype, M, N, K, order=order)
        A = np.asfortranarray(A) if turned else A
        found = launches(function, described(A), described(B), described(C))
        assert [name for name, _ in found] == [name for name, _ in launches(function, A, B, C)]
        seen.update(name for name, _ in found)
    assert len(seen) > 1 or function is gemm            # with what splits K, or packs operands


def test_a_batch_that_is_only_described():
    for dtype in ("float64", "float16"):
        A, B, C = operands(dtype, 32, 16, 256, 3)
        assert launches(gemm, *map(described, (A, B, C))) and launches(gemm_sm80, *map(described, (A, B, C)))
