"""Every host function of the library that is to be replayed is: the third call with arrays like these decides nothing.

A call that cannot be repeated is right all the same, and costs the host milliseconds on a GPU: nothing else shows it.
"""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest

import moye as mo
from moye import kernels
from moye.runtime.replayed import Replayed


def shipped():
    """All of them, by name."""
    found = {}
    for module in pkgutil.walk_packages(kernels.__path__, "moye.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Replayed):
                found[value.__name__] = value
    return found


def floats(*shape, dtype=np.float16):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def attention(backwards, several=False, **options):
    q, k, v, dout = (floats(*(() if several else (1,)), 40, 2, 32) for _ in range(4))
    out, lse = np.zeros_like(q), np.zeros((2, 40) if several else (1, 2, 40), np.float32)
    offsets = (np.array([0, 17, 40], np.int32),) * 2 if several else ()
    forwards = kernels.attention_varlen if several else kernels.attention
    if not backwards:
        return lambda: forwards(out, q, k, v, *offsets, lse=lse, **options)
    forwards(out, q, k, v, *offsets, lse=lse)
    gradients = [np.zeros_like(x) for x in (q, k, v)]
    run = kernels.attention_varlen_backward if several else kernels.attention_backward
    return lambda: run(*gradients, dout, q, k, v, out, lse, *offsets, **options)


def paged():
    q, out, cache = floats(1, 1, 2, 64), np.zeros((1, 1, 2, 64), np.float16), floats(2, 16, 1, 64)
    table, lengths = np.array([[1, 0]], np.int32), np.array([20], np.int32)
    return lambda: kernels.paged_attention(out, q, cache, cache.copy(), table, lengths)


def rows(function, *more, columns=40, **options):
    x, out = floats(3, columns), np.zeros((3, columns), np.float16)
    return lambda: function(out, x, *more, **options)


def gated(function, pair=True):
    dout, gate, up = (floats(3, 16) for _ in range(3))
    whole = floats(3, 32)
    if pair:
        grads = np.zeros_like(gate), np.zeros_like(up)
        return lambda: function(grads, dout, gate, up)
    grad = np.zeros_like(whole)
    return lambda: function(grad, dout, whole)


def norm_backward(function, *more):
    x, dout, dx, weight, dweight = floats(3, 40), floats(3, 40), floats(3, 40), floats(40), floats(40)
    rstd = np.ones(3, np.float32)
    return lambda: function(dx, dout, x, weight, rstd, *more, dweight=dweight)


def entropy(backwards=False):
    logits, labels, dlogits = floats(3, 40), np.arange(3), floats(3, 40)
    loss, lse = np.zeros(1, np.float32), np.zeros(3, np.float32)
    if backwards:
        return lambda: kernels.cross_entropy_backward(dlogits, loss, logits, labels, lse)
    return lambda: kernels.cross_entropy(loss, logits, labels, lse=lse, dlogits=dlogits)


def linear_entropy():
    x, W, labels, loss = floats(32, 64), floats(40, 64), np.arange(32), np.zeros(1, np.float32)
    dx, dW = np.zeros_like(x), np.zeros_like(W)
    return lambda: kernels.linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW)


def embedding(backwards, count=5):
    table, ids = floats(9, 16), np.arange(count, dtype=np.int32) % 9
    out = floats(count, 16)
    if backwards:
        return lambda: kernels.embedding_backward(table, out, ids)
    return lambda: kernels.embedding(out, table, ids)


def top_k():
    x, values, indices = floats(2, 40), np.zeros((2, 4), np.float16), np.zeros((2, 4), np.int32)
    return lambda: kernels.top_k(values, indices, x)


def rope():
    x, angles = floats(1, 4, 2, 16), floats(4, 8, dtype=np.float32)
    out = np.zeros_like(x)
    return lambda: kernels.rope(out, x, angles, angles.copy())


def reduced(axis):
    x, out = floats(3, 40), np.zeros((40, 3)[axis], np.float32)
    return lambda: kernels.reduce(out, x, axis=axis)


def permuted():
    x, out = floats(3, 40), np.zeros((40, 3), np.float16)
    return lambda: kernels.transpose(out, x)


def product(*shape, dtype=np.float16, **options):
    M, N, K = shape
    A, B, C = floats(M, K, dtype=dtype), floats(N, K, dtype=dtype), np.zeros((M, N), dtype)
    return lambda: kernels.gemm(A, B, C, **options)


CALLS = {
    "attention": [lambda: attention(False), lambda: attention(False, causal=True)],
    "attention_backward": [lambda: attention(True), lambda: attention(True, deterministic=True)],
    "attention_varlen": [lambda: attention(False, True)],
    "attention_varlen_backward": [lambda: attention(True, True)],
    "paged_attention": [paged],
    "embedding": [lambda: embedding(False)], "embedding_backward": [lambda: embedding(True),
                                                                    lambda: embedding(True, 20000)],
    "swiglu": [lambda: rows(kernels.swiglu, floats(3, 40))], "geglu": [lambda: rows(kernels.geglu, floats(3, 40))],
    "_gradients": [lambda: gated(kernels.swiglu_backward), lambda: gated(kernels.geglu_backward, False)],
    "gemm": [lambda: product(40, 48, 64), lambda: product(33, 35, 37), lambda: product(64, 64, 64, dtype=np.float32)],
    "_permute": [permuted], "_reduce": [lambda: reduced(0), lambda: reduced(1)],
    "rope": [rope], "cumsum": [lambda: rows(kernels.cumsum)], "top_k": [top_k],
    "cross_entropy": [entropy], "cross_entropy_backward": [lambda: entropy(True)],
    "linear_cross_entropy": [linear_entropy],
    "rms_norm": [lambda: rows(kernels.rms_norm, floats(40))], "layer_norm": [lambda: rows(kernels.layer_norm)],
    "rms_norm_backward": [lambda: norm_backward(kernels.rms_norm_backward)],
    "layer_norm_backward": [lambda: norm_backward(kernels.layer_norm_backward, np.zeros(3, np.float32))],
    "softmax": [lambda: rows(kernels.softmax)], "log_softmax": [lambda: rows(kernels.log_softmax)],
    "softmax_backward": [lambda: rows(kernels.softmax_backward, floats(3, 40))],
    "log_softmax_backward": [lambda: rows(kernels.log_softmax_backward, floats(3, 40))],
}


def test_all_of_them_are_here():
    assert set(CALLS) == set(shipped())


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, calls in CALLS.items() for make in calls])
def test_the_third_call_decides_nothing(name, make, monkeypatch):
    function, calls = shipped()[name], []
    body = function.function
    monkeypatch.setattr(function, "function", lambda *args, **kwargs: (calls.append(name), body(*args, **kwargs))[1])
    call = make()
    call()
    again = call()
    assert calls
    calls.clear()
    last = call()
    assert not calls, f"{name} is made anew each time"
    assert type(last) is type(again)
    assert all(x is y for x, y in zip(last, again, strict=True)) if isinstance(last, tuple) else last is again


def test_tuples_of_arrays_are_returned():
    @mo.replayed
    def halves(x, y):
        zero[1, 8](x)
        zero[1, 8](y)
        return y, None, (x,)
    for _ in range(4):
        x, y = np.ones(8, np.float32), np.ones(8, np.float32)
        found = halves(x, y)
        assert found[0] is y and found[1] is None and found[2][0] is x
        assert not x.any() and not y.any()


@mo.kernel
def zero(x):
    x[mo.thread_idx().x] = 0.0
