"""Copies of rows at any indices by TMA (tile::gather4, tile::scatter4), and a table of arrays to run them on.

In: a name of ``CASES``.  Out: the arguments of a case, and what NumPy makes of them.

``tests/tensor/test_gathered_rows.py`` runs them in the simulator, ``tests/gpu/test_gathered_rows_gpu.py`` on a device
of sm_100.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import moye as mo

BLOCK = 32


@mo.kernel
def moved_kernel(target, source, picks, places, column, rows: mo.Constexpr):
    """Row picks[i] of the source becomes row places[i] of the target, from a column on: a tile of rows a block."""
    smem, full = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)        # (bM, bK)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, source.bytes)
        at = tuple(picks[bx * rows + i] for i in range(rows))
        mo.copyto(source, smem, source.rows(at, column), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    if tid == 0:
        to = mo.fragment(rows, mo.int32)                                # (bM)
        for i in mo.static_range(rows):
            to[i] = places[bx * rows + i]
        mo.copyto(target, target.rows(to, column), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@mo.kernel
def fetched_kernel(source, picks):
    """Rows brought to the L2 cache."""
    if mo.thread_idx().x == 0:
        mo.prefetch(source, source.rows(tuple(picks[i] for i in range(8))))


@dataclass(frozen=True)
class Case:
    """A dtype, the layout of a tile, the columns of the array, the first column that is moved, the order of modes."""

    dtype: object
    layout: object
    columns: int
    column: int = 0
    transposed: bool = False

    @property
    def rows(self):
        return mo.size(self.layout, self.transposed)

    def arguments(self, seed, blocks=3):
        """(target, source, picks, places): some picks lie outside, and some places behind the last row."""
        rng, part = np.random.default_rng(seed), 128 // self.dtype.bits
        source = rng.integers(-99, 99, (50, self.columns + part)).astype(self.dtype.numpy)[:, :self.columns]
        target = np.zeros((self.rows * blocks + 3, self.columns), self.dtype.numpy)
        picks = rng.integers(-4, 55, self.rows * blocks).astype(np.int32)
        places = rng.permutation(len(target) + 2)[:self.rows * blocks].astype(np.int32)
        return target, source, picks, places

    def expected(self, target, source, picks, places):
        found, wide = target.copy(), mo.size(self.layout, 1 - self.transposed)
        columns = slice(self.column, min(self.column + wide, self.columns))
        for pick, place in zip(picks, places, strict=True):
            if place < len(found):
                found[place, columns] = source[pick, columns] if 0 <= pick < len(source) else 0
        return found

    def copies(self, target, source):
        """What the kernel takes of both arrays."""
        both = (target.T, source.T) if self.transposed else (target, source)
        return [mo.make_tma_copy(op, x, self.layout) for op, x in zip((mo.TmaScatter4(), mo.TmaGather4()), both,
                                                                     strict=True)]


def _swizzled(dtype, row, shape):
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", row), shape)


CASES = {
    "float32-128": Case(mo.float32, _swizzled(mo.float32, 128, (8, 64)), 64),
    "float16-64": Case(mo.float16, _swizzled(mo.float16, 64, (16, 64)), 72, 16),
    "int8-32": Case(mo.int8, _swizzled(mo.int8, 32, (8, 64)), 96, 64),
    "int32-plain": Case(mo.int32, mo.make_layout((12, 32), (32, 1)), 32),
    "float16-transposed": Case(mo.float16, mo.make_layout((64, 8)), 64, transposed=True),
}
