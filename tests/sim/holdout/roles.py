"""Faults of wgmma and of warp roles, E1 to F7 and G1 to G5, and their twins."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
WGMMA = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
FROM_REGISTERS = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64, a_source="registers"))
HALF = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
ROWS = mo.make_layout((64, 2))
TILE = mo.make_layout((16, 32), (32, 1))


def half(*shape):
    """A K-contiguous matrix of small float16."""
    return (np.arange(int(np.prod(shape))).reshape(shape) % 5 - 2).astype(np.float16)


def load(*shape):
    """A TMA load of tiles of (16, 32)."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE)


@mo.jit
def stored(s, x, tid):
    """A tile of (64, 64) goes to shared memory by 128 threads."""
    mo.copyto(mo.parallelize(s, ROWS, tid), mo.parallelize(x, ROWS, tid))


@table.faulty("E1", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def cleared_without_arrive(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    acc.fill(0)
    if not bad:
        mo.warpgroup_arrive()
    mo.gemm(WGMMA, tA, tB, acc)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E2", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def stored_before_wait(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(WGMMA, tA, tB, acc, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(1 if bad else 0)
    mo.copyto(thr.partition_C(C), acc)
    mo.warpgroup_wait(0)


@table.faulty("E3", lambda: (zeros(64, 64), half(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def operand_overwritten(C: mo.Static, A: mo.Static, B: mo.Static, D: mo.Static, bad: mo.Constexpr):
    """The second A goes into the tile that the first product may still read."""
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(WGMMA, tA, tB, acc, accumulate=False)
    mo.warpgroup_commit_batch()
    if not bad:
        mo.warpgroup_wait(0)
    mo.sync_threads()
    stored(sA, D, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    mo.warpgroup_arrive()
    mo.gemm(WGMMA, tA, tB, acc, accumulate=True)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E4", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def register_operand_changed(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    sB = mo.shared_array(mo.float16, HALF)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = FROM_REGISTERS.get_slice(tid)
    gA = thr.partition_A(A)
    rA = thr.make_fragment_A(gA)
    mo.copyto(rA, gA)
    tB, acc = thr.partition_fragment_B(sB), FROM_REGISTERS.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(FROM_REGISTERS, rA, tB, acc, accumulate=False)
    mo.warpgroup_commit_batch()
    if not bad:
        mo.warpgroup_wait(0)
    rA.fill(0)
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E5 B7", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def adds_to_nothing(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    for k in mo.static_range(mo.size(tA, 2)):
        mo.gemm(WGMMA, tA[:, :, k], tB[:, :, k], acc, accumulate=bad or k > 0)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E6", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=256)
@mo.kernel
def group_off_by_a_warp(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    """Four warps, but not those of one warp group."""
    first = 64 if bad else 128
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    if tid < 128:
        stored(sA, A, tid)
        stored(sB, B, tid)
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid >= first:
        if tid < first + 128:
            thr = WGMMA.get_slice(tid - first)
            tA, tB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
            acc = WGMMA.partition_fragment_C((64, 64))
            mo.warpgroup_arrive()
            mo.gemm(WGMMA, tA, tB, acc, accumulate=False)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(0)
            mo.copyto(thr.partition_C(C), acc)


@table.faulty("D12 D14", lambda: (zeros(64, 64), half(64, 64), half(64, 64)), block=128)
@mo.kernel
def operands_without_fence(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    """A is fenced, B comes after the fence."""
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    if bad:
        mo.fence_proxy_async()
    stored(sB, B, tid)
    if not bad:
        mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    mo.warpgroup_arrive()
    mo.gemm(WGMMA, tA, tB, acc, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


@table.faulty("E6 C6", lambda: (zeros(64, 64), half(64, 64), half(64, 64), 96), block=128)
@mo.kernel
def guard_cuts_the_group(C: mo.Static, A: mo.Static, B: mo.Static, n, bad: mo.Constexpr):
    """A guard of rows leaves 96 threads of the warp group at the product."""
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(mo.float16, HALF), mo.shared_array(mo.float16, HALF)
    stored(sA, A, tid)
    stored(sB, B, tid)
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = WGMMA.get_slice(tid)
    tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), WGMMA.partition_fragment_C((64, 64))
    if tid < (n if bad else 128):
        mo.warpgroup_arrive()
        mo.gemm(WGMMA, tA, tB, acc, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(C), acc)


@mo.jit
def two_barriers(full, empty, stages, fills, frees):
    """Thread 0 initialises both directions of a ring."""
    if mo.thread_idx().x == 0:
        for s in mo.static_range(stages):
            mo.mbarrier_init(full, s, fills)
            mo.mbarrier_init(empty, s, frees)
        mo.fence_mbarrier_init()
    mo.sync_threads()


@table.faulty("F1", lambda: (zeros(32), load(16, 192)), block=64)
@mo.kernel
def released_then_read(out, tma, bad: mo.Constexpr):
    """PipelineTma: the stage is given back before its last read."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    pipe = mo.PipelineTma(2, tma.bytes, consumers=32)
    pipe.init()
    mo.sync_threads()
    if tid == 32:
        state = pipe.producer_start()
        for k in range(6):
            pipe.producer_acquire(state)
            mo.copyto(tma, s[:, :, state.stage], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=pipe.barrier(state))
            state = state.next()
    elif tid < 32:
        state, total = pipe.consumer_start(), 0.0
        for _ in range(6):
            pipe.consumer_wait(state)
            if bad:
                pipe.consumer_release(state)
            for i in range(16):
                total += s[i, tid, state.stage]
            if not bad:
                pipe.consumer_release(state)
            state = state.next()
        out[tid] = total


@table.faulty("F1 D13", lambda: (zeros(32), load(16, 192)), block=64)
@mo.kernel
def producer_never_acquires(out, tma, bad: mo.Constexpr):
    """The producer loads without waiting for "empty"."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 3)))
    full, empty = mo.mbarrier_array(3), mo.mbarrier_array(3)
    two_barriers(full, empty, 3, 1, 32)
    if tid == 32:
        for k in range(6):
            if not bad:
                mo.mbarrier_wait(empty, k % 3, (k // 3 + 1) % 2)
            mo.mbarrier_arrive_expect_tx(full, k % 3, tma.bytes)
            mo.copyto(tma, s[:, :, k % 3], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, k % 3))
    elif tid < 32:
        total = 0.0
        for k in range(6):
            mo.mbarrier_wait(full, k % 3, k // 3 % 2)
            total += s[k, tid, k % 3]
            mo.mbarrier_arrive(empty, k % 3)
        out[tid] = total


@table.faulty("F1 C2 C1", lambda: (zeros(32), ramp(32, 6)), block=64)
@mo.kernel
def threads_fill_without_empty(out, x, bad: mo.Constexpr):
    """The same ring filled by threads, not by TMA."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    two_barriers(full, empty, 2, 32, 32)
    if tid < 32:
        for k in range(6):
            if not bad:
                mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            s[tid, k % 2] = x[tid, k]
            mo.mbarrier_arrive(full, k % 2)
    else:
        total = 0.0
        for k in range(6):
            mo.mbarrier_wait(full, k % 2, k // 2 % 2)
            total += s[63 - tid, k % 2]
            mo.mbarrier_arrive(empty, k % 2)
        out[tid - 32] = total


@table.faulty("F2 B1", lambda: (zeros(32), ramp(32, 2), 2), block=32)
@mo.kernel
def prologue_of_three(out, x, n, bad: mo.Constexpr):
    """Three tiles are fetched ahead though there are two."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 4))
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    for k in mo.static_range(3):
        if bad:
            mo.copyto(atom, mo.tile(s, (1, 1), (tid, k)), mo.tile(x, (1, 1), (tid, k)))
        elif k < n:
            mo.copyto(atom, mo.tile(s, (1, 1), (tid, k)), mo.tile(x, (1, 1), (tid, k)))
        mo.cp_async_commit()
    total = 0.0
    for k in range(n):
        mo.cp_async_wait(2)
        mo.cp_async_commit()
        total += s[tid, k]
    out[tid] = total


@table.faulty("F3", lambda: (zeros(32), load(16, 160)), block=64)
@mo.kernel
def consumer_counts_one_more(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    pipe = mo.PipelineTma(2, tma.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if tid == 32:
        state = pipe.producer_start()
        for k in range(5):
            pipe.producer_acquire(state)
            mo.copyto(tma, s[:, :, state.stage], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=pipe.barrier(state))
            state = state.next()
    elif tid < 32:
        state, total = pipe.consumer_start(), 0.0
        for k in range(6 if bad else 5):
            pipe.consumer_wait(state)
            total += s[k, tid, state.stage]
            mo.sync_warp()
            if tid == 0:
                pipe.consumer_release(state)
            state = state.next()
        out[tid] = total


@table.faulty("F5", lambda: (zeros(32), load(16, 256), 8), block=64)
@mo.kernel
def consumer_leaves_early(out, tma, n, bad: mo.Constexpr):
    """The reader stops in the middle; the producer waits for a stage that nobody frees."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    two_barriers(full, empty, 2, 1, 32)
    if tid == 32:
        for k in range(n):
            mo.mbarrier_wait(empty, k % 2, (k // 2 + 1) % 2)
            mo.mbarrier_arrive_expect_tx(full, k % 2, tma.bytes)
            mo.copyto(tma, s[:, :, k % 2], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, k % 2))
    elif tid < 32:
        total = 0.0
        for k in range(n):
            mo.mbarrier_wait(full, k % 2, k // 2 % 2)
            total += s[k, tid, k % 2]
            if bad:
                if k == 3:
                    break
            mo.mbarrier_arrive(empty, k % 2)
        out[tid] = total


@table.faulty("F4", lambda: (zeros(32), ramp(32)), block=64)
@mo.kernel
def each_waits_first(out, x, bad: mo.Constexpr):
    """Both roles wait for the other's arrival before they make their own."""
    tid = mo.thread_idx().x
    s, bars = mo.shared_array(mo.float32, 32), mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.mbarrier_init(bars, 1, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid < 32:
        if bad:
            mo.mbarrier_wait(bars, 1, 0)
        s[tid] = x[tid]
        mo.mbarrier_arrive(bars, 0)
        if not bad:
            mo.mbarrier_wait(bars, 1, 0)
    else:
        mo.mbarrier_wait(bars, 0, 0)
        out[tid - 32] = s[63 - tid]
        mo.mbarrier_arrive(bars, 1)


@table.faulty("F6", lambda: (zeros(384),), block=384)
@mo.kernel
def budget_too_large(out, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if mo.warpgroup_idx() == 0:
        mo.warpgroup_reg_dealloc(40)
    else:
        mo.warpgroup_reg_alloc(248 if bad else 232)
    out[tid] = 1.0


@table.faulty("C6 F6", lambda: (zeros(256),), block=256)
@mo.kernel
def budget_by_three_warps(out, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if mo.warpgroup_idx() == 0:
        if bad:
            if mo.warp_idx() != 3:
                mo.warpgroup_reg_dealloc(40)
        else:
            mo.warpgroup_reg_dealloc(40)
    out[tid] = 1.0


@table.faulty("F7 C4", lambda: (zeros(32), load(16, 64)), block=64)
@mo.kernel
def block_barrier_in_a_role(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 1)))
    pipe = mo.PipelineTma(1, tma.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if tid >= 32:
        if tid == 32:
            state = pipe.producer_start()
            for k in range(2):
                pipe.producer_acquire(state)
                mo.copyto(tma, s[:, :, state.stage], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=pipe.barrier(state))
                state = state.next()
    else:
        state, total = pipe.consumer_start(), 0.0
        for k in range(2):
            pipe.consumer_wait(state)
            total += s[k, tid, state.stage]
            if bad:
                mo.sync_threads()
            else:
                mo.sync_warp()
            if tid == 0:
                pipe.consumer_release(state)
            state = state.next()
        out[tid] = total
