"""More structures: dispatch of lanes, chains of waits, hand-overs, copies that several threads share."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
ONE = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
WIDE = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.make_layout((16, 4)))
TILE = mo.make_layout((16, 32), (32, 1))


def load(*shape):
    """A TMA load of tiles of (16, 32)."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE)


def store(array):
    """A TMA store of such tiles."""
    return mo.make_tma_copy(mo.TmaStore(), array, TILE)


@table.right(lambda: (zeros(3), ramp(96), 96), block=32)
@mo.kernel
def lanes_dispatched(out, x, n):
    """Halves of a warp fill halves of a tile, in an unrolled loop within one over tiles."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for t in range(3):
        for half in mo.static_range(2):
            if tid >= half * 16 and tid < half * 16 + 16 and t * 32 + tid < n:
                s[tid] = x[t * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[t] = total
        mo.sync_warp()


@table.right(lambda: (zeros(64), ramp(64, 4), 3), block=64)
@mo.kernel
def accumulate_where_inside(out, x, n):
    """Registers are loaded, used and stored under one predicate in a loop."""
    tid = mo.thread_idx().x
    part, acc = mo.fragment((1,), mo.float32), mo.fragment((1,), mo.float32)
    acc.fill(0)
    for k in range(4):
        inside = k < n and tid < 50
        mo.copyto(part, mo.tile(x, (1, 1), (tid, k))[:, 0], pred=inside)
        if inside:
            acc[0] = acc[0] + part[0]
    out[tid] = acc[0]


@table.right(lambda: (zeros(64), ramp(64, 2)), block=64)
@mo.kernel
def swapped_buffers(out, x):
    """Two buffers change places after each pass, as carried views."""
    tid = mo.thread_idx().x
    both = mo.shared_array(mo.float32, (64, 2))
    a, b = both[:, 0], both[:, 1]
    a[tid] = x[tid, 0]
    mo.sync_threads()
    for _ in range(6):
        b[tid] = a[63 - tid] + x[tid, 1]
        mo.sync_threads()
        a, b = b, a
    out[tid] = a[tid]


@table.faulty("C1 C2", lambda: (zeros(64), ramp(64, 2)), block=64)
@mo.kernel
def swapped_buffers_bare(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    both = mo.shared_array(mo.float32, (64, 2))
    a, b = both[:, 0], both[:, 1]
    a[tid] = x[tid, 0]
    mo.sync_threads()
    for k in range(6):
        b[tid] = a[63 - tid] + x[tid, 1]
        if not bad:
            mo.sync_threads()
        elif k % 2 == 0:
            mo.sync_threads()
        a, b = b, a
    mo.sync_threads()
    out[tid] = a[tid]


@table.faulty("D2 D5", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def two_operands_one_group(out, x, bad: mo.Constexpr):
    """Two copies a stage; one of them is in a group of its own, so that the count is wrong."""
    tid = mo.thread_idx().x
    a, b = mo.shared_array(mo.float32, (64, 2)), mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    mo.copyto(ONE, mo.tile(a, (1, 1), (tid, 0)), mo.tile(x, (1, 1), (tid, 0)))
    mo.copyto(ONE, mo.tile(b, (1, 1), (tid, 0)), mo.tile(x, (1, 1), (63 - tid, 0)))
    mo.cp_async_commit()
    for k in range(6):
        if k + 1 < 6:
            mo.copyto(ONE, mo.tile(a, (1, 1), (tid, (k + 1) % 2)), mo.tile(x, (1, 1), (tid, k + 1)))
            mo.copyto(ONE, mo.tile(b, (1, 1), (tid, (k + 1) % 2)), mo.tile(x, (1, 1), (63 - tid, k + 1)))
        if k + 1 < 6 or not bad:
            mo.cp_async_commit()
        mo.cp_async_wait(1)
        mo.sync_threads()
        total += a[63 - tid, k % 2] * b[tid, k % 2]
        mo.sync_threads()
    out[tid] = total


@table.faulty("D1 D3 D2", lambda: (zeros(16, 8), ramp(16, 8)), block=64)
@mo.kernel
def tiled_async_copy(out: mo.Static, x: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (16, 8))
    thr = WIDE.get_slice(tid)
    mo.copyto(WIDE, thr.partition_D(s), thr.partition_S(x))
    mo.cp_async_commit()
    if bad:
        mo.cp_async_wait(1)
    else:
        mo.cp_async_wait(0)
    mo.sync_threads()
    out[tid % 16, tid // 16] = s[15 - tid % 16, 7 - tid // 16]


@table.faulty("D13 D4 F1", lambda: (zeros(32), load(16, 128)), block=32)
@mo.kernel
def single_warp_ring(out, tma, bad: mo.Constexpr):
    """One warp loads and reads; sync_warp stands between the reads and the next load, or after it."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    full = mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(full, 1, 1)
        mo.fence_mbarrier_init()
        for i in mo.static_range(2):
            mo.mbarrier_arrive_expect_tx(full, i, tma.bytes)
            mo.copyto(tma, s[:, :, i], mo.tile(tma.tensor, tma.tile, (0, i)), barrier=(full, i))
    mo.sync_warp()
    total = 0.0
    for k in range(4):
        mo.mbarrier_wait(full, k % 2, k // 2)
        total += s[k, tid, k % 2]
        if not bad:
            mo.sync_warp()
        if tid == 0:
            if k + 2 < 4:
                mo.mbarrier_arrive_expect_tx(full, k % 2, tma.bytes)
                mo.copyto(tma, s[:, :, k % 2], mo.tile(tma.tensor, tma.tile, (0, k + 2)), barrier=(full, k % 2))
        if bad:
            mo.sync_warp()
    out[tid] = total


@table.faulty("C1", lambda: (zeros(64), ramp(64), zeros(1, dtype=np.int32)), block=64)
@mo.kernel
def number_handed_over(out, x, counter, bad: mo.Constexpr):
    """The tile number of a queue is read without a barrier after the leader wrote it."""
    tid = mo.thread_idx().x
    number = mo.shared_array(mo.int32, 1)
    tile = 0
    while tile < 3:
        if tid == 0:
            number[0] = mo.atomic_add(counter, 0, 1)
        if not bad:
            mo.sync_threads()
        tile = number[0]
        mo.sync_threads()
        out[tid] = x[tid] * tile


@table.faulty("C2", lambda: (zeros(64), ramp(64), zeros(1, dtype=np.int32)), block=64)
@mo.kernel
def number_overwritten(out, x, counter, bad: mo.Constexpr):
    """The next number is written while others still read the last one."""
    tid = mo.thread_idx().x
    number = mo.shared_array(mo.int32, 1)
    tile = 0
    while tile < 3:
        if tid == 0:
            number[0] = mo.atomic_add(counter, 0, 1)
        mo.sync_threads()
        tile = number[0]
        if not bad:
            mo.sync_threads()
        out[tid] = x[tid] * tile


@table.faulty("D9 F4 F5", lambda: (zeros(64), ramp(64)), block=96)
@mo.kernel
def count_of_all_threads(out, x, bad: mo.Constexpr):
    """The mbarrier counts the threads of the block, but a warp has returned."""
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 96 if bad else 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid >= 64:
        return
    s[tid] = x[tid]
    mo.mbarrier_arrive(bar, 0)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid] = s[63 - tid]


