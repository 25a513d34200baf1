"""Designs of blocks that are linked: rings with credits, tokens dealt out, things set up by who comes first, fix-ups.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def sums_around(rng: random.Random) -> Design:
    """Blocks in a ring sum rows for all: chunks go round twice, through slots that the next block gives back."""
    blocks, slots, warps = rng.choice([2, 3, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    n, steps = 32 * warps, 2 * (blocks - 1)
    text = f"""
@mo.kernel
def program(y, x, room, head, tail):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    left, mine = (b + {blocks - 1}) % {blocks}, b * {blocks}
    for c in range({blocks}): y[(mine + c) * {n} + tid] = x[(mine + c) * {n} + tid]
    for t in range({steps}):
        out, into = (b + {2 * blocks} - t) % {blocks}, (b + {2 * blocks} - t - 1) % {blocks}
        if tid == 0:
            while mo.load(tail, b) < t + 1 - {slots}: pass
                #- no credit
                #= credit relaxed: while mo.load(tail, b, order="relaxed") < t + 1 - {slots}: pass
                #= a slot more: while mo.load(tail, b) < t - {slots}: pass
        mo.sync_threads()                                                   #- no barrier after the credit
        room[(b * {slots} + t % {slots}) * {n} + tid] = y[(mine + out) * {n} + tid]
        mo.sync_threads()                                                   #- no barrier before the head
        if tid == 0:
            mo.store(head, b, t + 1)
                #= head relaxed: mo.store(head, b, t + 1, order="relaxed")
                #= head of the block: mo.store(head, b, t + 1, scope="cta")
            while mo.load(head, left) < t + 1: pass
                #- no look
                #= look relaxed: while mo.load(head, left, order="relaxed") < t + 1: pass
                #= an old head: while mo.load(head, left) < t: pass
                #= its own head: while mo.load(head, b) < t + 1: pass
        mo.sync_threads()                                                   #- no barrier after the head
        v = room[(left * {slots} + t % {slots}) * {n} + {n - 1} - tid]
        at = (mine + into) * {n} + {n - 1} - tid
        if t < {blocks - 1}: y[at] = y[at] + v                              #= always adds: if t >= 0: y[at] = y[at] + v
        else: y[at] = v
        mo.sync_threads()                                                   #- no barrier before the tail
        if tid == 0: mo.store(tail, left, t + 1)
            #= tail relaxed: if tid == 0: mo.store(tail, left, t + 1, order="relaxed")
            #- never gives back
"""
    x = _numbers(blocks * blocks * n)
    credits = {"no credit", "credit relaxed", "a slot more", "tail relaxed", "never gives back",
               "no barrier after the credit", "no barrier before the tail"}
    harmless = {"always adds"}                          # breaks no rule
    if slots >= min(blocks, steps):                     # what the head of the block before says has gone round by then
        harmless |= credits - ({"never gives back"} if slots < steps else set())
    if slots + 1 >= min(blocks, steps):
        harmless |= {"a slot more"}
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(),
                  np.full(blocks * slots * n, np.nan, np.float32), *np.zeros((2, blocks), np.int32)],
                  lambda _: {0: np.tile(x.reshape(blocks, -1).sum(0), blocks)}, harmless=frozenset(harmless),
                  options={"poison": "room"})


def dealt_out(rng: random.Random) -> Design:
    """Blocks put tokens into the rooms of others and say that they have; who has heard of all sums them and goes on."""
    blocks, rounds, n = rng.choice([2, 3]), rng.choice([2, 3, 4]), 32 * rng.choice([1, 2])
    room = n * blocks
    text = f"""
@mo.kernel
def program(y, x, room, used, arrived):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    for r in range({rounds}):
        token = x[(r * {blocks} + b) * {n} + tid]
        to = token % {blocks}
        place = mo.atomic_add(used, r * {blocks} + to, 1)
            #= place by load: place = used[r * {blocks} + to]; used[r * {blocks} + to] = place + 1
        room[(r * {blocks} + to) * {room} + place] = token
        mo.sync_threads()                                                   #- no barrier before the arrival
        if tid < {blocks}: mo.atomic_add(arrived, r % 2 * {blocks} + tid, 1, order="release")
            #= relaxed arrival: if tid < {blocks}: mo.atomic_add(arrived, r % 2 * {blocks} + tid, 1)
            #= one set: if tid < {blocks}: mo.atomic_add(arrived, tid, 1, order="release")
        if tid == 0:
            while mo.load(arrived, r % 2 * {blocks} + b) < {blocks}: pass
                #= relaxed poll: while mo.load(arrived, r % 2 * {blocks} + b, order="relaxed") < {blocks}: pass
                #= one too few: while mo.load(arrived, r % 2 * {blocks} + b) < {blocks - 1}: pass
                #= one set: while mo.load(arrived, b) < {blocks}: pass
            mo.store(arrived, r % 2 * {blocks} + b, 0, order="relaxed")
                #- not set back
                #= one set: mo.store(arrived, b, 0, order="relaxed")
        mo.sync_threads()                                                   #- no barrier after the look
        total = 0
        for i in range(used[r * {blocks} + b]): total += room[(r * {blocks} + b) * {room} + i]
        if tid == 0: y[r * {blocks} + b] = total
