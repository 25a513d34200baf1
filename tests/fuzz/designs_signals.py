"""Designs of data that goes through memory: rings of blocks, numbered slots, pointers, words that hold two, stealing.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def ring_of_blocks(rng: random.Random) -> Design:
    """A block fills slots in global memory for another one; each slot has a flag that changes its parity to and fro."""
    warps, slots, items = rng.choice([1, 2]), rng.choice([1, 2, 3]), rng.choice([2, 4, 5])
    n, pairs = 32 * warps, rng.choice([1, 2])
    text = f"""
@mo.kernel
def program(y, x, ring, full, empty):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    pair = bid // 2
    for k in range({items}):                        #= one item more: for k in range({items} + bid % 2):
        slot, turn = pair * {slots} + k % {slots}, k // {slots}
        if bid % 2 == 0:
            if tid == 0:
                while mo.load(empty, slot, order="acquire") != turn % 2:
                    #= empty relaxed: while mo.load(empty, slot, order="relaxed") != turn % 2:
                    #= no empty wait: if tid < 0:
                    #= empty parity: while mo.load(empty, slot, order="acquire") == turn % 2:
                    pass
            mo.sync_threads()                       #- no barrier after empty
            ring[slot * {n} + tid] = x[(pair * {items} + k) * {n} + tid]
            mo.sync_threads()                       #- no barrier before full
            if tid == 0:
                mo.store(full, slot, (turn + 1) % 2, order="release")
                    #= full relaxed: mo.store(full, slot, (turn + 1) % 2, order="relaxed")
                    #= full of the block: mo.store(full, slot, (turn + 1) % 2, order="release", scope="cta")
        else:
            if tid == 0:
                while mo.load(full, slot, order="acquire") == turn % 2:
                    #= looks relaxed: while mo.load(full, slot, order="relaxed") == turn % 2:
                    #= no full wait: if tid < 0:
                    #= looks at the turn: while mo.load(full, slot, order="acquire") == k % 2:
                    pass
            mo.sync_threads()                       #- no barrier after full
            y[(pair * {items} + k) * {n} + tid] = ring[slot * {n} + {n - 1} - tid]
            mo.sync_threads()                       #- no barrier before empty
            if tid == 0:
                mo.store(empty, slot, (turn + 1) % 2, order="release")
                    #= back relaxed: mo.store(empty, slot, (turn + 1) % 2, order="relaxed")
                    #- never back
"""
    x = _numbers(pairs * items * n)
    harmless = set()
    if items <= slots:
        harmless |= {"empty relaxed", "no empty wait", "no barrier before empty", "back relaxed", "never back",
                     "no barrier after empty"}
    if slots == 1:
        harmless |= {"looks at the turn"}
    return Design(text, 2 * pairs, n, lambda: [np.full_like(x, np.nan), x.copy(),
                  np.full(pairs * slots * n, np.nan, np.float32), *np.zeros((2, pairs * slots), np.int32)],
                  lambda _: {0: x.reshape(-1, n)[:, ::-1].ravel()}, harmless=frozenset(harmless),
                  options={"poison": "ring"})


def numbered_slots(rng: random.Random) -> Design:
    """Many producers and many consumers share a ring; each slot's number says whose turn it is (Vyukov's queue)."""
    makers, takers, slots = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([2, 4])
    each = rng.choice([2, 4])
    total = makers * each * takers
    text = f"""
@mo.kernel
def program(y, x, value, number, head, tail):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if bid < {makers}:
            for k in range({each * takers}):
                at = mo.atomic_add(head, 0, 1)
                    #= head by load: at = head[0]; head[0] = at + 1
                while mo.load(number, at % {slots}, order="acquire") != at:
                    #= slot relaxed: while mo.load(number, at % {slots}, order="relaxed") != at:
                    #= no slot wait: if bid < 0:
                    pass
                value[at % {slots}] = x[at]
                mo.store(number, at % {slots}, at + 1, order="release")
                    #= filled relaxed: mo.store(number, at % {slots}, at + 1, order="relaxed")
                #+ filled twice: value[at % {slots}] = x[at]
        else:
            for k in range({each * makers}):
                at = mo.atomic_add(tail, 0, 1)
                    #= tail by load: at = tail[0]; tail[0] = at + 1
                while mo.load(number, at % {slots}, order="acquire") != at + 1:
                    #= item relaxed: while mo.load(number, at % {slots}, order="relaxed") != at + 1:
                    #= any number: while mo.load(number, at % {slots}, order="acquire") < at:
                    pass
                y[at] = value[at % {slots}]
                mo.store(number, at % {slots}, at + {slots}, order="release")
                    #= taken relaxed: mo.store(number, at % {slots}, at + {slots}, order="relaxed")
                #+ read late: y[at] = value[at % {slots}]
