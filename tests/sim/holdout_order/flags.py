"""Barriers of the grid, tickets and messages."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, Table, count, zeros

TABLE = Table()


@mo.kernel
def gb_counter(y, x, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 32 + tid] = b + tid
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(cnt, 0, 1, order="release")
        while mo.load(cnt, 0) < (G - 1 if fault else G):
            pass
    mo.sync_threads()
    y[b * 32 + tid] = x[(G - 1 - b) * 32 + tid]


TABLE.case(gb_counter, "G3 G5", lambda: (zeros(96, dtype=F32), zeros(96, dtype=F32), zeros(1)), grid=3)


@mo.kernel
def gb_reuse(y, x, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    for it in range(3):
        x[b * 32 + tid] = it + b + tid
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            mo.atomic_add(cnt, 0, 1)
            target = G if fault else (2 * it + 1) * G
            while mo.load(cnt, 0, order="relaxed") < target:
                pass
            mo.fence()
        mo.sync_threads()
        y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            mo.atomic_add(cnt, 0, 1)
            target = G if fault else (2 * it + 2) * G
            while mo.load(cnt, 0, order="relaxed") < target:
                pass
            mo.fence()
        mo.sync_threads()


TABLE.case(gb_reuse, "G3 G5 G1", lambda: (zeros(96, dtype=F32), zeros(96, dtype=F32), zeros(1)), grid=3)


@mo.kernel
def gb_sense(y, x, bar, fault: mo.Constexpr):
    # bar[0] counter, bar[1] sense
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    for it in range(2):
        x[b * 32 + tid] = it + b + tid
        for half in mo.static_range(2):
            mo.sync_threads()
            if tid == 0:
                sense = mo.load(bar, 1, order="relaxed")
                if mo.atomic_add(bar, 0, 1, order="acq_rel") == G - 1:
                    mo.store(bar, 0, 0, order="relaxed")
                    mo.store(bar, 1, sense ^ 1, order="relaxed" if fault else "release")
                else:
                    while mo.load(bar, 1) == sense:
                        pass
            mo.sync_threads()
            if half == 0:
                y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]


TABLE.case(gb_sense, "G3 G5 G1", lambda: (zeros(96, dtype=F32), zeros(96, dtype=F32), zeros(2)), grid=3)


@mo.kernel
def gb_gen(y, x, bar, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 32 + tid] = b + tid
    if not fault:
        mo.sync_threads()
    if tid == 0:
        mo.fence()
        old = mo.atomic_add(bar, 0, (1 << 30) - (G - 1) if b == 0 else 1)
        while ((old ^ mo.load(bar, 0, order="relaxed")) & (1 << 30)) == 0:
            pass
        mo.fence()
    mo.sync_threads()
    y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]


TABLE.case(gb_gen, "G3 G5", lambda: (zeros(96, dtype=F32), zeros(96, dtype=F32), zeros(1)), grid=3)


@mo.kernel
def gb_gen_overflowing(y, x, bar, fault: mo.Constexpr):
    # cooperative groups' own barrier, on uint32
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    for k in range(2):
        x[b * 32 + tid] = b + tid + k
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            add = mo.uint32(1)
            if b == 0:
                add = mo.uint32(0x80000000) - (G - 1).to(mo.uint32)
            old = mo.atomic_add(bar, 0, add)
            while ((old ^ mo.load(bar, 0, order="relaxed")) & mo.uint32(0x80000000)) == 0:
                pass
            if not fault:
                mo.fence()
        mo.sync_threads()
        y[b * 32 + tid] = x[(b + 1) % G * 32 + tid]
        mo.sync_threads()
        if tid == 0:
            mo.fence()
            add = mo.uint32(1)
            if b == 0:
                add = mo.uint32(0x80000000) - (G - 1).to(mo.uint32)
            old = mo.atomic_add(bar, 0, add)
            while ((old ^ mo.load(bar, 0, order="relaxed")) & mo.uint32(0x80000000)) == 0:
                pass
            mo.fence()
        mo.sync_threads()


TABLE.case(gb_gen_overflowing, "G3 G5", lambda: (zeros(96, dtype=F32), zeros(96, dtype=F32), zeros(1,
           dtype=np.uint32)), grid=3)


@mo.kernel
def gb_nosync_after(y, x, cnt, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    x[b * 64 + tid] = b + tid
    mo.sync_threads()
    if tid == 0:
        mo.fence()
        mo.atomic_add(cnt, 0, 1)
        while mo.load(cnt, 0, order="relaxed") < G:
            pass
        mo.fence()
    if not fault:
        mo.sync_threads()
    y[b * 64 + tid] = x[(G - 1 - b) * 64 + tid]


TABLE.case(gb_nosync_after, "G3 G5", lambda: (zeros(128, dtype=F32), zeros(128, dtype=F32), zeros(1)), grid=2, block=64)


@mo.kernel
def gb_tree(y, x, cnt, root, fault: mo.Constexpr):
    # two level arrival: groups of two blocks, then root
    tid, b = mo.thread_idx().x, mo.block_idx().x
    x[b * 32 + tid] = b + tid
    mo.sync_threads()
    if tid == 0:
        if mo.atomic_add(cnt, b // 2, 1, order="release" if fault else "acq_rel") == 1:
            mo.atomic_add(root, 0, 1, order="release")
        while mo.load(root, 0) < 2:
            pass
    mo.sync_threads()
    y[b * 32 + tid] = x[(b + 1) % 4 * 32 + tid]


TABLE.case(gb_tree, "G3 G5", lambda: (zeros(128, dtype=F32), zeros(128, dtype=F32), zeros(2), zeros(1)), grid=4)

# ---------- tickets / last block


@mo.kernel
def lastblock(out, x, part, ticket, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    last = mo.shared_array(mo.int32, 1)
    v = mo.warp_reduce(x[b * 32 + tid])
    if tid == 0:
        part[b] = v
        mo.fence()
        last[0] = mo.atomic_add(ticket, 0, 1)
    mo.sync_threads()
    if last[0] == G - 1:
        if not fault:
            mo.fence()
        t = 0.0
        for k in range(G):
            t += part[k]
        if tid == 0:
            out[0] = t
            ticket[0] = 0


TABLE.case(lastblock, "G3 G5", lambda: (zeros(1, dtype=F32), count(96), zeros(3, dtype=F32), zeros(1)), grid=3)


@mo.kernel
def lastblock_wrongcount(out, x, part, ticket, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    last = mo.shared_array(mo.int32, 1)
    v = mo.warp_reduce(x[b * 32 + tid])
    if tid == 0:
        part[b] = v
        last[0] = mo.atomic_add(ticket, 0, 1, order="acq_rel")
    mo.sync_threads()
    if last[0] == (G - 2 if fault else G - 1):
        w = part[tid] if tid < G else 0.0
        t = mo.warp_reduce(w)
        if tid == 0:
            out[0] = t
            mo.store(ticket, 0, 0, order="relaxed")


TABLE.case(lastblock_wrongcount, "G3 G5", lambda: (zeros(1, dtype=F32), count(128), zeros(4, dtype=F32), zeros(1)),
           grid=4)


@mo.kernel
def lastblock_writerfence(out, x, part, ticket, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    last = mo.shared_array(mo.int32, 1)
    part[b * 32 + tid] = x[b * 32 + tid] * 2
    if not fault:
        mo.fence()
    mo.sync_threads()
    if tid == 0:
        last[0] = 1 if mo.atomic_add(ticket, 0, 1) == G - 1 else 0
    mo.sync_threads()
    if last[0] == 1:
        mo.fence()
        t = 0.0
        for k in range(G):
            t += part[k * 32 + tid]
        out[tid] = t


TABLE.case(lastblock_writerfence, "G3 G5", lambda: (zeros(32, dtype=F32), count(96), zeros(96, dtype=F32), zeros(1)),
           grid=3)


@mo.kernel
def lastblock_inc(out, x, part, ticket, fault: mo.Constexpr):
    # atomic_cas-based ticket
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    last = mo.shared_array(mo.int32, 1)
    if tid == 0:
        part[b] = x[b]
        mo.fence()
        old = mo.atomic_add(ticket, 0, 0)
        done = False
        while not done:
            seen = mo.atomic_cas(ticket, 0, old, 0 if old == G - 1 else old + 1)
            done = seen == old
            if done:
                last[0] = old
            old = seen
        if not fault:
            mo.fence()
    mo.sync_threads()
    if last[0] == G - 1 and tid < G:
        out[tid] = part[tid]


TABLE.case(lastblock_inc, "G3 G5", lambda: (zeros(3, dtype=F32), count(96), zeros(3, dtype=F32), zeros(1)), grid=3)


@mo.kernel
def ticket_scope(out, x, part, ticket, fault: mo.Constexpr):
    tid, b, G = mo.thread_idx().x, mo.block_idx().x, mo.grid_dim().x
    last = mo.shared_array(mo.int32, 1)
    if tid == 0:
        part[b] = x[b]
        last[0] = mo.atomic_add(ticket, 0, 1, order="acq_rel", scope="cta" if fault else "gpu")
    mo.sync_threads()
    if last[0] == G - 1 and tid < G:
        out[tid] = part[tid]


TABLE.case(ticket_scope, "D19 G3 G5", lambda: (zeros(3, dtype=F32), count(96), zeros(3, dtype=F32), zeros(1)), grid=3)

# ---------- message passing


@mo.kernel
def mp_fence(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid + 1
        mo.sync_threads()
        if tid == 0:
            if not fault:
                mo.fence()
            mo.store(flag, 0, 1, order="relaxed")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            mo.fence()
        mo.sync_threads()
        out[tid] = data[31 - tid]


TABLE.case(mp_fence, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(1)), grid=2)


@mo.kernel
def mp_scope(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid + 1
        mo.sync_threads()
        if tid == 0:
            mo.fence(scope="cta" if fault else "gpu")
            mo.store(flag, 0, 1, order="relaxed")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="acquire", scope="gpu") == 0:
                pass
        mo.sync_threads()
        out[tid] = data[31 - tid]


TABLE.case(mp_scope, "G3 G5 D19", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(1)), grid=2)


@mo.kernel
def mp_cluster_scope(out, data, flag, fault: mo.Constexpr):
    # four blocks in clusters of two: block 0 tells block 1 (same cluster) / 2 (another)
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid + 1
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1, order="release", scope="cluster")
    elif b == (2 if fault else 1):
        if tid == 0:
            while mo.load(flag, 0, order="acquire", scope="cluster") == 0:
                pass
        mo.sync_threads()
        out[tid] = data[31 - tid]


TABLE.case(mp_cluster_scope, "G3 G5 D19", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(1)), grid=4,
           cluster=2)


@mo.kernel
def mp_wrongflag(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b < 2:
        data[b * 32 + tid] = tid + 1
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, b, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
            while mo.load(flag, 0 if fault else 1) == 0:
                pass
        mo.sync_threads()
        out[tid] = data[tid] + data[32 + tid]


TABLE.case(mp_wrongflag, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(64, dtype=F32), zeros(2)), grid=3)


@mo.kernel
def mp_perthread(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid + 1
        mo.store(flag, tid, 1)
    else:
        k = (tid + 1) % 32
        while mo.load(flag, tid if fault else k) == 0:
            pass
        out[tid] = data[k]


TABLE.case(mp_perthread, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(32)), grid=2)


@mo.kernel
def mp_order_swapped(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        if fault:
            mo.store(flag, tid, 1)
            data[tid] = tid
        else:
            data[tid] = tid
            mo.store(flag, tid, 1)
    else:
        while mo.load(flag, tid) == 0:
            pass
        out[tid] = data[tid]


TABLE.case(mp_order_swapped, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(32)), grid=2)


@mo.kernel
def mp_chain(out, data, flag, fault: mo.Constexpr):
    # cumulativity over three blocks
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    elif b == 1:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed" if fault else "acquire") == 0:
                pass
            mo.store(flag, 1, 1)
    else:
        if tid == 0:
            while mo.load(flag, 1) == 0:
                pass
        mo.sync_threads()
        out[tid] = data[tid]


TABLE.case(mp_chain, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(2)), grid=3)


@mo.kernel
def mp_plainflag(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.fence()
        mo.sync_threads()
        if tid == 0:
            if fault:
                flag[0] = 1
            else:
                mo.store(flag, 0, 1, order="relaxed")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            mo.fence()
        mo.sync_threads()
        out[tid] = data[tid]


TABLE.case(mp_plainflag, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(1)), grid=2)


@mo.kernel
def mp_nopoll(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = tid
        mo.store(flag, tid, 1)
    else:
        f = mo.load(flag, tid)
        if fault or f == 1:
            out[tid] = data[tid]


TABLE.case(mp_nopoll, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(32)), grid=2)


@mo.kernel
def mp_epoch(out, data, flag, fault: mo.Constexpr):
    # buffer reused for several messages; consumer must acknowledge
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        for k in range(3):
            if not fault:
                if tid == 0:
                    while mo.load(flag, 1) < k:
                        pass
                mo.sync_threads()
            data[tid] = tid + k
            mo.sync_threads()
            if tid == 0:
                mo.store(flag, 0, k + 1)
    else:
        acc = 0.0
        for k in range(3):
            if tid == 0:
                while mo.load(flag, 0) < k + 1:
                    pass
            mo.sync_threads()
            acc += data[tid]
            mo.sync_threads()
            if tid == 0:
                mo.store(flag, 1, k + 1)
        out[tid] = acc


TABLE.case(mp_epoch, "G3 G5", lambda: (zeros(32, dtype=F32), zeros(32, dtype=F32), zeros(2)), grid=2)
