"""Kernels whose threads signal through memory, each right and with one fault: ``fault`` is "" or a word."""

from __future__ import annotations

import moye as mo

# --- grid barriers ---------------------------------------------------------------------------------------------------


@mo.kernel
def grid_counter(x, y, count, n, fault: mo.Constexpr):
    """A barrier that counts arrivals; each block then reads what its neighbour wrote."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    x[bid * 32 + tid] = bid + tid
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(count, 0, 1, order="relaxed" if fault == "relaxed" else "release")
        wanted = n - 1 if fault == "one less" else n
        while mo.load(count, 0, order="acquire") < wanted:
            pass
    if fault != "no barrier":
        mo.sync_threads()
    y[bid * 32 + tid] = x[(bid + 1) % n * 32 + tid]


@mo.kernel
def grid_counter_polled_by_atomics(x, y, count, n, fault: mo.Constexpr):
    """The same, polled by an atomic that adds nothing."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    x[bid * 32 + tid] = bid + tid
    mo.sync_threads()
    if tid == 0:
        mo.fence()
        mo.atomic_add(count, 0, 1)
        while mo.atomic_add(count, 0, 0) < (n - 1 if fault == "one less" else n):
            pass
        if fault != "no fence":
            mo.fence()
    mo.sync_threads()
    y[bid * 32 + tid] = x[(bid + 1) % n * 32 + tid]


@mo.kernel
def grid_twice(x, y, z, count, n, fault: mo.Constexpr):
    """Two barriers on one counter that nobody resets: the second must wait for twice as many."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    x[bid * 32 + tid] = bid + tid
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(count, 0, 1, order="acq_rel")
        while mo.load(count, 0, order="acquire") < n:
            pass
    mo.sync_threads()
    y[bid * 32 + tid] = x[(bid + 1) % n * 32 + tid]
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(count, 0, 1, order="acq_rel")
        while mo.load(count, 0, order="acquire") < (n if fault == "reused" else 2 * n):
            pass
    mo.sync_threads()
    z[bid * 32 + tid] = y[(bid + 1) % n * 32 + tid]


@mo.kernel
def grid_generation(x, y, count, generation, n, rounds, fault: mo.Constexpr):
    """The last to arrive resets the counter and begins the next generation."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    for r in range(rounds):
        x[(r % 2) * n * 32 + bid * 32 + tid] = r + bid
        mo.sync_threads()
        if tid == 0:
            before = mo.load(generation, 0, order="relaxed")
            if mo.atomic_add(count, 0, 1, order="relaxed" if fault == "relaxed" else "acq_rel") == n - 1:
                mo.store(count, 0, 0, order="relaxed")
                mo.store(generation, 0, before + 1, order="relaxed" if fault == "plain turn" else "release")
            else:
                while mo.load(generation, 0, order="acquire") == before:
                    pass
        mo.sync_threads()
        y[bid * 32 + tid] += x[(r % 2) * n * 32 + (bid + 1) % n * 32 + tid]


@mo.kernel
def grid_sense(x, y, count, sense, n, rounds, fault: mo.Constexpr):
    """Sense-reversing: the flag that ends a round is 1 - the one before."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = 0
    for r in range(rounds):
        x[(r % 2) * n * 32 + bid * 32 + tid] = r + bid
        mo.sync_threads()
        mine = 1 - mine
        if tid == 0:
            if fault != "no fence before":
                mo.fence()
            if mo.atomic_add(count, 0, 1) == n - 1:
                mo.fence()
                mo.store(count, 0, 0, order="relaxed")
                mo.fence()
                mo.store(sense, 0, mine, order="relaxed")
            else:
                while mo.load(sense, 0, order="relaxed") != mine:
                    pass
            if fault != "no fence after":
                mo.fence()
        mo.sync_threads()
        y[bid * 32 + tid] += x[(r % 2) * n * 32 + (bid + 1) % n * 32 + tid]


# --- tickets and last blocks -----------------------------------------------------------------------------------------


@mo.kernel
def last_block(parts, out, ticket, n, fault: mo.Constexpr):
    """threadFenceReduction: fence, ticket, and the last block fences and adds up; a plain reset of the ticket."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    last = mo.shared_array(mo.int32, 1)
    if tid == 0:
        parts[bid] = bid + 1.0
        if fault != "no writer's fence":
            mo.fence()
        drawn = mo.atomic_add(ticket, 0, 1)
        last[0] = 1 if drawn == (n - 2 if fault == "one early" else n - 1) else 0
        if fault != "no reader's fence":
            mo.fence()
    mo.sync_threads()
    if last[0] == 1:
        if tid < n:
            mo.atomic_add(out, 0, parts[tid])
        if tid == 0:
            ticket[0] = 0


