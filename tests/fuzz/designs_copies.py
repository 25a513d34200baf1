"""Designs of copies: tiles by TMA there and back, transposes, matrices by ldmatrix, scans and counts of several levels.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import moye as mo
from fuzz.designs import Design

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 2)), (32, 32, 16))
LDMATRIX = mo.CopyAtom(mo.LdMatrix(4), mo.float16)
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float16), mo.make_layout((16, 8), (8, 1)),
                          mo.make_layout((1, 8)))
ATOM = mo.smem_layout_atom(mo.float16, "k")


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def there_and_back(rng: random.Random) -> Design:
    """Tiles come by TMA into one ring, are changed, and leave by TMA from another one, or are added to an array."""
    stages, outs, tiles = rng.choice([1, 2, 3]), rng.choice([1, 2, 3]), rng.choice([2, 4, 5])
    warps = rng.choice([1, 2, 4])
    swizzled, adds, n = rng.random() < 0.5, rng.random() < 0.5, 32 * warps
    rows = f"for i in range(tid, 256, {n}):"
    text = f"""
@mo.kernel
def program(load, store, y):
    tid = mo.thread_idx().x
    sX = mo.shared_array(load.dtype, mo.tile_to_shape(load.smem_layout, (8, 32, {stages})))
    sY = mo.shared_array(load.dtype, mo.tile_to_shape(load.smem_layout, (8, 32, {outs})))
    gX, gY = mo.tile(load.tensor, load.tile, (None, 0)), mo.tile(store.tensor, store.tile, (None, 0))
    full = mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}): mo.mbarrier_init(full, i, 1)
        mo.fence_mbarrier_init()
        for i in mo.static_range({min(stages, tiles)}):
            mo.mbarrier_arrive_expect_tx(full, i, load.bytes)
                #= few bytes: mo.mbarrier_arrive_expect_tx(full, i, load.bytes - 128)
                #= many bytes: mo.mbarrier_arrive_expect_tx(full, i, load.bytes + 16)
            mo.copyto(load, sX[:, :, i], gX[:, :, i], barrier=(full, i))
    mo.sync_threads()
    for k in range({tiles}):
        s, o = k % {stages}, k % {outs}                         #= one buffer: s, o = k % {stages}, 0
        if tid == 0:
            mo.tma_store_wait({outs - 1}, read=True)
                #- no store wait
                #= waits too little: mo.tma_store_wait({outs}, read=True)
        mo.sync_threads()                                       #- no barrier before
        mo.mbarrier_wait(full, s, k // {stages} & 1)
            #- no full wait
            #= one waits: if tid == 0: mo.mbarrier_wait(full, s, k // {stages} & 1)
        {rows}
            sY[i // 32, i % 32, o] = 2 * sX[i // 32, 31 - i % 32, s]
                #= other stage: sY[i // 32, i % 32, o] = 2 * sX[i // 32, 31 - i % 32, (s + 1) % {stages}]
        mo.fence_proxy_async()
            #- no proxy fence
            #= one fences: if tid == 0: mo.fence_proxy_async()
        mo.sync_threads()                                       #- no barrier behind
        if tid == 0:
            mo.copyto(store, gY[:, :, k], sY[:, :, o])
                #= by all: pass
            mo.tma_store_arrive()                               #- no commit
            if k + {stages} < {tiles}:
                mo.mbarrier_arrive_expect_tx(full, s, load.bytes)
                mo.copyto(load, sX[:, :, s], gX[:, :, k + {stages}], barrier=(full, s))
        #+ by all: mo.copyto(store, gY[:, :, k], sY[:, :, o])
    if tid == 0:
        mo.tma_store_wait(0)                                    #- no last wait
"""
    x = _numbers(256 * tiles).reshape(8 * tiles, 32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (8, 32)) if swizzled else \
        mo.make_layout((8, 32), (32, 1))

    def arrays() -> list[Any]:
        y = np.ones_like(x) if adds else np.full_like(x, np.nan)
        return [mo.make_tma_copy(mo.TmaLoad(), x.copy(), layout),
                mo.make_tma_copy(mo.TmaReduceAdd() if adds else mo.TmaStore(), y, layout), y]
    harmless: set[str] = set()
    if tiles <= outs:
        harmless |= {"no store wait", "waits too little"}
    if stages == 1:
        harmless |= {"other stage"}
    if outs == 1:
        harmless |= {"one buffer"}
    if warps == 1:
        harmless |= {"no barrier before"} if tiles <= outs else set()
    return Design(text, 1, n, arrays, lambda _: {2: 2 * x[:, ::-1] + adds}, harmless=frozenset(harmless))


def transposed(rng: random.Random) -> Design:
    """Tiles are transposed through one or two buffers, padded or swizzled by hand."""
    buffers, tiles, warps = rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.choice([1, 2, 4, 8])
    padded, n = rng.random() < 0.5, 32 * warps
    store, load = ("s[r, c, b]", "s[c, r, b]") if padded else ("s[r, c ^ r, b]", "s[c, r ^ c, b]")
    second = "mo.sync_threads()" if buffers == 1 else "pass"
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, mo.make_layout((32, 32, {buffers}), ({33 if padded else 32}, 1, 1056)))
    for k in range({tiles}):
        b = k % {buffers}                                       #= one buffer: b = 0
        for i in range(tid, 1024, {n}):                         #= some rows: for i in range(tid, 992, {n}):
            r, c = i // 32, i % 32
            {store} = x[k, r, c]                                #= no swizzle: s[r, c, b] = x[k, r, c]
        mo.sync_threads()
            #- no barrier
            #= warp barrier: mo.sync_warp()
        for i in range(tid, 1024, {n}):
            r, c = i // 32, i % 32
            y[k, r, c] = {load}
                #= row too far: y[k, r, c] = {load.replace("[c,", "[c + 1,")}
        {second}                                                #- no second barrier
"""
    x = _numbers(1024 * tiles).reshape(tiles, 32, 32)
    harmless: set[str] = {"no swizzle"}                         # each element is there, in another place
    if buffers == 1:
        harmless |= {"one buffer"}
    if buffers == 2 or tiles == 1:
        harmless |= {"no second barrier"}
    if tiles <= 1 or buffers == 1:
        harmless |= {"one buffer"}
    if warps == 1:
        harmless |= {"warp barrier"}
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: x.transpose(0, 2, 1).copy()}, harmless=frozenset(harmless))


