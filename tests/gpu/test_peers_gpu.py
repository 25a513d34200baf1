"""Shared memory of other blocks of a cluster on the GPU, on more clusters than run at once; the table has small ones.

Sums of float4 groups and rings through clusters of 2, 4 and 8 blocks, again and again, against NumPy in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

import ops_kernels_peers as peers
from moye import dtypes as dt
from ops_kernels import normal, poison
from ops_kernels_tiles import CASES, to_device, to_host

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need sm_90")


def on_gpu(kernel, host, grid, cluster, monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")
    device = [to_device(x) for x in host]
    kernel.launch(*device, grid=grid, block=peers.THREADS, cluster=cluster)
    torch.cuda.synchronize()
    return to_host(device[0], host[0])


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_sums(cluster, monkeypatch):
    rng, blocks = np.random.default_rng(cluster), 999 * cluster
    host = [np.asfortranarray(poison((4, 8 // cluster, peers.THREADS, blocks), np.float32)),
            np.asfortranarray(normal(rng, (4, 8, peers.THREADS, blocks))), 32]
    wanted = CASES[f"peer-sum-{cluster}"].expected(host)[0]
    for _ in range(3):
        found = on_gpu(peers.peer_sum_kernel, host, blocks, cluster, monkeypatch)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kernel", [peers.peer_ring_kernel, peers.peer_handover_kernel], ids=["barriers", "mbarriers"])
@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_rings(cluster, kernel, monkeypatch):
    """By barriers of the cluster, and by arrivals at mbarriers of the neighbours."""
    rng, blocks = np.random.default_rng(cluster), 333 * cluster
    host = [poison((peers.THREADS, blocks), np.float64), normal(rng, (peers.THREADS, blocks), dt.float64), 101]
    found = on_gpu(kernel, host, blocks, cluster, monkeypatch)
    np.testing.assert_allclose(found, CASES[f"peer-ring-{cluster}"].expected(host)[0], rtol=1e-12)
