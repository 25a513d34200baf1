"""Kernels that copy by TMA, and a table of arrays and tiles that they are run on.

In: a name of ``CASES``.  Out: the array of a case, its tiles as NumPy cuts them, the layout of one in shared memory.

``tests/tensor/test_tma.py`` traces and compiles them, ``tests/gpu/test_tma_gpu.py`` runs them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

import moye as mo

BLOCK = 128


# --- kernels ---------------------------------------------------------------------------------------------------------


@mo.jit
def load_tile(tma, smem):
    """This block's tile in shared memory, for all threads to read."""
    bars = mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    if tid == 0:
        mo.prefetch_tensormap(tma)
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, tma.bytes)
        mo.copyto(tma, smem, mo.tile(tma.tensor, tma.tile, mo.block_idx()[:mo.rank(tma.tensor)]), barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)


@mo.jit
def store_tile(tma, smem):
    """This block's tile, which all threads may have written, into the array."""
    mo.fence_proxy_async()
    mo.sync_threads()
    if mo.thread_idx().x == 0:
        mo.copyto(tma, mo.tile(tma.tensor, tma.tile, mo.block_idx()[:mo.rank(tma.tensor)]), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)


@mo.kernel
def copy_kernel(source, target):
    """One array into another, tile by tile."""
    smem = mo.shared_array(source.dtype, source.smem_layout)
    load_tile(source, smem)
    store_tile(target, smem)


@mo.kernel
def read_kernel(source, out):
    """Every tile by TMA into shared memory, from there by its layout: out is (elements of a tile, tiles)."""
    smem = mo.shared_array(source.dtype, source.smem_layout)
    load_tile(source, smem)
    place, grid = mo.block_idx(), mo.grid_dim()
    block = place.x + grid.x * (place.y + grid.y * place.z)
    for i in range(mo.thread_idx().x, mo.size(smem), BLOCK):
        out[i, block] = smem[i]


@mo.kernel
def write_kernel(target, values):
    """The other way: values (elements of a tile, tiles) by the layout into shared memory, every tile by TMA."""
    smem = mo.shared_array(target.dtype, target.smem_layout)
    place, grid = mo.block_idx(), mo.grid_dim()
    block = place.x + grid.x * (place.y + grid.y * place.z)
    for i in range(mo.thread_idx().x, mo.size(smem), BLOCK):
        smem[i] = values[i, block]
    store_tile(target, smem)


