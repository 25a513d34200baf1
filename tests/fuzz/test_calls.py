"""Calls of the library with odd arguments run, or are refused in one sentence that names an argument.

By hand, more: ``python tests/fuzz/calls.py SEED COUNT``.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import laid_calls
import moye as mo
import odd_calls
from moye import kernels


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_a_few(first):
    for seed in range(first, first + 30):
        call = odd_calls.draw(seed)
        assert (why := odd_calls.failure(call)) is None, f"{seed}: {call.name}, {call.odd}: {why}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_arrays_that_lie_elsewhere(first):
    found = [f"{seed}: {why}" for seed in range(first, first + 10) if (why := laid_calls.failure(seed)) is not None]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("name", "arguments"), [
    ("linear_cross_entropy", ("labels", "dx", "lse")), ("attention_varlen", ("out", "q", "k", "v", "lse")),
    ("attention_backward", ("out", "q", "k", "v")), ("paged_attention", ("q", "v_cache", "page_table"))])
def test_arrays_of_dlpack_alone_where_views_are_needed(name, arguments):
    for which in arguments:
        right = odd_calls.right_calls()[name]
        with pytest.raises(mo.ArgumentError, match=r"a OfDlpack(,| has no )"):
            getattr(kernels, name)(**right | {which: laid_calls.OfDlpack(right[which])})


@pytest.mark.slow
@pytest.mark.parametrize("name", odd_calls.right_calls())
def test_the_calls_themselves_are_right(name):
    arguments = {key: x.copy() if isinstance(x, np.ndarray) else x for key, x in odd_calls.right_calls()[name].items()}
    getattr(kernels, name.split()[0])(**arguments)


def strided(shape, strides):
    """A view of zeros, strides in elements."""
    return np.lib.stride_tricks.as_strided(np.zeros(100, np.float32), shape, [4 * step for step in strides])


@pytest.mark.parametrize(("shape", "strides"), [((3, 4), (1, 1)), ((3, 4), (2, 1)), ((3, 4), (0, 1)),
                                                ((2, 2, 9), (1, 2, 2)), ((4, 3), (3, 4))])
def test_outputs_with_several_coordinates_for_one_element(shape, strides):
    for call in (lambda out: kernels.softmax(out, np.zeros(shape, np.float32)),
                 lambda out: kernels.permute(out, np.zeros(shape, np.float32), range(len(shape)))):
        if strides == (3, 4):                           # 0, 4, 8, 3, ... 17: all different
            call(strided(shape, strides))
        else:
            with pytest.raises(mo.ArgumentError, match=r"out is written, and its strides .* repeat elements"):
                call(strided(shape, strides))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (1, 2), (0, 1)])
def test_products_of_windows(dtype, strides):
    """Rows that overlap, as numpy.lib.stride_tricks.sliding_window_view makes them."""
    rng = np.random.default_rng(0)
    room, B = rng.integers(-4, 5, 200).astype(dtype), rng.integers(-4, 5, (8, 32)).astype(dtype)
    A = np.lib.stride_tricks.as_strided(room, (16, 32), [step * room.itemsize for step in strides])
    C = np.zeros((16, 8), np.int32 if dtype is np.int8 else dtype)
    kernels.gemm(A, B, C)
    assert np.array_equal(C, A.astype(np.float64) @ B.T.astype(np.float64))


def test_gradients_of_logits_need_what_they_are_made_of():
    x, labels, lse = np.zeros((3, 8), np.float32), np.zeros(3, np.int64), np.zeros(3, np.float32)
    for arguments, told in (((None, None, x, labels, lse), "dlogits is a NoneType"),
                            ((x.copy(), None, x, labels, None), "lse is a NoneType")):
        with pytest.raises(mo.ArgumentError, match=told):
            kernels.cross_entropy_backward(*arguments)


def test_outputs_apart_from_every_input():
    x, w, one = (np.zeros(shape, np.float32) for shape in ((2, 8), (5, 8), (1,)))
    ids = np.arange(2)
    q, k, v, few = *(np.zeros((1, 2, 2, 16), np.float32) for _ in range(3)), np.zeros((1, 2, 2), np.float32)
    for call, told in (
            (lambda: kernels.cross_entropy_backward(x, None, x.copy(), ids, x[:, 0]), "dlogits shares memory with lse"),
            (lambda: kernels.linear_cross_entropy(w[:2, 0], x, w, ids, reduction="none"), "loss shares memory with W"),
            (lambda: kernels.linear_cross_entropy(one, x, w, ids, dx=w[:2]), "dx shares memory with W"),
            (lambda: kernels.attention(q.copy(), q, k, v, sinks=few[0, 0], lse=few), "lse shares memory with sinks")):
        with pytest.raises(mo.ArgumentError, match=told):
            call()
