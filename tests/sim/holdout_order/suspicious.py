"""Right programs that look as if they were not."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, I64, Table, count, zeros

TABLE = Table()


@mo.kernel
def s_same_value(done, x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if x[b * 32 + tid] > 5.0:
        done[0] = 1


TABLE.right(s_same_value, lambda: (zeros(1), count(96)), grid=3)


@mo.kernel
def s_same_shared(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    f = mo.shared_array(mo.int32, 1)
    if tid == 0:
        f[0] = 0
    mo.sync_threads()
    if x[tid] > 50.0:
        f[0] = 1
    mo.sync_threads()
    out[tid] = f[0]


TABLE.right(s_same_shared, lambda: (zeros(64), count(64)), block=64)


@mo.kernel
def s_lastwins_cas(keys, vals, k, fault: mo.Constexpr):
    # hash table insertion
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    key = k[i]
    n = mo.size(keys)
    slot = key * 7 % n
    going = True
    while going:
        old = mo.atomic_cas(keys, slot, -1, key)
        if old == -1 or old == key:
            mo.atomic_add(vals, slot, 1)
            going = False
        else:
            slot = (slot + 1) % n


TABLE.right(s_lastwins_cas, lambda: (np.full(128, -1, I32), zeros(128), (count(96, dtype=I32) % 50)), grid=3)


@mo.kernel
def s_tfr(out, x, part, ticket, fault: mo.Constexpr):
    # threadFenceReduction, every thread writes no, plain reset
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    am = mo.shared_array(mo.bool, 1)
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[b * 64 + tid]
    mo.sync_threads()
    h = 32
    while h > 0:
        if tid < h:
            s[tid] = s[tid] + s[tid + h]
        mo.sync_threads()
        h = h // 2
    if tid == 0:
        part[b] = s[0]
        mo.fence()
        am[0] = mo.atomic_add(ticket, 0, 1) == G - 1
    mo.sync_threads()
    if am[0]:
        mo.fence()
        i, v = tid, 0.0
        while i < G:
            v += part[i]
            i += 64
        s[tid] = v
        mo.sync_threads()
        h = 32
        while h > 0:
            if tid < h:
                s[tid] = s[tid] + s[tid + h]
            mo.sync_threads()
            h = h // 2
        if tid == 0:
            out[0] = s[0]
            ticket[0] = 0


TABLE.right(s_tfr, lambda: (zeros(1, dtype=F32), count(256), zeros(4, dtype=F32), zeros(1)), grid=4, block=64)


@mo.kernel
def s_disjoint_alias(y, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    y[i] = x[i] * 2
def same():
    a = count(96)
    return a, a
def inter():
    a = count(192)
    return a[::2], a[1::2]


TABLE.right(s_disjoint_alias, same, grid=3)
TABLE.right(s_disjoint_alias, inter, grid=3, name="s_interleaved")


@mo.kernel
def s_pitch(y, x, fault: mo.Constexpr):
    # deliberately walks over row ends, but says so with with_layout
    tid = mo.thread_idx().x
    M, N = mo.shape(x)
    flat = x.with_layout(mo.make_layout((M * N,)))
    out = y.with_layout(mo.make_layout((M * N,)))
    i = tid
    while i < M * N:
        out[i] = flat[i]
        i += 32


TABLE.right(s_pitch, lambda: (zeros(5, 13, dtype=F32), count(5, 13)))


@mo.kernel
def s_clamped(y, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    n = mo.size(x)
    left = x[mo.max(i - 1, 0)] if i < n else 0.0
    after = x[mo.min(i + 1, n - 1)]
    if i < n:
        y[i] = left + after


TABLE.right(s_clamped, lambda: (zeros(70, dtype=F32), count(70)), grid=3)


@mo.kernel
def s_shortcircuit(y, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(x) and x[i] > 3.0:
        y[i] = 1.0


TABLE.right(s_shortcircuit, lambda: (zeros(70, dtype=F32), count(70)), grid=3)


@mo.kernel
def s_zero_trip(y, x, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    for i in range(n):
        y[tid + 32 * i] = x[tid + 1000 * i]


TABLE.right(s_zero_trip, lambda: (zeros(32, dtype=F32), count(32), 0))


@mo.kernel
def s_view_next(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    g = mo.tile(x, (32,), (None,))
    mo.fragment((1,), mo.float32)
    acc = 0.0
    nxt = g[tid, 0]
    for k in range(mo.size(g, 1)):
        cur = nxt
        if k + 1 < mo.size(g, 1):
            nxt = g[tid, k + 1]
        acc += cur
    y[tid] = acc


TABLE.right(s_view_next, lambda: (zeros(32, dtype=F32), count(96)))


@mo.kernel
def s_mailbox(out, box, fault: mo.Constexpr):
    # each block hands one word on by exchange; data inside of the atomic itself
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if tid == 0:
        if b == 0:
            mo.atomic_exch(box, 0, 42)
        else:
            v = mo.atomic_exch(box, 0, 0)
            while v == 0:
                v = mo.atomic_exch(box, 0, 0)
            out[0] = v


TABLE.right(s_mailbox, lambda: (zeros(1), zeros(1)), grid=2)


@mo.kernel
def s_relaxed_counter(out, c, fault: mo.Constexpr):
    _b, _tid = mo.block_idx().x, mo.thread_idx().x
    slot = mo.atomic_add(c, 0, 1)
    out[slot] = 1


TABLE.right(s_relaxed_counter, lambda: (zeros(96), zeros(1)), grid=3)


@mo.kernel
def s_compact(out, x, c, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    keep = x[i] % 3 == 0
    m = mo.ballot(keep)
    lane = mo.lane_idx()
    base = 0
    if lane == 0:
        base = mo.atomic_add(c, 0, mo.popcount(m).to(mo.int32))
    base = mo.shuffle_idx(base, 0)
    below = m & ((mo.uint32(1) << lane.to(mo.uint32)) - mo.uint32(1))
    if keep:
        out[base + mo.popcount(below).to(mo.int32)] = x[i]


TABLE.right(s_compact, lambda: (zeros(96), count(96, dtype=I32), zeros(1)), grid=3)


@mo.kernel
def s_uint_wrap(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    h = x[tid].to(mo.uint32)
    h = h ^ (h >> mo.uint32(16))
    h = h * mo.uint32(0x85ebca6b)
    h = h ^ (h >> mo.uint32(13))
    y[tid] = h


TABLE.right(s_uint_wrap, lambda: (zeros(32, dtype=np.uint32), count(32, dtype=I32)))


@mo.kernel
def s_nearlimit(y, x, n, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    i = n - 32 + tid
    y[tid] = i + 0
    k = (n - i) + (2**31 - 1 - n)
    if k < 0:
        y[tid] = -1


TABLE.right(s_nearlimit, lambda: (zeros(32), count(32), 2**31 - 1))


@mo.kernel
def s_dbuf(y, x, fault: mo.Constexpr):
    # double buffer with one barrier per step
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    acc = 0.0
    for k in range(mo.size(x, 1)):
        s[tid, k % 2] = x[tid, k]
        mo.sync_threads()
        acc += s[63 - tid, k % 2]
    y[tid] = acc


TABLE.right(s_dbuf, lambda: (zeros(64, dtype=F32), count(64, 5)), block=64)


@mo.kernel
def s_warpsync(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    w, lane = tid // 32, tid % 32
    s[tid] = x[tid]
    mo.sync_warp()
    y[tid] = s[w * 32 + 31 - lane]


TABLE.right(s_warpsync, lambda: (zeros(64, dtype=F32), count(64)), block=64)


@mo.kernel
def s_early_return(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 40)
    if tid >= mo.size(x):
        return
    s[tid] = x[tid]
    mo.sync_threads()
    y[tid] = s[mo.size(x) - 1 - tid]


TABLE.right(s_early_return, lambda: (zeros(40, dtype=F32), count(40)), block=64)


@mo.kernel
def s_hist_private(h, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    s = mo.shared_array(mo.int32, 16)
    if tid < 16:
        s[tid] = 0
    mo.sync_threads()
    mo.atomic_add(s, x[b * 64 + tid] % 16, 1, scope="cta")
    mo.sync_threads()
    if tid < 16:
        mo.atomic_add(h, tid, s[tid])


TABLE.right(s_hist_private, lambda: (zeros(16), count(192, dtype=I32)), grid=3, block=64)


@mo.kernel
def s_cta_atomic_perblock(h, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    mo.atomic_add(h, b, x[b * 64 + tid], scope="cta")


TABLE.right(s_cta_atomic_perblock, lambda: (zeros(3), count(192, dtype=I32)), grid=3, block=64)


@mo.kernel
def s_peterson_free_flag_poll_shared(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    f = mo.shared_array(mo.int32, 2)
    d = mo.shared_array(mo.float32, 32)
    if tid < 2:
        f[tid] = 0
    mo.sync_threads()
    if tid < 32:
        d[tid] = x[tid]
        mo.fence(scope="cta")
        mo.sync_warp()
        if tid == 0:
            mo.store(f, 1, 1, order="relaxed", scope="cta")
    else:
        if tid == 32:
            while mo.load(f, 1, order="relaxed", scope="cta") == 0:
                pass
            mo.fence(scope="cta")
        mo.sync_warp()
        out[tid - 32] = d[63 - tid]


TABLE.right(s_peterson_free_flag_poll_shared, lambda: (zeros(32, dtype=F32), count(32)), block=64)


@mo.kernel
def s_sys_scope(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.fence(scope="sys")
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1, order="relaxed", scope="sys")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed", scope="gpu") == 0:
                pass
            mo.fence("seq_cst", "gpu")
        mo.sync_threads()
        out[tid] = data[31 - tid]


TABLE.right(s_sys_scope, lambda: (zeros(32), zeros(32), zeros(1)), grid=2)


@mo.kernel
def s_pingpong_blocks(out, box, turn, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    for k in range(3):
        if tid == 0:
            while mo.load(turn, 0) != 2 * k + b:
                pass
        mo.sync_threads()
        box[tid] = box[tid] + 1
        mo.sync_threads()
        if tid == 0:
            mo.store(turn, 0, 2 * k + b + 1)
    out[b] = 1


TABLE.right(s_pingpong_blocks, lambda: (zeros(2), zeros(32), zeros(1)), grid=2)


@mo.kernel
def s_atomic_max_pos(best, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    mo.atomic_max(best, 0, (mo.int64(x[i]) << 32) | mo.int64(i))


TABLE.right(s_atomic_max_pos, lambda: (zeros(1, dtype=I64), count(96, dtype=I32)), grid=3)


@mo.kernel
def s_rw_disjoint_rows(x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    _M, N = mo.shape(x)
    for j in range(1, N):
        x[b * 32 + tid, j] = x[b * 32 + tid, j] + x[b * 32 + tid, j - 1]


TABLE.right(s_rw_disjoint_rows, lambda: (count(96, 5),), grid=3)


@mo.kernel
def s_padded_cols(y, x, fault: mo.Constexpr):
    # tail columns beyond N are inside the tile, with predicate by column only
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    _M, N = mo.shape(x)
    gx = mo.tile(x, (32, 4), (0, bx), ragged=True)
    gy = mo.tile(y, (32, 4), (0, bx), ragged=True)
    for j in mo.static_range(4):
        if bx * 4 + j < N:
            gy[tid, j] = gx[tid, j]


TABLE.right(s_padded_cols, lambda: (zeros(32, 10, dtype=F32), count(32, 10)), grid=3)


@mo.kernel
def s_0d(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        y[()] = x[()]


TABLE.right(s_0d, lambda: (np.zeros((), F32), np.ones((), F32)))


@mo.kernel
def s_stale_ok(y, x, fault: mo.Constexpr):
    # shared tile partly written on the last pass, stale part is not used
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    n = mo.size(x)
    acc = 0.0
    for k in range(mo.ceil_div(n, 32)):
        if k * 32 + tid < n:
            s[tid] = x[k * 32 + tid]
        mo.sync_threads()
        for j in range(32):
            if k * 32 + j < n:
                acc += s[j]
        mo.sync_threads()
    y[tid] = acc


TABLE.right(s_stale_ok, lambda: (zeros(32, dtype=F32), count(50)))


@mo.kernel
def s_ws_poison(out, x, w, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    w[b * 32 + tid] = x[b * 32 + tid]
    mo.sync_threads()
    out[b * 32 + tid] = w[b * 32 + 31 - tid]


TABLE.right(s_ws_poison, lambda: (zeros(96, dtype=F32), count(96), np.empty(96, F32)), grid=3, poison="w")


@mo.kernel
def s_redundant_writes(y, x, fault: mo.Constexpr):
    # overlapping tiles of blocks write the same values
    b, tid = mo.block_idx().x, mo.thread_idx().x
    i = mo.min(b * 32 + tid, mo.size(x) - 1)
    y[i] = x[i] * 2


TABLE.right(s_redundant_writes, lambda: (zeros(70, dtype=F32), count(70)), grid=3)


@mo.kernel
def s_redundant_blocks(y, x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    i = mo.min(b * 32, mo.size(x) - 32) + tid
    y[i] = x[i] * 2


TABLE.right(s_redundant_blocks, lambda: (zeros(70, dtype=F32), count(70)), grid=3)
