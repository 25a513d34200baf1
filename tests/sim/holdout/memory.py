"""Faults of layouts and of memory, A6 to B11, and their twins."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 8)))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((32, 2)))


@table.faulty("A6", lambda: (zeros(32, 8), ramp(32, 8)), block=32, options={"lints": True})
@mo.kernel
def swizzled_in_plain_out(out, x, bad: mo.Constexpr):
    """Columns go in through a swizzled layout and come out through a plain one over the same memory."""
    tid = mo.thread_idx().x
    memory = mo.shared_array(mo.float32, mo.make_layout((32, 8)))
    inner = mo.composition(mo.Swizzle(2, 0, 3), mo.make_layout((32, 8)))
    write = memory.with_layout(inner)
    for k in range(8):
        write[tid, k] = x[tid, k]
    mo.sync_warp()
    read = memory if bad else write
    for k in range(8):
        out[tid, k] = read[31 - tid, k]


@table.faulty("A6", lambda: (zeros(64), ramp(64, dtype=np.float16)), block=64, options={"lints": True})
@mo.kernel
def two_swizzles(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.float16, mo.make_layout(64))
    a = pool.with_layout(mo.composition(mo.Swizzle(2, 1, 3), mo.make_layout((8, 8))))
    b = pool.with_layout(mo.composition(mo.Swizzle(1, 1, 3), mo.make_layout((8, 8))))
    a[tid % 8, tid // 8] = x[tid]
    mo.sync_threads()
    out[tid] = (b if bad else a)[tid // 8, tid % 8].to(mo.float32)


@table.faulty("A10", lambda: (zeros(64, 4), ramp(64, 4)), block=128)
@mo.kernel
def copy_of_half_the_block(out: mo.Static, x: mo.Static, bad: mo.Constexpr):
    """64 threads make the tiled copy, 128 run through it."""
    tid = mo.thread_idx().x
    if bad:
        thr = COPY.get_slice(tid)
        mo.copyto(COPY, thr.partition_D(out), thr.partition_S(x))
    else:
        if tid < 64:
            thr = COPY.get_slice(tid)
            mo.copyto(COPY, thr.partition_D(out), thr.partition_S(x))


@table.faulty("A10", lambda: (zeros(8, 8), ramp(8, 8), ramp(8, 8)), block=32)
@mo.kernel
def mma_of_too_few(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    small = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 4)))
    thr = (MMA if bad else small).get_slice(tid)
    gC = thr.partition_C(C)
    acc = thr.make_fragment_C(gC)
    acc.fill(0)
    mo.gemm(MMA if bad else small, thr.partition_A(A), thr.partition_B(B), acc)
    mo.copyto(gC, acc)


@table.faulty("A11", lambda: (zeros(32), 70000), block=32)
@mo.kernel
def product_of_sizes(out, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if bad:
        position = (n * n + tid) % 32
    else:
        position = ((mo.int64(1) * n * n + tid) % 32).to(mo.int32)
    out[position] = 1.0


@table.faulty("A11", lambda: (zeros(64), 2**31 - 20), block=64)
@mo.kernel
def counter_wraps(out, start, bad: mo.Constexpr):
    """A running position leaves 32 bits in the middle of the block."""
    tid = mo.thread_idx().x
    if bad:
        position = start + tid
        out[tid] = position.to(mo.float32)
    else:
        position = start.to(mo.int64) + tid
        out[tid] = position.to(mo.float32)


@table.faulty("A11", lambda: (zeros(32, dtype=np.int32), 2**40), block=32)
@mo.kernel
def narrowed_before_remainder(out, big, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    where = big + tid * 3
    if bad:
        out[tid] = where.to(mo.int32) % 32
    else:
        out[tid] = (where % 32).to(mo.int32)


@table.faulty("A11", lambda: (zeros(40, dtype=np.int32),), block=40)
@mo.kernel
def mask_by_shift(out, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if bad:
        out[tid] = 3 << tid
    else:
        out[tid] = ((mo.int64(3) << tid) % 1000).to(mo.int32)


@table.faulty("B6", lambda: (zeros(64), ramp(60)), block=64)
@mo.kernel
def halo_not_filled(out, x, bad: mo.Constexpr):
    """A stencil whose right neighbour of the last element nobody stores."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 66)
    s[tid + 1] = x[mo.min(tid, 59)]
    if tid == 0:
        s[0] = 0.0
        if not bad:
            s[65] = 0.0
    mo.sync_threads()
    out[tid] = s[tid] + s[tid + 1] + s[tid + 2]


