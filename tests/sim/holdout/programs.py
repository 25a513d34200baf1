"""Faults in larger structures: pools, several roles, copies of several kinds in one kernel, blocks that signal."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
ONE = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
TILE = mo.make_layout((16, 32), (32, 1))


def load(*shape):
    """A TMA load of tiles of (16, 32)."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE)


def store(array, kind=None):
    """A TMA store of such tiles."""
    return mo.make_tma_copy(kind or mo.TmaStore(), array, TILE)


@mo.jit
def ready(bars, count, arrivals):
    """Thread 0 initialises; then all may use the barriers."""
    if mo.thread_idx().x == 0:
        for i in mo.static_range(count):
            mo.mbarrier_init(bars, i, arrivals)
        mo.fence_mbarrier_init()
    mo.sync_threads()


@table.faulty("C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def pool_race_beside_barrier(out, x, bad: mo.Constexpr):
    """Data beside an mbarrier in one tensor: read without waiting for it."""
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.uint64, 33, align=16)
    bar = mo.domain_offset(32, pool)
    ready(bar, 1, 64)
    s = mo.recast(pool, mo.float32).with_layout(mo.make_layout(64))
    s[tid] = x[tid]
    mo.mbarrier_arrive(bar, 0)
    if not bad:
        mo.mbarrier_wait(bar, 0, 0)
    out[tid] = s[63 - tid]


@table.faulty("B6", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def pool_not_filled(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.uint64, 40, align=16)
    ready(pool, 2, 64)
    s = mo.recast(mo.domain_offset(2, pool), mo.float32).with_layout(mo.make_layout(72))
    s[tid] = x[tid]
    mo.mbarrier_arrive(pool, 1)
    mo.mbarrier_wait(pool, 1, 0)
    out[tid] = s[(tid + (8 if bad else 0)) if bad else 63 - tid]


@table.faulty("D6", lambda: (zeros(32), ramp(256)), block=32)
@mo.kernel
def pool_bulk(out, x: mo.Static, bad: mo.Constexpr):
    """A bulk copy into a pool that also has its mbarrier."""
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.uint64, 34, align=16)
    bar = mo.domain_offset(32, pool)
    s = mo.recast(pool, mo.float32).with_layout(mo.make_layout(64))
    if tid == 0:
        mo.mbarrier_init(bar, 1, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bar, 1, 256)
        mo.copyto(mo.BulkCopy(), s, mo.tile(x, (64,), (2,)), barrier=(bar, 1))
    mo.sync_warp()
    if not bad:
        mo.mbarrier_wait(bar, 1, 0)
    out[tid] = s[tid] + s[tid + 32]


@table.faulty("C2", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def mbarrier_as_barrier_once(out, x, bad: mo.Constexpr):
    """A split barrier once a pass, where two are needed."""
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    ready(bar, 1, 64)
    total, phase = 0.0, 0
    for k in range(6):
        s[tid] = x[tid, k]
        mo.mbarrier_arrive(bar, 0)
        mo.mbarrier_wait(bar, 0, phase)
        phase = phase ^ 1
        total += s[63 - tid]
        if not bad:
            mo.mbarrier_arrive(bar, 0)
            mo.mbarrier_wait(bar, 0, phase)
            phase = phase ^ 1
    out[tid] = total


@table.faulty("D8", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def phase_toggled_each_pass(out, x, bad: mo.Constexpr):
    """A ring of two stages whose phase changes each pass rather than each round."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(full, i, 32)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        for k in range(6):
            mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            s[tid, k % 2] = x[tid, k]
            mo.mbarrier_arrive(full, k % 2)
    else:
        total = 0.0
        for k in range(6):
            mo.mbarrier_wait(full, k % 2, k % 2 if bad else k // 2 % 2)
            total += s[63 - tid, k % 2]
            mo.mbarrier_arrive(empty, k % 2)
        out[tid] = total


@table.faulty("D3", lambda: (zeros(32), ramp(32, 4)), block=64)
@mo.kernel
def async_producer_arrives_early(out, x, bad: mo.Constexpr):
    """A producer warp of cp.async arrives at "full" before its copies are there."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 4))
    full = mo.mbarrier_array(4)
    ready(full, 4, 32)
    if tid < 32:
        for k in range(4):
            mo.copyto(ONE, mo.tile(s, (1, 1), (tid, k)), mo.tile(x, (1, 1), (tid, k)))
            if not bad:
                mo.cp_async_wait()
            mo.mbarrier_arrive(full, k)
        mo.cp_async_wait()
    else:
        total = 0.0
        for k in range(4):
            mo.mbarrier_wait(full, k, 0)
            total += s[63 - tid, k]
        out[tid - 32] = total


@table.faulty("D13", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def union_of_scratch_and_tile(out, tma, bad: mo.Constexpr):
    """One tensor is scratch of a reduction first and a TMA tile later."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    flat = s.with_layout(mo.make_layout(512))
    ready(full, 1, 1)
    flat[tid] = tid * 1.0
    mo.sync_threads()
    before = flat[63 - tid]
    if not bad:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = before + s[tid % 16, tid // 16]


@table.faulty("D15", lambda: (store(zeros(16, 32, order="C"), mo.TmaReduceAdd()), ramp(16, 64)), block=32)
@mo.kernel
def reduce_source_reused(tma, x, bad: mo.Constexpr):
    """Two partial tiles are added by TMA from one buffer."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for k in mo.static_range(2):
        for i in range(16):
            s[i, tid] = x[i, 32 * k + tid]
        mo.fence_proxy_async()
        mo.sync_warp()
        if tid == 0:
            mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, 0)), s)
            mo.tma_store_arrive()
            if k == 1 or not bad:
                mo.tma_store_wait(0)
        mo.sync_warp()


