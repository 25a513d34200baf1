"""Designs after well-known patterns: answers that are asked ahead, flags in rotation, trees of blocks, chains of warps.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def _counts(n: int, most: int = 100) -> np.ndarray:
    return np.random.default_rng(n).integers(0, most, n).astype(np.int32)


def asked_ahead(rng: random.Random) -> Design:
    """Both sides of a ring ask for the next stage while they work on this one, and wait where the answer was no."""
    stages, tiles, warps, first = rng.choice([2, 3]), rng.choice([3, 5, 6]), rng.choice([1, 2]), rng.random() < 0.5
    n = 32 * warps
    fills, reads, place = ("tid == 0", "tid >= 32", "tid - 32") if first else (f"tid == {n}", f"tid < {n}", "tid")
    one = "there = 0\n            if tid % 32 == 0: there = mo.where(mo.mbarrier_try_wait({what}), 1, 0)\n" \
          "            there = mo.shuffle_idx(there, 0)"
    ask = one if rng.random() < 0.3 else "there = mo.where(mo.mbarrier_try_wait({what}), 1, 0)"
    after, parity = f"(k + 1) % {stages}", f"(k + 1) // {stages} & 1"
    text = f"""
@mo.kernel
def program(y, x: mo.Static):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, ({n}, {stages}))
    full, empty = mo.mbarrier_array({stages}), mo.mbarrier_array({stages})
    if tid == 0:
        for i in mo.static_range({stages}):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, {warps})
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if {fills}:
        there = mo.mbarrier_try_wait(empty, 0, 1)
        for k in range({tiles}):
            if not there: mo.mbarrier_wait(empty, k % {stages}, (k // {stages} & 1) ^ 1)
                #= fills anyway: pass
            there = mo.mbarrier_try_wait(empty, {after}, ({parity}) ^ 1)            #- keeps the first answer
            filled = (full, k % {stages})
            mo.mbarrier_arrive_expect_tx(full, k % {stages}, {4 * n})
            mo.copyto(mo.BulkCopy(), s[:, k % {stages}], mo.tile(x, ({n},), (k,)), barrier=filled)
    elif {reads}:
        c, total, first, there = {place}, mo.float32(0), 0, 0
        for k in range({tiles}):
            if there == 0: mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
                #- no wait
                #= the other way: if there != 0: mo.mbarrier_wait(full, k % {stages}, k // {stages} & 1)
            total += s[{n - 1} - c, k % {stages}]
            {ask.format(what=f"full, {after}, {parity}")}
            #+ asks the same: there = mo.where(mo.mbarrier_try_wait(full, k % {stages}, k // {stages} & 1), 1, 0)
            #+ asks once: if k == 0: first = there
            #+ asks once: there = first
            mo.sync_warp()                                                          #- no warp barrier
            if c % 32 == 0: mo.mbarrier_arrive(empty, k % {stages})
        y[c] = total
"""
    x = _numbers(tiles * n)
    harmless = {"keeps the first answer", "fills anyway"} if tiles <= stages else set()
    if tiles <= stages and ask != one:
        harmless |= {"no warp barrier"}
    return Design(text, 1, n + 32, lambda: [np.full(n, np.nan, np.float32), x.copy()],
                  lambda _: {0: x.reshape(tiles, n)[:, ::-1].sum(0)}, harmless=frozenset(harmless))


def until_still(rng: random.Random) -> Design:
    """Least values spread until nobody changes one; three flags in turn say so, with one barrier a turn."""
    n, grid = 64, rng.random() < 0.5
    blocks = 2 if grid else 1
    flag = ("mo.load(flag, {0} % 3, order='relaxed')", "mo.store(flag, {0} % 3, 1, order='relaxed')") if grid else \
        ("flag[{0} % 3]", "flag[{0} % 3] = 1")
    look, tell = (text.format("turn") for text in flag)
    look_2, tell_2 = (text.replace("% 3", "% 2") for text in (look, tell))
    meet = "mo.grid_sync()" if grid else "mo.sync_threads()"
    text = f"""
@mo.kernel
def program(y, x, data, flags):
    tid, at = mo.thread_idx().x, mo.block_idx().x * {n} + mo.thread_idx().x
    flag, s = {"flags, data" if grid else f"mo.shared_array(mo.int32, 3), mo.shared_array(mo.int32, (2, {n}))"}
    s[0, at] = x[at]
    if at < 3: flag[at] = 0
    {meet}                                              #- no first barrier
    turn, go = 0, 1
    while go > 0 and turn < 25:
        if at == 0: flag[(turn + 1) % 3] = 0            #= two flags: if at == 0: flag[(turn + 1) % 2] = 0
        here, left = s[turn % 2, at], s[turn % 2, mo.max(at - 9, 0)]
        s[(turn + 1) % 2, at] = mo.min(here, left)      #= in place: s[turn % 2, at] = mo.min(here, left)
        if left < here: {tell}
            #= two flags: if left < here: {tell_2}
        {meet}
            #- no barrier
            #= warp barrier: mo.sync_warp()
        go = {look}                                     #= two flags: go = {look_2}
        turn += 1
    y[at] = s[turn % 2, at]
"""
    x = _counts(blocks * n)
    least = x.copy()
    for _ in range(n):
        least = np.minimum(least, least[np.maximum(np.arange(len(x)) - 9, 0)])
    return Design(text, blocks, n, lambda: [np.full_like(x, -1), x.copy(), np.zeros((2, len(x)), np.int32),
                  np.zeros(3, np.int32)], lambda _: {0: least})


def pairs_of_blocks(rng: random.Random) -> Design:
    """A tree of blocks: of each two the second to come adds what the first has left, and goes up."""
    n, levels = rng.choice([32, 64]), rng.choice([1, 2])
    blocks = 2 ** levels
    counter = f"flag, level * {blocks} + node // 2, 1"
    text = f"""
@mo.kernel
def program(y, x, part, flag):
    tid, bid, second = mo.thread_idx().x, mo.block_idx().x, mo.shared_array(mo.int32, 1)
    value, node, level, up = x[bid * {n} + tid], bid, 0, 1
    while up > 0 and level < {levels}:
        part[(level * {blocks} + node) * {n} + tid] = value
        mo.sync_threads()                                                           #- no barrier before
        if tid == 0:
            second[0] = mo.atomic_add({counter}, order="acq_rel")
                #= releases alone: second[0] = mo.atomic_add({counter}, order="release")
                #= acquires alone: second[0] = mo.atomic_add({counter}, order="acquire")
                #= relaxed: second[0] = mo.atomic_add({counter})
                #= block scope: second[0] = mo.atomic_add({counter}, order="acq_rel", scope="cta")
        mo.sync_threads()                                                           #- no barrier after
        up = second[0]
        if up > 0:                                                                  #= both go up: if up >= 0:
            value += part[(level * {blocks} + (node ^ 1)) * {n} + tid]
            node, level = node // 2, level + 1
    if level == {levels}: y[tid] = value
"""
    x = _numbers(n * blocks)
    return Design(text, blocks, n, lambda: [np.full(n, np.nan, np.float32), x.copy(),
                  np.zeros(n * levels * blocks, np.float32), np.zeros(levels * blocks, np.int32)],
                  lambda _: {0: x.reshape(blocks, n).sum(0)})


def chain_of_warps(rng: random.Random) -> Design:
    """Each warp of a block waits for the sum of those before it, by a flag in shared memory."""
    warps, word = rng.choice([2, 4]), rng.random() < 0.4
    n = 32 * warps
    look = "mo.load(flag, warp - 1, order='relaxed', scope='cta')"
    ordered = "mo.load(flag, warp - 1, scope='cta')"
    text = f"""
@mo.kernel
def program(y, x):
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    sums, flag = mo.shared_array(mo.int32, {warps}), mo.shared_array(mo.int32, {warps})
    if tid < {warps}: flag[tid] = {-1 if word else 0}                       #- not set
    mo.sync_threads()                                                       #- no barrier
    mine, before = mo.warp_scan(x[tid]), 0
    total = mo.shuffle_idx(mine, 31)
""" + (f"""
    if warp > 0 and lane == 0:
        before = -1
        while before < 0: before = {look}
            #= plain: while before < 0: before = flag[warp - 1]
    before = mo.shuffle_idx(before, 0)
    if lane == 0: mo.store(flag, warp, before + total, order="relaxed", scope="cta")        #- never tells
        #= plain store: if lane == 0: flag[warp] = before + total
""" if word else f"""
    if warp > 0 and lane == 0:
        while {ordered} == 0: pass
            #= relaxed look: while {look} == 0: pass
            #= plain: while flag[warp - 1] == 0: pass
            #- no look
        before = sums[warp - 1]
    before = mo.shuffle_idx(before, 0)
    if lane == 0:
        #+ tells first: mo.store(flag, warp, 1, scope="cta")
        sums[warp] = before + total
        mo.store(flag, warp, 1, scope="cta")
            #= relaxed: mo.store(flag, warp, 1, order="relaxed", scope="cta")
            #= tells first: pass
            #- never tells
""") + """
    y[tid] = before + mine
"""
    x = _counts(n)
    return Design(text, 1, n, lambda: [np.full_like(x, -1), x.copy()], lambda _: {0: np.cumsum(x).astype(np.int32)})


def window(rng: random.Random) -> Design:
    """A scan whose blocks look back a whole warp at a time: each lane asks one block, and a vote finds the nearest
    prefix."""
    blocks, n = rng.choice([3, 6]), 32
    text = f"""
@mo.kernel
def program(y, x, state, sums, prefixes):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = mo.warp_scan(x[bid * {n} + tid])
    total, before, base, go = mo.shuffle_idx(mine, 31), 0, bid - 1, bid
    if tid == 0 and bid > 0:
        sums[bid] = total
        mo.store(state, bid, 1)                         #= relaxed sum: mo.store(state, bid, 1, order="relaxed")
    while go > 0:
        at, status, value = base - tid, 2, 0
        if at >= 0:
            status = mo.load(state, at)                 #= relaxed look: status = mo.load(state, at, order="relaxed")
            while status == 0: status = mo.load(state, at)
                #= does not wait: pass
        found = mo.ballot(status == 2)
        if at >= 0 and tid < mo.ffs(found):
            if status == 2: value = prefixes[at]
            else: value = sums[at]                      #= looks elsewhere: else: value = prefixes[at]
        before += mo.warp_reduce(value)
        if found != 0: go = 0
        else: base -= 32
    if tid == 0:
        prefixes[bid] = before + total
        mo.store(state, bid, 2)                         #= relaxed prefix: mo.store(state, bid, 2, order="relaxed")
    y[bid * {n} + tid] = before + mine
"""
    x = _counts(n * blocks, 5)
    return Design(text, blocks, n, lambda: [np.full_like(x, -1), x.copy(), *np.zeros((3, blocks), np.int32)],
                  lambda _: {0: np.cumsum(x).astype(np.int32)}, options={"poison": ("sums", "prefixes")})


def slots_of_all(rng: random.Random) -> Design:
    """The blocks of a cluster send each other numbers by st_async, into slots in turn; they meet when all are used."""
    slots, rounds, size = rng.choice([2, 3]), rng.choice([5, 8]), rng.choice([2, 4])
    again = f"if k % {slots} == 0 and k > 0: "
    text = f"""
@mo.kernel
def program(y, x):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    ours, bar = mo.shared_array(mo.float32, (1, {size}, {slots})), mo.mbarrier_array({slots})
    if tid == 0:
        for i in mo.static_range({slots}): mo.mbarrier_init(bar, i, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()                                   #- no first meeting
    total, held = mo.float32(0), mo.fragment((1,), mo.float32)
    for k in range({rounds}):
        place = k % {slots}
        {again}mo.cluster_sync()
            #- no meeting
            #= in the block: {again}mo.sync_threads()
            #= seldom: if k % {2 * slots} == 0 and k > 0: mo.cluster_sync()
        part = mo.warp_reduce(x[(k * {size} + rank) * 32 + tid])
        if tid == 0: mo.mbarrier_arrive_expect_tx(bar, place, {4 * size})
            #= few bytes: if tid == 0: mo.mbarrier_arrive_expect_tx(bar, place, {4 * size - 4})
        if tid < {size}:                                #= not to all: if tid < {size - 1}:
            held[0] = part
            there = mo.map_shared_rank(ours, tid)
            mo.st_async(mo.tile(there, (1, 1, 1), (0, rank, place))[:, 0, 0], held, barrier=(bar, place))
        mo.mbarrier_wait(bar, place, k // {slots} & 1)
            #- no wait
            #= parity of k: mo.mbarrier_wait(bar, place, k & 1)
            #= one waits: if tid == 0: mo.mbarrier_wait(bar, place, k // {slots} & 1)
        for i in range({size}): total += (i + 1) * ours[0, i, place]
    y[rank * 32 + tid] = total
"""
    x = _numbers(rounds * size * 32)
    total = (x.reshape(rounds, size, 32).sum((0, 2)) * np.arange(1, size + 1)).sum()
    return Design(text, size, 32, lambda: [np.full(32 * size, np.nan, np.float32), x.copy()],
                  lambda _: {0: np.full(32 * size, total, np.float32)}, cluster=(size, 1, 1))


def sorted_by_digit(rng: random.Random) -> Design:
    """A pass of a radix sort: the last block scans the counts of all, tells them, and each puts its numbers there."""
    blocks = rng.choice([2, 3])
    last = "if tid == 0: last[0] = mo.atomic_add(ready, 0, 1, order='acq_rel')"
    text = f"""
@mo.kernel
def program(y, x, counts, ready):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    last, mine = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 4)
    if tid < 4: mine[tid] = 0
    mo.sync_warp()                                                  #- no barrier after zero
    digit = x[bid * 32 + tid] & 3
    same = mo.match_any(digit)
    below = mo.popcount(same & ((mo.uint32(1) << tid) - mo.uint32(1)))
    if below == 0: mine[digit] = mo.popcount(same)
    mo.sync_warp()                                                  #- no barrier after the counts
    if tid < 4: counts[tid * {blocks} + bid] = mine[tid]
    mo.sync_warp()                                                  #- no barrier before the ticket
    {last}
        #= releases alone: {last.replace("acq_rel", "release")}
        #= acquires alone: {last.replace("acq_rel", "acquire")}
    mo.sync_warp()                                                  #- no barrier after the ticket
    if last[0] == {blocks - 1}:
        value = 0
        if tid < {4 * blocks}: value = counts[tid]
        value = mo.warp_scan(value, inclusive=False)
        if tid < {4 * blocks}: counts[tid] = value
        mo.sync_warp()                                              #- no barrier after the scan
        if tid == 0: mo.store(ready, 1, 1)
            #= relaxed: if tid == 0: mo.store(ready, 1, 1, order="relaxed")
    if tid == 0:
        while mo.load(ready, 1) == 0: pass                          #= counts: while mo.load(ready, 0) < {blocks}: pass
    mo.sync_warp()                                                  #- no barrier after the look
    y[counts[digit * {blocks} + bid] + below] = x[bid * 32 + tid]
"""
    x = _counts(32 * blocks)
    y = x[np.argsort(x & 3, kind="stable")]
    return Design(text, blocks, 32, lambda: [np.full_like(x, -1), x.copy(), np.zeros(4 * blocks, np.int32),
                  np.zeros(2, np.int32)], lambda _: {0: y})


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    asked_ahead, until_still, pairs_of_blocks, chain_of_warps, window, slots_of_all, sorted_by_digit)}
