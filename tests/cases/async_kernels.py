"""Kernels with one fault each, by name, in what asynchronous copies read and write; without it they are right.

In: a name and a fault ("" for none).  Out: ``run``: the report of a checked launch.  ``FAULTS``: by name and fault the
class; ``RIGHT``: (name, variant) that look suspicious and are clean.
"""

from __future__ import annotations

import numpy as np

import moye as mo

TILE = mo.make_layout((32, 32), (32, 1))
CP = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)


def _f32(*shape, order="C"):
    return np.asarray(np.random.default_rng(0).integers(-4, 5, shape), np.float32, order=order)


def _tma(x, *, store=False):
    return mo.make_tma_copy(mo.TmaStore() if store else mo.TmaLoad(), x, TILE)


# --- sources of asynchronous copies ----------------------------------------------------------------------------------

@mo.kernel
def cp_source(y, x, fault: mo.Constexpr):
    """The source of a cp.async is cleared behind the copy."""
    s, tid = mo.shared_array(mo.float32, 128), mo.thread_idx().x
    mo.copyto(CP, mo.tile(s, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    mo.cp_async_commit()
    if fault == "no wait":
        x[tid] = 0.0
    mo.cp_async_wait(0)
    if fault == "no barrier":
        x[127 - tid] = 0.0
    mo.sync_threads()
    if fault == "":
        x[127 - tid] = 0.0
    y[tid] = s[127 - tid]


@mo.kernel
def cp_ring(y, x, fault: mo.Constexpr):
    """Two stages of cp.async; what was copied is doubled in place."""
    s, tid = mo.shared_array(mo.float32, (128, 2)), mo.thread_idx().x
    for t in mo.static_range(2):
        mo.copyto(CP, mo.tile(s[:, t], (1,), (tid,)), mo.tile(x[:, t], (1,), (tid,)))
        mo.cp_async_commit()
    for k in range(6):
        if fault == "one left too many":
            mo.cp_async_wait(2)
        else:
            mo.cp_async_wait(1)
        if fault == "next tile":
            x[tid, k + 1] = 2.0
        else:
            x[tid, k] = 2.0
        if fault != "one left too many":
            y[tid, k] = s[tid, k % 2]
        mo.sync_threads()
        if k + 2 < 6:
            mo.copyto(CP, mo.tile(s[:, k % 2], (1,), (tid,)), mo.tile(x[:, k + 2], (1,), (tid,)))
        mo.cp_async_commit()


@mo.kernel
def tma_source(y, load, view, fault: mo.Constexpr):
    """The source of a TMA load is cleared behind it."""
    s, full, tid = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), (0, 0)), barrier=(full, 0))
    if fault == "no wait":
        view[tid // 32, tid % 32] = 0.0
    if fault == "own" and tid == 0:
        view[0, 0] = 0.0
    mo.mbarrier_wait(full, 0, 0)
    if fault == "":
        view[tid // 32, tid % 32] = 0.0
    y[tid // 32, tid % 32] = s[tid // 32, tid % 32]


@mo.kernel
def bulk_source(y, x, fault: mo.Constexpr):
    """The same of a bulk copy by rows."""
    run = mo.tile(x, (128,), (0,))
    s, full, tid = mo.shared_array(mo.float32, 128), mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, 512)
        mo.copyto(mo.BulkCopy(), s, run, barrier=(full, 0))
    mo.sync_threads()
    if fault == "no wait":
        x[tid] = 0.0
    mo.mbarrier_wait(full, 0, 0)
    if fault == "":
        x[tid] = 0.0
    y[tid] = s[tid]


@mo.kernel
def in_place(load, store, fault: mo.Constexpr):
    """Tiles are loaded by TMA, doubled and stored over where they came from."""
    s, full, tid = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for t in range(3):
        tile = mo.tile(load.tensor, (32, 32), (0, t))
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
            mo.copyto(load, s, tile, barrier=(full, 0))
        mo.mbarrier_wait(full, 0, t % 2)
        for i in range(tid, 1024, 64):
            s[i // 32, i % 32] = 2.0 * s[i // 32, i % 32]
        if fault != "no fence":
            mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(store, mo.tile(store.tensor, (32, 32), (0, t)), s)
            mo.tma_store_arrive()
            if fault != "no wait":
                mo.tma_store_wait(0)
        mo.sync_threads()
    if tid == 0:
        mo.tma_store_wait(0)


# --- proxies ---------------------------------------------------------------------------------------------------------

@mo.kernel
def cleared(y, load, fault: mo.Constexpr):
    """A tile is cleared by threads and then filled by TMA."""
    s, full, tid = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    if fault == "early fence":
        mo.fence_proxy_async()
    for i in range(tid, 1024, 64):
        s[i // 32, i % 32] = 0.0
    if fault == "" or (fault == "other fence" and tid == 0):
        mo.fence_proxy_async()
    mo.sync_threads()
    if fault == "late fence":
        mo.fence_proxy_async()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), (0, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    y[tid // 32, tid % 32] = s[tid // 32, tid % 32]


@mo.kernel
def cleared_there(y, load, fault: mo.Constexpr):
    """A tile is cleared by the other block of the cluster."""
    s, full, tid, rank = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x, mo.cluster_rank()
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    there = mo.map_shared_rank(s, rank ^ 1)
    for i in range(tid, 1024, 64):
        there[i // 32, i % 32] = 0.0
    if fault == "":
        mo.fence_proxy_async()
    mo.cluster_sync()
    if tid == 0:
        if fault == "receiver fences":
            mo.fence_proxy_async()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), (0, rank)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    y[tid // 32, tid % 32 + 32 * rank] = s[tid // 32, tid % 32]


@mo.kernel
def cleared_multicast(y, load, fault: mo.Constexpr):
    """Each block clears its tile; one copy fills those of both."""
    s, full, tid, rank = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x, mo.cluster_rank()
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    for i in range(tid, 1024, 64):
        s[i // 32, i % 32] = 0.0
    if fault == "" or (fault == "one block" and rank == 0):
        mo.fence_proxy_async()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
    mo.cluster_sync()
    if tid == 0 and rank == 0:
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), (0, 0)), barrier=(full, 0), multicast=3)
    mo.mbarrier_wait(full, 0, 0)
    y[tid // 32, tid % 32 + 32 * rank] = s[tid // 32, tid % 32]
    mo.cluster_sync()


@mo.kernel
def stored_then_loaded(y, load, view, flag, fault: mo.Constexpr):
    """Global memory is written by threads and loaded by TMA, by the same block or the next one."""
    s, full, tid, bx = mo.shared_array(mo.float32, TILE), mo.mbarrier_array(1), mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    for i in range(tid, 1024, 64):
        view[i // 32, i % 32 + 32 * bx] = 2.0
    if fault in ("", "flag") or (fault == "other fence" and tid == 0):
        mo.fence_proxy_async()
    mo.sync_threads()
    other = bx
    if fault in ("flag", "flag without", "flag reader"):
        if tid == 0:
            mo.atomic_add(flag, 0, 1, order="release", scope="gpu")
        while mo.load(flag, 0, order="acquire", scope="gpu") < 2:
            pass
        other = bx ^ 1
    if tid == 0:
        if fault in ("flag reader", "reader"):
            mo.fence_proxy_async()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, s, mo.tile(load.tensor, (32, 32), (0, other)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    y[tid // 32, tid % 32 + 32 * bx] = s[tid // 32, tid % 32]


@mo.kernel
def zero_then_add(out, x, fault: mo.Constexpr):
    """Threads clear an array in global memory to which a bulk reduction adds."""
    s, tid, run = mo.shared_array(mo.float32, 128), mo.thread_idx().x, mo.tile(out, (128,), (0,))
    out[tid] = 0.0
    s[tid] = x[tid]
    if fault != "no fence":
        mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(mo.BulkReduceAdd(), run, s)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)


# --- pools and stages ------------------------------------------------------------------------------------------------

@mo.kernel
def pool(y, x, fault: mo.Constexpr):
    """Data and an mbarrier in one pool."""
    tid = mo.thread_idx().x
    memory = mo.shared_array(mo.uint64, 40, align=16)
    bar = mo.domain_offset(32, memory)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    s = mo.recast(memory, mo.float32).with_layout(mo.make_layout(66 if fault == "over it" else 64))
    s[tid] = x[tid]
    if fault == "over it" and tid < 2:
        s[64 + tid] = 0.0
    if fault != "no arrival":
        mo.mbarrier_arrive(bar, 0)
        mo.mbarrier_wait(bar, 0, 0)
    y[tid] = s[63 - tid]


@mo.kernel
def epilogue(store, x, fault: mo.Constexpr):
    """Tiles leave through two buffers; thread 0 stores."""
    s, tid = mo.shared_array(mo.float32, mo.make_layout((32, 32, 2), (32, 1, 1024))), mo.thread_idx().x
    for t in range(5):
        if fault == "two left":
            if tid == 0:
                mo.tma_store_wait(2)
        elif fault == "odd tiles":
            if tid == 0 and t % 2 == 0:
                mo.tma_store_wait(1)
        elif fault == "another waits":
            if tid == 32:
                mo.tma_store_wait(1)
        elif tid == 0:
            mo.tma_store_wait(1)
        mo.sync_threads()
        for i in range(tid, 1024, 64):
            s[i // 32, i % 32, t % 2] = 2.0 * x[i // 32, 32 * t + i % 32]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(store, mo.tile(store.tensor, (32, 32), (0, t)), s[:, :, t % 2])
            if fault != "no commit":
                mo.tma_store_arrive()
    if tid == 0:
        mo.tma_store_wait(0)


@mo.kernel
def named_roles(y, x, fault: mo.Constexpr):
    """Warp 0 writes cells, warp 1 reads them: "full" is barrier 1, "empty" barrier 2."""
    cell, warp, lane = mo.shared_array(mo.float32, 32), mo.warp_idx(), mo.lane_idx()
    if warp == 0:
        for k in range(4):
            if fault != "no empty" and k > 0:
                mo.barrier_sync(2, 64)
            cell[lane] = x[lane, k]
            mo.barrier_arrive(1, 64) if fault != "no empty" else mo.barrier_sync(1, 64)
    else:
        total = 0.0
        for k in range(4):
            mo.barrier_sync(1, 64)
            total += cell[31 - lane]
            if fault != "no empty" and k < 3:
                mo.barrier_arrive(2, 64)
        y[lane] = total


@mo.kernel
def mbarrier_roles(y, x, fault: mo.Constexpr):
    """The same with two mbarriers."""
    cell, bars, warp, lane = mo.shared_array(mo.float32, 32), mo.mbarrier_array(2), mo.warp_idx(), mo.lane_idx()
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.mbarrier_init(bars, 1, 32)
    mo.sync_threads()
    if warp == 0:
        for k in range(4):
            if fault != "no empty" and k > 0:
                mo.mbarrier_wait(bars, 1, (k - 1) % 2)
            cell[lane] = x[lane, k]
            mo.mbarrier_arrive(bars, 0)
            if fault == "no empty":
                mo.mbarrier_wait(bars, 0, k % 2)
    else:
        total = 0.0
        for k in range(4):
            mo.mbarrier_wait(bars, 0, k % 2)
            total += cell[31 - lane]
            mo.mbarrier_arrive(bars, 1)
        y[lane] = total


# --- stale data ------------------------------------------------------------------------------------------------------

@mo.kernel
def ragged(y, x, n, fault: mo.Constexpr):
    """Tiles of 128; the last one is not full, or empty."""
    s, tid = mo.shared_array(mo.float32, 128), mo.thread_idx().x
    for k in range(3):
        if fault == "whole":
            if 128 * k < n:
                s[tid] = x[128 * k + tid]
        elif fault == "every second":
            if k % 2 == 0:
                s[tid] = x[128 * k + tid]
        elif 128 * k + tid < n:
            s[tid] = x[128 * k + tid]
        elif fault == "":
            s[tid] = 0.0
        mo.sync_threads()
        if fault == "masked read":
            y[tid, k] = s[127 - tid] if 128 * k + 127 - tid < n else 0.0
        else:
            y[tid, k] = s[127 - tid]
        mo.sync_threads()


@mo.kernel
def ragged_rows(y, x, fault: mo.Constexpr):
    """Rows of a tile, each under a condition of its own, or a loop under one."""
    s, tid, n = mo.shared_array(mo.float32, (16, 64)), mo.thread_idx().x, mo.size(x, 0)
    for k in range(3):
        if fault in ("loop inside", "loop inside, zeros"):
            r = tid // 8
            if 16 * k + r < n:
                for c in range(tid % 8, 64, 8):
                    s[r, c] = x[16 * k + r, c]
            elif fault == "loop inside, zeros":
                for c in range(tid % 8, 64, 8):
                    s[r, c] = 0.0
        else:
            for r in range(tid // 64, 16, 2):
                if 16 * k + r < n:
                    s[r, tid % 64] = x[16 * k + r, tid % 64]
                elif fault == "":
                    s[r, tid % 64] = 0.0
        mo.sync_threads()
        total = 0.0
        for r in range(16):
            total += s[r, tid % 64]
        if tid < 64:
            y[tid, k] = total
        mo.sync_threads()


@mo.kernel
def kept(y, x, fault: mo.Constexpr):
    """Elements that predicated copies refresh one at a time, and that are kept in between."""
    s, tid = mo.shared_array(mo.float32, 128), mo.thread_idx().x
    s[tid] = 0.0
    mo.sync_threads()
    for k in range(3):
        tile = mo.tile(x, (128,), (k,))
        if fault == "one":
            mo.copyto(mo.tile(s, (1,), (0,)), mo.tile(tile, (1,), (0,)), pred=tid == 0)
        elif fault == "in turn":
            mo.copyto(mo.tile(s, (1,), (tid,)), mo.tile(tile, (1,), (tid,)), pred=tid % 3 == k)
        else:
            mo.copyto(mo.tile(s, (1,), (tid,)), mo.tile(tile, (1,), (tid,)), pred=tid < 128 - 32 * k)
        mo.sync_threads()
        y[tid, k] = s[127 - tid]
        mo.sync_threads()


# --- dependent launches ----------------------------------------------------------------------------------------------

@mo.kernel
def before(y, x, early: mo.Constexpr):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if early:
        mo.griddepcontrol_launch_dependents()
    y[i] = 2.0 * x[i]


@mo.kernel
def dependent(z, y, x, fault: mo.Constexpr):
    """Reads what ``before`` has written."""
    tid, i = mo.thread_idx().x, mo.block_idx().x * 64 + mo.thread_idx().x
    if fault == "read":
        z[i] = y[i]
    if fault == "write":
        y[i] = 1.0
    if fault == "write over a read":
        x[i] = 1.0
    if fault in ("one warp", "one warp and a barrier"):
        if tid < 32:
            mo.griddepcontrol_wait()
        if fault == "one warp and a barrier":
            mo.sync_threads()
    elif fault != "no wait":
        mo.griddepcontrol_wait()
    if fault != "read":
        z[i] = y[i]


@mo.kernel
def handed_over(out, tma, counter, tiles, fault: mo.Constexpr):
    """A persistent loop: tile numbers by an atomic, handed over through shared memory; loads per tile vary."""
    tid = mo.thread_idx().x
    sX = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (*tma.tile, 2)))
    gX, sTile = mo.tile(tma.tensor, tma.tile, (0, None)), mo.shared_array(mo.int32, (1,))
    pipe, ring = mo.PipelineTma(2, tma.bytes, consumers=1), mo.PipelineTma(1, 4, consumers=128)
    pipe.init()
    ring.init()
    mo.sync_threads()
    if tid == 128:
        state, turn, t = pipe.producer_start(), ring.producer_start(), mo.block_idx().x
        while t < tiles:
            for _ in range(1 + t % 3):
                pipe.producer_acquire(state)
                mo.copyto(tma, sX[:, :, state.stage], gX[:, :, t], barrier=pipe.barrier(state))
                state = state.next()
            t = mo.atomic_add(counter, 0, 1) + mo.grid_dim().x
            mo.mbarrier_wait(ring.empty, 0, turn.phase)
            sTile[0] = t
            mo.mbarrier_arrive(ring.full, 0)
            turn = turn.next()
    elif tid < 128:
        state, turn, t = pipe.consumer_start(), ring.consumer_start(), mo.block_idx().x
        while t < tiles:
            total = 0.0
            for _ in range(1 + t % 3):
                if fault != "no wait":
                    pipe.consumer_wait(state)
                total += sX[tid % 64, tid // 64, state.stage]
                mo.barrier_sync(1, 128)
                if tid == 0:
                    pipe.consumer_release(state)
                state = state.next()
            out[tid, t] = total
            mo.mbarrier_wait(ring.full, 0, turn.phase)
            t = sTile[0]
            mo.mbarrier_arrive(ring.empty, 0)
            turn = turn.next()


# --- launches --------------------------------------------------------------------------------------------------------

def _launches():
    square = np.zeros((32, 32), np.float32)
    wide = np.zeros((32, 64), np.float32)

    def single(kernel, block, *make):
        return lambda fault: mo.check(kernel, lints=False)[1, block](*(part() for part in make), fault)

    def zeros(*shape, order="F"):
        return lambda: np.zeros(shape, np.float32, order=order)

    def clustered(kernel):
        return lambda fault: mo.check(kernel, lints=False).launch(
            wide.copy(), _tma(_f32(32, 64)), fault, grid=2, block=64, cluster=2)

    def with_view(kernel, grid, *more):
        def launch(fault):
            x = _f32(32, 64)
            return mo.check(kernel, lints=False)[grid, 64](np.zeros_like(x), _tma(x), x, *(m() for m in more), fault)
        return launch

    def tiles(fault):
        n = {"whole": 256, "every second": 384}.get(fault, 300)
        return mo.check(ragged, lints=False)[1, 128](zeros(128, 3)(), _f32(n), 256 if fault == "whole" else n, fault)

    def update(fault):
        x = _f32(32, 96)
        return mo.check(in_place, lints=False)[1, 64](_tma(x), _tma(x, store=True), fault)

    def leave(fault):
        return mo.check(epilogue, lints=False)[1, 64](_tma(np.zeros((32, 160), np.float32), store=True),
                                                     _f32(32, 160), fault)

    def chain(fault):
        x, y, z = _f32(128), np.zeros(128, np.float32), np.zeros(128, np.float32)
        early = fault != "write"
        assert mo.check(before, lints=False).launch(y, x, early, grid=2, block=64).ok
        return mo.check(dependent, lints=False).launch(z, y, x, fault, grid=2, block=64, dependent=True)

    def persistent(fault):
        x, out = _f32(64, 32 * 12), np.zeros((128, 12), np.float32)
        tma = mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout((64, 32), (32, 1)))
        return mo.check(handed_over, lints=False)[2, 160](out, tma, np.zeros(1, np.int32), 12, fault)

    return {
        "cp source": single(cp_source, 128, zeros(128), lambda: _f32(128)),
        "cp ring": single(cp_ring, 128, zeros(128, 6), lambda: _f32(128, 7, order="F")),
        "tma source": with_view(tma_source, 1),
        "bulk source": single(bulk_source, 128, zeros(128), lambda: _f32(128)),
        "in place": update,
        "cleared": single(cleared, 64, lambda: square.copy(), lambda: _tma(_f32(32, 32))),
        "cleared there": clustered(cleared_there), "cleared multicast": clustered(cleared_multicast),
        "stored then loaded": with_view(stored_then_loaded, 2, lambda: np.zeros(1, np.int32)),
        "zero then add": single(zero_then_add, 128, zeros(128), lambda: _f32(128)),
        "pool": single(pool, 64, zeros(64), lambda: _f32(64)),
        "epilogue": leave,
        "named roles": single(named_roles, 64, zeros(32), lambda: _f32(32, 4, order="F")),
        "mbarrier roles": single(mbarrier_roles, 64, zeros(32), lambda: _f32(32, 4, order="F")),
        "ragged": tiles,
        "ragged rows": single(ragged_rows, 128, zeros(64, 3), lambda: _f32(40, 64, order="F")),
        "kept": single(kept, 128, zeros(128, 3), lambda: _f32(384)),
        "dependent": chain,
        "handed over": persistent,
    }


_LAUNCHES = _launches()

FAULTS = {
    ("cp source", "no wait"): "B9", ("cp source", "no barrier"): "C2",
    ("cp ring", "next tile"): "B9", ("cp ring", "one left too many"): "B9",
    ("tma source", "no wait"): "B9", ("tma source", "own"): "B9", ("bulk source", "no wait"): "B9",
    ("in place", "no fence"): "D12", ("in place", "no wait"): "D15",
    ("cleared", "no fence"): "D13", ("cleared", "early fence"): "D13", ("cleared", "late fence"): "D13",
    ("cleared", "other fence"): "D14", ("cleared there", "no fence"): "D13",
    ("cleared multicast", "no fence"): "D13", ("cleared multicast", "one block"): "D13",
    ("stored then loaded", "no fence"): "D12", ("stored then loaded", "other fence"): "D14",
    ("stored then loaded", "flag without"): "D12", ("zero then add", "no fence"): "D12",
    ("pool", "no arrival"): "C1", ("pool", "over it"): "D11",
    ("epilogue", "two left"): "D15", ("epilogue", "odd tiles"): "D15", ("epilogue", "no commit"): "D15",
    ("epilogue", "another waits"): "D16",
    ("named roles", "no empty"): "C2", ("mbarrier roles", "no empty"): "F1",
    ("ragged", "last tile"): "B8", ("ragged", "whole"): "B8", ("ragged rows", "row by row"): "B8",
    ("ragged rows", "loop inside"): "B8", ("kept", "fewer each time"): "B8",
    ("dependent", "no wait"): "G3", ("dependent", "read"): "G3", ("dependent", "write"): "G3",
    ("dependent", "write over a read"): "G3", ("dependent", "one warp"): "G3",
    ("handed over", "no wait"): "D6",
}
RIGHT = [*((name, "") for name in _LAUNCHES if name != "kept"), ("cleared there", "receiver fences"),
         ("stored then loaded", "reader"), ("stored then loaded", "flag"), ("stored then loaded", "flag reader"),
         ("ragged", "every second"), ("ragged", "masked read"), ("ragged rows", "loop inside, zeros"),
         ("kept", "one"), ("kept", "in turn"), ("dependent", "one warp and a barrier")]


def run(name, fault=""):
    """The report of one launch."""
    return _LAUNCHES[name](fault)
