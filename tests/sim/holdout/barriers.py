"""Faults of block, warp and named barriers, C1 to C7, and their twins."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()


@table.faulty("C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def scan_step(out, x, bad: mo.Constexpr):
    """Hillis-Steele scan in two buffers; the barrier after the last step is missing."""
    tid = mo.thread_idx().x
    a, b = mo.shared_array(mo.float32, 64), mo.shared_array(mo.float32, 64)
    a[tid] = x[tid]
    mo.sync_threads()
    for p in mo.static_range(6):
        d = 2**p
        value = a[tid]
        if tid >= d:
            value += a[tid - d]
        b[tid] = value
        if not (bad and p == 4):
            mo.sync_threads()
        a, b = b, a
    out[tid] = a[63 - tid]


@table.faulty("C2", lambda: (zeros(64), ramp(64, 5)), block=64)
@mo.kernel
def rows_in_turn(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    row = mo.shared_array(mo.float32, 64)
    best = x[tid, 0]
    for k in range(5):
        row[tid] = x[tid, k]
        mo.sync_threads()
        best = mo.max(best, row[(tid + 33) % 64])
        if not bad:
            mo.sync_threads()
    out[tid] = best


@table.faulty("C1 C2", lambda: (zeros(128), ramp(128)), block=128)
@mo.kernel
def tree_reduction(out, x, bad: mo.Constexpr):
    """The barrier stands before the loop only."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    mo.sync_threads()
    n = 64
    while n > 0:
        if tid < n:
            s[tid] = s[tid] + s[tid + n]
        if not bad:
            mo.sync_threads()
        n = n // 2
    if bad:
        mo.sync_threads()
    out[tid] = s[0]


