"""Cooperative launches on the device: all blocks meet, in plain launches, prepared ones and captured graphs."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import LaunchError

torch = pytest.importorskip("torch")
THREADS, STEPS = 256, 25


@mo.kernel
def rotate(x, y):
    """STEPS times: each block takes what the next one has written."""
    i, n = mo.block_idx().x * THREADS + mo.thread_idx().x, mo.size(x, 0)
    for _ in range(STEPS):
        y[i] = x[(i + THREADS) % n] + 1
        mo.grid_sync()
        x[i] = y[i]
        mo.grid_sync()


def _expected(start):
    return torch.roll(start, -STEPS * THREADS) + STEPS


@pytest.mark.parametrize("blocks", [1, 131, 264])
def test_all_blocks_meet(blocks):
    start = torch.randint(1000, (blocks * THREADS,), device="cuda", dtype=torch.int32)
    x = start.clone()
    y = torch.empty_like(x)
    for _ in range(3):                                  # a second launch finds the barrier as the first one did
        rotate[blocks, THREADS](x, y)
    expected = _expected(_expected(_expected(start)))
    assert torch.equal(x, expected)


def test_grids_of_several_extents_and_streams():
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        start = torch.arange(8 * THREADS, device="cuda", dtype=torch.int32)
        x = start.clone()
        torch.cuda.synchronize()
        rotate.launch(x, torch.empty_like(x), grid=8, block=THREADS, stream=stream)
        stream.synchronize()
        assert torch.equal(x, _expected(start))


def test_in_a_captured_graph():
    start = torch.arange(66 * THREADS, device="cuda", dtype=torch.int32)
    x, y = start.clone(), torch.empty_like(start)
    launch = rotate.prepare(x, y, grid=66, block=THREADS)
    launch()
    x.copy_(start)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(x, _expected(_expected(start)))


def test_a_grid_that_cannot_be_resident_is_refused():
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.zeros(THREADS * (8 * multiprocessors + 1), device="cuda", dtype=torch.int32)
    with pytest.raises(LaunchError, match=f"on each of {multiprocessors} multiprocessors"):
        rotate[8 * multiprocessors + 1, THREADS](x, torch.empty_like(x))
    with pytest.raises(LaunchError, match="cannot be a dependent one"):
        rotate.launch(x, torch.empty_like(x), grid=2, block=THREADS, dependent=True)


def test_the_simulator_agrees():
    start = np.arange(16 * THREADS, dtype=np.int32)
    host, device = start.copy(), torch.from_numpy(start.copy()).cuda()
    rotate[16, THREADS](host, np.empty_like(host))
    rotate[16, THREADS](device, torch.empty_like(device))
    assert np.array_equal(host, device.cpu().numpy())
