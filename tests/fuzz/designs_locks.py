"""Designs of locks: tried by warps, in clusters, beside bulk copies; counters that are looked at again.

In: a ``random.Random``.  Out: ``Design``s with marked faults.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fuzz.designs import Design


def _numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).integers(-9, 10, n).astype(np.float32)


def tried_by_warps(rng: random.Random) -> Design:
    """Warps of one block, or of a cluster, try for a lock; who has not got it does without."""
    size, shared = rng.choice([1, 1, 2]), rng.random() < 0.5
    shared = shared and size == 1
    warps, times = rng.choice([2, 3, 4] if size == 1 else [1, 2]), rng.choice([1, 2])
    form = rng.choice(["if", "kept", "left", "given up"])
    scope = "cta" if size == 1 else "gpu"
    take = rng.choice(["mo.atomic_cas(lock, 0, 0, 1, order='{o}', scope='" + scope + "')",
                       "mo.atomic_exch(lock, 0, 1, order='{o}', scope='" + scope + "')"])
    back = rng.choice(["mo.store(lock, {p}, 0, order='{o}', scope='" + scope + "')",
                       "mo.atomic_exch(lock, {p}, 0, order='{o}', scope='" + scope + "')"])
    leave = "return" if times == 1 else "continue"
    ask = {"if": ("found = {0}", "if found == 0:", "if found >= 0:"),
           "kept": ("got = {0} == 0", "if got:", "if got or not got:"),
           "left": (f"if {{0}} != 0: {leave}", "if k >= 0:", "if k >= 0:"),
           "given up": ("found, tries = 1, 0\n            while found != 0 and tries < 3: "
                        "found, tries = {0}, tries + 1", "if found == 0:", "if found >= 0:")}[form]
    text = f"""
@mo.kernel
def program(data, lock):
    {'lock, data = mo.shared_array(mo.int32, 2), mo.shared_array(mo.int32, 2)' if shared else 'pass'}
    me = mo.block_idx().x * {warps} + mo.warp_idx()
    {'if mo.thread_idx().x < 2: lock[mo.thread_idx().x] = data[mo.thread_idx().x] = 0' if shared else 'pass'} #- not set
    mo.sync_threads()                                           #- no barrier
    if mo.lane_idx() == 0:
        for k in range({times}):
            {ask[0].format(take.format(o="acquire"))}
                #= taken relaxed: {ask[0].format(take.format(o="relaxed")) if form != "given up" else "found = 0"}
            {ask[1]}                                            #= section of all: {ask[2]}
                data[0] = data[0] + 1
                {back.format(p=0, o="release")}
                    #= back relaxed: {back.format(p=0, o="relaxed")}
                    #= let go by all: pass
                    #= data afterwards: {back.format(p=0, o="release")}; data[1] = me
            #+ let go by all: {back.format(p=0, o="release")}
            #+ data of all: data[0] = me
