"""Folds, searches, scans and matches for ``ops_kernels.py``: of a thread's registers, of a warp, of a block.

In: nothing.  Out: cases in ``ops_kernels.CASES``, each with its data and its result in NumPy.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import FULL, THREADS, TOLERANCE, add, integers, poison, values

COUNT = 11
FOLDS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
         "or": np.bitwise_or, "xor": np.bitwise_xor}


@mo.kernel
def registers_kernel(out, places, x):
    """Folds in four chains and in two, by mode, and where the largest and the least are."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    row = mo.tile(x, (1, COUNT), (i, 0), ragged=True)
    if i < mo.size(x, 0):
        all_of_them = mo.fragment((COUNT,), x.dtype)
        mo.copyto(all_of_them, row.with_layout(mo.make_layout((COUNT,))))
        some = mo.fragment((2, 5), x.dtype)
        for j in mo.static_range(10):
            some[j % 2, j // 2] = all_of_them[j]
        tops, at = some.argmax(mode=1)
        sums = some.reduce("sum", mode=0)
        least, first = all_of_them.argmin()
        out[i, 0] = all_of_them.reduce("max")
        out[i, 1] = least
        places[i, 0] = first
        for j in mo.static_range(2):
            out[i, 2 + j] = tops[j]
            places[i, 1 + j] = at[j]
        for j in mo.static_range(5):
            out[i, 4 + j] = sums[j]


def _registers(args):
    out, x = args[0], args[2]
    some = x[:, :10].reshape(-1, 5, 2)
    wanted = np.concatenate([x.max(1)[:, None], x.min(1)[:, None], some.max(1), some[:, :, 0] + some[:, :, 1]], 1)
    return {0: wanted.astype(out.dtype), 1: np.concatenate([x.argmin(1)[:, None], some.argmax(1)], 1)}


@mo.kernel
def warp_folds_kernel(out, seen, x, kinds: mo.Constexpr):
    """Folds of whole warps, matches of whole and half warps."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    for j in mo.static_range(len(kinds)):
        out[i, j] = mo.warp_reduce(x[i], kinds[j])
    few = x[i] & 3
    seen[i, 0] = mo.match_any(few)
    seen[i, 1] = mo.match_all(few & 0)
    seen[i, 2] = mo.match_all(few)
    if i % 2 == 1:
        seen[i, 2] = mo.match_any(few.to(mo.int64), 0xAAAAAAAA)
        seen[i, 1] = mo.match_all(few.to(mo.int64), 0xAAAAAAAA)


def _same(x, lanes):
    rows = x.reshape(-1, 32)
    equal = (rows[:, :, None] == rows[:, None]) & lanes
    return (equal * (1 << np.arange(32, dtype=np.int64))).sum(2).ravel()


def _warp_folds(args):
    x, kinds = args[2:]
    wanted = [np.repeat(FOLDS[kind].reduce(x.reshape(-1, 32), axis=1, dtype=x.dtype), 32) for kind in kinds]
    odd = np.arange(32) % 2 == 1
    every, few = _same(x & 3, np.ones(32, bool)), _same(x & 3, odd)
    lanes = np.arange(len(x)) % 2 == 1
    one = np.where(lanes, np.where(few == 0xAAAAAAAA, few, 0), 0xFFFFFFFF)
    found = np.stack([every, one, np.where(lanes, few, np.where(every == 0xFFFFFFFF, every, 0))], 1)
    return {0: np.stack(wanted, 1), 1: found.astype(np.uint32)}


@mo.kernel
def scan_kernel(out, best, x):
    """Scans of eight lanes, of a warp and of a block, and where the block's largest element is."""
    scratch, keys = mo.shared_array(x.dtype, THREADS // 32), mo.shared_array(x.dtype, THREADS // 32)
    places = mo.shared_array(mo.int32, THREADS // 32)
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    out[i, 0] = mo.warp_scan(x[i], "max", width=8)
    out[i, 1] = mo.warp_scan(x[i], inclusive=False)
    out[i, 2] = mo.block_scan(x[i], scratch)
    out[i, 3] = mo.block_scan(x[i], scratch, inclusive=False)
    value, index = mo.block_reduce((x[i], i), (keys, places), "argmax")
    out[i, 4] = value
    best[i] = index


def _scans(args):
    out, x = args[0], args[2]
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    warps, blocks = wide.reshape(-1, 32), wide.reshape(-1, THREADS)
    after = blocks.cumsum(1)
    found = (np.maximum.accumulate(wide.reshape(-1, 8), axis=1), warps.cumsum(1) - warps, after, after - blocks,
             np.repeat(blocks.max(1), THREADS))
    place = blocks.argmax(1) + THREADS * np.arange(len(blocks))
    return {0: np.stack([each.ravel() for each in found], 1).astype(out.dtype), 1: np.repeat(place, THREADS)}


for _d in (dt.float32, dt.float64, dt.float16, dt.int32, dt.uint8):
    add(f"registers-{_d}", registers_kernel, lambda rng, n, d=_d: [
        poison((n, 9), d), poison((n, 3), dt.int32),
        integers(rng, (n, COUNT), d, 20) if d.is_integer else integers(rng, (n, COUNT), dt.int32, 20).astype(d.numpy)],
        _registers)
for _d in (dt.int32, dt.uint32):
    _kinds = ("add", "min", "max", "and", "or", "xor")
    add(f"warp-folds-{_d}", warp_folds_kernel, lambda rng, n, d=_d, kinds=_kinds: [
        poison((n, len(kinds)), d), poison((n, 3), dt.uint32), integers(rng, n, d, 900), kinds], _warp_folds,
        sizes=(FULL,))
for _d in (dt.int32, dt.float32, dt.float64):
    add(f"scans-{_d}", scan_kernel, lambda rng, n, d=_d: [
        poison((n, 5), d), poison(n, dt.int32), integers(rng, n, d, 900) if d.is_integer else values(rng, n, d)],
        _scans, tolerance=0 if _d.is_integer else 20 * TOLERANCE[_d.name], sizes=(FULL,))
