"""Designs of asynchronous copies: groups of cp.async, rings over uneven rows, stages that are stored where they lie,
roles that end early, barriers of clusters in two parts, memory of several types.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def _ring(stages: int, readers: int) -> str:
    """A kernel's mbarriers of a ring: one thread fills a stage, so many give it back."""
    return f"""    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {readers})
        mo.fence_mbarrier_init()
    mo.sync_threads()
"""


def copy_groups(rng: random.Random) -> Design:
    """Helpers fetch tiles by cp.async and commit; all warps, or one of them, wait for their groups and then meet."""
    warps, stages, tiles = rng.choice([1, 2, 3]), rng.choice([2, 3, 4]), rng.choice([1, 2, 5, 7])
    n, alone = 32 * warps, warps > 1 and rng.random() < 0.4
    each = n // 32 if alone else 1
    who = "tid < 32" if alone else "tid < 1000"
    text = f"""
@mo.jit
def fetch(copy, s, x, k, tid):
    for i in mo.static_range({each}):
        at = tid + 32 * i
        mo.copyto(copy, mo.tile(s, (1,), (at,)), mo.tile(x, (1,), (k * {n} + at,)))

@mo.jit
def arrived(left: mo.Constexpr):
    mo.cp_async_wait(left)
    mo.sync_threads()                                                   #- no barrier

@mo.kernel
def program(y, x: mo.Static):
    tid = mo.thread_idx().x
    s, copy = mo.shared_array(mo.float32, ({n}, {stages})), mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    total = mo.float32(0)
    for k in mo.static_range({stages - 1}):
        if {who}:
            if k < {tiles}:
                fetch(copy, s[:, k], x, k, tid)
            mo.cp_async_commit()                                        #- no first commit
    for k in range({tiles}):
        #+ fetches first: if {who} and k + {stages - 1} < {tiles}:
        #+ fetches first:     fetch(copy, s[:, (k + {stages - 1}) % {stages}], x, k + {stages - 1}, tid)
        arrived({stages - 2})                                           #= permissive: arrived({stages - 1})
        if {who}:
            if k + {stages - 1} < {tiles}:                              #= fetches first: if k < 0:
                fetch(copy, s[:, (k + {stages - 1}) % {stages}], x, k + {stages - 1}, tid)
                    #= same stage: fetch(copy, s[:, k % {stages}], x, k + {stages - 1}, tid)
                #+ commits some: mo.cp_async_commit()
            mo.cp_async_commit()                                        #= commits some: pass
        total += s[{n - 1} - tid, k % {stages}]
        mo.sync_warp()
    y[tid] = total
"""
    harmless: set[str] = set()
    if warps == 1:
        harmless |= {"no barrier", "fetches first"}
    if tiles < stages:
        harmless |= {"fetches first", "same stage", "commits some"}
    if stages == 2:                     # nothing is in flight but what is waited for
        harmless |= {"commits some", "no first commit"}
    x = _numbers(tiles * n)
    return Design(text, 1, n, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0)}, harmless=frozenset(harmless))


