"""Bulk copies with one fault each, by name; without one the kernels are right.

In: the name of a fault.  Out: ``run_stores``, ``run_loads``, ``run_sends``, ``run_segments``: (report, what came out,
what should have).
"""

from __future__ import annotations

import numpy as np

import moye as mo

RUN = 1024


@mo.kernel
def stores(out, adds: mo.Constexpr, fault: mo.Constexpr = ""):
    """Two runs through one buffer: all 64 threads write, thread 0 stores or adds."""
    smem, tid, bx = mo.shared_array(out.dtype, RUN), mo.thread_idx().x, mo.block_idx().x
    runs = mo.tile(out, (RUN,), (None,))                                # (RUN, runs)
    first = 0 if fault == "same-run" else 2 * bx
    copy = mo.BulkReduceAdd() if adds else mo.BulkCopy()
    for turn in mo.static_range(2):
        for i in range(tid, RUN, 64):
            smem[i] = mo.float32(1000 * turn) + i
        if fault not in ("no-fence", "late-fence") and (fault != "other-fence" or tid == 0):
            mo.fence_proxy_async()
        mo.sync_threads()
        if fault == "late-fence":
            mo.fence_proxy_async()
        if tid == 0 or (fault == "every-lane" and tid < 32):
            run = runs[:, first + turn + (fault == "outside")]
            if fault == "shifted":
                mo.copyto(copy, run, smem.moved(16 * (bx + 1)))
            else:
                mo.copyto(copy, run, smem)
            if fault != "no-commit":
                mo.tma_store_arrive()
            if fault not in ("no-wait", "other-wait") and (turn == 0 or fault != "no-last-wait"):
                mo.tma_store_wait(0, read=fault != "read-back")
        if fault == "other-wait" and tid == 1:
            mo.tma_store_wait(0, read=True)
        if fault != "no-barrier":
            mo.sync_threads()
        if fault in ("read-back", "read-back-early"):
            smem[tid] = runs[tid, first + turn]
            mo.sync_threads()


def run_stores(fault="", adds=False, **options):
    """Two blocks of two runs each."""
    C = np.full(4 * RUN, 1 if adds else np.nan, np.float32)
    tile = np.arange(RUN, dtype=np.float32)
    expected = np.tile(np.concatenate([tile, tile + 1000]), 2) + (1 if adds else 0)
    return mo.check(stores, lints=False, **options)[2, 64](C, adds, fault), C, expected


@mo.kernel
def loads(out, A, offset, count, fault: mo.Constexpr = ""):
    """Two runs through one buffer: thread 0 loads ``count`` elements, all 64 threads read them."""
    smem, bars = mo.shared_array(A.dtype, RUN), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    mo.assume(offset % 4 == 0)
    mo.assume(count % 4 == 0)
    gA = mo.tile(A, (RUN,), (None,), ragged=True)                       # (RUN, runs)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for turn in mo.static_range(2):
        if tid == 0:
            if fault != "no-expect":
                mo.mbarrier_arrive_expect_tx(bars, 0, count * 4)
            run = gA[:, 2 * bx + turn].moved(offset)
            if fault == "prefetch":
                mo.prefetch(run, size=count)
            mo.copyto(mo.BulkCopy(), smem, run, barrier=(bars, 0), size=count)
            if fault == "init-again":
                mo.mbarrier_init(bars, 0, 1)
        if fault != "no-wait" and (fault != "one-waits" or tid == 0):
            mo.mbarrier_wait(bars, 0, turn)
        for i in range(tid, count, 64):
            out[i, 2 * bx + turn] = smem[i]
        if fault == "overwrite":
            smem[tid] = mo.float32(0)
        if fault not in ("no-barrier", "overwrite"):
            mo.sync_threads()


def run_loads(fault="", offset=0, count=RUN, **options):
    """Two blocks of two runs each."""
    A = np.random.default_rng(3).standard_normal(4 * RUN).astype(np.float32)
    out = np.full((RUN, 4), np.nan, np.float32, order="F")
    expected = np.full_like(out, np.nan)
    if offset == 0 and count <= RUN:
        expected[:count] = A.reshape(4, RUN).T[:count]
    return mo.check(loads, lints=False, **options)[2, 64](out, A, offset, count, fault), out, expected


@mo.kernel
def sends(out, x, fault: mo.Constexpr = ""):
    """Each block of a cluster sends its run to the next one, twice; there every thread reads it."""
    blocks, rank, bx, tid = mo.cluster_dim().x, mo.cluster_rank(), mo.block_idx().x, mo.thread_idx().x
    mine, comes, bars = mo.shared_array(x.dtype, RUN), mo.shared_array(x.dtype, RUN), mo.mbarrier_array(2)
    after = mo.map_shared_rank(comes, (rank + 1) % blocks)
    if tid == 0:
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
    if fault == "block-barrier":
        mo.sync_threads()
    else:
        mo.cluster_sync()
    for turn in mo.static_range(2):
        for i in range(tid, RUN, 64):
            mine[i] = x[i, bx] + mo.float32(turn)
        if fault != "no-fence":
            mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0 or (fault == "every-lane" and tid < 32):
            if tid == 0:
                mo.mbarrier_arrive_expect_tx(bars, 1, RUN * 4 - 16 * (fault == "few-bytes"))
            mo.copyto(mo.BulkCopy(), after, mine, barrier=(bars, 1))
        if fault == "refilled":
            mine[tid] = mo.float32(0)
        if fault != "no-wait":
            mo.mbarrier_wait(bars, 1, turn)
        for i in range(tid, RUN, 64):
            out[i, bx, turn] = comes[i]
        if fault != "no-barrier" or turn == 1:
            if fault == "within":
                mo.sync_threads()
            else:
                mo.cluster_arrive(relaxed=fault == "relaxed" or (fault == "relaxed-end" and turn == 1))
                mo.cluster_wait()


def run_sends(fault="", **options):
    """Two clusters of two blocks."""
    x = np.asfortranarray(np.random.default_rng(4).standard_normal((RUN, 4)).astype(np.float32))
    out = np.full((RUN, 4, 2), np.nan, np.float32, order="F")
    report = mo.check(sends, lints=False, **options).launch(out, x, fault, grid=4, block=64, cluster=2)
    other = x[:, [1, 0, 3, 2]]
    return report, out, np.stack([other, other + 1], axis=2)


@mo.kernel
def segments(out, x, starts, sizes):
    """One segment of x a block, from ``starts`` on; where they begin and end is known when the kernel runs."""
    smem, bars = mo.shared_array(x.dtype, RUN), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    start, size = starts[bx], sizes[bx]
    mo.assume(start % 4 == 0)
    mo.assume(size % 4 == 0)
    run = mo.tile(x, (RUN,), (0,), ragged=True).moved(start)            # (RUN)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, size * 4)
        mo.copyto(mo.BulkCopy(), smem, run, barrier=(bars, 0), size=size)
    mo.mbarrier_wait(bars, 0, 0)
    for i in range(tid, size, 64):
        out[i, bx] = smem[i]


def run_segments(starts=(0, 100, 1004), sizes=(100, 904, 44), **options):
    x = np.random.default_rng(6).standard_normal(sum(sizes)).astype(np.float32)
    out = np.full((2 * RUN, len(sizes)), np.nan, np.float32, order="F")
    expected = out.copy()
    for column, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        part = x[start:start + max(size, 0)]
        expected[:len(part), column] = part
    report = mo.check(segments, lints=False, **options)[len(sizes), 64](
        out, x, np.array(starts, np.int32), np.array(sizes, np.int32))
    return report, out, expected