def matrices(rng: random.Random) -> Design:
    """A product by mma.sync: cp.async some tiles ahead, ldmatrix, and a barrier or two a tile."""
    stages, tiles = rng.choice([2, 3, 4]), rng.choice([2, 3, 5])
    early = rng.random() < 0.5                                  # one barrier a tile: fetch behind it
    fetch = (f"if k + {stages - 1} < {tiles}:\n"
             f"            fetch(copy, sA, sB, gA, gB, k + {stages - 1}, (k + {stages - 1}) % {stages}, tid)\n"
             f"        mo.cp_async_commit()                                #- no commit")
    text = f"""
@mo.jit
def fetch(copy, sA, sB, gA, gB, k, s, tid):
    thr = copy.get_slice(tid)
    mo.copyto(copy, thr.partition_D(sA[:, :, s]), thr.partition_S(gA[:, :, k]))
    mo.copyto(copy, thr.partition_D(sB[:, :, s]), thr.partition_S(gB[:, :, k]))


@mo.kernel
def program(C, A: mo.Static, B: mo.Static, layout, mma, load_A, load_B, copy):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)                 # (32, 64, stages)
    gA, gB = mo.tile(A, (32, 64), (0, None)), mo.tile(B, (32, 64), (0, None))                   # (32, 64, k)
    thr, thr_A, thr_B = mma.get_slice(tid), load_A.get_slice(tid), load_B.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA[:, :, 0]), thr.partition_fragment_B(sB[:, :, 0])
    tCgC = thr.partition_C(mo.tile(C, (32, 32), (0, 0)))
    acc = thr.make_fragment_C(tCgC)
    acc.fill(0)                                                 #- not set
    for j in mo.static_range({stages - 1}):
        if j < {tiles}: fetch(copy, sA, sB, gA, gB, j, j, tid)
        mo.cp_async_commit()                                    #- no first commit
    for k in range({tiles}):
        {fetch if not early else "pass"}
        mo.cp_async_wait({stages - 1 if not early else stages - 2})
            #- no wait
            #= permissive: mo.cp_async_wait({stages if not early else stages - 1})
        mo.sync_threads()
            #- no barrier
            #= warp barrier: mo.sync_warp()
        {fetch if early else "pass"}
        s = k % {stages}                                        #= next stage: s = (k + 1) % {stages}
        mo.copyto(load_A, thr_A.retile_D(tCrA), thr_A.partition_S(sA[:, :, s]))
            #= some warps: if tid < 48: mo.copyto(load_A, thr_A.retile_D(tCrA), thr_A.partition_S(sA[:, :, s]))
        mo.copyto(load_B, thr_B.retile_D(tCrB), thr_B.partition_S(sB[:, :, s]))
        mo.gemm(mma, tCrA, tCrB, acc)
        {"mo.sync_threads()" if not early else "pass"}          #- no second barrier
    mo.copyto(tCgC, acc)
"""
    data = np.random.default_rng(tiles)
    A, B = (data.integers(-2, 3, (32, 64 * tiles)).astype(np.float16) for _ in range(2))
    C = A.astype(np.float32) @ B.astype(np.float32).T
    harmless: set[str] = set()
    if early:
        harmless |= {"no second barrier"}
    if tiles <= stages:
        harmless |= {"no second barrier"}
    if stages == 2 and early:
        harmless |= {"no commit", "no first commit"}            # everything is waited for
    return Design(text, 1, 128, lambda: [np.full((32, 32), np.nan, np.float32), A.copy(), B.copy(),
                  mo.tile_to_shape(ATOM, (32, 64, stages)), MMA, mo.make_tiled_copy_A(LDMATRIX, MMA),
                  mo.make_tiled_copy_B(LDMATRIX, MMA), COPY], lambda _: {0: C}, harmless=frozenset(harmless))


