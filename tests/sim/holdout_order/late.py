"""Flags that several threads store: one that comes late takes back what others have made of the value since."""

from __future__ import annotations

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()


@mo.kernel
def every_warp_hands_on(out, turn, fault: mo.Constexpr):
    """Blocks add in turn.  The next one waits for the store of one warp, and has stored when the other comes."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.load(turn, 0) != b:
            pass
    mo.sync_threads()
    out[tid] += 1
    mo.sync_threads()
    if tid % 32 == 0 if fault else tid == 0:
        mo.store(turn, 0, b + 1)


TABLE.case(every_warp_hands_on, "G3", lambda: (zeros(64, dtype=F32), zeros(1)), grid=3, block=64,
           text="takes that back")


@mo.kernel
def cleared_by_all(out, x, full, fault: mo.Constexpr):
    """The reader clears the flag of a mailbox; a clearing that comes late clears the next message, too."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    total = 0.0
    for k in range(3):
        if b == 0:
            if tid == 0:
                while mo.load(full, 0) != 0:
                    pass
            mo.sync_threads()
            out[tid, 0] = x[tid, k]
            mo.sync_threads()
            if tid == 0:
                mo.store(full, 0, 1)
        else:
            if tid == 0:
                while mo.load(full, 0) == 0:
                    pass
            mo.sync_threads()
            total += out[63 - tid, 0]
            mo.sync_threads()
            if fault or tid == 0:
                mo.store(full, 0, 0)
    if b == 1:
        out[tid, 1] = total


TABLE.case(cleared_by_all, "G3", lambda: (zeros(64, 2, dtype=F32), count(64, 3), zeros(1)), grid=2, block=64,
           text="takes that back")


@mo.kernel
def ticket_reset_by_all(out, ticket, fault: mo.Constexpr):
    """The last block resets the counter, and one thread of it counts on."""
    tid = mo.thread_idx().x
    last = mo.shared_array(mo.int32, 1)
    if tid == 0:
        last[0] = mo.atomic_add(ticket, 0, 1, order="acq_rel")
    mo.sync_threads()
    if last[0] == mo.grid_dim().x - 1:
        if fault or tid == 0:
            mo.store(ticket, 0, 0, order="relaxed")
        if not fault:
            mo.sync_threads()
        if tid == 0:
            out[0] = mo.atomic_add(ticket, 0, 5, order="acq_rel")


TABLE.case(ticket_reset_by_all, "G3", lambda: (zeros(1), zeros(1)), grid=3, block=64, text="takes that back")


@mo.kernel
def shared_turns(out, n, fault: mo.Constexpr):
    """Three warps take turns by a flag of their block; two of them say that the first is through."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    turn, sums = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        turn[0], sums[0] = 0, 0
    mo.sync_threads()
    if warp < 2:
        mo.barrier_sync(1, 64)
        if tid == 0:
            sums[0] = sums[0] + n
        mo.barrier_sync(1, 64)
        if (fault and tid == 32) or tid == 0:
            mo.store(turn, 0, 1, scope="cta")
    elif tid == 64:
        while mo.load(turn, 0, scope="cta") != 1:
            pass
        sums[0] = sums[0] * 3
        mo.store(turn, 0, 2, scope="cta")
    if tid == 65:
        while mo.load(turn, 0, scope="cta") != 2:
            pass
        out[0] = sums[0]


TABLE.case(shared_turns, "C2", lambda: (zeros(1), 5), block=96, text="takes that back")


@mo.kernel
def many_say_so(out, x, changed, _: mo.Constexpr):
    """All who have something to do set one flag, and one thread clears it, with the grid's barriers in between."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    i = b * 64 + tid
    again = True
    while again:
        mo.grid_sync()
        if i == 0:
            mo.store(changed, 0, 0)
        mo.grid_sync()
        if x[i] < 3:
            x[i] += 1
            mo.store(changed, 0, 1)
        mo.grid_sync()
        again = mo.load(changed, 0) == 1
    out[i] = x[i]


TABLE.right(many_say_so, lambda: (zeros(128), count(128, dtype=I32) % 5, zeros(1)), grid=2, block=64)


@mo.kernel
def found_and_answered(out, flag, _: mo.Constexpr):
    """Nothing but the flag goes to and fro: who answers has found what it answers to, and no order is needed."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0 and b == 0:
        mo.store(flag, 0, 1)
    elif tid == 0 and b == 2:
        while mo.load(flag, 0, order="relaxed") != 2:
            pass
        mo.store(flag, 0, 1, order="relaxed")
    elif tid == 0:
        while mo.load(flag, 0) != 1:
            pass
        mo.store(flag, 0, 2, order="relaxed")
        while mo.load(flag, 0, order="relaxed") != 1:
            pass
        mo.store(flag, 0, 3, order="relaxed")
        out[0] = 1


TABLE.right(found_and_answered, lambda: (zeros(1), zeros(1)), grid=3)


@mo.kernel
def said_again(out, flag, _: mo.Constexpr):
    """All warps say 0, then 1, and the reader says 1 once more: that takes nothing back."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        mo.store(flag, 0, 0)
        mo.sync_threads()
        mo.store(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) != 1:
                pass
            mo.store(flag, 0, 1)
        mo.sync_threads()
        out[tid] = tid


TABLE.right(said_again, lambda: (zeros(64), zeros(1)), grid=2, block=64)


@mo.kernel
def said_under_a_lock(count, mode, lock, _: mo.Constexpr):
    """The flag goes to and fro under a lock, which lets nobody store late."""
    if mo.thread_idx().x == 0:
        for _k in range(3):
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            count[0] += 1
            mo.store(mode, 0, count[0] % 2, order="relaxed")
            if count[0] > 6:
                count[1] = mo.load(mode, 0, order="relaxed")
            mo.store(lock, 0, 0)


TABLE.right(said_under_a_lock, lambda: (zeros(2), zeros(1), zeros(1)), grid=3)


@mo.kernel
def done_by_all(out, done, _: mo.Constexpr):
    """Every warp says that its block is through, and nobody says anything else."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        out[tid] = 1
        mo.sync_threads()
        mo.store(done, 0, 1)
    else:
        while mo.load(done, 0) == 0:
            pass
        mo.sync_threads()
        out[64 + tid] = out[63 - tid]


TABLE.right(done_by_all, lambda: (zeros(128), zeros(1)), grid=2, block=64)


@mo.kernel
def relaxed_lock(total, lock, _: mo.Constexpr):
    """A free lock is stored again and again; whoever took it has found that store."""
    if mo.thread_idx().x == 0:
        for _ in range(3):
            while mo.atomic_cas(lock, 0, 0, 1) != 0:
                pass
            mo.fence()
            total[0] += 1
            mo.fence()
            mo.store(lock, 0, 0, order="relaxed")


TABLE.right(relaxed_lock, lambda: (zeros(1), zeros(1)), grid=3)
