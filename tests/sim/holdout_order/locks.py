"""Locks, queues, scans and blocks that wait for each other."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, I64, Table, count, zeros

TABLE = Table()


@mo.kernel
def spin_acq(c, lock, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="relaxed" if fault else "acquire") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0)


TABLE.case(spin_acq, "G3 G2 G1 G5", lambda: (zeros(1), zeros(1)), grid=4)


@mo.kernel
def spin_rel(c, lock, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        while mo.atomic_exch(lock, 0, 1, order="acquire") == 1:
            pass
        c[0] = c[0] + 1
        if fault:
            mo.atomic_exch(lock, 0, 0)
        else:
            mo.fence()
            mo.atomic_exch(lock, 0, 0)


TABLE.case(spin_rel, "G3 G2 G1 G5", lambda: (zeros(1), zeros(1)), grid=4)


@mo.kernel
def spin_readbefore2(c, d, lock, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        v = 0
        if fault:
            v = c[0]
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        if not fault:
            v = c[0]
        c[0] = v + 1
        mo.store(lock, 0, 0)


TABLE.case(spin_readbefore2, "G3 G2 G1 G5", lambda: (zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def lock_unprotected_write(c, lock, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        v = c[0] + mo.block_idx().x
        if not fault:
            c[0] = v
        mo.store(lock, 0, 0)
        if fault:
            c[0] = v


TABLE.case(lock_unprotected_write, "G3 G2 G1 G5", lambda: (zeros(1), zeros(1)), grid=3)


@mo.kernel
def two_locks(c, lock, fault: mo.Constexpr):
    # lock per bucket; faulty picks the wrong one
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        k = b % 2
        q = (k + b // 2) % 2 if fault else k
        while mo.atomic_cas(lock, q, 0, 1, order="acquire") != 0:
            pass
        c[k] = c[k] + 1
        mo.store(lock, q, 0)


TABLE.case(two_locks, "G3 G2 G1 G5", lambda: (zeros(2), zeros(2)), grid=4)


@mo.kernel
def ticketlock(c, nxt, serving, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        mine = mo.atomic_add(nxt, 0, 1)
        if fault:
            while mo.load(serving, 0) + 1 < mine:
                pass
        else:
            while mo.load(serving, 0) != mine:
                pass
        c[0] = c[0] + 1
        mo.store(serving, 0, mine + 1)


TABLE.case(ticketlock, "G3 G2 G1 G5", lambda: (zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def rwlock(c, out, lock, fault: mo.Constexpr):
    # block 0 and 1 write, the others read; lock: -1 writer, n readers
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b < 2:
            while mo.atomic_cas(lock, 0, 0, -1, order="acquire") != 0:
                pass
            c[0] = c[0] + 1
            mo.store(lock, 0, 0)
        else:
            got = False
            while not got:
                old = mo.load(lock, 0, order="relaxed")
                if old >= 0:
                    got = mo.atomic_cas(lock, 0, old, old + 1, order="acquire") == old
            out[b] = c[0]
            mo.atomic_add(lock, 0, -1, order="relaxed" if fault else "release")


TABLE.case(rwlock, "G3 G2 G1 G5", lambda: (zeros(1), zeros(5), zeros(1)), grid=5, schedules=6)
TABLE.case(rwlock, "G3 G2 G1 G5", lambda: (zeros(1), zeros(5), zeros(1)), grid=5, name="rwlock_default")


@mo.kernel
def lock_block(c, lock, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
    mo.sync_threads()
    c[tid] = c[tid] + b
    if not fault:
        mo.sync_threads()
    if tid == 0:
        mo.store(lock, 0, 0)


TABLE.case(lock_block, "G3 G2 G1 G5", lambda: (zeros(64), zeros(1)), grid=3, block=64)


@mo.kernel
def doublecheck(out, init, lock, table, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        seen = mo.load(init, 0, order="relaxed" if fault else "acquire")
        if seen == 0:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            if mo.load(init, 0, order="relaxed") == 0:
                table[0] = 7
                mo.store(init, 0, 1)
            mo.store(lock, 0, 0)
        out[b] = table[0]


TABLE.case(doublecheck, "G3 G5 G1", lambda: (zeros(4), zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def splitk_sema(c, x, sema, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.load(sema, 0) != b:
            pass
    mo.sync_threads()
    if b == 0:
        c[tid] = x[b * 32 + tid]
    else:
        c[tid] = c[tid] + x[b * 32 + tid]
    if not fault:
        mo.sync_threads()
    if tid == 0:
        if fault:
            mo.store(sema, 0, b + 1, order="relaxed")
        else:
            mo.store(sema, 0, b + 1)


TABLE.case(splitk_sema, "G3 G2 G1 G5", lambda: (zeros(32, dtype=F32), count(96), zeros(1)), grid=3)


@mo.kernel
def splitk_atomic(c, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if fault:
        c[tid] += x[b * 32 + tid]
    else:
        mo.atomic_add(c, tid, x[b * 32 + tid])


TABLE.case(splitk_atomic, "G2 G1", lambda: (zeros(32, dtype=F32), count(96)), grid=3)


@mo.kernel
def splitk_init(c, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if fault:
        if b == 0:
            c[tid] = 0.0
        mo.sync_threads()
    mo.atomic_add(c, tid, x[b * 32 + tid])


TABLE.case(splitk_init, "G2 G1 G3", lambda: (zeros(32, dtype=F32), count(96)), grid=3)


@mo.kernel
def queue_mpmc(out, q, head, tail, fault: mo.Constexpr):
    # producers b<2 put slots with ready flags in q[:,1]; consumers take
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b < 2:
            for i in range(2):
                slot = mo.atomic_add(tail, 0, 1)
                q[slot, 0] = b * 10 + i + 1
                mo.store(q, (slot, 1), 1, order="relaxed" if fault else "release")
        else:
            for _ in range(2):
                slot = mo.atomic_add(head, 0, 1)
                while mo.load(q, (slot, 1)) == 0:
                    pass
                out[slot] = q[slot, 0]


TABLE.case(queue_mpmc, "G3 G5", lambda: (zeros(4), zeros(4, 2), zeros(1), zeros(1)), grid=4)


@mo.kernel
def queue_toofar(out, q, count, fault: mo.Constexpr):
    # producer publishes a count; consumer reads one too far
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            for i in range(4):
                q[i] = i + 1
                mo.store(count, 0, i + 1)
        else:
            for i in range(4):
                while mo.load(count, 0) < (i if fault else i + 1):
                    pass
                out[i] = q[i]


TABLE.case(queue_toofar, "G3 G5", lambda: (zeros(4), zeros(4), zeros(1)), grid=2)


@mo.kernel
def ringqueue(out, q, prod, cons, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    cap = 2
    if tid == 0:
        if b == 0:
            for i in range(6):
                while i - mo.load(cons, 0) >= (cap + 1 if fault else cap):
                    pass
                q[i % cap] = i + 1
                mo.store(prod, 0, i + 1)
        else:
            for i in range(6):
                while mo.load(prod, 0) <= i:
                    pass
                out[i] = q[i % cap]
                mo.store(cons, 0, i + 1)


TABLE.case(ringqueue, "G3 G5", lambda: (zeros(6), zeros(2), zeros(1), zeros(1)), grid=2)


@mo.kernel
def worksteal(out, x, nxt, fault: mo.Constexpr):
    tid, _b = mo.thread_idx().x, mo.block_idx().x
    w = mo.shared_array(mo.int32, 1)
    go = True
    while go:
        if tid == 0:
            w[0] = mo.atomic_add(nxt, 0, 1)
        mo.sync_threads()
        k = w[0]
        if not fault:
            mo.sync_threads()
        go = k < 6
        if go:
            out[k * 64 + tid] = x[k * 64 + tid] + 1


TABLE.case(worksteal, "C2 C1", lambda: (zeros(384, dtype=F32), count(384), zeros(1)), grid=3, block=64)


@mo.kernel
def worksteal_nonatomic(out, x, nxt, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if fault:
            k = mo.load(nxt, 0, order="relaxed")
            mo.store(nxt, 0, k + 1, order="relaxed")
            if k < 6:
                out[k] = x[k] + b
        else:
            k = mo.atomic_add(nxt, 0, 1)
            if k < 6:
                out[k] = x[k] + b


TABLE.case(worksteal_nonatomic, "G1 G2 G3", lambda: (zeros(6, dtype=F32), count(6), zeros(1)), grid=3)


@mo.kernel
def lookback(out, x, agg, incl, status, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    v = x[b * 32 + tid]
    total = mo.warp_reduce(v)
    s = v
    for k in mo.static_range(5):
        o = mo.shuffle_up(s, 1 << k)
        if tid >= (1 << k):
            s = s + o
    pre = mo.shared_array(mo.float32, 1)
    if tid == 0:
        prefix = 0.0
        if b == 0:
            incl[0] = total
            mo.store(status, 0, 2)
        else:
            agg[b] = total
            mo.store(status, b, 1)
            p = b - 1
            done = False
            while not done:
                st = mo.load(status, p, order="relaxed" if fault else "acquire")
                while st == 0:
                    st = mo.load(status, p, order="relaxed" if fault else "acquire")
                if st == 2:
                    prefix = prefix + incl[p]
                    done = True
                else:
                    prefix = prefix + agg[p]
                    p = p - 1
            incl[b] = prefix + total
            mo.store(status, b, 2)
        pre[0] = prefix
    mo.sync_threads()
    out[b * 32 + tid] = s + pre[0]


TABLE.case(lookback, "G3 G5", lambda: (zeros(128, dtype=F32), count(128), zeros(4, dtype=F32), zeros(4, dtype=F32),
           zeros(4)), grid=4)


@mo.kernel
def lookback_pred(out, x, incl, status, fault: mo.Constexpr):
    # simple chained scan, one block too far back
    tid, b = mo.thread_idx().x, mo.block_idx().x
    total = mo.warp_reduce(x[b * 32 + tid])
    if tid == 0:
        prefix = 0.0
        if b > 0:
            w = mo.max(b - 2, 0) if fault else b - 1
            while mo.load(status, w) == 0:
                pass
            prefix = incl[b - 1]
        incl[b] = prefix + total
        mo.store(status, b, 1)
        out[b] = prefix


TABLE.case(lookback_pred, "G3 G5", lambda: (zeros(4, dtype=F32), count(128), zeros(4, dtype=F32), zeros(4)), grid=4)


@mo.kernel
def packed_status(out, x, st, fault: mo.Constexpr):
    # value and flag in one 64-bit word: relaxed is right
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        prefix = mo.int64(0)
        if b > 0:
            w = mo.load(st, b - 1, order="relaxed")
            while w < 0:
                w = mo.load(st, b - 1, order="relaxed")
            prefix = w
            if fault:
                prefix = prefix + mo.int64(x[0])
        if fault:
            x[b] = b
        mo.store(st, b, prefix + mo.int64(x[b]), order="relaxed")
        out[b] = prefix


TABLE.case(packed_status, "G3 G5", lambda: (zeros(4, dtype=I64), count(4, dtype=I32), np.full(4, -1, I64)), grid=4)

# ------ G4


@mo.kernel
def g4_spin(out, flag, fault: mo.Constexpr):
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if fault:
            while mo.load(flag, (b + 1) % mo.grid_dim().x) == 0:
                pass
            mo.store(flag, b, 1)
        else:
            mo.store(flag, b, 1)
            while mo.load(flag, (b + 1) % mo.grid_dim().x) == 0:
                pass
        out[b] = 1


TABLE.case(g4_spin, "G4 F4", lambda: (zeros(4), zeros(4)), grid=4)


@mo.kernel
def g4_many(out, cnt, fault: mo.Constexpr):
    b, G = mo.block_idx().x, mo.grid_dim().x
    s = mo.shared_array(mo.float32, 40 * 1024)
    s[mo.thread_idx().x] = 1.0
    if mo.thread_idx().x == 0:
        mo.atomic_add(cnt, 0, 1, order="release")
        while mo.load(cnt, 0) < (G if fault else 1):
            pass
    out[b] = G


TABLE.case(g4_many, "G4", lambda: (zeros(150), zeros(1)), grid=150)

# ------ G1/G5