@table.right(lambda: (zeros(64), ramp(64), 64), block=64)
@mo.kernel
def uniform_early_return(out, x, n):
    """All threads return at once where there is nothing to do."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if bx * 64 >= n:
        return
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    mo.sync_threads()
    out[tid] = s[63 - tid]


@table.right(lambda: (zeros(64), load(16, 192)), block=96)
@mo.kernel
def two_consumer_groups_in_turn(out, tma):
    """Two consumer warps take every second tile of one ring."""
    tid, warp, lane = mo.thread_idx().x, mo.warp_idx(), mo.lane_idx()
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 4)))
    pipe = mo.PipelineTma(4, tma.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if warp == 2:
        if mo.elect():
            state = pipe.producer_start()
            for k in range(6):
                pipe.producer_acquire(state)
                mo.copyto(tma, s[:, :, state.stage], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=pipe.barrier(state))
                state = state.next()
    else:
        state, total = pipe.consumer_start(), 0.0
        if warp == 1:
            state = state.next()
        for k in range(3):
            pipe.consumer_wait(state)
            total += s[k, lane, state.stage]
            mo.sync_warp()
            if lane == 0:
                pipe.consumer_release(state)
            state = state.advance(2)
        out[tid] = total


@table.right(lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def scan_by_shuffles(out, x):
    """An inclusive scan: lower lanes read themselves and throw it away."""
    tid = mo.thread_idx().x
    value = x[tid]
    for p in mo.static_range(5):
        other = mo.shuffle_up(value, 2**p)
        value += mo.where(tid >= 2**p, other, 0.0)
    out[tid] = value


@table.right(lambda: (zeros(40), ramp(40), 40), block=32)
@mo.kernel
def shuffles_with_a_tail(out, x, n):
    """A loop over a ragged row: lanes past its end stay in the loop with a neutral value."""
    tid = mo.thread_idx().x
    carry = 0.0
    for t in range(mo.ceil_div(n, 32)):
        i = t * 32 + tid
        value = 0.0
        if i < n:
            value = x[i]
        for p in mo.static_range(5):
            other = mo.shuffle_up(value, 2**p)
            if tid >= 2**p:
                value += other
        if i < n:
            out[i] = value + carry
        carry += mo.shuffle_idx(value, 31)


@table.right(lambda: (zeros(64), ramp(64), ramp(64)), block=64)
@mo.kernel
def global_scratch_of_a_thread(out, x, work):
    """Global memory is overwritten and read back by the same thread."""
    tid = mo.thread_idx().x
    work[tid] = x[tid] + 1.0
    out[tid] = work[tid] * 2.0
    work[tid] = out[tid]


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def async_source_changed_after(out, x):
    """The source of a cp.async is overwritten after all threads have waited."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    mo.copyto(ONE, mo.tile(s, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    mo.cp_async_wait()
    mo.sync_threads()
    x[63 - tid] = 0.0
    out[tid] = s[63 - tid]
