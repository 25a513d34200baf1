"""Programs that signal in ways of their own, and numbers near their limits."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, I64, Table, count, zeros

TABLE = Table()


@mo.kernel
def lanes_poll(out, data, flag, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    data[b * 32 + tid] = tid
    mo.sync_warp()
    if tid == 0:
        mo.store(flag, b, 1)
    if tid < (G - 1 if fault else G):
        while mo.load(flag, tid) == 0:
            pass
    mo.sync_warp()
    acc = 0
    for k in range(G):
        acc += data[k * 32 + tid]
    out[b * 32 + tid] = acc


TABLE.case(lanes_poll, "G3 G5", lambda: (zeros(128), zeros(128), zeros(4)), grid=4)

# barrier sync between writers and releaser missing (cumulativity)


@mo.kernel
def bar_cumul(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        if not fault:
            mo.barrier_sync(1, 64)
        if tid == 63:
            mo.fence()
            mo.atomic_or(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) & 1 == 0:
                pass
        mo.sync_threads()
        out[tid] = data[63 - tid]


TABLE.case(bar_cumul, "G3 G5", lambda: (zeros(64), zeros(64), zeros(1)), grid=2, block=64)

# reader: fence before the read of the flag instead of after


@mo.kernel
def fence_wrong_side(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.fence()
        mo.store(flag, tid, 1, order="relaxed")
    else:
        if fault:
            mo.fence()
        while mo.load(flag, tid, order="relaxed") == 0:
            pass
        if not fault:
            mo.fence()
        out[tid] = data[tid]


TABLE.case(fence_wrong_side, "G3 G5", lambda: (zeros(32), zeros(32), zeros(32)), grid=2)


@mo.kernel
def wfence_wrong_side(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        if fault:
            mo.fence()
        data[tid] = tid
        if not fault:
            mo.fence()
        mo.store(flag, tid, 1, order="relaxed")
    else:
        while mo.load(flag, tid, order="relaxed") == 0:
            pass
        mo.fence()
        out[tid] = data[tid]


TABLE.case(wfence_wrong_side, "G3 G5", lambda: (zeros(32), zeros(32), zeros(32)), grid=2)

# seqlock (right version: relaxed data loads with fences)


@mo.kernel
def seqlock(out, data, seq, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            for k in range(2):
                mo.store(seq, 0, 2 * k + 1, order="relaxed")
                mo.fence()
                if fault:
                    data[0] = k
                    data[1] = k
                else:
                    mo.store(data, 0, k, order="relaxed")
                    mo.store(data, 1, k, order="relaxed")
                mo.store(seq, 0, 2 * k + 2)
        else:
            done = False
            while not done:
                s0 = mo.load(seq, 0)
                x0 = mo.load(data, 0, order="relaxed")
                x1 = mo.load(data, 1, order="relaxed")
                mo.fence()
                s1 = mo.load(seq, 0, order="relaxed")
                done = s0 == s1 and s0 % 2 == 0
                if done:
                    out[0] = x0
                    out[1] = x1


TABLE.case(seqlock, "G3 G5", lambda: (zeros(2), zeros(2), zeros(1)), grid=2)

# stack (Treiber) pop/push with wrong order


@mo.kernel
def treiber(out, nxt, val, head, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b < 2:
            val[b] = b + 10
            old = mo.load(head, 0, order="relaxed")
            done = False
            while not done:
                nxt[b] = old
                seen = mo.atomic_cas(head, 0, old, b, order="relaxed" if fault else "release")
                done = seen == old
                old = seen
        else:
            old = mo.load(head, 0)
            while old < 0:
                old = mo.load(head, 0)
            out[0] = val[old]


TABLE.case(treiber, "G3 G5", lambda: (zeros(1), zeros(2), zeros(2), np.full(1, -1, I32)), grid=3)

# dynamic scheduling via global counter, output tile per index, counter reset by last (with acq_rel done counter)


@mo.kernel
def dyn_reset(out, nxt, done, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    if tid == 0:
        k = mo.atomic_add(nxt, 0, 1)
        while k < 5:
            out[k] = b
            k = mo.atomic_add(nxt, 0, 1)
        if fault:
            if b == G - 1:
                nxt[0] = 0
        else:
            if mo.atomic_add(done, 0, 1, order="acq_rel") == G - 1:
                nxt[0] = 0
                done[0] = 0


TABLE.case(dyn_reset, "G1 G2 G3", lambda: (zeros(5), zeros(1), zeros(1)), grid=3)

# stream-k fixup: partial tile owner waits for peers


@mo.kernel
def fixup(c, ws, flag, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    v = x[b * 32 + tid]
    if b % 3 != 0:
        ws[b * 32 + tid] = v
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, b, 1)
    else:
        for p in range(1, 3):
            if tid == 0:
                while mo.load(flag, b + (1 if fault else p)) == 0:
                    pass
            mo.sync_threads()
            v = v + ws[(b + p) * 32 + tid]
        c[b // 3 * 32 + tid] = v


TABLE.case(fixup, "G3 G5", lambda: (zeros(64, dtype=F32), zeros(192, dtype=F32), zeros(6), count(192)), grid=6)

# semaphore with two turns, reverse order deadlock?


@mo.kernel
def order_reverse(c, sema, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    if tid == 0:
        while mo.load(sema, 0) != (G - b if fault else G - 1 - b):
            pass
        c[0] = c[0] + 1
        mo.store(sema, 0, G - b)


TABLE.case(order_reverse, "G4 F4", lambda: (zeros(1), zeros(1)), grid=4)

# double-buffered global exchange between two blocks: halo exchange iterations


@mo.kernel
def halo_iter(u, v, flag, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    i = b * 32 + tid
    n = mo.size(u)
    for it in range(2):
        left = u[i - 1] if i > 0 else 0.0
        after = u[i + 1] if i + 1 < n else 0.0
        v[i] = left + after
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, b, 2 * it + 1)
            if b > 0:
                while mo.load(flag, b - 1) < 2 * it + 1:
                    pass
            if not fault and b + 1 < G:
                while mo.load(flag, b + 1) < 2 * it + 1:
                    pass
        mo.sync_threads()
        u[i] = v[i]
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, b, 2 * it + 2)
            if b > 0:
                while mo.load(flag, b - 1) < 2 * it + 2:
                    pass
            if b + 1 < G:
                while mo.load(flag, b + 1) < 2 * it + 2:
                    pass
        mo.sync_threads()


TABLE.case(halo_iter, "G3 G5", lambda: (count(96), zeros(96, dtype=F32), zeros(3)), grid=3)

# flags packed as bits of one word with atomic_or


@mo.kernel
def bits(out, data, word, fault: mo.Constexpr):
    tid, b, _G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    if b < 3:
        data[b * 32 + tid] = tid
        mo.sync_warp()
        if tid == 0:
            mo.atomic_or(word, 0, 1 << b, order="release")
    else:
        if tid == 0:
            want = 3 if fault else 7
            while (mo.load(word, 0) & want) != want:
                pass
        mo.sync_warp()
        out[tid] = data[tid] + data[32 + tid] + data[64 + tid]


TABLE.case(bits, "G3 G5", lambda: (zeros(32), zeros(96), zeros(1)), grid=4)

# max-based progress


@mo.kernel
def progress(out, data, word, fault: mo.Constexpr):
    tid, b, _G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    if b == 0:
        for k in range(3):
            data[k * 32 + tid] = tid + k
            mo.sync_warp()
            if tid == 0:
                mo.atomic_max(word, 0, k + 1, order="release")
    else:
        if tid == 0:
            while mo.load(word, 0) < (b - 1 if fault else b):
                pass
        mo.sync_warp()
        out[b * 32 + tid] = data[(b - 1) * 32 + tid]


TABLE.case(progress, "G3 G5", lambda: (zeros(128), zeros(96), zeros(1)), grid=4)

# plain-polled flag (no strong load) : compiler may hoist; race


@mo.kernel
def plainpoll(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.fence()
        mo.store(flag, tid, 1)
    else:
        if fault:
            while flag[tid] == 0:
                pass
            mo.fence()
        else:
            while mo.load(flag, tid) == 0:
                pass
        out[tid] = data[tid]


TABLE.case(plainpoll, "G3 G5", lambda: (zeros(32), zeros(32), zeros(32)), grid=2)

# vector tile partly overlapping between blocks


@mo.kernel
def vec_overlap(y, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    f = mo.fragment((4,), mo.float32)
    k = b * (31 if fault else 32) + tid
    mo.copyto(f, mo.tile(x, (4,), (k,)))
    f[...] = f + b
    mo.copyto(mo.tile(y, (4,), (k,)), f)


TABLE.case(vec_overlap, "G1", lambda: (zeros(384, dtype=F32), count(384)), grid=3)

# output written by two blocks because of ceil_div + no ragged mask (clamp)


@mo.kernel
def clamp_overlap(y, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    n = mo.size(x)
    i = b * 32 + tid
    if fault:
        i = mo.min(i, n - 1)
        y[i] = x[i] + b * 32 + tid
    else:
        if i < n:
            y[i] = x[i] + i


TABLE.case(clamp_overlap, "C1 C3 G1", lambda: (zeros(70, dtype=F32), count(70)), grid=3)

# 3D grid transposed block index


@mo.kernel
def grid3(y, x, fault: mo.Constexpr):
    bx, by, bz = mo.block_idx()
    tid = mo.thread_idx().x
    gx = mo.tile(x, (4, 4, 2), (bx, by, bz))
    gy = mo.tile(y, (4, 4, 2), (bx, bx if fault else by, bz))
    a, b, c = tid % 4, tid // 4 % 4, tid // 16
    gy[a, b, c] = gx[a, b, c] + by


TABLE.case(grid3, "G1", lambda: (zeros(8, 8, 4, dtype=F32), count(8, 8, 4)), grid=(2, 2, 2))

# reads of neighbours in place: prefix pass


@mo.kernel
def inplace_pass(x, step, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    mo.size(x)
    v = x[i]
    if i >= step and (fault or i % 32 >= step):
        v = v + x[i - step]
    mo.sync_threads()
    x[i] = v


TABLE.case(inplace_pass, "G5 G3", lambda: (count(96), 1), grid=3)

# int64 loop counter beyond 2^31 via python ints


@mo.kernel
def flatindex(y, x, M, N, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    r, c = M - 1 - tid, N - 1
    k = r * N + c if fault else (mo.int64(r) * N + c) % 32
    y[tid] = x[(k % 32)]


TABLE.case(flatindex, "A11", lambda: (zeros(32, dtype=F32), count(32), 70000, 70000))


@mo.kernel
def narrow16(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = x[tid] * 1000000
    y[tid] = s if fault else mo.int64(x[tid]) * 1000000


TABLE.case(narrow16, "A11", lambda: (zeros(32, dtype=I64), (np.arange(32) * 100).astype(I32)))


@mo.kernel
def negidx_mod(y, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    i = (tid - 5)
    y[tid] = x[i if fault else i % 32]


TABLE.case(negidx_mod, "B1", lambda: (zeros(32, dtype=F32), count(32)), text="(-5)")
