"""Kernels of the tutorial on the GPU: what its chapters show in the simulator is right on a device."""

from __future__ import annotations

import functools
import math
import runpy
from pathlib import Path

import pytest
import torch

import moye as mo

LEARN = Path(__file__).parents[2] / "docs" / "learn"


@functools.cache
def chapter(stem):
    """The names that a chapter defines; it runs in the simulator first."""
    return runpy.run_path(str(LEARN / f"{stem}.py"))


def column_major(rows, columns):
    return torch.randn(columns, rows, device="cuda").T


def close(found, expected, bound):
    return float((found.double() - expected).norm()) <= bound * float(expected.norm())


@pytest.mark.parametrize("number", range(1, 11))
def test_each_step_of_the_product(number):
    A, B = column_major(256, 64), column_major(384, 64)
    C = torch.full((384, 256), math.nan, device="cuda").T
    chapter("05_sgemm")["STEPS"][f"step_{number}"](A, B, C, run=lambda kernel: kernel)
    assert close(C, A.double() @ B.double().T, 1e-6)


@pytest.mark.parametrize("layout", ["plain", "padded", "swizzled"])
def test_the_transpose(layout):
    names = chapter("03_banks")
    src, dst = column_major(64, 96), torch.full((64, 96), math.nan, device="cuda").T
    names["transpose"][(2, 3), 256](dst, src, names[layout], names["threads"])
    assert torch.equal(dst, src.T)


def test_a_product_through_ldmatrix():
    names = chapter("06_tensor_cores")
    A, B = (torch.randn(32, 64, device="cuda").half() for _ in range(2))
    C = torch.full((32, 32), math.nan, device="cuda")
    objects = [names[name] for name in ("swizzled", "swizzled", "copy", "copy", "read_A", "read_B", "mma")]
    names["through_shared"][1, 128](A, B, C, *objects)
    assert close(C, A.double() @ B.double().T, 1e-6)


def test_attention_on_tensor_cores():
    names = chapter("10_attention")
    Q, K, V = (torch.randn(rows, 64, device="cuda").half() for rows in (128, 256, 256))
    O = torch.zeros_like(Q)                                                                     # noqa: E741
    objects = [names[name] for name in ("smem", "copy", "read_K", "read_V", "mma")]
    names["tensor_cores"][2, 128](O, Q, K, V, names["scale"], *objects)
    exact = torch.softmax(names["scale"] * Q.double() @ K.double().T, 1) @ V.double()
    assert close(O, exact, 2e-3)


@pytest.fixture
def hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs sm_90a")


def test_a_ring_of_tensor_copies(hopper):
    names = chapter("08_tma")
    x, out = torch.randn(128, 200, device="cuda"), torch.full((128,), math.nan, device="cuda")
    names["row_sums"][2, 64](out, mo.make_tma_copy(mo.TmaLoad(), x, names["layout"]))
    assert close(out, x.double().sum(1), 1e-5)


def test_warps_with_roles(hopper):
    names = chapter("09_wgmma")
    A, B = (torch.randn(256, 512, device="cuda").half() for _ in range(2))
    C = torch.full((256, 256), math.nan, device="cuda")
    loads = [mo.make_tma_copy(mo.TmaLoad(), x, names[tile]) for x, tile in ((A, "tile_A"), (B, "tile_B"))]
    names["matmul"][(2, 2), 384](loads[0], names["smem_A"], loads[1], names["smem_B"], C, names["mma"], 512)
    assert close(C, A.double() @ B.double().T, 1e-6)


def test_a_cluster_that_sums(hopper):
    names = chapter("11_clusters")
    X = torch.rand(3, 2048, device="cuda")
    Y = torch.full_like(X, math.nan)
    names["normalise"].launch(Y, X, grid=3 * names["BLOCKS"], block=names["THREADS"], cluster=names["BLOCKS"])
    assert close(Y, X.double() / X.double().sum(1, keepdim=True), 1e-6)
