"""Faults of TMA loads, stores and bulk copies, D6 to D18, and their twins."""

from __future__ import annotations

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
TILE = mo.make_layout((16, 32), (32, 1))
BYTES = 16 * 32 * 4


def load(*shape):
    """A TMA load of tiles of (16, 32) from an array of this shape."""
    return mo.make_tma_copy(mo.TmaLoad(), ramp(*shape, order="C"), TILE)


def store(array):
    """A TMA store of such tiles."""
    return mo.make_tma_copy(mo.TmaStore(), array, TILE)


@mo.jit
def ready(bars, count, arrivals):
    """Thread 0 initialises; then all may use the barriers."""
    if mo.thread_idx().x == 0:
        for i in mo.static_range(count):
            mo.mbarrier_init(bars, i, arrivals)
        mo.fence_mbarrier_init()
    mo.sync_threads()


@table.faulty("D6", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def tile_without_wait(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    gX = mo.tile(tma.tensor, tma.tile, (0, 0))
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, gX, barrier=(full, 0))
    if bad:
        mo.sync_threads()
    else:
        mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D6 D3", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def only_the_issuer_waits(out, tma, bad: mo.Constexpr):
    """Thread 0 waits; the others neither wait nor meet it."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
    if not bad:
        mo.sync_threads()
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D6", lambda: (zeros(64), load(32, 32)), block=64)
@mo.kernel
def waits_for_the_other_tile(out, tma, bad: mo.Constexpr):
    """Two tiles on two mbarriers; the second tile is read after the wait for the first."""
    tid = mo.thread_idx().x
    a, b = mo.shared_array(tma.dtype, tma.smem_layout), mo.shared_array(tma.dtype, tma.smem_layout)
    full = mo.mbarrier_array(2)
    ready(full, 2, 1)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_arrive_expect_tx(full, i, tma.bytes)
            mo.copyto(tma, b if i else a, mo.tile(tma.tensor, tma.tile, (i, 0)), barrier=(full, i))
    mo.mbarrier_wait(full, 0, 0)
    if not bad:
        mo.mbarrier_wait(full, 1, 0)
    out[tid] = a[tid % 16, 3] + b[tid % 16, 5]


@table.faulty("D7", lambda: (zeros(64), load(32, 32)), block=64)
@mo.kernel
def expects_one_tile_of_two(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    a, b = mo.shared_array(tma.dtype, tma.smem_layout), mo.shared_array(tma.dtype, tma.smem_layout)
    full = mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes if bad else 2 * tma.bytes)
        mo.copyto(tma, a, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.copyto(tma, b, mo.tile(tma.tensor, tma.tile, (1, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = a[tid % 16, 3] + b[tid % 16, 5]


@table.faulty("D7", lambda: (zeros(64), ramp(256)), block=64)
@mo.kernel
def expects_more_than_comes(out, x, bad: mo.Constexpr):
    """A bulk copy of 192 elements, and the bytes of 256 are expected."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(mo.float32, 256), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 32:
        mo.mbarrier_arrive_expect_tx(full, 0, 1024 if bad else 768)
        mo.copyto(mo.BulkCopy(), mo.tile(s, (192,), (0,), ragged=True), mo.tile(x, (192,), (0,), ragged=True),
                  barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid]


@table.faulty("D8 D6", lambda: (zeros(64), load(16, 128)), block=64)
@mo.kernel
def parity_never_flips(out, tma, bad: mo.Constexpr):
    """One stage, four tiles: the parity of the wait stays 0."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    total = 0.0
    for k in range(4):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0 if bad else k % 2)
        total += s[tid % 16, tid // 16]
        mo.sync_threads()
    out[tid] = total


@table.faulty("D8", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def first_wait_passes(out, tma, bad: mo.Constexpr):
    """Parity 1 of a new barrier is complete at once."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 1 if bad else 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D9", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def one_arrival_of_two(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 2 if bad else 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D9 C1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def too_many_arrive(out, x, bad: mo.Constexpr):
    """All 64 threads arrive; the barrier counts one warp."""
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    ready(bar, 1, 32 if bad else 64)
    s[tid] = x[tid]
    mo.mbarrier_arrive(bar, 0)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid] = s[63 - tid]


@table.faulty("D10", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def used_before_visible(out, tma, bad: mo.Constexpr):
    """Other warps wait at the barrier before the one that initialises it has met them."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        if bad:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    if not bad:
        mo.sync_threads()
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D11", lambda: (zeros(64), ramp(64, 2)), block=64)
@mo.kernel
def initialised_again(out, x, bad: mo.Constexpr):
    """The barrier is set up anew for the second tile while the other warp may still wait."""
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, (64, 2)), mo.mbarrier_array(1)
    for k in mo.static_range(2):
        if tid == 0:
            if bad or k == 0:
                mo.mbarrier_init(bar, 0, 64)
                mo.fence_mbarrier_init()
        if k == 0:
            mo.sync_threads()
        s[tid, k] = x[tid, k]
        mo.mbarrier_arrive(bar, 0)
        mo.mbarrier_wait(bar, 0, 0 if bad else k)
        out[tid] = s[63 - tid, k]


@table.faulty("D11", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def barrier_overwritten(out, x, bad: mo.Constexpr):
    """A pool: data reach into the place of the mbarrier."""
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.uint64, 34, align=16)
    bar = mo.domain_offset(31 if bad else 32, pool)
    ready(bar, 1, 64)
    s = mo.recast(pool, mo.float32).with_layout(mo.make_layout(64))
    s[tid] = x[tid]
    mo.mbarrier_arrive(bar, 0)
    mo.mbarrier_wait(bar, 0, 0)
    out[tid] = s[63 - tid]


@table.faulty("D12", lambda: (store(zeros(16, 32, order="C")), ramp(16, 32)), block=32)
@mo.kernel
def store_without_fence(tma, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for i in range(16):
        s[i, tid] = x[i, tid] * 2.0
    if not bad:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, 0)), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@table.faulty("D14 D12", lambda: (store(zeros(16, 32, order="C")), ramp(16, 32)), block=64)
@mo.kernel
def fence_of_the_storing_thread(tma, x, bad: mo.Constexpr):
    """Only the thread that stores fences, after the barrier; each writer has to, before it."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for i in range(tid // 32, 16, 2):
        s[i, tid % 32] = x[i, tid % 32] * 2.0
    if not bad:
        mo.fence_proxy_async()
    elif tid == 0:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, 0)), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@table.faulty("D13", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def cleared_then_loaded(out, tma, bad: mo.Constexpr):
    """Threads clear a tile before TMA fills it; no proxy fence between."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    for i in range(tid // 32, 16, 2):
        s[i, tid % 32] = 0.0
    if not bad:
        mo.fence_proxy_async()
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("D13 F1", lambda: (zeros(64), load(16, 128)), block=64)
@mo.kernel
def refilled_while_read(out, tma, bad: mo.Constexpr):
    """Thread 0 loads the next tile as soon as it has read; others may be at the former one."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    total = 0.0
    for k in range(4):
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, k)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, k % 2)
        total += s[tid % 16, tid // 16]
        if not bad:
            mo.sync_threads()
    out[tid] = total


@table.faulty("D15", lambda: (store(zeros(16, 128, order="C")), ramp(16, 128)), block=32)
@mo.kernel
def double_buffered_epilogue(tma, x, bad: mo.Constexpr):
    """Two buffers; before one is written again, all but the newest group must have been read."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    for k in range(4):
        if k >= 2:
            if tid == 0:
                mo.tma_store_wait(2 if bad else 1)
            mo.sync_threads()
        for i in range(16):
            s[i, tid, k % 2] = x[i, k * 32 + tid]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, k)), s[:, :, k % 2])
            mo.tma_store_arrive()
    if tid == 0:
        mo.tma_store_wait(0)


@table.faulty("D15", lambda: (zeros(512), ramp(512)), block=64)
@mo.kernel
def bulk_source_refilled(out: mo.Static, x: mo.Static, bad: mo.Constexpr):
    """A bulk store per pass from one buffer."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 128)
    for k in range(4):
        s[tid], s[tid + 64] = x[128 * k + tid], x[128 * k + tid + 64]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(mo.BulkCopy(), mo.tile(out, (128,), (k,)), s)
            mo.tma_store_arrive()
            if not bad:
                mo.tma_store_wait(0)
        mo.sync_threads()
    if tid == 0:
        mo.tma_store_wait(0)


@table.faulty("D16", lambda: (store(zeros(16, 64, order="C")), ramp(16, 64)), block=64)
@mo.kernel
def waited_for_by_another(tma, x, bad: mo.Constexpr):
    """Thread 0 stores, thread 32 waits."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for k in range(2):
        for i in range(tid // 32, 16, 2):
            s[i, tid % 32] = x[i, k * 32 + tid % 32]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, k)), s)
            mo.tma_store_arrive()
        if tid == (32 if bad else 0):
            mo.tma_store_wait(0)
        mo.sync_threads()
    if tid == 0:
        mo.tma_store_wait(0)


@table.faulty("D17", lambda: (zeros(128), ramp(128), zeros(128)), block=64)
@mo.kernel
def read_wait_then_use(out: mo.Static, x: mo.Static, y, bad: mo.Constexpr):
    """What a bulk store wrote is read back after a wait for its source alone."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 128)
    s[tid], s[tid + 64] = x[tid], x[tid + 64]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), out, s, size=128)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=bad)
        y[0] = out[5]
        mo.tma_store_wait(0, read=False)


