"""Copies by TMA for ``CASES``: loads, stores, reductions, prefetches, hints, parts for several blocks.

In: nothing.  Out: cases in ``CASES``, whose sizes count rows; the kernels are those of ``tma_kernels.py``.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import add, numpy_of, poison
from ops_kernels_bulk import folded
from tma_im2col import matrix
from tma_im2col import read_kernel as im2col_kernel
from tma_kernels import BLOCK, copy_kernel, multicast_kernel, read_kernel, stages_kernel, write_kernel

ROWS, COLUMNS = 32, 64
IM2COL = mo.TmaLoadIm2col(filter=(3, 3), padding=1)


def _layout(dtype, rows=ROWS, row=128):
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", row), (rows, COLUMNS))


def _numbers(rng, n, dtype, columns=COLUMNS):
    """A row-major array of small integers."""
    return rng.integers(-9, 9, (n, columns)).astype(numpy_of(dtype))


def _few(rng, shape, dtype):
    """Small numbers, so that old and new ones are often equal, and some are zero."""
    return rng.integers(0, 9, shape).astype(numpy_of(dtype))


def _tiles(array, rows=ROWS, fill=0):
    """(elements of a tile, tiles) of a column of tiles, ``fill`` below the array."""
    padded = np.full((-(-len(array) // rows) * rows, array.shape[1]), fill, array.dtype)
    padded[:len(array)] = array
    return np.asfortranarray(np.stack([padded[i:i + rows].ravel("F") for i in range(0, len(padded), rows)], axis=1))


def _im2col_tiles(images):
    """(elements of a tile, tiles, 1, places) of images with 16 channels, 16 outputs in a tile."""
    rows = matrix(images, IM2COL)
    padded = np.pad(rows, ((0, -len(rows) % 16), (0, 0), (0, 0))).reshape(-1, 16, 16, 9)
    return padded.transpose(2, 1, 0, 3).reshape(256, -1, 1, 9)


def _blocks(n):
    return -(-n // ROWS)


for _dtype in (dt.float16, dt.float32, dt.int32):
    add(f"tma-copy-{_dtype}", copy_kernel,
        lambda rng, n, d=_dtype: [mo.make_tma_copy(mo.TmaLoad(), _numbers(rng, n, d), _layout(d)),
                                  mo.make_tma_copy(mo.TmaStore(), poison((n, COLUMNS), d), _layout(d))],
        lambda args: {1: args[0].array}, sizes=(96, 45), block=BLOCK, grid=_blocks)
    add(f"tma-add-{_dtype}", write_kernel,
        lambda rng, n, d=_dtype: [mo.make_tma_copy(mo.TmaReduceAdd(), _numbers(rng, n, d), _layout(d, row=64)),
                                  _tiles(_numbers(rng, n, d))],
        lambda args: {0: args[0].array + np.concatenate(
            [tile.reshape((ROWS, COLUMNS), order="F") for tile in args[1].T])[:len(args[0].array)]},
        sizes=(96, 45), block=BLOCK, grid=_blocks)
for _by, _dtype in (("min", dt.int32), ("max", dt.float16), ("min", dt.bfloat16), ("max", dt.int64), ("and", dt.uint32),
                    ("or", dt.uint64), ("xor", dt.int32), ("inc", dt.uint32), ("dec", dt.uint32)):
    add(f"tma-{_by}-{_dtype}", write_kernel,
        lambda rng, n, d=_dtype, by=_by: [mo.make_tma_copy(mo.TmaReduce(by), _few(rng, (n, COLUMNS), d), _layout(
            d, row=64)), _tiles(_few(rng, (n, COLUMNS), d))],
        lambda args: {0: folded(args[0].op.by, args[0].array, np.concatenate(
            [tile.reshape((ROWS, COLUMNS), order="F") for tile in args[1].T])[:len(args[0].array)])},
        sizes=(96, 45), block=BLOCK, grid=_blocks)
add("tma-nan", read_kernel,
    lambda rng, n: [mo.make_tma_copy(mo.TmaLoad(outside="nan"), _numbers(rng, n, dt.float32), _layout(dt.float32)),
                    np.zeros((_blocks(n), ROWS * COLUMNS), np.float32).T],
    lambda args: {1: _tiles(args[0].array, fill=np.nan)}, sizes=(96, 45), block=BLOCK, grid=_blocks)
add("tma-read-int8", read_kernel,
    lambda rng, n: [mo.make_tma_copy(mo.TmaLoad(), _numbers(rng, n, dt.int8), _layout(dt.int8, row=32)),
                    poison((_blocks(n), ROWS * COLUMNS), dt.int8).T],
    lambda args: {1: _tiles(args[0].array)}, sizes=(96, 45), block=BLOCK, grid=_blocks)
add("tma-stages", stages_kernel,
    lambda rng, n: [mo.make_tma_copy(mo.TmaLoad(), _numbers(rng, n, dt.float32, 5 * COLUMNS), _layout(dt.float32)),
                    poison((_blocks(n), ROWS * COLUMNS), dt.float32).T, 3],
    lambda args: {1: _tiles(args[0].array.reshape(-1, 5, COLUMNS).sum(axis=1, dtype=np.float32))},
    sizes=(96, 45), block=BLOCK, grid=_blocks)
add("tma-im2col", im2col_kernel,
    lambda rng, n: [mo.make_tma_copy(IM2COL, rng.integers(-9, 9, (n // 9, 5, 3, 16)).astype(np.float16),
                                     mo.make_layout((16, 16), (16, 1))),
                    poison((9, 1, -(-(n // 9 * 15) // 16), 256), dt.float16).T],
    lambda args: {1: _im2col_tiles(args[0].array)}, sizes=(96, 45), block=64,
    grid=lambda n: (-(-(n // 9 * 15) // 16), 1, 9))
add("tma-multicast", multicast_kernel,
    lambda rng, n: [mo.make_tma_copy(mo.TmaLoad(), _numbers(rng, n, dt.float16), _layout(dt.float16), multicast=2),
                    poison((2 * _blocks(n), ROWS * COLUMNS), dt.float16).T],
    lambda args: {1: _tiles(args[0].array).repeat(2, axis=1)},
    sizes=(96, 45), block=BLOCK, grid=lambda n: 2 * _blocks(n), cluster=(2, 1, 1))
