"""Designs inside one block: rings with readers of several speeds, named barriers, warps, atomics, engines of copies.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def several_readers(rng: random.Random) -> Design:
    """One warp fills stages; groups of warps read all of them, each at its own speed, and give them back."""
    groups, warps = rng.choice([1, 2, 3]), rng.choice([1, 2])
    stages, tiles = rng.choice([1, 2, 3, 4]), rng.choice([1, 3, 5, 7, 8])
    n, readers = 32 * warps, 32 * warps * groups
    feed = rng.choice(["store", "bulk", "noinc"])
    many = rng.random() < 0.5           # each thread gives a stage back, or one of each warp
    arrivals = readers if many else groups * warps
    full = {"store": 32, "bulk": 1, "noinc": 32}[feed]
    stage = f"k % {stages}"
    fill = {"store": f"""
            for i in mo.static_range({warps}):
                s[lane + 32 * i, {stage}] = x[k * {n} + lane + 32 * i]
            mo.mbarrier_arrive(full, {stage})                   #= arrives first: pass
""", "bulk": f"""
            filled = (full, {stage})                            #= other barrier: filled = (full, (k + 1) % {stages})
            mo.mbarrier_arrive_expect_tx(full, {stage}, {4 * n})
                #= few bytes: mo.mbarrier_arrive_expect_tx(full, {stage}, {4 * n - 16})
                #= many bytes: mo.mbarrier_arrive_expect_tx(full, {stage}, {4 * n + 16})
                #= no expect: mo.mbarrier_arrive(full, {stage})
            mo.copyto(mo.BulkCopy(), s[:, {stage}], mo.tile(x, ({n},), (k,)), barrier=filled)
""", "noinc": f"""
            for i in mo.static_range({warps}):
                source = mo.tile(x, (1,), (k * {n} + lane + 32 * i,))
                mo.copyto(copy, mo.tile(s[:, {stage}], (1,), (lane + 32 * i,)), source)
            mo.cp_async_mbarrier_arrive(full, {stage})
                #= plain arrival: mo.mbarrier_arrive(full, {stage})
                #= arrives first: pass
"""}[feed]
    first = {"store": f"mo.mbarrier_arrive(full, {stage})", "bulk": "pass",
             "noinc": f"mo.cp_async_mbarrier_arrive(full, {stage})"}[feed]
    back = f"""
            mo.mbarrier_arrive(empty, {stage})                  #= given back first: pass
""" if many else f"""
            mo.sync_warp()                                      #- no warp barrier
            if lane == 0:
                mo.mbarrier_arrive(empty, {stage})              #= given back first: pass