@mo.kernel
def last_block_acq_rel(parts, out, ticket, n, fault: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    last = mo.shared_array(mo.int32, 1)
    parts[bid * 32 + tid] = bid + 1.0
    if fault != "no barrier":
        mo.sync_threads()
    if tid == 0:
        order = {"release": "release", "acquire": "acquire"}.get(fault, "acq_rel")
        last[0] = mo.atomic_add(ticket, 0, 1, order=order)
    mo.sync_threads()
    if last[0] == n - 1:
        total = mo.float32(0)
        for b in range(n):
            total += parts[b * 32 + tid]
        out[tid] = total
        if tid == 0:
            ticket[0] = 0


# --- flags -----------------------------------------------------------------------------------------------------------


@mo.kernel
def two_flags(x, y, flags, fault: mo.Constexpr):
    """Block 0 and block 1 write a half each and set their flags; block 2 waits for one and reads that half."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid < 2:
        x[bid * 32 + tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flags, bid, 1)
    else:
        if tid == 0:
            while mo.load(flags, 0 if fault == "wrong flag" else 1) == 0:
                pass
        mo.sync_threads()
        y[tid] = x[32 + tid]


@mo.kernel
def two_flags_in_a_block(y, fault: mo.Constexpr):
    """The same by the warps of one block, in shared memory."""
    tid = mo.thread_idx().x
    data, flags = mo.shared_array(mo.int32, 64), mo.shared_array(mo.int32, 2)
    if tid < 2:
        mo.store(flags, tid, 0, order="relaxed", scope="cta")
    mo.sync_threads()
    warp = tid // 32
    if warp < 2:
        data[tid] = tid
        mo.sync_warp()
        if tid % 32 == 0:
            mo.store(flags, warp, 1, order="release", scope="cta")
    else:
        while mo.load(flags, 0 if fault == "wrong flag" else 1, order="acquire", scope="cta") == 0:
            pass
        y[mo.block_idx().x * 32 + tid - 64] = data[32 + tid - 64]


@mo.kernel
def message(x, y, flag, before: mo.Constexpr, after: mo.Constexpr, scope: mo.Constexpr):
    """Relaxed flag between fences of a scope."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        x[tid] = tid
        mo.sync_threads()
        if tid == 0:
            if before:
                mo.fence(scope=scope)
            mo.store(flag, 0, 1, order="relaxed")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            if after:
                mo.fence(scope=scope)
        mo.sync_threads()
        y[tid] = x[tid]


@mo.kernel
def unrelated_fence(x, y, z, flag, fault: mo.Constexpr):
    """A fence of one thread does not make the flag of another release."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        x[tid] = tid
        mo.sync_threads()
        if tid == (33 if fault else 0):
            mo.fence()
        if tid == 0:
            mo.store(flag, 0, 1, order="relaxed")
    else:
        if tid == 0:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
            mo.fence()
        mo.sync_threads()
        y[tid] = x[tid]


# --- queues ----------------------------------------------------------------------------------------------------------


@mo.kernel
def queue(items, tail, out, n, fault: mo.Constexpr):
    """Block 0 fills a queue item by item, block 1 takes each as soon as it is there."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        for i in range(n):
            items[i * 32 + tid] = i + tid
            mo.sync_threads()
            if tid == 0:
                mo.store(tail, 0, i + 1)
    else:
        for i in range(n):
            if tid == 0:
                while mo.load(tail, 0) < (i if fault == "one too far" else i + 1):
                    pass
            mo.sync_threads()
            out[i * 32 + tid] = items[i * 32 + tid]


@mo.kernel
def ring(items, filled, freed, out, n, fault: mo.Constexpr):
    """A ring of two slots between two blocks."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        for i in range(n):
            if tid == 0:
                while mo.load(freed, 0) < (i - 2 if fault == "filled too early" else i - 1):
                    pass
            mo.sync_threads()
            items[i % 2 * 32 + tid] = i + tid
            mo.sync_threads()
            if tid == 0:
                mo.store(filled, 0, i + 1)
    else:
        for i in range(n):
            if tid == 0:
                while mo.load(filled, 0) < i + 1:
                    pass
            mo.sync_threads()
            out[i * 32 + tid] = items[i % 2 * 32 + tid]
            if fault != "freed before read":
                mo.sync_threads()
            if tid == 0:
                mo.store(freed, 0, i + 1)


# --- decoupled lookback ----------------------------------------------------------------------------------------------


@mo.kernel
def lookback(x, sums, prefixes, status, y, fault: mo.Constexpr):
    """A scan over blocks: each adds up the sums of those before it until one has a prefix."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    start = mo.shared_array(mo.float32, 1)
    if tid == 0:
        total = mo.float32(0)
        for i in range(32):
            total += x[bid * 32 + i]
        sums[bid] = total
        mo.store(status, bid, 1, order="relaxed" if fault == "sum not released" else "release")
        before = mo.float32(0)
        look = bid - 1
        while look >= 0:
            found = mo.load(status, look, order="relaxed" if fault == "not acquired" else "acquire")
            if found == 2 or (found == 1 and fault == "prefix of a sum"):
                before += prefixes[look]
                look = -1
            elif found == 1:
                before += sums[look]
                look -= 1
        prefixes[bid] = before + total
        mo.store(status, bid, 2)
        start[0] = before
    mo.sync_threads()
    y[bid * 32 + tid] = start[0]


# --- locks -----------------------------------------------------------------------------------------------------------


@mo.kernel
def spin_lock(lock, total, times, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        for _ in range(times):
            before = total[0]
            while mo.atomic_cas(lock, 0, 0, 1, order="relaxed" if fault == "relaxed" else "acquire") != 0:
                pass
            if fault != "read before":
                before = total[0]
            total[0] = before + 1
            if fault == "written after":
                mo.store(lock, 0, 0)
                total[1] = total[1] + 1
            elif fault == "relaxed unlock":
                mo.store(lock, 0, 0, order="relaxed")
            else:
                mo.store(lock, 0, 0)


@mo.kernel
def exchange_lock(lock, total, times, fault: mo.Constexpr):
    """Locked by an exchange, unlocked by another, between fences."""
    tid = mo.thread_idx().x
    if tid == 0:
        for _ in range(times):
            while mo.atomic_exch(lock, 0, 1) != 0:
                pass
            if fault != "no fence after":
                mo.fence()
            total[0] = total[0] + 1
            if fault != "no fence before":
                mo.fence()
            mo.atomic_exch(lock, 0, 0)


@mo.kernel
def ticket_lock(ticket, serving, total, times, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        for _ in range(times):
            mine = mo.atomic_add(ticket, 0, 1)
            while mo.load(serving, 0, order="acquire") < (mine - 1 if fault == "one early" else mine):
                pass
            total[0] = total[0] + 1
            if fault == "plain":
                serving[0] = mine + 1
            else:
                mo.store(serving, 0, mine + 1)


@mo.kernel
def locked_once(lock, ready, table, y, fault: mo.Constexpr):
    """Double-checked: the first block makes the table under a lock."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0 and mo.load(ready, 0, order="relaxed" if fault == "relaxed check" else "acquire") == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        if mo.load(ready, 0, order="relaxed") == 0:
            table[0] = 7
            mo.store(ready, 0, 1, order="relaxed" if fault == "relaxed ready" else "release")
        mo.store(lock, 0, 0)
    mo.sync_threads()
    y[bid * 32 + tid] = table[0]


# --- split-K ---------------------------------------------------------------------------------------------------------


@mo.kernel
def semaphore(C, turn, n, fault: mo.Constexpr):
    """Blocks add to one tile in turn."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.load(turn, 0) != bid and fault != "no wait":
            pass
    mo.sync_threads()
    C[tid] = (C[tid] if bid > 0 else mo.float32(0)) + 1
    if fault != "no barrier":
        mo.sync_threads()
    if tid == 0:
        if fault == "relaxed":
            mo.store(turn, 0, bid + 1, order="relaxed")
        else:
            mo.store(turn, 0, bid + 1)


# --- within a warp or a block ----------------------------------------------------------------------------------------


@mo.kernel
def lane_flags(y, fault: mo.Constexpr):
    """Each lane hands its value to the next one through a flag of its own."""
    tid = mo.thread_idx().x
    data, flags = mo.shared_array(mo.int32, 64), mo.shared_array(mo.int32, 64)
    mo.store(flags, tid, 0, order="relaxed", scope="cta")
    mo.sync_threads()
    data[tid] = tid
    mo.store(flags, tid, 1, order="release", scope="cta")
    mate = tid ^ 1
    seen = mo.load(flags, tid if fault == "own flag" else mate, order="acquire", scope="cta")
    while seen == 0:
        seen = mo.load(flags, mate, order="acquire", scope="cta")
    y[mo.block_idx().x * 64 + tid] = data[mate]


@mo.kernel
def shared_ticket(y, fault: mo.Constexpr):
    """The last thread of a block to draw a ticket adds up what all have left."""
    tid = mo.thread_idx().x
    data, ticket = mo.shared_array(mo.int32, 64), mo.shared_array(mo.int32, 1)
    if tid == 0:
        ticket[0] = 0
    mo.sync_threads()
    data[tid] = tid
    drawn = mo.atomic_add(ticket, 0, 1, order="relaxed" if fault == "relaxed" else "acq_rel", scope="cta")
    if drawn == (62 if fault == "one early" else 63):
        total = 0
        for i in range(64):
            total += data[i]
        y[0] = total
        ticket[0] = 0


# --- clusters --------------------------------------------------------------------------------------------------------


@mo.kernel
def remote_arrival(x, y, fault: mo.Constexpr):
    """Block 0 of a cluster hands a row of global memory to block 1 through the mbarrier of that block."""
    tid, rank, cluster = mo.thread_idx().x, mo.cluster_rank(), mo.block_idx().x // 2
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    if rank == 0:
        x[cluster * 32 + tid] = tid
        mo.sync_threads()
        if tid == 0:
            if fault != "no fence before":
                mo.fence(scope="cta" if fault == "narrow" else "cluster")
            mo.mbarrier_arrive(bars, 0, cta=1)
    else:
        mo.mbarrier_wait(bars, 0, 0)
        if fault != "no fence after":
            mo.fence(scope="cluster")
        y[cluster * 32 + tid] = x[cluster * 32 + tid]
    mo.cluster_sync()


@mo.kernel
def cluster_scope(x, y, flag, fault: mo.Constexpr):
    """A flag in global memory between the blocks of a cluster, with its scope; the block of another one must not."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    if bid == 0:
        x[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1, scope="cta" if fault == "block" else "cluster")
    elif bid == (2 if fault == "other cluster" else 1):
        if tid == 0:
            while mo.load(flag, 0, scope="cluster") == 0:
                pass
        mo.sync_threads()
        y[tid] = x[tid]


@mo.kernel
def narrow_count(count, fault: mo.Constexpr):
    """Atomics of block scope by several blocks, in one statement."""
    mo.atomic_add(count, mo.block_idx().x if fault == "" else 0, 1, scope="cta")


# --- workspaces ------------------------------------------------------------------------------------------------------


@mo.kernel
def workspace(x, work, y, n, fault: mo.Constexpr):
    """Each thread leaves a value in the workspace and takes it back."""
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < (n - 1 if fault == "one missing" else n):
        work[i] = x[i]
    if fault == "read first":
        y[i] = work[i]
    elif fault == "added to":
        mo.atomic_add(work, i, 1.0)
    elif i < n:
        y[i] = work[i]


@mo.kernel
def same_value(flag, y, where: mo.Constexpr, fault: mo.Constexpr):
    """Threads that find something set one flag: all of them to one value, or to their own."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    found = mo.shared_array(mo.int32, 1)
    if tid == 0:
        found[0] = 0
    mo.sync_threads()
    if tid % 5 == 0:
        if where == "shared":
            found[0] = tid if fault else 1
        elif where == "global":
            flag[bid] = tid if fault else 1
        else:
            flag[0] = bid if fault else 1
    if where == "shared twice" and tid == 1:
        found[0] = 2 if fault else 0
    if where == "shared twice" and tid == 33:
        found[0] = 3 if fault else 0
    mo.sync_threads()
    y[bid * 64 + tid] = found[0]


@mo.kernel
def named_twice(y, count, fault: mo.Constexpr):
    """Two pairs of warps meet at a barrier each, or at one; the atomic has nothing to do with it."""
    tid = mo.thread_idx().x
    mo.atomic_add(count, 0, 1, order="acq_rel")
    if tid < 64:
        mo.barrier_sync(1, 64)
    else:
        mo.barrier_sync(1 if fault else 2, 64)
    y[tid] = tid


@mo.kernel
def same_pairs(x, differ: mo.Constexpr):
    """Every block writes the same pairs of elements, or block 1 another second half."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    gX = mo.tile(x, (2,), (tid,))
    r = mo.make_fragment_like(gX)
    r[0] = 1.0
    r[1] = mo.float32(bid) if differ else mo.float32(2)
    mo.copyto(gX, r)
