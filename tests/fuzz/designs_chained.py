"""Designs of warp groups that hand things on: a product that is the next one's operand, stages by cp.async, turns,
register budgets, tiles that a warp stores for others.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import moye as mo
from fuzz.designs import Design
from fuzz.designs_warpgroups import ATOM, MMA

WIDE = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64), mo.make_layout((1, 1)))
BY_16_BYTES = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float16),
                                 mo.make_layout((16, 8), (8, 1)), mo.make_layout((1, 8)))


def _halves(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, (rows, columns)).astype(np.float16)


def _tiles(rows: int, stages: int) -> Any:
    return mo.tile_to_shape(ATOM, (rows, 64, stages))


def _numbers(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-9, 10, n).astype(np.float32)


def chained(rng: random.Random) -> Design:
    """S = Q K, which goes through shared memory, in one buffer or two, and is an operand of O += S V."""
    tiles, buffers = rng.choice([1, 2, 3]), rng.choice([1, 2])
    text = f"""
@mo.kernel
def program(O: mo.Static, Q: mo.Static, K: mo.Static, V: mo.Static, wide, mma, q_layout, k_layout, v_layout, s_layout):
    tid, threads = mo.thread_idx().x, mo.make_layout((8, 16))
    sQ, sK = mo.shared_array(Q.dtype, q_layout), mo.shared_array(K.dtype, k_layout)
    sV, sS = mo.shared_array(V.dtype, v_layout), mo.shared_array(Q.dtype, s_layout)
    gQ, gK, gV = mo.tile(Q, (64, 64), (0, 0)), mo.tile(K, (64, 64), (None, 0)), mo.tile(V, (16, 64), (0, None))
    one, two = wide.get_slice(tid), mma.get_slice(tid)
    tQ, tK, tS, tV = one.partition_fragment_A(sQ), one.partition_fragment_B(sK), two.partition_fragment_A(sS), \\
        two.partition_fragment_B(sV)
    S, acc = wide.partition_fragment_C((64, 64)), mma.partition_fragment_C((64, 16))
    mo.copyto(mo.parallelize(sQ[:, :, 0], threads, tid), mo.parallelize(gQ, threads, tid))
    for k in mo.static_range({tiles}):
        s = k % {buffers}
        mo.copyto(mo.parallelize(sK[:, :, 0], threads, tid), mo.parallelize(gK[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sV[:, :, s], threads, tid), mo.parallelize(gV[:, :, k], threads, tid))
        mo.fence_proxy_async()                                              #- no first fence
        mo.sync_threads()                                                   #- no first barrier
        mo.warpgroup_arrive()                                               #- no arrive
        mo.gemm(wide, tQ[:, :, :, 0], tK[:, :, :, 0], S, accumulate=False)
        mo.warpgroup_commit_batch()                                         #- no commit
        mo.warpgroup_wait(0)
            #- no wait
            #= leaves it: mo.warpgroup_wait(1)
        to = one.partition_C(sS[:, :, s])
        for i in mo.static_range(32): to[i] = mo.float16(S[i])
        mo.fence_proxy_async()                                              #- no second fence
        mo.sync_threads()                                                   #- no second barrier
        mo.warpgroup_arrive()
        mo.gemm(mma, tS[:, :, :, s], tV[:, :, :, s], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()                                         #- no second commit
        mo.warpgroup_wait({buffers - 1})
            #- no second wait
            #= one more left: mo.warpgroup_wait({buffers})
    mo.warpgroup_wait(0)                                                    #- no last wait
    mo.copyto(two.partition_C(O), acc)
"""
    Q, K, V = _halves(64, 64, 1), _halves(64 * tiles, 64, 2), _halves(16, 64 * tiles, 3)
    wide = [x.astype(np.float32) for x in (Q, K, V)]
    expected = wide[0] @ wide[1].T @ wide[2].T
    harmless = set()
    if tiles <= buffers:                # no buffer is written again
        harmless |= {"no second wait", "one more left"}
    if buffers == 1:
        harmless |= {"no last wait"}
    if buffers == 2:                    # the next product's wait, which comes before anything is written again
        harmless |= {"no second wait", "one more left"}
    return Design(text, 1, 128, lambda: [np.full((64, 16), np.nan, np.float32), Q.copy(), K.copy(), V.copy(), WIDE, MMA,
                  _tiles(64, 1), _tiles(64, 1), _tiles(16, buffers), _tiles(64, buffers)], lambda _: {0: expected},
                  harmless=frozenset(harmless))


def by_cp_async(rng: random.Random) -> Design:
    """A stage comes by cp.async, some tiles ahead; who has waited for its copies fences before the barrier, and wgmma
    reads."""
    stages, tiles = rng.choice([2, 3, 4]), rng.choice([1, 2, 4, 5])
    ahead = stages - 1
    text = f"""
@mo.kernel
def program(C: mo.Static, A: mo.Static, B: mo.Static, mma, copy, a_layout, b_layout):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, a_layout), mo.shared_array(B.dtype, b_layout)
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (16, 64), (0, None))
    part, thr = copy.get_slice(tid), mma.get_slice(tid)
    fromA, toA, fromB, toB = part.partition_S(gA), part.partition_D(sA), part.partition_S(gB), part.partition_D(sB)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((64, 16))
    for k in mo.static_range({ahead}):
        if k < {tiles}:
            mo.copyto(copy, toA[:, :, :, k], fromA[:, :, :, k])
            mo.copyto(copy, toB[:, :, :, k], fromB[:, :, :, k])
        mo.cp_async_commit()                                                #- no first commits
    for k in mo.static_range({tiles}):
        s, t, following = k % {stages}, (k + {ahead}) % {stages}, k + {ahead}
        mo.cp_async_wait({stages - 2})
            #- no copy wait
            #= permissive: mo.cp_async_wait({stages - 1})
        mo.fence_proxy_async()                                              #- no proxy fence
        mo.sync_threads()                                                   #- no barrier
        mo.warpgroup_arrive()                                               #- no arrive
        #+ refilled early: if following < {tiles}: mo.copyto(copy, toA[:, :, :, s], fromA[:, :, :, following])
        mo.gemm(mma, tCrA[:, :, :, s], tCrB[:, :, :, s], acc, accumulate=k > 0)
        mo.warpgroup_commit_batch()                                         #- no group
        mo.warpgroup_wait(1)
            #- no wait
            #= leaves two: mo.warpgroup_wait(2)
        mo.sync_threads()                                                   #- no second barrier
        if following < {tiles}:
            mo.copyto(copy, toA[:, :, :, t], fromA[:, :, :, following])
                #= other stage: mo.copyto(copy, toA[:, :, :, s], fromA[:, :, :, following])
            mo.copyto(copy, toB[:, :, :, t], fromB[:, :, :, following])
        mo.cp_async_commit()                                                #- no commit
    mo.warpgroup_wait(0)                                                    #- no last wait
    mo.copyto(thr.partition_C(C), acc)
