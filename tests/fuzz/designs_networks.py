"""Designs of folds and networks in shared memory: sorts, trees, sweeps, frontiers of a search, planes of a stencil.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def bitonic(rng: random.Random) -> Design:
    """A bitonic sort: partners within a warp need a barrier of the warp, unless the step before or after is wider."""
    n = rng.choice([32, 64, 128])
    levels, near = n.bit_length() - 1, rng.random() < 0.5
    meet = "if mo.max(apart, following) >= 32: mo.sync_threads()\n            else: mo.sync_warp()" if near else \
        "mo.sync_threads()"
    text = f"""
@mo.kernel
def program(y, x):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, {n})
    s[tid] = x[tid]
    mo.sync_threads()                                                   #- no first barrier
    for stage in mo.static_range({levels}):
        for step in mo.static_range(stage + 1):
            apart = 1 << (stage - step)
            following = apart // 2 if step < stage else 2 << stage
            other, up = tid ^ apart, (tid & (2 << stage)) == 0
            if other > tid:                                             #= each of both: if other >= 0:
                a, b = s[tid], s[other]
                s[tid] = mo.where(up, mo.min(a, b), mo.max(a, b))
                s[other] = mo.where(up, mo.max(a, b), mo.min(a, b))
            #+ by this step: if apart >= 32: mo.sync_threads()
            #+ by this step: else: mo.sync_warp()
            #+ warp barriers: mo.sync_warp()
            #+ block barriers: if mo.max(apart, following) >= 32: mo.sync_threads()
            {meet.splitlines()[0]}
                #= by this step: pass
                #= warp barriers: pass
                #= block barriers: pass
                #= no barrier: pass
            {'else: mo.sync_warp()' if near else 'pass'}
                #= by this step: pass
                #= warp barriers: pass
                #= block barriers: pass
                #= no barrier: pass
    y[tid] = s[tid]
"""
    x = np.random.default_rng(n).integers(0, 1000, n).astype(np.int32)
    harmless = {"warp barriers", "by this step"} if n == 32 else set()
    return Design(text, 1, n, lambda: [np.full_like(x, -1), x.copy()], lambda _: {0: np.sort(x)},
                  harmless=frozenset(harmless))


def tree_sum(rng: random.Random) -> Design:
    """A tree of halves with barriers, whose last part one warp does with its own."""
    warps, apart = rng.choice([2, 4, 8]), rng.random() < 0.5
    n = 32 * warps
    tail = """
            if tid < half: s[tid] = s[tid] + s[tid + half]
            mo.sync_warp()                                              #- no warp barrier
""" if apart else """
            v = s[tid] + s[tid + half]
            mo.sync_warp()                                              #- no barrier between
            s[tid] = v
            mo.sync_warp()                                              #- no warp barrier
"""
    text = f"""