"""
    harmless = set() if shared else {"not set", "no barrier"}
    if form == "given up":              # a try that is given up in no schedule
        harmless |= {"section of all"}
    if form == "left":                  # who has lost is gone
        harmless |= {"section of all", "let go by all"}
    return Design(text, size, 32 * warps, lambda: [*np.zeros((2, 2), np.int32)], lambda _: {}, cluster=(size, 1, 1),
                  harmless=frozenset(harmless))


def tried_by_lanes(rng: random.Random) -> Design:
    """The lanes of a block's only warp try for its locks, a few times or until each has had one."""
    blocks, locks, until = rng.choice([1, 2]), rng.choice([1, 1, 3]), rng.random() < 0.5
    shared, exchange = rng.random() < 0.5, rng.random() < 0.5
    scope, at = ("cta", "at") if shared else ("gpu", f"{locks} * mo.block_idx().x + at")
    make = f"""
    count, lock = mo.shared_array(mo.int32, {locks}), mo.shared_array(mo.int32, {locks})
    if tid < {locks}: count[tid] = 0; lock[tid] = 0
    mo.sync_warp()                                          #- no barrier before
""" if shared else ""
    take = f"mo.atomic_{'exch' if exchange else 'cas'}(lock, at, {'1' if exchange else '0, 1'}"
    # After an exchange by somebody who has lost, the next one is still told of the last holder: no schedule shows it.
    give = "mo.atomic_exch(lock, at, 0" if not until and rng.random() < 0.5 else "mo.store(lock, at, 0"
    loop = "while more > 0:" if until else f"for _ in range({rng.choice([1, 2])}):"
    text = f"""
@mo.kernel
def program(y, count, lock):
    tid, more = mo.thread_idx().x, 1
    at = tid % {locks}
{make}
    at = {at}
    {loop}
        if {take}, order="acquire", scope="{scope}") == 0:
            #= relaxed: if {take}, order="relaxed", scope="{scope}") == 0:
            count[at] = count[at] + 1
                #= other count: count[at // {locks} * {locks}] = count[at // {locks} * {locks}] + 1
            {give}, order="release", scope="{scope}")
                #= let go relaxed: {give}, order="relaxed", scope="{scope}")
            more = 0
            #+ after: count[at] = count[at] + 1
        #+ without: count[at] = count[at] + 1
        #+ let go by all: {give}, order="release", scope="{scope}")
    mo.sync_warp()                                          #- no barrier after
    if tid < {locks}: y[mo.block_idx().x * {locks} + tid] = count[mo.block_idx().x * {0 if shared else locks} + tid]
"""
    harmless = {"other count"} if locks == 1 else set()
    expected = np.bincount(np.arange(32) % locks, minlength=locks).astype(np.int32)
    return Design(text, blocks, 32, lambda: [*np.zeros((3, blocks * locks), np.int32)],
                  lambda _: {0: np.tile(expected, blocks)} if until else {}, harmless=frozenset(harmless))


def given_up(rng: random.Random) -> Design:
    """Blocks look at a flag once, or for some time, and use the data behind it if it is set."""
    blocks, cluster, warps = rng.choice([2, 3]), rng.random() < 0.4, rng.choice([1, 2])
    blocks = 2 if cluster else blocks
    n, once = 32 * warps, rng.random() < 0.4
    tell = rng.choice(["mo.store(flag, 0, 1, order='{o}')", "mo.atomic_add(flag, 0, 1, order='{o}')"])
    look = "mo.load(flag, 0, order='{o}')"
    most, leaves = rng.choice([3, 50, 300, 900]), rng.random() < 0.4
    wait = ["seen = " + look] if once else [
        "seen = 0", f"for _ in range({most}):", "    if seen != 0: break", f"    seen = {look}"] if leaves else [
        "seen, tries = 0, 0", f"while seen == 0 and tries < {most}:", "    tries += 1", f"    seen = {look}"]
    text = f"""
@mo.kernel
def program(y, x, data, flag):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    found = mo.shared_array(mo.int32, 1)
    if bid == 0:
        data[tid] = x[tid]
        mo.sync_threads()                                       #- no barrier before
        if tid == 0:
            {tell.format(o="release")}                          #= told relaxed: {tell.format(o="relaxed")}
    else:
        if tid == 0:
            {chr(10).join((" " * 12 + line if i else line) for i, line in enumerate(wait)).format(o="acquire")}
                #= heard relaxed: seen = mo.load(flag, 0, order="relaxed")
                #= counts as seen: seen = {look.format(o="acquire")} + 1
            found[0] = seen
        mo.sync_threads()                                       #- no barrier after
        if found[0] == 1:
            #= not heeded: if found[0] >= 0:
            #= other number: if found[0] == 0:
            y[(bid - 1) * {n} + tid] = data[{n - 1} - tid]
        #+ used by all: y[(bid - 1) * {n} + tid] = data[tid]
"""
    x = _numbers(n)
    return Design(text, blocks, n, lambda: [np.zeros((blocks - 1) * n, np.float32), x.copy(), np.zeros(n, np.float32),
                  np.zeros(1, np.int32)], lambda _: {}, cluster=(blocks if cluster else 1, 1, 1))