"""
    x = _numbers(total)
    harmless = set()
    if makers == 1:
        harmless |= {"head by load"}
    if takers == 1:
        harmless |= {"tail by load"}
    if total <= slots:
        harmless |= {"slot relaxed", "no slot wait", "taken relaxed", "read late"}
    return Design(text, makers + takers, 32, lambda: [np.full_like(x, np.nan), x.copy(),
                  np.full(slots, np.nan, np.float32), np.arange(slots, dtype=np.int32), *np.zeros((2, 1), np.int32)],
                  lambda _: {0: x}, harmless=frozenset(harmless))


def dissemination(rng: random.Random) -> Design:
    """Blocks meet in rounds: in round r each tells the one 2^r further on and hears from the one 2^r before."""
    warps, blocks, times = rng.choice([1, 2]), rng.choice([2, 3, 4, 5]), rng.choice([1, 2, 3])
    n, rounds = 32 * warps, max(1, (blocks - 1).bit_length())
    text = f"""
@mo.kernel
def program(y, x, data, flags):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = x[bid * {n} + tid]
    for k in range({times}):
        data[(k % 2 * {blocks} + bid) * {n} + tid] = mine       #= one half: data[bid * {n} + tid] = mine
        mo.sync_threads()                                       #- no barrier before
        if tid == 0:
            for r in mo.static_range({rounds}):                 #= a round less: for r in mo.static_range({rounds - 1}):
                there = (bid + {'(1 << r)'}) % {blocks}
                    #= the other way: there = (bid + {blocks} - 1) % {blocks}
                mo.store(flags, r * {blocks} + there, k + 1, order="release")
                    #= tells relaxed: mo.store(flags, r * {blocks} + there, k + 1, order="relaxed")
                while mo.load(flags, r * {blocks} + bid, order="acquire") < k + 1:
                    #= hears relaxed: while mo.load(flags, r * {blocks} + bid, order="relaxed") < k + 1:
                    #= time before: while mo.load(flags, r * {blocks} + bid, order="acquire") < k:
                    pass
        mo.sync_threads()                                       #- no barrier after
        for other in range({blocks}):
            mine += data[(k % 2 * {blocks} + other) * {n} + tid]    #= one half: mine += data[other * {n} + tid]
    y[bid * {n} + tid] = mine
"""
    x = _numbers(blocks * n)
    now = x.reshape(blocks, n)
    for _ in range(times):
        now = now + now.sum(0)
    harmless = {"one half"} if times == 1 else set()
    if rounds >= blocks - 1:                        # told from block to block
        harmless |= {"the other way"}
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(),
                  np.full(2 * blocks * n, np.nan, np.float32), np.zeros(rounds * blocks, np.int32)],
                  lambda _: {0: now.ravel().astype(np.float32)}, harmless=frozenset(harmless),
                  options={"poison": "data"})


def told_twice(rng: random.Random) -> Design:
    """A warp hands data to another warp of its block, and that one to another block: what it was told goes on."""
    shared, n = rng.random() < 0.5, 32
    way = rng.choice(["fence", "order"])
    tell = ('mo.store(near, 0, 1, order="release", scope="cta")' if way == "order" else
            'mo.fence(scope="cta"); mo.store(near, 0, 1, order="relaxed", scope="cta")')
    hear = 'mo.load(near, 0, order="acquire", scope="cta")' if way == "order" else \
        'mo.load(near, 0, order="relaxed", scope="cta")'
    text = f"""
