"""Designs of flags that go to and fro: hazard pointers, flags of lanes, lists of waiters, generations, answers.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def hazards(rng: random.Random) -> Design:
    """Readers say which slot they read, and look again; the writer looks for that before it writes a slot again."""
    versions, readers = rng.choice([2, 3, 4]), rng.choice([1, 2])
    text = f"""
@mo.kernel
def program(y, x, slots, newest, hazard):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if bid == 0:
            for v in range({versions}):
                at = v % 2
                for r in range({readers}):
                    mo.fence("seq_cst")                                                 #- no writer fence
                    while mo.load(hazard, r, order="acquire") == at: pass
                        #= looks relaxed: while mo.load(hazard, r, order="relaxed") == at: pass
                        #- no look
                slots[at] = x[v]
                mo.store(newest, 0, v + 1, order="release")
                    #= newest relaxed: mo.store(newest, 0, v + 1, order="relaxed")
        else:
            seen = mo.int32(0)
            while seen < {versions}:
                now = mo.load(newest, 0, order="acquire")
                if now > seen:
                    mo.store(hazard, bid - 1, (now - 1) % 2, order="relaxed")           #- no hazard
                    mo.fence("seq_cst")                                                 #- no reader fence
                    again = mo.load(newest, 0, order="acquire")
                        #= again relaxed: again = mo.load(newest, 0, order="relaxed")
                        #= no second look: again = now
                    if again == now:
                        y[bid - 1] = slots[(now - 1) % 2]
                        seen = now
                    mo.store(hazard, bid - 1, -1, order="release")
                        #= leaves relaxed: mo.store(hazard, bid - 1, -1, order="relaxed")
"""
    x = _numbers(versions)
    harmless = {"again relaxed"}            # the first look has acquired what is read
    if versions == 2:                       # no slot is written again
        harmless |= {"no writer fence", "looks relaxed", "no look", "no hazard", "no reader fence", "no second look",
                     "leaves relaxed"}
    return Design(text, readers + 1, 32, lambda: [np.full(readers, np.nan, np.float32), x.copy(),
                  np.full(2, np.nan, np.float32), np.zeros(1, np.int32), np.full(readers, -1, np.int32)],
                  lambda _: {0: np.full(readers, x[-1])}, harmless=frozenset(harmless))


def flags_of_lanes(rng: random.Random) -> Design:
    """Each lane tells its partner in another block by a flag of its own, and waits by itself or with its warp."""
    way = rng.choice(["each", "fence", "vote"])
    look = {"each": """while mo.load(flags, tid, order="acquire") == 0: pass
            #= looks relaxed: while mo.load(flags, tid, order="relaxed") == 0: pass
            #= first lane's: while mo.load(flags, 0, order="acquire") == 0: pass
""", "fence": """while mo.load(flags, tid, order="relaxed") == 0: pass
            #= first lane's: while mo.load(flags, 0, order="relaxed") == 0: pass
        mo.fence()                                                      #- looks relaxed
""", "vote": """seen = mo.load(flags, tid, order="relaxed")
        while not mo.vote_all(seen == 1):                               #= any: while not mo.vote_any(seen == 1):
            seen = mo.load(flags, tid, order="relaxed")
        mo.fence()                                                      #- looks relaxed
"""}[way]
    text = f"""
@mo.kernel
def program(y, x, data, flags):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        data[tid] = x[tid]
        mo.store(flags, tid, 1, order="release")
            #= relaxed: mo.store(flags, tid, 1, order="relaxed")
            #= one for all: if tid == 0: mo.store(flags, tid, 1, order="release")
    else:
        {look}
        mo.sync_warp()                                                  #- no warp barrier
        y[tid] = data[31 - tid]