def locked_in_cluster(rng: random.Random) -> Design:
    """Blocks of a cluster add to one sum under a lock, which lie in the first block's shared memory, or in global."""
    size, times, shared, warps = rng.choice([2, 4]), rng.choice([1, 2]), rng.random() < 0.6, rng.choice([1, 2])
    clusters = 1 if shared else rng.choice([1, 2])
    n = size * clusters * warps
    order, scope = ("relaxed", "cluster") if shared else ("{o}", "gpu")
    take = rng.choice(["mo.atomic_cas(lock, {p}, 0, 1, order='" + order + f"', scope='{scope}')",
                       "mo.atomic_exch(lock, {p}, 1, order='" + order + f"', scope='{scope}')"])
    back = "mo.atomic_exch(lock, {p}, 0, order='" + order + f"', scope='{scope}')"
    fence, fence_ = ("mo.fence(scope='cluster')", "mo.fence(scope='cta')") if shared else ("pass", "pass")
    own = """
    lock_, total_ = mo.shared_array(mo.int32, 2), mo.shared_array(mo.float32, 2)
    if tid < 2: lock_[tid] = total_[tid] = 0                                    #- not set
    mo.cluster_sync()                                                           #- no barrier
    lock, total = mo.map_shared_rank(lock_, 0), mo.map_shared_rank(total_, 0)
""" if shared else ""
    text = f"""
@mo.kernel
def program(y, x, total, lock):
    tid, rank, me = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x * {warps} + mo.warp_idx()
{own}
    if tid % 32 == 0:
        for k in range({times}):
            #+ before the lock: total[0] = total[0] + x[me]
            #+ one before the lock: if me == 0: total[1] = x[me]
            #+ beside the lock: total[1] = x[me]
            while {take.format(o="acquire", p=0)} != 0:
                #= taken relaxed: while {take.format(o="relaxed", p=0)} != 0:
                #= other lock: while {take.format(o="acquire", p="rank % 2")} != 0:
                #= the first without: while me > 0 and {take.format(o="acquire", p=0)} != 0:
                #= the last without: while me < {n - 1} and {take.format(o="acquire", p=0)} != 0:
                pass
            {fence}
                #- taken relaxed
                #= fence of the block: {fence_}
            total[0] = total[0] + x[me]                     #= before the lock: pass #= after the lock: pass
            #+ one before the lock: total[1] = x[me]
            #+ one after the lock: total[1] = x[me]
            {fence}
                #- back relaxed
                #= fence of the block: {fence_}
            {back.format(o="release", p=0)}
                #= back relaxed: {back.format(o="relaxed", p=0)}
                #= other lock: {back.format(o="release", p="rank % 2")}
                #= the first without: if me > 0: {back.format(o="release", p=0)}
                #= the last without: if me < {n - 1}: {back.format(o="release", p=0)}
            #+ after the lock: total[0] = total[0] + x[me]
            #+ one after the lock: if me == {n - 1}: total[1] = x[me]
    mo.cluster_sync()                                                           #- no last barrier
    if tid == 0 and rank == 0:
        {'y[0] = total_[0]' if shared else 'pass'}
"""
    x = _numbers(n)
    harmless = {"fence of the block"} if not shared else set()
    if not shared:
        harmless |= {"not set", "no barrier", "no last barrier"}
    result = {0: np.array([times * x.sum()])} if shared else {2: np.array([times * x.sum(), 0])}
    return Design(text, size * clusters, 32 * warps, lambda: [np.zeros(1, np.float32), x.copy(),
                  np.zeros(2, np.float32), np.zeros(2, np.int32)], lambda _: result, cluster=(size, 1, 1),
                  harmless=frozenset(harmless))


