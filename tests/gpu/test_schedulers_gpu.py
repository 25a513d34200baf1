"""The tile schedulers on the GPU: copies of every tile once, stream-K and grouped products against float64.

Blocks that hand sums to each other do so differently each time: many launches with the same flags.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scheduler_kernels as kernels

torch = pytest.importorskip("torch")


def device(x):
    """The same bits, shape and strides on the GPU."""
    order = np.argsort(x.strides)[::-1]
    return torch.from_numpy(np.ascontiguousarray(x.transpose(order))).cuda().permute(*np.argsort(order).tolist())


@pytest.mark.parametrize(("kernel", "cluster"), [(kernels.copy_kernel, 1), (kernels.copy_kernel, 2),
                                                 (kernels.turns_kernel, 1)], ids=["copy", "cluster", "turns"])
@pytest.mark.parametrize("shape", [(1000, 700, 3), (4096, 1024, 1), (33, 3000, 2)], ids=str)
@pytest.mark.parametrize(("group", "along", "blocks"), [(8, "m", 132), (5, "n", 264), (8, "n", 2)])
def test_copies(kernel, cluster, shape, group, along, blocks):
    if cluster > 1 and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters are sm_90's")
    src, dst, counts = (device(x) for x in kernels.copied(shape))
    kernel.launch(dst, src, counts, group, along, cluster, grid=blocks, block=kernels.THREADS, cluster=cluster)
    assert torch.equal(dst, src)
    assert bool((counts == 1).all())


@pytest.mark.parametrize("size", [(1000, 700, 900), (100, 70, 4000), (2000, 1500, 100), (32, 32, 2000)], ids=str)
@pytest.mark.parametrize("blocks", [7, 132, 264])
@pytest.mark.parametrize("hybrid", [True, False])
def test_stream_k(size, blocks, hybrid):
    """The same bits each time, as the order of the sums is that of the blocks; the flags are zeros again."""
    C, A, B = (device(x) for x in kernels.arguments(*size))
    sums, flags = (device(x) for x in kernels.workspace(blocks))
    exact = A.double() @ B.double().T
    results = []
    for _ in range(20):
        C.fill_(float("nan"))
        kernels.stream_k(kernels.stream_k_kernel, C, A, B, sums, flags, hybrid)
        results.append(C.clone())
        assert not flags.any()
    assert float((C.double() - exact).norm() / exact.norm()) < 2e-6
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("heights", [(1000, 0, 33, 700, 1), (0, 5, 0), (4096,), tuple(range(0, 640, 10))],
                         ids=lambda heights: str(len(heights)))
@pytest.mark.parametrize("blocks", [3, 132])
def test_groups(heights, blocks):
    offsets = np.array([0, *itertools.accumulate(heights)], np.int32)
    C, A, B = kernels.arguments(int(offsets[-1]), 70, 100, len(heights))
    exact = kernels.grouped_exactly(A, B, offsets)
    out = device(C)
    kernels.grouped(kernels.grouped_kernel, out, device(A), device(B), device(offsets), blocks)
    found = out.cpu().numpy().astype(np.float64)
    assert np.linalg.norm(found - exact) <= 2e-6 * np.linalg.norm(exact)
