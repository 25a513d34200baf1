"""Pipelines that threads fill, turns, and tiles dealt out, on the device: many launches of each."""

from __future__ import annotations

import numpy as np
import pytest

import thread_pipelines as kernels
from thread_pipelines import THREADS, dealt_result

torch = pytest.importorskip("torch")
ROUNDS = 20


@pytest.fixture(autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("these mbarriers are sm_90's")


@pytest.mark.parametrize("columns", [1, 3, 200])
def test_copies_that_arrive_themselves(columns):
    out, x, n = kernels.streamed_arguments(columns)
    on_device = torch.from_numpy(np.ascontiguousarray(x.T)).cuda().T
    for _ in range(ROUNDS):
        found = torch.zeros(len(out), device="cuda")
        kernels.streamed[1, THREADS + 32](found, on_device, n, "")
        assert np.allclose(found.cpu().numpy(), kernels.streamed_result(x), rtol=1e-4)


@pytest.mark.parametrize("tries", ["", "once", "polls"])
def test_asking_whether_a_stage_is_full(tries):
    x = torch.arange(THREADS, device="cuda", dtype=torch.int32)
    for _ in range(ROUNDS):
        out = torch.zeros_like(x)
        kernels.handed_over[1, 2 * THREADS](out, x, 100, tries)
        assert torch.equal(out, 5050 * x.flip(0))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_turns_come_in_order(groups):
    for _ in range(ROUNDS):
        out = torch.full((100 * groups,), -1, device="cuda", dtype=torch.int32)
        kernels.turns[1, 32 * groups](out, 100, groups, True)
        assert torch.equal(out, torch.arange(groups, device="cuda", dtype=torch.int32).repeat(100))


@pytest.mark.parametrize("blocks", [1, 132, 500])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 33)])
def test_each_tile_once(blocks, shape):
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    for _ in range(ROUNDS):
        out = torch.zeros((*shape, THREADS), device="cuda", dtype=torch.int32)
        kernels.dealt[blocks, THREADS + 32](out, counter, *shape, "")
        assert np.array_equal(out.cpu().numpy(), dealt_result(*shape)) and counter.item() == 0
