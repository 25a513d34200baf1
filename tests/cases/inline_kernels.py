"""Kernels with snippets of PTX and CUDA C++, and with instructions on bits, for tests of both back ends.

In: nothing.  Out: kernels, their data and what NumPy or Python says of it.

>>> out, x, y, f = snippet_data(); snippets[1, 64](out, x, y, f)
"""

from __future__ import annotations

import numpy as np

import moye as mo

N = 256


# --- snippets ---------------------------------------------------------------------------------------------------------


def product(a, b):
    return a * b, (a.astype(np.uint64) * b >> 32).astype(np.uint32)


def larger(a, b):
    return np.where(a > b, a, b)


@mo.kernel
def snippets(out, x, y, f):
    i = mo.thread_idx().x
    low, high = mo.inline_ptx("mul.lo.u32 %0, %2, %3;\nmul.hi.u32 %1, %2, %3; // both", x[i], y[i],
                              results=(mo.uint32, mo.uint32), simulate=product)
    out[i, 0], out[i, 1] = low, high
    out[i, 2] = mo.inline_cuda("// the larger\ny0 = x0 > x1 ? x0 : x1; // of two", x[i], y[i], results=mo.uint32,
                               simulate=larger)
    half = mo.inline_ptx("{ .reg .f16 t; neg.f16 t, %1; abs.f16 %0, t; }", f[i].to(mo.float16), results=mo.float16,
                         simulate=np.abs)
    out[i, 3] = half.bitcast(mo.uint16).to(mo.uint32)
    out[i, 4] = mo.inline_ptx("add.u32 %0, %1, %2;", x[i], mo.uint32(7), results=mo.uint32,
                              simulate=lambda a, b: a + b, volatile=True)
    mo.inline_ptx("fence.acq_rel.gpu;", memory=True, simulate=lambda: None)
    out[i, 5] = mo.inline_cuda("y0 = x0.bits;", f[i].to(mo.float16), results=mo.uint16,
                               simulate=lambda h: h.view(np.uint16)).to(mo.uint32)


def snippet_data(n=64):
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
    return np.zeros((n, 6), np.uint32), x, y, rng.standard_normal(n).astype(np.float32)


def expected(x, y, f):
    h = f.astype(np.float16)
    return np.stack([x * y, (x.astype(np.uint64) * y >> 32).astype(np.uint32), np.maximum(x, y),
                     np.abs(h).view(np.uint16), x + np.uint32(7), h.view(np.uint16)], 1)


# --- bits -------------------------------------------------------------------------------------------------------------


@mo.kernel
def bits(out, a, b, c):
    i = mo.thread_idx().x
    x, y, z = a[i], b[i], c[i]
    out[i, 0] = mo.prmt(x, y, z)
    out[i, 1] = mo.prmt(x, y, 0x5410)
    out[i, 2] = mo.lop3(x, y, z, lambda a, b, c: (a & b) | c)
    out[i, 3] = mo.lop3(x, 0x000F000F, 0x64006400, 0xEA)
    out[i, 4] = mo.funnel_shift_left(x, y, z)
    out[i, 5] = mo.funnel_shift_right(x, y, z)
    out[i, 6] = mo.funnel_shift_left(x, y, z % 64, clamp=True)
    out[i, 7] = mo.funnel_shift_right(x, y, z % 64, clamp=True)
    out[i, 8] = mo.funnel_shift_left(x.to(mo.int32), x, 5)
    out[i, 9] = mo.lop3(x, y, z, lambda a, b, c: a ^ b ^ c)


def bit_data():
    a, b, c = np.random.default_rng(4).integers(0, 1 << 32, (3, N), dtype=np.uint32)
    c[: N // 2] &= 0x7777
    return np.zeros((N, 10), np.uint32), a, b, c


def _prmt(a, b, selector):
    octets, found = a | b << 32, 0
    for i in range(4):
        digit = selector >> 4 * i & 15
        byte = octets >> 8 * (digit & 7) & 255
        found |= (255 * (byte >> 7) if digit & 8 else byte) << 8 * i
    return found


def bits_expected(a, b, c):
    rows = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        both, n, m = x | y << 32, z % 32, min(z % 64, 32)
        rows.append((_prmt(x, y, z & 0xFFFF), x & 0xFFFF | (y & 0xFFFF) << 16, (x & y) | z,
                     (x & 0x000F000F) | 0x64006400, (both << n) >> 32 & 0xFFFFFFFF, both >> n & 0xFFFFFFFF,
                     (both << m) >> 32 & 0xFFFFFFFF, both >> m & 0xFFFFFFFF,
                     (x << 5 | x >> 27) & 0xFFFFFFFF, x ^ y ^ z))
    return np.array(rows, np.uint32)
