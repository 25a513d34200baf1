"""Designs in which blocks tell each other: schedulers, stream-K fix-up, look-back, last blocks, turns, grids that meet.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def ticket_scheduler(rng: random.Random) -> Design:
    """Persistent blocks take tiles from a counter; a thread of each tells the others through shared memory."""
    warps, tiles, blocks = rng.choice([1, 2, 3]), rng.choice([5, 7, 12]), rng.choice([2, 3, 4])
    n, two = 32 * warps, rng.random() < 0.4
    slots = 2 if two else 1
    slot = "turn % 2" if two else "0"
    second = "" if two else "        mo.sync_threads()                       #- no second barrier"
    text = f"""
@mo.kernel
def program(y, x, ticket):
    tid = mo.thread_idx().x
    taken = mo.shared_array(mo.int32, {slots})
    turn, more = 0, 1
    while more > 0:
        if tid == 0:
            taken[{slot}] = mo.atomic_add(ticket, 0, 1)         #= ticket by load: taken[{slot}] = ticket[0]
            #+ ticket by load: ticket[0] = taken[{slot}] + 1
        mo.sync_threads()
            #- no barrier
            #= warp barrier: mo.sync_warp()
        tile = taken[{slot}]                        #= other slot: tile = taken[({slot}) + 1]
{second}
        turn += 1
        if tile >= {tiles}:                         #= one tile more: if tile > {tiles}:
            more = 0
        else:
            y[tile * {n} + tid] = 2 * x[tile * {n} + tid]
                #= overlapping: y[tile * {n - 1} + tid] = x[tile * {n} + tid]
"""
    x = _numbers(tiles * n)
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: 2 * x}, harmless=frozenset({"warp barrier"} if warps == 1 else ()))


def stream_k(rng: random.Random) -> Design:
    """Each tile's parts are summed by several blocks; the last part's block waits for the flags of the others."""
    warps, parts, tiles, deep = rng.choice([1, 2, 4]), rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([1, 3])
    n = 32 * warps
    way = rng.choice(["release", "fence"])
    poll = rng.choice(["acquire", "fence"])
    count = rng.random() < 0.5
    if count:
        signal = (f"mo.atomic_add(flags, tile, 1, order={'release' if way == 'release' else 'relaxed'!r})",
                  "mo.atomic_add(flags, tile, 1, order='relaxed')",
                  "mo.atomic_add(flags, tile, 1, order='release', scope='cta')")
        look = f"mo.load(flags, tile, order='{{o}}') < {parts - 1}"
    else:
        signal = (f"mo.store(flags, tile * {parts} + part, 1, order={'release' if way == 'release' else 'relaxed'!r})",
                  f"mo.store(flags, tile * {parts} + part, 1, order='relaxed')",
                  f"mo.store(flags, tile * {parts} + part, 1, order='release', scope='cta')")
        look = f"mo.load(flags, tile * {parts} + p, order='{{o}}') == 0"
    order = "acquire" if poll == "acquire" else "relaxed"
    wrong = look.format(o=order).replace(f"< {parts - 1}", f"< {parts - 2}").replace("== 0", "< 0")
    text = f"""
@mo.kernel
def program(y, x, work, flags):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    tile, part = bid % {tiles}, bid // {tiles}
    total = mo.float32(0)
    for k in range({deep}):
        total += x[((tile * {parts} + part) * {deep} + k) * {n} + tid]
    if part < {parts - 1}:
        #+ early flag: if tid == 0:
        #+ early flag:     {signal[0]}
        work[(tile * {parts} + part) * {n} + tid] = total
            #= one slot: work[tile * {parts} * {n} + tid] = total
        mo.sync_threads()                   #- no barrier before the flag
        if tid == 0:
            {'mo.fence()' if way == 'fence' else 'pass'}                    #- no release
            {signal[0]}
                #= early flag: pass
                #= no release: {signal[1]}
                #= block scope: {signal[2]}
    else:
        if tid == 0:                        #= other thread polls: if tid == {n - 1}:
            for p in range({1 if count else parts - 1}):
                while {look.format(o=order)}:
                    #= no wait: if tid < 0:
                    #= waits too little: while {wrong}:
                    #= no acquire: while {look.format(o='relaxed')}:
                    pass
            {'mo.fence()' if poll == 'fence' else 'pass'}                   #- no acquire
        mo.sync_threads()                   #- no barrier after the wait
        for p in range({parts - 1}):        #= one part more: for p in range({parts}):
            total += work[(tile * {parts} + p) * {n} + tid]
        y[tile * {n} + tid] = total
