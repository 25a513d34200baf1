"""Kernels that move contiguous runs by bulk copies, in every direction, and what they give in NumPy.

In: nothing.  Out: kernels; ``run`` is the elements of one run, static.

``tests/sim/operations/test_bulk.py`` runs and breaks them, ``ops_kernels_bulk.py`` and ``tests/gpu/test_bulk_gpu.py``
run them on the GPU, ``tests/tensor/test_bulk.py`` compiles them.
"""

from __future__ import annotations

import moye as mo
from tma_kernels import load_tile

BLOCK = 128


@mo.jit
def load_run(smem, source, size=None):
    """The run, or its first ``size`` elements, in shared memory, for all threads to read."""
    bars, tid = mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        elements = mo.size(smem) if size is None else size
        mo.mbarrier_arrive_expect_tx(bars, 0, elements * smem.dtype.bytes)
        mo.copyto(mo.BulkCopy(), smem, source, barrier=(bars, 0), size=size)
    mo.mbarrier_wait(bars, 0, 0)


@mo.jit
def store_run(copy, target, smem, size=None, hint=None):
    """The run that all threads may have written, to global memory."""
    mo.fence_proxy_async()
    mo.sync_threads()
    if mo.thread_idx().x == 0:
        mo.copyto(copy, target, smem, size=size, hint=hint)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=False)


