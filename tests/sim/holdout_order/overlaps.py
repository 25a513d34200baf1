"""Blocks, and arguments, that share elements."""

from __future__ import annotations

import moye as mo
from sim.holdout_order.table import F32, Table, count, zeros

TABLE = Table()


@mo.kernel
def g1_overlap(y, x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    base = b * (31 if fault else 32)
    y[base + tid] = x[b * 32 + tid]


TABLE.case(g1_overlap, "G1", lambda: (zeros(96, dtype=F32), count(96)), grid=3)


@mo.kernel
def g5_stencil(x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    i = b * 32 + tid
    v = x[i + 1] if i + 1 < mo.size(x) and (fault or tid < 31) else 0.0
    mo.sync_warp()
    x[i] = v


TABLE.case(g5_stencil, "G5 G3", lambda: (count(96),), grid=3)


@mo.kernel
def g5_alias(y, x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    i = b * 32 + tid
    y[i] = x[95 - i] if fault else x[i] + 1
def same():
    a = count(96)
    return a, a


TABLE.case(g5_alias, "G5 C3", same, grid=3)


@mo.kernel
def g5_shift(y, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(y):
        y[i] = x[i]
def shifted():
    a = count(97)
    return a[:96], a[1:]
def apart():
    a = count(200)
    return a[:96], a[100:196]


TABLE.case(g5_shift, "G5 C3", shifted, grid=3, only=True)
TABLE.case(g5_shift, "", apart, grid=3, only=False)


@mo.kernel
def g5_within(y, x, fault: mo.Constexpr):
    i = mo.thread_idx().x
    v = x[i]
    if not fault:
        mo.sync_threads()
    y[i] = v
def shifted64():
    a = count(65)
    return a[:64], a[1:]
def shifted64b():
    a = count(65)
    return a[1:], a[:64]


TABLE.case(g5_within, "C1 C2 C3", shifted64, block=64)
TABLE.case(g5_within, "C1 C2 C3", shifted64b, block=64, name="g5_within_b")


@mo.kernel
def transpose_inplace(x, fault: mo.Constexpr):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    r, c = bx * 4 + tid % 4, by * 8 + tid // 4
    mo.size(x, 0)
    if fault:
        t = x[c, r]
        x[r, c] = t
    else:
        if r < c:
            a, b = x[r, c], x[c, r]
            x[r, c] = b
            x[c, r] = a


TABLE.case(transpose_inplace, "G5 C3", lambda: (count(16, 16),), grid=(4, 2))
