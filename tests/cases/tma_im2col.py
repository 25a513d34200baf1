"""Tensor copies in im2col mode, and a table of images and filters to run them on.

In: a name of ``CASES``.  Out: the images of a case, and the matrix that the filter makes of them, as NumPy has it.

``tests/tensor/test_tma_im2col.py`` runs them in the simulator, ``tests/gpu/test_tma_im2col_gpu.py`` on a device.
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
def read_kernel(source, out):
    """Every tile, and some beyond: out is (elements of a tile, tiles of outputs, of channels, places of the filter)."""
    smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid, (m, c, place) = mo.thread_idx().x, mo.block_idx()
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        at = mo.tile(source.tensor, source.tile, (m, c, place))         # (bM, bC, 1), coordinates
        mo.prefetch(source, at)
        mo.mbarrier_arrive_expect_tx(bars, 0, source.bytes)
        mo.copyto(source, smem, at, barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, mo.size(smem), BLOCK):
        out[i, m, c, place] = smem[i]


@mo.kernel
def multicast_kernel(source, out):
    """Two blocks of a cluster load a half of one tile each, for both of them; out is (elements, blocks, channels)."""
    smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, source.bytes)
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(source, smem, mo.tile(source.tensor, source.tile, (bx // 2, by, 4)), barrier=(bars, 0),
                  multicast=0b11, hint="evict_last")
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, mo.size(smem), BLOCK):
        out[i, bx, by] = smem[i]
    mo.cluster_sync()


def matrix(x, op):
    """(outputs, channels, places of the filter) of images, by what the definition says of each place."""
    padding, stride, dilation = op.padding, op.stride, op.dilation
    outside = np.nan if op.outside == "nan" else 0
    padded = np.pad(x, [(0, 0), *((n, n) for n in padding), (0, 0)], constant_values=outside)
    counts = [(n + 2 * p - (f - 1) * d - 1) // s + 1 for n, p, f, d, s in zip(
        x.shape[1:-1], padding, op.filter, dilation, stride, strict=True)]
    found = []
    for place in itertools.product(*(range(f) for f in op.filter)):
        part = tuple(slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(
            place, dilation, counts, stride, strict=True))
        found.append(padded[(slice(None), *part)].reshape(-1, x.shape[-1]))
    return np.stack(found, axis=2)


@dataclass(frozen=True)
class Case:
    """Images of a shape (images, pixels..., channels), a filter, and the layout of a tile (outputs, channels)."""

    dtype: object
    shape: tuple
    op: object
    layout: object
    multicast: int = 1

    @property
    def tile(self):
        return tuple(mo.size(self.layout, mode) for mode in range(2))

    @property
    def grid(self):
        """One tile more than there is along each mode of the matrix, but for a filter of one place."""
        outputs, channels, places = matrix(np.empty(self.shape, np.float32), self.op).shape
        return -(-outputs // self.tile[0]) + 1, -(-channels // self.tile[1]) + 1, places + (places > 1)

    def images(self, seed):
        """Small integers in pixels that lie further apart than their channels; every dtype has them."""
        part = 128 // self.dtype.bits
        *pixels, channels = self.shape
        wide = (*pixels, -(-channels // part) * part + part)
        values = np.random.default_rng(seed).integers(-99, 99, wide).astype(self.dtype.numpy)
        return values[..., :channels]

    def tiles(self, x):
        """What ``read_kernel`` gives: (elements of a tile, tiles of outputs, of channels, places)."""
        whole, rows, columns = matrix(x, self.op), *self.tile
        fill = np.nan if self.op.outside == "nan" else 0
        m, c, places = self.grid
        found = np.full((m * rows, c * columns, places), fill, x.dtype)
        found[tuple(slice(n) for n in whole.shape)] = whole
        cut = found.reshape(m, rows, c, columns, places).transpose(0, 2, 4, 3, 1)       # the first mode is the fastest
        return cut.reshape(m, c, places, -1).transpose(3, 0, 1, 2)

    def copy(self, x):
        return mo.make_tma_copy(self.op, x, self.layout, multicast=self.multicast)


def _swizzled(dtype, row, shape):
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", row), shape)


_HALF, _BYTE, _REAL = mo.float16, mo.int8, mo.float32
_PLAIN = mo.make_layout((16, 8), (8, 1))
_Op = mo.TmaLoadIm2col
CASES = {
    "3x3": Case(_HALF, (2, 5, 7, 40), _Op(filter=(3, 3), padding=1), _swizzled(_HALF, 128, (32, 64))),
    "3x3-of-every-second": Case(_HALF, (3, 6, 9, 24), _Op(filter=(3, 3), padding=1, stride=2),
                                _swizzled(_HALF, 64, (16, 32))),
    "3x3-inside": Case(_HALF, (2, 5, 7, 20), _Op(filter=(3, 3)), _swizzled(_HALF, 32, (16, 32))),
    "1x1": Case(_REAL, (2, 4, 3, 12), _Op(filter=(1, 1)), _PLAIN),
    "1x1-of-every-third": Case(_REAL, (2, 5, 7, 12), _Op(filter=(1, 1), stride=3), _PLAIN),
    "dilated": Case(_BYTE, (1, 9, 11, 48), _Op(filter=(3, 3), padding=2, dilation=2), _swizzled(_BYTE, 32, (32, 32))),
    "of-its-own-each": Case(_HALF, (2, 9, 8, 16), _Op(filter=(3, 2), padding=(2, 1), stride=(1, 2), dilation=(2, 3)),
                            mo.make_layout((16, 8), (8, 1))),
    "larger-than-images": Case(_REAL, (5, 2, 3, 8), _Op(filter=(5, 5), padding=2), _PLAIN),
    "more-padding-than-filter": Case(_REAL, (2, 3, 2, 8), _Op(filter=(1, 2), padding=2, stride=2), _PLAIN),
    "lines": Case(_HALF, (3, 30, 16), _Op(filter=(4,), padding=2, stride=3), mo.make_layout((8, 16), (16, 1))),
    "volumes": Case(_REAL, (2, 3, 4, 5, 8), _Op(filter=(2, 3, 3), padding=(0, 1, 1), stride=(1, 2, 1)), _PLAIN),
    "many-boxes": Case(_HALF, (1, 20, 20, 64), _Op(filter=(2, 2)), _swizzled(_HALF, 64, (384, 64))),
    "nan": Case(_REAL, (1, 4, 5, 8), _Op(filter=(3, 3), padding=1, outside="nan"), _PLAIN),
}
MULTICAST = Case(_HALF, (2, 6, 7, 40), _Op(filter=(3, 3), padding=1), _swizzled(_HALF, 128, (64, 64)), multicast=2)


def multicast_expected(x):
    """(elements, blocks, channels): every tile of outputs twice, at the filter's fifth place."""
    tiles = MULTICAST.tiles(x)[:, :, :, 4]
    return tiles.repeat(2, axis=1)


