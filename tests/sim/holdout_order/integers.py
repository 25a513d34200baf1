"""Layouts that do not fit (A3, A4), integers that do not (A11), promises that do not hold (A12)."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, I64, Table, count, zeros

TABLE = Table()


@mo.kernel
def a3_static(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 256)
    t = mo.shared_array(mo.float32, 256)
    v = s.with_layout(mo.make_layout((32, 8), (1, 33 if fault else 32)))
    for k in mo.static_range(8):
        v[tid, k] = x[tid, k]
        t[tid + 32 * k] = 0.0
    mo.sync_threads()
    for k in mo.static_range(8):
        y[tid, k] = v[31 - tid, k] + t[tid + 32 * k]


TABLE.case(a3_static, "A3", lambda: (np.zeros((32, 8), F32), count(32, 8)))


@mo.kernel
def a3_dyn(y, x, pitch, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x.with_layout(mo.make_layout((4, 8), (pitch if fault else pitch - 1, 1)))
    y[tid] = v[tid // 8, tid % 8]


TABLE.case(a3_dyn, "A3 B1", lambda: (np.zeros(32, F32), count(32), 9))


@mo.kernel
def a3_compose(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((16, 4)))
    s[tid % 16, tid // 16] = x[tid]
    s[tid % 16, tid // 16 + 2] = x[tid + 32]
    mo.sync_threads()
    flat = s.with_layout(mo.composition(mo.make_layout(64), mo.make_layout((9 if fault else 8, 8), (8, 1))))
    y[tid] = flat[tid // 8, tid % 8]
    if fault:
        y[tid] = flat[8, tid % 8]


TABLE.case(a3_compose, "A3 B2", lambda: (np.zeros(32, F32), count(64)))


@mo.kernel
def a3_recast(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float16, 64)
    t = mo.shared_array(mo.float16, 64)
    s[tid] = 0
    s[tid + 32] = 1
    t[tid] = 2
    t[tid + 32] = 3
    mo.sync_threads()
    w = mo.recast(s, mo.float32)
    v = w.with_layout(mo.make_layout(64 if fault else 32))
    y[tid] = v[tid] + (v[tid + 32] if fault else 0.0) + t[tid].to(mo.float32)


TABLE.case(a3_recast, "A3 B2", lambda: (np.zeros(32, F32), count(64)))

# ---- A4


@mo.kernel
def a4_tile(y, x, fault: mo.Constexpr):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    b = 12 if fault else 8
    gx, gy = mo.tile(x, (b, 4), (bx, by)), mo.tile(y, (b, 4), (bx, by))
    gy[tid % 8, tid // 8] = gx[tid % 8, tid // 8]


TABLE.case(a4_tile, "A4", lambda: (np.zeros((16, 8), F32), count(16, 8)), grid=(1, 2))


@mo.kernel
def a4_grid(y, x, fault: mo.Constexpr):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gx, gy = mo.tile(x, (32,), (bx + 1 if fault else bx,)), mo.tile(y, (32,), (bx,))
    gy[tid] = gx[tid]


TABLE.case(a4_grid, "A4 B1", lambda: (np.zeros(96, F32), count(96)), grid=3)


@mo.kernel
def a4_loop(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    gx = mo.tile(x, (32,), (None,)) if fault else mo.tile(x, (32,), (None,), ragged=True)
    acc = 0.0
    for k in range(mo.size(gx, 1)):
        if k * 32 + tid < mo.size(x):
            acc += gx[tid, k]
    y[tid] = acc


TABLE.case(a4_loop, "A4", lambda: (np.zeros(32, F32), count(70)))

# ---- A11


@mo.kernel
def a11_pos(y, rows, pitch, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    p = mo.int64(rows) * pitch + tid
    q = p.to(mo.int32) % 32 if fault else (p % 32).to(mo.int32)
    y[q] = p.to(mo.float32)


TABLE.case(a11_pos, "A11", lambda: (np.zeros(32, F32), 70000, 65536))


@mo.kernel
def a11_mul32(y, a, b, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    p = a * b + tid if fault else mo.int64(a) * b + tid
    y[tid] = p


TABLE.case(a11_mul32, "A11", lambda: (np.zeros(32, I64), 65536, 40000))


@mo.kernel
def a11_64(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid]
    if fault or v < (1 << 61):
        y[tid] = v * 4
    else:
        y[tid] = -1


TABLE.case(a11_64, "A11", lambda: (np.zeros(32, I64), (np.arange(32, dtype=I64) << 57)))


@mo.kernel
def a11_shl(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    y[tid] = (x[tid] << tid) if fault else mo.int64(x[tid]) << tid


TABLE.case(a11_shl, "A11", lambda: (np.zeros(32, I64), np.full(32, 3, I32)))


@mo.kernel
def a11_shl64(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    one = mo.int64(x[tid])
    y[tid] = one << (tid + (32 if fault else 30))


TABLE.case(a11_shl64, "A11", lambda: (np.zeros(32, I64), np.full(32, 3, I32)))


@mo.kernel
def a11_negshift(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    k = tid - 4
    y[tid] = x[tid] >> (k if fault else mo.max(k, 0))


TABLE.case(a11_negshift, "A11", lambda: (np.zeros(32, I32), count(32, dtype=I32)))


@mo.kernel
def a11_hash(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    h = x[tid] if fault else x[tid].to(mo.uint32)
    for _k in range(5):
        h = h * 31 + 7
    y[tid] = (h % 1000).to(mo.int32)


TABLE.case(a11_hash, "A11", lambda: (np.zeros(32, I32), np.arange(32, dtype=I32) * 1000))


@mo.kernel
def a11_atomic(c, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    mo.atomic_add(c, 0, x[tid] if fault else x[tid] // 64)


TABLE.case(a11_atomic, "A11", lambda: (np.zeros(1, I32), np.full(32, 2**27, I32)))


@mo.kernel
def a11_warp(c, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid]
    if fault:
        c[tid] = mo.warp_reduce(v)
    else:
        c[tid] = mo.warp_reduce(mo.int64(v))


TABLE.case(a11_warp, "A11", lambda: (np.zeros(32, I64), np.full(32, 2**27, I32)))


@mo.kernel
def a11_negmin(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid]
    y[tid] = mo.abs(v) if fault else mo.abs(mo.max(v, -(2**31 - 1)))


TABLE.case(a11_negmin, "A11", lambda: (np.zeros(32, I32), np.where(np.arange(32) == 9, -2**31,
           np.arange(32)).astype(I32)))


@mo.kernel
def a11_divmin(y, x, d, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    y[tid] = x[tid] // (d[tid] if fault else mo.max(d[tid], 1))


TABLE.case(a11_divmin, "A11", lambda: (np.zeros(32, I32), np.full(32, -2**31, I32), np.full(32, -1, I32)))


@mo.kernel
def a11_mid(y, lo, hi, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    y[tid] = ((lo + hi) // 2 if fault else lo + (hi - lo) // 2)


TABLE.case(a11_mid, "A11", lambda: (np.zeros(32, I32), 2**30 + 5, 2**30 + 7))


@mo.kernel
def a11_prefix(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.int32 if fault else mo.int64, 32)
    s[tid] = x[tid]
    mo.sync_threads()
    for k in mo.static_range(5):
        v = s[tid]
        if tid >= (1 << k):
            v = v + s[tid - (1 << k)]
        mo.sync_threads()
        s[tid] = v
        mo.sync_threads()
    y[tid] = s[tid]


TABLE.case(a11_prefix, "A11", lambda: (np.zeros(32, I64), np.full(32, 2**27, I32)))


@mo.kernel
def a11_fconv(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid]
    y[tid] = v.to(mo.int32) if fault else mo.min(v, mo.int64(2**31 - 1)).to(mo.int32)


TABLE.case(a11_fconv, "A11", lambda: (np.zeros(32, I32), np.arange(32, dtype=I64) << 27))

# ---- A12


@mo.kernel
def a12_assume(y, x, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    mo.assume(n % (8 if fault else 4) == 0)
    y[tid] = x[tid] + n


TABLE.case(a12_assume, "A12", lambda: (np.zeros(32, F32), count(32), 12))


@mo.kernel
def a12_dyn(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    k = x[tid]
    mo.assume(k < (31 if fault else 32))
    mo.assume(k >= 0)
    y[tid] = k


TABLE.case(a12_dyn, "A12", lambda: (np.zeros(32, I32), count(32, dtype=I32)))


@mo.kernel
def a12_assert(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    acc = 0
    for i in range(x[tid]):
        acc += i
    assert acc < (100 if fault else 1000), "few"
    y[tid] = acc


TABLE.case(a12_assert, "A12", lambda: (np.zeros(32, I32), count(32, dtype=I32)))


@mo.kernel
def a12_div(y, x, d, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if fault:
        y[tid] = x[tid] // d[tid]
    else:
        if d[tid] != 0:
            y[tid] = x[tid] // d[tid]


TABLE.case(a12_div, "A12", lambda: (np.zeros(32, I32), count(32, dtype=I32), (count(32, dtype=I32) % 5)))


@mo.kernel
def a12_mod(y, x, d, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    y[tid] = x[tid] % (d if fault else mo.max(d, 1))


TABLE.case(a12_mod, "A12", lambda: (np.zeros(32, I32), count(32, dtype=I32), 0))


@mo.kernel
def rangenear(y, lo, hi, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    c = 0
    for _i in range(lo + (tid if fault else 0), hi, 37 if fault else 1):
        c += 1
    y[tid] = c


TABLE.case(rangenear, "A11", lambda: (zeros(32), 2**31 - 100, 2**31 - 1))


@mo.kernel
def uniform(y, lo, hi, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    c = 0
    for _i in range(lo, hi, 37 if fault else 9):
        c += 1
    y[tid] = c


TABLE.case(uniform, "A11", lambda: (zeros(32), 2**31 - 100, 2**31 - 10))


@mo.kernel
def gridstride(y, lo, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    stride = mo.grid_dim().x * mo.block_dim().x
    i0 = lo + mo.block_idx().x * mo.block_dim().x + tid
    c = 0
    if fault:
        for _i in range(i0, n, stride):
            c += 1
    else:
        for _i in range(mo.int64(i0), mo.int64(n), mo.int64(stride)):
            c += 1
    mo.atomic_add(y, 0, c)


TABLE.case(gridstride, "A11", lambda: (zeros(1), 2**31 - 1000, 2**31 - 1), grid=3)


@mo.kernel
def withbarrier(y, lo, hi, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    c = 0
    for _i in range(lo, hi, 64 if fault else 32):
        mo.sync_threads()
        c += 1
    y[tid] = c


TABLE.case(withbarrier, "A11", lambda: (zeros(64), 2**31 - 1000, 2**31 - 30), block=64)


@mo.kernel
def down(y, lo, hi, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    c = 0
    for _i in range(hi + tid, lo, -100 if fault else -1):
        c += 1
    y[tid] = c


TABLE.case(down, "A11", lambda: (zeros(32), -2**31, -2**31 + 250))


@mo.kernel
def broken(y, lo, hi, fault: mo.Constexpr):
    # leaves by break before the step: right
    tid = mo.thread_idx().x
    c = 0
    for _i in range(lo + tid, hi, 50):
        c += 1
        if c == 2:
            break
    y[tid] = c


TABLE.case(broken, "", lambda: (zeros(32), 2**31 - 100, 2**31 - 1), only=False)


@mo.kernel
def few(y, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    for i in range(tid, n, 32):
        y[i] = i


TABLE.case(few, "", lambda: (zeros(100), 100), only=False)