def uneven_rows(rng: random.Random) -> Design:
    """A ring of bulk copies goes on from row to row, each of which has as many tiles as memory says, some none."""
    stages, rows, warps = rng.choice([1, 2, 3, 5]), rng.choice([2, 3, 4]), rng.choice([1, 2])
    trips = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rows)]
    trips[0] = max(trips[0], 1)
    trips[-1] = max(trips[-1], 1)
    n, most = 32 * warps, max(trips)
    carried = rng.random() < 0.5        # stage and parity are counted on, or computed from one count
    last = f"stage == {stages}"
    step = (f"stage += 1; parity = parity ^ 1 if {last} else parity; stage = 0 if {last} else stage"
            if carried else f"count += 1; stage = count % {stages}; parity = count // {stages} & 1")
    text = f"""
@mo.kernel
def program(y, x: mo.Static, trips):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, ({n}, {stages}))
{_ring(stages, warps)}    stage, parity, count = mo.int32(0), mo.int32(0), mo.int32(0)
    if tid >= {n}:
        if tid == {n}:
            for row in range({rows}):
                #+ producer begins anew: stage, parity, count = mo.int32(0), mo.int32(0), mo.int32(0)
                for k in range(trips[row]):             #= one tile fewer: for k in range(trips[row] - 1):
                    mo.mbarrier_wait(empty, stage, parity ^ 1)
                        #- no empty wait
                        #= other parity: mo.mbarrier_wait(empty, stage, parity)
                    mo.mbarrier_arrive_expect_tx(full, stage, {4 * n})
                    filled = (full, stage)
                    mo.copyto(mo.BulkCopy(), s[:, stage], mo.tile(x, ({n},), (row * {most} + k,)), barrier=filled)
                    {step}
    else:
        for row in range({rows}):
            total = mo.float32(0)
            #+ reader begins anew: stage, parity, count = mo.int32(0), mo.int32(0), mo.int32(0)
            for k in range(trips[row]):
                #= leaves one out: for k in range(mo.max(trips[row] - 1, 0)):
                mo.mbarrier_wait(full, stage, parity)
                    #- no full wait
                    #= parity of the row: mo.mbarrier_wait(full, stage, k // {stages} & 1)
                total += s[{n - 1} - tid, stage]
                mo.sync_warp()
                if tid % 32 == 0: mo.mbarrier_arrive(empty, stage)
                    #= gives back another: if tid % 32 == 0: mo.mbarrier_arrive(empty, (stage + 1) % {stages})
                {step}
            y[row * {n} + tid] = total
"""
    x = _numbers(rows * most * n)
    data = x.reshape(rows, most, n)[:, :, ::-1]
    y = np.concatenate([data[r, :t].sum(0) for r, t in enumerate(trips)])
    total = sum(trips)
    starts = np.cumsum([0, *trips])[:-1]
    harmless: set[str] = set()
    if total <= stages:
        harmless |= {"no empty wait", "gives back another"}
    if stages == 1:
        harmless |= {"gives back another"}
    if all(((s + k) // stages & 1) == (k // stages & 1) for s, t in zip(starts, trips, strict=True) for k in range(t)):
        harmless |= {"parity of the row"}
    anew = [s for s, t in zip(starts, trips, strict=True) if t]
    if all(s % (2 * stages) == 0 for s in anew):
        harmless |= {"producer begins anew", "reader begins anew"}
    if max(trips) <= 1:
        harmless |= set()
    return Design(text, 1, n + 32, lambda: [np.full(rows * n, np.nan, np.float32), x.copy(),
                  np.array(trips, np.int32)], lambda _: {0: y}, harmless=frozenset(harmless))


def stored_in_place(rng: random.Random) -> Design:
    """Readers change a stage where it lies, a thread stores it from there, and then gives it back to who fills it."""
    stages, tiles, warps = rng.choice([1, 2, 3]), rng.choice([2, 4, 5]), rng.choice([1, 2, 3])
    n, bar = 32 * warps, rng.choice(["mo.barrier_sync(1, {n})", "mo.barrier_sync(1, {n})"])
    meet = bar.format(n=n)
    typed = rng.random() < 0.4          # what is changed is seen as words
    change = ("w = mo.recast(s, mo.int32); w[tid, stage] = w[tid, stage] + 1" if typed else
              "s[tid, stage] = s[tid, stage] + 1")
    text = f"""
@mo.kernel
def program(y: mo.Static, x: mo.Static):
    tid = mo.thread_idx().x
    s = mo.shared_array(x.dtype, ({n}, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= {n}:
        if tid == {n}:
            for k in range({tiles}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)          #- no empty wait
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                filled = (full, k % {stages})
                mo.copyto(mo.BulkCopy(), s[:, k % {stages}], mo.tile(x, ({n},), (k,)), barrier=filled)
    else:
        for k in range({tiles}):
            stage = k % {stages}
            mo.mbarrier_wait(full, stage, k // {stages} & 1)                            #- no full wait
            {change}
            mo.fence_proxy_async()
                #- no fence
                #= one fences: if tid == 0: mo.fence_proxy_async()
            {meet}
                #- no barrier
                #= other count: mo.barrier_sync(1, {n + 32})
            if tid == 0:
                #+ given back first: mo.mbarrier_arrive(empty, stage)
                mo.copyto(mo.BulkCopy(), mo.tile(y, ({n},), (k,)), s[:, stage])
                    #= other stage: mo.copyto(mo.BulkCopy(), mo.tile(y, ({n},), (k,)), s[:, (k + 1) % {stages}])
                mo.tma_store_arrive()                                                   #- no commit
                mo.tma_store_wait(0, read=True)
                    #- no wait
                    #= one in flight: mo.tma_store_wait(1, read=True)
                mo.mbarrier_arrive(empty, stage)                                        #= given back first: pass
"""
    x = np.random.default_rng(tiles).integers(-9, 10, tiles * n).astype(np.int32 if typed else np.float32)
    harmless: set[str] = set()
    if warps == 1:
        harmless |= {"no barrier", "one fences"} - {"one fences"}
    if stages == 1:
        harmless |= {"other stage"}
    if tiles <= stages:
        harmless |= {"no empty wait", "given back first"}
    return Design(text, 1, n + 32, lambda: [np.zeros_like(x), x.copy()], lambda _: {0: x + 1},
                  harmless=frozenset(harmless))


def roles_that_end(rng: random.Random) -> Design:
    """A warp fills stages and returns; the others go on, meet by named barriers, and then by the block's."""
    stages, tiles, warps = rng.choice([1, 2, 3]), rng.choice([2, 3, 5]), rng.choice([2, 3])
    n, whole = 32 * warps, rng.random() < 0.5
    meet = "mo.sync_threads()" if whole else f"mo.barrier_sync(2, {n})"
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s, sums = mo.shared_array(mo.float32, (32, {stages})), mo.shared_array(mo.float32, {n})
{_ring(stages, warps)}    if warp == {warps}:
        if tid % 32 == 0:
            for k in range({tiles}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)          #- no empty wait
                #+ leaves early: if k == {tiles - 1}: return
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, 128)
                filled = (full, k % {stages})
                mo.copyto(mo.BulkCopy(), s[:, k % {stages}], mo.tile(x, (32,), (k,)), barrier=filled)
        #+ waits in the role: mo.sync_threads()
        return                          #= goes past: pass
    if warp < {warps}:
        total = mo.float32(0)
        for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)                     #- no full wait
            total += s[(tid + warp) % 32, k % {stages}]
            mo.sync_warp()
            if tid % 32 == 0: mo.mbarrier_arrive(empty, k % {stages})
                #- never gives back
                #= some give back: if tid == 0: mo.mbarrier_arrive(empty, k % {stages})
        sums[tid] = total
        {meet}
            #- no barrier
            #= other count: mo.barrier_sync(2, {n + 32})
            #= too few: mo.barrier_sync(2, {n - 32})
            #= warp barrier: mo.sync_warp()
        y[tid] = sums[{n - 1} - tid]