def scanned(rng: random.Random) -> Design:
    """Chunks are scanned: each warp its part, one warp the sums of the warps, and what came before is carried on."""
    warps, chunks, both = rng.choice([2, 4, 8]), rng.choice([1, 2, 3]), rng.random() < 0.5
    n, places = 32 * warps, 2 if both else 1
    second = "pass" if both else "mo.sync_threads()"
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    sums = mo.shared_array(mo.float32, ({warps}, {places}))
    before = mo.float32(0)
    for k in range({chunks}):
        p = k % {places}
        v = x[k * {n} + tid]
        for d in mo.static_range(5):
            other = mo.shuffle_up(v, 1 << d)
                #= in the branch: other = mo.shuffle_up(v, 1 << d) if lane >= (1 << d) else mo.float32(0)
            v += other if lane >= (1 << d) else mo.float32(0)
        if lane == 31: sums[warp, p] = v
            #= the first lane: if lane == 0 and warp > 0: sums[warp, p] = v
        mo.sync_threads()                                       #- no barrier
        if warp == 0 and lane < {warps}:
            t = sums[lane, p]
            for d in mo.static_range({max(1, (warps - 1).bit_length())}):
                other = mo.shuffle_up(t, 1 << d, mask={(1 << warps) - 1})
                    #= whole mask: other = mo.shuffle_up(t, 1 << d)
                t += other if lane >= (1 << d) else mo.float32(0)
            sums[lane, p] = t
        mo.sync_threads()
            #- no second barrier
            #= in one warp: if warp == 0: mo.sync_threads()
        v += before + (sums[warp - 1, p] if warp > 0 else mo.float32(0))
            #= before the first: v += before + sums[warp - 1, p]
        before += sums[{warps - 1}, p]
        y[k * {n} + tid] = v
        {second}                                                #- no third barrier
