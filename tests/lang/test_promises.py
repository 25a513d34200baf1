"""What ``mo.assume`` says holds to the end of the block that it stands in, and of a function to the caller's."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import AlignmentError


@mo.jit
def at_once(n, flag):
    mo.assume(n % 4 == 0)
    return n


@mo.jit
def before_a_return(n, flag):
    if flag:
        mo.assume(n % 4 == 0)
        return n
    return n + 1


@mo.jit
def behind_a_return(n, flag):
    if not flag:
        return n + 1
    mo.assume(n % 4 == 0)
    return n


@mo.jit
def behind_a_return_of_a_function(n, flag):
    if not flag:
        return n
    return behind_a_return(n, flag)


@mo.jit
def in_a_loop_that_is_left(n, flag):
    for i in mo.static_range(3):
        if i == 1:
            mo.assume(n % 4 == 0)
            return n
    return n


@mo.jit
def in_a_branch(n, flag):
    if mo.thread_idx().x == 0:
        mo.assume(n % 4 == 0)
        return n
    return n


def sends(f):
    """A kernel that copies the first f(n) elements of shared memory, whose number must be a multiple of 4."""
    @mo.kernel
    def kernel(out, n, flag: mo.Constexpr):
        smem = mo.shared_array(mo.float32, 64)
        for i in range(mo.thread_idx().x, 64, 32):
            smem[i] = i
        mo.fence_proxy_async()
        mo.sync_threads()
        count = f(n, flag)
        if mo.thread_idx().x == 0:
            mo.copyto(mo.BulkCopy(), mo.tile(out, (64,), (0,), ragged=True), smem, size=count)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)
    return kernel


@pytest.mark.parametrize("f", [at_once, before_a_return, behind_a_return, behind_a_return_of_a_function,
                               in_a_loop_that_is_left], ids=lambda f: f.__name__)
def test_known_in_the_caller(f):
    out = np.full(64, -1, np.float32)
    assert mo.check(sends(f))[1, 32](out, 24, True).ok
    assert (out[:24] == np.arange(24)).all() and (out[24:] == -1).all()


@pytest.mark.parametrize("flag", [True, False])
def test_of_one_branch_alone_it_is_not(flag):
    with pytest.raises(AlignmentError, match="not known to be a multiple of 4"):
        sends(in_a_branch)[1, 32](np.zeros(64, np.float32), 24, flag)


def test_of_the_way_that_is_not_taken_it_is_not():
    with pytest.raises(AlignmentError, match="not known to be a multiple of 4"):
        sends(behind_a_return)[1, 32](np.zeros(64, np.float32), 24, False)


@mo.jit
def equal_to_a_number(n, flag):
    mo.assume(n == 24)
    return n


@mo.jit
def equal_to_a_product(n, flag):
    mo.assume(8 * mo.grid_dim().x + 16 == n)
    return n


@pytest.mark.parametrize("f", [equal_to_a_number, equal_to_a_product], ids=lambda f: f.__name__)
def test_what_is_equal_is_as_divisible(f):
    out = np.full(64, -1, np.float32)
    assert mo.check(sends(f))[1, 32](out, 24, True).ok
    assert (out[:24] == np.arange(24)).all() and (out[24:] == -1).all()


def test_an_extent_that_is_promised_is_divided_where_no_launch_can_look():
    @mo.kernel
    def kernel(x):
        i = mo.thread_idx().x
        mo.assume(mo.size(x, 0) == 4)
        if i < mo.size(x, 1):
            column = mo.tile(x[:, i], (4,), (0,))
            column[0] = column[3]

    x = np.asfortranarray(np.arange(20, dtype=np.float32).reshape(4, 5))
    kernel[1, 32](x)
    assert (x[0] == x[3]).all()
    with pytest.raises(mo.PreconditionError):
        kernel[1, 32](np.zeros((8, 5), np.float32, order="F"))


def test_equal_to_zero():
    @mo.kernel
    def kernel(out, n):
        mo.assume(n == 0)
        out[0] = n + 1

    out = np.zeros(1, np.int32)
    kernel[1, 1](out, 0)
    assert out[0] == 1