def elements(case):
    return math.prod(case.tile)


def drawn(seed):
    """Images, a filter and a tile by chance; the filter may be too large for the images."""
    chance = random.Random(seed)
    modes = chance.randint(1, 3)
    dtype = chance.choice([mo.int8, mo.float16, mo.float32])
    part = 128 // dtype.bits

    def each(least, most):
        return chance.choice([chance.randint(least, most), tuple(chance.randint(least, most) for _ in range(modes))])

    op = mo.TmaLoadIm2col(filter=tuple(chance.randint(1, 4) for _ in range(modes)), padding=each(0, 4),
                          stride=each(1, 4), dilation=each(1, 3))
    channels = part * chance.randint(1, 2)
    layout = mo.make_layout((8 * chance.choice([1, 2, 5]), channels), (channels, 1))
    if chance.random() < 0.5:
        row = chance.choice([32, 64, 128])
        layout = _swizzled(dtype, row, (8 * chance.randint(1, 6), row * 8 // dtype.bits * chance.randint(1, 2)))
    return Case(dtype, (chance.randint(1, 4), *(chance.randint(1, 9) for _ in range(modes)),
                        chance.randint(1, 3 * part)), op, layout)


def fitting(count):
    """(seed, case) of the first images by chance that a filter fits into."""
    for seed in itertools.count():
        case = drawn(seed)
        try:
            case.copy(case.images(seed))
        except mo.LayoutError:
            continue
        if math.prod(case.grid) <= 300:
            yield seed, case
            count -= 1
        if not count:
            return
