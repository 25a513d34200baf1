"""Loops over global memory advance pointers, where that is right and worth it."""

import numpy as np
import pytest

import moye as mo


@mo.kernel
def total(A, out, first, step: mo.Constexpr, lead: mo.Constexpr):
    """out[t] = sum of A[t, k + lead] over every ``step``-th k from ``first`` on."""
    tid = mo.thread_idx().x
    acc = mo.float32(0)
    for k in range(first, mo.size(A, 1) - lead, step):
        acc = acc + A[tid, k + lead]
    out[tid] = acc


@mo.kernel
def skipping(A, out):
    tid = mo.thread_idx().x
    acc = mo.float32(0)
    for k in range(mo.size(A, 1)):
        if k % 3 == 1:
            continue
        acc = acc + A[tid, k]
    out[tid] = acc


@mo.kernel
def conditional(A, out):
    tid = mo.thread_idx().x
    acc = mo.float32(0)
    for k in range(mo.size(A, 1)):
        if k % 3 == 1:
            acc = acc + A[tid, k]
    out[tid] = acc


@mo.kernel
def nested(A, out):
    """A is (threads, J, K)."""
    tid = mo.thread_idx().x
    acc = mo.float32(0)
    for j in range(mo.size(A, 1)):
        for k in range(mo.size(A, 2)):
            acc = acc + A[tid, j, k]
    out[tid] = acc


@mo.kernel
def rows(A, out):
    """Copies several rows per iteration, under a condition."""
    tid = mo.thread_idx().x
    part = mo.fragment((4, 1), mo.float32)
    acc = mo.float32(0)
    tA = mo.tile(A, (4, 1), (tid, None))                                # (4, 1, k)
    for k in range(mo.size(tA, 2)):
        if k > 0:
            mo.copyto(part, tA[:, :, k])
            acc = acc + part[0, 0] + part[1, 0] + part[2, 0] + part[3, 0]
    out[tid] = acc


def source_of(kernel, *args):
    return kernel.compile(*args, block=32, arch="sm_90a").source


def strided(rows_, columns, seed=0):
    """A matrix whose column stride is dynamic: a view of a larger one."""
    whole = np.random.default_rng(seed).standard_normal((rows_ + 3, columns)).astype("f4", order="F")
    return whole[:rows_]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("lead", [0, 2])
@pytest.mark.parametrize("first", [0, 5])
def test_advances_by_the_step(step, lead, first):
    A, out = strided(32, 40), np.full(32, np.nan, "f4")
    total[1, 32](A, out, first, step, lead)
    expected = A[:, first + lead::step].astype("f8").sum(axis=1)
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-5)
    source = source_of(total, A, out, first, step, lead)
    assert "A_k +=" in source and "A_k[0]" in source
    assert "* A_s1" not in source.partition("for (int k")[2]


def test_a_loop_that_never_runs():
    A, out = strided(32, 4), np.full(32, np.nan, "f4")
    total[1, 32](A, out, 9, 1, 0)
    assert not out.any()


@pytest.mark.parametrize("kernel, keep", [(skipping, lambda k: k % 3 != 1), (conditional, lambda k: k % 3 == 1)],
                         ids=["continue", "one address under a condition"])
def test_stays_where_it_is_wrong_or_useless(kernel, keep):
    A, out = strided(32, 10), np.full(32, np.nan, "f4")
    kernel[1, 32](A, out)
    expected = sum(A[:, k].astype("f8") for k in range(10) if keep(k))
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-5)
    assert "A_k" not in source_of(kernel, A, out)


def test_inner_and_outer_loops():
    A = np.random.default_rng(1).standard_normal((35, 9, 6)).astype("f4", order="F")[:32, :7]
    out = np.full(32, np.nan, "f4")
    nested[1, 32](A, out)
    assert np.allclose(out, A.astype("f8").sum(axis=(1, 2)), rtol=1e-5, atol=1e-5)
    source = source_of(nested, A, out)
    assert "A_k +=" in source


def test_several_addresses_under_a_condition():
    A = np.asfortranarray(np.random.default_rng(2).standard_normal((12, 256)).astype("f4")).T[:128, :11]
    out = np.full(32, np.nan, "f4")
    rows[1, 32](A, out)
    expected = A[:, 1:].astype("f8").reshape(32, 4, -1).sum(axis=(1, 2))
    assert np.allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert "A_k" not in source_of(rows, np.asfortranarray(A), out)      # contiguous: one address


@mo.kernel
def first_column(A, out):
    tid = mo.thread_idx().x
    acc = mo.float32(0)
    for k in range(mo.size(A, 1)):
        acc = acc + A[tid, k]
        break
    out[tid] = acc


def test_a_loop_that_always_leaves():
    A, out = strided(32, 7), np.full(32, np.nan, "f4")
    first_column[1, 32](A, out)
    assert np.array_equal(out, A[:, 0])
    assert "A_k" not in source_of(first_column, A, out)
