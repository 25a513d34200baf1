"""Designs of stages: groups that take turns, tiles that leave through a ring, one block that loads for its cluster.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def taking_turns(rng: random.Random) -> Design:
    """Two groups of warps take tiles of one ring in turn; each computes while the other stores through one buffer."""
    # A wait cannot tell a phase from the one after the next: of one stage each group would have every other phase.
    stages, tiles, warps = rng.choice([2, 3, 4]), rng.choice([2, 3, 5, 6]), rng.choice([1, 2])
    n, both = 32 * warps, 64 * warps
    turn = f"mo.barrier_sync(1 + group, {both})"
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, lane = mo.thread_idx().x, mo.lane_idx()
    s, out = mo.shared_array(mo.float32, ({n}, {stages})), mo.shared_array(mo.float32, {n})
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {warps})
                #= both give back: mo.mbarrier_init(empty, i, {2 * warps})
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= {both}:
        if tid == {both}:
            for k in range({tiles}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)          #- no empty wait
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                mo.copyto(mo.BulkCopy(), s[:, k % {stages}], mo.tile(x, ({n},), (k,)), barrier=(full, k % {stages}))
    else:
        group, me = tid // {n}, tid % {n}
        if group == 1:
            mo.barrier_arrive(1, {both})                            #- nobody is first
        for k in range(group, {tiles}, 2):                          #= all tiles: for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
                #- no full wait
                #= parity of its own: mo.mbarrier_wait(full, k % {stages}, k // 2 // {stages} & 1)
            v = 2 * s[{n - 1} - me, k % {stages}]
            mo.sync_warp()                                          #- no warp barrier
            if lane == 0: mo.mbarrier_arrive(empty, k % {stages})   #- never gives back
            {turn}
                #- no turn
                #= the other's turn: mo.barrier_sync(2 - group, {both})
                #= one turn for both: mo.barrier_sync(1, {both})
                #= few threads: mo.barrier_sync(1 + group, {n})
            out[me] = v
            mo.barrier_sync(3 + group, {n})
                #- no group barrier
                #= barrier of all: mo.barrier_sync(3, {both})
            y[k * {n} + me] = out[me ^ {n - 1}]                     #= stored late: pass
            mo.barrier_arrive(2 - group, {both})
                #- turn kept
                #= turn to itself: mo.barrier_arrive(1 + group, {both})
            #+ stored late: y[k * {n} + me] = out[me ^ {n - 1}]
        if group == {tiles % 2}:                                    # who waits for the other's last arrival
            {turn}                                                  #- no last turn
"""
    x = _numbers(tiles * n)
    harmless: set[str] = {"no last turn"}                           # an arrival that nobody waits for is a lint
    if tiles <= stages:
        harmless |= {"no empty wait", "both give back", "never gives back", "no warp barrier"}
    if tiles % 2:                                                   # one group is done before the other begins
        harmless |= {"the other's turn"}
    if all(k // stages & 1 == k // 2 // stages & 1 for k in range(tiles)):
        harmless |= {"parity of its own"}
    return Design(text, 1, both + 32, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: 2 * x}, harmless=frozenset(harmless))


def copied_by_roles(rng: random.Random) -> Design:
    """Warps copy tiles by cp.async some stages ahead, and tell the computing warps by named barriers, one a stage."""
    stages, tiles, warps = rng.choice([2, 3]), rng.choice([2, 4, 5]), rng.choice([1, 2])
    ahead = rng.choice([a for a in (1, 2) if a < stages])
    n, both = 32 * warps, 64 * warps
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid = mo.thread_idx().x
    copy = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    s, me = mo.shared_array(mo.float32, ({n}, {stages})), tid % {n}
    if tid < {n}:
        for k in range({tiles} + {ahead}):
            if k < {tiles}:
                if k >= {stages}:
                    mo.barrier_sync({1 + stages} + k % {stages}, {both})            #- no empty wait
                mo.copyto(copy, mo.tile(s[:, k % {stages}], (1,), (me,)), mo.tile(x, (1,), (k * {n} + me,)))
                    #= other stage: mo.copyto(copy, mo.tile(s[:, 0], (1,), (me,)), mo.tile(x, (1,), (k * {n} + me,)))
                #+ commits some: mo.cp_async_commit()
            mo.cp_async_commit()                                                    #= commits some: pass
            if k >= {ahead}:
                #+ told first: mo.barrier_arrive(1 + (k - {ahead}) % {stages}, {both})
                mo.cp_async_wait({ahead})
                    #- no wait
                    #= permissive: mo.cp_async_wait({ahead + 1})
                mo.barrier_arrive(1 + (k - {ahead}) % {stages}, {both})
                    #= told first: pass
                    #- never told
                    #= told another: mo.barrier_arrive(1 + (k - {ahead} + 1) % {stages}, {both})
    else:
        total = mo.float32(0)
        for k in range({tiles}):
            mo.barrier_sync(1 + k % {stages}, {both})
                #- no full wait
                #= half the threads: mo.barrier_sync(1 + k % {stages}, {n})
            total += s[{n - 1} - me, k % {stages}]
            if k + {stages} < {tiles}:
                #= gives back one more: if k + {stages} <= {tiles}:
                #= gives back one less: if k + {stages} < {tiles - 1}:
                mo.barrier_arrive({1 + stages} + k % {stages}, {both})
        y[me] = total
