"""Several features at once in each kernel: loops that break, lanes that leave, locks, clusters, copies in flight."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros
from sim.holdout.tensor_copies import store

table = Table()
VECTOR = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32)
ASYNC = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)


def fetch(to, from_, i):
    """Element i of a vector, asynchronously."""
    mo.copyto(ASYNC, mo.tile(to, (1,), (i,)), mo.tile(from_, (1,), (i,)))


def ints(*shape, value=0, dtype=np.int32):
    return np.full(shape, value, dtype)


# --- cp.async with conditions ----------------------------------------------------------------------------------------


@table.faulty("D2 D5 D1", lambda: (zeros(64, 6), ramp(64, 6), ints(6, value=1)), block=64)
@mo.kernel
def commits_where_a_mask_says_so(out, x, wanted, bad: mo.Constexpr):
    """A column that nobody wants is not copied; its group must be committed all the same, or counts are off."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, (64, 2))
    s[tid, 0] = 0.0
    s[tid, 1] = 0.0
    fetch(s[:, 0], x[:, 0], tid)
    mo.cp_async_commit()
    for k in range(6):
        if k + 1 < 6 and wanted[k + 1] != 0:
            fetch(s[:, (k + 1) % 2], x[:, k + 1], tid)
            if bad:
                mo.cp_async_commit()
        if not bad:
            mo.cp_async_commit()
        mo.cp_async_wait(1)
        mo.sync_threads()
        out[tid, k] = s[63 - tid, k % 2]
        mo.sync_threads()


@table.faulty("D1 D3 D2", lambda: (zeros(64), ramp(64), 40), block=64)
@mo.kernel
def waits_only_who_copied_much(out, x, n, bad: mo.Constexpr):
    """Threads below n copy, and wait under the condition of another set of threads."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = 0.0
    if tid < n:
        fetch(s, x, tid)
    mo.cp_async_commit()
    if tid < (32 if bad else 64):
        mo.cp_async_wait(0)
    mo.sync_threads()
    out[tid] = s[63 - tid]


@table.faulty("B9 D4", lambda: (zeros(64), ramp(64), ramp(64)), block=64)
@mo.kernel
def scratch_over_a_copy_left_by_break(out, x, y, bad: mo.Constexpr):
    """The loop breaks with one copy in flight, and what follows takes its memory for sums."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, (64, 2))
    total = mo.float32(0)
    fetch(s[:, 0], x, tid)
    mo.cp_async_commit()
    for k in range(4):
        fetch(s[:, (k + 1) % 2], y, tid)
        mo.cp_async_commit()
        mo.cp_async_wait(1)
        total += s[tid, k % 2]
        if k == 1:
            break
    if not bad:
        mo.cp_async_wait(0)
    s[tid, 0] = total
    s[tid, 1] = total
    mo.sync_threads()
    out[tid] = s[63 - tid, 0]


@table.faulty("D4 C2", lambda: (zeros(64, 4), ramp(64, 4)), block=64)
@mo.kernel
def continue_leaves_out_the_barrier(out, x, bad: mo.Constexpr):
    """Odd tiles are passed over by ``continue``, before or behind the barrier that frees the stage."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    for k in range(4):
        fetch(s, x[:, k], tid)
        mo.cp_async_wait()
        mo.sync_threads()
        out[tid, k] = s[63 - tid]
        if bad and k % 2 == 1:
            continue
        mo.sync_threads()


# --- shared memory, vectors, integers --------------------------------------------------------------------------------


@table.faulty("B3", lambda: (zeros(256), ramp(256), 4), block=32)
@mo.kernel
def vectors_misaligned_for_some(out, x, step, bad: mo.Constexpr):
    """A vector begins where a number in memory says: at a multiple of four for every thread but some."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 256)
    for i in mo.static_range(8):
        s[tid + 32 * i] = x[tid + 32 * i]
    mo.sync_threads()
    start = tid * step + mo.where(tid > 28, 1, 0) if bad else tid * step
    mo.assume(start % 4 == 0, "vectors begin at multiples of four")
    r = mo.make_fragment_like(mo.make_layout(4), mo.float32)
    mo.copyto(VECTOR, r, mo.domain_offset(start, s)[0:4])
    out[tid] = r[0] + r[3]