"""
    x = _numbers(tiles * 32)
    at = np.arange(n)
    sums = x.reshape(tiles, 32).sum(0)[(at + at // 32) % 32]
    harmless = {"waits in the role"} if whole else {"goes past"}
    if tiles <= stages:
        harmless |= {"no empty wait", "never gives back", "some give back"}
    return Design(text, 1, n + 32, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: sums[::-1].copy()}, harmless=frozenset(harmless))


def arrive_and_wait(rng: random.Random) -> Design:
    """Blocks write to each other, arrive at the barrier of the cluster, do something else, and wait."""
    size, rounds, warps, remote = rng.choice([2, 3, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.random() < 0.5
    n = 32 * warps
    write, read = ("there[tid, r % 2] = mine", "s[{at}, r % 2]") if remote else ("s[tid, r % 2] = mine",
                                                                                  "there[{at}, r % 2]")
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout(({n}, 2)))
    own = mo.shared_array(mo.float32, {n})
    there = mo.map_shared_rank(s, (rank + 1) % {size})
    mine, more = x[block * {n} + tid], mo.float32(0)
    mo.cluster_arrive(relaxed=True)                                         #- no start
    mo.cluster_wait()                                                       #- no start
    for r in range({rounds}):
        {write}                                                             #= writes late: pass
        mo.cluster_arrive()
            #= relaxed: mo.cluster_arrive(relaxed=True)
            #= some arrive: if tid > 0: mo.cluster_arrive()
        #+ writes late: {write}
        #+ reads early: mine += {read.format(at=f"{n - 1} - tid")}
        own[tid] = mine
        mo.sync_threads()                                                   #- no block barrier
        more += own[tid ^ 33 % {n}]
        mo.sync_threads()                                                   #- no second block barrier
        mo.cluster_wait()
            #- no wait
            #= block barrier: mo.sync_threads()
        mine += {read.format(at=f"{n - 1} - tid")}                          #= reads early: pass
            #= other half: mine += {read.format(at=f"{n - 1} - tid").replace("r % 2", "(r + 1) % 2")}
    y[block * {n} + tid] = mine + more
    mo.cluster_arrive(); mo.cluster_wait()                                  #- no last barrier
"""
    x = _numbers(size * n)
    now, more, at = x.reshape(size, n).copy(), np.zeros((size, n), np.float32), np.arange(n) ^ (33 % n)
    for _ in range(rounds):
        more += now[:, at]
        now = now + np.roll(now, 1 if remote else -1, 0)[:, ::-1]
    harmless = {"no last barrier"} if remote else {"no start"}
    if warps == 1:                      # one warp reads its own elements back
        harmless |= set()
    if rounds == 1:
        harmless |= {"no second block barrier"}
    return Design(text, size, n, lambda: [np.full_like(x, np.nan), x.copy()], lambda _: {0: (now + more).ravel()},
                  cluster=(size, 1, 1), harmless=frozenset(harmless))