"""
    x = _numbers(tiles * n)
    harmless: set[str] = set()
    if tiles <= stages:
        harmless |= {"no empty wait", "gives back one less", "told another"}
        if tiles < stages:
            harmless |= {"gives back one more"}
    harmless |= {"gives back one more"}                 # an arrival that nobody waits for is a lint
    return Design(text, 1, both, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0)}, harmless=frozenset(harmless))


def one_loads(rng: random.Random) -> Design:
    """One block of a cluster loads tiles for all; each says what it expects, and gives back to the one."""
    size, stages, tiles, warps = rng.choice([2, 4]), rng.choice([1, 2, 3]), rng.choice([2, 4, 5]), rng.choice([1, 2])
    n, everyone = 32 * warps, (1 << size) - 1
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    s = mo.shared_array(mo.float32, ({n}, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {size * warps})
                #= counts its own: mo.mbarrier_init(empty, i, {warps})
        mo.fence_mbarrier_init()                                    #- no init fence
    mo.cluster_sync()                                               #= block barrier: mo.sync_threads()
    if tid == 0:
        for i in mo.static_range({min(stages, tiles)}):
            mo.mbarrier_arrive_expect_tx(full, i, {4 * n})          #= expects nothing: mo.mbarrier_arrive(full, i)
    if tid == {n} and rank == 0:
        for k in range({tiles}):
            mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)              #- no empty wait
            filled = (full, k % {stages})
            tile, mask = mo.tile(x, ({n},), (k,)), {everyone}
                #= not the last: tile, mask = mo.tile(x, ({n},), (k,)), {everyone >> 1}
            mo.copyto(mo.BulkCopy(), s[:, k % {stages}], tile, barrier=filled, multicast=mask)
                #= only itself: mo.copyto(mo.BulkCopy(), s[:, k % {stages}], tile, barrier=filled)
    if tid < {n}:
        total = mo.float32(0)
        for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)                     #- no full wait
            total += s[{n - 1} - tid, k % {stages}]
            {f"mo.barrier_sync(1, {n})" if warps > 1 else "mo.sync_warp()"}             #- no barrier before the next
            if tid == 0 and k + {stages} < {tiles}:
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                    #= few bytes: mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n - 16})
                    #= expects no more: pass
            {f"mo.barrier_sync(1, {n})" if warps > 1 else "mo.sync_warp()"}             #- no barrier behind the next
            if tid % 32 == 0:
                mo.mbarrier_arrive(empty, k % {stages}, cta=0)
                    #= gives back to itself: mo.mbarrier_arrive(empty, k % {stages})
                    #- never gives back
        y[block * {n} + tid] = total
    mo.cluster_sync()                                               #- no last barrier
"""
    x = _numbers(tiles * n)
    harmless: set[str] = set()
    if tiles <= stages:
        harmless |= {"no empty wait", "counts its own", "gives back to itself", "never gives back", "few bytes",
                     "expects no more"}
    # One barrier is enough between reads and refill, and bytes may come before they are expected.
    harmless |= {"no barrier before the next", "no barrier behind the next"}
    return Design(text, size, n + 32, lambda: [np.full(size * n, np.nan, np.float32), x.copy()],
                  lambda _: {0: np.tile(x.reshape(tiles, n)[:, ::-1].sum(0), size)}, cluster=(size, 1, 1),
                  harmless=frozenset(harmless))