"""
    x = _numbers(32)
    return Design(text, 2, 32, lambda: [np.full_like(x, np.nan), x.copy(), np.full_like(x, np.nan),
                  np.zeros(32, np.int32)], lambda _: {0: x[::-1].copy()}, options={"poison": "data"})


def listed(rng: random.Random) -> Design:
    """A lock that is a list (Mellor-Crummey and Scott's): who comes tells the one before, and waits for a flag."""
    blocks, times = rng.choice([2, 3]), rng.choice([1, 2])
    text = f"""
@mo.kernel
def program(data, tail, behind, go):
    me = mo.block_idx().x
    if mo.thread_idx().x == 0:
        for k in range({times}):
            mo.store(behind, me, -1, order="relaxed")
            mo.store(go, me, 0, order="relaxed")
            before = mo.atomic_exch(tail, 0, me, order="acq_rel")
                #= comes relaxed: before = mo.atomic_exch(tail, 0, me)
            if before >= 0:
                mo.store(behind, before, me, order="release")
                while mo.load(go, me, order="acquire") == 0: pass
                    #= waits relaxed: while mo.load(go, me, order="relaxed") == 0: pass
                    #- no wait
            data[0] = data[0] + 1
            if mo.load(behind, me, order="acquire") < 0:
                old = mo.atomic_cas(tail, 0, me, -1, order="release")
                    #= leaves relaxed: old = mo.atomic_cas(tail, 0, me, -1)
                if old != me:
                    while mo.load(behind, me, order="acquire") < 0: pass
                    mo.store(go, mo.load(behind, me, order="acquire"), 1, order="release")
            else:
                mo.store(go, mo.load(behind, me, order="acquire"), 1, order="release")
                    #= hands on relaxed: mo.store(go, mo.load(behind, me, order="acquire"), 1, order="relaxed")
            #+ late: data[0] = data[0] + 1
"""
    return Design(text, blocks, 32, lambda: [np.zeros(1, np.int32), np.full(1, -1, np.int32),
                  np.full(blocks, -1, np.int32), np.zeros(blocks, np.int32)],
                  lambda _: {0: np.array([blocks * times], np.int32)})


def two_levels(rng: random.Random) -> Design:
    """A barrier of the grid in two levels: the blocks of a cluster meet, one of them counts, and they meet again."""
    clusters, rounds, warps = rng.choice([2, 3]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    n, blocks = 32 * warps, 2 * clusters
    text = f"""
@mo.kernel
def program(y, x, data, count):
    tid, bid, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    v = x[bid * {n} + tid]
    for r in range({rounds}):
        data[(r % 2 * {blocks} + bid) * {n} + tid] = v          #= one half: data[bid * {n} + tid] = v
        mo.cluster_sync()
            #- no first
            #= first of the block: mo.sync_threads()
            #= first relaxed: mo.cluster_arrive(relaxed=True); mo.cluster_wait()
        if rank == 0 and tid == 0:
            mo.atomic_add(count, 0, 1, order="release")
                #= relaxed: mo.atomic_add(count, 0, 1)
                #= cluster scope: mo.atomic_add(count, 0, 1, order="release", scope="cluster")
            while mo.load(count, 0, order="acquire") < {clusters} * (r + 1): pass
                #= looks relaxed: while mo.load(count, 0, order="relaxed") < {clusters} * (r + 1): pass
                #= one too few: while mo.load(count, 0, order="acquire") < {clusters} * (r + 1) - 1: pass
        mo.cluster_sync()
            #- no second
            #= second of the block: mo.sync_threads()
            #= second relaxed: mo.cluster_arrive(relaxed=True); mo.cluster_wait()
        v += data[(r % 2 * {blocks} + (bid + 2) % {blocks}) * {n} + {n - 1} - tid]
            #= one half: v += data[(bid + 2) % {blocks} * {n} + {n - 1} - tid]
    y[bid * {n} + tid] = v
"""
    x = _numbers(blocks * n)
    v = x.reshape(blocks, n)
    for _ in range(rounds):
        v = v + np.roll(v, -2, 0)[:, ::-1]
    harmless = {"one half"} if rounds == 1 else set()
    return Design(text, blocks, n, lambda: [np.full_like(x, np.nan), x.copy(), np.full(2 * x.size, np.nan, np.float32),
                  np.zeros(1, np.int32)], lambda _: {0: v.ravel()}, cluster=(2, 1, 1), harmless=frozenset(harmless),
                  options={"poison": "data"})


def generations(rng: random.Random) -> Design:
    """A barrier of the grid: the last to come sets the count back and then tells the generation."""
    blocks, rounds = rng.choice([2, 3]), rng.choice([2, 3])
    back = rng.choice(['mo.store(count, 0, 0, order="relaxed")', "mo.atomic_exch(count, 0, 0)",
                       f"mo.atomic_add(count, 0, -{blocks})"])
    text = f"""
@mo.kernel
def program(y, x, data, count, gen):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    v = x[bid * 32 + tid]
    for r in range({rounds}):
        data[(r % 2 * {blocks} + bid) * 32 + tid] = v
        mo.sync_warp()                                                  #- no warp barrier
        if tid == 0:
            g = mo.load(gen, 0, order="relaxed")                        #= looks late: pass
            old = mo.atomic_add(count, 0, 1, order="acq_rel")
                #= arrives relaxed: old = mo.atomic_add(count, 0, 1)
            #+ looks late: g = mo.load(gen, 0, order="relaxed")
            if old == {blocks - 1}:
                {back}
                    #- never back
                    #= told first: pass
                mo.store(gen, 0, g + 1, order="release")
                    #= gen relaxed: mo.store(gen, 0, g + 1, order="relaxed")
                #+ told first: {back}
            else:
                while mo.load(gen, 0, order="acquire") == g: pass
                    #= looks relaxed: while mo.load(gen, 0, order="relaxed") == g: pass
        mo.sync_warp()                                                  #- no second warp barrier
        v += data[(r % 2 * {blocks} + (bid + 1) % {blocks}) * 32 + 31 - tid]
    y[bid * 32 + tid] = v
"""
    x = _numbers(blocks * 32)
    v = x.reshape(blocks, 32)
    for _ in range(rounds):
        v = v + np.roll(v, -1, 0)[:, ::-1]
    harmless = {"told first"} if "add" in back else set()               # a difference is right whenever it comes
    return Design(text, blocks, 32, lambda: [np.full_like(x, np.nan), x.copy(), np.full(2 * x.size, np.nan, np.float32),
                  *np.zeros((2, 1), np.int32)], lambda _: {0: v.ravel()}, harmless=frozenset(harmless),
                  options={"poison": "data"})


def answers(rng: random.Random) -> Design:
    """Who has been told sets the flag back for the next round, and then answers."""
    rounds = rng.choice([2, 3])
    text = f"""
@mo.kernel
def program(y, x, data, flag, answer):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    for r in range({rounds}):
        if bid == 0:
            data[tid] = x[r * 32 + tid]
            mo.sync_warp()                                              #- no warp barrier
            if tid == 0:
                mo.store(flag, 0, 1, order="release")
                    #= tells relaxed: mo.store(flag, 0, 1, order="relaxed")
                while mo.load(answer, 0, order="acquire") == 0: pass
                    #= hears relaxed: while mo.load(answer, 0, order="relaxed") == 0: pass
                mo.store(answer, 0, 0, order="relaxed")                 #- answer stays
            mo.sync_warp()                                              #- no second warp barrier
        else:
            if tid == 0:
                while mo.load(flag, 0, order="acquire") == 0: pass
            mo.sync_warp()                                              #- no third warp barrier
            y[r * 32 + tid] = data[31 - tid]
            mo.sync_warp()                                              #- no fourth warp barrier
            if tid == 0:
                mo.store(flag, 0, 0, order="relaxed")                   #= back late: pass
                    #- flag stays
                mo.store(answer, 0, 1, order="release")
                    #= answers relaxed: mo.store(answer, 0, 1, order="relaxed")
                #+ back late: mo.store(flag, 0, 0, order="relaxed")
"""
    x = _numbers(rounds * 32)
    harmless = {"answer stays"} if rounds == 2 else set()               # it is the last one
    return Design(text, 2, 32, lambda: [np.full_like(x, np.nan), x.copy(), np.full(32, np.nan, np.float32),
                  *np.zeros((2, 1), np.int32)], lambda _: {0: x.reshape(-1, 32)[:, ::-1].ravel()},
                  harmless=frozenset(harmless), options={"poison": "data"})


def announced(rng: random.Random) -> Design:
    """Blocks clear their flags, say that they wait, and are told by who finds that."""
    blocks = rng.choice([2, 3])
    text = f"""
@mo.kernel
def program(y, x, go, ready):
    bid = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if bid > 0:
            mo.store(go, bid, 0, order="relaxed")                       #- never cleared
            mo.store(ready, bid, 1, order="release")
                #= announces relaxed: mo.store(ready, bid, 1, order="relaxed")
                #= announces in the block: mo.store(ready, bid, 1, order="release", scope="cta")
                #- never announces
            #+ cleared late: mo.store(go, bid, 0, order="relaxed")
            while mo.load(go, bid, order="acquire") == 0: pass
            y[bid] = 2 * x[bid]
        else:
            for b in range(1, {blocks}):
                x[b] = x[b] + 1
                while mo.load(ready, b, order="acquire") == 0: pass
                    #= looks relaxed: while mo.load(ready, b, order="relaxed") == 0: pass
                    #- no look
                mo.store(go, b, 1, order="release")
                    #= tells relaxed: mo.store(go, b, 1, order="relaxed")
                #+ adds late: x[b] = x[b] + 1
"""
    x = _numbers(blocks)
    y = 2 * x + 2
    y[0] = 0
    return Design(text, blocks, 32, lambda: [np.zeros_like(x), x.copy(), np.full(blocks, -1, np.int32),
                  np.zeros(blocks, np.int32)], lambda _: {0: y})


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    hazards, flags_of_lanes, listed, two_levels, generations, answers, announced)}
