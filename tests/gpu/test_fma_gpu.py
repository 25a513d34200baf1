"""With MOYE_FMA=exact the simulator's gemm and the GPU's are equal bit by bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import ops_kernels_tiles as tiles
from moye.kernels import gemm_simt

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "09_matmul_double_buffered.py"
GEMMS = [name for name in tiles.CASES if name.startswith("gemm-UniversalFMA")]


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("MOYE_FMA", "exact")
    monkeypatch.setenv("MOYE_CHECK", "0")               # tests/kernels has the checks


@pytest.fixture(scope="module")
def double_buffered():
    spec = importlib.util.spec_from_file_location("gpu_fma_double_buffered", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.matmul


def columns(rng, shape, dtype, spread=0):
    """Random-normal, column-major, scaled by powers of two up to 2**spread either way."""
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.asfortranarray(x.astype(dtype))


def both(matmul, A, B, dtype):
    """The result on the GPU and in the simulator."""
    simulated = np.full((len(A), len(B)), np.nan, dtype, order="F")
    C = tiles.to_device(simulated)
    matmul(tiles.to_device(A), tiles.to_device(B), C)
    torch.cuda.synchronize()
    matmul(A, B, simulated)
    return tiles.to_host(C, simulated), simulated


def differing(x, y):
    """How many elements have other bits; any NaN is like any other."""
    bits = np.dtype(f"u{x.dtype.itemsize}")
    return np.count_nonzero((x.view(bits) != y.view(bits)) & ~((x != x) & (y != y)))


@pytest.mark.parametrize("size", [(2048, 2048, 256), (256, 384, 32), (128, 128, 2048)], ids=str)
def test_double_buffered_fp32(double_buffered, size, monkeypatch):
    (M, N, K), rng = size, np.random.default_rng(0)
    A, B = columns(rng, (M, K), np.float32), columns(rng, (N, K), np.float32)
    found, simulated = both(double_buffered, A, B, np.float32)
    assert differing(found, simulated) == 0
    monkeypatch.setenv("MOYE_FMA", "fast")
    double_buffered(A, B, simulated)
    assert differing(found, simulated) > 0, "two roundings can be told from one"


@pytest.mark.parametrize(("dtype", "spread"), [(np.float32, 20), (np.float32, 70), (np.float64, 0), (np.float64, 30),
                                               (np.float64, 520)], ids=str)
@pytest.mark.parametrize("size", [(256, 384, 96), (131, 67, 45)], ids=str)
def test_gemm_simt(dtype, spread, size):
    """Sums in order of k, with overflow and subnormal numbers where the spread is wide."""
    (M, N, K), rng = size, np.random.default_rng(1)
    A, B = columns(rng, (M, K), dtype, spread), columns(rng, (N, K), dtype, spread)
    found, simulated = both(lambda a, b, c: gemm_simt(a, b, c, splits=1), A, B, dtype)
    assert differing(found, simulated) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_results(double_buffered, dtype):
    """Products around the least normal number."""
    least, rng = np.finfo(dtype).minexp, np.random.default_rng(2)
    A = np.asfortranarray(np.ldexp(columns(rng, (128, 16), dtype, 10), least // 2).astype(dtype))
    B = np.asfortranarray(np.ldexp(columns(rng, (128, 16), dtype, 10), least - least // 2 - 14).astype(dtype))
    found, simulated = both(double_buffered if dtype == np.float32 else gemm_simt, A, B, dtype)
    assert np.count_nonzero(np.abs(found) < np.finfo(dtype).smallest_normal) > 0
    assert differing(found, simulated) == 0


@pytest.mark.parametrize("name", GEMMS)
def test_every_dtype_of_universal_fma(name):
    case = tiles.CASES[name]
    n = case.sizes[0]
    simulated = case.arguments(n)
    device = [tiles.to_device(x) for x in simulated]
    case.launch(device, n)
    torch.cuda.synchronize()
    case.launch(simulated, n)
    assert differing(tiles.to_host(device[0], simulated[0]), simulated[0]) == 0
