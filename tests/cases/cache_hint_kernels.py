"""Copies that tell caches what to keep: every hint, every width, between all memories that may have one."""

from __future__ import annotations

import itertools

import numpy as np

import moye as mo

HINTS = (None, "evict_first", "evict_last", "no_allocate")
PREFETCHES = (None, 64, 128, 256)
DTYPES = (np.int8, np.float16, np.float32, np.float64)
CASES = tuple((hint, PREFETCHES[(i + j) % 4], dtype) for (i, hint), (j, dtype) in
              itertools.product(enumerate(HINTS), enumerate(DTYPES)))


@mo.kernel
def hinted_kernel(dst, src, apart, n: mo.Constexpr, hint: mo.Constexpr, prefetch: mo.Constexpr):
    """To registers and back in the widest accesses, single elements, and 4 bytes at a time from array to array."""
    tid = mo.thread_idx().x
    mine = mo.fragment((n,), src.dtype)
    mo.copyto(mine, mo.tile(src, (n,), (tid,)), hint=hint, prefetch=prefetch, pred=tid < 31, zero_fill=True)
    mine[...] = mine + src.dtype(1)
    mo.copyto(mo.tile(dst, (n,), (tid,)), mine, hint=hint)
    one = mo.fragment((1,), src.dtype)
    mo.copyto(one, mo.tile(apart, (1,), (tid,)), hint=hint, prefetch=prefetch)
    mo.copyto(mo.tile(apart, (1,), (tid + 32,)), one, hint=hint)
    words = max(1, 32 // src.dtype.bits)
    if src.dtype.bits <= 32:
        atom = mo.UniversalCopy(mo.uint32, hint=hint, prefetch=prefetch)
        mo.copyto(atom, mo.tile(dst, (words,), (32 * n // words + tid,)), mo.tile(src, (words,), (tid,)))


def arguments(dtype, hint, prefetch):
    n, words = 16 // np.dtype(dtype).itemsize, max(1, 4 // np.dtype(dtype).itemsize)
    src = (np.arange(32 * n) % 100).astype(dtype)
    dst, apart = np.zeros(32 * n + 32 * words, dtype), np.zeros((64, 3), dtype)
    apart[:32, 0] = src[:32]
    return [dst, src, apart[:, 0], n, hint, prefetch]


def expected(args):
    """What dst and the array of single elements hold afterwards."""
    _, src, apart, n, _, _ = args
    words = max(1, 4 // src.dtype.itemsize)
    copied = src[:32 * words] if src.dtype.itemsize <= 4 else np.zeros(32 * words, src.dtype)
    inside = np.arange(32 * n) < 31 * n
    return np.concatenate([np.where(inside, src, 0) + src.dtype.type(1), copied]), np.tile(apart[:32], 2)