"""
    x = _numbers(parts * tiles * deep * n)
    sums = x.reshape(tiles, parts * deep, n).sum(1).ravel()
    harmless = {"other thread polls", *(["one slot"] if parts == 2 else [])}
    return Design(text, parts * tiles, n, lambda: [np.full(tiles * n, np.nan, np.float32), x.copy(),
                  np.full(parts * tiles * n, np.nan, np.float32), np.zeros(parts * tiles, np.int32)],
                  lambda _: {0: sums}, harmless=frozenset(harmless), options={"poison": "work"})


_IN_ONE_WORD = """
    if tid == {last}:
        found, at = 0, bid - 1                          #= looks at itself: found, at = 0, bid
        if bid > 0:
            mo.store(state, bid, mine * 4 + 1, order='relaxed')         #- no sum published
            done = 0
            while done == 0:
                word = mo.load(state, at, order='relaxed')
                while word % 4 == 0:                    #= no wait: if word % 4 == 4:
                    word = mo.load(state, at, order='relaxed')
                found += word // 4
                if word % 4 == 2:                       #= beyond the first: if word % 4 == 3:
                    done = 1
                at -= 1
        mo.store(state, bid, (found + mine) * 4 + 2, order='relaxed')
        before[0] = found
"""
"""Value and state in one word: relaxed accesses suffice."""
_IN_TWO_WORDS = """
    if tid == {last}:
        found, at = 0, bid - 1                          #= looks at itself: found, at = 0, bid
        if bid > 0:
            sums[bid] = mine
            mo.store(state, bid, 1, order='release')
                #= relaxed flag: mo.store(state, bid, 1, order='relaxed')
                #- no sum published
            done = 0
            while done == 0:
                kind = mo.load(state, at, order='acquire')
                    #= relaxed look: kind = mo.load(state, at, order='relaxed')
                while kind == 0:                        #= no wait: if kind == 4:
                    kind = mo.load(state, at, order='acquire')
                        #= relaxed look: kind = mo.load(state, at, order='relaxed')
                found += sums[at] if kind == 1 else prefixes[at]        #= prefix always: found += prefixes[at]
                if kind == 2:                           #= beyond the first: if kind > 2:
                    done = 1
                at -= 1
        prefixes[bid] = found + mine
        mo.store(state, bid, 2, order='release')
            #= relaxed prefix flag: mo.store(state, bid, 2, order='relaxed')
        before[0] = found
"""


def look_back(rng: random.Random) -> Design:
    """A scan: each block publishes its sum, looks back until it finds a prefix, and publishes its own."""
    warps, blocks = rng.choice([1, 2]), rng.choice([3, 4, 6])
    n, packed = 32 * warps, rng.random() < 0.5
    ticket = rng.random() < 0.5
    first = f"""
    turn = mo.shared_array(mo.int32, 1)
    if tid == 0:
        turn[0] = mo.atomic_add(state, {blocks}, 1)
    mo.sync_threads()
    bid = turn[0]
""" if ticket else "    bid = mo.block_idx().x\n"
    head = f"""
@mo.kernel
def program(y, x, state, sums, prefixes):
    tid = mo.thread_idx().x
{first}
    scratch, before = mo.shared_array(mo.int32, 32), mo.shared_array(mo.int32, 1)
    mine = mo.block_scan(x[bid * {n} + tid], scratch)
"""
    tail = f"""
    mo.sync_threads()                                   #- no barrier
    y[bid * {n} + tid] = before[0] + mine
