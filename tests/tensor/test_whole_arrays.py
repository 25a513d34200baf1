"""Projections, products without an atom, and parts of modes, in kernels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from tensor_kernels import (
    GEMM_DTYPES,
    MATMUL_BLOCK,
    MATMUL_GRID,
    gemm_arguments,
    matmul_arguments,
    parts,
    parts_expected,
    plain_matmul,
    thread_gemm,
)

# --- projections -----------------------------------------------------------------------------------------------------


def test_the_first_matmul_of_the_manual():
    args = matmul_arguments()
    plain_matmul[MATMUL_GRID, MATMUL_BLOCK](*args)
    np.testing.assert_allclose(args[6], args[0] @ args[3].T, rtol=0, atol=1e-5)
    assert mo.check(plain_matmul)[MATMUL_GRID, MATMUL_BLOCK](*args).ok
    program = plain_matmul.compile(*args, block=MATMUL_BLOCK, arch="sm_90a")
    assert program.spills == 0 and "fma" in program.ptx


@pytest.mark.parametrize("threads", [mo.make_layout((3, 4)), mo.make_layout((3, 4), (4, 1)),
                                     mo.make_layout((3, (2, 2)), (2, (1, 6)))], ids=str)
@pytest.mark.parametrize("proj", [(1, None), (None, 1), (1, 1)])
def test_a_projection_of_threads_is_the_threads_along_the_modes_that_it_keeps(threads, proj):
    data = np.arange(12 * 8).reshape(12, 8)
    where = {threads(m, n): (m, n) for m in range(3) for n in range(4)}
    for thread, (m, n) in where.items():
        if proj == (None, 1):
            found, wanted = mo.parallelize(mo.tensor(data), threads, thread, proj), data[n::4]
        elif proj == (1, None):
            found, wanted = mo.parallelize(mo.tensor(data), threads, thread, proj), data[m::3]
        else:
            found, wanted = mo.parallelize(mo.tensor(data), threads, thread, proj), data[m::3, n::4]
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_coordinates_take_projections():
    rows = mo.parallelize(mo.identity_tensor((6, 4)), mo.make_layout((3, 2)), 5, (1, None))
    assert mo.shape(rows) == (2, 4) and rows[1, 3] == (5, 3)


def test_a_projection_of_a_tile():
    data = np.arange(8 * 6).reshape(8, 6)
    for proj, wanted in (((1, None, 1), data[4:8, 3:6]), ((None, 1, 1), data[2:4, 3:6]), ((1, slice(None), 1),
                         data[4:8, 3:6])):
        np.testing.assert_array_equal(mo.tile(mo.tensor(data), (4, 2, 3), (1, 1, 1), proj).numpy(), wanted)


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda x: mo.parallelize(x, (3, 2), 0, (1,)), "one entry, 1 or None, for each of the 2 modes of (3:1, 2:3)"),
    (lambda x: mo.parallelize(x, (3, 2), 0, (None, None)), "must have 1 for each mode that it keeps"),
    (lambda x: mo.parallelize(x, (3, 2), 0, (2, None)), "must have 1 for each mode that it keeps"),
    (lambda x: mo.parallelize(x, (3, 2), 6, (1, None)), "has 6 threads"),
    (lambda x: mo.parallelize(x, (4, 2), 0, (1, None)), "extent 6 of mode 0 is no multiple of 4"),
    (lambda x: mo.tile(x, (3, 2, 4), (0, 0, 0), 1), "the projection 1 must have one entry"),
    (lambda x: mo.tile(x, (3, 2, 4), (0, 0, 0)), "rank 2"),
])
def test_projections_that_are_refused(wrong, said):
    with pytest.raises(mo.TensorError) as caught:
        wrong(mo.tensor(np.zeros((6, 8))))
    assert said in str(caught.value)


# --- gemm without an atom --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "sums"), GEMM_DTYPES)
def test_gemm_of_one_thread(dtype, sums):
    D, A, B, C = gemm_arguments(dtype, sums)
    thread_gemm[1, 2](D, A, B, C)
    wanted = A.astype(sums) @ B.astype(sums).T + C
    for i in range(2):
        np.testing.assert_array_equal(D[:, :, i], wanted)
    assert thread_gemm.compile(D, A, B, C, block=2, arch="sm_90a").spills == 0


def test_gemm_of_host_tensors():
    D, A, B, C = gemm_arguments(np.float32, np.float32)
    before, wanted = C.copy(), A @ B.T + C
    mo.gemm(mo.tensor(D[:, :, 0]), *map(mo.tensor, (A, B, C)))
    np.testing.assert_array_equal(D[:, :, 0], wanted)
    np.testing.assert_array_equal(C, before)
    mo.gemm(*map(mo.tensor, (A, B, C)))
    np.testing.assert_array_equal(C, wanted)
    mo.gemm(mo.tensor(A[:, 0]), mo.tensor(B[:, 0]), mo.tensor(C))
    np.testing.assert_array_equal(C, wanted + np.outer(A[:, 0], B[:, 0]))


@pytest.mark.parametrize(("shapes", "said"), [
    (((5, 4), (3, 3), (5, 3)), "K of A and B differ: 4 and 3"),
    (((5, 4), (3, 4), (4, 3)), "M of A and C differ: 5 and 4"),
    (((5, 4), (3, 4), (5, 4)), "N of B and C differ: 3 and 4"),
    (((5, 4), (3,), (5, 3)), "must both have a mode K, or none"),
    (((5, 4), (3, 4), (15,)), "C (x: gmem float64 (15):(1)) must be (M, N) and static"),
    (((5, 4, 2), (3, 4), (5, 3)), "must be (M) or (M, K) and static"),
])
def test_products_that_are_refused(shapes, said):
    with pytest.raises(mo.TensorError) as caught:
        mo.gemm(*(mo.tensor(np.zeros(shape)) for shape in shapes))
    assert said in str(caught.value)


def test_gemm_takes_three_or_four_tensors():
    x = mo.tensor(np.zeros((2, 2)))
    for wrong, said in ((lambda: mo.gemm(x, x), "takes (A, B, C) or (D, A, B, C)"), (lambda: mo.gemm(), "gemm takes"),
                        (lambda: mo.gemm(x, x, x, accumulate=False), "takes no accumulate=False")):
        with pytest.raises(mo.TensorError) as caught:
            wrong()
        assert said in str(caught.value)


# --- parts of modes --------------------------------------------------------------------------------------------------


def test_parts_of_modes():
    x, out = np.random.default_rng(0).random((6, 8), np.float32), np.full((6, 8), np.nan, np.float32)
    parts[1, 1](out, x)
    np.testing.assert_array_equal(out, parts_expected(x))
    assert mo.check(parts)[1, 1](out, x).ok
    assert parts.compile(out, x, block=1, arch="sm_90a").spills == 0


def test_a_part_is_what_numpy_slices():
    rng = np.random.default_rng(3)
    for _ in range(30):
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4)))
        data = rng.random(shape)
        bounds = [sorted(rng.choice(n + 1, 2, replace=False).tolist()) for n in shape]
        at = tuple(slice(int(a), int(b), int(rng.integers(1, 4))) if rng.random() < 0.7 else int(a)
                   for a, b in bounds)
        found = mo.tensor(data)[at]
        wanted = data[at]
        np.testing.assert_array_equal(found.numpy() if isinstance(found, mo.Tensor) else found, wanted)


def test_a_part_of_a_ragged_tile_keeps_its_bounds():
    @mo.kernel
    def beyond(x: mo.Static, out):
        last = mo.tile(x, (4,), (1,), ragged=True)           # elements 4 to 7 of 6
        out[0] = last[1:][0]
        out[1] = last[1:][1]

    x, out = np.arange(6, dtype=np.float32), np.zeros(2, np.float32)
    with pytest.raises(mo.SimulationError, match=r"x\(6\)"):
        beyond[1, 1](x, out)


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda x: x[0:9, 0], "the slice 0:9 is no part of mode 0 of extent 6"),
    (lambda x: x[-2:, 0], "the slice -2: is no part of mode 0 of extent 6"),
    (lambda x: x[3:3, :], "the slice 3:3 is no part"),
    (lambda x: x[::-1, :], "the slice ::-1 is no part"),
    (lambda x: x[0:2], "a coordinate of 1 entries for a tensor of rank 2: x[0:2]"),
    (lambda x: x[0.5:2, 0], "the bounds of a slice are static integers"),
    (lambda x: mo.zipped_divide(x, (2, 4))[0:2, 0], "is nested, and only a static mode that is not nested"),
    (lambda x: mo.zipped_divide(x, (2, 4))[(slice(0, 1), 0), 0], "only whole modes are sliced"),
])
def test_slices_that_are_refused(wrong, said):
    with pytest.raises(mo.TensorError) as caught:
        wrong(mo.tensor(np.zeros((6, 8))))
    assert said in str(caught.value)


def test_a_mode_of_dynamic_extent_has_no_parts():
    @mo.kernel
    def cuts(x):
        x[0:2] = 0

    @mo.kernel
    def computed(x: mo.Static):
        x[0:mo.thread_idx().x] = 0

    with pytest.raises(mo.TensorError, match="dynamic, and only a static mode"):
        cuts[1, 1](np.zeros(4, np.float32))
    with pytest.raises(mo.TensorError, match="the bounds of a slice are static integers"):
        computed[1, 4](np.zeros(4, np.float32))
