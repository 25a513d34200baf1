"""Kernels of other systems, ported, on the GPU against NumPy; the scan has sixteen million floats."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import ported_kernels as ports
from kernels.test_ported_kernels import convolution_arguments, floats, layer_norm_arguments
from kernels.test_ports import PORTS


def run(function, *args):
    """The arguments after a launch on the device."""
    placed = [mo.testing.array(x) for x in args]
    function(*placed)
    return [mo.testing.host(x) for x in placed]


@pytest.mark.parametrize("n", [1, 512, 1_000_003])
def test_vector_add(n):
    a, b = floats(2, n)
    assert (run(ports.vector_add, np.full(n, np.nan, np.float32), a, b)[0] == a + b).all()


@pytest.mark.parametrize("columns", [100, 4097])
def test_rows(columns):
    x, weight = floats(300, columns) * 5, floats(columns, seed=1)
    wide = x.astype(np.float64)
    found = run(ports.softmax, np.full_like(x, np.nan), x)[0]
    wanted = np.exp(wide - wide.max(1, keepdims=True))
    assert np.allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
    found = run(ports.rms_norm, np.full_like(x, np.nan), x, weight)[0]
    assert np.allclose(found, wide / np.sqrt((wide ** 2).mean(1, keepdims=True) + 1e-6) * weight, rtol=1e-5, atol=1e-6)


def test_layer_norm_backward():
    arguments, wanted = layer_norm_arguments(512, 1000)
    found = run(lambda *args: ports.layer_norm_backward(*args, blocks=64), *arguments)
    for here, exact in zip(found, wanted, strict=False):
        assert np.allclose(here, exact, rtol=1e-4, atol=1e-4)


def test_top_k():
    x = np.random.default_rng(0).integers(-500, 500, (200, 3000)).astype(np.float32)
    values, indices, _ = run(ports.top_k, np.zeros((200, 16), np.float32), np.zeros((200, 16), np.int32), x)
    order = np.argsort(-x, axis=1, kind="stable")[:, :16]
    assert (indices == order).all() and (values == np.take_along_axis(x, order, 1)).all()


@pytest.mark.parametrize("tiles", [1, 33, 8192])
def test_scan(tiles):
    n = tiles * ports.THREADS * ports.ITEMS                         # 16 777 216 of the largest
    x = np.random.default_rng(0).random(n, np.float32)
    words, ticket = np.zeros(tiles, np.uint64), np.zeros(1, np.int32)
    found = run(ports.scan, np.full(n, np.nan, np.float32), x, words, ticket)[0]
    assert np.allclose(found, x.astype(np.float64).cumsum(), rtol=2e-5, atol=1e-5)
    ones = run(ports.scan, np.zeros(n, np.float32), np.ones(n, np.float32), words, ticket)[0]
    assert (ones == np.arange(1, n + 1)).all()                      # all of them are floats, up to 2^24


def test_histogram():
    x = np.random.default_rng(0).integers(0, 256, 5_000_001).astype(np.uint8)
    x[:2_000_000] = 7
    counts = run(lambda *args: ports.histogram(*args, blocks=264), np.zeros(256, np.int32), x)[0]
    assert (counts == np.bincount(x, minlength=256)).all()


def test_gather():
    table, ids = floats(5000, 512, dtype=np.float16), np.random.default_rng(0).integers(0, 5000, 3001).astype(np.int32)
    assert (run(ports.gather, np.zeros((3001, 512), np.float16), table, ids)[0] == table[ids]).all()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sizes", [(2, 9, 13, 72, 40), (1, 1, 1, 8, 1), (8, 56, 57, 256, 264)])
def test_convolution(sizes, stride):
    if not mo.testing.device("sm_90a"):
        pytest.skip("wgmma needs sm_90a")
    x, w, exact = convolution_arguments(*sizes, stride)
    found = run(lambda *args: ports.convolution(*args, stride), np.full(exact.shape, np.nan, np.float32), x, w)[0]
    assert np.allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("port", PORTS, ids=str)
def test_programs_of_other_systems(port, large):
    arguments, wanted = port.draw(np.random.default_rng(0), port.large if large else port.sizes[1])
    port.judge(run(port.launch, *arguments), wanted)
