"""Designs of clusters: memory of other blocks, rings through a cluster, multicast, early leavers, shapes of clusters.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def _shape(rng: random.Random, sizes: list[int]) -> tuple[tuple[int, int, int], int]:
    """A cluster along any axes, and its blocks."""
    size = rng.choice(sizes)
    shape = rng.choice([s for s in ((size, 1, 1), (1, size, 1), (1, 1, size), (2, size // 2, 1), (1, 2, size // 2))
                        if np.prod(s) == size])
    return shape, size


def exchange(rng: random.Random) -> Design:
    """Each block reads what the next one of its cluster has written, several times."""
    warps, rounds, buffers = rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    shape, size = _shape(rng, [2, 4])
    clusters, n, split = rng.choice([1, 2]), 32 * warps, rng.random() < 0.5
    grid = (shape[0] * clusters, shape[1], shape[2])
    meet = "mo.cluster_arrive(); mo.cluster_wait()" if split else "mo.cluster_sync()"
    second = "mo.cluster_sync()" if buffers == 1 else "pass"
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    bx, by, bz = mo.block_idx()
    block = bx + {grid[0]} * (by + {grid[1]} * bz)
    s = mo.shared_array(mo.float32, mo.make_layout(({n}, {buffers})))
    mine = x[block * {n} + tid]
    for r in mo.static_range({rounds}):
        s[tid, r % {buffers}] = mine                                #= one buffer: s[tid, 0] = mine
        {meet}
            #- no barrier
            #= block barrier: mo.sync_threads()
            #= relaxed: mo.cluster_arrive(relaxed=True); mo.cluster_wait()
            #= waits only: mo.cluster_wait()
            #= some: if tid > 0: mo.cluster_sync()
        there = mo.map_shared_rank(s, (rank + 1) % {size})
            #= beyond the cluster: there = mo.map_shared_rank(s, rank + 1)
        mine += there[{n - 1} - tid, r % {buffers}]
            #= one past: mine += there[{n} - tid, r % {buffers}]
            #= one buffer: mine += there[{n - 1} - tid, 0]
        {second}                            #- no second barrier
    y[block * {n} + tid] = mine
    #+ leaves early: if rank == 0: return
    mo.cluster_sync()
        #- no last barrier
        #= arrives at the end: mo.cluster_arrive()
"""
    total = grid[0] * grid[1] * grid[2]
    x = _numbers(total * n)
    blocks = np.arange(total)
    bx, by, bz = blocks % grid[0], blocks // grid[0] % grid[1], blocks // (grid[0] * grid[1])
    rank = bx % shape[0] + shape[0] * (by % shape[1] + shape[1] * (bz % shape[2]))
    key = {(bx[b] // shape[0], rank[b]): b for b in blocks}
    after = np.array([key[bx[b] // shape[0], (rank[b] + 1) % size] for b in blocks])
    now = x.reshape(total, n)
    for _ in range(rounds):
        now = now + now[after][:, ::-1]
    harmless: set[str] = set()
    if buffers == 1:                    # a barrier behind the last look
        harmless |= {"no last barrier", "arrives at the end", "leaves early"}
    if buffers == 2 or rounds == 1:
        harmless |= {"no second barrier"}
    if rounds == 1 or buffers == 1:
        harmless |= {"one buffer"}
    return Design(text, grid, n, lambda: [np.full_like(x, np.nan), x.copy()],          # type: ignore[arg-type]
                  lambda _: {0: now.ravel().astype(np.float32)}, cluster=shape, harmless=frozenset(harmless))


def passed_on(rng: random.Random) -> Design:
    """Stages go round a cluster by st_async, with an mbarrier that says they are full and one that they are free."""
    warps, rounds, stages = rng.choice([1, 2]), rng.choice([2, 3, 5]), rng.choice([1, 2, 3])
    size, clusters = rng.choice([2, 3, 4]), rng.choice([1, 2])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((1, {n}, {stages})))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {n})
                #= one fewer: mo.mbarrier_init(empty, i, {n - 1})
                #= one more: mo.mbarrier_init(empty, i, {n + 1})
        mo.fence_mbarrier_init()                                #- no init fence
    mo.cluster_sync()
        #- no cluster barrier after init
        #= block barrier after init: mo.sync_threads()
    after, before = (rank + 1) % {size}, (rank + {size - 1}) % {size}
    there = mo.map_shared_rank(s, after)
    held = mo.fragment((1,), mo.float32)
    held[0] = x[block * {n} + tid]
    for k in range({rounds}):
        stage, turn = k % {stages}, k // {stages} & 1
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, stage, {4 * n})
                #= few bytes: mo.mbarrier_arrive_expect_tx(full, stage, {4 * n - 4})
                #= many bytes: mo.mbarrier_arrive_expect_tx(full, stage, {4 * n + 4})
                #= no expect: mo.mbarrier_arrive(full, stage)
        mo.mbarrier_wait(empty, stage, turn ^ 1)
            #- no empty wait
            #= other parity: mo.mbarrier_wait(empty, stage, turn)
        mo.st_async(there[:, tid, stage], held, barrier=(full, stage))
        mo.mbarrier_wait(full, stage, turn)                     #- no full wait
        held[0] = s[0, tid, stage] + 1
            #= neighbour: held[0] = s[0, tid ^ 1, stage] + 1
        mo.mbarrier_arrive(empty, stage, cta=before)
            #= frees its own: mo.mbarrier_arrive(empty, stage)
            #- never frees
    y[block * {n} + tid] = held[0]
    mo.cluster_sync()                                           #- no last barrier
"""
    x = _numbers(size * clusters * n)
    y = np.roll(x.reshape(clusters, size, n), rounds, axis=1).ravel() + rounds
    harmless = {"neighbour", "no init fence"}           # no engine of bulk copies uses the barriers
    if rounds <= stages:
        harmless |= {"no empty wait", "one fewer", "one more", "never frees", "frees its own"}
    return Design(text, size * clusters, n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: y}, cluster=(size, 1, 1), harmless=frozenset(harmless))


def multicast(rng: random.Random) -> Design:
    """Each block of a cluster loads a part of each tile for all of them; all give a stage back to all who fill it."""
    size, stages, tiles = rng.choice([2, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2, 4, 5])
    warps, clusters = rng.choice([1, 2]), rng.choice([1, 2])
    n = 32 * warps
    part = n // size
    everyone = (1 << size) - 1
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout(({part}, {size}, {stages})))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {size * warps})
                #= counts its own: mo.mbarrier_init(empty, i, {warps})
                #= one more: mo.mbarrier_init(empty, i, {size * warps + 1})
        mo.fence_mbarrier_init()                                    #- no init fence
    mo.cluster_sync()
        #- no cluster barrier after init
        #= block barrier after init: mo.sync_threads()
    if tid >= {n}:
        if tid == {n}:
            for k in range({tiles}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)      #- no empty wait
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                    #= its part alone: mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * part})
                    #= a part more: mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n + 4 * part})
                part, filled = s[:, rank, k % {stages}], (full, k % {stages})
                    #= same part: part, filled = s[:, 0, k % {stages}], (full, k % {stages})
                source = mo.tile(x, ({part},), (k * {size} + rank,))
                mo.copyto(mo.BulkCopy(), part, source, barrier=filled, multicast={everyone})
                  #= without the last: mo.copyto(mo.BulkCopy(), part, source, barrier=filled, multicast={everyone >> 1})
                  #= to one beyond: mo.copyto(mo.BulkCopy(), part, source, barrier=filled, multicast={2 * everyone + 1})
                    #= to itself: mo.copyto(mo.BulkCopy(), part, source, barrier=filled)
    else:
        total = mo.float32(0)
        for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
                #- no full wait
                #= other parity: mo.mbarrier_wait(full, k % {stages}, (k // {stages} & 1) ^ 1)
            total += s[({n} - 1 - tid) % {part}, ({n} - 1 - tid) // {part}, k % {stages}]
            mo.sync_warp()                                          #- no warp barrier
            if tid % 32 == 0:
                for other in mo.static_range({size}):
                    #= not to all: for other in mo.static_range({size - 1}):
                    mo.mbarrier_arrive(empty, k % {stages}, cta=other)
        y[block * {n} + tid] = total
    mo.cluster_sync()                                               #- no last barrier
"""
    x = _numbers(tiles * n)
    y = np.tile(x.reshape(tiles, n)[:, ::-1].sum(0), size * clusters)
    harmless: set[str] = set()
    if tiles <= stages:
        harmless |= {"no empty wait", "counts its own", "one more", "no warp barrier", "not to all"}
    return Design(text, size * clusters, n + 32, lambda: [np.full(len(y), np.nan, np.float32), x.copy()],
                  lambda _: {0: y}, cluster=(size, 1, 1), harmless=frozenset(harmless))


def sums_of_all(rng: random.Random) -> Design:
    """Each thread adds to a cell of every block: by atomics, or by red_async that an mbarrier waits for."""
    warps, size, engine = rng.choice([1, 2]), rng.choice([2, 3, 4]), rng.random() < 0.5
    n = 32 * warps
    place = "mo.tile(there, (1,), (tid,))"
    add = (f"mo.red_async({place}, x[block * {n} + tid] + other, 'add', barrier=(full, 0))" if engine else
           f"mo.atomic_add(there, tid, x[block * {n} + tid] + other)")
    expect = f"mo.mbarrier_arrive_expect_tx(full, 0, {size * n * 4})" if engine else "pass"
    few = f"mo.mbarrier_arrive_expect_tx(full, 0, {size * n * 4 - 4})" if engine else "pass"
    wait = "mo.mbarrier_wait(full, 0, 0)" if engine else "mo.cluster_sync()"
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s, full = mo.shared_array(mo.int32, {n}), mo.mbarrier_array(1)
    s[tid] = 0                                              #- not set
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        {expect}                                            #= few bytes: {few}
    mo.cluster_sync()
        #- no barrier before
        #= block barrier: mo.sync_threads()
    for other in range({size}):
        there = mo.map_shared_rank(s, other)
        {add}
            #= plain: there[tid] = there[tid] + x[block * {n} + tid] + other
    {wait}
        #- no wait
        #= waits in the block: mo.sync_threads()
    y[block * {n} + tid] = s[tid]                           #= neighbour: y[block * {n} + tid] = s[tid ^ 1]
    mo.cluster_sync()                                       #- no last barrier
"""
    x = np.random.default_rng(n).integers(-9, 10, size * n).astype(np.int32)
    y = np.concatenate([x.reshape(size, n).sum(0) + size * r for r in range(size)]).astype(np.int32)
    harmless = {"neighbour", "no last barrier"}
    if not engine:
        harmless |= {"few bytes"}
    return Design(text, size, n, lambda: [np.full_like(x, -1), x.copy()], lambda _: {0: y}, cluster=(size, 1, 1),
                  harmless=frozenset(harmless))


def led(rng: random.Random) -> Design:
    """The first block of a cluster takes tiles from a counter and tells the others through their shared memory."""
    size, warps, tiles, clusters = rng.choice([2, 4]), rng.choice([1, 2]), rng.choice([3, 5]), rng.choice([1, 2])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x, ticket):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    taken = mo.shared_array(mo.int32, 1)
    more = 1
    mo.cluster_sync()                                       #- no first barrier
    while more > 0:
        if rank == 0 and tid < {size}:
            lead = 0
            if tid == 0:
                lead = mo.atomic_add(ticket, 0, 1)
            lead = mo.shuffle_idx(lead, 0, mask={(1 << size) - 1})
            there = mo.map_shared_rank(taken, tid)
                #= to itself alone: there = mo.map_shared_rank(taken, 0)
            there[0] = lead
        mo.cluster_sync()
            #- no barrier
            #= block barrier: mo.sync_threads()
            #= relaxed: mo.cluster_arrive(relaxed=True); mo.cluster_wait()
        tile = taken[0]
        mo.cluster_sync()
            #- no second barrier
            #= second in the block: mo.sync_threads()
        if tile < {tiles}:                                  #= one tile more: if tile <= {tiles}:
            at = (tile * {size} + rank) * {n} + tid
            y[at] = 2 * x[at]
        else:
            more = 0
    mo.cluster_sync()
"""
    x = _numbers(tiles * size * n)
    return Design(text, size * clusters, n, lambda: [np.full_like(x, np.nan), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: 2 * x}, cluster=(size, 1, 1), harmless=frozenset())


FAMILIES: dict[str, Any] = {f.__name__: f for f in (exchange, passed_on, multicast, sums_of_all, led)}
