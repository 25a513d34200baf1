"""Designs of warp groups: two sums under way, A in registers, tiles by TMA that two threads load.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import moye as mo
from fuzz.designs import Design

MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 16), mo.make_layout((1, 1)))
FROM_REGISTERS = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 16, a_source="registers"),
                                   mo.make_layout((1, 1)))
ATOM = mo.smem_layout_atom(mo.float16, "k")


def _halves(rows: int, tiles: int) -> np.ndarray:
    return np.random.default_rng(rows + tiles).integers(-2, 3, (rows, 64 * tiles)).astype(np.float16)


def _tiles(rows: int, stages: int) -> Any:
    return mo.tile_to_shape(ATOM, (rows, 64, stages))


def _parts(x: np.ndarray) -> list[np.ndarray]:
    """Its tiles of 64 columns, in float32."""
    return [part.astype(np.float32) for part in np.split(x, x.shape[1] // 64, axis=1)]


def two_sums(rng: random.Random) -> Design:
    """Two products of each tile, in groups of their own; the first sum is looked at while the second is under way."""
    tiles, scaled = rng.choice([1, 2, 3]), rng.random() < 0.5
    look = "for i in mo.static_range(8): one[i] = one[i] * 2.0" if scaled else "seen += one[0]"
    text = f"""
