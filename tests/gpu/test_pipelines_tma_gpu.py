"""``mo.PipelineTma`` on the GPU (sm_90a) against float64: roles, ping-pong, a cluster; again and again.

A ring that waits for the wrong phase is wrong only sometimes: many k-tiles, several tiles, every depth.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import moye as mo
import pipeline_tma_kernels as kernels

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
                                reason="wgmma is sm_90a's alone")


def on_gpu(name, M, N, K, stages, times=1):
    """Each launch on a poisoned C; the relative error of the worst."""
    C, A, B = kernels.arguments(M, N, K)
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    device = [torch.from_numpy(x.base).cuda()[:, :K] for x in (A, B)]
    worst = 0.0
    for _ in range(times):
        out = torch.from_numpy(C).cuda()
        kernels.run(name, kernels.KERNELS[name], out, *device, stages)
        found = out.cpu().numpy().astype(np.float64)
        assert np.isfinite(found).all()
        worst = max(worst, float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    return worst


@pytest.mark.parametrize("name", kernels.KERNELS)
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("k_tiles", range(1, 8))
def test_every_depth_and_length(name, stages, k_tiles):
    assert on_gpu(name, 300, 200, 64 * k_tiles - 7, stages) < 1e-6


@pytest.mark.parametrize("name", kernels.KERNELS)
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_again_and_again(name, stages):
    """Enough blocks for every multiprocessor, enough k-tiles for many rounds."""
    assert on_gpu(name, 132 * 128, 256, 1000, stages, times=20) < 2e-6


@pytest.mark.parametrize("size", [(128, 128, 64), (1000, 520, 1000), (4096, 4096, 1024), (129, 8, 8)], ids=str)
def test_the_example(size):
    """A warp for each role: its own bound on the error of float16."""
    path = Path(__file__).parents[2] / "examples" / "17_matmul_warp_specialized.py"
    spec = importlib.util.spec_from_file_location("example_17", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert mo.testing.device("sm_90a")
    module.main(*size)