@mo.kernel
def program(y, x, data, near, far):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    {'near = mo.shared_array(mo.int32, 1)' if shared else 'pass'}
    {'if tid == 0: near[0] = 0' if shared else 'pass'}                     #- not set
    {'mo.sync_threads()' if shared else 'pass'}                            #- no barrier
    if bid == 0:
        if tid < {n}:
            data[tid] = x[tid]
            mo.sync_warp()                                                  #- no warp barrier
            if tid == 0:
                {tell}
                    #= tells relaxed: mo.store(near, 0, 1, order="relaxed", scope="cta")
        elif tid == {n}:
            while {hear} == 0:
                #= hears nothing: if tid < 0:
                #= hears relaxed: while mo.load(near, 0, order="relaxed", scope="cta") == 0:
                pass
            {'mo.fence(scope="cta")' if way == "fence" else 'pass'}         #- hears relaxed
            mo.store(far, 0, 1, order="release")
                #= far relaxed: mo.store(far, 0, 1, order="relaxed")
                #= far in the block: mo.store(far, 0, 1, order="release", scope="cta")
    elif tid < {n}:
        while mo.load(far, 0, order="acquire") == 0:
            #= looks relaxed: while mo.load(far, 0, order="relaxed") == 0:
            #= looks in the block: while mo.load(far, 0, order="acquire", scope="cta") == 0:
            pass
        y[tid] = data[{n - 1} - tid]
"""
    x = _numbers(n)
    harmless = set() if shared else {"not set", "no barrier"}
    return Design(text, 2, 2 * n, lambda: [np.full_like(x, np.nan), x.copy(), np.full_like(x, np.nan),
                  *np.zeros((2, 1), np.int32)], lambda _: {0: x[::-1].copy()}, harmless=frozenset(harmless))


def pointers(rng: random.Random) -> Design:
    """A writer makes versions in slots of their own and then says which slot is the newest; readers follow."""
    versions, readers, n = rng.choice([2, 3]), rng.choice([1, 2, 3]), 32
    text = f"""
@mo.kernel
def program(y, x, slots, newest, reading):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        for v in range({versions}):
            slots[v % 2 * {n} + tid] = x[v * {n} + tid]
            mo.sync_warp()                                              #- no warp barrier
            if tid == 0:
                mo.store(newest, 0, v + 1, order="release")
                    #= pointer relaxed: mo.store(newest, 0, v + 1, order="relaxed")
                    #= pointer first: pass
                #+ pointer first: mo.store(newest, 0, v + 1, order="release")
                while mo.load(reading, 0, order="acquire") < {readers} * v:
                    #= no grace: if tid < 0:
                    #= grace relaxed: while mo.load(reading, 0, order="relaxed") < {readers} * v:
                    #= one reader: while mo.load(reading, 0, order="acquire") < ({readers} - 1) * v:
                    pass
            mo.sync_warp()                                              #- no second warp barrier
    else:
        seen = mo.int32(0)
        while seen < {versions}:
            now = mo.load(newest, 0, order="acquire")
                #= reader relaxed: now = mo.load(newest, 0, order="relaxed")
            now = mo.shuffle_idx(now, 0)
            if now > seen:
                y[(bid - 1) * {n} + tid] = slots[(now - 1) % 2 * {n} + {n - 1} - tid]
                    #= other slot: y[(bid - 1) * {n} + tid] = slots[now % 2 * {n} + {n - 1} - tid]
                mo.sync_warp()                                          #- no third warp barrier
                if tid == 0:
                    mo.atomic_add(reading, 0, now - seen, order="release")
                        #= done relaxed: mo.atomic_add(reading, 0, now - seen)
                seen = now
