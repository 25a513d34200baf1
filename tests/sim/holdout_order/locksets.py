"""Data guarded by locks: some accesses hold another lock than the rest, or none, though one came after the other."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import F32, I32, Table, count, zeros

TABLE = Table()
GLOBAL, SHARED = "G1 G2 G3 G5", "C1 C2 C3"


def words(*values: int) -> np.ndarray:
    return np.array(values, I32)


# ------ locks in global memory


@mo.kernel
def before_the_lock(c, d, lock, fault: mo.Constexpr):
    # the counter d is right, c is written ahead of the lock
    if mo.thread_idx().x == 0:
        if fault:
            c[0] = mo.block_idx().x
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + 1
        if not fault:
            c[0] = mo.block_idx().x
        mo.store(lock, 0, 0)


TABLE.case(before_the_lock, GLOBAL, lambda: (zeros(1), zeros(1), zeros(1)), grid=4, schedules=1)


@mo.kernel
def read_after_the_lock(c, out, lock, fault: mo.Constexpr):
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            while mo.atomic_exch(lock, 0, 1, order="acquire") != 0:
                pass
            c[0] = 7
            mo.store(lock, 0, 0)
        else:
            while mo.atomic_exch(lock, 0, 1, order="acquire") != 0:
                pass
            seen = 0
            if not fault:
                seen = c[0]
            mo.store(lock, 0, 0)
            if fault:
                seen = c[0]
            out[b] = seen


TABLE.case(read_after_the_lock, GLOBAL, lambda: (zeros(1), zeros(3), zeros(1)), grid=3, schedules=1)


@mo.kernel
def lock_per_bin(hist, total, x, lock, fault: mo.Constexpr):
    # a lock for each bin; the total has a lock of its own
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        for i in range(4):
            k = x[4 * b + i]
            while mo.atomic_cas(lock, k, 0, 1, order="acquire") != 0:
                pass
            hist[k] = hist[k] + 1
            if fault:
                total[0] = total[0] + 1
            mo.store(lock, k, 0)
            if not fault:
                while mo.atomic_cas(lock, 3, 0, 1, order="acquire") != 0:
                    pass
                total[0] = total[0] + 1
                mo.store(lock, 3, 0)


TABLE.case(lock_per_bin, GLOBAL, lambda: (zeros(3), zeros(1), words(0, 0, 0, 1, 1, 1, 1, 2), zeros(4)), grid=2,
           schedules=1)


@mo.kernel
def two_locks_one_datum(c, d, lock, other, fault: mo.Constexpr):
    # everybody takes both locks in turn, and c lies in a different one of them
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + 1
        if b == 0 or not fault:
            c[0] = c[0] + 1
        mo.store(lock, 0, 0)
        while mo.atomic_cas(other, 0, 0, 1, order="acquire") != 0:
            pass
        d[1] = d[1] + 1
        if b == 1 and fault:
            c[0] = c[0] + 1
        mo.store(other, 0, 0)


TABLE.case(two_locks_one_datum, GLOBAL, lambda: (zeros(1), zeros(2), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def hand_over_hand(node, lock, fault: mo.Constexpr):
    # the next node's lock is taken before this one is let go
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        for i in range(3):
            node[i] = node[i] + 1
            if fault:
                node[i + 1] = node[i + 1] + 10
            while mo.atomic_cas(lock, i + 1, 0, 1, order="acquire") != 0:
                pass
            if not fault:
                node[i + 1] = node[i + 1] + 10
            mo.store(lock, i, 0)
        mo.store(lock, 3, 0)


TABLE.case(hand_over_hand, GLOBAL, lambda: (zeros(4), zeros(4)), grid=3, schedules=1)


@mo.kernel
def let_go_early(c, lock, x, fault: mo.Constexpr):
    # the block's sum goes to c by all threads, while thread 0 holds the lock for them
    tid, b = mo.thread_idx().x, mo.block_idx().x
    for _ in range(2):
        if tid == 0:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
        mo.sync_threads()
        if not fault:
            c[tid] = c[tid] + x[b]
        mo.sync_threads()
        if tid == 0:
            mo.store(lock, 0, 0)
        if fault:
            mo.sync_threads()
            c[tid] = c[tid] + x[b]
        mo.sync_threads()


TABLE.case(let_go_early, GLOBAL, lambda: (zeros(64), zeros(1), words(1, 2, 3)), grid=3, block=64, schedules=1)


@mo.kernel
def relaxed_let_go(c, lock, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        while mo.atomic_exch(lock, 0, 1, order="acquire") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0, order="relaxed" if fault else "release")


TABLE.case(relaxed_let_go, GLOBAL, lambda: (zeros(1), zeros(1)), grid=3, schedules=1)


@mo.kernel
def relaxed_taking(c, lock, fault: mo.Constexpr):
    # a relaxed CAS is right with a fence behind it
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="relaxed") != 0:
            pass
        if not fault:
            mo.fence()
        c[0] = c[0] + 1
        mo.fence()
        mo.atomic_exch(lock, 0, 0, order="relaxed")


TABLE.case(relaxed_taking, GLOBAL, lambda: (zeros(1), zeros(1)), grid=3, schedules=1)


@mo.kernel
def anothers_lock(c, lock, fault: mo.Constexpr):
    # block 2 lets a lock go that it has never taken
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b < 2 or not fault:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            c[0] = c[0] + 1
        mo.store(lock, 0, 0)


TABLE.case(anothers_lock, GLOBAL, lambda: (zeros(1), zeros(1)), grid=3, schedules=1)


@mo.kernel
def plain_reset(c, lock, fault: mo.Constexpr):
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        c[0] = c[0] + b
        if fault:
            lock[0] = 0
        else:
            mo.store(lock, 0, 0)


TABLE.case(plain_reset, GLOBAL, lambda: (zeros(1), zeros(1)), grid=3, schedules=1)


@mo.kernel
def inside_the_loop(c, d, lock, fault: mo.Constexpr):
    # a loop that tries until it has had its turn; d is counted atomically
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        done = False
        while not done:
            if mo.atomic_cas(lock, 0, 0, b + 1, order="acquire") == 0:
                d[0] = d[0] + b
                if not fault:
                    c[0] = c[0] + 1
                mo.atomic_exch(lock, 0, 0, order="release")
                done = True
        if fault:
            c[0] = c[0] + 1


TABLE.case(inside_the_loop, GLOBAL, lambda: (zeros(1), zeros(1), zeros(1)), grid=3, schedules=1)


# ------ locks in shared memory


@mo.kernel
def warps_lock(out, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    lock = mo.shared_array(mo.int32, 1)
    c = mo.shared_array(mo.int32, 2)
    if tid < 2:
        c[tid] = 0
    if tid == 0:
        lock[0] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        if fault:
            c[1] = tid
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
            pass
        c[0] = c[0] + 1
        if not fault:
            c[1] = tid
        mo.store(lock, 0, 0, order="release", scope="cta")
    mo.sync_threads()
    if tid < 2:
        out[tid] = c[tid]


TABLE.case(warps_lock, SHARED, lambda: zeros(2), block=128)


@mo.kernel
def warps_bins(out, x, fault: mo.Constexpr):
    # a lock per bin in shared memory, the last one for the largest value
    tid = mo.thread_idx().x
    lock, bins = mo.shared_array(mo.int32, 4), mo.shared_array(mo.int32, 4)
    if tid < 4:
        lock[tid] = 0
        bins[tid] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        k = x[tid // 32]
        while mo.atomic_exch(lock, k, 1, order="acquire", scope="cta") != 0:
            pass
        bins[k] = bins[k] + 1
        if fault:
            bins[3] = bins[3] + k
        mo.store(lock, k, 0, order="release", scope="cta")
        if not fault:
            while mo.atomic_exch(lock, 3, 1, order="acquire", scope="cta") != 0:
                pass
            bins[3] = bins[3] + k
            mo.store(lock, 3, 0, order="release", scope="cta")
    mo.sync_threads()
    if tid < 4:
        out[tid] = bins[tid]


TABLE.case(warps_bins, SHARED, lambda: (zeros(4), words(0, 1, 2, 0)), block=128)


@mo.kernel
def lock_per_block(c, total, fault: mo.Constexpr):
    # each block has its lock in shared memory, which is too little for what all blocks use
    tid, b = mo.thread_idx().x, mo.block_idx().x
    lock = mo.shared_array(mo.int32, 1)
    if tid == 0:
        lock[0] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
            pass
        c[b] = c[b] + 1
        if fault:
            total[0] = total[0] + 1
        mo.store(lock, 0, 0, order="release", scope="cta")
        if not fault:
            mo.atomic_add(total, 0, 1)


TABLE.case(lock_per_block, GLOBAL, lambda: (zeros(2), zeros(1)), grid=2, block=64)


@mo.kernel
def warps_global(c, d, lock, fault: mo.Constexpr):
    # two warps of one block and a lock in global memory
    tid = mo.thread_idx().x
    if tid % 32 == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + 1
        if not fault:
            c[0] = c[0] + tid
        mo.store(lock, 0, 0)
        if fault:
            while mo.atomic_cas(lock, 1, 0, 1, order="acquire") != 0:
                pass
            if tid == 0:
                c[0] = c[0] + tid
            mo.store(lock, 1, 0)
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            if tid == 32:
                c[0] = c[0] + tid
            mo.store(lock, 0, 0)


TABLE.case(warps_global, SHARED, lambda: (zeros(1), zeros(1), zeros(2)), block=64)


# ------ right, and no lockset in common


@mo.kernel
def published(c, out, flag, lock, fault: mo.Constexpr):
    # written without the lock, and read so once the flag is up
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            c[0] = 5
            mo.store(flag, 0, 1)
        else:
            while mo.load(flag, 0) == 0:
                pass
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            c[0] = c[0] + 1
            mo.store(lock, 0, 0)
            mo.atomic_add(flag, 1, 1, order="release")
            while mo.load(flag, 1) != 2:
                pass
            out[b] = c[0]


TABLE.right(published, lambda: (zeros(1), zeros(3), zeros(2), zeros(1)), grid=3)


@mo.kernel
def joined(out, fault: mo.Constexpr):
    # set up before and read after the barrier, locked in between
    tid = mo.thread_idx().x
    lock, c = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        lock[0] = 0
        c[0] = 3
    mo.sync_threads()
    if tid % 32 == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0, order="release", scope="cta")
    mo.sync_threads()
    out[tid] = c[0]


TABLE.right(joined, lambda: zeros(96), block=96)


@mo.kernel
def last_one_reads(c, out, lock, ticket, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0)
        if mo.atomic_add(ticket, 0, 1, order="acq_rel") == mo.grid_dim().x - 1:
            out[0] = c[0]


TABLE.right(last_one_reads, lambda: (zeros(1), zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def free_list(node, head, following, lock, fault: mo.Constexpr):
    # who takes a node off the list has it alone until it is back
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        mine = head[0]
        head[0] = following[mine]
        mo.store(lock, 0, 0)
        node[mine] = node[mine] + b
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        following[mine] = head[0]
        head[0] = mine
        mo.store(lock, 0, 0)


TABLE.right(free_list, lambda: (zeros(5), zeros(1), words(1, 2, 3, 4, 4), zeros(1)), grid=4)


@mo.kernel
def ready_under_the_lock(c, out, ready, lock, fault: mo.Constexpr):
    # written before the lock is taken to say so; read once the word was found under the lock
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            c[0] = 9
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            ready[0] = 1
            mo.store(lock, 0, 0)
        else:
            seen = 0
            while seen == 0:
                while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                    pass
                seen = ready[0]
                mo.store(lock, 0, 0)
            out[b] = c[0]


TABLE.right(ready_under_the_lock, lambda: (zeros(1), zeros(3), zeros(1), zeros(1)), grid=3)


@mo.kernel
def semaphores(c, sem, fault: mo.Constexpr):
    # who lets go is not who has taken: a signal, not a lock
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        for _ in range(3):
            while mo.atomic_cas(sem, b, 0, 1, order="acquire") != 0:
                pass
            c[0] = c[0] + 1
            mo.store(sem, 1 - b, 0)


TABLE.right(semaphores, lambda: (zeros(1), words(0, 1)), grid=2)


@mo.kernel
def handed_by_the_lock(c, out, lock, fault: mo.Constexpr):
    # the lock is taken when the launch begins, and block 0 opens it
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            c[0] = 3
            mo.store(lock, 0, 0)
        else:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            out[b] = c[0]
            mo.store(lock, 0, 0)


TABLE.right(handed_by_the_lock, lambda: (zeros(1), zeros(3), words(1)), grid=3)


@mo.kernel
def one_takes_another_lets_go(c, lock, x, fault: mo.Constexpr):
    # thread 0 takes the lock for its block, and thread 32 lets it go
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
    mo.sync_threads()
    c[tid] = c[tid] + x[b]
    mo.sync_threads()
    if tid == 32:
        mo.store(lock, 0, 0)


TABLE.right(one_takes_another_lets_go, lambda: (zeros(64), zeros(1), words(1, 2, 3)), grid=3, block=64)


@mo.kernel
def on_behalf_of_another(c, go, lock, fault: mo.Constexpr):
    # block 0 holds the lock while block 1 works for it; block 2 takes it too
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 1:
            while mo.load(go, 0) == 0:
                pass
            c[0] = c[0] + 1
            mo.store(go, 1, 1)
        else:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
            if b == 0:
                mo.store(go, 0, 1)
                while mo.load(go, 1) == 0:
                    pass
            else:
                c[0] = c[0] + 5
            mo.store(lock, 0, 0)


TABLE.right(on_behalf_of_another, lambda: (zeros(1), zeros(2), zeros(1)), grid=3)


@mo.kernel
def test_and_test(c, lock, fault: mo.Constexpr):
    # looks before it tries; the lock is named by who has it
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        mine = False
        while not mine:
            while mo.load(lock, 0, order="relaxed") != 0:
                pass
            mine = mo.atomic_cas(lock, 0, 0, b + 1, order="acquire") == 0
        c[0] = c[0] + 1
        mo.store(lock, 0, 0)


TABLE.right(test_and_test, lambda: (zeros(1), zeros(1)), grid=4)


@mo.kernel
def counters(c, d, lock, fault: mo.Constexpr):
    # c without locks, d with one
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        mo.atomic_add(c, 0, 1)
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + b
        mo.atomic_add(c, 0, 1)
        mo.store(lock, 0, 0)
        mo.atomic_add(c, 0, 1)


TABLE.right(counters, lambda: (zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def reads_alone(out, x, d, lock, fault: mo.Constexpr):
    # x is written by nobody, and out by one block each
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + x[b]
        mo.store(lock, 0, 0)
    out[32 * b + tid] = x[tid]


TABLE.right(reads_alone, lambda: (zeros(128, dtype=F32), count(32), zeros(1, dtype=F32), zeros(1)), grid=4)


@mo.kernel
def tries(c, missed, lock, fault: mo.Constexpr):
    # who does not get the lock at once goes without
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if mo.atomic_cas(lock, 0, 0, 1, order="acquire") == 0:
            c[0] = c[0] + 1
            mo.store(lock, 0, 0)
        else:
            mo.atomic_add(missed, 0, b)


TABLE.right(tries, lambda: (zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def both_locks(c, lock, fault: mo.Constexpr):
    # a datum under both locks is guarded by either
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b != 1:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
                pass
        if b != 2 or fault:
            while mo.atomic_cas(lock, 1, 0, 1, order="acquire") != 0:
                pass
        if b == 0 or b == (1 if fault else 2):
            c[0] = c[0] + 1
        if b == 0 or b == (2 if fault else 1):
            c[1] = c[1] + 1
        if b != 2 or fault:
            mo.store(lock, 1, 0)
        if b != 1:
            mo.store(lock, 0, 0)


TABLE.right(both_locks, lambda: (zeros(2), zeros(2)), grid=3)


@mo.kernel
def after_all(c, out, arrived, lock, fault: mo.Constexpr):
    # a barrier of the grid, and then everybody reads what was guarded before it
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        c[0] = c[0] + 1
        mo.store(lock, 0, 0)
        if fault:
            mo.atomic_add(arrived, 0, 1)
        else:
            mo.atomic_add(arrived, 0, 1, order="release")
        while mo.load(arrived, 0) != mo.grid_dim().x:
            pass
    mo.sync_threads()
    out[64 * b + tid] = c[0]


TABLE.case(after_all, GLOBAL, lambda: (zeros(1), zeros(192), zeros(1), zeros(1)), grid=3, block=64, schedules=1)


@mo.kernel
def lock_behind_a_barrier(c, d, arrived, lock, fault: mo.Constexpr):
    # the grid meets, and then d is guarded and c is not
    if mo.thread_idx().x == 0:
        mo.atomic_add(arrived, 0, 1, order="release")
        while mo.load(arrived, 0) != mo.grid_dim().x:
            pass
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + 1
        if not fault or mo.block_idx().x == 0:
            c[0] = c[0] + 1
        mo.store(lock, 0, 0)
        while mo.atomic_cas(lock, 1, 0, 1, order="acquire") != 0:
            pass
        d[1] = d[1] + 1
        if fault and mo.block_idx().x == 1:
            c[0] = c[0] + 1
        mo.store(lock, 1, 0)


TABLE.case(lock_behind_a_barrier, GLOBAL, lambda: (zeros(1), zeros(2), zeros(1), zeros(2)), grid=2, schedules=1)


@mo.kernel
def lanes_in_turn(c, lock, fault: mo.Constexpr):
    # the lanes of a warp take the lock one after the other
    tid = mo.thread_idx().x
    done = False
    while not done:
        if mo.atomic_exch(lock, 0, 1, order="acquire") == 0:
            c[0] = c[0] + tid
            mo.atomic_exch(lock, 0, 0, order="release")
            done = True


TABLE.right(lanes_in_turn, lambda: (zeros(1), zeros(1)), grid=2)


@mo.kernel
def next_round(c, d, out, lock, fault: mo.Constexpr):
    # locks for the warps, barriers for the rounds
    tid, b = mo.thread_idx().x, mo.block_idx().x
    for i in range(3):
        if tid % 32 == 0:
            while mo.atomic_cas(lock, b, 0, 1, order="acquire") != 0:
                pass
            c[b] = c[b] + i
            mo.store(lock, b, 0)
        mo.sync_threads()
        if tid == 32 * i:
            d[b] = d[b] + c[b]
        mo.sync_threads()
    out[96 * b + tid] = d[b]


TABLE.right(next_round, lambda: (zeros(2), zeros(2), zeros(192), zeros(2)), grid=2, block=96)


@mo.kernel
def by_turns_after_the_lock(c, turn, lock, d, fault: mo.Constexpr):
    # the locks are for d; who may write c is told by a flag that is set under the lock
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        while mo.load(turn, 0) != b:
            pass
        c[0] = c[0] + b
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        d[0] = d[0] + 1
        mo.store(turn, 0, b + 1)
        mo.store(lock, 0, 0)


TABLE.right(by_turns_after_the_lock, lambda: (zeros(1), zeros(1), zeros(1), zeros(1)), grid=4)


@mo.kernel
def set_up_by_one(c, ready, lock, fault: mo.Constexpr):
    # locks that hold junk at first are opened by block 0, which says so
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            mo.store(lock, 0, 0)
            mo.store(lock, 1, 0)
            mo.store(ready, 0, 1)
        else:
            while mo.load(ready, 0) == 0:
                pass
        for i in range(2):
            while mo.atomic_cas(lock, i, 0, 1, order="acquire") != 0:
                pass
            c[i] = c[i] + 1
            mo.store(lock, i, 0)


TABLE.right(set_up_by_one, lambda: (zeros(2), zeros(1), words(5, 0)), grid=4)


@mo.kernel
def array_guarded(c, lock, x, fault: mo.Constexpr):
    # a tile of c under one lock, copied by all threads of the block
    tid, b = mo.thread_idx().x, mo.block_idx().x
    tile = mo.tile(c, (64,), (b % 2,))
    k = 0 if fault and b == 3 else b % 2
    for other in mo.static_range(2):
        if tid == 0:
            while mo.atomic_cas(lock, other, 0, 1, order="acquire") != 0:
                pass
        mo.sync_threads()
        if other == k:
            tile[tid] = tile[tid] + x[b]
        mo.sync_threads()
        if tid == 0:
            mo.store(lock, other, 0)
        mo.sync_threads()


TABLE.case(array_guarded, GLOBAL, lambda: (zeros(128), zeros(2), words(1, 2, 3, 4)), grid=4, block=64, schedules=1)