@mo.kernel
def stages_kernel(A, out, stages: mo.Constexpr):
    """Each row of tiles through a ring of stages; its sum, element by element: out is (elements, rows)."""
    whole = mo.tile_to_shape(A.smem_layout, (*A.tile, stages))
    sA, full = mo.shared_array(A.dtype, whole), mo.mbarrier_array(stages)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (bx, None))                          # (bM, bK, k)
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        for k in range(mo.min(tiles, stages)):
            mo.mbarrier_arrive_expect_tx(full, k, A.bytes)
            mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, k), hint="evict_first")
    total = mo.make_fragment_like(mo.make_layout(math.prod(A.tile) // BLOCK), A.dtype)
    total.fill(0)
    for k in range(tiles):
        stage = k % stages
        mo.mbarrier_wait(full, stage, k // stages % 2)
        tile = sA[:, :, stage]
        for i in mo.static_range(math.prod(A.tile) // BLOCK):
            total[i] = total[i] + tile[tid + i * BLOCK]
        mo.sync_threads()
        if tid == 0 and k + stages < tiles:
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k + stages], barrier=(full, stage), hint="evict_last")
    for i in mo.static_range(math.prod(A.tile) // BLOCK):
        out[tid + i * BLOCK, bx] = total[i]


@mo.kernel
def multicast_kernel(A, out):
    """Two blocks of a cluster load a half of one tile each, for both of them; out is (elements, blocks)."""
    smem, bars = mo.shared_array(A.dtype, A.smem_layout), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, A.bytes)
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(A, smem, mo.tile(A.tensor, A.tile, (bx // 2, 0)), barrier=(bars, 0), multicast=0b11)
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, mo.size(smem), BLOCK):
        out[i, bx] = smem[i]
    mo.cluster_sync()


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An array of ``shape`` whose unit stride is along ``major``; tiles lie in shared memory as ``layout``."""

    dtype: object
    shape: tuple
    major: int
    layout: object
    tile: tuple | None = None

    @property
    def extents(self):
        """Of a tile, along each mode of the array."""
        own = self.tile or tuple(mo.size(self.layout, mode) for mode in range(mo.rank(self.layout)))
        return (*own, *(1,) * (len(self.shape) - len(own)))

    @property
    def grid(self):
        counts = [-(-extent // part) for extent, part in zip(self.shape, self.extents, strict=True)]
        return (*counts, 1, 1)[:3]

    def array(self, fill):
        """A NumPy array of the case; ``fill(shape)`` gives dense values, of rows that TMA can step over."""
        order = [self.major, *(m for m in range(len(self.shape)) if m != self.major)][::-1]
        dense = [self.shape[m] for m in order]
        part = 128 // self.dtype.bits                           # 16 bytes
        padded = fill((*dense[:-1], dense[-1] + -dense[-1] % part + (2 * part if len(dense) > 1 else 0)))
        return padded[..., :dense[-1]].transpose(np.argsort(order))

    def tiles(self, array):
        """(elements of a tile, tiles), zeros outside of the array: what ``read_kernel`` gives."""
        counts = [-(-extent // part) for extent, part in zip(self.shape, self.extents, strict=True)]
        whole = np.zeros([c * part for c, part in zip(counts, self.extents, strict=True)], array.dtype)
        whole[tuple(slice(extent) for extent in self.shape)] = array
        found = [whole[tuple(slice(i * p, i * p + p) for i, p in zip(at[::-1], self.extents, strict=True))].ravel("F")
                 for at in itertools.product(*(range(c) for c in counts[::-1]))]
        return np.asfortranarray(np.stack(found, axis=1))

    def copy(self, op, array):
        return mo.make_tma_copy(op, array, self.layout, self.tile)


def _swizzled(dtype, major, row, shape, order=None):
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, major, row), shape, order)


def _cases():
    """Every dtype with every swizzle and both majors; then ranks, plain layouts, tiles of other modes."""
    for dtype, row in itertools.product((mo.float16, mo.float32, mo.int8), (128, 64, 32, 16)):
        wide, part = row * 8 // dtype.bits, 128 // dtype.bits
        for count in (1, 2):
            yield f"{dtype}-k-{row}-{count}", Case(dtype, (100, 3 * wide + part), 1,
                                                   _swizzled(dtype, "k", row, (32, count * wide)))
        yield f"{dtype}-mn-{row}", Case(dtype, (3 * wide + part, 45), 0, _swizzled(dtype, "mn", row, (2 * wide, 16)))
        yield f"{dtype}-mn-{row}-rows", Case(dtype, (3 * wide + part, 45), 0,
                                             _swizzled(dtype, "mn", row, (2 * wide, 16), (1, 0)))
    half, real = mo.float16, mo.float32
    yield "plain-row", Case(real, (70, 44), 1, mo.make_layout((16, 32), (32, 1)))
    yield "plain-column", Case(real, (44, 70), 0, mo.make_layout((32, 16), (1, 32)))
    yield "plain-wide", Case(half, (5, 600), 1, mo.make_layout((1, 512), (512, 1)))
    yield "plain-rows-of-384", Case(mo.int8, (50, 400), 1, mo.make_layout((16, 384), (384, 1)))
    yield "vector", Case(real, (1000,), 0, mo.make_layout(256))
    yield "vector-long", Case(half, (4000,), 0, mo.make_layout(1024))
    yield "double", Case(mo.float64, (70, 44), 1, _swizzled(mo.float64, "k", 128, (16, 32)))
    yield "int64", Case(mo.int64, (44, 70), 0, _swizzled(mo.int64, "mn", 64, (32, 16)))
    yield "batch", Case(half, (40, 72, 3), 1, _swizzled(half, "k", 128, (16, 64)))
    yield "batch-first", Case(half, (3, 40, 72), 2, _swizzled(half, "k", 128, (16, 64)), tile=(1, 16, 64))
    yield "cube-of-rows", Case(half, (5, 10, 72), 2, _swizzled(half, "k", 128, (8, 64)), tile=(2, 4, 64))
    yield "rows-apart", Case(half, (150, 72), 1, mo.make_layout((96, 32), (64, 1)))     # a box for each row
    yield "cube", Case(real, (20, 30, 9), 0, mo.make_layout((16, 8, 4), (1, 16, 128)))
    yield "cube-turned", Case(real, (20, 30, 9), 0, mo.make_layout((16, 8, 4), (1, 64, 16)))
    yield "cube-swizzled", Case(half, (9, 20, 72), 2, mo.ComposedLayout.parse(
        "Sw<2,3,3> o 0 o (4,16,(32,2)):(512,32,(1,2048))"))


CASES = dict(_cases())
BATCHED = Case(mo.float16, (40, 72, 3), 1, _swizzled(mo.float16, "k", 128, (16, 64)), tile=(16, 64, 1))


# --- rounding --------------------------------------------------------------------------------------------------------

ROUNDED = CASES["float32-k-128-1"]
ROUNDING = mo.TmaLoad(rounding=mo.tfloat32)


def _nearest(x, half):
    return ((x.view(np.uint32) + half) & np.uint32(0xFFFFE000)).view(np.float32)


ROUNDINGS = {
    "ties away from zero": lambda x: _nearest(x, np.uint32(0x1000)),
    "ties to even": lambda x: _nearest(x, np.uint32(0xFFF) + (x.view(np.uint32) >> np.uint32(13) & np.uint32(1))),
    "cut off": lambda x: _nearest(x, np.uint32(0)),
    "not at all": lambda x: x,
}
"""Ways to keep 10 bits of the mantissa of a float32, all of them finite or infinite."""


def single_values(shape):
    """Random-normal float32, a third of them ties between two tfloat32, with the numbers at the ends of the range."""
    x = np.ascontiguousarray(np.random.default_rng(20).standard_normal(shape), np.float32)
    bits = x.view(np.uint32).reshape(-1)
    bits[::3] = bits[::3] & np.uint32(0xFFFFE000) | np.uint32(0x1000)
    ends = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x3000, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F7FEFFF, 0x7F7FF000,
                     0x7F800000, 0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000], np.uint32)
    bits[1:len(ends) * 6:6], bits[4:len(ends) * 6:6] = ends, ends | np.uint32(1 << 31)
    return x



def _moved(x):
    return np.moveaxis(x, 0, -1)


VIEWS = {
    "batches": _moved, "one-batch": lambda x: _moved(x[:1]), "one-row": lambda x: _moved(x[:, :1]),
    "new-axis": lambda x: x[0][:, :, None],                 # of stride 0 in NumPy, of 1 in torch
    "new-axis-of-stride-1": lambda x: np.lib.stride_tricks.as_strided(x[0], (40, 72, 1), (144, 2, 2)),
    "batches-between": lambda x: x.reshape(40, 3, 72).transpose(0, 2, 1),
    "every-second-row": lambda x: _moved(x[:, ::2]), "some-columns": lambda x: _moved(x[:, :, 8:50]),
    "repeated": lambda x: np.broadcast_to(x[0][:, :, None], (40, 72, 3)),
    "overlapping": lambda x: np.lib.stride_tricks.as_strided(x, (40, 72, 5), (144, 2, 16)),
}
"""Views of (3, 40, 72) as (rows, K, batches), which ``BATCHED`` takes the tiles of."""


def view(name):
    """(case, the array of random values that it is a view of, the view)."""
    whole = np.random.default_rng(1).integers(-99, 99, (3, 40, 72)).astype(np.float16)
    x = VIEWS[name](whole)
    return replace(BATCHED, shape=x.shape), whole, x


LOADS = CASES | {f"{dtype}-ends-within-16-bytes": Case(dtype, (100, extent), 1, _swizzled(dtype, "k", 128, (32, wide)))
                 for dtype, extent, wide in ((mo.float16, 195, 64), (mo.int8, 45, 128))}
"""Rows that end within 16 bytes can only be loaded."""