"""
    x = _numbers(versions * n)
    last = np.tile(x[-n:][::-1], readers)
    # Before a slot is written again, all have read the version before the newest, and so have left the one before it.
    harmless = {"pointer first"}
    if versions == 2:
        harmless |= {"no grace", "grace relaxed", "one reader", "done relaxed", "no third warp barrier",
                     "no second warp barrier"}
    return Design(text, readers + 1, n, lambda: [np.full(readers * n, np.nan, np.float32), x.copy(),
                  np.full(2 * n, np.nan, np.float32), *np.zeros((2, 1), np.int32)], lambda _: {0: last},
                  harmless=frozenset(harmless), options={"poison": "slots"})


def packed(rng: random.Random) -> Design:
    """Blocks put a value and the number of its round into one word, which needs no order; beside it stands more."""
    rounds, blocks = rng.choice([1, 2, 3]), rng.choice([2, 3])
    beside = rng.random() < 0.5
    put, get = ("release", "acquire") if beside else ("relaxed", "relaxed")
    before = f"(bid + {blocks - 1}) % {blocks}"
    more = f"more[{before} * {rounds} + r]" if beside else "mo.int64(0)"
    text = f"""
@mo.kernel
def program(y, x, words, more):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mine = mo.int64(x[bid])
        for r in range({rounds}):
            {f"more[bid * {rounds} + r] = mine" if beside else "pass"}
            mo.store(words, r % 2 * {blocks} + bid, mine * 1024 + (r + 1), order={put!r})
                #= put relaxed: mo.store(words, r % 2 * {blocks} + bid, mine * 1024 + (r + 1), order="relaxed")
                #= plain put: words[r % 2 * {blocks} + bid] = mine * 1024 + (r + 1)
                #= two puts: words[r % 2 * {blocks} + bid] = mine * 1024; mo.store(words, bid, r + 1, order="relaxed")
            word = mo.int64(0)
            while word % 1024 != r + 1:
                #= any round: while word % 1024 == 0:
                word = mo.load(words, r % 2 * {blocks} + {before}, order={get!r})
                    #= get relaxed: word = mo.load(words, r % 2 * {blocks} + {before}, order="relaxed")
                    #= plain get: word = words[r % 2 * {blocks} + {before}]
            mine += word // 1024 + {more}
        y[bid] = mine
"""
    x = np.random.default_rng(blocks).integers(1, 9, blocks).astype(np.int64)
    now = x.copy()
    for _ in range(rounds):
        now = now + np.roll(now, 1) * (2 if beside else 1)
    # two halves suffice: who is two rounds ahead has heard of everybody, one after the other, for rings of two blocks
    harmless = set() if beside else {"put relaxed", "get relaxed"}
    if rounds < 3 or not beside:                    # an old word breaks no rule
        harmless |= {"any round"}
    return Design(text, blocks, 32, lambda: [np.zeros(blocks, np.int64), x.copy(), np.zeros(2 * blocks, np.int64),
                  np.zeros(blocks * rounds, np.int64)], lambda _: {0: now}, harmless=frozenset(harmless))


def stealing(rng: random.Random) -> Design:
    """Each block takes items from its own counter, and then from those of the others."""
    blocks, items, warps = rng.choice([2, 3]), rng.choice([1, 3, 4]), rng.choice([1, 2])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x, next):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    taken = mo.shared_array(mo.int32, 1)
    for victim in range({blocks}):                  #= own alone: for victim in range(1):
        owner = (bid + victim) % {blocks}
        more = 1
        while more > 0:
            if tid == 0:
                taken[0] = mo.atomic_add(next, owner, 1)
                    #= by load: taken[0] = mo.load(next, owner); mo.store(next, owner, taken[0] + 1)
                    #= plain: taken[0] = next[owner]; next[owner] = taken[0] + 1
            mo.sync_threads()                       #- no barrier
            item = taken[0]
            mo.sync_threads()                       #- no second barrier
            if item < {items}:                      #= one more: if item <= {items}:
                y[(owner * {items} + item) * {n} + tid] = x[(owner * {items} + item) * {n} + tid] + 1
                #= one result: y[item * {n} + tid] = x[(owner * {items} + item) * {n} + tid] + 1
            else:
                more = 0
"""
    x = _numbers(blocks * items * n)
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(), np.zeros(blocks, np.int32)],
                  lambda _: {0: x + 1}, harmless=frozenset({"own alone"}))