@table.faulty("D15", lambda: (store(zeros(16, 64, order="C")), load(16, 64)), block=32)
@mo.kernel
def loaded_over_a_store(out, tma, bad: mo.Constexpr):
    """In and out through one tile by TMA: the next load overwrites what the store still reads."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 0:
        for k in range(2):
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0))
            mo.mbarrier_wait(full, 0, k)
            mo.copyto(out, mo.tile(out.tensor, out.tile, (0, k)), s)
            mo.tma_store_arrive()
            if not bad:
                mo.tma_store_wait(0)
        mo.tma_store_wait(0)


@table.faulty("G3 C1", lambda: (zeros(64), zeros(64), zeros(1, dtype=np.int32)), block=32, grid=2)
@mo.kernel
def flag_by_plain_store(out, data, flag, bad: mo.Constexpr):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if bx == 0:
        data[tid] = 3.0 * tid
        mo.sync_threads()
        if tid == 0:
            if bad:
                mo.store(flag, 0, 1, order="relaxed")
            else:
                mo.store(flag, 0, 1)
    else:
        if tid == 0:
            while mo.load(flag, 0) == 0:
                pass
        mo.sync_threads()
        out[tid] = data[31 - tid]


@table.faulty("G3", lambda: (zeros(4, 32), zeros(4, 32), zeros(1, dtype=np.int32)), block=32, grid=4)
@mo.kernel
def grid_barrier_one_less(out, data, count, bad: mo.Constexpr):
    """A grid barrier that opens when three of four blocks have come."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    data[bx, tid] = 1.0 * tid
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(count, 0, 1, order="acq_rel")
        while mo.load(count, 0) < (3 if bad else 4):
            pass
    mo.sync_threads()
    out[bx, tid] = data[(bx + 1) % 4, 31 - tid]


@table.faulty("G3 G1 G2", lambda: (zeros(1), zeros(1, dtype=np.int32)), block=32, grid=3)
@mo.kernel
def lock_without_release(total, lock, bad: mo.Constexpr):
    """A spin lock around a plain addition; unlocked by a relaxed exchange."""
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        total[0] = total[0] + 1.0
        mo.atomic_exch(lock, 0, 0, order="relaxed" if bad else "release")


@table.faulty("G2", lambda: (zeros(32), ramp(32, 4)), block=32, grid=4)
@mo.kernel
def split_k_plain_add(out, x, bad: mo.Constexpr):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if bad:
        out[tid] = out[tid] + x[tid, bx]
    else:
        mo.atomic_add(out, tid, x[tid, bx])


@table.faulty("G1", lambda: (zeros(100), ramp(100)), block=32, grid=4)
@mo.kernel
def overlapping_ranges(out, x, bad: mo.Constexpr):
    """Blocks step by 30 and are 32 wide."""
    i = mo.block_idx().x * (24 if bad else 25) + mo.thread_idx().x
    if mo.thread_idx().x < 25:
        out[i] = x[i] * (mo.block_idx().x + 1)


@table.faulty("G5", lambda: (ramp(128),), block=32, grid=4)
@mo.kernel
def shifted_in_place(x, bad: mo.Constexpr):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if bad:
        x[i] = x[(i + 1) % 128] + 1.0
    else:
        x[i] = x[i] + 1.0