@mo.kernel
def program(y, x):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, {n})
    s[tid] = x[tid]
    mo.sync_threads()                                                   #- no first barrier
    half = {n // 2}
    while half > 32:
        if tid < half: s[tid] = s[tid] + s[tid + half]
        mo.sync_threads()
            #- no barrier
            #= warp barrier: mo.sync_warp()
        half = half // 2
    if tid < 32:                                                        #= all go on: if tid < 64:
        s[tid] = s[tid] + s[tid + 32]
        mo.sync_warp()                                                  #- no barrier of the tail
        for i in mo.static_range(5):
            half = 16 >> i
{tail}
    if tid == 0: y[0] = s[0]
"""
    harmless = {"all go on"} if apart else set()
    if warps <= 2:
        harmless |= {"no barrier", "warp barrier"}
    x = _numbers(n)
    return Design(text, 1, n, lambda: [np.full(1, np.nan, np.float32), x.copy()], lambda _: {0: x.sum(keepdims=True)},
                  harmless=frozenset(harmless))


def sweeps(rng: random.Random) -> Design:
    """A scan by two sweeps over a tree, up and down (Blelloch's)."""
    n = rng.choice([64, 128, 256])
    text = f"""
@mo.kernel
def program(y, x):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, {n})
    s[tid], s[tid + {n // 2}] = x[tid], x[tid + {n // 2}]
    offset = 1
    for i in mo.static_range({n.bit_length() - 1}):
        mo.sync_threads()                                               #- no barrier up
        many = {n // 2} >> i
        if tid < many:
            s[offset * (2 * tid + 2) - 1] += s[offset * (2 * tid + 1) - 1]
        offset *= 2
    if tid == 0: s[{n - 1}] = 0.0
        #= another clears: if tid == {n // 2 - 1}: s[{n - 1}] = 0.0
    for i in mo.static_range({n.bit_length() - 1}):
        offset //= 2
        mo.sync_threads()                                               #- no barrier down
        many = 1 << i
        if tid < many:
            a, b = offset * (2 * tid + 1) - 1, offset * (2 * tid + 2) - 1
            left = s[a]
            s[a] = s[b]
            s[b] += left
    mo.sync_threads()                                                   #- no last barrier
    y[tid], y[tid + {n // 2}] = s[tid], s[tid + {n // 2}]
"""
    x = _numbers(n)
    return Design(text, 1, n // 2, lambda: [np.full_like(x, np.nan), x.copy()],
                  lambda _: {0: (np.cumsum(x) - x).astype(np.float32)})


def frontier(rng: random.Random) -> Design:
    """A search by levels: threads mark what they find, and put it onto the next of two lists; counts take turns."""
    n, grid = rng.choice([64, 96]), rng.random() < 0.4
    blocks = 2 if grid else 1
    meet = "mo.grid_sync()" if grid else "mo.sync_threads()"
    threads = n // blocks
    text = f"""
@mo.kernel
def program(dist, edges, lists, counts):
    at = mo.block_idx().x * {threads} + mo.thread_idx().x
    {"q, count = lists, counts" if grid else
     f"q, count = mo.shared_array(mo.int32, (2, {n})), mo.shared_array(mo.int32, 3)"}
    dist[at] = mo.where(at == 0, 0, -1)
    if at == 0: q[0, 0] = 0
    if at < 3: count[at] = 0
    {meet}                                                              #- no first barrier
    level, many = 0, 1
    while many > 0 and level < {n}:
        if at < many:
            v = q[level % 2, at]                                        #= one list: v = q[0, at]
            for e in mo.static_range(2):
                w = edges[2 * v + e]
                if mo.atomic_cas(dist, w, -1, level + 1) == -1:
                    place = mo.atomic_add(count, (level + 1) % 3, 1)
                        #= place by load: place = count[(level + 1) % 3]; count[(level + 1) % 3] = place + 1
                        #= two counts: place = mo.atomic_add(count, (level + 1) % 2, 1)
                    q[(level + 1) % 2, place] = w                       #= one list: q[0, place] = w
        {meet}                                                          #- no barrier
        many = count[(level + 1) % 3]                                   #= two counts: many = count[(level + 1) % 2]
        if at == 0: count[level % 3] = 0
            #= two counts: if at == 0: count[level % 2] = 0
            #= clears this: if at == 0: count[(level + 1) % 3] = 0
        level += 1
"""
    edges = np.random.default_rng(n).integers(0, n, (n, 2)).astype(np.int32)
    edges[:, 0] = (np.arange(n) * 2 + 1) % n
    return Design(text, blocks, threads, lambda: [np.full(n, -9, np.int32), edges.ravel().copy(),
                  np.full((2, n), -9, np.int32), np.full(3, -9, np.int32)], lambda _: {0: _levels(edges)})


def _levels(edges: np.ndarray) -> np.ndarray:
    """How far each node is from the first, -1 where there is no way."""
    dist, todo = np.full(len(edges), -1, np.int32), [0]
    dist[0] = 0
    for v in todo:
        for w in edges[v]:
            if dist[w] < 0:
                dist[w] = dist[v] + 1
                todo.append(w)
    return dist


def planes(rng: random.Random) -> Design:
    """A stencil that goes through planes: the newest ones lie in shared memory, one place more than are read."""
    depth, many, warps = rng.choice([1, 2, 3]), rng.choice([4, 6, 7]), rng.choice([1, 2, 4])
    n, places = 32 * warps, depth + 1
    barrier = "mo.sync_threads()" if warps > 1 or rng.random() < 0.5 else "mo.sync_warp()"
    text = f"""
@mo.kernel
def program(y, x):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, ({n}, {places}))
    for k in range({many}):
        s[tid, k % {places}] = x[k * {n} + tid]
            #= a place less: s[tid, k % {depth}] = x[k * {n} + tid]
        {barrier}
            #- no barrier
            #= seldom: if k % 2 == 0: {barrier}
        total = mo.float32(0)
        for back in mo.static_range({depth}):
            if k >= back: total += s[({n} - 1) - tid, (k - back) % {places}]
                #= a place less: if k >= back: total += s[({n} - 1) - tid, (k - back) % {depth}]
        y[k * {n} + tid] = total
"""
    x = _numbers(many * n)
    rows = x.reshape(many, n)[:, ::-1]
    y = np.stack([rows[max(0, k - depth + 1):k + 1].sum(0) for k in range(many)])
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()], lambda _: {0: y.ravel()})


FAMILIES: dict[str, Any] = {f.__name__: f for f in (bitonic, tree_sum, sweeps, frontier, planes)}
