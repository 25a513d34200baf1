"""Designs of roles and proxies: rings of tile numbers, multicast by rows and columns, memory of two uses, results that
bulk copies hand to other blocks or launches.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def tile_numbers(rng: random.Random) -> Design:
    """A warp draws tiles and puts their numbers into a ring; loaders and computing warps follow it, each at its speed,
    and have a ring of their own."""
    numbers, stages, tiles = rng.choice([1, 2, 4]), rng.choice([1, 2, 3]), rng.choice([3, 5])
    blocks, bulk = rng.choice([1, 2]), rng.random() < 0.5
    fill = ("""if lane == 0:
                    mo.mbarrier_arrive_expect_tx(sfull, j, 128)
                        #= few bytes: mo.mbarrier_arrive_expect_tx(sfull, j, 112)
                    mo.copyto(mo.BulkCopy(), s[:, j], mo.tile(x, (32,), (got,)), barrier=(sfull, j))""" if bulk else
            """s[lane, j] = x[got * 32 + lane]
                mo.sync_warp()                                          #- no warp barrier of the loader
                if lane == 0: mo.mbarrier_arrive(sfull, j)""")
    text = f"""
@mo.kernel
def program(y, x: mo.Static, ticket):
    tid, warp, lane = mo.thread_idx().x, mo.warp_idx(), mo.lane_idx()
    tile, full, empty = mo.shared_array(mo.int32, {numbers}), mo.mbarrier_array({numbers}), mo.mbarrier_array({numbers})
    s = mo.shared_array(mo.float32, (32, {stages}))
    sfull, sempty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({numbers}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)                               #= one reader: mo.mbarrier_init(empty, i, 1)
        for i in mo.static_range({stages}):
            mo.mbarrier_init(sfull, i, 1)
            mo.mbarrier_init(sempty, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    more, k, n = 1, 0, 0
    if warp == 0:
        while more > 0:
            if lane == 0:
                mo.mbarrier_wait(empty, k % {numbers}, (k // {numbers} & 1) ^ 1)        #- no empty wait
                got = mo.atomic_add(ticket, 0, 1)
                #+ told first: mo.mbarrier_arrive(full, k % {numbers})
                tile[k % {numbers}] = got
                mo.mbarrier_arrive(full, k % {numbers})                 #= told first: pass
                more = 1 if got < {tiles} else 0
            k += 1
            more = mo.shuffle_idx(more, 0)
    elif warp == 1:
        while more > 0:
            mo.mbarrier_wait(full, k % {numbers}, k // {numbers} & 1)   #- no full wait
            #+ given back first: if lane == 0: mo.mbarrier_arrive(empty, k % {numbers})
            got = tile[k % {numbers}]
            mo.sync_warp()                                              #- no warp barrier
            if lane == 0: mo.mbarrier_arrive(empty, k % {numbers})      #= given back first: pass
                #- loader keeps
            if got < {tiles}:
                j = n % {stages}
                if lane == 0: mo.mbarrier_wait(sempty, j, (n // {stages} & 1) ^ 1)
                mo.sync_warp()
                {fill}
                n += 1
            else: more = 0
            k += 1
    else:
        while more > 0:
            mo.mbarrier_wait(full, k % {numbers}, k // {numbers} & 1)
            got = tile[k % {numbers}]
            mo.sync_warp()
            if lane == 0: mo.mbarrier_arrive(empty, k % {numbers})
            if got < {tiles}:
                j = n % {stages}
                mo.mbarrier_wait(sfull, j, n // {stages} & 1)
                    #- no stage wait
                    #= parity of k: mo.mbarrier_wait(sfull, j, n & 1)
                y[got * 32 + lane] = s[31 - lane, j]
                mo.sync_warp()
                if lane == 0: mo.mbarrier_arrive(sempty, j)             #- never frees
                n += 1
            else: more = 0
            k += 1
"""
    x = _numbers(tiles * 32)
    harmless: set[str] = set()
    share = tiles if blocks == 1 else 0         # of two blocks nobody knows who gets how many
    if stages == 1 or tiles < 2:
        harmless |= {"parity of k"}
    if blocks == 2 or share <= stages:
        harmless |= {"never frees", "parity of k"}
    if blocks == 2 or tiles + 1 <= numbers:
        harmless |= {"no empty wait", "one reader", "loader keeps", "given back first", "no warp barrier"}
    return Design(text, blocks, 96, lambda: [np.full_like(x, np.nan), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: x.reshape(tiles, 32)[:, ::-1].ravel()}, harmless=frozenset(harmless))


def rows_and_columns(rng: random.Random) -> Design:
    """A cluster of two rows and columns: tiles of A go to a row, those of B to a column, each block loads a half."""
    stages, tiles, warps = rng.choice([1, 2, 3]), rng.choice([1, 2, 4, 5]), rng.choice([2, 3])
    part = 16 * warps                               # a tile is two parts
    copy_a = f"mo.copyto(mo.BulkCopy(), sa[:, c, s], mo.tile(a, ({part},), ((k * 2 + r) * 2 + c,)), barrier=(full, s)"
    copy_b = f"mo.copyto(mo.BulkCopy(), sb[:, r, s], mo.tile(b, ({part},), ((k * 2 + c) * 2 + r,)), barrier=(full, s)"
    text = f"""
@mo.kernel
def program(y, a: mo.Static, b: mo.Static):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    r, c = rank % 2, rank // 2
    sa, sb = mo.shared_array(mo.float32, ({part}, 2, {stages})), mo.shared_array(mo.float32, ({part}, 2, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 3)
                #= counts two: mo.mbarrier_init(empty, i, 2)
                #= counts four: mo.mbarrier_init(empty, i, 4)
        mo.fence_mbarrier_init()
    mo.cluster_sync()                                                       #= block barrier: mo.sync_threads()
    if tid == {2 * part}:
        for k in range({tiles}):
            s = k % {stages}
            mo.mbarrier_wait(empty, s, (k // {stages} & 1) ^ 1)             #- no empty wait
            mo.mbarrier_arrive_expect_tx(full, s, {16 * part})
                #= expects a alone: mo.mbarrier_arrive_expect_tx(full, s, {8 * part})
                #= expects its own: mo.mbarrier_arrive_expect_tx(full, s, {12 * part})
            {copy_a}, multicast=5 << r)
                #= to itself: {copy_a}, multicast=1 << rank)
                #= to the column: {copy_a}, multicast=3 << 2 * c)
            {copy_b}, multicast=3 << 2 * c)                                 #= to all: {copy_b}, multicast=15)
    elif tid < {2 * part}:
        total = mo.float32(0)
        for k in range({tiles}):
            s = k % {stages}
            mo.mbarrier_wait(full, s, k // {stages} & 1)                    #- no full wait
            total += sa[tid % {part}, tid // {part}, s] * sb[{part - 1} - tid % {part}, tid // {part}, s]
            mo.barrier_sync(1, {2 * part})                                  #- no barrier
            if tid < 4 and (tid % 2 == r or tid // 2 == c):
                #= to its row: if tid < 4 and tid % 2 == r:
                #= gives to all: if tid < 4:
                mo.mbarrier_arrive(empty, s, cta=tid)
        y[mo.block_idx().x * {2 * part} + tid] = total
    mo.cluster_sync()                                                       #- no last barrier
"""
    a, b = _numbers(tiles * 4 * part), _numbers(tiles * 4 * part, 1)
    A, B = (x.reshape(tiles, 2, 2, part) for x in (a, b))
    y = np.concatenate([(A[:, rank % 2] * B[:, rank // 2, :, ::-1]).sum(0).ravel() for rank in range(4)])
    harmless: set[str] = set()
    if tiles <= stages:
        harmless |= {"no empty wait", "counts two", "counts four", "no barrier", "to its row", "gives to all"}
    return Design(text, 4, 2 * part + 32, lambda: [np.full_like(y, np.nan), a.copy(), b.copy()], lambda _: {0: y},
                  cluster=(4, 1, 1), harmless=frozenset(harmless))


def used_again(rng: random.Random) -> Design:
    """The stages of a ring hold the result, as other numbers, when all tiles have been read."""
    stages, tiles, warps = rng.choice([1, 2, 3]), rng.choice([1, 3, 4]), rng.choice([1, 2])
    n, at = 32 * warps, rng.choice([0, stages - 1])
    text = f"""
@mo.kernel
def program(y: mo.Static, x: mo.Static):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, ({n}, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    out = mo.recast(s, mo.int32)
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {warps})
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= {n}:
        if tid == {n}:
            for k in range({tiles}):                                    #= ahead: for k in range({tiles + stages}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                source = mo.tile(x, ({n},), (k % {tiles},))
                mo.copyto(mo.BulkCopy(), s[:, k % {stages}], source, barrier=(full, k % {stages}))
    else:
        total = mo.float32(0)
        for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
            total += s[{n - 1} - tid, k % {stages}]
            mo.sync_warp()
            if tid % 32 == 0: mo.mbarrier_arrive(empty, k % {stages})
        mo.barrier_sync(1, {n})                                         #- no barrier before
        out[tid, {at}] = mo.int32(total)
        mo.fence_proxy_async()                                          #- no fence
        mo.barrier_sync(1, {n})                                         #- no barrier after
        if tid == 0:
            mo.copyto(mo.BulkCopy(), y, out[:, {at}])
            mo.tma_store_arrive()
            mo.tma_store_wait(0, read=True)                             #- no last wait
"""
    x = _numbers(tiles * n)
    harmless: set[str] = set()
    if warps == 1:
        harmless |= {"no barrier before", "no barrier after"}
    elif at >= tiles:                               # nobody has read it
        harmless |= {"no barrier before"}
    return Design(text, 1, n + 32, lambda: [np.zeros(n, np.int32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0).astype(np.int32)}, harmless=frozenset(harmless))


def told_by_bulk(rng: random.Random) -> Design:
    """Blocks store or add by bulk copies, wait until that is written, and tell another block, which reads it by loads
    or by a bulk copy; or threads write, and it is the bulk copy's proxy that must be told."""
    makers, warps, adds, fetches = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.random() < 0.5, rng.random() < 0.5
    plain = fetches and rng.random() < 0.5
    n = 32 * warps
    place = "0" if adds and not plain else "bid - 1"
    atom = "mo.BulkReduceAdd()" if adds else "mo.BulkCopy()"
    count = 1 if adds and not plain else makers
    make = f"""
        part[(bid - 1) * {n} + tid] = x[bid * {n} + tid]
        {'mo.fence_proxy_async()' if rng.random() < 0.5 else 'pass'}    #- no fence
        mo.sync_threads()                                               #- no barrier of the maker
""" if plain else f"""
        s[tid] = x[bid * {n} + tid]
        mo.fence_proxy_async()                                          #- no fence of the source
        mo.sync_threads()                                               #- no barrier of the maker
        if tid == 0:
            mo.copyto({atom}, mo.tile(part, ({n},), ({place},)), s)
            mo.tma_store_arrive()                                       #- no commit
            mo.tma_store_wait(0, read=False)
                #- no wait
                #= only read: mo.tma_store_wait(0, read=True)
                #= one left: mo.tma_store_wait(1, read=False)
"""
    fence = "mo.fence_proxy_async()" if plain else "pass"
    look = f"""
            for i in range({count}):
                {fence if plain else 'pass'}                            #- no fence
                mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
                mo.copyto(mo.BulkCopy(), s, mo.tile(part, ({n},), (i,)), barrier=(bar, 0))
                mo.mbarrier_wait(bar, 0, i & 1)
                for j in range({n}): got[j] = got[j] + s[j]
""" if fetches else ""
    read = "got[tid]" if fetches else " + ".join(f"part[{i * n} + tid]" for i in range(count))
    text = f"""
@mo.kernel
def program(y, x, part: mo.Static, flag):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, got, bar = mo.shared_array(mo.float32, {n}), mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1)
    got[tid] = 0
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if bid > 0:
{make}
        if tid == 0:
            mo.atomic_add(flag, 0, 1, order="release")
                #= relaxed flag: mo.atomic_add(flag, 0, 1)
                #= block scope: mo.atomic_add(flag, 0, 1, order="release", scope="cta")
    else:
        if tid == 0:
            while mo.load(flag, 0) < {makers}: pass
                #= relaxed look: while mo.load(flag, 0, order="relaxed") < {makers}: pass
                #= one too few: while mo.load(flag, 0) < {makers - 1}: pass
                #- no look
{look}
        mo.sync_threads()                                               #- no barrier of the reader
        y[tid] = {read}
"""
    x = _numbers((makers + 1) * n)
    y = x.reshape(makers + 1, n)[1:].sum(0)
    harmless = {"no barrier of the maker"} if warps == 1 and plain else set()
    if not plain:
        harmless |= {"no fence"}
    return Design(text, makers + 1, n, lambda: [np.full(n, np.nan, np.float32), x.copy(),
                  np.zeros(count * n, np.float32), np.zeros(1, np.int32)], lambda _: {0: y},
                  harmless=frozenset(harmless))


def dependent_roles(rng: random.Random) -> Design:
    """Launches that overlap: a thread loads weights ahead of the wait and the others' results behind it; those who add
    and store never wait themselves, but for its mbarriers."""
    warps, blocks, store = rng.choice([1, 2]), rng.choice([1, 2]), rng.random() < 0.5
    n = 32 * warps
    first, second = rng.choice([("mo.griddepcontrol_launch_dependents()", "pass"),
                                ("pass", "mo.griddepcontrol_launch_dependents()")])
    leave = f"""
        s[tid] = s[tid] + t[tid]
        mo.fence_proxy_async()                                          #- no fence
        mo.barrier_sync(1, {n})                                         #- no barrier
        if tid == 0:
            mo.copyto(mo.BulkCopy(), mo.tile(x, ({n},), (bid,)), s)
            mo.tma_store_arrive()
            mo.tma_store_wait(0, read=True)
""" if store else f"""
        x[bid * {n} + tid] = s[tid] + t[tid]
"""
    load = f"mo.copyto(mo.BulkCopy(), t, mo.tile(x, ({n},), (bid,)), barrier=(bar, 1))"
    text = f"""
@mo.kernel
def program(x: mo.Static, w: mo.Static):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, t, bar = mo.shared_array(mo.float32, {n}), mo.shared_array(mo.float32, {n}), mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.mbarrier_init(bar, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == {n}:
        mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
        mo.copyto(mo.BulkCopy(), s, mo.tile(w, ({n},), (bid,)), barrier=(bar, 0))
        mo.mbarrier_arrive_expect_tx(bar, 1, {4 * n})
        #+ loads before: {load}
        {first}
        mo.griddepcontrol_wait()                                        #- no wait
        {load}                                                          #= loads before: pass
        {second}
    elif tid < {n}:
        mo.mbarrier_wait(bar, 0, 0)                                     #- no wait for weights
        #+ stores before: x[bid * {n} + tid] = mo.float32(0)
        mo.mbarrier_wait(bar, 1, 0)                                     #- no wait for results
{leave}
"""
    x, w = _numbers(blocks * n), _numbers(blocks * n, 1)
    return Design(text, blocks, n + 32, lambda: [x.copy(), w.copy()], lambda _: {0: x + 3 * w}, launches=3,
                  dependent=True, harmless=frozenset({"no barrier"} if warps == 1 and store else ()))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    tile_numbers, rows_and_columns, used_again, told_by_bulk, dependent_roles)}