@table.faulty("G4 F4", lambda: (zeros(2), zeros(1, dtype=np.int32)), block=32, grid=2)
@mo.kernel
def waits_for_nobody(out, flag, bad: mo.Constexpr):
    """Block 0 waits for a value that block 1 never writes."""
    if mo.thread_idx().x == 0:
        if mo.block_idx().x == 1:
            mo.store(flag, 0, 1)
        else:
            while mo.load(flag, 0) != (2 if bad else 1):
                pass
        out[mo.block_idx().x] = 1.0


@table.faulty("D4", lambda: (zeros(64), ramp(64, 8)), block=64)
@mo.kernel
def prefetch_into_own_stage(out, x, bad: mo.Constexpr):
    """Four stages with pointers that go round: the stage written is the one that is read in this pass."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 4))
    for k in mo.static_range(3):
        mo.copyto(ONE, mo.tile(s, (1, 1), (tid, k)), mo.tile(x, (1, 1), (tid, k)))
        mo.cp_async_commit()
    total = 0.0
    for k in range(8):
        mo.cp_async_wait(2)
        mo.sync_threads()
        if k + 3 < 8:
            write = k % 4 if bad else (k + 3) % 4
            mo.copyto(ONE, mo.tile(s, (1, 1), (tid, write)), mo.tile(x, (1, 1), (tid, k + 3)))
        mo.cp_async_commit()
        total += s[63 - tid, k % 4]
    out[tid] = total


@table.faulty("C4", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def while_by_data(out, x, bad: mo.Constexpr):
    """A loop around a barrier goes on while one's own value is large."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    value = x[tid]
    limit = value if bad else x[63]
    while limit > 1.0:
        s[tid] = value
        mo.sync_threads()
        value = s[63 - tid] * 0.5
        mo.sync_threads()
        limit = limit * 0.25
    out[tid] = value


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def tail_tile_off_for_the_block(out, x, n, bad: mo.Constexpr):
    """Tiles of 16, two at a time: the last half is off for the whole block."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for pair in range(3):
        for half in mo.static_range(2):
            tile = pair * 2 + half
            if tile * 16 < n:
                if tid < 16:
                    s[half * 16 + tid] = x[tile * 16 + tid]
            elif not bad:
                if tid < 16:
                    s[half * 16 + tid] = 0.0
        mo.sync_threads()
        total = mo.warp_reduce(s[tid], "add")
        if tid == 0:
            out[pair] = total
        mo.sync_threads()


@table.faulty("D9", lambda: (zeros(32), ramp(32, 4)), block=96)
@mo.kernel
def released_by_one_of_two(out, x, bad: mo.Constexpr):
    """Two consumer warps, and "empty" counts two arrivals; only one leader arrives."""
    tid, warp, lane = mo.thread_idx().x, mo.warp_idx(), mo.lane_idx()
    s, full, empty = mo.shared_array(mo.float32, 32), mo.mbarrier_array(1), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 32)
        mo.mbarrier_init(empty, 0, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if warp == 2:
        for k in range(4):
            mo.mbarrier_wait(empty, 0, (k + 1) % 2)
            s[lane] = x[lane, k]
            mo.mbarrier_arrive(full, 0)
    else:
        total = 0.0
        for k in range(4):
            mo.mbarrier_wait(full, 0, k % 2)
            total += s[31 - lane]
            mo.sync_warp()
            if lane == 0:
                if warp == 0 or not bad:
                    mo.mbarrier_arrive(empty, 0)
        if warp == 0:
            out[lane] = total


@table.faulty("F1 C2", lambda: (zeros(32), ramp(32, 6)), block=64)
@mo.kernel
def leader_releases_for_all(out, x, bad: mo.Constexpr):
    """Lane 0 releases the stage before the other lanes are known to have read it."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(full, i, 32)
            mo.mbarrier_init(empty, i, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        for k in range(6):
            mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            s[tid, k % 2] = x[tid, k]
            mo.mbarrier_arrive(full, k % 2)
    else:
        total = 0.0
        for k in range(6):
            mo.mbarrier_wait(full, k % 2, k // 2 % 2)
            total += s[63 - tid, k % 2]
            if not bad:
                mo.sync_warp()
            if tid == 32:
                mo.mbarrier_arrive(empty, k % 2)
        out[tid - 32] = total


@table.faulty("C1", lambda: (zeros(32), zeros(32), ramp(32)), block=64)
@mo.kernel
def through_global_memory(out, work, x, bad: mo.Constexpr):
    """Warp 0 leaves its results in global memory for warp 1."""
    tid = mo.thread_idx().x
    if tid < 32:
        work[tid] = x[tid] * 2.0
    if not bad:
        mo.sync_threads()
    if tid >= 32:
        out[tid - 32] = work[63 - tid]