@mo.kernel
def copy_kernel(out, x, run: mo.Constexpr):
    """One vector into another, run by run; the last run may be shorter, by whole parts of 16 bytes."""
    smem, bx = mo.shared_array(x.dtype, run), mo.block_idx().x
    mo.assume(mo.size(x) % (16 // x.dtype.bytes) == 0)
    left = mo.min(mo.size(x) - bx * run, run)
    gX, gO = (mo.tile(t, (run,), (bx,), ragged=True) for t in (x, out))         # (run)
    load_run(smem, gX, left)
    store_run(mo.BulkCopy(), gO, smem, left)


@mo.kernel
def tile_kernel(out, x, layout):
    """Tiles of a layout (bM, bN) that lie one after the other, doubled by the threads in between."""
    size = mo.size(layout)
    there, back, bx = mo.shared_array(x.dtype, layout), mo.shared_array(x.dtype, layout), mo.block_idx().x
    gX, gO = (mo.composition(mo.tile(t, (size,), (bx,)), layout) for t in (x, out))         # (bM, bN)
    load_run(there, gX)
    for i in range(mo.thread_idx().x, size, BLOCK):
        back[i] = there[i] + there[i]
    store_run(mo.BulkCopy(), gO, back, hint="evict_first")


@mo.kernel
def rows_kernel(out, x, width: mo.Constexpr):
    """Each lane of a warp copies a row of its own, and all threads read them: out is x with its rows reversed."""
    smem, bars = mo.shared_array(x.dtype, mo.make_layout((32, width), (width, 1))), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    gX, gO = (mo.tile(t, (1, width), (None, bx)) for t in (x, out))             # (1, width, row)
    if tid < 32:
        mo.mbarrier_arrive_expect_tx(bars, 0, width * x.dtype.bytes)
        mo.copyto(mo.BulkCopy(), smem[tid, :], gX[0, :, tid], barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, 32 * width, BLOCK):
        gO[0, i % width, 31 - i // width] = smem[i // width, i % width]


@mo.kernel
def stages_kernel(out, x, run: mo.Constexpr, stages: mo.Constexpr):
    """The columns of x through a ring of stages, one warp loading and the others adding up: out is a vector."""
    sX = mo.shared_array(x.dtype, (run, stages))
    pipe = mo.PipelineTma(stages, run * x.dtype.bytes, consumers=1)
    tid, bx, count = mo.thread_idx().x, mo.block_idx().x, mo.size(x, 1)
    gX, gO = mo.tile(x, (run, 1), (bx, None))[:, 0, :], mo.tile(out, (run,), (bx,))
    pipe.init()
    mo.sync_threads()
    if tid >= BLOCK:
        state = pipe.producer_start()
        if tid == BLOCK:
            for k in range(count):
                pipe.producer_acquire(state)
                mo.prefetch(gX[:, mo.min(k + stages, count - 1)])
                mo.copyto(mo.BulkCopy(), sX[:, state.stage], gX[:, k], barrier=pipe.barrier(state),
                          hint="evict_first" if stages % 2 else "evict_last")
                state = state.next()
    else:
        total = mo.fragment(run // BLOCK, x.dtype)
        total.fill(0)
        state = pipe.consumer_start()
        for _ in range(count):
            pipe.consumer_wait(state)
            for i in mo.static_range(run // BLOCK):
                total[i] = total[i] + sX[tid + i * BLOCK, state.stage]
            mo.barrier_sync(1, BLOCK)
            if tid == 0:
                pipe.consumer_release(state)
            state = state.next()
        for i in mo.static_range(run // BLOCK):
            gO[tid + i * BLOCK] = total[i]


@mo.kernel
def add_kernel(out, x, run: mo.Constexpr, hint: mo.Constexpr):
    """Every block adds its run of x to one of the runs of out: out[i % n] += x[i]."""
    smem, tid, bx = mo.shared_array(x.dtype, run), mo.thread_idx().x, mo.block_idx().x
    gX, gO = mo.tile(x, (run,), (bx,)), mo.tile(out, (run,), (None,))           # (run), (run, runs)
    for i in range(tid, run, BLOCK):
        smem[i] = gX[i]
    store_run(mo.BulkReduceAdd(), gO[:, bx % mo.size(gO, 1)], smem, hint=hint)


@mo.kernel
def multicast_kernel(out, x, run: mo.Constexpr, hint: mo.Constexpr):
    """Each block of a cluster loads a part of one run for all of them: out is (run, blocks)."""
    blocks, rank, bx, tid = mo.cluster_dim().x, mo.cluster_rank(), mo.block_idx().x, mo.thread_idx().x
    part = run // blocks
    smem, bars = mo.shared_array(x.dtype, (part, blocks)), mo.mbarrier_array(1)
    gX = mo.tile(x, (part,), (None,))                                           # (part, parts)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, run * x.dtype.bytes)
    mo.cluster_sync()
    if tid == 0:
        mo.copyto(mo.BulkCopy(), smem[:, rank], gX[:, bx // blocks * blocks + rank], barrier=(bars, 0),
                  multicast=(1 << blocks) - 1, hint=hint)
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, run, BLOCK):
        out[i, bx] = smem[i % part, i // part]
    mo.cluster_sync()


@mo.kernel
def send_kernel(out, x, layout, rounds):
    """Tiles go round the blocks of a cluster, ``rounds`` times to the next one: out is (elements, blocks)."""
    blocks, rank, bx, tid = mo.cluster_dim().x, mo.cluster_rank(), mo.block_idx().x, mo.thread_idx().x
    elements = mo.size(layout)
    mine, comes, bars = mo.shared_array(x.dtype, layout), mo.shared_array(x.dtype, layout), mo.mbarrier_array(2)
    next_one = mo.map_shared_rank(comes, (rank + 1) % blocks)
    if tid == 0:
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    for i in range(tid, elements, BLOCK):
        mine[i] = x[i, bx]
    for k in range(rounds):
        mo.fence_proxy_async()
        mo.cluster_sync()
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bars, 1, elements * x.dtype.bytes)
            mo.copyto(mo.BulkCopy(), next_one, mine, barrier=(bars, 1))
        mo.mbarrier_wait(bars, 1, k % 2)
        mo.cluster_sync()
        for i in range(tid, elements, BLOCK):
            mine[i] = comes[i]
    mo.sync_threads()
    for i in range(tid, elements, BLOCK):
        out[i, bx] = mine[i]
    mo.cluster_sync()


@mo.kernel
def prefetch_kernel(out, tma, x, run: mo.Constexpr, hint: mo.Constexpr):
    """A tile and a run on their way to L2 before anybody asks for them: out is (elements of a tile, tiles), plus x."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    smem = mo.shared_array(tma.dtype, tma.smem_layout)
    gT, gX = mo.tile(tma.tensor, tma.tile, (bx, 0)), mo.tile(x, (run,), (bx,))  # coordinates, (run)
    if tid == 0:
        mo.prefetch(tma, gT, hint=hint)
        mo.prefetch(gX, hint=hint)
        mo.prefetch(gX, size=run // 2)
    load_tile(tma, smem)
    for i in range(tid, run, BLOCK):
        out[i, bx] = smem[i] + gX[i]


@mo.kernel
def apart_kernel(out, x, rows: mo.Constexpr, columns: mo.Constexpr):
    """A tile of a row-major matrix into padded rows of shared memory and back, row by row."""
    smem = mo.shared_array(x.dtype, mo.make_layout((rows, columns), (columns + 16, 1)))
    bars, tid, bx, by = mo.mbarrier_array(1), mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    gX, gO = (mo.tile(t, (rows, columns), (bx, by)) for t in (x, out))
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, rows * columns * x.dtype.bytes)
        mo.copyto(mo.BulkCopy(), smem, gX, barrier=(bars, 0))
    mo.sync_threads()
    mo.mbarrier_wait(bars, 0, 0)
    if tid == 0:
        mo.copyto(mo.BulkCopy(), gO, smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@mo.kernel
def reduce_kernel(out, x, run: mo.Constexpr, by: mo.Constexpr):
    """Each block combines its run of x with that of out."""
    smem, tid, bx = mo.shared_array(x.dtype, run), mo.thread_idx().x, mo.block_idx().x
    gX, gO = mo.tile(x, (run,), (bx,)), mo.tile(out, (run,), (bx,))
    for i in range(tid, run, BLOCK):
        smem[i] = gX[i]
    store_run(mo.BulkReduce(by), gO, smem)