def of_other_types(rng: random.Random) -> Design:
    """A piece of shared memory holds floats, then words, then what a bulk copy brings, each in its time."""
    warps, times = rng.choice([1, 2, 4]), rng.choice([1, 2, 3])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid = mo.thread_idx().x
    pool, bar = mo.shared_array(mo.uint32, {n}), mo.mbarrier_array(1)
    floats, halves = mo.recast(pool, mo.float32), mo.recast(pool, mo.uint16)
    words = mo.recast(pool, mo.uint64)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = mo.float32(0)
    for k in range({times}):
        floats[tid] = mo.float32(k)
        mo.sync_threads()                                           #- no barrier after floats
        total += floats[{n - 1} - tid]
        mo.sync_threads()                                           #- no barrier before halves
        halves[2 * tid] = mo.uint16(tid)
        halves[2 * tid + 1] = mo.uint16(0)
        mo.sync_threads()                                           #- no barrier after halves
        total += mo.float32(pool[tid ^ 1])
        if tid < {n // 2}: total += mo.float32(words[tid] >> mo.uint64(32))
        mo.fence_proxy_async()                                      #- no fence before the copy
        mo.sync_threads()                                           #- no barrier before the copy
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
            mo.copyto(mo.BulkCopy(), floats, mo.tile(x, ({n},), (k,)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, k & 1)                             #- no wait
        total += floats[{n - 1} - tid]
        mo.sync_threads()                                           #- no last barrier
    y[tid] = total
"""
    x = _numbers(times * n)
    at = np.arange(n)
    add = (at ^ 1) + np.where(at < n // 2, 2 * at + 1, 0)
    y = x.reshape(times, n)[:, ::-1].sum(0) + times * add + sum(range(times))
    harmless = {"no last barrier"} if times == 1 else set()
    return Design(text, 1, n, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: y.astype(np.float32)}, harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    copy_groups, uneven_rows, stored_in_place, roles_that_end, arrive_and_wait, of_other_types)}
