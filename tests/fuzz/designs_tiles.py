"""Designs of tiles: products of a warp group with some in flight, ragged tiles of slices of larger arrays, stencils.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import moye as mo
from fuzz.designs import Design

MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 32), mo.make_layout((1, 1)))
ATOM = mo.smem_layout_atom(mo.float16, "k")


def products(rng: random.Random) -> Design:
    """A warp group stores tiles of A and B, and multiplies while ``flying`` products before are still under way."""
    stages, tiles, flying = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 4, 5]), rng.choice([0, 0, 1, 2])
    flying = min(flying, stages - 1)
    rescaled = flying == 0 and rng.random() < 0.5           # accumulators are changed between products
    scale = "for i in mo.static_range(16): acc[i] = acc[i] * 2.0" if rescaled else "pass"
    text = f"""
@mo.kernel
def program(C: mo.Static, A: mo.Static, B: mo.Static, mma, a_layout, b_layout):
    tid, threads = mo.thread_idx().x, mo.make_layout((8, 16))
    sA, sB = mo.shared_array(A.dtype, a_layout), mo.shared_array(B.dtype, b_layout)
    gA, gB = mo.tile(A, (64, 64), (0, None)), mo.tile(B, (32, 64), (0, None))
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((64, 32))
    for k in range({tiles}):                                #= one tile more: for k in range({tiles + 1}):
        s = k % {stages}                                    #= stage of k: s = k #= one stage: s = 0
        mo.copyto(mo.parallelize(sA[:, :, s], threads, tid), mo.parallelize(gA[:, :, k], threads, tid))
        mo.copyto(mo.parallelize(sB[:, :, s], threads, tid), mo.parallelize(gB[:, :, k], threads, tid))
        mo.fence_proxy_async()                              #- no proxy fence
        mo.sync_threads()                                   #- no barrier #= warp barrier: mo.sync_warp()
        mo.warpgroup_arrive()
            #- no arrive
            #= half arrives: if tid < 64: mo.warpgroup_arrive()
        for i in mo.static_range(4):
            mo.gemm(mma, tCrA[:, :, i, s], tCrB[:, :, i, s], acc, accumulate=i > 0 or k > 0)
                #= adds to nothing: mo.gemm(mma, tCrA[:, :, i, s], tCrB[:, :, i, s], acc)
                #= one warp: if tid < 32: mo.gemm(mma, tCrA[:, :, i, s], tCrB[:, :, i, s], acc, accumulate=True)
        mo.warpgroup_commit_batch()                         #- no commit
        #+ touched in flight: acc[0] = acc[0] + 1.0
        #+ refilled in flight: sA[tid % 64, tid // 64, s] = mo.float16(0)
        mo.warpgroup_wait({flying})
            #- no wait
            #= waits too little: mo.warpgroup_wait({flying + 1})
        {scale}
    mo.warpgroup_wait(0)                                    #- no last wait
    mo.copyto(thr.partition_C(C), acc)
"""
    harmless: set[str] = set()
    if flying == 0:
        harmless |= {"no last wait"}
    if tiles <= stages and not rescaled:
        harmless |= {"no wait"}
    if tiles <= stages:
        harmless |= {"stage of k"}
    if not rescaled and (tiles <= stages or stages - flying > 1):
        harmless |= {"waits too little"}
    if stages == 1 or tiles == 1 or flying == 0:
        harmless |= {"one stage"}
    data = np.random.default_rng(tiles)
    A, B = (data.integers(-2, 3, (rows, 64 * tiles)).astype(np.float16) for rows in (64, 32))
    total = np.zeros((64, 32), np.float32)
    for k in range(tiles):
        a, b = (x[:, 64 * k:64 * k + 64].astype(np.float32) for x in (A, B))
        total = (total + a @ b.T) * (2 if rescaled else 1)
    layouts = [mo.tile_to_shape(ATOM, (rows, 64, stages)) for rows in (64, 32)]
    return Design(text, 1, 128, lambda: [np.full((64, 32), np.nan, np.float32), A.copy(), B.copy(), MMA, *layouts],
                  lambda _: {0: total}, harmless=frozenset(harmless))


def ragged(rng: random.Random) -> Design:
    """Rows of a slice of a larger array, in tiles that do not divide them, through registers or shared memory."""
    rows, columns = rng.choice([1, 5, 8, 13]), rng.choice([31, 32, 33, 64, 70])
    before, after, warps = rng.choice([0, 1, 3]), rng.choice([0, 1, 5]), rng.choice([1, 2])
    n = 32 * warps
    shared, major = rng.random() < 0.5, rng.choice("CF")
    value = f"x[row, at] if at < {columns} else mo.float32(0)"
    hold = (f"s[tid, 0] = {value}", "s[tid ^ 1, 0]", "mo.sync_warp()") if shared else (
        f"v = {value}", "mo.shuffle_xor(v, 1)", "pass")
    text = f"""
@mo.kernel
def program(y, x):
    tid, row = mo.thread_idx().x, mo.block_idx().x
        #= one row more: tid, row = mo.thread_idx().x, mo.block_idx().x + 1
    s = mo.shared_array(mo.float32, ({n}, 1))
    for tile in range({-(-columns // n)}):
        at = tile * {n} + tid                               #= from -1: at = tile * {n} + tid - 1
        {hold[0]}
            #= one too far: {hold[0].replace(f"at < {columns}", f"at <= {columns}")}
            #= no predicate: {hold[0].split(" if ")[0]}
        {hold[2]}                                           #- no warp barrier
        other = {hold[1]}
        if at < {columns}:                                  #= stores one too far: if at < {columns + 1}:
            y[row, at] = other + x[row, at]
                #= left neighbour: y[row, at] = other + x[row, at - 1]
                #= right neighbour: y[row, at] = other + x[row, at + 1]
        {hold[2]}                                           #- no second warp barrier
"""
    harmless = set() if shared else {"no warp barrier", "no second warp barrier"}
    if columns % n == 0:
        harmless |= {"one too far", "no predicate", "stores one too far"}
    if columns <= n:
        harmless |= {"no second warp barrier"}
    x = np.random.default_rng(rows).integers(-9, 10, (rows, columns)).astype(np.float32)
    padded = np.zeros((rows, -(-columns // n) * n), np.float32)
    padded[:, :columns] = x
    y = padded[:, np.arange(padded.shape[1]) ^ 1][:, :columns] + x

    def inside(values: np.ndarray) -> Any:
        large = np.full((before + rows + after, before + columns + after), 77, np.float32, order=major)
        view = large[before:before + rows, before:before + columns]
        view[...] = values
        return view

    return Design(text, rows, n, lambda: [inside(np.full_like(x, np.nan)), inside(x)], lambda _: {0: y},
                  harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (products, ragged)}
