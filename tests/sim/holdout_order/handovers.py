"""Values that are handed over, missed, or read too early."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()


@mo.kernel
def lamport_bakery_like(c, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.atomic_exch(flag, b, 1)
        mo.fence("seq_cst")
        other = mo.load(flag, 1 - b, order="relaxed")
        if fault:
            c[0] = c[0] + 1
        else:
            if other == 0:
                c[b + 1] = 1


TABLE.case(lamport_bakery_like, "G1 G2 G3 G5", lambda: (zeros(3), zeros(2)), grid=2)

# flag reset while others still poll (one-shot barrier with reset by block 0)


@mo.kernel
def reset_early(y, x, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 32 + tid] = b
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(cnt, 0, 1, order="acq_rel")
        while mo.load(cnt, 0) < G:
            pass
        if fault and b == 0:
            mo.store(cnt, 0, 0, order="relaxed")
    mo.sync_threads()
    y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]


TABLE.case(reset_early, "G4 F4 G3", lambda: (zeros(96), zeros(96), zeros(1)), grid=3)

# counter not reset between launches: uses initial value (cnt starts at 3)


@mo.kernel
def stale_counter(y, x, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 32 + tid] = b
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(cnt, 0, 1, order="release")
        while mo.load(cnt, 0) < (G if fault else 2 * G):
            pass
    mo.sync_threads()
    y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]


TABLE.case(stale_counter, "G3 G5", lambda: (zeros(96), zeros(96), np.full(1, 3, I32)), grid=3)

# last-block: count of warps rather than blocks


@mo.kernel
def lane_locks(c, lock, idx, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    k = idx[i]
    done = False
    while not done:
        if mo.atomic_cas(lock, k, 0, 1, order="acquire") == 0:
            c[k] = c[k] + 1
            if fault:
                lock[k] = 0
            else:
                mo.store(lock, k, 0)
            done = True


TABLE.case(lane_locks, "G1 G2 G3 C1 C2 C3", lambda: (zeros(8), zeros(8), (np.arange(64) % 8).astype(I32)), grid=2)

# atomicAdd float accumulate then read by others without sync


@mo.kernel
def accum_read(out, s, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    mo.atomic_add(s, 0 if fault else b, x[b * 64 + tid])
    mo.sync_threads()
    if tid == 0:
        out[b] = s[0 if fault else b]


TABLE.case(accum_read, "G3 G1 G2 G5", lambda: (zeros(3, dtype=F32), zeros(3, dtype=F32), count(192)), grid=3, block=64)

# two-level: block flag in smem + global


@mo.kernel
def twolevel(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    got = mo.shared_array(mo.int32, 1)
    if b == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        if tid == 0:
            got[0] = 0
        mo.sync_threads()
        if tid < 32:
            if tid == 0:
                while mo.load(flag, 0, order="relaxed" if fault else "acquire") == 0:
                    pass
                mo.store(got, 0, 1, scope="cta")
        else:
            while mo.load(got, 0, scope="cta") == 0:
                pass
            out[tid] = data[tid]


TABLE.case(twolevel, "G3 G5", lambda: (zeros(64), zeros(64), zeros(1)), grid=2, block=64)

# release scope too narrow + acquire wide via chain


@mo.kernel
def atom_scope_mix(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            data[0] = 5
            mo.atomic_add(flag, 0, 1, order="release", scope="cluster" if fault else "sys")
        else:
            while mo.load(flag, 0, order="acquire", scope="gpu") == 0:
                pass
            out[0] = data[0]


TABLE.case(atom_scope_mix, "G3 G5 D19", lambda: (zeros(1), zeros(1), zeros(1)), grid=2)

# wait on flag by different thread than reader with only sync_warp but different warps


@mo.kernel
def wait_other_warp(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
        if fault:
            mo.sync_warp()
        else:
            mo.sync_threads()
        out[tid] = data[tid]


TABLE.case(wait_other_warp, "G3 G5", lambda: (zeros(64), zeros(64), zeros(1)), grid=2, block=64)

# bidirectional exchange with parity flags


@mo.kernel
def exchange(out, box, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    acc = 0
    for k in range(4):
        slot = (b * 2 + (0 if fault else k % 2)) * 32
        box[slot + tid] = k * 10 + b
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, b, k + 1)
            while mo.load(flag, 1 - b) < k + 1:
                pass
        mo.sync_warp()
        acc += box[((1 - b) * 2 + (0 if fault else k % 2)) * 32 + tid]
        mo.sync_warp()
    out[b * 32 + tid] = acc


TABLE.case(exchange, "G3 G5", lambda: (zeros(64), zeros(128), zeros(2)), grid=2)

# scratch reused by persistent loop between blocks (double-buffer by parity), no ack


@mo.kernel
def persistent_handoff(out, ws, flag, n, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    for t in range(b, n, G):
        w = (t % G) if fault else t
        ws[w * 32 + tid] = t
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, t, 1)
    mo.sync_warp()
    if b == 0:
        for t in range(n):
            if tid == 0:
                while mo.load(flag, t) == 0:
                    pass
            mo.sync_warp()
            w = (t % G) if fault else t
            out[t * 32 + tid] = ws[w * 32 + tid]


TABLE.case(persistent_handoff, "G3 G5 G1", lambda: (zeros(192), zeros(192), zeros(6), 6), grid=3)

# hash join: build and probe in same kernel w/o grid barrier


@mo.kernel
def build_probe(out, table, keys, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if fault:
        table[keys[i]] = i
        mo.sync_threads()
        out[i] = table[(keys[i] + 40) % 96]
    else:
        mo.atomic_exch(table, keys[i], i)
        mo.sync_threads()
        out[i] = mo.load(table, (keys[i] + 40) % 96, order="relaxed")


TABLE.case(build_probe, "G3 G5", lambda: (zeros(96), zeros(96), (np.arange(96) * 5 % 96).astype(I32)), grid=3)

# argument overlap with vector copies, partially


@mo.kernel
def shiftvec(y, x, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    f = mo.fragment((4,), mo.float32)
    k = b * 32 + tid
    mo.copyto(f, mo.tile(x, (4,), (k,)))
    if not fault:
        mo.sync_threads()
    mo.copyto(mo.tile(y, (4,), (k,)), f)
def sh4():
    a = count(264)
    return a[4:260], a[:256]
def sh128():
    a = count(512)
    return a[256:], a[:256]


TABLE.case(shiftvec, "C1 C2 C3 G5", sh4, grid=2, only=True)
TABLE.case(shiftvec, "", sh128, grid=2, only=False)

# reduce in place in global across blocks


@mo.kernel
def tree_global(x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    h = mo.size(x) // 2
    while h > 0:
        if i < h:
            x[i] = x[i] + x[i + h]
        if fault:
            mo.sync_threads()
            h = h // 2
        else:
            h = 0


TABLE.case(tree_global, "G5 G3", lambda: (count(128),), grid=2)

# scan with wrong order of aggregate/inclusive


@mo.kernel
def scan_2phase(out, x, part, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    v = x[b * 32 + tid]
    s = v
    for k in mo.static_range(5):
        o = mo.shuffle_up(s, 1 << k)
        if tid >= 1 << k:
            s += o
    if tid == 31:
        part[b] = s
        mo.atomic_add(cnt, 0, 1, order="release")
    if tid == 31:
        while mo.load(cnt, 0) < (1 if fault else G):
            pass
    mo.sync_warp()
    base = 0.0
    for p in range(b):
        base += part[p]
    out[b * 32 + tid] = base + s


TABLE.case(scan_2phase, "G3", lambda: (zeros(96, dtype=F32), count(96), zeros(3, dtype=F32), zeros(1)), grid=3)

# queue with sentinel termination


@mo.kernel
def sentinel(out, q, tail, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            for k in range(4):
                q[k] = k + 1 if k < 3 else -1
                mo.store(tail, 0, k + 1)
        else:
            k, going = 0, True
            while going:
                while mo.load(tail, 0) <= k - (1 if fault else 0):
                    pass
                v = q[k]
                going = v > 0
                if going:
                    out[k] = v
                k += 1


TABLE.case(sentinel, "G3 G5 B1", lambda: (zeros(4), zeros(5), zeros(1)), grid=2)

# spin with backoff loop


@mo.kernel
def backoff(c, lock, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        wait = 1
        while mo.atomic_cas(lock, 0, 0, 1, order="relaxed") != 0:
            for _ in range(wait):
                pass
            wait = mo.min(wait * 2, 64)
        if not fault:
            mo.fence()
        c[0] = c[0] + 1
        mo.fence()
        mo.atomic_exch(lock, 0, 0)


TABLE.case(backoff, "G2 G3", lambda: (zeros(1), zeros(1)), grid=4)

# semaphore-limited (count 2) protects nothing exclusive


@mo.kernel
def countsem(c, sem, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        got = False
        while not got:
            v = mo.load(sem, 0, order="relaxed")
            if v > 0:
                got = mo.atomic_cas(sem, 0, v, v - 1, order="acquire") == v
        if fault:
            c[0] = c[0] + 1
        else:
            mo.atomic_add(c, 0, 1)
        mo.atomic_add(sem, 0, 1, order="release")


TABLE.case(countsem, "G1 G2 G3 G5", lambda: (zeros(1), np.full(1, 2, I32)), grid=4)


@mo.kernel
def reset_by_last(y, x, cnt, fault: mo.Constexpr):
    # last arriver resets the counter that the others poll; right: they poll a generation
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 32 + tid] = b
    mo.sync_threads()
    if tid == 0:
        gen = mo.load(cnt, 1, order="relaxed")
        if mo.atomic_add(cnt, 0, 1, order="acq_rel") == G - 1:
            mo.store(cnt, 0, 0, order="release")
            if not fault:
                mo.store(cnt, 1, gen + 1)
        else:
            if fault:
                while mo.load(cnt, 0) < G:
                    pass
            else:
                while mo.load(cnt, 1) == gen:
                    pass
    mo.sync_threads()
    y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]


TABLE.case(reset_by_last, "G4 F4", lambda: (zeros(96), zeros(96), zeros(2)), grid=3)


@mo.kernel
def exact_value(out, data, turn, fault: mo.Constexpr):
    # waits for one value of a counter that goes on without it
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            for k in range(4):
                data[k] = k
                mo.store(turn, 0, k + 1)
        else:
            if fault:
                while mo.load(turn, 0) != 2:
                    pass
            else:
                while mo.load(turn, 0) < 2:
                    pass
            out[0] = data[1]


TABLE.case(exact_value, "G4 F4", lambda: (zeros(1), zeros(4), zeros(1)), grid=2)


@mo.kernel
def mailbox_clear(out, box, fault: mo.Constexpr):
    # producer sends several without an answer: words are lost
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            for k in range(3):
                if not fault:
                    while mo.load(box, 0) != 0:
                        pass
                mo.store(box, 0, k + 1)
        else:
            for k in range(3):
                v = mo.atomic_exch(box, 0, 0, order="acq_rel")
                while v == 0:
                    v = mo.atomic_exch(box, 0, 0, order="acq_rel")
                out[k] = v


TABLE.case(mailbox_clear, "G4 F4", lambda: (zeros(3), zeros(1)), grid=2)