"""
    A, B = _halves(64, 64 * tiles, 4), _halves(16, 64 * tiles, 5)
    harmless = {"no second barrier"}                    # a wait is for the whole warp group
    if tiles <= ahead:
        harmless |= {"refilled early", "other stage"}
    if tiles <= stages:                 # no stage is filled twice
        harmless |= {"no wait", "leaves two"}
    if tiles == 1:
        harmless |= {"no commit"}
    return Design(text, 1, 128, lambda: [np.full((64, 16), np.nan, np.float32), A.copy(), B.copy(), MMA, BY_16_BYTES,
                  _tiles(64, stages), _tiles(16, stages)],
                  lambda _: {0: A.astype(np.float32) @ B.astype(np.float32).T}, harmless=frozenset(harmless))


def ordered(rng: random.Random) -> Design:
    """Groups of warps take turns at one sum, whose order matters; mbarriers pass the turn on (PipelineOrder)."""
    groups, warps, rounds, many = rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.random() < 0.5
    n = 32 * warps
    arrive = f"mo.mbarrier_arrive(turn, (group + 1) % {groups})"
    arrives = arrive if many else f"if tid % 32 == 0: {arrive}"
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    group, c, s, turn = tid // {n}, tid % {n}, mo.shared_array(mo.int32, {n}), mo.mbarrier_array({groups})
    if tid == 0:
        for i in mo.static_range({groups}): mo.mbarrier_init(turn, i, {n if many else warps})
            #= counts more: for i in mo.static_range({groups}): mo.mbarrier_init(turn, i, {(n if many else warps) + 1})
        mo.fence_mbarrier_init()
    if tid < {n}: s[c] = 1
    mo.sync_threads()                                           #- no barrier
    parity = mo.where(group == 0, 1, 0)                         #= no first turn: parity = 0
    for k in range({rounds}):
        v = x[(k * {groups} + group) * {n} + c]
        mo.mbarrier_wait(turn, group, parity)
            #- no wait
            #= the next's turn: mo.mbarrier_wait(turn, (group + 1) % {groups}, parity)
        #+ passed on first: {arrives}
        s[{n - 1} - c] = s[{n - 1} - c] * 2 + v
            #= another's: s[c] = s[{n - 1} - c] * 2 + v
        {"pass" if many else "mo.sync_warp()"}                  #- no warp barrier
        {arrives}
            #= passed on first: pass
            #= back to itself: {arrives.replace("(group + 1)", "group")}
        parity = parity ^ 1                                     #- parity stays
    mo.sync_threads()                                           #- no last barrier
    if tid < {n}: y[c] = s[c]
"""
    x = np.random.default_rng(n).integers(0, 9, rounds * groups * n).astype(np.int32)
    y = np.ones(n, np.int32)
    for row in x.reshape(-1, n):
        y = y[::-1] * 2 + row
        y = y[::-1]
    harmless = set()
    if many:
        harmless |= {"no warp barrier"}
    if rounds == 1:
        harmless |= {"parity stays"}
    return Design(text, 1, groups * n, lambda: [np.full(n, -1, np.int32), x.copy()], lambda _: {0: y},
                  harmless=frozenset(harmless))