def sent_to_first(rng: random.Random) -> Design:
    """Blocks send their sums to the first of the cluster by bulk copies, and get the total back."""
    size, rounds, warps = rng.choice([2, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    mine, inbox = mo.shared_array(mo.float32, {n}), mo.shared_array(mo.float32, ({n}, {size}))
    total, full, back = mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, {size})                           #= counts one: mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(back, 0, 2)
        mo.fence_mbarrier_init()
    mo.cluster_sync()                                               #= block barrier: mo.sync_threads()
    v = x[block * {n} + tid]
    for r in range({rounds}):
        mine[tid] = v
        mo.fence_proxy_async()
            #- no fence
            #= one fences: if tid == 0: mo.fence_proxy_async()
        mo.sync_threads()                                           #- no barrier
        if tid == 0:
            if rank == 0:
                mo.mbarrier_expect_tx(full, 0, {4 * n * size})
                    #= few bytes: mo.mbarrier_expect_tx(full, 0, {4 * n * (size - 1)})
                    #= many bytes: mo.mbarrier_expect_tx(full, 0, {4 * n * (size + 1)})
            mo.mbarrier_arrive_expect_tx(back, 0, {4 * n})          #= expects no answer: mo.mbarrier_arrive(back, 0)
            there = mo.map_shared_rank(inbox[:, rank], 0)
                #= same place: there = mo.map_shared_rank(inbox[:, 0], 0)
                #= to the next: there = mo.map_shared_rank(inbox[:, rank], (rank + 1) % {size})
            mo.copyto(mo.BulkCopy(), there, mine, barrier=(full, 0))
            mo.mbarrier_arrive(full, 0, cta=0)                      #= arrives at its own: mo.mbarrier_arrive(full, 0)
        if rank == 0:
            mo.mbarrier_wait(full, 0, r & 1)                        #- no wait
            t = mo.float32(0)
            for other in range({size}): t += inbox[{n - 1} - tid, other]
            total[tid] = t
            mo.fence_proxy_async()                                  #- no second fence
            mo.sync_threads()                                       #- no second barrier
            if tid < {size}:
                mo.copyto(mo.BulkCopy(), mo.map_shared_rank(mine, tid), total, barrier=(back, 0))
                mo.mbarrier_arrive(back, 0, cta=tid)                # the copy alone says nothing of what was read here
        mo.mbarrier_wait(back, 0, r & 1)
            #- no answer
            #= other parity: mo.mbarrier_wait(back, 0, (r & 1) ^ 1)
        v = mine[tid]
        mo.sync_threads()                                           #- no third barrier
    y[block * {n} + tid] = v
    mo.cluster_sync()                                               #- no last barrier
"""
    x = _numbers(size * n)
    now = x.reshape(size, n)
    for _ in range(rounds):
        now = np.tile(now.sum(0)[::-1], (size, 1))
    harmless = {"no third barrier"}                                 # who goes on has been answered
    return Design(text, size, n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: now.ravel().astype(np.float32)}, cluster=(size, 1, 1), harmless=frozenset(harmless))


def asked_often(rng: random.Random) -> Design:
    """A consumer asks whether its stage is full, counts what it does meanwhile, and goes on once it is."""
    stages, tiles = rng.choice([1, 2, 3]), rng.choice([2, 3, 5])
    n, way = 32, rng.choice(["loop", "first", "few"])
    ask = {"loop": "while not mo.mbarrier_try_wait(full, s, p): idle += 1",
           "first": "if not mo.mbarrier_try_wait(full, s, p): mo.mbarrier_wait(full, s, p)",
           "few": "tries = 0\n            while not mo.mbarrier_try_wait(full, s, p) and tries < 3: tries += 1\n"
                  "            if tries == 3: mo.mbarrier_wait(full, s, p)"}[way]
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, idle = mo.thread_idx().x, 0
    ring = mo.shared_array(mo.float32, ({n}, {stages}))
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
                s = k % {stages}
                while not mo.mbarrier_try_wait(empty, s, (k // {stages} & 1) ^ 1): pass
                    #- no empty wait
                    #= asks once: mo.mbarrier_try_wait(empty, s, (k // {stages} & 1) ^ 1)
                mo.mbarrier_arrive_expect_tx(full, s, {4 * n})
                mo.copyto(mo.BulkCopy(), ring[:, s], mo.tile(x, ({n},), (k,)), barrier=(full, s))
    else:
        total = mo.float32(0)
        for k in range({tiles}):
            s, p = k % {stages}, k // {stages} & 1
            {ask}
                #- no full wait
                #= does not heed: mo.mbarrier_try_wait(full, s, p)
                #= heeds wrongly: idle += mo.where(mo.mbarrier_try_wait(full, s, p), 1, 0)
                #= other parity: while not mo.mbarrier_try_wait(full, s, p ^ 1): pass
            total += ring[{n - 1} - tid, s]
            mo.sync_warp()                                          #- no warp barrier
            if tid == 0: mo.mbarrier_arrive(empty, s)               #- never gives back
        y[tid] = total + 0 * idle
"""
    x = _numbers(tiles * n)
    harmless = set[str]()
    if tiles <= stages:
        harmless |= {"no empty wait", "asks once", "no warp barrier", "never gives back"}
    return Design(text, 1, 2 * n, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0)}, harmless=frozenset(harmless))


def made_again(rng: random.Random) -> Design:
    """A block's mbarriers are initialised again for a second part, with other counts."""
    warps, tiles = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = mo.float32(0)
    for k in range({tiles}):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
            mo.copyto(mo.BulkCopy(), s, mo.tile(x, ({n},), (k,)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, k & 1)                             #- no wait
        total += s[{n - 1} - tid]
        mo.sync_threads()                                           #- no barrier
    if tid == 0:
        mo.mbarrier_init(bar, 0, {n})
            #= not again: pass
            #= as before: mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()                                               #- no barrier behind
    s[tid] = total
    mo.mbarrier_arrive(bar, 0)                                      #- no arrival
    mo.mbarrier_wait(bar, 0, 0)
        #- no second wait
        #= parity goes on: mo.mbarrier_wait(bar, 0, {tiles} & 1)
    y[tid] = s[{n - 1} - tid]
"""
    x = _numbers(tiles * n)
    harmless = set[str]()
    if tiles % 2 == 0:
        harmless |= {"parity goes on"}
    return Design(text, 1, n, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n).sum(0)}, harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    taking_turns, copied_by_roles, one_loads, sent_to_first, asked_often, made_again)}