def elected(rng: random.Random) -> Design:
    """Of the lanes that have something, the lowest draws places for all of them, and tells them by a shuffle."""
    warps, blocks = rng.choice([1, 2]), rng.choice([1, 2])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x, count):
    i, lane = mo.block_idx().x * {n} + mo.thread_idx().x, mo.lane_idx()
    v = x[i]
    have = mo.ballot(v > 0)
        #= voted in the branch: have = mo.ballot(v > 0) if v > 0 else mo.uint32(0)
    leader = mo.ffs(have) - 1
        #= first lane: leader = mo.int32(0)
    base = mo.int32(0)
    if have != 0:
        if lane == leader:                          #= all draw: if v > 0:
            base = mo.atomic_add(count, 0, mo.int32(mo.popcount(have)))
                #= one place: base = mo.atomic_add(count, 0, 1)
                #= by load: base = count[0]; count[0] = base + mo.int32(mo.popcount(have))
        base = mo.shuffle_idx(base, leader)
            #- not told
            #= told in the branch: base = mo.shuffle_idx(base, leader) if v > 0 else 0
        if v > 0:                                   #= all store: if v > -100:
            y[base + mo.int32(mo.popcount(have & ((mo.uint32(1) << mo.uint32(lane)) - 1)))] = v
                #= to one place: y[base] = v
"""
    x = _numbers(blocks * n)
    harmless = {"first lane", "all draw", *(("one place", "by load", "not told") if warps * blocks == 1 else ())}
    return Design(text, blocks, n, lambda: [np.zeros_like(x), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {2: np.array([(x > 0).sum()], np.int32)}, harmless=frozenset(harmless))


def levels(rng: random.Random) -> Design:
    """The last warp of a block, by a counter in shared memory, and then the last block, by one in global memory."""
    warps, blocks = rng.choice([2, 3]), rng.choice([2, 3])
    text = f"""
@mo.kernel
def program(y, x, parts, count):
    tid, bid, lane = mo.thread_idx().x, mo.block_idx().x, mo.lane_idx()
    arrived, sums = mo.shared_array(mo.int32, 1), mo.shared_array(mo.float32, {warps})
    if tid == 0: arrived[0] = 0                                 #- not set
    mo.sync_threads()                                           #- no barrier
    total = mo.warp_reduce(x[bid * {32 * warps} + tid])
    if lane == 0:
        sums[mo.warp_idx()] = total
        old = mo.atomic_add(arrived, 0, 1, order="acq_rel", scope="cta")
            #= warp relaxed: old = mo.atomic_add(arrived, 0, 1)
            #= warp released: old = mo.atomic_add(arrived, 0, 1, order="release", scope="cta")
        if old == {warps - 1}:                                  #= warp early: if old == {warps - 2}:
            part = mo.float32(0)
            for w in range({warps}):
                part += sums[w]
            parts[bid] = part
            last = mo.atomic_add(count, 0, 1, order="acq_rel")
                #= block relaxed: last = mo.atomic_add(count, 0, 1)
                #= block acquired: last = mo.atomic_add(count, 0, 1, order="acquire")
                #= scope of the block: last = mo.atomic_add(count, 0, 1, order="acq_rel", scope="cta")
            if last == {blocks - 1}:                            #= block early: if last == {blocks - 2}:
                all = mo.float32(0)
                for b in range({blocks}):
                    all += parts[b]
                y[0] = all
                count[0] = 0
"""
    x = _numbers(blocks * warps * 32)
    return Design(text, blocks, 32 * warps, lambda: [np.full(1, np.nan, np.float32), x.copy(),
                  np.full(blocks, np.nan, np.float32), np.zeros(1, np.int32)],
                  lambda _: {0: np.array([x.sum()], np.float32)}, options={"poison": "parts"})


def tried(rng: random.Random) -> Design:
    """Blocks try for a lock, and do without what it guards if another one has it."""
    blocks, times = rng.choice([2, 3, 4]), rng.choice([1, 2])
    take = rng.choice(["mo.atomic_cas(lock, 0, 0, 1, order='{o}')", "mo.atomic_exch(lock, 0, 1, order='{o}')"])
    back = rng.choice(["mo.store(lock, {p}, 0, order='{o}')", "mo.atomic_exch(lock, {p}, 0, order='{o}')"])
    text = f"""
