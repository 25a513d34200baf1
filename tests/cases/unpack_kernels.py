"""Kernels that make 16-bit floats of four and six bits, and a matrix-vector product of int4 weights.

In: nothing.  Out: kernels, packed numbers and what NumPy says of them.

>>> numbers(np.array([0x21], np.uint32), "uint4")[0, :2].tolist()
[1.0, 2.0]
"""

from __future__ import annotations

import numpy as np

import moye as mo

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)
LANES, WARPS, ROWS = 32, 4, 4


def numbers(words, dtype, interleaved=False):
    """The eight numbers of each word, as float64."""
    nibbles = words[:, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15
    if interleaved:
        nibbles = nibbles[:, INTERLEAVED]
    if str(dtype) == "float4_e2m1fn":
        return E2M1[nibbles]
    return nibbles.astype(np.float64) if str(dtype) == "uint4" else ((nibbles ^ 8).astype(int) - 8).astype(np.float64)


@mo.kernel
def plain(out, words, dtype: mo.Constexpr, interleaved: mo.Constexpr):
    i = mo.block_idx().x * LANES + mo.thread_idx().x
    mo.copyto(mo.tile(out, (8,), (i,)), mo.unpack(words[i], dtype, out.dtype, interleaved=interleaved))


@mo.kernel
def several(out, words, count: mo.Constexpr, how: mo.Constexpr, scale):
    """``count`` words a thread of uint4, by unpack, or (``how`` None) by shifts, masks and conversions."""
    i = mo.block_idx().x * LANES + mo.thread_idx().x
    for j in mo.static_range(count):
        word = words[i, j]
        if how is None:
            f = mo.fragment((8,), out.dtype)
            for k in mo.static_range(8):
                f[k] = ((word >> 4 * k) & 15).to(out.dtype)
        else:
            f = mo.unpack(word, mo.uint4, out.dtype, interleaved=how, scale=None if scale is None else scale[0])
        mo.copyto(mo.tile(out, (1, 8), (i, j))[0, :], f)


@mo.kernel
def scaled(out, words, scales, zeros, fixed: mo.Constexpr, dtype: mo.Constexpr, interleaved: mo.Constexpr):
    """Two words a thread, each with its own scale; the zero is ``fixed``, or from an array, or None."""
    i = mo.block_idx().x * LANES + mo.thread_idx().x
    w, s = mo.fragment((2,), mo.uint32), mo.fragment((2,), out.dtype)
    mo.copyto(w, mo.tile(words, (2,), (i,)))
    mo.copyto(s, mo.tile(scales, (2,), (i,)))
    zero = fixed if zeros is None else zeros[i]
    mo.copyto(mo.tile(out, (16,), (i,)), mo.unpack(w, dtype, out.dtype, scale=s, zero=zero, interleaved=interleaved))


@mo.kernel
def six_bits(out, words, scales, dtype: mo.Constexpr, padded: mo.Constexpr, groups: mo.Constexpr):
    """``groups`` groups of 6-bit floats a thread: a word of four, or three words of sixteen."""
    i = mo.block_idx().x * LANES + mo.thread_idx().x
    count, of = (4, 1) if padded else (16, 3)
    w = mo.fragment((of * groups,), mo.uint32)
    mo.copyto(w, mo.tile(words, (of * groups,), (i,)))
    scale = None
    if scales is not None:
        scale = mo.fragment((groups,), out.dtype)
        mo.copyto(scale, mo.tile(scales, (groups,), (i,)))
    f = mo.unpack(w, dtype, out.dtype, scale=scale, padded=padded)
    mo.copyto(mo.tile(out, (count * groups,), (i,)), f)


def six_data(count, padded, seed=0):
    """(codes, words): every code, then random ones; the upper bits of padded bytes are random."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(64), rng.integers(0, 64, count - 64)]).astype(np.uint8)
    if padded:
        return codes, (codes | rng.integers(0, 4, count).astype(np.uint8) << 6).view(np.uint32)
    return codes, np.packbits(codes[:, None] >> np.arange(6) & 1, bitorder="little").view(np.uint32)


@mo.kernel
def gemv_int4(y, weights, scales, x):
    """y = weights @ x of int4 weights in words of eight, a float16 scale for each 32 of them, and float16 x.

    A warp has four rows; a lane takes 32 numbers of each at a time: four words, one scale.
    """
    lane, first = mo.lane_idx(), (mo.block_idx().x * WARPS + mo.warp_idx()) * ROWS
    mo.assume(mo.size(weights, 1) % (4 * LANES) == 0)
    mo.assume(mo.size(x, 0) % (32 * LANES) == 0)
    words, xs = mo.fragment((4,), mo.uint32), mo.fragment((32,), mo.float16)
    totals = mo.fragment((ROWS,), mo.float32)
    totals.fill(0)
    for step in range(mo.size(weights, 1) // (4 * LANES)):
        group = step * LANES + lane
        mo.copyto(xs, mo.tile(x, (32,), (group,)))
        for r in mo.static_range(ROWS):
            mo.copyto(words, mo.tile(weights, (1, 4), (first + r, group))[0, :])
            q = mo.unpack(words, mo.int4, mo.float16)
            part = mo.float32(0)
            for j in mo.static_range(32):
                part += q[j].to(mo.float32) * xs[j].to(mo.float32)
            totals[r] += part * scales[first + r, group].to(mo.float32)
    for r in mo.static_range(ROWS):
        total = mo.warp_reduce(totals[r])
        if lane == 0:
            y[first + r] = total


def gemv_data(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 1 << 32, (rows, columns // 8), dtype=np.uint32)
    scales = rng.uniform(0.01, 0.1, (rows, columns // 32)).astype(np.float16)
    return np.zeros(rows, np.float32), weights, scales, rng.standard_normal(columns).astype(np.float16)


def gemv_expected(weights, scales, x):
    rows = len(weights)
    q = numbers(weights.reshape(-1), "int4").reshape(rows, -1)
    return q * np.repeat(scales.astype(np.float64), 32, axis=1) @ x.astype(np.float64)
