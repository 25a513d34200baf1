"""Blocks of a cluster, atomics of a scope, workspaces, signals through shared memory."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()


@mo.kernel
def dsmem_read(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[b * 32 + tid]
    if fault:
        mo.sync_threads()
    else:
        mo.cluster_sync()
    out[b * 32 + tid] = mo.map_shared_rank(s, r ^ 1)[31 - tid]
    mo.cluster_sync()


TABLE.case(dsmem_read, "D19 D18 C1 B6 G3", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=2)


@mo.kernel
def dsmem_nostart(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    if not fault:
        mo.cluster_sync()
    mo.map_shared_rank(s, r ^ 1)[tid] = x[b * 32 + tid]
    mo.cluster_sync()
    out[b * 32 + tid] = s[31 - tid]


TABLE.case(dsmem_nostart, "D18", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=2)


@mo.kernel
def dsmem_rank(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[b * 32 + tid]
    mo.cluster_sync()
    q = r + 1 if fault else (r + 1) % 2
    out[b * 32 + tid] = mo.map_shared_rank(s, q)[31 - tid]
    mo.cluster_sync()


TABLE.case(dsmem_rank, "D20", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=2)


@mo.kernel
def dsmem_relaxed(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[b * 32 + tid]
    mo.cluster_arrive(relaxed=fault)
    mo.cluster_wait()
    out[b * 32 + tid] = mo.map_shared_rank(s, r ^ 1)[31 - tid]
    mo.cluster_sync()


TABLE.case(dsmem_relaxed, "C1 D19 G3", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=2)


@mo.kernel
def dsmem_mbar(out, x, fault: mo.Constexpr):
    # push to the neighbour, signal its mbarrier
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    mo.map_shared_rank(s, r ^ 1)[tid] = x[b * 32 + tid]
    mo.mbarrier_arrive(bars, 0, cta=r ^ 1)
    if not fault:
        mo.mbarrier_wait(bars, 0, 0)
    out[b * 32 + tid] = s[31 - tid]
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()


TABLE.case(dsmem_mbar, "C1 D18", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=2)


@mo.kernel
def mbar_count(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 64)
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 64 if fault else 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    s2 = mo.map_shared_rank(s, r ^ 1)
    s2[tid] = x[b * 64 + tid]
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive(bars, 0, cta=r ^ 1)
    mo.mbarrier_wait(bars, 0, 0)
    out[b * 64 + tid] = s[63 - tid]
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()


TABLE.case(mbar_count, "D9", lambda: (zeros(128, dtype=F32), count(128)), grid=2, block=64, cluster=2)


@mo.kernel
def mbar_global(out, g, fault: mo.Constexpr):
    # global memory handed over by a remote arrival: needs a fence of cluster scope
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    g[b * 32 + tid] = tid + b
    if not fault:
        mo.fence(scope="cluster")
    mo.mbarrier_arrive(bars, 0, cta=r ^ 1)
    mo.mbarrier_wait(bars, 0, 0)
    if not fault:
        mo.fence(scope="cluster")
    out[b * 32 + tid] = g[(b ^ 1) * 32 + 31 - tid]
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()


TABLE.case(mbar_global, "G3 G5 D19", lambda: (zeros(128, dtype=F32), zeros(128, dtype=F32)), grid=4, cluster=2)


@mo.kernel
def cluster_reduce(out, x, fault: mo.Constexpr):
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 4)
    v = mo.warp_reduce(x[b * 32 + tid])
    mo.cluster_sync()
    if tid == 0:
        mo.map_shared_rank(s, 0)[r] = v
    if fault:
        mo.sync_threads()
    else:
        mo.cluster_sync()
    if r == 0 and tid == 0:
        out[b // 4] = s[0] + s[1] + s[2] + s[3]


TABLE.case(cluster_reduce, "D19 C1 B6 G3 D18", lambda: (zeros(2, dtype=F32), count(256)), grid=8, cluster=4)


@mo.kernel
def cluster_ring_exchange(out, x, fault: mo.Constexpr):
    # two rounds through one buffer: needs a barrier after reading
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    v = x[b * 32 + tid]
    acc = v
    for _k in range(2):
        s[tid] = v
        mo.cluster_sync()
        v = mo.map_shared_rank(s, (r + 1) % 4)[tid]
        if not fault:
            mo.cluster_sync()
        acc += v
    out[b * 32 + tid] = acc
    mo.cluster_sync()


TABLE.case(cluster_ring_exchange, "C2 D19 G3", lambda: (zeros(128, dtype=F32), count(128)), grid=4, cluster=4)


@mo.kernel
def cluster_bar_global(out, g, fault: mo.Constexpr):
    tid, _r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    g[b * 32 + tid] = b
    mo.cluster_sync()
    out[b * 32 + tid] = g[((b + 2) % 4 if fault else b ^ 1) * 32 + tid]


TABLE.case(cluster_bar_global, "G3 G5", lambda: (zeros(128, dtype=F32), zeros(128, dtype=F32)), grid=4, cluster=2)


@mo.kernel
def cluster_pingpong(out, x, fault: mo.Constexpr):
    # ring with full/empty barriers between blocks: rank 0 produces, rank 1 consumes
    tid, r, _b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for k in mo.static_range(2):
            mo.mbarrier_init(full, k, 32)
            mo.mbarrier_init(empty, k, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    there = mo.map_shared_rank(s, 1)
    acc = 0.0
    st, ph = 0, 0
    for k in range(5):
        if r == 0:
            mo.mbarrier_wait(empty, st, ph ^ 1)
            there[tid, st] = x[k * 32 + tid]
            mo.mbarrier_arrive(full, st, cta=1)
        else:
            mo.mbarrier_wait(full, st, ph)
            acc += s[31 - tid, st]
            if not fault:
                mo.mbarrier_arrive(empty, st, cta=0)
            else:
                mo.mbarrier_arrive(empty, st ^ 1, cta=0)
        st += 1
        if st == 2:
            st, ph = 0, ph ^ 1
    if r == 1:
        out[tid] = acc
    mo.cluster_sync()


TABLE.case(cluster_pingpong, "C2 D8 D9 F4 F1 D4 F5 F3 D19", lambda: (zeros(32, dtype=F32), count(160)), grid=2,
           cluster=2)

# ---- block-scope atomics between blocks


@mo.kernel
def ctascope_hist(h, x, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    mo.atomic_add(h, x[i] % 4, 1, scope="cta" if fault else "gpu")


TABLE.case(ctascope_hist, "D19", lambda: (zeros(4), count(96, dtype=I32)), grid=3)


@mo.kernel
def mixed_atomic(h, x, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if fault and b == 1:
        h[tid % 4] = 5
    else:
        mo.atomic_add(h, tid % 4, 1)


TABLE.case(mixed_atomic, "G1 G2 G3", lambda: (zeros(4), count(96, dtype=I32)), grid=3)

# ---- poison


@mo.kernel
def ws(out, x, sums, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    v = mo.warp_reduce(x[b * 32 + tid])
    if tid == 0 and (b > 0 or not fault):
        sums[b] = v
    mo.sync_threads()
    out[b * 32 + tid] = x[b * 32 + tid] / sums[b]


TABLE.case(ws, "B6", lambda: (zeros(96, dtype=F32), count(96), np.empty(3, F32)), grid=3, poison="sums")


@mo.kernel
def ws_atomic(out, x, sums, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if not fault:
        if tid == 0:
            sums[b] = 0.0
        mo.sync_threads()
    mo.atomic_add(sums, b, x[b * 32 + tid])
    mo.sync_threads()
    out[b * 32 + tid] = x[b * 32 + tid] / sums[b]


TABLE.case(ws_atomic, "B6", lambda: (zeros(96, dtype=F32), count(96), np.empty(3, F32)), grid=3, poison="sums")


@mo.kernel
def ws_flag(out, flag, w, fault: mo.Constexpr):
    b, tid = mo.block_idx().x, mo.thread_idx().x
    if b == 0:
        if tid < (16 if fault else 32):
            w[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
        mo.sync_threads()
        out[tid] = w[31 - tid]


TABLE.case(ws_flag, "B6", lambda: (zeros(32, dtype=F32), zeros(1), np.empty(32, F32)), grid=2, poison="w")

# ---- in block shared memory signalling


@mo.kernel
def smem_flag(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    f = mo.shared_array(mo.int32, 1)
    if tid == 0:
        f[0] = 0
    mo.sync_threads()
    if tid < 32:
        s[tid] = x[tid]
        mo.sync_warp()
        if tid == 0:
            mo.store(f, 0, 1, order="relaxed" if fault else "release", scope="cta")
    else:
        while mo.load(f, 0, order="acquire", scope="cta") == 0:
            pass
        out[tid - 32] = s[63 - tid]


TABLE.case(smem_flag, "C1", lambda: (zeros(32, dtype=F32), count(32)), block=64)


@mo.kernel
def smem_lock(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    c = mo.shared_array(mo.float32, 1)
    lock = mo.shared_array(mo.int32, 1)
    if tid == 0:
        lock[0] = 0
        c[0] = 0.0
    mo.sync_threads()
    if tid % 32 == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
            pass
        c[0] = c[0] + x[tid]
        mo.store(lock, 0, 0, order="relaxed" if fault else "release", scope="cta")
    mo.sync_threads()
    if tid == 0:
        out[0] = c[0]


TABLE.case(smem_lock, "C1 C2", lambda: (zeros(1, dtype=F32), count(128)), block=128)
