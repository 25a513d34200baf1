"""Elements beyond the extent of a mode, in global and in shared memory."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, Table, count

TABLE = Table()


@mo.kernel
def ragged1(y, x, fault: mo.Constexpr):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gx = mo.tile(x, (32,), (bx,), ragged=True)
    gy = mo.tile(y, (32,), (bx,), ragged=True)
    i = bx * 32 + tid
    n = mo.size(x)
    if i < (n + 1 if fault else n):
        gy[tid] = gx[tid] + 1


TABLE.case(ragged1, "B1", lambda: (np.zeros(101, F32)[:100].copy(), count(100)), grid=4, text="(100)")


@mo.kernel
def ragged2(y, x, fault: mo.Constexpr):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    r, c = tid % 8, tid // 8
    gx = mo.tile(x, (8, 4), (bx, by), ragged=True)
    gy = mo.tile(y, (8, 4), (bx, by), ragged=True)
    if fault:
        if bx * 8 + r < M or by * 4 + c < N:
            gy[r, c] = gx[r, c] * 2
    else:
        if bx * 8 + r < M and by * 4 + c < N:
            gy[r, c] = gx[r, c] * 2


TABLE.case(ragged2, "B1", lambda: (np.zeros((21, 10), F32), count(21, 10)), grid=(3, 3))

# view of a wider array: inside memory, outside columns


@mo.kernel
def widerview(y, x, fault: mo.Constexpr):
    _bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    limit = 32 if fault else N
    for j in range(limit):
        if tid < M:
            y[tid, j] = x[tid, j]


TABLE.case(widerview, "B1", lambda: (np.zeros((16, 40), F32)[:, :30], count(16, 40)[:, :30]), text=", 30)")


@mo.kernel
def ragged3(y, x, fault: mo.Constexpr):
    bx, by, bz = mo.block_idx()
    tid = mo.thread_idx().x
    M, N, K = mo.shape(x)
    gx = mo.tile(x, (4, 4, 2), (bx, by, bz), ragged=True)
    gy = mo.tile(y, (4, 4, 2), (bx, by, bz), ragged=True)
    cx = mo.tile(mo.identity_tensor(mo.shape(x)), (4, 4, 2), (bx, by, bz), ragged=True)
    a, b, c = tid % 4, tid // 4 % 4, tid // 16
    if mo.elem_less(cx[a, b, c], (M, N, K + 1) if fault else (M, N, K)):
        gy[a, b, c] = gx[a, b, c] + 1


TABLE.case(ragged3, "B1", lambda: (np.zeros((5, 7, 3), F32), count(5, 7, 3)), grid=(2, 2, 2), block=32)

# transposed array, out of mode 0, inside memory


@mo.kernel
def transposer(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    for i in range(tid, M * N, 32):
        r, c = i // N, i % N
        if fault:
            y[r, c] = x[r, c]
        else:
            y[c, r] = x[r, c]


TABLE.case(transposer, "B1", lambda: (np.zeros((6, 10), F32), count(10, 6)), expect=lambda x: x.T)


@mo.kernel
def broadcast(y, x, b, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    if tid < N:
        for i in range(M):
            y[i, tid] = x[i, tid] + b[i, tid + 1 if fault else tid]


TABLE.case(broadcast, "B1", lambda: (np.zeros((4, 20), F32), count(4, 20), np.broadcast_to(count(20), (4, 20))),
           text=", 20)")


@mo.kernel
def broadcast0(y, b, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, N = mo.shape(b)
    y[tid] = b[M if fault else M - 1, tid % N]


TABLE.case(broadcast0, "B1", lambda: (np.zeros(32, F32), np.broadcast_to(count(20), (4, 20))), text="(4, ")


@mo.kernel
def padded(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((8, 32), (33, 1)))
    for r in range(8):
        s[r, tid] = x[r, tid]
    mo.sync_threads()
    c = tid + (1 if fault else 0)
    for r in range(8):
        y[r, tid] = s[r, c]


TABLE.case(padded, "B2 B6", lambda: (np.zeros((8, 32), F32), count(8, 32)), text="(0, 32)")


@mo.kernel
def swizzled(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    lay = mo.composition(mo.Swizzle(3, 0, 3), mo.make_layout((8, 8), (8, 1)))
    s = mo.shared_array(mo.float32, lay)
    for i in range(tid, 64, 32):
        s[i // 8, i % 8] = x[i]
    mo.sync_threads()
    for i in range(tid, 64, 32):
        r, c = i // 8, i % 8
        if fault:
            y[i] = s[0, c + r]
        else:
            y[i] = s[c, r]


TABLE.case(swizzled, "B2", lambda: (np.zeros(64, F32), count(64)))


@mo.kernel
def stageidx(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 3))
    t = mo.shared_array(mo.float32, (32, 3))
    acc = 0.0
    for k in range(mo.size(x, 1)):
        st = k if fault else k % 3
        s[tid, st] = x[tid, k]
        mo.sync_threads()
        acc += s[31 - tid, st]
        mo.sync_threads()
    t[tid, 0] = acc
    y[tid] = t[tid, 0]


TABLE.case(stageidx, "B2", lambda: (np.zeros(32, F32), count(32, 5)), text="modulo their number, 3")


@mo.kernel
def tilecopyto(y, x, fault: mo.Constexpr):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32),
                              mo.make_layout((32,)), mo.make_layout((4,)))
    gx = mo.tile(x, (128,), (bx,), ragged=True)
    gy = mo.tile(y, (128,), (bx,), ragged=True)
    cx = mo.tile(mo.identity_tensor(mo.shape(x)), (128,), (bx,), ragged=True)
    thr = copy.get_slice(tid)
    tx, ty, tc = thr.partition_S(gx), thr.partition_D(gy), thr.partition_S(cx)
    r = mo.make_fragment_like(tx)
    r.fill(0)
    for v in mo.static_range(4):
        if fault or mo.elem_less(tc[v, 0], mo.shape(x)):
            r[v, 0] = tx[v, 0]
    for v in mo.static_range(4):
        if mo.elem_less(tc[v, 0], mo.shape(y)):
            ty[v, 0] = r[v, 0]


TABLE.case(tilecopyto, "B1", lambda: (np.zeros(200, F32), count(200)), grid=2, text="(200)")


@mo.kernel
def gather(y, x, idx, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(y):
        j = idx[i]
        if fault:
            if j <= mo.size(x):
                y[i] = x[j]
        else:
            if j >= 0 and j < mo.size(x):
                y[i] = x[j]
            else:
                y[i] = 0.0


TABLE.case(gather, "B1", lambda: (np.zeros(50, F32), count(40), np.array([(7 * i) % 41 for i in range(50)],
           np.int32)), grid=2, text="(40)")


@mo.kernel
def gatherneg(y, x, idx, fault: mo.Constexpr):
    i = mo.thread_idx().x
    j = idx[i]
    if fault:
        y[i] = x[j, 3]
    else:
        y[i] = x[mo.max(j, 0), 3]


TABLE.case(gatherneg, "B1", lambda: (np.zeros(32, F32), count(40, 8)[2:], (np.arange(32) - 1).astype(np.int32)),
           text="(-1, 3)")


@mo.kernel
def halo(y, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    tid = mo.thread_idx().x
    n = mo.size(x)
    s = mo.shared_array(mo.float32, 34)
    if i < n:
        s[tid + 1] = x[i]
    else:
        s[tid + 1] = 0.0
    if tid == 0:
        if fault:
            s[0] = x[i - 1]
        else:
            s[0] = x[i - 1] if i > 0 else 0.0
    if tid == 31:
        s[33] = x[i + 1] if i + 1 < n else 0.0
    mo.sync_threads()
    if i < n:
        y[i] = s[tid] + s[tid + 1] + s[tid + 2]


TABLE.case(halo, "B1", lambda: (np.zeros(70, F32), count(70)), grid=3, text="(-1)", expect=lambda x: np.convolve(x,
           np.ones(3), "same").astype(F32))


@mo.kernel
def halo2d(y, x, w, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    r, c = tid // 8, tid % 8
    M, N = mo.shape(x)
    acc = 0.0
    for a in mo.static_range(3):
        for b in mo.static_range(3):
            rr, cc = r + a - 1, c + b - 1
            if rr >= 0 and rr < M and (cc >= -1 if fault else cc >= 0) and cc < N:
                acc += x[rr, cc] * w[a, b]
    if r < M and c < N:
        y[r, c] = acc


TABLE.case(halo2d, "B1", lambda: (np.zeros((4, 8), F32), count(4, 8), count(3, 3)), text=", -1)")


@mo.kernel
def reduceodd(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    n = mo.size(x)
    s = mo.shared_array(mo.float32, 27)
    if tid < n:
        s[tid] = x[tid]
    mo.sync_threads()
    m = n
    while m > 1:
        half = (m + 1) // 2
        if fault:
            if tid < half:
                s[tid] = s[tid] + s[tid + half]
        else:
            if tid < m - half:
                s[tid] = s[tid] + s[tid + half]
        m = half
        mo.sync_threads()
    if tid == 0:
        y[0] = s[0]


TABLE.case(reduceodd, "B2 C1 C2", lambda: (np.zeros(1, F32), count(27)), block=32, expect=lambda x: np.array([x.sum()]))


@mo.kernel
def vec4(y, x, fault: mo.Constexpr):
    i = mo.thread_idx().x
    n = mo.size(x)
    v = mo.fragment((4,), mo.float32)
    gx = mo.tile(x, (4,), (None,), ragged=True)
    gy = mo.tile(y, (4,), (None,), ragged=True)
    if fault:
        if i * 4 < n:
            mo.copyto(v, gx[:, i])
            mo.copyto(gy[:, i], v)
    else:
        if i * 4 + 3 < n:
            mo.copyto(v, gx[:, i])
            mo.copyto(gy[:, i], v)
        else:
            for q in mo.static_range(4):
                if i * 4 + q < n:
                    gy[q, i] = gx[q, i]


TABLE.case(vec4, "B1", lambda: (np.zeros(62, F32), count(62)), text="(62)")


@mo.kernel
def cp_async(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    bx = mo.block_idx().x
    s = mo.shared_array(mo.float32, 128)
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32),
                              mo.make_layout((32,)), mo.make_layout((4,)))
    gx = mo.tile(x, (128,), (bx,), ragged=True)
    thr = copy.get_slice(tid)
    n = mo.size(x)
    if fault:
        mo.copyto(copy, thr.partition_D(s), thr.partition_S(gx))
    else:
        if bx * 128 + tid * 4 + 3 < n:
            mo.copyto(copy, thr.partition_D(s), thr.partition_S(gx))
        else:
            thr.partition_D(s).fill(0)
    mo.cp_async_commit()
    mo.cp_async_wait(0)
    mo.sync_threads()
    for q in range(tid, 128, 32):
        if bx * 128 + q < n:
            y[bx * 128 + q] = s[127 - q]


TABLE.case(cp_async, "B1", lambda: (np.zeros(200, F32), count(200)), grid=2)


@mo.kernel
def hist(h, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(x):
        b = x[i]
        if fault:
            mo.atomic_add(h, b, 1)
        else:
            mo.atomic_add(h, mo.min(b, mo.size(h) - 1), 1)


TABLE.case(hist, "B1", lambda: (np.zeros(10, np.int32), (np.arange(60) % 11).astype(np.int32)), grid=2, text="(10)")


@mo.kernel
def shist(h, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.int32, 10)
    other = mo.shared_array(mo.int32, 10)
    if tid < 10:
        s[tid] = 0
        other[tid] = 0
    mo.sync_threads()
    mo.atomic_add(s, x[tid] if fault else x[tid] % 10, 1)
    mo.sync_threads()
    if tid < 10:
        h[tid] = s[tid] + other[tid]


TABLE.case(shist, "B2", lambda: (np.zeros(10, np.int32), (np.arange(32) % 11).astype(np.int32)), text="(10)")


@mo.kernel
def parallel(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    bx = mo.block_idx().x
    gx = mo.tile(x, (8, 16), (0, bx), ragged=True)
    gy = mo.tile(y, (8, 16), (0, bx), ragged=True)
    cx = mo.tile(mo.identity_tensor(mo.shape(x)), (8, 16), (0, bx), ragged=True)
    lay = mo.make_layout((8, 4))
    px, py, pc = mo.parallelize(gx, lay, tid), mo.parallelize(gy, lay, tid), mo.parallelize(cx, lay, tid)
    for j in mo.static_range(4):
        c = pc[0, j]
        ok = c[0] < mo.size(x, 0) if fault else mo.elem_less(c, mo.shape(x))
        if ok:
            py[0, j] = px[0, j] + 1


TABLE.case(parallel, "B1", lambda: (np.zeros((8, 64), F32)[:, :40], count(8, 64)[:, :40]), grid=3, text=", 40)")


@mo.kernel
def scalar0(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    M, _N = mo.shape(x)
    row = tid // 8
    base = row if fault else mo.min(row, M - 1)
    y[tid] = x[base, 0]


TABLE.case(scalar0, "B1", lambda: (np.zeros(32, F32), count(64)[::8].reshape(1, 8)))


@mo.kernel
def extent1(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 1))
    t = mo.shared_array(mo.float32, (32, 1))
    t[tid, 0] = 0.0
    k = 0
    for _i in range(2):
        s[tid, k] = x[tid]
        mo.sync_threads()
        y[tid] = s[31 - tid, k] + t[tid, 0]
        mo.sync_threads()
        if fault:
            k = k ^ 1


TABLE.case(extent1, "B2", lambda: (np.zeros(32, F32), count(32)), text="(0, 1)")
