"""Bulk copies without tensor maps for ``CASES``: every direction, hints, masks, reductions, prefetches.

In: nothing.  Out: cases in ``CASES``, whose sizes count what each case says; the kernels are those of
``bulk_kernels.py``.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from bulk_kernels import (
    BLOCK,
    add_kernel,
    apart_kernel,
    copy_kernel,
    multicast_kernel,
    prefetch_kernel,
    reduce_kernel,
    rows_kernel,
    send_kernel,
    stages_kernel,
    tile_kernel,
)
from moye import dtypes as dt
from ops_kernels import TOLERANCE, add, normal, numpy_of, poison, values

RUN = 512
ADDED = (dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.int32, dt.uint32, dt.int64, dt.uint64)


def _columns(array):
    return np.asfortranarray(array)


# --- one block, sizes count elements or runs -------------------------------------------------------------------------

for _d in (dt.uint8, dt.float8_e4m3fn, dt.int16, dt.float16, dt.bfloat16, dt.float32, dt.int64, dt.float64):
    add(f"bulk-copy-{_d}", copy_kernel, lambda rng, n, d=_d: [poison(n, d), values(rng, n, d), RUN],
        lambda args: {0: args[1]}, sizes=(3 * RUN, 2 * RUN + 16, 2 * RUN + 400), block=BLOCK,
        grid=lambda n: -(-n // RUN))
for _name, _layout in (("rows", "(16,32):(32,1)"), ("columns", "(16,32):(1,16)"), ("nested", "((4,4),32):((1,128),4)")):
    add(f"bulk-tiles-{_name}", tile_kernel,
        lambda rng, n, layout=_layout: [poison(n * RUN, dt.float16), values(rng, n * RUN, dt.float16),
                                        mo.layout.parse(layout)],
        lambda args: {0: args[1] + args[1]}, sizes=(5,), block=BLOCK, grid=lambda n: n)
add("bulk-rows", rows_kernel,
    lambda rng, n: [poison((32, 24 * n), dt.float32), normal(rng, (32, 24 * n)), 24],
    lambda args: {0: args[1][::-1]}, sizes=(1, 4), block=BLOCK, grid=lambda n: n)
for _stages in (2, 3):
    add(f"bulk-stages-{_stages}", stages_kernel,
        lambda rng, n, stages=_stages: [poison(2 * RUN, dt.float32), _columns(normal(rng, (2 * RUN, n))), RUN, stages],
        lambda args: {0: args[1].astype(np.float64).sum(axis=1).astype(np.float32)},
        tolerance=TOLERANCE["float32"], sizes=(7, 2), block=BLOCK + 32, grid=lambda n: 2)


def _added(args):
    """In the order of the blocks; others differ by rounding."""
    out, x = args[0].copy(), args[1].reshape(-1, len(args[0]))
    for part in x:
        out += part
    return {0: out}


for _d in ADDED:
    for _hint in (None, "evict_first") if _d is dt.float32 else (None,):
        add(f"bulk-add-{_d}{'-hint' if _hint else ''}", add_kernel,
            lambda rng, n, d=_d, hint=_hint: [values(rng, 2 * RUN, d), values(rng, n * 2 * RUN, d), RUN, hint],
            _added, tolerance=4 * TOLERANCE.get(_d.name, 0.0), sizes=(1, 3), block=BLOCK, grid=lambda n: 2 * n)


def folded(by, old, new):
    """What a reduction leaves, element by element."""
    if by == "inc":
        return np.array([0 if a >= b else a + 1 for a, b in zip(old.flat, new.flat, strict=True)],
                        old.dtype).reshape(old.shape)
    if by == "dec":
        return np.array([b if a == 0 or a > b else a - 1 for a, b in zip(old.flat, new.flat, strict=True)],
                        old.dtype).reshape(old.shape)
    plain = {"min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return plain[by](old, new)


REDUCTIONS = (*((by, d) for by in ("min", "max") for d in (dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float16,
                                                            dt.bfloat16)),
              *((by, d) for by in ("and", "or", "xor") for d in (dt.int32, dt.uint32, dt.int64, dt.uint64)),
              ("inc", dt.uint32), ("dec", dt.uint32))


def _few(rng, n, dtype):
    """Small numbers, so that old and new ones are often equal, and some are zero."""
    return (values(rng, n, dtype) if dtype.is_float else rng.integers(0, 9, n)).astype(numpy_of(dtype))


for _d in (dt.float32, dt.int8, dt.bfloat16):
    add(f"bulk-apart-{_d}", apart_kernel, lambda rng, n, d=_d: [poison((16 * n, 96), d), values(
        rng, 16 * n * 96, d).reshape(16 * n, 96), 16, 32], lambda args: {0: args[1]}, sizes=(3,), block=BLOCK,
        grid=lambda n: (n, 3))
for _by, _d in REDUCTIONS:
    add(f"bulk-{_by}-{_d}", reduce_kernel,
        lambda rng, n, d=_d, by=_by: [_few(rng, 2 * RUN, d), _few(rng, 2 * RUN, d), RUN, by],
        lambda args: {0: folded(args[3], args[0], args[1])}, sizes=(1,), block=BLOCK, grid=lambda n: 2)


def _prefetched(args):
    out, tma, x = args[:3]
    tiles = [tma.array[i:i + 32].ravel("F") for i in range(0, len(tma.array), 32)]
    return {0: _columns(np.stack(tiles, axis=1) + x.reshape(out.shape, order="F"))}


for _hint in (None, "evict_last"):
    add(f"bulk-prefetch{'-hint' if _hint else ''}", prefetch_kernel,
        lambda rng, n, hint=_hint: [
            _columns(poison((32 * 64, n), dt.float32)),
            mo.make_tma_copy(mo.TmaLoad(), normal(rng, (32 * n, 64)),
                             mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))),
            normal(rng, 32 * 64 * n), 32 * 64, hint],
        _prefetched, sizes=(3,), block=BLOCK, grid=lambda n: n)


# --- clusters, sizes count them --------------------------------------------------------------------------------------


for _c, _hint in ((2, None), (4, "evict_last")):
    add(f"bulk-multicast-{_c}", multicast_kernel,
        lambda rng, n, c=_c, hint=_hint: [_columns(poison((RUN, n * c), dt.float16)),
                                          normal(rng, n * RUN, dt.float16), RUN, hint],
        lambda args, c=_c: {0: args[1].reshape(-1, RUN).repeat(c, axis=0).T}, sizes=(1, 3), block=BLOCK,
        grid=lambda n, c=_c: n * c, cluster=(_c, 1, 1))


def _sent(args, cluster):
    x = args[1]
    return {0: np.roll(x.reshape(len(x), -1, cluster), args[3], axis=2).reshape(x.shape)}


for _d, _c, _swizzled in ((dt.float32, 2, False), (dt.float16, 2, True), (dt.float32, 4, True), (dt.int8, 4, False)):
    _layout = mo.tile_to_shape(mo.smem_layout_atom(_d, "k"), (8, 64)) if _swizzled else mo.make_layout(RUN)
    add(f"bulk-send-{_d}-{_c}", send_kernel,
        lambda rng, n, d=_d, c=_c, layout=_layout: [
            _columns(poison((RUN, 2 * c), d)),
            _columns(rng.integers(-99, 99, (RUN, 2 * c)).astype(numpy_of(d))), layout, n],
        lambda args, c=_c: _sent(args, c), sizes=(1, 3), block=BLOCK, grid=lambda n, c=_c: 2 * c, cluster=(_c, 1, 1))
