"""The same through views, tiles, partitions, vectors and predicates."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()


@mo.kernel
def nested(y, x, fault: mo.Constexpr):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    g = mo.tile(x, (16, 16), (bx, 0))
    h = mo.tile(y, (16, 16), (bx, 0))
    gi = mo.tile(g, (4, 4), (None, None))
    hi = mo.tile(h, (4, 4), (None, None))
    r, c = tid % 4, tid // 4 % 4
    for k in range(tid // 16, 4 if not fault else 5, 2):
        for q in range(4):
            hi[r, c, k, q] = gi[r, c, k, q]


TABLE.case(nested, "B1", lambda: (zeros(32, 16, dtype=F32), count(32, 16)), grid=2)
# slice view then dynamic row


@mo.kernel
def slicerow(y, x, rows, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    row = x[rows[tid], :]
    y[tid] = row[tid % 8 + (1 if fault else 0)]


TABLE.case(slicerow, "B1", lambda: (zeros(32, dtype=F32), count(40, 8), (np.arange(32)).astype(I32)), text=", 8)")
# static args


@mo.kernel
def statics(y: mo.Static, x: mo.Static, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    for j in range(mo.size(x, 1) + (1 if fault else 0)):
        y[tid, j] = x[tid, j]


TABLE.case(statics, "B1", lambda: (zeros(32, 8, dtype=F32)[:, :5], count(32, 8)[:, :5]))
# column-major with parallelize per thread column overflow in the sub-view


@mo.kernel
def par_col(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    px = mo.parallelize(x, mo.make_layout((8, 4)), tid)
    py = mo.parallelize(y, mo.make_layout((8, 4)), tid)
    for j in range(mo.size(px, 1) + (1 if fault else 0)):
        py[0, j] = px[0, j] + 1


TABLE.case(par_col, "B1", lambda: (zeros(8, 16, dtype=F32), count(8, 16)))
# swapped row/column between tile idx


@mo.kernel
def swapidx(y, x, fault: mo.Constexpr):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    g = mo.tile(x, (8, 8), (None, None))
    h = mo.tile(y, (8, 8), (None, None))
    for k in range(tid, 64, 32):
        r, c = k % 8, k // 8
        if fault:
            h[r, c, bx, by] = g[r, c, by, bx]
        else:
            h[r, c, bx, by] = g[r, c, bx, by]


TABLE.case(swapidx, "B1", lambda: (zeros(24, 16, dtype=F32), count(24, 16)), grid=(3, 2))
# shared transposed tile rectangular


@mo.kernel
def strans(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((8, 16), (17, 1)))
    pad = mo.shared_array(mo.float32, 64)
    pad[tid] = 0.0
    for k in range(tid, 128, 32):
        s[k // 16, k % 16] = x[k // 16, k % 16]
    mo.sync_threads()
    for k in range(tid, 128, 32):
        a, b = k // 8, k % 8
        y[a, b] = s[a, b] if fault else s[b, a]


TABLE.case(strans, "B2", lambda: (zeros(16, 8, dtype=F32), count(8, 16)), text="(8, ")
# smem stage view with run-time stage, vector copy


@mo.kernel
def stagevec(y, x, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (128, 2))
    t = mo.shared_array(mo.float32, (128, 2))
    f = mo.fragment((4,), mo.float32)
    g = mo.tile(x, (4, 1), (tid, None))[:, 0, :]
    st = 0
    for k in range(n):
        mo.copyto(f, g[:, k])
        mo.copyto(mo.tile(s[:, st], (4,), (tid,)), f)
        mo.copyto(mo.tile(t[:, 0], (4,), (tid,)), f)
        st = st + 1
        if st == (3 if fault else 2):
            st = 0
    mo.sync_threads()
    y[tid] = s[127 - tid, 0] + t[tid, 0]


TABLE.case(stagevec, "B2", lambda: (zeros(32, dtype=F32), np.asfortranarray(count(128, 6)), 6), text=", 2)")
# ragged with cp.async element wise 4 bytes, predicate on wrong mode


@mo.kernel
def cpa4(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    s = mo.shared_array(mo.float32, (8, 8))
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    for k in range(tid, 64, 32):
        r, c = k % 8, k // 8
        s[r, c] = 0.0
    mo.sync_threads()
    copy = mo.make_tiled_copy(atom, mo.make_layout((8, 4)))
    gx = mo.tile(x, (8, 8), (0, 0), ragged=True)
    cx = mo.tile(mo.identity_tensor(mo.shape(x)), (8, 8), (0, 0), ragged=True)
    thr = copy.get_slice(tid)
    px, ps, pc = thr.partition_S(gx), thr.partition_D(s), thr.partition_S(cx)
    for j in mo.static_range(mo.size(px, 2)):
        c = pc[0, 0, j]
        ok = c[0] < M if fault else mo.elem_less(c, (M, N))
        if ok:
            mo.copyto(copy, ps[:, :, j], px[:, :, j])
    mo.cp_async_wait()
    mo.sync_threads()
    for k in range(tid, 64, 32):
        r, c = k % 8, k // 8
        if r < M and c < N:
            y[r, c] = s[r, c]


TABLE.case(cpa4, "B1", lambda: (zeros(8, 8, dtype=F32)[:7, :5], count(8, 8)[:7, :5]), text=", 5)")
# pred= copyto


@mo.kernel
def predcopy(y, x, fault: mo.Constexpr):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((8, 4)))
    gx = mo.tile(x, (8, 8), (0, bx), ragged=True)
    gy = mo.tile(y, (8, 8), (0, bx), ragged=True)
    cx = mo.tile(mo.identity_tensor(mo.shape(x)), (8, 8), (0, bx), ragged=True)
    thr = copy.get_slice(tid)
    px, py, pc = thr.partition_S(gx), thr.partition_D(gy), thr.partition_S(cx)
    r = mo.make_fragment_like(px)
    r.fill(0)
    p = mo.fragment(mo.shape(r), mo.bool)
    for i in mo.static_range(mo.size(r)):
        p[i] = (pc[i][1] <= mo.size(x, 1)) if fault else mo.elem_less(pc[i], mo.shape(x))
    mo.copyto(copy, r, px, pred=p)
    q = mo.fragment(mo.shape(r), mo.bool)
    for i in mo.static_range(mo.size(r)):
        q[i] = mo.elem_less(pc[i], mo.shape(x))
    mo.copyto(copy, py, r, pred=q)


TABLE.case(predcopy, "B1", lambda: (zeros(8, 20, dtype=F32), count(8, 20)), grid=3, text=", 20)")
# batch strided: 3-mode with stride-0 batch


@mo.kernel
def batch0(y, x, w, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    y[b, tid] = x[b, tid] * w[b + (1 if fault else 0), tid]


TABLE.case(batch0, "B1", lambda: (zeros(3, 32, dtype=F32), count(3, 32), np.broadcast_to(count(32), (3, 32))),
           grid=3, text="(3, 0)")
# atomic on 2D view


@mo.kernel
def atomic2d(h, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid]
    mo.atomic_add(h, (v // 4, v % 4 + (1 if fault else 0)), 1)


TABLE.case(atomic2d, "B1", lambda: (zeros(4, 8)[:, :4], count(32, dtype=I32) % 16), text=", 4)")
# conv1d with channels, kernel width: reading kernel weights out of range


@mo.kernel
def conv(y, x, w, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    n, m = mo.size(x), mo.size(w)
    acc = 0.0
    for k in range(m):
        j = i + k - m // 2
        if j >= 0 and j < n:
            acc += x[j] * w[k + 1 if fault else m - 1 - k]
    if i < n:
        y[i] = acc


TABLE.case(conv, "B1", lambda: (zeros(50, dtype=F32), count(50), count(5)), grid=2, text="(5)")


@mo.kernel
def smemhalo(y, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    n = mo.size(x)
    s = mo.shared_array(mo.float32, 36)
    other = mo.shared_array(mo.float32, 8)
    if tid < 8:
        other[tid] = 0.0
    for k in range(tid, 36 if not fault else 40, 32):
        j = b * 32 + k - 2
        s[k] = x[j] if j >= 0 and j < n else 0.0
    mo.sync_threads()
    acc = 0.0
    for q in mo.static_range(5):
        acc += s[tid + q]
    if b * 32 + tid < n:
        y[b * 32 + tid] = acc + other[0]


TABLE.case(smemhalo, "B2", lambda: (zeros(50, dtype=F32), count(50)), grid=2, text="(36)")


@mo.kernel
def f16vec(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    n = mo.size(x)
    f = mo.fragment((8,), mo.float16)
    gx = mo.tile(x, (8,), (None,), ragged=True)
    gy = mo.tile(y, (8,), (None,), ragged=True)
    full = (tid * 8 < n) if fault else (tid * 8 + 8 <= n)
    if full:
        mo.copyto(f, gx[:, tid])
        mo.copyto(gy[:, tid], f)


TABLE.case(f16vec, "B1", lambda: (zeros(100, dtype=np.float16), count(100, dtype=np.float16)), text="(100)")


@mo.kernel
def csr(y, ptr, col, val, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    n = mo.size(y)
    if tid < (n + 1 if fault else n):
        acc = 0.0
        for k in range(ptr[tid], ptr[tid + 1]):
            acc += val[k] * x[col[k]]
        if tid < n:
            y[tid] = acc


TABLE.case(csr, "B1", lambda: (zeros(10, dtype=F32), np.arange(0, 33, 3).astype(I32),
           (np.arange(30) % 10).astype(I32), count(30), count(10)), text="(11)")


@mo.kernel
def embbag(y, table, idx, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    acc = 0.0
    for k in range(mo.size(idx, 1)):
        r = idx[b, k]
        if fault:
            acc += table[r, tid]
        else:
            if r >= 0:
                acc += table[r, tid]
    y[b, tid] = acc


TABLE.case(embbag, "B1", lambda: (zeros(3, 32, dtype=F32), count(8, 32), np.array([[0, 1], [2, -1], [7, 3]], I32)),
           grid=3, text="(-1, 0)")


@mo.kernel
def colmajor(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    for k in range(tid, M * N, 32):
        r, c = (k % N, k // N) if fault else (k % M, k // M)
        y[r, c] = x[r, c]


TABLE.case(colmajor, "B1", lambda: (zeros(6, 10, dtype=F32), count(6, 10)))


@mo.kernel
def offbyone_loop(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    n = mo.size(x)
    i = tid
    acc = 0.0
    while i <= n if fault else i < n:
        acc += x[i]
        i += 32
    y[tid] = acc


TABLE.case(offbyone_loop, "B1", lambda: (zeros(32, dtype=F32), count(96)), text="(96)")


@mo.kernel
def swz_stage(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    lay = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k", 32), (8, 8, 2))
    s = mo.shared_array(mo.float32, lay)
    t = mo.shared_array(mo.float32, lay)
    for k in range(3):
        st = k % (3 if fault else 2)
        for q in range(tid, 64, 32):
            s[q // 8, q % 8, st] = x[k, q]
            t[q // 8, q % 8, 0] = x[k, q]
        mo.sync_threads()
        for q in range(tid, 64, 32):
            y[k, q] = s[q % 8, q // 8, st] + t[q % 8, q // 8, 0]
        mo.sync_threads()


TABLE.case(swz_stage, "B2", lambda: (zeros(3, 64, dtype=F32), count(3, 64)), text=", 2)")