@table.faulty("B6", lambda: (zeros(32), ramp(32)), block=64)
@mo.kernel
def scratch_of_absent_warps(out, x, bad: mo.Constexpr):
    """Sums of four warps are added though the block has two."""
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    scratch = mo.shared_array(mo.float32, 4)
    value = mo.warp_reduce(x[lane], "add")
    if lane == 0:
        scratch[warp] = value
    mo.sync_threads()
    total = 0.0
    for w in range(4 if bad else 2):
        total += scratch[w]
    if tid < 32:
        out[tid] = total


@table.faulty("B6", lambda: (zeros(32, dtype=np.int32), ramp(100, dtype=np.int32)), block=32)
@mo.kernel
def counters_not_cleared(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    bins = mo.shared_array(mo.int32, 8)
    if not bad:
        if tid < 8:
            bins[tid] = 0
        mo.sync_warp()
    for i in range(tid, mo.size(x), 32):
        mo.atomic_add(bins, x[i] % 8, 1)
    mo.sync_warp()
    if tid < 8:
        out[tid] = bins[tid]


@table.faulty("B6", lambda: (zeros(2), zeros(64), ramp(64)), block=32, grid=2, options={"poison": ("workspace",)})
@mo.kernel
def workspace_partly_written(out, workspace, x, bad: mo.Constexpr):
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if bad:
        if tid < 31:
            workspace[bx * 32 + tid] = x[bx * 32 + tid]
    else:
        workspace[bx * 32 + tid] = x[bx * 32 + tid]
    mo.sync_threads()
    if tid == 0:
        total = 0.0
        for i in range(32):
            total += workspace[bx * 32 + i]
        out[bx] = total


@table.faulty("B7", lambda: (zeros(32), ramp(32, 4)), block=32)
@mo.kernel
def sum_not_begun(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    acc = mo.fragment((1,), mo.float32)
    if not bad:
        acc.fill(0)
    for k in range(4):
        acc[0] = acc[0] + x[tid, k]
    out[tid] = acc[0]


@table.faulty("B7", lambda: (zeros(32), ramp(32), 20), block=32)
@mo.kernel
def loaded_in_one_arm(out, x, n, bad: mo.Constexpr):
    """Lanes beyond n never load their fragment, and all store it."""
    tid = mo.thread_idx().x
    part = mo.fragment((1,), mo.float32)
    if not bad:
        part.fill(-1)
    if tid < n:
        part[0] = x[tid]
    out[tid] = part[0] * 2.0


@table.faulty("B7", lambda: (zeros(8, 8), ramp(8, 4), ramp(8, 4)), block=64)
@mo.kernel
def accumulators_not_cleared(C: mo.Static, A: mo.Static, B: mo.Static, bad: mo.Constexpr):
    thr = MMA.get_slice(mo.thread_idx().x)
    gC = thr.partition_C(C)
    acc = thr.make_fragment_C(gC)
    if not bad:
        acc.fill(0)
    mo.gemm(MMA, thr.partition_A(A), thr.partition_B(B), acc)
    mo.copyto(gC, acc)


@table.faulty("B7", lambda: (zeros(32), ramp(32, 3)), block=32)
@mo.kernel
def prefetched_registers(out, x, bad: mo.Constexpr):
    """The register that holds the next column is used in the first pass already."""
    tid = mo.thread_idx().x
    ahead = mo.fragment((1,), mo.float32)
    total = 0.0
    if not bad:
        ahead[0] = x[tid, 0]
    for k in range(3):
        total += ahead[0]
        if k + 1 < 3:
            ahead[0] = x[tid, k + 1]
    out[tid] = total


@table.faulty("B7", lambda: (zeros(32), ramp(32), 9), block=32)
@mo.kernel
def predicated_copy_not_cleared(out, x, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    part = mo.fragment((1,), mo.float32)
    mo.copyto(part, mo.tile(x, (1,), (tid,)), pred=tid < n, zero_fill=not bad)
    total = mo.warp_reduce(part[0], "add")
    if tid == 0:
        out[0] = total


@table.faulty("B8", lambda: (zeros(4), ramp(100), 100), block=32)
@mo.kernel
def ragged_chunks(out, x, n, bad: mo.Constexpr):
    """The last chunk of a stream is partly that of the chunk before."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for chunk in range(mo.ceil_div(n, 32)):
        i = chunk * 32 + tid
        if i < n:
            s[tid] = x[i]
        if not bad:
            if i >= n:
                s[tid] = 0.0
        mo.sync_threads()
        if tid == 0:
            total = 0.0
            for j in range(32):
                total += s[j]
            out[chunk] = total
        mo.sync_threads()


@table.faulty("B8", lambda: (zeros(64), ramp(64, 5), 5), block=64)
@mo.kernel
def unrolled_columns(out, x, n, bad: mo.Constexpr):
    """Two columns at a time; with an odd number the second buffer keeps the former column."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    for k in range(0, n, 2):
        s[tid, 0] = x[tid, k]
        if k + 1 < n:
            s[tid, 1] = x[tid, k + 1]
        else:
            if not bad:
                s[tid, 1] = 0.0
        mo.sync_threads()
        total += s[63 - tid, 0] + s[63 - tid, 1]
        mo.sync_threads()
    out[tid] = total


@table.faulty("B8", lambda: (zeros(32, 3), ramp(32, 80), 80), block=32)
@mo.kernel
def predicated_async_rows(out, x, n, bad: mo.Constexpr):
    """cp.async with a predicate and no zero fill."""
    tid = mo.thread_idx().x
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        i = k * 32 + tid
        mo.copyto(atom, mo.tile(s, (1,), (tid,)), _one(x, tid, i), pred=i < n,
                  zero_fill=not bad)
        mo.cp_async_wait()
        mo.sync_warp()
        out[tid, k] = s[31 - tid]
        mo.sync_warp()


def _one(x, row, column):
    """A view of one element."""
    return mo.domain_offset((row, column), x).with_layout(mo.make_layout((1,)))


@table.faulty("B9", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def cleared_after_issue(out, x, bad: mo.Constexpr):
    """A tile is cleared by threads while a cp.async into it is under way."""
    tid = mo.thread_idx().x
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    s = mo.shared_array(mo.float32, 64)
    if not bad:
        s[tid] = 0.0
        mo.sync_threads()
    if tid < 48:
        mo.copyto(atom, mo.tile(s, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    if bad:
        s[tid] = 0.0
    mo.cp_async_wait()
    mo.sync_threads()
    out[tid] = s[63 - tid]


@table.faulty("B9", lambda: (ramp(64), zeros(64)), block=64)
@mo.kernel
def global_source_overwritten(x, out, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    s = mo.shared_array(mo.float32, 64)
    mo.copyto(atom, mo.tile(s, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    if bad:
        x[tid] = 0.0
    mo.cp_async_wait()
    if not bad:
        x[tid] = 0.0
    mo.sync_threads()
    out[tid] = s[63 - tid]


@table.faulty("B9", lambda: (ramp(128), zeros(128)), block=128)
@mo.kernel
def other_thread_overwrites_source(x, out, bad: mo.Constexpr):
    """A block barrier is no wait: another thread overwrites what a cp.async still reads."""
    tid = mo.thread_idx().x
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    s = mo.shared_array(mo.float32, 128)
    mo.copyto(atom, mo.tile(s, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    if not bad:
        mo.cp_async_wait()
    mo.sync_threads()
    x[127 - tid] = 5.0
    mo.cp_async_wait()
    mo.sync_threads()
    out[tid] = s[127 - tid]


@table.faulty("B11", lambda: (zeros(64), ramp(64, 3)), block=64)
@mo.kernel
def tile_of_each_pass(out, x, bad: mo.Constexpr):
    """Shared memory allocated in a loop holds nothing of the pass before."""
    tid = mo.thread_idx().x
    total = 0.0
    for k in range(3):
        s = mo.shared_array(mo.float32, 64)
        if bad:
            if k != 1:
                s[tid] = x[tid, k]
        else:
            s[tid] = x[tid, k]
        mo.sync_threads()
        total += s[63 - tid]
        mo.sync_threads()
    out[tid] = total


@table.faulty("B2", lambda: (zeros(32), ramp(32, 6)), block=32)
@mo.kernel
def stage_not_wrapped(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32, 3))
    other = mo.shared_array(mo.float32, (32, 3))
    total = 0.0
    for k in range(6):
        stage = k if bad else k % 3
        s[tid, stage] = x[tid, k]
        other[tid, k % 3] = x[tid, k]
        mo.sync_warp()
        total += s[31 - tid, stage] + other[31 - tid, k % 3]
        mo.sync_warp()
    out[tid] = total


@table.faulty("B1", lambda: (zeros(30, 40), ramp(30, 40)), block=32, grid=(1, 2))
@mo.kernel
def rows_of_a_ragged_tile(out, x, bad: mo.Constexpr):
    """Rows are guarded, columns are not: column 40 of row 3 lies in memory all the same."""
    tid, by = mo.thread_idx().x, mo.block_idx().y
    M, N = mo.shape(x)
    for j in range(32):
        column = by * 32 + j
        inside = tid < M if bad else (tid < M and column < N)
        if inside:
            out[tid, column] = x[tid, column]
