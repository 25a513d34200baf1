"""Tensor maps that merge modes or repeat them, on the GPU, against NumPy bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from tma_merged import BLOCK, CASES, REPEATED, merging, read_kernel, write_kernel

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("TMA needs sm_90")


def to_device(array):
    """A CUDA tensor of the same strides, those of repeated modes included."""
    once = array[tuple(slice(None if step else 1) for step in array.strides)]
    strides = [step // array.itemsize for step in array.strides]
    memory = torch.from_numpy(once.ravel("K").copy()).cuda()
    return torch.as_strided(memory, array.shape, strides)


@pytest.mark.parametrize("name", [*CASES, *REPEATED])
def test_loads(name):
    case = (CASES | REPEATED)[name]
    source = case.array(1)
    x = to_device(source)
    out = torch.full((case.grid, math.prod(case.tile)), 7, dtype=x.dtype, device="cuda").T
    read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), x), out, case.counts)
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), case.tiles(source))


@pytest.mark.parametrize("name", CASES)
def test_stores(name):
    case = CASES[name]
    source, before = case.array(2), case.array(3)
    y, values = to_device(before), torch.from_numpy(np.ascontiguousarray(case.tiles(source).T)).cuda().T
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), y), values, case.counts)
    torch.cuda.synchronize()
    assert np.array_equal(y.cpu().numpy(), source)


def test_arrays_by_chance():
    for seed, case in merging(12):
        source, y = case.array(seed), to_device(case.array(seed + 1))
        out = torch.full((case.grid, math.prod(case.tile)), 7, dtype=y.dtype, device="cuda").T
        read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), to_device(source)), out, case.counts)
        write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), y), out, case.counts)
        torch.cuda.synchronize()
        assert np.array_equal(out.cpu().numpy(), case.tiles(source)), f"drawn({seed})"
        assert np.array_equal(y.cpu().numpy(), source), f"drawn({seed})"
