"""Atomics on other blocks' shared memory, on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

import peer_atomic_kernels as cases

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("clusters need sm_90")


def on_gpu(kernel, args, blocks):
    device = [torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for x in args]
    kernel.launch(*device, grid=blocks, block=cases.BLOCK, cluster=4)
    torch.cuda.synchronize()
    return [x.cpu().numpy() for x in device[:2]]


def test_a_histogram_over_a_cluster():
    args = cases.histogram_arguments()
    assert np.array_equal(on_gpu(cases.histogram_kernel, args, 12)[0], cases.histogram_expected(args))


@pytest.mark.parametrize(("kind", "dtype"), [case for case in cases.KINDS if case[1] is not np.uint64])
def test_kinds(kind, dtype):
    args = cases.kinds_arguments(kind, dtype)
    found = on_gpu(cases.kinds_kernel, args, 4)
    for got, wanted in zip(found, cases.kinds_expected(args), strict=True):
        assert np.array_equal(got, wanted)