"""
    text = head + (_IN_ONE_WORD if packed else _IN_TWO_WORDS).format(last=n - 1) + tail
    x = np.random.default_rng(blocks).integers(0, 5, n * blocks).astype(np.int32)
    # Without the sums the prefixes alone still end the looking back; who looks at itself is wrong in one way only.
    harmless = {"no sum published", "looks at itself"}
    return Design(text, blocks, n, lambda: [np.full_like(x, -1), x.copy(), np.zeros(blocks + 1, np.int32),
                  np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)],
                  lambda _: {0: np.cumsum(x).astype(np.int32)}, harmless=frozenset(harmless),
                  options={"poison": ("sums", "prefixes")} if not packed else {})


def last_block(rng: random.Random) -> Design:
    """Each block stores a partial sum and takes a ticket; who is last sums them all and resets the ticket."""
    warps, blocks = rng.choice([1, 2, 4]), rng.choice([2, 3, 5])
    n, way = 32 * warps, rng.choice(["acq_rel", "fences"])
    order = "acq_rel" if way == "acq_rel" else "relaxed"
    fences = "mo.fence()" if way == "fences" else "pass"
    wide = rng.random() < 0.5           # every thread stores a part, or one does
    store = f"part[bid * {n} + tid] = x[bid * {n} + tid]" if wide else "if tid == 0:\n        part[bid] = total"
    barrier = "    mo.sync_threads()                                   #- no barrier before the ticket" if wide else ""
    loop = (f"        for b in range({blocks}):\n            all_ += part[b * {n} + tid]" if wide else
            f"        if tid < {blocks}:\n            all_ += part[tid]")
    text = f"""
@mo.kernel
def program(y, x, part, ticket):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    scratch, last = mo.shared_array(mo.float32, 32), mo.shared_array(mo.int32, 1)
    total = mo.block_reduce(x[bid * {n} + tid], scratch)
    {store}
{barrier}
    if tid == 0:
        {fences}
            #- no release
            #- no order
        last[0] = mo.atomic_add(ticket, 0, 1, order={order!r})
            #= no release: last[0] = mo.atomic_add(ticket, 0, 1, order={'acquire' if way == 'acq_rel' else 'relaxed'!r})
            #= no acquire: last[0] = mo.atomic_add(ticket, 0, 1, order={'release' if way == 'acq_rel' else 'relaxed'!r})
            #= block scope: last[0] = mo.atomic_add(ticket, 0, 1, order={order!r}, scope='cta')
            #= no order: last[0] = mo.atomic_add(ticket, 0, 1)
        {fences}
            #- no acquire
            #- no order
    mo.sync_threads()                                   #- no barrier after the ticket
    if last[0] == {blocks - 1}:
        #= last but one: if last[0] == {blocks - 2}:
        #= first: if last[0] == 0:
        all_ = mo.float32(0)
{loop}
        all_ = mo.block_reduce(all_, scratch)
        if tid == 0:
            y[0] = all_
            ticket[0] = 0                               #- who resets
    #+ who resets: if tid == 0:
    #+ who resets:     ticket[0] = 0
"""
    x = _numbers(blocks * n)
    size = blocks * n if wide else blocks
    return Design(text, blocks, n, lambda: [np.full(1, np.nan, np.float32), x.copy(),
                  np.full(size, np.nan, np.float32), np.zeros(1, np.int32)],
                  lambda _: {0: x.sum(keepdims=True), 3: np.zeros(1, np.int32)}, launches=rng.choice([1, 2]),
                  options={"poison": "part"})


def turns(rng: random.Random) -> Design:
    """Blocks add to one row in the order of their numbers, each after it has seen the one before."""
    warps, blocks = rng.choice([1, 2, 3]), rng.choice([2, 3, 5])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x, turn):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = x[bid * {n} + tid]
    if tid == 0:
        while mo.load(turn, 0, order='acquire') != bid:
            #= no acquire: while mo.load(turn, 0, order='relaxed') != bid:
            #= too early: while mo.load(turn, 0, order='acquire') < bid - 1:
            #= atomic look: while mo.atomic_add(turn, 0, 0) != bid:
            pass
    mo.sync_threads()                                       #- no barrier after the wait
    y[tid] = y[tid] + mine                                  #= neighbour: y[tid] = y[(tid + 1) % {n}] + mine
    mo.sync_threads()                                       #- no barrier before the turn
    if tid == 0:                                            #= other thread tells: if tid == {n - 1}:
        mo.store(turn, 0, bid + 1, order='release')
            #= relaxed: mo.store(turn, 0, bid + 1, order='relaxed')
            #= plain: turn[0] = bid + 1
            #= block scope: mo.store(turn, 0, bid + 1, order='release', scope='cta')
            #= skips: mo.store(turn, 0, bid + 2, order='release')
    #+ all tell: mo.store(turn, 0, bid + 1, order='release')
"""
    x = _numbers(blocks * n)
    return Design(text, blocks, n, lambda: [np.zeros(n, np.float32), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: x.reshape(blocks, n).sum(0)}, harmless=frozenset({"other thread tells", "all tell"}))