"""
    x = np.random.default_rng(n).integers(0, 50, rounds * blocks * n).astype(np.int32)
    rows = x.reshape(rounds, -1)
    y = np.stack([[row[row % blocks == b].sum() for b in range(blocks)] for row in rows]).astype(np.int32)
    harmless: set[str] = set()
    if rounds <= 2:
        harmless |= {"not set back"}
    return Design(text, blocks, n, lambda: [np.full(rounds * blocks, -1, np.int32), x.copy(),
                  np.full(rounds * blocks * room, -1, np.int32), np.zeros(rounds * blocks, np.int32),
                  np.zeros(2 * blocks, np.int32)], lambda _: {0: y.ravel()}, harmless=frozenset(harmless),
                  options={"poison": "room"})


def set_up_once(rng: random.Random) -> Design:
    """Who finds a table not set up takes a lock, looks again, and sets it up; all others find it by its flag."""
    blocks, warps = rng.choice([2, 3]), rng.choice([1, 2])
    n = 32 * warps
    spin = rng.random() < 0.5           # wait for the lock, or for the flag
    inner = """
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0: pass
                #- no lock
            if mo.load(flag, 0, order="relaxed") == 0:                  #= not again: if tid == 0:
                for i in range({n}): table[i] = x[i] * 2
                mo.store(flag, 0, 1)
                    #= relaxed flag: mo.store(flag, 0, 1, order="relaxed")
            mo.atomic_exch(lock, 0, 0, order="release")                 #= lock relaxed: mo.atomic_exch(lock, 0, 0)
""" if spin else """
            if mo.atomic_exch(lock, 0, 1) == 0:                         #= all do: if lock[0] == 0:
                for i in range({n}): table[i] = x[i] * 2
                mo.store(flag, 0, 1)
                    #= relaxed flag: mo.store(flag, 0, 1, order="relaxed")
                    #- never tells
            else:
                while mo.load(flag, 0) == 0: pass
                    #- does not wait
                    #= relaxed poll: while mo.load(flag, 0, order="relaxed") == 0: pass
"""
    text = f"""
@mo.kernel
def program(y, x, table, flag, lock):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if mo.load(flag, 0) == 0:       #= relaxed look: if mo.load(flag, 0, order="relaxed") == 0:
{inner.format(n=n)}
    mo.sync_threads()                                                   #- no barrier
    y[b * {n} + tid] = table[{n - 1} - tid]
"""
    x = _numbers(n)
    return Design(text, blocks, n, lambda: [np.full(blocks * n, np.nan, np.float32), x.copy(),
                  np.full(n, np.nan, np.float32), *np.zeros((2, 1), np.int32)],
                  lambda _: {0: np.tile(2 * x[::-1], blocks)},
                  options={"poison": "table"})


def fixed_up(rng: random.Random) -> Design:
    """Helpers leave parts of a tile and raise a flag each; the owner adds them, and lowers the flags for later."""
    tiles, helpers, warps = rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    n, parts = 32 * warps, helpers + 1
    wait = f"while mo.load(flag, tile * {helpers} + i) == 0: pass"
    text = f"""
@mo.kernel
def program(y, x, part, flag):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    tile, number = b // {parts}, b % {parts}
    v = x[b * {n} + tid] * (number + 1)
    if number > 0:
        at = tile * {helpers} + number - 1
        part[at * {n} + tid] = v
        mo.sync_threads()                                       #- no barrier before the flag
        if tid == 0: mo.store(flag, at, 1)
            #= relaxed flag: if tid == 0: mo.store(flag, at, 1, order="relaxed")
            #= the first tells: if tid == 0 and number == 1: mo.store(flag, at, 1)
    else:
        for i in range({helpers}):
            if tid == 0:
                {wait}
                    #- no wait
                    #= relaxed look: {wait.replace(")", ", order='relaxed')", 1)}
            mo.sync_threads()                                   #- no barrier after the wait
            v += part[(tile * {helpers} + i) * {n} + {n - 1} - tid]
            if tid == 0: flag[tile * {helpers} + i] = 0
                #- not lowered
                #= lowers the next: if tid == 0: flag[tile * {helpers} + (i + 1) % {helpers}] = 0
        y[tile * {n} + tid] = v
"""
    x = _numbers(tiles * parts * n)
    rows = x.reshape(tiles, parts, n) * np.arange(1, parts + 1, dtype=np.float32)[:, None]
    y = rows[:, 0] + rows[:, 1:, ::-1].sum(1)
    harmless = {"the first tells", "lowers the next"} if helpers == 1 else set()
    return Design(text, tiles * parts, n, lambda: [np.full(tiles * n, np.nan, np.float32), x.copy(),
                  np.full(tiles * helpers * n, np.nan, np.float32), np.zeros(tiles * helpers, np.int32)],
                  lambda _: {0: y.ravel().astype(np.float32), 3: np.zeros(tiles * helpers, np.int32)}, launches=2,
                  harmless=frozenset(harmless))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (sums_around, dealt_out, set_up_once, fixed_up)}