@table.faulty("C3", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def warp_transpose(out, x, bad: mo.Constexpr):
    lane, warp = mo.lane_idx(), mo.warp_idx()
    s = mo.shared_array(mo.float32, (32, 2))
    s[lane, warp] = x[lane + 32 * warp]
    if not bad:
        mo.sync_warp()
    out[lane + 32 * warp] = s[(lane * 5) % 32, warp]


@table.faulty("C3", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def half_warp_mask(out, x, bad: mo.Constexpr):
    """sync_warp of each half, but the exchange is across the halves."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid]
    if bad:
        if tid < 16:
            mo.sync_warp(0x0000FFFF)
        else:
            mo.sync_warp(0xFFFF0000)
    else:
        mo.sync_warp()
    out[tid] = s[tid ^ 16]


@table.faulty("C3 C2", lambda: (zeros(32), ramp(32, 3)), block=32)
@mo.kernel
def warp_loop_reuse(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    total = 0.0
    for i in range(3):
        s[tid] = x[tid, i]
        mo.sync_warp()
        total += s[31 - tid]
        if not bad:
            mo.sync_warp()
    out[tid] = total


@table.faulty("C4", lambda: (zeros(64), ramp(64), 40), block=64)
@mo.kernel
def guarded_barrier(out, x, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if bad:
        if tid < n:
            mo.sync_threads()
            out[tid] = s[n - 1 - tid]
    else:
        mo.sync_threads()
        if tid < n:
            out[tid] = s[n - 1 - tid]


@table.faulty("C4", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def trip_counts_differ(out, x, bad: mo.Constexpr):
    """Each warp makes its own number of passes around a block barrier."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s = mo.shared_array(mo.float32, 64)
    passes = 2 + warp if bad else 3
    total = 0.0
    for i in range(passes):
        s[tid] = x[tid] + i
        mo.sync_threads()
        total += s[63 - tid]
        mo.sync_threads()
    out[tid] = total


@table.faulty("C4", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def two_arms(out, x, bad: mo.Constexpr):
    """Both arms of a branch have their own sync_threads."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    if tid < 32:
        s[tid] = x[tid]
        if bad:
            mo.sync_threads()
    else:
        s[tid] = -x[tid]
        if bad:
            mo.sync_threads()
    if not bad:
        mo.sync_threads()
    out[tid] = s[63 - tid]


@table.faulty("C4", lambda: (zeros(96), ramp(96)), block=96)
@mo.kernel
def break_before_barrier(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 96)
    value = x[tid]
    for i in range(4):
        if bad:
            if value + i > 90.0:
                break
        s[tid] = value
        mo.sync_threads()
        value = mo.min(s[(tid + 1) % 96], 95.0)
        mo.sync_threads()
    out[tid] = value


@table.faulty("C1 C2", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def continue_skips_barrier(out, x, bad: mo.Constexpr):
    """Even passes skip the barrier that the next pass relies on."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    for i in range(4):
        s[tid, i % 2] = x[tid] * i
        if bad:
            if i % 2 == 1:
                continue
        mo.sync_threads()
        total += s[63 - tid, i % 2]
    out[tid] = total


@table.faulty("C5", lambda: (zeros(96), ramp(96)), block=96)
@mo.kernel
def named_count(out, x, bad: mo.Constexpr):
    """Two warps meet at a named barrier that counts three, or two."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s = mo.shared_array(mo.float32, 64)
    if warp < 2:
        s[tid] = x[tid]
        mo.barrier_sync(3, 96 if bad else 64)
        out[tid] = s[63 - tid]


@table.faulty("C5", lambda: (zeros(128), ramp(128)), block=128)
@mo.kernel
def one_id_two_pairs(out, x, bad: mo.Constexpr):
    """Two pairs of warps use one named barrier."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s = mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    pair = warp // 2
    mo.barrier_sync(1 if bad else 1 + pair, 64)
    out[tid] = s[tid ^ 32]


@table.faulty("C5", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def named_by_half_warps(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if bad:
        if tid % 32 < 16:
            mo.barrier_sync(2, 32)
    else:
        mo.barrier_sync(2, 64)
    if tid % 32 < 16:
        out[tid] = s[(tid + 32) % 64]


@table.faulty("C1 C2 C5", lambda: (zeros(64, 4), ramp(64, 4)), block=128)
@mo.kernel
def pair_without_return(out, x, bad: mo.Constexpr):
    """Producer and consumer warps: "filled" is signalled, "emptied" only in the twin."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    if tid < 64:
        for k in range(4):
            if not bad:
                if k > 0:
                    mo.barrier_sync(2, 128)
            s[tid] = x[tid, k]
            mo.barrier_arrive(1, 128)
        if not bad:
            mo.barrier_sync(2, 128)
    else:
        for k in range(4):
            mo.barrier_sync(1, 128)
            out[tid - 64, k] = s[127 - tid]
            if not bad:
                mo.barrier_arrive(2, 128)


@table.faulty("C6", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def reduce_in_branch(out, x, bad: mo.Constexpr):
    """A warp reduction, with the full mask, in a branch that 20 lanes take."""
    tid = mo.thread_idx().x
    value = x[tid]
    if bad:
        if tid < 20:
            out[tid] = mo.warp_reduce(value, "add")
    else:
        total = mo.warp_reduce(mo.where(tid < 20, value, 0.0), "add")
        if tid < 20:
            out[tid] = total


@table.faulty("C7", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def shuffle_from_returned(out, x, bad: mo.Constexpr):
    """Lanes that have returned are read by those that have not."""
    tid = mo.thread_idx().x
    if tid >= 24:
        return
    value = x[tid]
    other = mo.shuffle_idx(value, (tid + 4) % 32 if bad else (tid + 4) % 24)
    out[tid] = other


@table.faulty("C7", lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def butterfly_of_a_part(out, x, bad: mo.Constexpr):
    """A butterfly over 24 lanes in their own mask reaches lanes beyond."""
    tid = mo.thread_idx().x
    if tid < 24:
        value = x[tid]
        for p in mo.static_range(4 if bad else 3):
            value += mo.shuffle_xor(value, 2**p if not bad else 2 ** (p + 1), mask=0x00FFFFFF)
        out[tid] = value


@table.faulty("C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def return_before_read(out, x, bad: mo.Constexpr):
    """Warp 1 writes and leaves; warp 0 reads with no barrier of both."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    if tid >= 32:
        s[tid - 32] = x[tid]
        if not bad:
            mo.barrier_arrive(4, 64)
        return
    if not bad:
        mo.barrier_sync(4, 64)
    out[tid] = s[tid]


@table.faulty("C1", lambda: (zeros(128, dtype=np.int32), ramp(128, dtype=np.int32)), block=128)
@mo.kernel
def histogram_cleared_late(out, x, bad: mo.Constexpr):
    """Bins are cleared by 32 threads, then counted by all."""
    tid = mo.thread_idx().x
    bins = mo.shared_array(mo.int32, 32)
    if tid < 32:
        bins[tid] = 0
    if not bad:
        mo.sync_threads()
    mo.atomic_add(bins, x[tid] % 32, 1)
    mo.sync_threads()
    if tid < 32:
        out[tid] = bins[tid]


@table.faulty("C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def arrive_is_no_wait(out, x, bad: mo.Constexpr):
    """Both groups arrive; the reader should have synchronised."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    if tid < 32:
        s[tid] = x[tid]
        mo.barrier_arrive(1, 64)
    else:
        if bad:
            mo.barrier_arrive(1, 64)
        else:
            mo.barrier_sync(1, 64)
        out[tid] = s[63 - tid]


@table.faulty("C1", lambda: (zeros(96), ramp(96)), block=96)
@mo.kernel
def broadcast_by_leader(out, x, bad: mo.Constexpr):
    """One thread computes a scalar for all; warps other than its own read it at once."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 1)
    if tid == 0:
        total = 0.0
        for i in range(8):
            total += x[i]
        s[0] = total
    if bad:
        mo.sync_warp()
    else:
        mo.sync_threads()
    out[tid] = s[0]


@table.faulty("C2", lambda: (zeros(128, 3), ramp(128, 3)), block=128)
@mo.kernel
def scratch_reused(out, x, bad: mo.Constexpr):
    """Two reductions of a block through one scratch array in each pass."""
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    scratch = mo.shared_array(mo.float32, 4)
    for k in range(3):
        top = mo.warp_reduce(x[tid, k], "max")
        if lane == 0:
            scratch[warp] = top
        mo.sync_threads()
        top = mo.max(mo.max(scratch[0], scratch[1]), mo.max(scratch[2], scratch[3]))
        if not bad:
            mo.sync_threads()
        total = mo.warp_reduce(x[tid, k] - top, "add")
        if lane == 0:
            scratch[warp] = total
        mo.sync_threads()
        out[tid, k] = scratch[0] + scratch[1] + scratch[2] + scratch[3]
        mo.sync_threads()


@table.faulty("C4", lambda: (zeros(64, 2), ramp(64, 2), 1), block=64, grid=2)
@mo.kernel
def early_out_after_barrier(out, x, n, bad: mo.Constexpr):
    """Threads of warp 1 return between two barriers in a loop; or leave their part but come along."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    s = mo.shared_array(mo.float32, 64)
    total = 0.0
    for k in range(3):
        s[tid] = x[tid, bx] * k
        mo.sync_threads()
        if bad:
            if tid >= 32:
                if k == n:
                    mo.sync_threads()
        total += s[63 - tid]
        mo.sync_threads()
    out[tid, bx] = total