"""
    x = _numbers(chunks * n)
    harmless: set[str] = set()
    if both or chunks == 1:
        harmless |= {"no third barrier"}
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: np.cumsum(x, dtype=np.float32)}, harmless=frozenset(harmless))


def counted_by_warps(rng: random.Random) -> Design:
    """Each warp counts into bins of its own by match_any, without atomics; then all add the bins up, chunk by chunk."""
    warps, chunks, bins = rng.choice([1, 2, 4]), rng.choice([1, 2, 3]), rng.choice([8, 16])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    s = mo.shared_array(mo.int32, ({bins}, {warps}))
    for i in range(lane, {bins}, 32): s[i, warp] = 0
        #= not all: for i in range(lane, {bins - 1}, 32): s[i, warp] = 0
    mo.sync_warp()                                              #- no warp barrier
    for k in range({chunks}):
        v = x[k * {n} + tid]
        same = mo.match_any(v)
            #= of some lanes: same = mo.match_any(v) if lane < 16 else mo.uint32(0)
        if mo.ffs(same) - 1 == lane:                            #= each of them: if lane >= 0:
            s[v, warp] = s[v, warp] + mo.popcount(same)
        mo.sync_warp()                                          #- no second warp barrier
    mo.sync_threads()                                           #- no barrier
    for i in range(tid, {bins}, {n}):
        total = 0
        for w in range({warps}): total += s[i, w]
            #= one warp more: for w in range({warps} + 1): total += s[i, w]
        y[i] = total
"""
    x = np.random.default_rng(n).integers(0, bins, chunks * n).astype(np.int32)
    harmless: set[str] = set()
    if chunks == 1:
        harmless |= {"no second warp barrier"}
    if warps == 1:
        harmless |= {"no barrier"}
    return Design(text, 1, n, lambda: [np.full(bins, -1, np.int32), x.copy()],
                  lambda _: {0: np.bincount(x, minlength=bins).astype(np.int32)}, harmless=frozenset(harmless))


def halves_for_all(rng: random.Random) -> Design:
    """The blocks of a cluster each load a part of a tile by TMA for all of them, and give a stage back to all."""
    size, stages, tiles = rng.choice([2, 4]), rng.choice([1, 2]), rng.choice([1, 2, 3, 5])
    everyone = (1 << size) - 1
    text = f"""
@mo.kernel
def program(y, load):
    tid, rank, block = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x
    sX = mo.shared_array(load.dtype, mo.make_layout((8, 32, {stages}), (32, 1, 256)))
    gX = mo.tile(load.tensor, load.tile, (None, 0))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {size})                  #= its own: mo.mbarrier_init(empty, i, 1)
        mo.fence_mbarrier_init()                                #- no init fence
    mo.cluster_sync()                                           #= block barrier: mo.sync_threads()
    total = mo.float32(0)
    for k in range({tiles}):
        s = k % {stages}
        if tid == 0:
            mo.mbarrier_wait(empty, s, (k // {stages} & 1) ^ 1)                 #- no empty wait
            mo.mbarrier_arrive_expect_tx(full, s, load.bytes)
                #= its part: mo.mbarrier_arrive_expect_tx(full, s, load.bytes // {size})
            mask = {everyone}
                #= not the last: mask = {everyone >> 1}
                #= one beyond: mask = {2 * everyone + 1}
            mo.copyto(load, sX[:, :, s], gX[:, :, k], barrier=(full, s), multicast=mask)
        mo.mbarrier_wait(full, s, k // {stages} & 1)                            #- no full wait
        for r in range(8): total += sX[r, 31 - tid, s]
        mo.sync_warp()                                                          #- no warp barrier
        if tid < {size}: mo.mbarrier_arrive(empty, s, cta=tid)
            #= not to all: if tid < {size - 1}: mo.mbarrier_arrive(empty, s, cta=tid)
    y[block * 32 + tid] = total
    mo.cluster_sync()                                                           #- no last barrier
"""
    x = _numbers(256 * tiles).reshape(8 * tiles, 32)
    harmless: set[str] = set()
    if tiles <= stages:
        harmless |= {"its own", "no empty wait", "no warp barrier", "not to all"}
    layout = mo.make_layout((8, 32), (32, 1))
    return Design(text, size, 32, lambda: [np.full(32 * size, np.nan, np.float32),
                  mo.make_tma_copy(mo.TmaLoad(), x.copy(), layout, multicast=size)],
                  lambda _: {0: np.tile(x.sum(0)[::-1], size)}, cluster=(size, 1, 1), harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    there_and_back, transposed, matrices, scanned, counted_by_warps, halves_for_all)}
