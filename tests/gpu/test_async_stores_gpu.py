"""st.async and red.async on the GPU, on more clusters than run at once."""

from __future__ import annotations

import numpy as np
import pytest

import async_store_kernels as cases
from ops_kernels_tiles import to_device, to_host

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("clusters need sm_90")


def on_gpu(kernel, args, blocks, block=cases.BLOCK):
    device = [to_device(x) if isinstance(x, np.ndarray) else x for x in args]
    for _ in range(3):
        kernel.launch(*device, grid=blocks, block=block, cluster=cases.CLUSTER)
    torch.cuda.synchronize()
    return to_host(device[0], args[0])


@pytest.mark.parametrize("turns", [1, 9])
@pytest.mark.parametrize(("dtype", "count"), cases.RINGS)
def test_rings(dtype, count, turns):
    args = cases.ring_arguments(dtype, count, turns, clusters=500)
    assert np.array_equal(on_gpu(cases.ring_kernel, args, 500 * cases.CLUSTER), cases.ring_expected(args))


@pytest.mark.parametrize(("kind", "dtype"), cases.SUMS)
def test_sums(kind, dtype):
    args = cases.sums_arguments(kind, dtype, clusters=500)
    assert np.array_equal(on_gpu(cases.sums_kernel, args, 500 * cases.CLUSTER), cases.sums_expected(args))


def test_a_pipeline():
    """Full and empty mbarriers alone, again and again."""
    args = cases.handed_on_arguments(1001, clusters=300)
    found = on_gpu(cases.handed_on, args, 300 * cases.CLUSTER, block=32)
    np.testing.assert_allclose(found, cases.handed_on_expected(args), rtol=1e-4)