@table.faulty("D18", lambda: (store(zeros(16, 32, order="C")), ramp(16, 32)), block=32)
@mo.kernel
def ends_with_a_store(tma, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, tma.smem_layout)
    for i in range(16):
        s[i, tid] = x[i, tid]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, 0)), s)
        mo.tma_store_arrive()
        if not bad:
            mo.tma_store_wait(0)


@table.faulty("D18", lambda: (zeros(64), load(16, 64)), block=64)
@mo.kernel
def ends_with_a_load(out, tma, bad: mo.Constexpr):
    """The prefetch of the tile past the end is never waited for."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    full = mo.mbarrier_array(2)
    ready(full, 2, 1)
    total = 0.0
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(tma, s[:, :, 0], mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    for k in range(2):
        if tid == 0 and (bad or k + 1 < 2):
            mo.mbarrier_arrive_expect_tx(full, (k + 1) % 2, tma.bytes)
            mo.copyto(tma, s[:, :, (k + 1) % 2], mo.tile(tma.tensor, tma.tile, (0, k + 1)), barrier=(full, (k + 1) % 2))
        mo.mbarrier_wait(full, k % 2, 0)
        total += s[tid % 16, tid // 16, k % 2]
        mo.sync_threads()
    out[tid] = total


@table.faulty("D21", lambda: (zeros(64), load(16, 32)), block=64)
@mo.kernel
def whole_warp_issues(out, tma, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid < 32:
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        if bad:
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        elif tid == 0:
            mo.copyto(tma, s, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[tid % 16, tid // 16]


@table.faulty("B6", lambda: (zeros(64), ramp(256), 192), block=64)
@mo.kernel
def short_run(out: mo.Static, x: mo.Static, n, bad: mo.Constexpr):
    """The tail of a bulk copy's buffer that size= left out is read."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(mo.float32, 256), mo.mbarrier_array(1)
    mo.assume(n % 4 == 0)
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, n * 4)
        mo.copyto(mo.BulkCopy(), s, mo.tile(x, (256,), (0,)), barrier=(full, 0), size=n)
    mo.mbarrier_wait(full, 0, 0)
    total = 0.0
    for i in range(tid, 256 if bad else n, 64):
        total += s[i]
    out[tid] = total


