"""Designs of data structures in memory: deques, hash tables, stacks, numbered records, rows of semaphores, broadcasts.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def deque(rng: random.Random) -> Design:
    """A block puts work onto its deque and takes it from the end; others steal at the front (Chase and Lev's).

    What its fences and its swap are for shows where takes and steals meet in few ways, which no schedule has for sure.
    """
    items, thieves = rng.choice([2, 3, 5]), rng.choice([1, 2])
    text = f"""
@mo.kernel
def program(y, x, work, bottom, top, done):
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            for k in range({items}):
                work[k] = x[k]
                mo.fence()                                              #- put relaxed
                mo.store(bottom, 0, k + 1, order="relaxed")
            more = 1
            while more > 0:
                b = mo.load(bottom, 0, order="relaxed") - 1
                mo.store(bottom, 0, b, order="relaxed")
                mo.fence("seq_cst")
                t = mo.load(top, 0, order="relaxed")
                if t < b:                                               #= no race for the last: if t <= b:
                    y[b] = y[b] + 2 * work[b]
                    mo.atomic_add(done, 0, 1)
                else:
                    if t == b:
                        if mo.atomic_cas(top, 0, t, t + 1, order="relaxed") == t:
                            y[b] = y[b] + 2 * work[b]
                            mo.atomic_add(done, 0, 1)
                        #+ loser works: y[b] = y[b] + 2 * work[b]
                    mo.store(bottom, 0, b + 1, order="relaxed")
                    more = 0
        else:
            while mo.load(done, 0, order="relaxed") < {items}:
                t = mo.load(top, 0, order="acquire")
                mo.fence("seq_cst")
                b = mo.load(bottom, 0, order="acquire")
                    #= looks relaxed: b = mo.load(bottom, 0, order="relaxed")
                if t < b:
                    if mo.atomic_cas(top, 0, t, t + 1, order="relaxed") == t:
                        y[t] = y[t] + 2 * work[t]
                        mo.atomic_add(done, 0, 1)
"""
    x = _numbers(items)
    return Design(text, 1 + thieves, 32, lambda: [np.zeros_like(x), x.copy(), np.full_like(x, np.nan),
                  *np.zeros((3, 1), np.int32)], lambda _: {0: 2 * x})


def claims(rng: random.Random) -> Design:
    """Blocks keep each other out by loads, stores and fences alone: Dekker's, Peterson's and Lamport's algorithms."""
    way, times = rng.choice(["dekker", "peterson", "bakery"]), rng.choice([1, 2, 3])
    fence = """mo.fence("seq_cst")
                #- never fences
                #= weak fence: mo.fence("acq_rel")"""
    enter = {"dekker": f"""
            mo.store(want, me, 1, order="relaxed")
            {fence}
            while mo.load(want, 1 - me, order="acquire") != 0:
                if mo.load(turn, 0, order="acquire") != me:
                    mo.store(want, me, 0, order="release")
                    while mo.load(turn, 0, order="acquire") != me: pass
                    mo.store(want, me, 1, order="relaxed")
                    {fence.replace("            #", "                    #")}
""", "peterson": f"""
            mo.store(want, me, 1, order="relaxed")
            {fence}
            mo.store(turn, 0, 1 - me, order="release")
            {fence}
            while mo.load(want, 1 - me, order="acquire") == 1 and mo.load(turn, 0, order="acquire") == 1 - me: pass
""", "bakery": f"""
            mo.store(choosing, me, 1, order="relaxed")
            {fence}
            most = mo.int32(0)
            for j in range(3): most = mo.max(most, mo.load(want, j, order="acquire"))
            mine = most + 1
            mo.store(want, me, mine, order="release")
            mo.store(choosing, me, 0, order="release")
            {fence}
            for j in range(3):
                if j != me:
                    while mo.load(choosing, j, order="acquire") != 0: pass
                    other = mo.load(want, j, order="acquire")
                    while other != 0 and (other < mine or (other == mine and j < me)):
                        other = mo.load(want, j, order="acquire")
"""}[way]
    text = f"""
@mo.kernel
def program(data, want, choosing, turn):
    me = mo.block_idx().x
    if mo.thread_idx().x == 0:
        for k in range({times}):
            #+ before: data[0] = data[0] + 1
{enter}
            data[0] = data[0] + 1                               #= before: pass #= after: pass
            {"mo.store(turn, 0, 1 - me, order='release')" if way == "dekker" else "pass"}
            mo.store(want, me, 0, order="release")              #= back relaxed: mo.store(want, me, 0, order="relaxed")
            #+ after: data[0] = data[0] + 1
"""
    blocks = 3 if way == "bakery" else 2
    # Dekker's turn is handed over by a release, too.
    harmless = {"back relaxed"} if way == "dekker" else set()
    return Design(text, blocks, 32, lambda: [*np.zeros((4, 3), np.int32)],
                  lambda _: {0: np.array([times * blocks, 0, 0], np.int32)}, harmless=frozenset(harmless))


def hash_table(rng: random.Random) -> Design:
    """Threads put keys into a table by compare and swap, count by atomics, and read the table after a barrier."""
    shared, warps, blocks = rng.random() < 0.5, rng.choice([1, 2]), rng.choice([1, 2])
    blocks = 1 if shared else blocks
    n, size = 32 * warps, 16
    make = f"""keys, counts = mo.shared_array(mo.int32, {size}), mo.shared_array(mo.int32, {size})
    if tid < {size}: keys[tid] = -1; counts[tid] = 0
    mo.sync_threads()                                                   #- no barrier before""" if shared else "pass"
    meet = "mo.sync_threads()" if blocks == 1 else "mo.grid_sync()"
    text = f"""
@mo.kernel
def program(y, x, keys, counts, first):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    {make}
    key = x[bid * {n} + tid]
    at, more = key * 5 % {size}, 1
    while more > 0:
        old = mo.atomic_cas(keys, at, -1, key)
            #= plain: old = keys[at]
        if old == -1 or old == key:
            #+ plain: keys[at] = key
            mo.atomic_add(counts, at, 1)
                #= plain count: counts[at] = counts[at] + 1
            if old == -1: first[at] = bid * {n} + tid
                #= all write: first[at] = bid * {n} + tid
            #+ reads at once: y[bid * {n} + tid] = first[at]
            more = 0
        else:
            at = (at + 1) % {size}
    {meet}                                                              #- no barrier
    if bid == 0 and tid < {size}:
        if keys[tid] >= 0:
            y[keys[tid]] = counts[tid] + 0 * first[tid]
"""
    total = n * blocks
    x = np.random.default_rng(total).integers(0, 9, total).astype(np.int32)
    y = np.zeros(total, np.int32)
    y[:9] = np.bincount(x, minlength=9)
    return Design(text, blocks, n, lambda: [np.zeros(total, np.int32), x.copy(), np.full(size, -1, np.int32),
                  *np.zeros((2, size), np.int32)], lambda _: {0: y})


def stack(rng: random.Random) -> Design:
    """Threads put nodes onto a list by compare and swap; a block takes all of them, several times."""
    makers, each = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    total = makers * each
    text = f"""
@mo.kernel
def program(y, x, value, after, head):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if bid > 0:
            for k in range({each}):
                node = (bid - 1) * {each} + k
                value[node] = x[node]
                seen = mo.load(head, 0, order="relaxed")
                more = 1
                while more > 0:
                    after[node] = seen                                  #= link late: pass
                    old = mo.atomic_cas(head, 0, seen, node, order="release")
                        #= put relaxed: old = mo.atomic_cas(head, 0, seen, node, order="relaxed")
                    #+ link late: after[node] = seen
                    more = 0 if old == seen else 1
                    seen = old
                #+ value late: value[node] = x[node]
                #+ written again: after[node] = -1
        else:
            got, total = 0, mo.float32(0)
            while got < {total}:                                        #= one left: while got < {total - 1}:
                node = mo.atomic_exch(head, 0, -1, order="acquire")
                    #= takes relaxed: node = mo.atomic_exch(head, 0, -1, order="relaxed")
                    #= looks only: node = mo.load(head, 0, order="acquire")
                while node >= 0:
                    total += value[node]
                    got += 1
                    node = after[node]
            y[0] = total
"""
    x = _numbers(total)
    return Design(text, 1 + makers, 32, lambda: [np.full(1, np.nan, np.float32), x.copy(),
                  np.full_like(x, np.nan), np.full(total, -9, np.int32), np.full(1, -1, np.int32)],
                  lambda _: {0: np.array([x.sum()], np.float32)}, harmless=frozenset({"one left", "looks only"}))


def in_turn(rng: random.Random) -> Design:
    """Blocks of one tile add their sums to the output, each after the one before it (split-K with a semaphore)."""
    splits, tiles, warps = rng.choice([2, 3, 4]), rng.choice([1, 2]), rng.choice([1, 2])
    n, again = 32 * warps, rng.random() < 0.5
    reset = f"0 if k == {splits - 1} else k + 1" if again else "k + 1"
    way = rng.choice(["release", "fence"])
    give = (f'mo.store(turn, tile, {reset}, order="release")' if way == "release" else
            f'mo.fence(); mo.store(turn, tile, {reset}, order="relaxed")')
    look = 'mo.load(turn, tile, order="acquire")' if way == "release" else 'mo.load(turn, tile, order="relaxed")'
    text = f"""
@mo.kernel
def program(y, x, turn):
    tid, tile, k = mo.thread_idx().x, mo.block_idx().x % {tiles}, mo.block_idx().x // {tiles}
    mine = x[(k * {tiles} + tile) * {n} + tid]
    if k > 0:
        if tid == 0:
            while {look} != k:
                #= one earlier: while {look} < k - 1:
                #= looks relaxed: while mo.load(turn, tile, order="relaxed") != k:
                pass
            {'mo.fence()' if way == "fence" else "pass"}        #- looks relaxed
        mo.sync_threads()                                       #- no barrier after
        mine += y[tile * {n} + {n - 1} - tid if k % 2 else tile * {n} + tid]
            #= of another tile: mine += y[(tile + 1) % {tiles} * {n} + tid]
    mo.sync_threads()                                           #- no barrier between
    y[tile * {n} + tid] = mine
    mo.sync_threads()                                           #- no barrier before
    if tid == 0:
        {give}
            #= gives relaxed: mo.store(turn, tile, {reset}, order="relaxed")
            #= gives in the block: mo.store(turn, tile, {reset}, order="release", scope="cta")
    #+ written late: y[tile * {n} + tid] = mine
"""
    x = _numbers(splits * tiles * n)
    parts, now = x.reshape(splits, tiles, n), np.zeros((tiles, n), np.float32)
    for k in range(splits):
        now = parts[k] + (0 if k == 0 else now[:, ::-1] if k % 2 else now)
    harmless = {"of another tile"} if tiles == 1 else set()
    return Design(text, splits * tiles, n, lambda: [np.full(tiles * n, np.nan, np.float32), x.copy(),
                  np.zeros(tiles, np.int32)], lambda _: {0: now.ravel().astype(np.float32)},
                  harmless=frozenset(harmless), launches=2 if again else 1)


def broadcast(rng: random.Random) -> Design:
    """Persistent blocks draw tiles; a thread tells the others by one of two places in turn, with a barrier a tile."""
    warps, blocks, tiles, places = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([3, 5]), rng.choice([1, 2, 3])
    n, ahead = 32 * warps, rng.random() < 0.5
    second = "mo.sync_threads()" if places == 1 else "pass"
    text = f"""
@mo.kernel
def program(y, x, ticket):
    tid, turn, tile = mo.thread_idx().x, mo.int32(0), mo.int32(0)
    place = mo.shared_array(mo.int32, {places})
    while tile < {tiles}:
        if tid == {0 if not ahead else n - 1}:
            place[turn % {places}] = mo.atomic_add(ticket, 0, 1)
                #= one place: place[0] = mo.atomic_add(ticket, 0, 1)
                #= plain: place[turn % {places}] = ticket[0]; ticket[0] = ticket[0] + 1
        mo.sync_threads()
            #- no barrier
            #= warp barrier: mo.sync_warp()
            #= in the branch: if tid < {n // 2}: mo.sync_threads()
        tile = place[turn % {places}]
            #= one place: tile = place[0]
            #= other place: tile = place[(turn + 1) % {places}]
        {second}                                                #- no second barrier
        turn += 1
        if tile < {tiles}:                                      #= one more: if tile <= {tiles}:
            y[tile * {n} + tid] = 2 * x[tile * {n} + tid]
"""
    x = _numbers(tiles * n)
    harmless: set[str] = set()
    if places == 1:
        harmless |= {"one place", "other place"}
    else:
        harmless |= {"no second barrier"}
    if warps == 1:
        harmless |= {"warp barrier"}
    if blocks == 1:
        harmless |= {"plain"}
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: 2 * x}, harmless=frozenset(harmless))


