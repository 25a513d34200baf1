"""Chains of releases, messages of parts, barriers of clusters."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()


@mo.kernel
def dswap(a, b2, fault: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    t = a[i]
    a[i] = b2[i]
    b2[i] = t


TABLE.right(dswap, lambda: (count(96), count(96)), grid=3)


@mo.kernel
def inplace_rows(x, fault: mo.Constexpr):
    # softmax per row in place
    b, tid = mo.block_idx().x, mo.thread_idx().x
    v = x[b, tid]
    m = mo.warp_reduce(v, "max")
    e = mo.exp(v - m)
    x[b, tid] = e / mo.warp_reduce(e)


TABLE.right(inplace_rows, lambda: (count(3, 32),), grid=3)


@mo.kernel
def overlap_views(y, x, fault: mo.Constexpr):
    # windows of one array as arguments that interleave without touching
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    y[i, 0] = x[i, 0] + x[i, 1]
def ov():
    a = count(96, 4)
    return a[:, 2:3], a[:, 0:2]


TABLE.right(overlap_views, ov, grid=3)


@mo.kernel
def lock_per_warp(c, lock, fault: mo.Constexpr):
    if mo.lane_idx() == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
    mo.sync_warp()
    if mo.lane_idx() < 4:
        c[mo.lane_idx()] = c[mo.lane_idx()] + 1
    mo.sync_warp()
    if mo.lane_idx() == 0:
        mo.store(lock, 0, 0)


TABLE.right(lock_per_warp, lambda: (zeros(4), zeros(1)), grid=3, block=64)


@mo.kernel
def acq_rel_chain(out, data, flag, fault: mo.Constexpr):
    # RMW chain keeps the release sequence of block 0 alive although block 1 is relaxed
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            data[0] = 1
            mo.store(flag, 0, 1)
        elif b == 1:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            mo.atomic_add(flag, 0, 1, order="relaxed")
        else:
            while mo.load(flag, 0) < 2:
                pass
            out[0] = data[0]


TABLE.right(acq_rel_chain, lambda: (zeros(1), zeros(1), zeros(1)), grid=3)


@mo.kernel
def broken_chain(out, data, flag, fault: mo.Constexpr):
    # a relaxed store in between ends it; RMW keeps it
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            data[0] = 1
            mo.store(flag, 0, 1)
        elif b == 1:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            if fault:
                mo.store(flag, 0, 2, order="relaxed")
            else:
                mo.atomic_exch(flag, 0, 2)
        else:
            while mo.load(flag, 0) < 2:
                pass
            out[0] = data[0]


TABLE.case(broken_chain, "G3 G5", lambda: (zeros(1), zeros(1), zeros(1)), grid=3)


@mo.kernel
def atomic_load_by_add0(out, data, flag, fault: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            data[0] = 3
            mo.fence()
            mo.atomic_exch(flag, 0, 1)
        else:
            while mo.atomic_add(flag, 0, 0) == 0:
                pass
            if not fault:
                mo.fence()
            out[0] = data[0]


TABLE.case(atomic_load_by_add0, "G3 G5", lambda: (zeros(1), zeros(1), zeros(1)), grid=2)


@mo.kernel
def multi_consumer(out, data, flag, fault: mo.Constexpr):
    # work flag says which half is ready
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        data[tid] = 1
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, 0, 1)
        data[32 + tid] = 2
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, 0, 2)
    else:
        if tid == 0:
            while mo.load(flag, 0) < (1 if fault else 2):
                pass
        mo.sync_warp()
        out[tid] = data[32 + tid]


TABLE.case(multi_consumer, "G3 G5", lambda: (zeros(32), zeros(64), zeros(1)), grid=2)


@mo.kernel
def ptr_publish(out, pool, slot, fault: mo.Constexpr):
    # publishes an index; consumer follows it
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            pool[5] = 77
            mo.store(slot, 0, 5, order="relaxed" if fault else "release")
        else:
            p = mo.load(slot, 0)
            while p < 0:
                p = mo.load(slot, 0)
            out[0] = pool[p]


TABLE.case(ptr_publish, "G3 G5", lambda: (zeros(1), zeros(8), np.full(1, -1, I32)), grid=2)


@mo.kernel
def b6_part(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    if tid < (31 if fault else 32):
        s[tid] = x[tid]
        s[63 - tid] = x[tid]
    mo.sync_threads()
    out[tid] = s[tid] + s[63 - tid]


TABLE.case(b6_part, "B6", lambda: (zeros(32, dtype=F32), count(32)))


@mo.kernel
def divergent_barrier(out, x, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if fault:
        if tid < 32:
            mo.sync_threads()
            out[tid] = s[63 - tid]
    else:
        mo.sync_threads()
        if tid < 32:
            out[tid] = s[63 - tid]


TABLE.case(divergent_barrier, "C4 C1", lambda: (zeros(32, dtype=F32), count(64)), block=64)


@mo.kernel
def cluster_part(out, fault: mo.Constexpr):
    tid, r = mo.thread_idx().x, mo.cluster_rank()
    if fault:
        if r == 0:
            mo.cluster_sync()
    else:
        mo.cluster_sync()
    out[mo.block_idx().x * 32 + tid] = 1


TABLE.case(cluster_part, "C4", lambda: (zeros(128),), grid=4, cluster=2)


@mo.kernel
def cluster_mcast_flag(out, x, fault: mo.Constexpr):
    # rank 0 pushes to all; others wait on own mbarrier; missing arrival for one
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, 32)
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    if r == 0:
        for q in range(4):
            mo.map_shared_rank(s, q)[tid] = x[tid] + q
        for q in range(1 if fault else 0, 4):
            mo.mbarrier_arrive(bars, 0, cta=q)
    mo.mbarrier_wait(bars, 0, 0)
    out[b * 32 + tid] = s[31 - tid]
    mo.cluster_sync()


TABLE.case(cluster_mcast_flag, "D9 F4 D8", lambda: (zeros(128, dtype=F32), count(32)), grid=4, cluster=4)


@mo.kernel
def cluster_wrong_bar(out, x, fault: mo.Constexpr):
    # two mbarriers; waits for the other one
    tid, r, b = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    bars = mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.mbarrier_init(bars, 1, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    there = mo.map_shared_rank(s, r ^ 1)
    there[tid, 0] = x[tid]
    mo.mbarrier_arrive(bars, 0, cta=r ^ 1)
    there[tid, 1] = x[tid] * 2
    mo.mbarrier_arrive(bars, 1, cta=r ^ 1)
    mo.mbarrier_wait(bars, 0, 0)
    v = s[31 - tid, 1 if fault else 0]
    mo.mbarrier_wait(bars, 1, 0)
    out[b * 32 + tid] = v + s[31 - tid, 1]
    mo.cluster_sync()


TABLE.case(cluster_wrong_bar, "C1 B6 D19 D6", lambda: (zeros(64, dtype=F32), count(32)), grid=2, cluster=2)