@table.faulty("B9", lambda: (ramp(128), zeros(128)), block=64)
@mo.kernel
def bulk_source_overwritten(x: mo.Static, out: mo.Static, bad: mo.Constexpr):
    """The array is overwritten while a bulk load of it is in flight."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(mo.float32, 128), mo.mbarrier_array(1)
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, 512)
        mo.copyto(mo.BulkCopy(), s, mo.tile(x, (128,), (0,)), barrier=(full, 0))
    if not bad:
        mo.mbarrier_wait(full, 0, 0)
    x[tid] = -1.0
    if bad:
        mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[127 - tid]


@table.faulty("D12 D14", lambda: (ramp(128), zeros(128)), block=64)
@mo.kernel
def global_written_then_bulk_loaded(x: mo.Static, out: mo.Static, bad: mo.Constexpr):
    """Threads write global memory and a bulk copy of the same block reads it: proxies."""
    tid = mo.thread_idx().x
    s, full = mo.shared_array(mo.float32, 128), mo.mbarrier_array(1)
    x[tid], x[tid + 64] = 2.0 * tid, 3.0 * tid
    if not bad:
        mo.fence_proxy_async()
    ready(full, 1, 1)
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, 512)
        mo.copyto(mo.BulkCopy(), s, mo.tile(x, (128,), (0,)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = s[127 - tid]


@table.faulty("D12 D14", lambda: (zeros(128), ramp(128)), block=64)
@mo.kernel
def reduce_without_fence(out: mo.Static, x: mo.Static, bad: mo.Constexpr):
    """A bulk reduction of partial sums that a fence precedes in time, but before the last write."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 128)
    s[tid], s[tid + 64] = x[tid], x[tid + 64]
    if bad:
        mo.fence_proxy_async()
    s[tid] = s[tid] * 2.0
    if not bad:
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(mo.BulkReduceAdd(), mo.tile(out, (128,), (0,)), s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)
