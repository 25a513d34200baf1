"""Tensor copies whose maps merge modes of the array, or repeat them, and a table of arrays to run them on.

In: a name of ``CASES``.  Out: the array of a case, its tiles as NumPy cuts them, the layout of one in shared memory.

``tests/tensor/test_tma_merged.py`` runs them in the simulator, ``tests/gpu/test_tma_merged_gpu.py`` on a device.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

import numpy as np

import moye as mo

BLOCK = 64


@mo.kernel
def read_kernel(source, out, counts: mo.Constexpr):
    """Tile after tile of an array of any rank; out is (elements of a tile, tiles), ``counts`` tiles along each mode."""
    smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid, block = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, source.bytes)
        mo.copyto(source, smem, mo.tile(source.tensor, source.tile, mo.idx2crd(counts, block)), barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, mo.size(smem), BLOCK):
        out[i, block] = smem[i]


@mo.kernel
def write_kernel(target, values, counts: mo.Constexpr):
    """The other way: values (elements of a tile, tiles) through shared memory, each tile into its place."""
    smem, tid, block = mo.shared_array(target.dtype, target.smem_layout), mo.thread_idx().x, mo.block_idx().x
    for i in range(tid, mo.size(smem), BLOCK):
        smem[i] = values[i, block]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(target, mo.tile(target.tensor, target.tile, mo.idx2crd(counts, block)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)


@dataclass(frozen=True)
class Case:
    """An array of ``shape``, dense with its modes in ``order``, the innermost first, cut into tiles.

    ``more`` is the number of tiles outside of the array along each mode that are asked for too.  ``repeated`` modes
    have stride 0.
    """

    dtype: object
    shape: tuple
    order: tuple
    layout: object
    tile: tuple
    more: tuple = ()
    repeated: tuple = ()

    @property
    def counts(self):
        more = (*self.more, *(0,) * (len(self.shape) - len(self.more)))
        return tuple(-(-extent // part) + n for extent, part, n in zip(self.shape, self.tile, more, strict=True))

    @property
    def grid(self):
        return math.prod(self.counts)

    def array(self, seed):
        """Small integers, which every dtype has."""
        dense = [1 if mode in self.repeated else self.shape[mode] for mode in self.order[::-1]]
        values = np.random.default_rng(seed).integers(-99, 99, dense).astype(self.dtype.numpy)
        return np.broadcast_to(values.transpose(np.argsort(self.order[::-1])), self.shape)

    def tiles(self, array):
        """(elements of a tile, tiles), zeros outside of the array."""
        whole = np.zeros([c * part for c, part in zip(self.counts, self.tile, strict=True)], array.dtype)
        whole[tuple(slice(extent) for extent in self.shape)] = array
        found = [whole[tuple(slice(i * p, i * p + p) for i, p in zip(at[::-1], self.tile, strict=True))].ravel("F")
                 for at in itertools.product(*(range(c) for c in self.counts[::-1]))]
        return np.asfortranarray(np.stack(found, axis=1))

    def copy(self, op, array):
        return mo.make_tma_copy(op, array, self.layout, self.tile)


def _column_major(*extents):
    return mo.make_layout(extents)


_HALF, _BYTE, _REAL = mo.float16, mo.int8, mo.float32
CASES = {
    # Rows of eight bytes: a box would be below 16 bytes, and rows no multiple of 16 apart.
    "short-rows": Case(_BYTE, (8, 100), (0, 1), _column_major(8, 8), (8, 8)),
    "short-rows-beside": Case(_BYTE, (8, 100), (0, 1), _column_major(8, 8), (8, 8), more=(2, 1)),
    "short-rows-of-batches": Case(_BYTE, (8, 8, 5), (0, 1, 2), _column_major(8, 8), (8, 8, 1)),
    "rows-of-12-bytes": Case(_BYTE, (12, 80), (0, 1), _column_major(12, 16), (12, 16)),
    "short-planes": Case(_HALF, (2, 2, 30), (0, 1, 2), _column_major(2, 2, 16), (2, 2, 16), more=(1, 1, 1)),
    "long-runs": Case(_BYTE, (8, 600), (0, 1), _column_major(8, 64), (8, 64)),
    # More than five modes.
    "six": Case(_HALF, (64, 20, 3, 2, 3, 2), (0, 1, 2, 3, 4, 5), mo.make_layout((64, 8)), (64, 8, 1, 1, 1, 1)),
    "six-outside": Case(_REAL, (8, 6, 2, 2, 2, 2), (0, 1, 2, 3, 4, 5), _column_major(8, 4), (8, 4, 1, 1, 1, 1),
                        more=(0, 0, 1, 1, 1, 1)),
    "six-row-major": Case(_HALF, (2, 3, 2, 3, 20, 64), (5, 4, 3, 2, 1, 0),
                          mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (8, 64)), (1, 1, 1, 1, 8, 64)),
    "six-in-pieces": Case(_REAL, (8, 6, 4, 3, 2, 2), (0, 1, 2, 3, 4, 5), _column_major(8, 1, 2), (8, 1, 2, 1, 1, 1),
                          more=(0, 0, 1, 1)),
    "eight": Case(_HALF, (2,) * 8, tuple(range(8)), _column_major(2, 2, 2, 2), (2, 2, 2, 2, 1, 1, 1, 1)),
    "eight-with-ones": Case(_REAL, (1, 8, 1, 5, 1, 2, 1, 1), (1, 3, 5, 0, 2, 4, 6, 7), _column_major(1, 8, 1, 2),
                            (1, 8, 1, 2, 1, 1, 1, 1), more=(1, 0, 1)),
    "six-turned": Case(_HALF, (3, 16, 2, 2, 3, 5), (1, 4, 0, 3, 2, 5),
                       mo.make_layout((1, 16, 1, 1, 3), (0, 1, 0, 0, 16)), (1, 16, 1, 1, 3, 1), more=(1, 0, 1)),
}
"""Each merges modes, for one reason or another."""
REPEATED = {
    "rows": Case(_HALF, (40, 64), (1, 0), mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (16, 64)), (16, 64),
                 repeated=(0,)),
    "columns": Case(_REAL, (32, 12), (0, 1), _column_major(32, 8), (32, 8), repeated=(1,)),
    "planes-between": Case(_HALF, (16, 6, 5), (0, 2, 1), _column_major(16, 4, 2), (16, 4, 2), repeated=(1,)),
    "six-modes": Case(_REAL, (8, 3, 4, 2, 3, 2), (0, 2, 1, 3, 4, 5), _column_major(8, 3, 4), (8, 3, 4, 1, 1, 1),
                      repeated=(1,)),
}
"""Tiles of several elements along a mode of stride 0."""


def drawn(seed):
    """An array, an order of its modes and a tile by chance; many of them no map describes."""
    chance = random.Random(seed)
    rank = chance.randint(2, 8)
    shape = [chance.choice([1, 1, 2, 2, 3, 4, 5, 8, 12, 16]) for _ in range(rank)]
    while math.prod(shape) > 6000:
        shape = [max(1, extent // 2) for extent in shape]
    order = chance.sample(range(rank), rank)
    tile = [chance.choice([1, 1, extent, extent, chance.randint(1, extent + 1)]) for extent in shape]
    for mode in order:
        tile[mode] = 1 if math.prod(tile) > 1024 else tile[mode]
    strides, size = [0] * rank, 1
    for mode in order if chance.random() < 0.7 else [order[0], *chance.sample(order[1:], rank - 1)]:
        strides[mode], size = size, size * tile[mode]
    more = tuple(chance.choice([0, 0, 1]) for _ in shape)
    return Case(chance.choice([mo.int8, mo.float16, mo.float32]), tuple(shape), tuple(order),
                mo.make_layout(tuple(tile), tuple(strides)), tuple(tile), more)


def merging(count):
    """(seed, case) of the first arrays by chance that can be loaded and stored, and whose modes merge."""
    for seed in itertools.count():
        case = drawn(seed)
        try:
            load, _ = (case.copy(op, case.array(seed)) for op in (mo.TmaLoad(), mo.TmaStore()))
        except mo.LayoutError:
            continue
        merged = [modes for modes in load.describe()[1].map.modes if not isinstance(modes, int)]
        if merged and case.grid <= 200:
            yield seed, case
            count -= 1
        if not count:
            return