def readers_and_writers(rng: random.Random) -> Design:
    """Readers count themselves under a lock and go on without it; a writer that has the lock waits for all of them."""
    writers, readers, warps, times = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 2])
    n = 32 * warps
    take = "while mo.atomic_cas(lock, 0, 0, 1, order='acquire') != 0: pass"
    text = f"""
@mo.kernel
def program(y, data, count, lock):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    for k in range({times}):
        if bid < {writers}:
            if tid == 0:
                {take}
                while mo.load(count, 0, order="acquire") != 0:
                    #= waits relaxed: while mo.load(count, 0, order="relaxed") != 0:
                    #= no wait: if bid < 0:
                    #= waits for all but one: while mo.load(count, 0, order="acquire") > 1:
                    pass
            mo.sync_threads()                                   #- no barrier
            data[tid] = data[tid] + 1
            mo.sync_threads()                                   #- no second barrier
            if tid == 0:
                mo.store(lock, 0, 0, order="release")           #= back relaxed: mo.store(lock, 0, 0, order="relaxed")
            #+ written late: data[tid] = data[tid] + 1
        else:
            if tid == 0:
                {take}
                mo.atomic_add(count, 0, 1)                      #= counted late: pass
                mo.store(lock, 0, 0, order="release")
                #+ counted late: mo.atomic_add(count, 0, 1)
            mo.sync_threads()                                   #- no third barrier
            y[(bid - {writers}) * {n} + tid] = data[{n - 1} - tid]
            mo.sync_threads()                                   #- no fourth barrier
            if tid == 0:
                mo.atomic_add(count, 0, -1, order="release")    #= leaves relaxed: mo.atomic_add(count, 0, -1)
            #+ read late: y[(bid - {writers}) * {n} + tid] = data[{n - 1} - tid]
"""
    harmless = {"waits for all but one"} if readers > 1 else set()
    return Design(text, writers + readers, n, lambda: [np.zeros(readers * n, np.float32), np.zeros(n, np.float32),
                  *np.zeros((2, 1), np.int32)], lambda _: {1: np.full(n, times * writers, np.float32)},
                  harmless=frozenset(harmless))


def nested(rng: random.Random) -> Design:
    """Blocks, or warps of one, hold one lock while they wait for the next, in one order; or a third lock is around."""
    several, inside = rng.choice([2, 3, 4]), rng.random() < 0.4
    warps, blocks = (several, 1) if inside else (1, several)
    around = rng.random() < 0.3
    wait = "while mo.atomic_cas(lock, {0}, 0, 1, order='acquire') != 0: pass"
    guard = wait.format(several) if around else "pass"
    back = f"mo.store(lock, {several}, 0, order='release')" if around else "pass"
    first, second = ("me", f"(me + 1) % {several}") if around else (
        f"mo.min(me, (me + 1) % {several})", f"mo.max(me, (me + 1) % {several})")
    text = f"""
@mo.kernel
def program(data, lock, idle):
    me = mo.block_idx().x * {warps} + mo.warp_idx()
    if mo.lane_idx() == 0:
        for i in range(8 * me): idle[me] = i
        {guard}                                         #- none around
        {wait.format(first)}                            #= other order: {wait.format(second)}
        {wait.format(second)}                           #= other order: {wait.format(first)}
        data[me] = data[me] + 1
        data[(me + 1) % {several}] = data[(me + 1) % {several}] + 1
        mo.store(lock, {second}, 0, order="release")
            #= back relaxed: mo.store(lock, {second}, 0, order="relaxed")
            #- keeps one
        mo.store(lock, {first}, 0, order="release")
        {back}                                          #- none around
        #+ data of others: data[(me + 2) % {several}] = me
        #+ again: {wait.format(second)}
        #+ again: {wait.format(first)}
        #+ again: mo.store(lock, {first}, 0, order="release"); mo.store(lock, {second}, 0, order="release")
        #+ from another end: {wait.format("(me + 1) % " + str(several)) if not around else "pass"}
        #+ from another end: {wait.format("me")}
        #+ from another end: mo.store(lock, me, 0, order="release")
        #+ from another end: {"pass" if around else f"mo.store(lock, (me + 1) % {several}, 0, order='release')"}
"""
    # Locks that all take in one order, whichever it is, are not waited for in a ring.
    harmless = {"other order", "from another end"} if around else {"none around", "other order"}
    if around or several == 2:          # the lock that is let go last orders all
        harmless |= {"back relaxed"}
    return Design(text, blocks, 32 * warps, lambda: [np.zeros(several, np.int32), np.zeros(several + 1, np.int32),
                  np.zeros(several, np.int32)], lambda _: {0: np.full(several, 2, np.int32)},
                  harmless=frozenset(harmless))


