"""What asynchronous units do in the emulator: maps as the driver's double packs them, and stores that end late."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from emulator import maps
from emulator.emulated import emulated
from emulator.tensor_library import Library
from emulator.test_tensor_copies import Tensor


def test_maps_are_packed_as_the_headers_pack_them(tensor: Library) -> None:
    of = Tensor("f16", (100, 20, 3))
    error, found = maps.tiled("CU_TENSOR_MAP_DATA_TYPE_FLOAT16", 3, of.memory.ctypes.data, of.sizes, of.strides,
                              (32, 5, 2), (1, 2, 1), "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_64B",
                              "CU_TENSOR_MAP_L2_PROMOTION_NONE", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA")
    assert error == 0 and found._held.raw == of.tiled(tensor, (32, 5, 2), (1, 2, 1), swizzle=2, fill=1).tobytes()
    images = Tensor("f32", (24, 9, 7, 3))
    error, found = maps.im2col("CU_TENSOR_MAP_DATA_TYPE_FLOAT32", 4, images.memory.ctypes.data, images.sizes,
                               images.strides, (-1, -2), (0, -3), 8, 40, (1, 2, 3, 1), "CU_TENSOR_MAP_INTERLEAVE_NONE",
                               "CU_TENSOR_MAP_SWIZZLE_32B", "CU_TENSOR_MAP_L2_PROMOTION_NONE",
                               "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")
    assert error == 0 and found._held.raw == images.im2col(tensor, (-1, -2), (0, -3), 8, 40, (1, 2, 3, 1),
                                                           swizzle=1).tobytes()


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


@pytest.mark.parametrize("seed", range(1, 3))
def test_stores_of_the_last_blocks_are_made(tensor: Library, seed: int) -> None:
    x, out = np.arange(256, dtype=np.float32), np.full(256, np.nan, np.float32)
    with emulated(seed=seed):
        copied[4, 32](out, x)
    assert np.array_equal(out, x)