@mo.kernel
def program(data, lock):
    if mo.lane_idx() == 0:
        for k in range({times}):
            found = {take.format(o="acquire")}
                #= taken relaxed: found = {take.format(o="relaxed")}
            if found == 0:                                      #= section of all: if found >= 0:
                data[0] = data[0] + 1
                {back.format(p=0, o="release")}
                    #= back relaxed: {back.format(p=0, o="relaxed")}
                    #= let go by all: pass
                    #= data afterwards: {back.format(p=0, o="release")}; data[1] = mo.block_idx().x
                    #= other lock: {back.format(p=1, o="release")}
            #+ let go by all: {back.format(p=0, o="release")}
            #+ data of all: data[0] = mo.block_idx().x
"""
    # A lock that nobody lets go is taken once.
    return Design(text, blocks, 32, lambda: [*np.zeros((2, 2), np.int32)], lambda _: {},
                  harmless=frozenset({"other lock"}))


def added_by_bulk(rng: random.Random) -> Design:
    """Blocks add to one array, by bulk copies to shared memory and back, while they hold a lock or have their turn."""
    warps, blocks, turns = rng.choice([1, 2]), rng.choice([2, 3, 4]), rng.random() < 0.5
    n = 32 * warps
    wait, value = ("mo.load(lock, 0, order='{o}') != bid", "bid + 1") if turns else (
        "mo.atomic_cas(lock, 0, 0, 1, order='{o}') != 0", "0")
    text = f"""
@mo.kernel
def program(total: mo.Static, x, lock):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        while {wait.format(o="acquire")}:
            #= taken relaxed: while {wait.format(o="relaxed")}:
            #= not taken: if bid < 0:
            pass
        mo.fence_proxy_async()
        mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
        mo.copyto(mo.BulkCopy(), s, total, barrier=(bar, 0))
    mo.mbarrier_wait(bar, 0, 0)                                         #- no load wait
    s[tid] = s[tid] + x[bid * {n} + tid]
    mo.fence_proxy_async()                                              #- no fence
    mo.sync_threads()                                                   #- no barrier
    if tid == 0:
        mo.copyto(mo.BulkCopy(), total, s)
        mo.tma_store_arrive()                                           #- no commit
        mo.tma_store_wait(0, read=False)
            #= only read: mo.tma_store_wait(0, read=True)
            #- no wait
        mo.fence_proxy_async()
        mo.store(lock, 0, {value}, order="release")
            #= back relaxed: mo.store(lock, 0, {value}, order="relaxed")
"""
    x = _numbers(blocks * n)
    harmless = {"no barrier"} if warps == 1 else set()
    return Design(text, blocks, n, lambda: [np.zeros(n, np.float32), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: x.reshape(blocks, n).sum(0)}, harmless=frozenset(harmless))


def locked_ring(rng: random.Random) -> Design:
    """Blocks get tiles by bulk copies, and add each of them to one sum under a lock; some come but once."""
    blocks, tiles = rng.choice([2, 3]), rng.choice([1, 2, 3])
    n, once = 64, rng.random() < 0.5
    text = f"""
@mo.kernel
def program(total, x: mo.Static, lock):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for k in range({"1 if bid == 0 else " if once else ""}{tiles}):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n})
            mo.copyto(mo.BulkCopy(), s, mo.tile(x, ({n},), (bid * {tiles} + k,)), barrier=(bar, 0))
        mo.mbarrier_wait(bar, 0, k & 1)                                 #- no load wait
        #+ before the lock: total[tid] = total[tid] + s[tid]
        if tid == 0:                    #= the first without: if tid == 0 and bid > 0:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                #= taken relaxed: while mo.atomic_cas(lock, 0, 0, 1) != 0:
                pass
        mo.sync_threads()                                               #- no barrier
        total[tid] = total[tid] + s[tid]                                #= before the lock: pass #= after the lock: pass
        mo.sync_threads()                                               #- no second barrier
        if tid == 0:                    #= the first without: if tid == 0 and bid > 0:
            mo.store(lock, 0, 0, order="release")
                #= back relaxed: mo.store(lock, 0, 0, order="relaxed")
        #+ after the lock: total[tid] = total[tid] + s[tid]
        mo.sync_threads()                                               #- no third barrier