def budgets(rng: random.Random) -> Design:
    """A warp group gives registers away and loads; the others take them and compute."""
    groups, stages, tiles = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 3, 4])
    less, more = rng.choice([24, 40]), {1: 216, 2: 232}[groups]
    n = 128 * groups
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, ({n}, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {n})
        mo.fence_mbarrier_init()                                        #- no init fence
    mo.sync_threads()
    if tid >= {n}:
        mo.warpgroup_reg_dealloc({less})
            #- gives nothing
            #= no multiple: mo.warpgroup_reg_dealloc({less + 4})
            #= a warp gives: if tid < {n + 32}: mo.warpgroup_reg_dealloc({less})
        if tid == {n}:
            for k in range({tiles}):
                mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)          #- no empty wait
                mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
                mo.copyto(mo.BulkCopy(), s[:, k % {stages}], mo.tile(x, ({n},), (k,)), barrier=(full, k % {stages}))
    else:
        mo.warpgroup_reg_alloc({more})
            #= takes too many: mo.warpgroup_reg_alloc(256)
            #= half of it: if tid % 128 < 64: mo.warpgroup_reg_alloc({more})
        total = mo.float32(0)
        for k in range({tiles}):
            mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)                     #- no full wait
            total += s[{n - 1} - tid, k % {stages}]
            mo.mbarrier_arrive(empty, k % {stages})
                #= one gives back: if tid == 0: mo.mbarrier_arrive(empty, k % {stages})
        #+ a block barrier: mo.sync_threads()
        y[tid] = total
"""
    x = _numbers(tiles * n)
    harmless = {"no empty wait", "one gives back"} if tiles <= stages else set()
    if groups == 1:                     # the block begins with as many for each
        harmless |= {"gives nothing", "takes too many"}
    return Design(text, 1, n + 128, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0)}, harmless=frozenset(harmless))


def stored_for_others(rng: random.Random) -> Design:
    """Warps put results into a buffer in turn; a warp of its own stores it, and gives it back when it has been read."""
    buffers, warps, tiles = rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.choice([1, 2, 4, 5])
    n, later = 32 * warps, buffers - 1
    both = n + 32
    text = f"""
@mo.kernel
def program(y: mo.Static, x):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, ({n}, {buffers}))
    if tid < {n}:
        for k in range({tiles}):
            if k >= {buffers}: mo.barrier_sync(3 + k % {buffers}, {both})
                #- no empty wait
                #= the other's: if k >= {buffers}: mo.barrier_sync(3 + (k + 1) % {buffers}, {both})
            s[{n - 1} - tid, k % {buffers}] = x[k * {n} + tid] * 2
            mo.fence_proxy_async()                              #- no fence
                #= one fences: if tid == 0: mo.fence_proxy_async()
            mo.barrier_arrive(1 + k % {buffers}, {both})
                #= other id: mo.barrier_arrive(1 + (k + 1) % {buffers}, {both})
    else:
        for k in range({tiles}):
            mo.barrier_sync(1 + k % {buffers}, {both})          #- no full wait
            if tid == {n}:
                mo.copyto(mo.BulkCopy(), mo.tile(y, ({n},), (k,)), s[:, k % {buffers}])
                mo.tma_store_arrive()                           #- no group
                mo.tma_store_wait({later})
                    #- no read wait
                    #= one more left: mo.tma_store_wait({later + 1})
            if k >= {later} and k - {later} + {buffers} < {tiles}:
                mo.barrier_arrive(3 + (k - {later}) % {buffers}, {both})
                    #= gives back this: mo.barrier_arrive(3 + k % {buffers}, {both})
        if tid == {n}: mo.tma_store_wait(0)                     #- no last wait
"""
    x = _numbers(tiles * n)
    harmless = set()
    if buffers == 1:
        harmless |= {"other id", "the other's", "gives back this", "no last wait"}
    if tiles <= buffers:
        harmless |= {"no empty wait", "the other's", "gives back this", "no read wait", "one more left"}
    if tiles == 2:
        harmless |= {"other id"}        # both are full then
    return Design(text, 1, both, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: 2 * x.reshape(tiles, n)[:, ::-1].ravel()}, harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (chained, by_cp_async, ordered, budgets, stored_for_others)}