def records(rng: random.Random) -> Design:
    """Writers take turns at a record by making its number odd by compare and swap; readers look twice at the number."""
    writers, readers, words = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([2, 3])
    text = f"""
@mo.kernel
def program(y, data, number):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if bid < {writers}:
            got = -1
            while got < 0:
                seen = mo.load(number, 0, order="relaxed")
                if seen % 2 == 0:
                    if mo.atomic_cas(number, 0, seen, seen + 1, order="acquire") == seen:
                        got = seen
            mo.fence()                                                  #- no writer fence
            for i in mo.static_range({words}):
                mo.store(data, i, bid + 1 + mo.load(data, i, order="relaxed"), order="relaxed")
            mo.store(number, 0, got + 2, order="release")
                #= back relaxed: mo.store(number, 0, got + 2, order="relaxed")
        else:
            first, second = 1, 0
            a, b = mo.int32(0), mo.int32(0)
            while first != second or first % 2 == 1:
                first = mo.load(number, 0, order="acquire")
                    #= first relaxed: first = mo.load(number, 0, order="relaxed")
                a = mo.load(data, 0, order="relaxed")
                b = mo.load(data, {words - 1}, order="relaxed")
                mo.fence()                                              #- no reader fence
                second = mo.load(number, 0, order="relaxed")
            y[bid - {writers}] = a - b
"""
    return Design(text, writers + readers, 32, lambda: [np.full(readers, -1, np.int32), np.zeros(words, np.int32),
                  np.zeros(1, np.int32)], lambda _: {0: np.zeros(readers, np.int32)})


FAMILIES: dict[str, Any] = {f.__name__: f for f in (deque, claims, hash_table, stack, in_turn, broadcast, records)}
