"""Copies by TMA in the simulator, with its checks on: the table of ``tma_kernels.py`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from tma_kernels import BLOCK, CASES, copy_kernel, read_kernel, write_kernel


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name):
    """Read through the tile's layout, written through it, and copied without anybody looking at it."""
    case = CASES[name]
    rng = np.random.default_rng(1)
    source = case.array(lambda shape: rng.integers(-99, 99, shape).astype(case.dtype.numpy))
    written, copied = (case.array(lambda shape: np.zeros(shape, case.dtype.numpy)) for _ in range(2))
    tiles = case.tiles(source)
    out = np.full(tiles.shape, 7, tiles.dtype, order="F")
    read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), out)
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), written), tiles)
    copy_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), case.copy(mo.TmaStore(), copied))
    assert np.array_equal(out, tiles)
    assert np.array_equal(written, source)
    assert np.array_equal(copied, source)