def grid_steps(rng: random.Random) -> Design:
    """A stencil, step by step, with two buffers and a barrier of the grid after each step; blocks own a part each."""
    warps, blocks, steps = rng.choice([1, 2]), rng.choice([2, 3]), rng.choice([1, 2, 3])
    n = 32 * warps
    size = blocks * n
    text = f"""
@mo.kernel
def program(a, b):
    i = mo.block_idx().x * {n} + mo.thread_idx().x
    for step in mo.static_range({steps}):
        old, new = (a, b) if step % 2 == 0 else (b, a)      #= one buffer: old, new = a, a
        left = old[i - 1] if i > 0 else mo.float32(0)
            #= left edge: left = old[i - 1] if i >= 0 else mo.float32(0)
        right = old[i + 1] if i < {size - 1} else mo.float32(0)
            #= right edge: right = old[i + 1] if i < {size} else mo.float32(0)
        new[i] = left + right
        mo.grid_sync()
            #- no grid barrier
            #= block barrier: mo.sync_threads()
            #= some leave: if mo.block_idx().x > 0: mo.grid_sync()
"""
    x = _numbers(size)
    now, then = x, np.zeros_like(x)
    for _ in range(steps):
        then = np.concatenate([[0], now[:-1]]) + np.concatenate([now[1:], [0]])
        now, then = then.astype(np.float32), now
    harmless = {"no grid barrier", "block barrier"} if steps == 1 else set()
    return Design(text, blocks, n, lambda: [x.copy(), np.full_like(x, np.nan)],
                  lambda _: {steps % 2: now}, harmless=frozenset(harmless))


def counted_barrier(rng: random.Random) -> Design:
    """A barrier of the grid made of an atomic counter, used several times; blocks exchange parts after each."""
    warps, blocks, rounds = rng.choice([1, 2]), rng.choice([2, 3, 4]), rng.choice([1, 2, 3])
    n = 32 * warps
    sense = rng.random() < 0.5
    if sense:       # last arrival resets the count and tells the generation
        meet = f"""
            old = mo.atomic_add(count, 0, 1, order='acq_rel')
                #= relaxed arrival: old = mo.atomic_add(count, 0, 1, order='relaxed')
            if old == {blocks - 1}:
                mo.store(count, 0, 0, order='relaxed')              #- no reset
                mo.store(count, 1, r + 1, order='release')
                    #= relaxed generation: mo.store(count, 1, r + 1, order='relaxed')
            else:
                while mo.load(count, 1, order='acquire') <= r:
                    #= relaxed poll: while mo.load(count, 1, order='relaxed') <= r:
                    #= previous: while mo.load(count, 1, order='acquire') < r:
                    pass
"""
    else:
        meet = f"""
            mo.atomic_add(count, 0, 1, order='release')
                #= relaxed arrival: mo.atomic_add(count, 0, 1, order='relaxed')
            while mo.load(count, 0, order='acquire') < {blocks} * (r + 1):
                #= relaxed poll: while mo.load(count, 0, order='relaxed') < {blocks} * (r + 1):
                #= one too few: while mo.load(count, 0, order='acquire') < {blocks} * (r + 1) - 1:
                pass
"""
    text = f"""
@mo.kernel
def program(y, x, data, count):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = x[bid * {n} + tid]
    for r in range({rounds}):
        data[(r * {blocks} + bid) * {n} + tid] = mine               #= one row: data[bid * {n} + tid] = mine
        mo.sync_threads()                                           #- no barrier before
        if tid == 0:
{meet}
        mo.sync_threads()                                           #- no barrier after
        mine += data[(r * {blocks} + (bid + 1) % {blocks}) * {n} + tid]
            #= one row: mine += data[(bid + 1) % {blocks} * {n} + tid]
    y[bid * {n} + tid] = mine
"""
    x = _numbers(blocks * n)
    now = x.reshape(blocks, n)
    for _ in range(rounds):
        now = now + np.roll(now, -1, 0)
    harmless = {"one row", "no reset"} if rounds == 1 else set()
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(),
                  np.full(rounds * blocks * n, np.nan, np.float32), np.zeros(2, np.int32)],
                  lambda _: {0: now.ravel()}, harmless=frozenset(harmless), options={"poison": "data"})


