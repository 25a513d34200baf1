"""Kernels of other systems, ported: in the simulator against NumPy, without a finding, and short."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import moye as mo
import ported_kernels as ports


def floats(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture(autouse=True)
def checked():
    """Every launch is checked, and has no finding."""
    with mo.checking():
        yield


@pytest.mark.parametrize("n", [1, 3, 512, 4099])
def test_vector_add(n):
    a, b = floats(2, n)
    out = np.full(n, np.nan, np.float32)
    ports.vector_add(out, a, b)
    assert (out == a + b).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", [1, 100, 1000])
def test_softmax(columns, dtype):
    x = floats(3, columns, dtype=dtype) * 5
    x[0, 0] = -np.inf if columns > 1 else 0
    out = np.full(x.shape, np.nan, np.float32)
    ports.softmax(out, x)
    wanted = np.exp(x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64))
    assert np.allclose(out, wanted / wanted.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("columns", [1, 100, 1000])
def test_rms_norm(columns):
    x, weight = floats(3, columns), floats(columns, seed=1)
    out = np.full_like(x, np.nan)
    ports.rms_norm(out, x, weight)
    wide = x.astype(np.float64)
    assert np.allclose(out, wide / np.sqrt((wide ** 2).mean(1, keepdims=True) + 1e-6) * weight, rtol=1e-5, atol=1e-6)


def layer_norm_arguments(rows, columns):
    """The arguments, and the three gradients in float64."""
    x, dy, weight = floats(rows, columns), floats(rows, columns, seed=1), floats(columns, seed=2)
    wide = x.astype(np.float64)
    mean, rstd = wide.mean(1), 1 / np.sqrt(wide.var(1) + 1e-5)
    normal, scaled = (wide - mean[:, None]) * rstd[:, None], dy.astype(np.float64) * weight
    dx = scaled - normal * (normal * scaled).mean(1, keepdims=True) - scaled.mean(1, keepdims=True)
    zeros = np.zeros(columns, np.float32)
    return ([np.full_like(x, np.nan), zeros, zeros.copy(), dy, x, weight, mean.astype(np.float32),
             rstd.astype(np.float32)], (dx * rstd[:, None], (dy * normal).sum(0), dy.astype(np.float64).sum(0)))


@pytest.mark.parametrize("columns", [64, 300])
def test_layer_norm_backward(columns):
    arguments, wanted = layer_norm_arguments(7, columns)
    ports.layer_norm_backward(*arguments)
    for found, exact in zip(arguments, wanted, strict=False):
        assert np.allclose(found, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [10, 300, 1000])
def test_top_k(columns):
    x = np.random.default_rng(0).integers(-50, 50, (3, columns)).astype(np.float32)
    x[1, 3:] = -np.inf
    values, indices = np.full((3, 8), np.nan, np.float32), np.full((3, 8), -1, np.int32)
    ports.top_k(values, indices, x)
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    assert (indices == order).all() and (values == np.take_along_axis(x, order, 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [1, 3, 70])
def test_scan(tiles):
    n = tiles * ports.THREADS * ports.ITEMS
    x = np.random.default_rng(tiles).integers(0, 10, n).astype(np.float32)
    out = np.full(n, np.nan, np.float32)
    ports.scan(out, x, np.zeros(tiles, np.uint64), np.zeros(1, np.int32))
    assert (out == x.cumsum()).all()


@pytest.mark.parametrize("n", [1, 1000, 10001])
def test_histogram(n):
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    x[: n // 3] = 7
    counts = np.zeros(256, np.int32)
    ports.histogram(counts, x)
    assert (counts == np.bincount(x, minlength=256)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gather(dtype):
    table, ids = floats(50, 72, dtype=dtype), np.random.default_rng(0).integers(0, 50, 33).astype(np.int32)
    out = np.zeros((33, 72), dtype)
    ports.gather(out, table, ids)
    assert (out == table[ids]).all()


def convolution_arguments(images, height, width, channels, filters, stride):
    """x, w in bfloat16, and their convolution in float64, padded by one pixel."""
    x = floats(images, height, width, channels, dtype=ml_dtypes.bfloat16)
    w = (floats(filters, 3, 3, channels, seed=1) / np.sqrt(9 * channels)).astype(ml_dtypes.bfloat16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    heights, widths = (height - 1) // stride + 1, (width - 1) // stride + 1
    exact = np.zeros((images, heights, widths, filters))
    for r, s in np.ndindex(3, 3):
        rows, columns = (slice(i, i + (n - 1) * stride + 1, stride) for i, n in ((r, heights), (s, widths)))
        exact += padded[:, rows, columns] @ w[:, r, s].astype(np.float64).T
    return x, w, exact


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sizes", [(2, 9, 13, 72, 40), (1, 1, 1, 8, 1), (3, 5, 8, 136, 130), (5, 16, 4, 64, 64)])
def test_convolution(sizes, stride):
    """Outputs, channels and filters that are no multiples of a tile; one pixel in nothing but padding."""
    x, w, exact = convolution_arguments(*sizes, stride)
    out = np.full(exact.shape, np.nan, np.float32)
    ports.convolution(out, x, w, stride)
    assert np.allclose(out, exact, rtol=1e-5, atol=1e-5)
    rounded = np.full(exact.shape, np.nan, ml_dtypes.bfloat16)
    ports.convolution(rounded, x, w, stride)
    assert np.allclose(rounded.astype(np.float64), exact, rtol=1 / 128, atol=1e-5)


def test_the_convolution_compiles():
    x, w, out = (mo.TensorLike(dtype, shape, tuple(int(np.prod(shape[i + 1:])) for i in range(len(shape))))
                 for dtype, shape in ((mo.bfloat16, (2, 9, 13, 72)), (mo.bfloat16, (40, 9, 72)),
                                      (mo.float32, (2 * 9 * 13, 40))))
    tiles = [mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (rows, ports.BK)) for rows in (ports.BM, ports.BN)]
    images = mo.make_tma_copy(mo.TmaLoadIm2col(filter=(3, 3), padding=1), x, tiles[0])
    filters = mo.make_tma_copy(mo.TmaLoad(), w, tiles[1], (ports.BN, 1, ports.BK))
    program = ports.convolution_kernel.compile(out, images, filters, ports.CONVOLUTION_MMA, block=288, arch="sm_90a")
    assert program.spills == 0 and not program.notes
    assert "UTMALDG.4D.IM2COL" in program.sass and program.sass.count("HGMMA") >= 4


def test_a_row_that_is_not_there():
    table, ids = floats(50, 64), np.full(4, 50, np.int32)
    report = mo.check(ports.gather_kernel)[1, ports.THREADS](np.zeros((4, 64), np.float32), table, ids)
    assert {finding.code for finding in report.findings} <= {"B1", "B2"} and not report.ok


def test_each_is_short():
    kernels = [value for value in vars(ports).values() if isinstance(value, type(ports.softmax_kernel))]
    assert len(kernels) == 9
    for kernel in kernels:
        assert len(inspect.getsource(kernel.function).splitlines()) < 60