@table.faulty("A11", lambda: (zeros(4), 70000, 70000), block=32)
@mo.kernel
def rows_times_pitch(out, rows, pitch, bad: mo.Constexpr):
    """The last element of a large matrix, whose number 32 bits do not hold."""
    if mo.thread_idx().x == 0:
        last = (rows - 1) * pitch if bad else mo.int64(rows - 1) * pitch
        out[last % 4] = 1.0


@table.faulty("A11", lambda: (ints(4), 1 << 20), grid=4, block=32)
@mo.kernel
def linear_id_of_a_large_volume(out, plane, bad: mo.Constexpr):
    """Index arithmetic of a volume: z * plane + y, in a loop with another step."""
    b, far = mo.block_idx().x, mo.int32(0)
    if mo.thread_idx().x == 0:
        for z in range(0, 4096, 1024):
            if bad:
                far = mo.max(far, z * plane + b)
            else:
                far = mo.max(far, z // 1024 * 7 + b)
        out[b] = far % 1000


@table.faulty("A11", lambda: (ints(32), ints(32, value=200, dtype=np.uint8)), block=32)
@mo.kernel
def bytes_are_added(out, x, bad: mo.Constexpr):
    """The mean of two bytes: their sum has nine bits."""
    tid = mo.thread_idx().x
    if bad:
        out[tid] = ((x[tid] + x[31 - tid]) >> 1).to(mo.int32)
    else:
        out[tid] = (x[tid].to(mo.int32) + x[31 - tid].to(mo.int32)) >> 1


@table.faulty("A11", lambda: (ints(32), ints(32, value=-100, dtype=np.int8)), block=32)
@mo.kernel
def signed_bytes_are_multiplied(out, x, bad: mo.Constexpr):
    """A dot product of int8, whose products are widened before or after."""
    tid, total = mo.thread_idx().x, mo.int32(0)
    for k in range(4):
        a, b = x[(tid + k) % 32], x[k]
        total += (a * b).to(mo.int32) if bad else a.to(mo.int32) * b.to(mo.int32)
    out[tid] = total


@table.faulty("A11", lambda: (ints(32, dtype=np.int64), 33), block=32)
@mo.kernel
def bit_of_a_wide_mask(out, n, bad: mo.Constexpr):
    """A mask of n bits: 1 << 33 is no 32-bit number."""
    tid = mo.thread_idx().x
    one = mo.int32(1) if bad else mo.int64(1)
    out[tid] = ((one << (n - tid % 2)) - 1).to(mo.int64)


@table.faulty("B1", lambda: (zeros(64), ramp(64), ints(64, value=63)), block=64)
@mo.kernel
def gather_of_a_sentinel(out, x, index, bad: mo.Constexpr):
    """An index of -1 says that there is nothing."""
    tid = mo.thread_idx().x
    i = mo.where(tid % 3 == 0, -1, index[tid])
    if bad:
        value = x[i]
        out[tid] = mo.where(i >= 0, value, 0.0)
    elif i >= 0:
        out[tid] = x[i]


@table.faulty("C1 C2 C3", lambda: (ints(64), ramp(64)), block=64)
@mo.kernel
def compaction_by_an_atomic(out, x, bad: mo.Constexpr):
    """Threads take places in a list by an atomic in shared memory, and read what others put there."""
    tid = mo.thread_idx().x
    s, count = mo.shared_array(mo.int32, 64), mo.shared_array(mo.int32, 1)
    s[tid] = 0
    if tid == 0:
        count[0] = 0
    mo.sync_threads()
    if x[tid] > 20.0:
        s[mo.atomic_add(count, 0, 1, scope="cta")] = tid
    if not bad:
        mo.sync_threads()
    out[tid] = s[tid]


@table.faulty("C2 C3", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def scan_in_place(out, x, bad: mo.Constexpr):
    """Hillis and Steele in one buffer: all must have read before somebody writes."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    mo.sync_threads()
    for i in range(6):
        step = 1 << i
        other = mo.float32(0)
        if tid >= step:
            other = s[tid - step]
        if not bad:
            mo.sync_threads()
        s[tid] = s[tid] + other
        mo.sync_threads()
    out[tid] = s[tid]


# --- barriers, lanes that leave --------------------------------------------------------------------------------------


@table.faulty("C4", lambda: (zeros(96), ramp(96), 3), block=96)
@mo.kernel
def search_that_breaks(out, x, n, bad: mo.Constexpr):
    """Each thread breaks where it finds its number; a barrier is in the loop."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 96)
    found = mo.float32(0)
    s[tid] = x[tid]
    mo.sync_threads()
    for k in range(n):
        if bad:
            if s[(tid + k) % 96] > 90.0:
                found = 1.0
                break
        elif s[(tid + k) % 96] > 90.0:
            found = 1.0
        mo.sync_threads()
    out[tid] = found


@table.faulty("C5 F4 C4", lambda: (zeros(128), ramp(128), 100), block=128)
@mo.kernel
def named_barrier_after_a_return(out, x, n, bad: mo.Constexpr):
    """Threads from n on return, a whole warp among them, and the barrier counts all four warps, or those that stay."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    mo.sync_threads()
    if tid >= n - 4:
        return
    total = s[(tid + 1) % 96]
    mo.barrier_sync(1, 128 if bad else 96)
    s[tid] = total
    mo.barrier_sync(1, 128 if bad else 96)
    out[tid] = s[(tid + 33) % 96]


@table.faulty("C1 C2", lambda: (zeros(128), ramp(128)), block=128)
@mo.kernel
def barrier_of_two_warps_for_four(out, x, bad: mo.Constexpr):
    """Pairs of warps meet at barriers of their own, and then read what the other pair has stored."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    pair = tid // 64
    s[tid] = x[tid]
    mo.barrier_sync(1 + pair, 64)
    if not bad:
        mo.sync_threads()
    out[tid] = s[(tid + 64) % 128]


@table.faulty("C7 C6", lambda: (zeros(32), ramp(32), 20), block=32)
@mo.kernel
def reduction_behind_a_return(out, x, n, bad: mo.Constexpr):
    """Lanes from n on have returned, and a butterfly asks them."""
    tid = mo.thread_idx().x
    total = x[tid] if not bad else mo.float32(0)
    if bad:
        if tid >= n:
            return
        total = x[tid]
    elif tid >= n:
        total = mo.float32(0)
    for i in mo.static_range(5):
        total += mo.shuffle_xor(total, 1 << i)
    if tid == 0:
        out[0] = total


@table.faulty("C7 C6 C3", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def shuffle_in_one_arm(out, x, bad: mo.Constexpr):
    """Even lanes ask their odd neighbours, who are in the other arm."""
    tid, value = mo.thread_idx().x, x[mo.thread_idx().x]
    if bad:
        if tid % 2 == 0:
            value = mo.shuffle_down(value, 1)
    else:
        below = mo.shuffle_down(value, 1)
        if tid % 2 == 0:
            value = below
    out[tid] = value


@table.faulty("C3 C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def vote_is_no_barrier_of_the_block(out, x, bad: mo.Constexpr):
    """A vote orders the lanes of a warp; the neighbour's warp is another one."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if bad:
        if mo.vote_all(x[tid] >= 0.0):
            out[tid] = s[63 - tid]
    else:
        mo.sync_warp()
        out[tid] = s[tid ^ 31]


# --- locks, tickets and flags ----------------------------------------------------------------------------------------


@table.faulty("G3 G5 G1 G2", lambda: (ints(3), ints(1)), grid=4)
@mo.kernel
def lock_let_go_early(total, lock, bad: mo.Constexpr):
    """Two counters under one lock; the second is changed behind the release."""
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        total[0] = total[0] + 1
        if not bad:
            total[1] = total[1] + 1
        mo.atomic_exch(lock, 0, 0, order="release")
        if bad:
            total[1] = total[1] + 1


@table.faulty("C1 C2 C3", lambda: (ints(4), ramp(64)), block=64)
@mo.kernel
def lock_of_a_block(out, x, bad: mo.Constexpr):
    """Warps take a lock in shared memory for a running maximum; one looks at it without."""
    tid = mo.thread_idx().x
    lock, best = mo.shared_array(mo.int32, 1), mo.shared_array(mo.int32, 1)
    if tid == 0:
        lock[0] = 0
        best[0] = 0
    mo.sync_threads()
    if tid % 32 == 0:
        mine = x[tid].to(mo.int32)
        if bad:
            if best[0] < mine:
                while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
                    pass
                best[0] = mo.max(best[0], mine)
                mo.atomic_exch(lock, 0, 0, order="release", scope="cta")
        else:
            while mo.atomic_cas(lock, 0, 0, 1, order="acquire", scope="cta") != 0:
                pass
            best[0] = mo.max(best[0], mine)
            mo.atomic_exch(lock, 0, 0, order="release", scope="cta")
    mo.sync_threads()
    if tid < 4:
        out[tid] = best[0]


@table.faulty("G3 G5", lambda: (zeros(1), ramp(128), zeros(4), ints(1)), grid=4)
@mo.kernel
def last_block_sums_up(out, x, parts, ticket, bad: mo.Constexpr):
    """The thread that draws the ticket is not the one that has stored the part, and no barrier is in between."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    total = x[b * 32 + tid]
    for i in mo.static_range(5):
        total += mo.shuffle_xor(total, 1 << i)
    if tid == 5:
        parts[b] = total
        if not bad:
            mo.fence()
    if not bad:
        mo.sync_warp()
    if tid == 0:
        if mo.atomic_add(ticket, 0, 1, order="acq_rel") == 3:
            sums = mo.float32(0)
            for k in range(4):
                sums += parts[k]
            out[0] = sums


@table.faulty("F4 G4", lambda: (ints(4), ints(4)), grid=4)
@mo.kernel
def chain_with_an_early_return(out, flags, bad: mo.Constexpr):
    """Each block waits for the one before it; one that has nothing to do returns without a word."""
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 2:
            if not bad:
                while mo.load(flags, b - 1, order="acquire") == 0:
                    pass
                mo.store(flags, b, 1, order="release")
            return
        if b > 0:
            while mo.load(flags, b - 1, order="acquire") == 0:
                pass
        out[b] = b
        mo.store(flags, b, 1, order="release")


# --- more mixtures ---------------------------------------------------------------------------------------------------


@table.faulty("C1 D1 D3 D19", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def neighbour_reads_a_copy_in_flight(out, x, bad: mo.Constexpr):
    """The barrier of the cluster comes before the wait for cp.async, and the neighbour reads the tile."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    fetch(s, x[:, rank], tid)
    mo.cp_async_commit()
    if not bad:
        mo.cp_async_wait(0)
    mo.cluster_sync()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[31 - tid]
    mo.cp_async_wait(0)
    mo.cluster_sync()


@table.faulty("D9 D8 F4 F3 F5", lambda: (zeros(32, 2), ramp(32, 2), 30), block=32, grid=2, cluster=2)
@mo.kernel
def remote_arrivals_of_lanes_that_stay(out, x, n, bad: mo.Constexpr):
    """Each block waits for 32 arrivals of the other, whose last lanes return without."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s, bar = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    mo.map_shared_rank(s, rank ^ 1)[tid] = x[tid, rank]
    if not bad or tid < n:
        mo.mbarrier_arrive(bar, 0, cta=rank ^ 1)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid, rank] = s[31 - tid]
    mo.cluster_sync()


@table.faulty("C1 C2 C3", lambda: (ints(64), ramp(64)), block=64)
@mo.kernel
def count_read_beside_atomics(out, x, bad: mo.Constexpr):
    """Who has counted reads the sum, while others still count."""
    tid, count = mo.thread_idx().x, mo.shared_array(mo.int32, 1)
    if tid == 0:
        count[0] = 0
    mo.sync_threads()
    mo.atomic_add(count, 0, 1, scope="cta")
    if not bad:
        mo.sync_threads()
    out[tid] = count[0]


@table.faulty("F4 C5 C4 F7", lambda: (zeros(64), ramp(64), 3), block=64)
@mo.kernel
def one_role_breaks_before_the_barrier(out, x, n, bad: mo.Constexpr):
    """Two warps meet at a named barrier in each turn; one of them breaks a turn earlier."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
    if tid < 32:
        for k in range(n):
            s[tid] = x[tid] + mo.float32(k)
            mo.barrier_sync(1, 64)
            mo.barrier_sync(2, 64)
    else:
        for k in range(n):
            if bad and k == n - 1:
                break
            mo.barrier_sync(1, 64)
            out[tid] = s[63 - tid]
            mo.barrier_sync(2, 64)


@table.faulty("F4 G4", lambda: (zeros(4), ints(1), 3), grid=4)
@mo.kernel
def grid_barrier_after_a_return(out, count, n, bad: mo.Constexpr):
    """A barrier of the grid by hand; blocks from n on have nothing to do and return before it."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if bad and b >= n:
        return
    if tid == 0:
        out[b] = 1.0
        mo.atomic_add(count, 0, 1, order="acq_rel")
        while mo.load(count, 0, order="acquire") < 4:
            pass


@table.faulty("B1 A11", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def unsigned_index_below_zero(out, x, bad: mo.Constexpr):
    """The left neighbour by unsigned arithmetic, which wraps for thread 0."""
    tid = mo.thread_idx().x
    i = tid.to(mo.uint32)
    left = i - mo.uint32(1) if bad else mo.max(i, mo.uint32(1)) - mo.uint32(1)
    out[tid] = x[left.to(mo.int64)]


@table.faulty("A11", lambda: (ints(32), ints(32, value=3, dtype=np.uint8), ints(32, value=5, dtype=np.uint8)), block=32)
@mo.kernel
def difference_of_bytes(out, x, y, bad: mo.Constexpr):
    """Which byte is larger, by the sign of a difference that has none."""
    tid = mo.thread_idx().x
    if bad:
        out[tid] = mo.where(x[tid] - y[tid] > 0, 1, 0)
    else:
        out[tid] = mo.where(x[tid].to(mo.int32) - y[tid].to(mo.int32) > 0, 1, 0)


@table.faulty("A11", lambda: (ints(1), 2147483000, 2147483647), block=32)
@mo.kernel
def loop_up_to_the_last_number(out, start, stop, bad: mo.Constexpr):
    """The variable of the loop steps over the largest number of 32 bits."""
    total = 0
    if bad:
        for i in range(start, stop, 100):
            total += i % 7
    else:
        for i in range(mo.int64(start), mo.int64(stop), 100):
            total += (i % 7).to(mo.int32)
    if mo.thread_idx().x == 0:
        out[0] = total


@table.faulty("B2", lambda: (zeros(64, 4), ramp(64, 4)), block=64)
@mo.kernel
def stage_before_the_first(out, x, bad: mo.Constexpr):
    """The stage of the turn before, which C would find negative in turn 0, and Python does not."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, (64, 3))
    for k in mo.static_range(3):
        s[tid, k] = 0.0
    for k in range(4):
        s[tid, k % 3] = x[tid, k]
        mo.sync_threads()
        out[tid, k] = s[63 - tid, k % 3 - 1 if bad else (k - 1) % 3]
        mo.sync_threads()


@table.faulty("B11 B6", lambda: (zeros(64, 3), ramp(64, 3)), block=64)
@mo.kernel
def kept_from_the_turn_before(out, x, bad: mo.Constexpr):
    """A buffer that is allocated in the loop holds nothing when the turn begins."""
    tid = mo.thread_idx().x
    kept = mo.shared_array(mo.float32, 64)
    for k in range(3):
        s = mo.shared_array(mo.float32, 64)
        if bad:
            if k == 0:
                s[tid] = x[tid, 0]
        else:
            s[tid] = x[tid, 0]
        mo.sync_threads()
        out[tid, k] = s[63 - tid] + x[tid, k]
        kept[tid] = s[tid]
        mo.sync_threads()


@table.faulty("D15 D13", lambda: (store(zeros(16, 64, order="C")), ramp(16, 64)), block=64)
@mo.kernel
def store_source_refilled_by_others(tma, x, bad: mo.Constexpr):
    """The storing thread waits for the read only behind the barrier that lets others fill the tile again."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for k in range(2):
        for i in range(8):
            s[tid // 32 * 8 + i, tid % 32] = x[tid // 32 * 8 + i, k * 32 + tid % 32]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, k)), s)
            mo.tma_store_arrive()
            if not bad:
                mo.tma_store_wait(0, read=True)
        mo.sync_threads()
        if tid == 0 and bad:
            mo.tma_store_wait(0, read=True)
    if tid == 0:
        mo.tma_store_wait(0)


@table.faulty("C3", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def halves_of_a_warp_sync_apart(out, x, bad: mo.Constexpr):
    """Each half of a warp syncs for itself, and reads of the other half."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
    s[tid] = x[tid]
    if tid < 16:
        mo.sync_warp(0x0000FFFF)
        out[tid] = s[tid + 16 if bad else 15 - tid]
    else:
        mo.sync_warp(0xFFFF0000)
        out[tid] = s[tid - 16 if bad else 47 - tid]


@table.faulty("B9 D4 C2 F1", lambda: (zeros(32, 4), ramp(32, 4)), block=64)
@mo.kernel
def producer_one_turn_ahead(out, x, bad: mo.Constexpr):
    """A warp fills two stages by cp.async that arrives at mbarriers; it waits for the stage's readers, or not."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(full, i, 32)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        for k in range(4):
            if not bad:
                mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            elif k > 2:
                mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            fetch(s[:, k % 2], x[:, k], tid)
            mo.cp_async_mbarrier_arrive(full, k % 2)
    else:
        for k in range(4):
            mo.mbarrier_wait(full, k % 2, k // 2 % 2)
            out[tid - 32, k] = s[63 - tid, k % 2]
            mo.mbarrier_arrive(empty, k % 2)
    mo.cp_async_wait()


@table.faulty("C7", lambda: (zeros(32), ramp(32), 24), block=32)
@mo.kernel
def lanes_break_out_of_shuffles(out, x, n, bad: mo.Constexpr):
    """A lane whose work is done breaks, and its neighbours ask it in the next turn."""
    tid, total = mo.thread_idx().x, mo.float32(0)
    for k in range(4):
        if bad:
            if tid + k > n:
                break
            total += mo.shuffle_xor(x[(tid + k) % 32], 1)
        else:
            value = mo.shuffle_xor(x[(tid + k) % 32], 1)
            if tid + k <= n:
                total += value
    out[tid] = total


@table.faulty("G2 G1 G5", lambda: (zeros(64), ramp(64, 4)), grid=4, block=64)
@mo.kernel
def atomics_after_a_plain_first(out, x, bad: mo.Constexpr):
    """Block 0 begins the sum by a store, to which the others add."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if bad and b == 0:
        out[tid] = x[tid, 0]
    else:
        mo.atomic_add(out, tid, x[tid, b])


@table.faulty("C2 C1 C3", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def swapped_stages(out, x, bad: mo.Constexpr):
    """A stencil that swaps two stages of a buffer by their indices, with one barrier a turn, or none in the odd ones.
    """
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, (64, 2))
    s[tid, 0] = x[tid]
    mo.sync_threads()
    now, then = 0, 1
    for k in range(4):
        s[tid, then] = s[(tid + 1) % 64, now] + s[(tid + 63) % 64, now]
        if not bad or k % 2 == 0:
            mo.sync_threads()
        now, then = then, now
    out[tid] = s[tid, now]