def dependent(rng: random.Random) -> Design:
    """Launches that overlap: each reads what the one before wrote, and adds to it."""
    warps, blocks = rng.choice([1, 2]), rng.choice([1, 3])
    n = 32 * warps
    early = rng.random() < 0.5
    text = f"""
@mo.kernel
def program(y, x):
    i = mo.block_idx().x * {n} + mo.thread_idx().x
    mine = x[i]
    #+ read before: old = y[i]
    #+ written before: y[i] = 0
    {'mo.griddepcontrol_launch_dependents()' if early else 'pass'}
    mo.griddepcontrol_wait()
        #- no wait
        #= some wait: if mo.thread_idx().x >= 32 or mo.block_idx().x > 0: mo.griddepcontrol_wait()
    y[i] = y[i] + mine                              #= read before: y[i] = old + mine
"""
    x = _numbers(blocks * n)
    return Design(text, blocks, n, lambda: [np.zeros_like(x), x.copy()], lambda _: {0: 3 * x}, launches=3,
                  dependent=True)


def two_counters(rng: random.Random) -> Design:
    """Blocks, or the warps of one, draw a number, then a ticket; who has the last ticket sets both back."""
    inside, several = rng.random() < 0.5, rng.choice([2, 3, 5])
    blocks, warps = (1, several) if inside else (several, 1)
    shared = inside and rng.random() < 0.5
    way = rng.choice(["acq_rel", "fences"])
    order = "acq_rel" if way == "acq_rel" else "relaxed"
    back = rng.choice(["number[0] = 0", "mo.store(number, 0, 0)", "mo.atomic_exch(number, 0, 0)"])
    more = rng.choice(["pass", f"y[mo.atomic_add(number, 0, 0) - {several}] = 1"])      # who has the last draws again
    draw = "y[mo.atomic_add(number, 0, 1)] = 1"
    if rng.random() < 0.4:              # numbers that decide something are ordered by what depends on them
        draw = "mine = mo.atomic_add(number, 0, 1)\n        if mine >= 0: y[mine] = 1"
        back, more = "number[0] = 0", "pass"
    text = f"""
@mo.kernel
def program(y, number, ticket):
    tid, me = mo.thread_idx().x, mo.block_idx().x * {warps} + mo.warp_idx()
    {'number, ticket = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)' if shared else 'pass'}
    {'if tid == 0: number[0] = ticket[0] = 0' if shared else 'pass'}            #- none set
    mo.sync_threads()
    if tid % 32 == 0:
        {draw}
        {'mo.fence()' if way == 'fences' else 'pass'}                           #- no order
        last = mo.atomic_add(ticket, 0, 1, order={order!r})     #= no order: last = mo.atomic_add(ticket, 0, 1)
        {'mo.fence()' if way == 'fences' else 'pass'}                           #- no order
        if last == {several - 1}:                               #= one before: if last == {several - 2}:
            {more}
            {back}
            ticket[0] = 0
"""
    return Design(text, blocks, 32 * warps, lambda: [np.zeros(several, np.int32), *np.zeros((2, 1), np.int32)],
                  lambda _: {0: np.ones(several, np.int32)}, harmless=frozenset(() if shared else ("none set",)))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    ticket_scheduler, stream_k, look_back, last_block, turns, two_counters, grid_steps, counted_barrier,
    dependent)}