def bulk_under_lock(rng: random.Random) -> Design:
    """Blocks add to one array by bulk copies there and back, all under a lock; one of them does so at another time."""
    warps, blocks = rng.choice([1, 2]), rng.choice([2, 3, 4])
    n, times = 32 * warps, rng.choice([1, 2])
    who = rng.choice(["bid == 0", f"bid == {blocks - 1}", "bid >= 0"])
    load = f"mo.mbarrier_arrive_expect_tx(bar, 0, {4 * n}); mo.copyto(mo.BulkCopy(), s, total, barrier=(bar, 0))"
    store = "mo.copyto(mo.BulkCopy(), total, s); mo.tma_store_arrive(); mo.tma_store_wait(0, read=False)"
    text = f"""
@mo.kernel
def program(total: mo.Static, x, lock, more: mo.Static):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    s, bar = mo.shared_array(mo.float32, {n}), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for k in range({times}):
        if tid == 0:
            #+ loads before: if {who}: {load}
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                #= the one without: while not ({who}) and mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            mo.fence_proxy_async()
            #+ loads before: if not ({who}): {load}
            {load}                                                          #= loads before: pass
        mo.mbarrier_wait(bar, 0, k & 1)                                     #- no load wait
        s[tid] = s[tid] + x[bid * {n} + tid]
        mo.fence_proxy_async()                                              #- no fence
        mo.sync_threads()                                                   #- no barrier
        if tid == 0:
            #+ stores after: if not ({who}): {store}
            {store}                                                         #= stores after: pass
            mo.fence_proxy_async()
            mo.store(lock, 0, 0, order="release")
                #= the one without: if not ({who}): mo.store(lock, 0, 0, order="release")
            #+ stores after: if {who}: {store}
            #+ stores again: mo.copyto(mo.BulkCopy(), more, s); mo.tma_store_arrive()
            #+ stores again: mo.tma_store_wait(0, read=False)
"""
    x = _numbers(blocks * n)
    harmless = {"no barrier"} if warps == 1 else set()
    return Design(text, blocks, n, lambda: [np.zeros(n, np.float32), x.copy(), np.zeros(1, np.int32),
                  np.zeros(n, np.float32)],
                  lambda _: {0: times * x.reshape(blocks, n).sum(0)}, harmless=frozenset(harmless),
                  cluster=(blocks, 1, 1) if rng.random() < 0.3 else (1, 1, 1))


def counted_again(rng: random.Random) -> Design:
    """The last block is who draws the last number; it must not be who finds it in a later look at the counter."""
    blocks, inside = rng.choice([2, 3, 4]), rng.random() < 0.4
    warps, grid = (blocks, 1) if inside else (1, blocks)
    look = rng.choice(["mo.load(ticket, 0, order='{o}')", "mo.atomic_add(ticket, 0, 0, order='{o}')"])
    text = f"""
@mo.kernel
def program(y, x, parts, ticket):
    tid, me = mo.thread_idx().x, mo.block_idx().x * {warps} + mo.warp_idx()
    if mo.lane_idx() == 0:
        parts[me] = x[me]
        drawn = mo.atomic_add(ticket, 0, 1, order="acq_rel")
            #= drawn relaxed: drawn = mo.atomic_add(ticket, 0, 1)
        if drawn == {blocks - 1}:
            #= looks again: if {look.format(o="acquire")} == {blocks}:
            #= looks again relaxed: if {look.format(o="relaxed")} == {blocks}:
            #= weak guard: if drawn == {blocks - 1} or {look.format(o="acquire")} == {blocks}:
            #= one of the last: if drawn >= {blocks - 2}:
            #= looks on: if {look.format(o="relaxed")} > {blocks - 2}:
            total = mo.float32(0)
            for i in range({blocks}):
                total += parts[i]
            y[0] = total
            y[1] = mo.float32(me)
            ticket[0] = 0                                       #- who resets
        #+ who resets: if {look.format(o="acquire")} == {blocks}: ticket[0] = 0
        #+ resets in turn: if {look.format(o="relaxed")} >= {blocks - 1}: ticket[0] = 0
"""
    x = _numbers(blocks)
    return Design(text, grid, 32 * warps, lambda: [np.zeros(2, np.float32), x.copy(), np.zeros(blocks, np.float32),
                  np.zeros(1, np.int32)], lambda _: {})


FAMILIES: dict[str, Any] = {f.__name__: f for f in (
    tried_by_warps, tried_by_lanes, given_up, readers_and_writers, nested, locked_in_cluster, bulk_under_lock,
    counted_again)}
