"""Every kernel of the examples on the GPU: against float64 NumPy, and against the simulator."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import moye as mo

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = [(2048, 2048, 256), (256, 384, 32), (384, 128, 64)]
MATMULS = {
    "tiled": ("03_matmul_tiled", ()),
    "async_1x1": ("04_matmul_async", ((1, 1),)),
    "async_4x1": ("04_matmul_async", ((4, 1),)),
    "vectorized": ("05_matmul_vectorized", ()),
    "overlapped_16x16_3": ("06_matmul_overlapped", ((16, 16), False)),
    "overlapped_16x16_4": ("06_matmul_overlapped", ((16, 16), True)),
    "overlapped_32x8_3": ("06_matmul_overlapped", ((32, 8), False)),
    "overlapped_32x8_4": ("06_matmul_overlapped", ((32, 8), True)),
    "double_buffered": ("09_matmul_double_buffered", ()),
}
# name: (example, options, order of A; B is row-major)
TENSOR_CORE = {
    "tensor_core": ("10_matmul_tensor_core", (), "F"),
    "ldmatrix_k": ("11_matmul_ldmatrix", ("k",), "C"),
    "ldmatrix_m": ("11_matmul_ldmatrix", ("m",), "F"),
    "tensor_core_double_buffered": ("12_matmul_tensor_core_double_buffered", (), "F"),
}
# The GPU contracts a * b + c to one rounding, the simulator rounds twice.
TO_NUMPY, TO_SIMULATOR = 1e-5, 1e-6
# Tensor cores sum the products of an instruction in an order of their own, and cut off where float32 rounds.
TF32_TO_NUMPY, TF32_TO_SIMULATOR = 1e-3, 5e-6


@cache
def load(stem):
    spec = importlib.util.spec_from_file_location(f"gpu_{stem}", EXAMPLES / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def device(x):
    """A column-major copy on the GPU."""
    return torch.from_numpy(np.ascontiguousarray(x.T)).cuda().T


def columns(rng, *shape):
    return np.asfortranarray(rng.standard_normal(shape, np.float32))


def poisoned(*shape):
    return np.full(shape, np.nan, np.float32, order="F")


def difference(x, expected):
    return np.linalg.norm(np.asarray(x, np.float64) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", MATMULS)
def test_matmul(name, size, monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")               # tests/kernels has the checks
    (stem, options), (M, N, K) = MATMULS[name], size
    rng = np.random.default_rng(0)
    A, B, simulated = columns(rng, M, K), columns(rng, N, K), poisoned(M, N)
    C = device(simulated)
    load(stem).matmul(device(A), device(B), C, *options)
    load(stem).matmul(A, B, simulated, *options)
    C = C.cpu().numpy()
    assert difference(C, A.astype(np.float64) @ B.T.astype(np.float64)) < TO_NUMPY
    assert difference(C, simulated.astype(np.float64)) < TO_SIMULATOR


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", TENSOR_CORE)
def test_tensor_core_matmul(name, size, monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")
    (stem, options, order), (M, N, K) = TENSOR_CORE[name], size
    if M * N > 1 << 20 and name != "tensor_core_double_buffered":
        M, N = M // 4, N // 4                           # 16x8 tiles: the simulator's share
    rng = np.random.default_rng(0)
    A, B = np.asarray(columns(rng, M, K), order=order), rng.standard_normal((N, K), np.float32)
    simulated = poisoned(M, N)
    A_gpu, C = device(A) if order == "F" else torch.from_numpy(A).cuda(), device(simulated)
    load(stem).matmul(A_gpu, torch.from_numpy(B).cuda(), C, *options)
    load(stem).matmul(A, B, simulated, *options)
    C = C.cpu().numpy()
    assert difference(C, A.astype(np.float64) @ B.T.astype(np.float64)) < TF32_TO_NUMPY
    assert difference(C, simulated.astype(np.float64)) < TF32_TO_SIMULATOR


@pytest.mark.parametrize("size", [(512, 512, 512), (256, 384, 192), (128, 64, 64)], ids=str)
def test_pipelined_matmul(size):
    M, N, K = size                                      # the last: fewer k-tiles than stages
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
    simulated = np.full((M, N), np.nan, np.float32)
    C = torch.from_numpy(simulated).cuda()
    load("13_matmul_pipelined").matmul(torch.from_numpy(A).cuda(), torch.from_numpy(B).cuda(), C)
    load("13_matmul_pipelined").matmul(A, B, simulated)
    C = C.cpu().numpy()
    assert difference(C, A.astype(np.float64) @ B.T.astype(np.float64)) < TO_NUMPY
    assert difference(C, simulated.astype(np.float64)) < TO_SIMULATOR


def require_hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


@pytest.mark.parametrize("size", [(512, 512, 1024), (256, 384, 200), (128, 128, 64)], ids=str)
def test_matmul_of_warpgroups(size):
    require_hopper()
    M, N, K = size                                      # the last: fewer k-tiles than stages
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
    simulated = np.full((M, N), np.nan, np.float32)
    C = torch.from_numpy(simulated).cuda()
    load("15_matmul_wgmma").matmul(torch.from_numpy(A).cuda(), torch.from_numpy(B).cuda(), C)
    load("15_matmul_wgmma").matmul(A, B, simulated)
    C = C.cpu().numpy()
    assert difference(C, A.astype(np.float64) @ B.T.astype(np.float64)) < TO_NUMPY
    assert difference(C, simulated.astype(np.float64)) < TF32_TO_SIMULATOR


@pytest.mark.parametrize("size", [(2048, 1024), (100, 44)], ids=str)
def test_copy_by_tma(size):
    require_hopper()
    src = torch.randn(size, device="cuda")
    dst = torch.full_like(src, float("nan"))
    load("14_tma_copy").copy(dst, src)
    assert torch.equal(dst, src)


@pytest.mark.parametrize("run", ["copy", "staged_copy"])
@pytest.mark.parametrize("size", [(2048, 1024), (96, 64)], ids=str)
def test_copy(run, size):
    src, dst = columns(np.random.default_rng(0), *size), device(poisoned(*size))
    getattr(load("01_copy"), run)(dst, device(src))
    assert np.array_equal(dst.cpu().numpy(), src)


@pytest.mark.parametrize("size", [(2048, 1024), (96, 64)], ids=str)
def test_transpose(size):
    src, dst = columns(np.random.default_rng(0), *size), device(poisoned(*size[::-1]))
    load("02_transpose").transpose(dst, device(src))
    assert np.array_equal(dst.cpu().numpy(), src.T)


def test_scan_is_bit_equal_to_the_simulator():
    x, simulated = columns(np.random.default_rng(0), 4096), poisoned(4096)
    out = torch.from_numpy(simulated).cuda()
    load("07_reductions").scan(out, torch.from_numpy(x).cuda())
    load("07_reductions").scan(simulated, x)
    assert np.array_equal(out.cpu().numpy(), simulated)


@pytest.mark.parametrize("run", ["gelu", "in_place"])
def test_elementwise(run):
    module, rng = load("08_elementwise"), np.random.default_rng(0)
    x, bias, out = columns(rng, 256, 128), columns(rng, 256, 1), poisoned(256, 128)
    x_gpu, out_gpu = device(x), device(out)
    if run == "gelu":
        module.gelu(out_gpu, x_gpu, 1.5)
        module.gelu(out, x, 1.5)
    else:
        module.in_place(x_gpu, device(bias))
        module.in_place(x, bias)
        out_gpu, out = x_gpu, x
    assert difference(out_gpu.cpu().numpy(), out.astype(np.float64)) < TO_SIMULATOR


HOPPER = ("14_tma_copy", "15_matmul_wgmma", "16_cluster_reduction", "18_matmul_persistent")
SMALL = {"01_copy": (256, 512), "02_transpose": (512, 256), "03_matmul_tiled": (256, 384, 64),
         "04_matmul_async": (256, 384, 64), "05_matmul_vectorized": (256, 384, 64),
         "06_matmul_overlapped": (256, 384, 64), "07_reductions": (1 << 14,), "08_elementwise": (256, 256),
         "10_matmul_tensor_core": (256, 384, 64), "11_matmul_ldmatrix": (256, 384, 64),
         "12_matmul_tensor_core_double_buffered": (2048, 2048, 256), "13_matmul_pipelined": (256, 384, 192),
         "14_tma_copy": (1000, 204), "15_matmul_wgmma": (256, 384, 200),
         "16_cluster_reduction": (200, 16384), "18_matmul_persistent": (4000, 2056, 1000)}


@pytest.mark.parametrize("stem", SMALL)
def test_example_runs_on_the_gpu(stem, capsys):
    if stem in HOPPER:
        require_hopper()
    module = load(stem)
    assert mo.testing.device()
    module.main(*SMALL[stem])
    assert capsys.readouterr().out


def test_demo_runs_on_the_gpu_without_torch_arrays(capsys, tmp_path, monkeypatch):
    """Its arrays have __cuda_array_interface__ and nothing else."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    load("09_matmul_double_buffered").main(out=tmp_path)
    told = capsys.readouterr().out
    assert "us a launch" in told
    assert "ran on:   NVIDIA" in told
    assert (tmp_path / "matmul_double_buffered.cu").exists()


def test_a_refused_launch_writes_nothing():
    """A row-major A, on the GPU: the same sentence as in the simulator."""
    import moye as mo

    module = load("05_matmul_vectorized")
    A, B, C = torch.randn(256, 16, device="cuda"), device(poisoned(128, 16)), device(poisoned(256, 128))
    C.fill_(7)
    with pytest.raises(mo.TensorError, match="A is row-major"):
        module.matmul(A, B, C)
    torch.cuda.synchronize()
    assert (C == 7).all()