"""
    early = f"mo.mbarrier_arrive(empty, {stage})"
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, lane = mo.thread_idx().x, mo.lane_idx()
    s, copy = mo.shared_array(mo.float32, ({n}, {stages})), mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, {full})
            mo.mbarrier_init(empty, i, {arrivals})
                #= one more: mo.mbarrier_init(empty, i, {arrivals + 1})
                #= one fewer: mo.mbarrier_init(empty, i, {max(1, arrivals - 1)})
                #= one group: mo.mbarrier_init(empty, i, {arrivals // groups})
        mo.fence_mbarrier_init()
    mo.sync_threads()                                           #- no barrier after init
    if {f"tid == {readers}" if feed == "bulk" else f"tid >= {readers}"}:
        for k in range({tiles}):                                #= one tile more: for k in range({tiles + 1}):
            mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)
                #- no empty wait
                #= producer parity: mo.mbarrier_wait(empty, k % {stages}, k // {stages} & 1)
            #+ arrives first: {first}
{fill}
    elif tid < {readers}:
        group, c = tid // {n}, tid % {n}
        total = mo.float32(0)
        for k in range({tiles}):
            #= one tile fewer: for k in range({tiles - 1}):
            #= one more read: for k in range({tiles + 1}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
                #- no full wait
                #= parity of k: mo.mbarrier_wait(full, k % {stages}, k & 1)
                #= consumer parity: mo.mbarrier_wait(full, k % {stages}, (k // {stages} & 1) ^ 1)
            #+ given back first: {early if many else f"if lane == 0: {early}"}
            for again in range(group + 1):
                total += s[({n} - 1) - c, k % {stages}]
                    #= other stage: total += s[({n} - 1) - c, (k + 1) % {stages}]
{back}
        y[group * {n} + c] = total
"""
    harmless = {"arrives first"} if feed == "bulk" else set()
    if groups == 1:
        harmless |= {"one group"}
    if arrivals == 1:
        harmless |= {"one fewer"}
    if stages == 1:
        harmless |= {"parity of k", "other stage", "other barrier"}
    if tiles <= stages:                             # no stage is filled twice
        harmless |= {"no empty wait", "one more", "one fewer", "given back first", "no warp barrier", "one group",
                     "parity of k" if tiles == 1 else "", "one tile fewer"}
    if all((k // stages & 1) == (k & 1) for k in range(tiles)):
        harmless |= {"parity of k"}
    if feed != "bulk":                  # nobody waits for what is left
        harmless |= {"one tile fewer"}
    x = _numbers(tiles * n)
    sums = x.reshape(tiles, n)[:, ::-1].sum(0)
    y = np.concatenate([(g + 1) * sums for g in range(groups)])
    return Design(text, 1, readers + 32, lambda: [np.full(groups * n, np.nan, np.float32), x.copy()],
                  lambda _: {0: y}, harmless=frozenset(harmless))


def named_ring(rng: random.Random) -> Design:
    """Two groups hand a buffer to and fro by named barriers, one arriving where the other waits."""
    warps, tiles, two = rng.choice([1, 2]), rng.choice([2, 3, 5]), rng.random() < 0.5
    n = 32 * warps
    slots = 2 if two else 1
    full, empty = ("1 + k % 2", "3 + k % 2") if two else ("1", "2")
    prime = "".join(f"        mo.barrier_arrive({3 + i if two else 2}, {2 * n})\n" for i in range(slots))
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    c, s = tid % {n}, mo.shared_array(mo.float32, mo.make_layout(({n}, {slots})))
    if tid < {n}:
        for k in range({tiles}):
            mo.barrier_sync({empty}, {2 * n})
                #- no empty wait
                #= one id: mo.barrier_sync({full}, {2 * n})
                #= only arrives: mo.barrier_arrive({empty}, {2 * n})
            s[c, k % {slots}] = x[k * {n} + c]
            mo.barrier_arrive({full}, {2 * n})
                #= other count: mo.barrier_arrive({full}, {2 * n + 32})
                #- no full arrival
    else:
{prime}
        for k in range({tiles}):                                #= one tile more: for k in range({tiles + 1}):
            mo.barrier_sync({full}, {2 * n})
                #- no full wait
                #= full arrives: mo.barrier_arrive({full}, {2 * n})
            y[k * {n} + c] = s[{n - 1} - c, k % {slots}]
            if k + {slots} < {tiles}:
                mo.barrier_arrive({empty}, {2 * n})
                    #- no empty arrival
"""
    x = _numbers(tiles * n)
    harmless = {"no empty arrival", "no empty wait", "only arrives"} if slots >= tiles else set()
    return Design(text, 1, 2 * n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].ravel()}, harmless=frozenset(harmless))


def histogram(rng: random.Random) -> Design:
    """Counts in shared memory by atomics, then added to those in global memory."""
    warps, bins, blocks, per = rng.choice([1, 2, 4]), rng.choice([8, 40, 64]), rng.choice([1, 2, 3]), rng.choice([1, 3])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    counts = mo.shared_array(mo.int32, {bins})
    for i in range(tid, {bins}, {n}):           #= one not set: for i in range(tid + 1, {bins}, {n}):
        counts[i] = 0                           #= none set: pass
    mo.sync_threads()                           #- no barrier after setting
    for i in range({per}):
        bin = x[(bid * {per} + i) * {n} + tid]
        mo.atomic_add(counts, bin, 1)
            #= plain: counts[bin] = counts[bin] + 1
            #= beyond: mo.atomic_add(counts, bin + 1, 1)
            #= below: mo.atomic_add(counts, bin - 1, 1)
    mo.sync_threads()                           #- no barrier before adding
    for i in range(tid, {bins}, {n}):           #= too far: for i in range(tid, {bins + 1}, {n}):
        mo.atomic_add(y, i, counts[i])          #= plain add: y[i] = y[i] + counts[i]
"""
    x = np.random.default_rng(bins).integers(0, bins, blocks * per * n).astype(np.int32)
    x[0], x[1] = 0, bins - 1
    x[2:6] = 1
    harmless = {"plain add"} if blocks == 1 else set()
    return Design(text, blocks, n, lambda: [np.zeros(bins, np.int32), x.copy()],
                  lambda _: {0: np.bincount(x, minlength=bins).astype(np.int32)}, harmless=frozenset(harmless))


def warp_work(rng: random.Random) -> Design:
    """A fold, a scan, votes and an exchange through shared memory of each warp, some of whose lanes have nothing."""
    warps, live = rng.choice([1, 2]), rng.choice([1, 5, 17, 31, 32])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane = mo.thread_idx().x, mo.lane_idx()
    s = mo.shared_array(mo.float32, {n})
    v = mo.float32(0)
    if lane < {live}:
        v = x[tid]
        #+ fold in the branch: v += mo.shuffle_xor(v, 1)
        #+ vote in the branch: v += 1.0 if mo.vote_any(v > 100) else 0.0
        #+ warp barrier in the branch: mo.sync_warp()
        #+ match in the branch: v += mo.float32(mo.match_any(lane) & 0)
        #+ reduce in the branch: v += mo.float32(mo.warp_reduce(lane, "max") * 0)
    #+ some return: if lane >= {live}: return
    total = v
    for d in mo.static_range(5):
        total += mo.shuffle_xor(total, 1 << d)
    some = mo.ballot(v != 0)
    s[tid] = v
    mo.sync_warp()
        #- no warp barrier
        #= half barrier: if lane < 16: mo.sync_warp(0xFFFF)
    other = s[tid ^ 1]
    mo.sync_warp()                              #- no second warp barrier
    s[tid] = other + total
    mo.sync_warp()
    y[tid] = s[tid ^ 31] + mo.float32(mo.popcount(some))
"""
    x = _numbers(n)
    v = np.where(np.arange(n) % 32 < live, x, 0).astype(np.float32)
    total = v.reshape(warps, 32).sum(1).repeat(32)
    other = v[np.arange(n) ^ 1] + total
    y = other[np.arange(n) ^ 31] + (v.reshape(warps, 32) != 0).sum(1).repeat(32)
    harmless = {"fold in the branch", "vote in the branch", "warp barrier in the branch", "match in the branch",
                "reduce in the branch", "some return"} if live == 32 else set()
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: y.astype(np.float32)}, harmless=frozenset(harmless))


def early_leavers(rng: random.Random) -> Design:
    """Threads without an element leave before the barriers of the others, or are led around their work."""
    warps, extent = rng.choice([2, 3]), rng.choice([1, 31, 32, 33, 63])
    n, leave = 32 * warps, rng.random() < 0.5
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, {n})
    {'if tid >= ' + str(extent) + ': return' if leave else 'pass'}
    s[tid] = x[tid] if tid < {extent} else mo.float32(0)
        #= beyond: s[tid] = x[tid] if tid <= {extent} else mo.float32(0)
    mo.sync_threads()
        #- no barrier
        #= around: if tid < {extent}: mo.sync_threads()
        #= late: if tid < 32: mo.sync_threads()
    if tid < {extent}:                          #= one more: if tid <= {extent}:
        y[tid] = s[{extent - 1} - tid]          #= reads what is not there: y[tid] = s[{extent} - tid]
"""
    harmless = {"around", "beyond", "one more"} if leave else {"reads what is not there"}
    if leave and extent <= 32:
        harmless |= {"late"}
    if extent == 1:
        harmless |= {"no barrier"}
    x = _numbers(extent)
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()], lambda _: {0: x[::-1].copy()},
                  harmless=frozenset(harmless))


