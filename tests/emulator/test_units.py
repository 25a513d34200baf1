"""What asynchronous units do in the emulator: stores that end after the last block."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from emulator.emulated import emulated
from emulator.tensor_library import compiler


@mo.kernel
def copied(out: mo.Static, x: mo.Static):
    """A row of 64 numbers for each block, out of it 4 at a time; only the source is waited for."""
    smem, bars, bx = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1), mo.block_idx().x
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, 256)
        mo.copyto(mo.BulkCopy(), smem, mo.tile(x, (64,), (bx,)), barrier=(bars, 0))
        mo.mbarrier_wait(bars, 0, 0)
        for i in range(16):
            mo.copyto(mo.BulkCopy(), mo.tile(out, (4,), (bx * 16 + i,)), mo.tile(smem, (4,), (i,)))
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.skipif(compiler() is None, reason="no g++")
@pytest.mark.parametrize("seed", range(1, 3))
def test_stores_of_the_last_blocks_are_made(seed: int) -> None:
    x, out = np.arange(256, dtype=np.float32), np.full(256, np.nan, np.float32)
    with emulated(seed=seed):
        copied[4, 32](out, x)
    assert np.array_equal(out, x)
