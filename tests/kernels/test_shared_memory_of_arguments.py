"""Arguments of row kernels, moves and folds that share memory, drawn at random: refused, or right."""

from __future__ import annotations

import random

import numpy as np
import pytest

import moye as mo
from moye import kernels

SIDE = 6
ONES, TABLE = np.ones((SIDE, SIDE), np.float32), np.random.default_rng(1).standard_normal((9, 3)).astype(np.float32)
IDS, RSTD = np.arange(SIDE)[::-1].copy(), np.full(SIDE, 0.5, np.float32)
CALLS = {
    "swiglu": lambda out, x: kernels.swiglu(out, x, ONES),
    "swiglu_backward": lambda out, x: kernels.swiglu_backward((out, np.empty_like(ONES)), ONES, x, ONES),
    "permute": lambda out, x: kernels.permute(out, x, (0, 1)),
    "transpose": kernels.transpose,
    "reduce": lambda out, x: kernels.reduce(out[0], x, axis=1),
    "cumsum": lambda out, x: kernels.cumsum(out, x, axis=0),
    "top_k": lambda out, x: kernels.top_k(out, np.empty((SIDE, SIDE), np.int32), x),
    "rope": lambda out, x: kernels.rope(out.reshape(SIDE, 1, SIDE), x.reshape(SIDE, 1, SIDE), TABLE, TABLE),
    "embedding": lambda out, x: kernels.embedding(out, x, IDS),
    "embedding_backward": lambda out, x: kernels.embedding_backward(out, x, IDS),
    "softmax": kernels.softmax,
    "rms_norm": lambda out, x: kernels.rms_norm(out, x, x[0]),
    "layer_norm": lambda out, x: kernels.layer_norm(out, ONES, residual=x),
    "rms_norm_backward": lambda out, x: kernels.rms_norm_backward(out, x, ONES, None, RSTD)}


def view(memory, first, pitch=SIDE, turned=False):
    """A square view of memory."""
    square = np.lib.stride_tricks.as_strided(memory[first:], (SIDE, SIDE), (4 * pitch, 4))
    return square.T if turned else square


def drawn(rng):
    """Where two views begin, the distance of their rows and their direction; some overlap, and some do not."""
    yield (0,), (1,)
    yield (40,), (0,)
    for _ in range(8):
        yield tuple((rng.choice((0, 0, 0, 1, SIDE, 40)), rng.choice((SIDE, SIDE, SIDE, 7)), rng.random() < 0.2)
                    for _ in range(2))


@pytest.mark.parametrize("name", CALLS)
def test_refused_or_right(name):
    rng, seen = random.Random(f"draw {name}"), {"refused": 0, "right": 0}
    for pair in drawn(rng):
        memory = np.random.default_rng(0).standard_normal(100).astype(np.float32)
        out, x = (view(memory, *where) for where in pair)
        if name == "rope" and not (out.flags.c_contiguous and x.flags.c_contiguous):
            continue                                    # NumPy would reshape copies of them
        expected = np.zeros_like(ONES)
        CALLS[name](expected, x.copy())
        try:
            CALLS[name](out, x)
        except mo.ArgumentError as error:
            assert "shares memory with" in str(error)
            seen["refused"] += 1
        else:
            shown = (out[0], expected[0]) if name == "reduce" else (out, expected)
            assert np.allclose(*shown, atol=1e-5), (name, out.strides, x.strides)
            seen["right"] += 1
    assert seen["refused"]
    assert seen["right"]


def test_outputs_that_are_one_array():
    x, twice = np.ones((4, 64), np.float32), np.zeros((4, 64), np.float32)
    with pytest.raises(mo.ArgumentError, match="summed shares memory with out"):
        kernels.rms_norm(twice, x, residual=x, summed=twice)
    with pytest.raises(mo.ArgumentError, match="lse shares memory with loss"):
        kernels.cross_entropy(twice[:, 0], x, np.zeros(4, np.int64), lse=twice[:, 0], reduction="none")


def test_outputs_that_run_backwards():
    memory = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    with pytest.raises(mo.ArgumentError, match="out has a negative stride -64"):
        kernels.rms_norm(memory[::-1], memory)


def test_outputs_that_repeat_elements():
    x, out = np.ones((4, 64), np.float32), np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (4, 64), (0, 4))
    for call in (lambda: kernels.rms_norm(out, x), lambda: kernels.softmax(out, x)):
        with pytest.raises(mo.ArgumentError, match=r"strides \(0, 1\) repeat elements"):
            call()


@pytest.mark.parametrize("call, told", [
    (lambda x: kernels.reduce(np.zeros((), np.float32), x, axis=()), r"axis \(\) names no axis"),
    (lambda x: kernels.reduce(np.zeros(4, np.float32), x, axis=1.0), "neither an axis nor a list"),
    (lambda x: kernels.reduce(np.zeros(4, np.float32), x, ["sum"]), "is none of sum"),
    (lambda x: kernels.permute(np.zeros((64, 4), np.float32), x, ()), "no order of the 2 axes"),
    (lambda x: kernels.permute(np.zeros((64, 4), np.float32), x, 5), "axes=5 is no list of axes"),
    (lambda x: kernels.softmax(x.copy(), x, axis=True), "axis=True is none"),
    (lambda x: kernels.rms_norm(x.copy(), x, eps="small"), "eps='small' is no number"),
    (lambda x: kernels.rope(x[:, None].copy(), x[:, None], TABLE, TABLE, offset=1.0), "offset=1.0 is no integer"),
    (lambda x: kernels.embedding_backward(x.copy(), x, np.arange(4), padding_idx=1.5), "padding_idx=1.5"),
])
def test_refused_in_one_sentence(call, told):
    with pytest.raises(mo.ArgumentError, match=told):
        call(np.ones((4, 64), np.float32))


def test_integers_of_numpy_are_axes():
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    sums, turned = np.zeros(4, np.float32), np.zeros((6, 4), np.float32)
    kernels.reduce(sums, x, axis=np.int64(1))
    kernels.permute(turned, x, np.array([1, 0]))
    assert np.allclose(sums, x.sum(1), atol=1e-5)
    assert np.array_equal(turned, x.T)


def test_no_ids_of_two_modes():
    dtable = np.ones((5, 4), np.float32)
    dout, ids = np.zeros((8, 0, 4), np.float32), np.lib.stride_tricks.as_strided(np.zeros(1, np.int64), (8, 0), (8, 8))
    kernels.embedding_backward(dtable, dout, ids)
    assert not dtable.any()
