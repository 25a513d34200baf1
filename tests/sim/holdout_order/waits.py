"""Waits that may miss what they wait for, and waits that give up: within a block, and between blocks."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout_order.table import I32, Table, zeros

TABLE = Table()
RACES, HANGS = "C1 C2 C3 G1 G2 G3 G5", "F4 G4"


# ------ one exact value of a flag that goes on


@mo.kernel
def exact_smem(out, fault: mo.Constexpr):
    # warp 0 counts to 4; warp 1 waits for the 2 among them
    tid = mo.thread_idx().x
    flag, data = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 4)
    if tid == 0:
        flag[0] = 0
    mo.sync_threads()
    if tid == 0:
        for i in range(4):
            data[i] = i + 1
            mo.store(flag, 0, i + 1, scope="cta")
    elif tid == 32:
        if fault:
            while mo.load(flag, 0, scope="cta") != 2:
                pass
        else:
            while mo.load(flag, 0, scope="cta") < 2:
                pass
        out[0] = data[1]


TABLE.case(exact_smem, HANGS, lambda: zeros(1), block=64)


@mo.kernel
def exact_block(out, flag, data, fault: mo.Constexpr):
    # the same through global memory, still of one block
    tid = mo.thread_idx().x
    if tid == 0:
        for i in range(4):
            data[i] = i + 1
            mo.store(flag, 0, i + 1)
    elif tid == 32:
        if fault:
            while mo.load(flag, 0) != 3:
                pass
        else:
            while mo.load(flag, 0) < 3:
                pass
        out[0] = data[2]


TABLE.case(exact_block, HANGS, lambda: (zeros(1), zeros(1), zeros(4)), block=64)


@mo.kernel
def exact_grid(out, flag, data, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            for i in range(4):
                data[i] = i + 1
                mo.store(flag, 0, i + 1)
        elif fault:
            while mo.load(flag, 0) != 3:
                pass
            out[0] = data[2]
        else:
            while mo.load(flag, 0) < 3:
                pass
            out[0] = data[2]


TABLE.case(exact_grid, HANGS, lambda: (zeros(1), zeros(1), zeros(4)), grid=2)


@mo.kernel
def pulse(out, fault: mo.Constexpr):
    # the flag is taken down again: right where the reader has answered that, too
    tid = mo.thread_idx().x
    flag, data = mo.shared_array(mo.int32, 2), mo.shared_array(mo.int32, 1)
    if tid < 2:
        flag[tid] = 0
    mo.sync_threads()
    if tid == 0:
        for i in range(3):
            data[0] = i
            mo.store(flag, 0, 1, scope="cta")
            while mo.load(flag, 1, scope="cta") != 2 * i + 1:
                pass
            mo.store(flag, 0, 0, scope="cta")
            if not fault:
                while mo.load(flag, 1, scope="cta") != 2 * i + 2:
                    pass
    elif tid == 64:
        for i in range(3):
            while mo.load(flag, 0, scope="cta") != 1:
                pass
            out[i] = data[0]
            mo.store(flag, 1, 2 * i + 1, scope="cta")
            while mo.load(flag, 0, scope="cta") != 0:
                pass
            mo.store(flag, 1, 2 * i + 2, scope="cta")


TABLE.case(pulse, HANGS + " " + RACES, lambda: zeros(3), block=96)


@mo.kernel
def exact_count(out, x, fault: mo.Constexpr):
    # four warps arrive; warp 4 waits for three of them, or for all
    tid = mo.thread_idx().x
    count, sums = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 4)
    if tid == 0:
        count[0] = 0
    mo.sync_threads()
    if tid < 128:
        if tid % 32 == 0:
            sums[tid // 32] = x[tid // 32]
            mo.atomic_add(count, 0, 1, order="release", scope="cta")
    elif tid == 128:
        while mo.load(count, 0, scope="cta") != (3 if fault else 4):
            pass
        out[0] = sums[0] + sums[1]


TABLE.case(exact_count, HANGS + " " + RACES, lambda: (zeros(1), np.arange(4, dtype=I32)), block=160)


@mo.kernel
def exact_pipeline(out, x, fault: mo.Constexpr):
    # stage by stage: the producer is one ahead at most, unless it does not wait
    tid = mo.thread_idx().x
    full, empty = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    stage = mo.shared_array(mo.int32, 8)
    if tid == 0:
        full[0] = 0
        empty[0] = 0
    mo.sync_threads()
    if tid == 0:
        for i in range(6):
            if not fault:
                while mo.load(empty, 0, scope="cta") != i:
                    pass
            stage[i] = x[i]
            mo.store(full, 0, i + 1, scope="cta")
    elif tid == 32:
        for i in range(6):
            while mo.load(full, 0, scope="cta") != i + 1:
                pass
            out[i] = stage[i]
            mo.store(empty, 0, i + 1, scope="cta")


TABLE.case(exact_pipeline, HANGS, lambda: (zeros(6), np.arange(6, dtype=I32)), block=64)


@mo.kernel
def moved_on_by_another(out, fault: mo.Constexpr):
    # warp 1 waits for 1 or more and moves the flag to 2, which warp 2 may find, too late
    tid = mo.thread_idx().x
    flag, data = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        flag[0] = 0
    mo.sync_threads()
    if tid == 0:
        data[0] = 7
        mo.store(flag, 0, 1, scope="cta")
    elif tid == 32:
        while mo.load(flag, 0, scope="cta") < 1:
            pass
        mo.atomic_add(flag, 0, 1, order="acq_rel", scope="cta")
    elif tid == 64:
        if fault:
            while mo.load(flag, 0, scope="cta") != 1:
                pass
        else:
            while mo.load(flag, 0, scope="cta") == 0:
                pass
        out[0] = data[0]


TABLE.case(moved_on_by_another, HANGS, lambda: zeros(1), block=96)


@mo.kernel
def moved_on_behind(out, fault: mo.Constexpr):
    # the same with the two waits the other way round
    tid = mo.thread_idx().x
    flag, data = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        flag[0] = 0
    mo.sync_threads()
    if tid == 0:
        data[0] = 7
        mo.store(flag, 0, 1, scope="cta")
    elif tid == 32:
        if fault:
            while mo.load(flag, 0, scope="cta") != 1:
                pass
        else:
            while mo.load(flag, 0, scope="cta") == 0:
                pass
        out[0] = data[0]
    elif tid == 64:
        while mo.load(flag, 0, scope="cta") < 1:
            pass
        mo.atomic_add(flag, 0, 1, order="acq_rel", scope="cta")


TABLE.case(moved_on_behind, HANGS, lambda: zeros(1), block=96)


@mo.kernel
def in_turn(out, fault: mo.Constexpr):
    # each warp waits for its number alone, which the one before it sets: right, as nobody else moves the flag on
    tid = mo.thread_idx().x
    turn = mo.shared_array(mo.int32, 1)
    if tid == 0:
        turn[0] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        while mo.load(turn, 0, scope="cta") != tid // 32:
            pass
        out[0] = 2 * out[0] + tid
        if fault and tid == 64:
            mo.store(turn, 0, 1, scope="cta")
        mo.store(turn, 0, tid // 32 + 1, scope="cta")


TABLE.right(in_turn, lambda: zeros(1), block=160)


# ------ waits that give up


@mo.kernel
def timeout(out, flag, data, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            tries = 0
            seen = mo.load(flag, 0)
            while seen == 0 and tries < 1000:
                seen = mo.load(flag, 0)
                tries += 1
            if fault or seen != 0:
                out[0] = data[0]


TABLE.case(timeout, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def timeout_for(out, flag, data, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            seen = False
            for _ in range(1 << 20):
                if mo.load(flag, 0) != 0:
                    seen = True
                    break
            if fault or seen:
                out[0] = data[0]


TABLE.case(timeout_for, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def timeout_returns(out, flag, data, fault: mo.Constexpr):
    # who has not seen it leaves
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
            return
        tries = 0
        while mo.load(flag, 0, order="relaxed") == 0 and tries < 50000:
            tries += 1
        mo.fence()
        if not fault and tries == 50000:
            return
        out[0] = data[0]


TABLE.case(timeout_returns, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def timeout_smem(out, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    flag, data = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 32)
    if tid == 0:
        flag[0] = 0
    mo.sync_threads()
    if tid < 32:
        data[tid] = tid
        mo.sync_warp()
        if tid == 0:
            mo.store(flag, 0, 1, scope="cta")
    else:
        seen = 0
        for _ in range(100):
            seen = mo.load(flag, 0, scope="cta")
            if seen == 1:
                break
        if fault:
            out[tid - 32] = data[tid - 32]
        elif seen == 1:
            out[tid - 32] = data[tid - 32]


TABLE.case(timeout_smem, RACES, lambda: zeros(32), block=64, schedules=1)


@mo.kernel
def timeout_block(out, flag, data, fault: mo.Constexpr):
    # thread 0 polls for its block and tells the others what has come of it
    tid = mo.thread_idx().x
    if mo.block_idx().x == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        ready = mo.shared_array(mo.int32, 1)
        if tid == 0:
            tries = 0
            while tries < 64:
                if mo.load(flag, 0) == 1:
                    break
                tries += 1
            ready[0] = mo.where(tries < 64, 1, 0)
        mo.sync_threads()
        if fault or ready[0] == 1:
            out[tid] = data[tid]


TABLE.case(timeout_block, RACES, lambda: (zeros(64), zeros(1), zeros(64)), grid=2, block=64, schedules=1)


@mo.kernel
def timeout_lock(c, skipped, lock, fault: mo.Constexpr):
    # tries for the lock a few times, and goes on without it
    if mo.thread_idx().x == 0:
        got = False
        for _ in range(1000):
            if mo.atomic_cas(lock, 0, 0, 1, order="acquire") == 0:
                got = True
                break
        if fault or got:
            c[0] = c[0] + 1
            mo.store(lock, 0, 0)
        else:
            mo.atomic_add(skipped, 0, 1)


TABLE.case(timeout_lock, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=3, schedules=1)


@mo.kernel
def look_again(out, flag, data, fault: mo.Constexpr):
    # a few quick looks, and then the wait itself
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            for _ in range(8):
                if mo.load(flag, 0, order="relaxed") == 1:
                    break
            while mo.load(flag, 0) == 0:
                pass
            out[0] = data[0]


TABLE.right(look_again, lambda: (zeros(1), zeros(1), zeros(1)), grid=2)


@mo.kernel
def rounds(out, flag, data, fault: mo.Constexpr):
    # rounds of a few looks each, until one was good
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            seen = False
            while not seen:
                for _ in range(8):
                    if mo.load(flag, 0) == 1:
                        seen = True
                        break
            out[0] = data[0]


TABLE.right(rounds, lambda: (zeros(1), zeros(1), zeros(1)), grid=2)


@mo.kernel
def counted_rounds(out, flag, data, fault: mo.Constexpr):
    # the same with a counter: looks that give up miss the flag for a while, and not for ever
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            seen = mo.load(flag, 0)
            while seen == 0:
                tries = 0
                while seen == 0 and tries < 8:
                    seen = mo.load(flag, 0)
                    tries += 1
            out[0] = data[0]


TABLE.right(counted_rounds, lambda: (zeros(1), zeros(1), zeros(1)), grid=2)


@mo.kernel
def gives_up_and_meets(out, flag, data, fault: mo.Constexpr):
    # the outcome of the looks does not matter: a barrier follows
    tid = mo.thread_idx().x
    if tid == 0:
        data[0] = 5
        mo.store(flag, 0, 1)
    elif tid == 32:
        for _ in range(8):
            if mo.load(flag, 0) == 1:
                break
    mo.sync_threads()
    out[tid] = data[0]


TABLE.right(gives_up_and_meets, lambda: (zeros(64), zeros(1), zeros(1)), block=64)


@mo.kernel
def first_of_many(out, flags, data, fault: mo.Constexpr):
    # goes through the flags once: what is ready is taken
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b < 3:
            data[b] = b + 1
            mo.store(flags, b, 1)
        else:
            found = -1
            for i in range(3):
                if mo.load(flags, i) == 1:
                    found = i
                    break
            if found >= 0:
                out[0] = data[found]


TABLE.right(first_of_many, lambda: (zeros(1), zeros(3), zeros(3)), grid=4)


@mo.kernel
def spins_cheaply(out, flag, data, fault: mo.Constexpr):
    # waits by relaxed looks, and acquires by one look more, which must find what the last one found
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            if not fault:
                while mo.load(flag, 0, order="relaxed") == 0:
                    pass
            mo.load(flag, 0)
            out[0] = data[0]


TABLE.case(spins_cheaply, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def one_waits_for_all(out, flag, data, fault: mo.Constexpr):
    # thread 0 waits; the others look once, after the barrier
    tid = mo.thread_idx().x
    if mo.block_idx().x == 0:
        data[tid] = tid
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1)
    else:
        if tid == 0 and not fault:
            while mo.load(flag, 0, order="relaxed") == 0:
                pass
        mo.sync_threads()
        mo.load(flag, 0)
        out[tid] = data[tid]


TABLE.case(one_waits_for_all, RACES, lambda: (zeros(64), zeros(1), zeros(64)), grid=2, block=64, schedules=1)


@mo.kernel
def some_need_not_wait(out, flag, fault: mo.Constexpr):
    # the first block has nobody to wait for
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        while b > 0 and mo.load(flag, b - 1 if not fault else b) == 0:
            pass
        out[0] = out[0] + b
        mo.store(flag, b, 1)


TABLE.right(some_need_not_wait, lambda: (zeros(1), zeros(4)), grid=4)


@mo.kernel
def by_the_clock(out, flag, data, fault: mo.Constexpr):
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 0:
            data[0] = 5
            mo.store(flag, 0, 1)
        else:
            start, late, seen = mo.clock(), False, 0
            while seen == 0 and not late:
                seen = mo.load(flag, 0)
                late = mo.clock() - start > 1000000
            if fault or seen != 0:
                out[0] = data[0]


TABLE.case(by_the_clock, RACES, lambda: (zeros(1), zeros(1), zeros(1)), grid=2, schedules=1)


@mo.kernel
def announced(out, count, data, fault: mo.Constexpr):
    # counts what has come, and waits for the rest
    tid = mo.thread_idx().x
    if tid == 0:
        data[mo.block_idx().x] = 1
        before = mo.atomic_add(count, 0, 1, order="acq_rel")
        if fault or before != mo.grid_dim().x - 1:
            if not fault:
                while mo.load(count, 0) < mo.grid_dim().x:
                    pass
        out[mo.block_idx().x] = data[0] + data[mo.grid_dim().x - 1]


TABLE.case(announced, RACES, lambda: (zeros(3), zeros(1), zeros(3)), grid=3, schedules=1)


@mo.kernel
def warps_wait_together(out, flag, data, fault: mo.Constexpr):
    # the lanes of a warp meet after each look
    tid = mo.thread_idx().x
    if mo.block_idx().x == 0:
        if tid == 0:
            data[0] = 5
            mo.store(flag, 0, 1, order="relaxed" if fault else "release")
            mo.store(flag, 0, 2)
    else:
        while mo.load(flag, 0) < (1 if fault else 2):
            mo.sync_warp()
        out[tid] = data[0]


TABLE.case(warps_wait_together, RACES, lambda: (zeros(32), zeros(1), zeros(1)), grid=2)