"""
    x = _numbers(blocks * tiles * n)
    rows = x.reshape(blocks, tiles, n).copy()
    if once:
        rows[0, 1:] = 0
    harmless = {"no third barrier"}
    return Design(text, blocks, n, lambda: [np.zeros(n, np.float32), x.copy(), np.zeros(1, np.int32)],
                  lambda _: {0: rows.sum((0, 1))}, harmless=frozenset(harmless))


def permits(rng: random.Random) -> Design:
    """A word has a bit for each slot that is free; blocks take the lowest by an atomic, work there and give it back."""
    blocks, slots = rng.choice([2, 3, 5]), rng.choice([1, 2, 3])
    text = """
@mo.kernel
def program(data, y, free):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        got = -1
        while got < 0:
            now = mo.load(free, 0, order="relaxed")
            if now != 0:
                bit = mo.ffs(now) - 1
                old = mo.atomic_and(free, 0, ~(mo.int32(1) << bit), order="acquire")
                    #= taken relaxed: old = mo.atomic_and(free, 0, ~(mo.int32(1) << bit))
                if (old >> bit) & 1 != 0:                           #= not heeded: if old > -1:
                    got = bit
        data[got] = data[got] + 1
        y[bid] = 1
        mo.atomic_or(free, 0, mo.int32(1) << got, order="release")
            #= back relaxed: mo.atomic_or(free, 0, mo.int32(1) << got)
        #+ late: data[got] = bid
"""
    harmless = {"taken relaxed", "not heeded", "back relaxed", "late"} if slots >= blocks else set()
    return Design(text, blocks, 32, lambda: [np.zeros(slots, np.int32), np.zeros(blocks, np.int32),
                  np.array([(1 << slots) - 1], np.int32)],
                  lambda _: {1: np.ones(blocks, np.int32), 2: np.array([(1 << slots) - 1], np.int32)},
                  harmless=frozenset(harmless))


def sense(rng: random.Random) -> Design:
    """Warps of a block meet by a counter, whose last one turns a flag over that the others wait for."""
    warps, times = rng.choice([2, 3, 4]), rng.choice([1, 2, 4])
    n = 32 * warps
    text = f"""
@mo.kernel
def program(y, x):
    tid = mo.thread_idx().x
    s, count, flag = mo.shared_array(mo.float32, ({n}, 2)), mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0: count[0] = flag[0] = 0
    mo.sync_threads()                                               #- no first barrier
    mine, v = mo.int32(0), x[tid]
    for k in range({times}):
        s[tid, k % 2] = v
        mine = 1 - mine                                             #= not turned: mine = mine
        mo.sync_warp()                                              #- no warp barrier
        if mo.lane_idx() == 0:
            if mo.atomic_add(count, 0, 1, order="acq_rel", scope="cta") == {warps - 1}:
                #= relaxed: if mo.atomic_add(count, 0, 1, scope="cta") == {warps - 1}:
                #= one early: if mo.atomic_add(count, 0, 1, order="acq_rel", scope="cta") == {warps - 2}:
                mo.store(count, 0, 0, order="relaxed", scope="cta")         #- no reset
                mo.store(flag, 0, mine, order="release", scope="cta")
                    #= told relaxed: mo.store(flag, 0, mine, order="relaxed", scope="cta")
            while mo.load(flag, 0, order="acquire", scope="cta") != mine:
                #= heard relaxed: while mo.load(flag, 0, order="relaxed", scope="cta") != mine:
                #= other way: while mo.load(flag, 0, order="acquire", scope="cta") == mine:
                pass
        mo.sync_warp()                                              #- no second warp barrier
        v += s[(tid + 32) % {n}, k % 2]
    y[tid] = v
"""
    x = _numbers(n)
    now = x
    for _ in range(times):
        now = now + np.roll(now, -32)
    return Design(text, 1, n, lambda: [np.full_like(x, np.nan), x.copy()], lambda _: {0: now},
                  harmless=frozenset({"no reset"} if times == 1 else ()))


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    ring_of_blocks, numbered_slots, dissemination, told_twice, pointers, packed, stealing, elected, levels, tried,
    added_by_bulk, locked_ring, permits, sense)}