@mo.kernel
def program(C: mo.Static, D: mo.Static, E, A: mo.Static, B: mo.Static, mma, a_layout, b_layout):
    tid, threads = mo.thread_idx().x, mo.make_layout((8, 16))
    sA, sB = mo.shared_array(A.dtype, a_layout), mo.shared_array(B.dtype, b_layout)
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (16, 64), (None, None))
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    one, two = mma.partition_fragment_C((64, 16)), mma.partition_fragment_C((64, 16))
    seen = mo.float32(0)
    for k in range({tiles}):
        mo.copyto(mo.parallelize(sA[:, :, 0], threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        for j in mo.static_range(2):
            mo.copyto(mo.parallelize(sB[:, :, j], threads, tid), mo.parallelize(gB[:, :, j, k], threads, tid))
        mo.fence_proxy_async()                                              #- no proxy fence
        mo.sync_threads()                                                   #- no barrier
        mo.warpgroup_arrive()                                               #- no arrive
        mo.gemm(mma, tCrA[:, :, :, 0], tCrB[:, :, :, 0], one, accumulate=k > 0)
        mo.warpgroup_commit_batch()                                         #- one group
        mo.gemm(mma, tCrA[:, :, :, 0], tCrB[:, :, :, 1], two, accumulate=k > 0)
        mo.warpgroup_commit_batch()                                         #- no commit
        mo.warpgroup_wait(1)
            #- no first wait
            #= waits for none: mo.warpgroup_wait(2)
        {look}                                          #= looks at the other: {look.replace('one', 'two')}
        #+ refilled early: sB[tid % 16, tid // 16, 1] = mo.float16(1)
        #+ its own refilled: sA[tid % 64, tid // 64, 0] = mo.float16(1)
        mo.warpgroup_wait(0)
            #- no second wait
            #= one left: mo.warpgroup_wait(1)
        mo.sync_threads()                                                   #- no last barrier
    mo.copyto(thr.partition_C(C), one)
    mo.copyto(thr.partition_C(D), two)
    E[tid] = seen
"""
    A, B = _halves(64, tiles), _halves(32, tiles)
    one, two = np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32)
    for a, b in zip(_parts(A), _parts(B), strict=True):
        one, two = (one + a @ b[:16].T) * (2 if scaled else 1), two + a @ b[16:].T
    # The wait is for the products of the whole warp group.
    return Design(text, 1, 128, lambda: [*np.full((2, 64, 16), np.nan, np.float32), np.zeros(128, np.float32),
                  A.copy(), B.copy(), MMA, _tiles(64, 1), _tiles(16, 2)], lambda _: {0: one, 1: two},
                  harmless=frozenset({"no last barrier"}))


def from_registers(rng: random.Random) -> Design:
    """A lies in registers, one set or two in turn; a set is filled again when the products that read it are done."""
    sets, tiles, stages = rng.choice([1, 2]), rng.choice([1, 2, 4, 5]), rng.choice([2, 3])
    left = sets - 1
    text = f"""
@mo.kernel
def program(C: mo.Static, A: mo.Static, B: mo.Static, mma, a_layout, b_layout):
    tid, threads = mo.thread_idx().x, mo.make_layout((8, 16))
    sA, sB = mo.shared_array(A.dtype, a_layout), mo.shared_array(B.dtype, b_layout)
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (16, 64), (0, None))
    thr = mma.get_slice(tid)
    tCsA, tCrB = thr.partition_A(sA), thr.partition_fragment_B(sB)
    held = [thr.make_fragment_A(tCsA[:, :, :, 0]) for _ in range({sets})]
    acc = mma.partition_fragment_C((64, 16))
    for k in mo.static_range({tiles}):
        s = k % {stages}
        tCrA = held[k % {sets}]                                 #= one set: tCrA = held[0]
        mo.copyto(mo.parallelize(sA[:, :, s], threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sB[:, :, s], threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
        mo.fence_proxy_async()                                  #- no proxy fence
        mo.sync_threads()                                       #- no barrier
        mo.copyto(tCrA, tCsA[:, :, :, s])                       #= filled late: pass
        mo.warpgroup_arrive()                                   #- no arrive
        #+ filled late: mo.copyto(tCrA, tCsA[:, :, :, s])
        mo.gemm(mma, tCrA, tCrB[:, :, :, s], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()                             #- no commit
        #+ changed in flight: tCrA[0] = tCrA[0] + mo.float16(1)
        mo.warpgroup_wait({left})
            #- no wait
            #= one more left: mo.warpgroup_wait({left + 1})
        #+ looks: C[tid % 64, tid // 64] = acc[0]
    mo.warpgroup_wait(0)                                        #- no last wait
    mo.copyto(thr.partition_C(C), acc)
"""
    A, B = _halves(64, tiles), _halves(16, tiles)
    C = sum((a @ b.T for a, b in zip(_parts(A), _parts(B), strict=True)), np.zeros((64, 16), np.float32))
    harmless = set()
    if sets == 1:
        harmless |= {"one set", "no last wait", "looks"}
    if tiles == 1:
        harmless |= {"one set"}
    if tiles <= sets:
        harmless |= {"no wait", "one more left"}
    return Design(text, 1, 128, lambda: [np.full((64, 16), np.nan, np.float32), A.copy(), B.copy(), FROM_REGISTERS,
                  _tiles(64, stages), _tiles(16, stages)], lambda _: {0: C}, harmless=frozenset(harmless))


def two_loaders(rng: random.Random) -> Design:
    """Two warps load A and B of a stage, each with bytes of its own, on one barrier; a stage is given back when the
    products that read it are done, which is one step later if one is left under way."""
    stages, tiles, flying = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 3, 5, 7]), rng.choice([0, 1])
    flying = min(flying, stages - 1)
    way = rng.choice(["each arrives", "one arrives", "one expects"])
    a, b = 64 * 64 * 2, 16 * 64 * 2
    first, second = {
        "each arrives": (f"mo.mbarrier_arrive_expect_tx(full, s, {a})", f"mo.mbarrier_arrive_expect_tx(full, s, {b})"),
        "one arrives": (f"mo.mbarrier_arrive_expect_tx(full, s, {a + b})", "mo.mbarrier_arrive(full, s)"),
        "one expects": (f"mo.mbarrier_expect_tx(full, s, {a}); mo.mbarrier_arrive(full, s)",
                        f"mo.mbarrier_arrive_expect_tx(full, s, {b})")}[way]
    release = f"(k - {flying})" if flying else "k"
    text = f"""
@mo.kernel
def program(C: mo.Static, A, B, mma, a_layout, b_layout):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, a_layout), mo.shared_array(B.dtype, b_layout)
    gA, gB = mo.tile(A.tensor, A.tile, (0, None)), mo.tile(B.tensor, B.tile, (0, None))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 2)
                #= counts one: mo.mbarrier_init(full, i, 1)
                #= counts three: mo.mbarrier_init(full, i, 3)
            mo.mbarrier_init(empty, i, 4)
                #= frees at once: mo.mbarrier_init(empty, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 128:
        for k in range({tiles}):
            s = k % {stages}
            mo.mbarrier_wait(empty, s, (k // {stages} & 1) ^ 1)             #- first does not wait
            {first}
                #= expects too few: mo.mbarrier_arrive_expect_tx(full, s, {a - 16})
                #= expects nothing: mo.mbarrier_arrive(full, s)
            mo.copyto(A, sA[:, :, s], gA[:, :, k], barrier=(full, s))
    elif tid == 160:
        for k in range({tiles}):
            s = k % {stages}
            mo.mbarrier_wait(empty, s, (k // {stages} & 1) ^ 1)             #- second does not wait
            {second}                                                        #= second expects nothing: pass
            mo.copyto(B, sB[:, :, s], gB[:, :, k], barrier=(full, s))
    elif tid < 128:
        thr = mma.get_slice(tid)
        tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
        acc = mma.partition_fragment_C((64, 16))
        for k in range({tiles}):
            s = k % {stages}
            mo.mbarrier_wait(full, s, k // {stages} & 1)                    #- no full wait
            mo.warpgroup_arrive()                                           #- no arrive
            mo.gemm(mma, tCrA[:, :, :, s], tCrB[:, :, :, s], acc, accumulate=k > 0)
            mo.warpgroup_commit_batch()                                     #- no commit
            #+ given back first: if tid % 32 == 0 and k >= {flying}: mo.mbarrier_arrive(empty, {release} % {stages})
            mo.warpgroup_wait({flying})
                #- no wait
                #= one more left: mo.warpgroup_wait({flying + 1})
            if tid % 32 == 0 and k >= {flying}:
                #= given back first: if k < 0:
                #= one warp gives back: if tid == 0 and k >= {flying}:
                mo.mbarrier_arrive(empty, {release} % {stages})
                    #= gives back this: mo.mbarrier_arrive(empty, s)
        mo.warpgroup_wait(0)                                                #- no last wait
        mo.copyto(thr.partition_C(C), acc)
"""
    A, B = _halves(64, tiles), _halves(16, tiles)
    C = sum((a @ b.T for a, b in zip(_parts(A), _parts(B), strict=True)), np.zeros((64, 16), np.float32))
    harmless = set()
    if flying == 0:
        harmless |= {"no last wait", "gives back this"}
    if tiles <= stages:
        harmless |= {"first does not wait", "second does not wait", "given back first", "no wait", "one more left",
                     "one warp gives back", "gives back this", "frees at once"}
    layouts = _tiles(64, stages), _tiles(16, stages)

    def arrays() -> list[Any]:
        return [np.full((64, 16), np.nan, np.float32),
                *(mo.make_tma_copy(mo.TmaLoad(), x.copy(), mo.tile_to_shape(ATOM, (len(x), 64))) for x in (A, B)),
                MMA, *layouts]
    return Design(text, 1, 192, arrays, lambda _: {0: C}, harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (two_sums, from_registers, two_loaders)}