def bulk_stores(rng: random.Random) -> Design:
    """Tiles leave through a ring of buffers, stored or added by bulk copies of one thread."""
    warps, tiles, buffers = rng.choice([1, 2, 4]), rng.choice([2, 3, 5, 6]), rng.choice([1, 2, 3])
    n, reduce = 32 * warps, rng.random() < 0.5
    atom = "mo.BulkReduceAdd()" if reduce else "mo.BulkCopy()"
    after = rng.random() < 0.5          # the block reads its results at the end
    tail = f"""
    if tid == 0:
        mo.tma_store_wait(0, read=False)
            #= only read: mo.tma_store_wait(0, read=True)
            #= one in flight: mo.tma_store_wait(1, read=False)
    mo.sync_threads()                                   #- no last barrier
    z[tid] = y[{(tiles - 1) * n} + {n - 1} - tid]
""" if after else """
    if tid == 0:
        mo.tma_store_wait(0, read=True)
            #- no last wait
            #= one left: mo.tma_store_wait(1, read=True)
        pass
"""
    text = f"""
@mo.kernel
def program(y: mo.Static, x, z):
    tid = mo.thread_idx().x
    o = mo.shared_array(mo.float32, mo.make_layout(({n}, {buffers})))
    for k in range({tiles}):
        if tid == 0:                                    #= other waits: if tid == {n - 1}:
            mo.tma_store_wait({buffers - 1}, read=True)
                #- no wait
                #= one too many: mo.tma_store_wait({buffers}, read=True)
            pass
        mo.sync_threads()                               #- no barrier before
        o[tid, k % {buffers}] = x[k * {n} + {n - 1} - tid] + 1
        mo.fence_proxy_async()
            #- no fence
            #= one fences: if tid == 0: mo.fence_proxy_async()
            #= fence late: pass
        mo.sync_threads()                               #- no barrier after
        #+ fence late: mo.fence_proxy_async()
        if tid == 0:                                    #= all store: if tid < 2:
            mo.copyto({atom}, mo.tile(y, ({n},), (k,)), o[:, k % {buffers}])
                #= overlaps: mo.copyto({atom}, mo.tile(y, ({n},), (0,)), o[:, k % {buffers}])
            mo.tma_store_arrive()                       #- no commit
{tail}
"""
    harmless = set()
    if buffers >= tiles:
        harmless |= {"no wait", "one too many", "no barrier before", "other waits"}
    if reduce:
        harmless |= {"overlaps", "all store"}           # sums may go anywhere, in any order
    x = _numbers(tiles * n)
    y = x.reshape(tiles, n)[:, ::-1].ravel() + 1
    z = y[-n:][::-1]
    return Design(text, 1, n, lambda: [np.zeros_like(x), x.copy(), np.full(n, np.nan, np.float32)],
                  lambda _: {0: y, **({2: z.copy()} if after else {})}, harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    several_readers, named_ring, histogram, warp_work, early_leavers, bulk_stores)}
