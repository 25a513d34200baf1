"""Tensor copies in im2col mode on the GPU, against NumPy bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tma_im2col import BLOCK, CASES, MULTICAST, elements, fitting, multicast_expected, multicast_kernel, read_kernel

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("TMA needs sm_90")


def to_device(x):
    """A CUDA tensor of the same shape and strides."""
    whole = torch.from_numpy(np.ascontiguousarray(x.base)).cuda()
    return whole[..., :x.shape[-1]]


def read(case, x):
    """What a kernel finds in the tiles."""
    device = to_device(x)
    out = torch.full((*case.grid[::-1], elements(case)), 7, dtype=device.dtype, device="cuda").permute(3, 2, 1, 0)
    read_kernel[case.grid, BLOCK](case.copy(device), out)
    torch.cuda.synchronize()
    return out.cpu().numpy()


@pytest.mark.parametrize("name", CASES)
def test_loads(name):
    case = CASES[name]
    x = case.images(1)
    assert np.array_equal(read(case, x), case.tiles(x), equal_nan=x.dtype.kind == "f")


def test_images_by_chance():
    for seed, case in fitting(12):
        x = case.images(seed)
        assert np.array_equal(read(case, x), case.tiles(x)), f"drawn({seed})"


def test_blocks_that_load_for_each_other():
    x = MULTICAST.images(2)
    expected = multicast_expected(x)
    out = torch.full(expected.shape[::-1], 7, dtype=torch.float16, device="cuda").permute(2, 1, 0)
    multicast_kernel.launch(MULTICAST.copy(to_device(x)), out, grid=expected.shape[1:], block=BLOCK, cluster=(2, 1))
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), expected)
