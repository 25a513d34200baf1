"""Programs whose threads signal to each other: in clusters, between blocks, from copies to warps, ported by habit.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from ports import Port, floats

# --- tokens permuted to their experts by one cluster, whose blocks count for each other (MoE dispatch) ----------------


@mo.jit
def put_in_order(order, base, expert, first, last, lane):
    """One warp gives places to its block's tokens, 32 at a time: equal ones in a warp follow each other."""
    for begin in range(first, last, 32):
        here = expert[begin + lane] if begin + lane < last else -1
        same = mo.match_any(here)
        before = mo.popcount(same & ((mo.uint32(1) << lane) - 1))
        if here >= 0:
            order[base[here] + before] = begin + lane
        mo.sync_warp()
        if here >= 0 and before == 0:
            base[here] += mo.popcount(same)
        mo.sync_warp()


@mo.kernel
def dispatch_kernel(out, order, offsets, x, expert, count: mo.Constexpr):
    """Each block counts a part of the tokens, and reads what all of its cluster have counted."""
    tid, rank, blocks = mo.thread_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    counts, base = mo.shared_array(mo.int32, count), mo.shared_array(mo.int32, count)
    scratch, tokens = mo.shared_array(mo.int32, 4), mo.size(x, 0)
    part = mo.ceil_div(tokens, blocks)
    first, last = rank * part, min((rank + 1) * part, tokens)
    if tid < count:
        counts[tid] = 0
    mo.sync_threads()
    for i in range(first + tid, last, 128):
        mo.atomic_add(counts, expert[i], 1)
    mo.cluster_sync()                                   # all have counted
    before, total = 0, 0
    if tid < count:
        for other in range(blocks):
            there = mo.map_shared_rank(counts, other)[tid]
            total += there
            before += there if other < rank else 0
    start = mo.block_scan(total, scratch, inclusive=False)
    if tid < count:
        base[tid] = start + before
        if rank == 0:
            offsets[tid] = start
    mo.cluster_sync()                                   # all have read
    if mo.warp_idx() == 0:
        put_in_order(order, base, expert, first, last, mo.lane_idx())
    mo.cluster_sync()
    for i in range(first, last):
        for column in range(tid, mo.size(x, 1), 128):
            out[i, column] = x[order[i], column]


def dispatch(out, order, offsets, x, expert):
    dispatch_kernel.launch(out, order, offsets, x, expert, 11, grid=4, block=128, cluster=4)


def draw_dispatch(rng, n):
    x, expert = floats(rng, n, 40, dtype=np.float16), rng.integers(0, 11, n).astype(np.int32)
    order, sizes = np.argsort(expert, kind="stable"), np.bincount(expert, minlength=11)
    return (np.full_like(x, np.nan), np.full(n, -1, np.int32), np.zeros(11, np.int32), x, expert), {
        0: x[order], 1: order, 2: sizes.cumsum() - sizes}


# --- a ring of sums: every block gets those of its cluster (all-reduce by st.async) -----------------------------------


@mo.kernel
def ring_kernel(out, x, blocks: mo.Constexpr):
    """In each turn a block sends on what it has got; the bytes complete on the receiver's mbarrier."""
    tid, after = mo.thread_idx().x, (mo.cluster_rank() + 1) % blocks
    inbox, full = mo.shared_array(mo.float32, (4, 32, blocks)), mo.mbarrier_array(blocks)       # (4, thread, turn)
    if tid == 0:
        for turn in mo.static_range(blocks - 1):
            mo.mbarrier_init(full, turn, 1)
        mo.fence_mbarrier_init()
        for turn in mo.static_range(blocks - 1):
            mo.mbarrier_arrive_expect_tx(full, turn, 16 * 32)
    mo.cluster_sync()                                   # all mbarriers are ready
    mine = mo.tile(x, (4,), (mo.block_idx().x * 32 + tid,))                                     # (4)
    passed, total = mo.make_fragment_like(mine), mo.make_fragment_like(mine)                    # (4)
    mo.copyto(passed, mine)
    mo.copyto(total, mine)
    for turn in mo.static_range(blocks - 1):
        mo.st_async(mo.map_shared_rank(inbox, after)[:, tid, turn], passed, barrier=(full, turn))
        mo.mbarrier_wait(full, turn, 0)
        mo.copyto(passed, inbox[:, tid, turn])
        total += passed
    mo.copyto(mo.tile(out, (4,), (mo.block_idx().x * 32 + tid,)), total)
    mo.cluster_sync()


def ring(out, x):
    ring_kernel.launch(out, x, 4, grid=x.shape[0] // 128, block=32, cluster=4)


def draw_ring(rng, n):
    x = floats(rng, n // 30 * 4, 128)
    sums = x.reshape(-1, 4, 128).astype(np.float64).sum(1, keepdims=True)
    return (np.full(x.size, np.nan, np.float32), x.reshape(-1)), {0: sums.repeat(4, 1).reshape(-1)}


# --- a channel of two slots from one block to another, by flags in global memory --------------------------------------


@mo.kernel
def channel_kernel(out, x, slots, sent, taken):
    """Lane 0 waits and signals for its warp; a release says that all lanes have written, or read."""
    tid, n = mo.thread_idx().x, mo.size(x)
    for turn in range(mo.ceil_div(n, 32)):
        i, slot = turn * 32 + tid, slots[turn % 2, None]                        # (32)
        if mo.block_idx().x == 0:
            while tid == 0 and mo.load(taken, 0) < turn - 1:
                mo.nanosleep(20)
            mo.sync_warp()
            slot[tid] = x[i] * 2 if i < n else 0
            mo.sync_warp()
            if tid == 0:
                mo.store(sent, 0, turn + 1)
        else:
            while tid == 0 and mo.load(sent, 0) <= turn:
                mo.nanosleep(20)
            mo.sync_warp()
            if i < n:
                out[i] = slot[tid] + 1
            mo.sync_warp()
            if tid == 0:
                mo.store(taken, 0, turn + 1)


def channel(out, x, slots, sent, taken):
    channel_kernel[2, 32](out, x, slots, sent, taken)


def draw_channel(rng, n):
    x, flags = rng.integers(0, 99, n).astype(np.int32), np.zeros(1, np.int32)
    return (np.full(n, -1, np.int32), x, np.full((2, 32), -1, np.int32), flags, flags.copy()), {0: 2 * x + 1}


# --- rows through a ring of stages: a warp issues bulk copies, four warps sum -----------------------------------------


@mo.kernel
def rows_kernel(out, x: mo.Static, stages: mo.Constexpr):
    """Each warp releases a stage by one arrival, when all of its lanes have read."""
    rows, columns = mo.shape(x)
    tid, warp, first, step = mo.thread_idx().x, mo.warp_idx(), mo.block_idx().x, mo.grid_dim().x
    ring = mo.shared_array(mo.float32, (columns, stages))
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    if tid == 0:
        for stage in mo.static_range(stages):
            mo.mbarrier_init(full, stage, 1)
            mo.mbarrier_init(empty, stage, 4)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for turn in range(mo.ceil_div(rows - first, step)):
        row, stage, phase = first + turn * step, turn % stages, turn // stages % 2
        if warp == 4:
            if mo.elect():
                mo.mbarrier_wait(empty, stage, phase ^ 1)
                mo.mbarrier_arrive_expect_tx(full, stage, 4 * columns)
                mo.copyto(mo.BulkCopy(), ring[:, stage], x[row, :], barrier=(full, stage))
        else:
            mo.mbarrier_wait(full, stage, phase)
            total = 0.0
            for column in range(tid, columns, 128):
                total += ring[column, stage]
            total = mo.warp_reduce(total)
            mo.sync_warp()                              # a shuffle orders no memory
            if mo.lane_idx() == 0:
                mo.mbarrier_arrive(empty, stage)
                mo.atomic_add(out, row, total)


def rows(out, x):
    rows_kernel[2, 160](out, x, 3)


def draw_rows(rng, n):
    x = floats(rng, n // 4, 200)
    return (np.zeros(n // 4, np.float32), x), {0: x.astype(np.float64).sum(1)}


# --- stacks that threads push to by compare-and-swap, read after a barrier of the grid (Treiber) ----------------------


@mo.kernel
def stacks_kernel(sums, heads, below, values):
    i, count = mo.block_idx().x * 32 + mo.thread_idx().x, mo.size(heads)
    if i < mo.size(values):
        stack = i % count
        top, found = -2, mo.load(heads, stack, order="relaxed")
        while top != found:
            top = found
            mo.store(below, i, top, order="relaxed")
            found = mo.atomic_cas(heads, stack, top, i, order="release")
    mo.grid_sync()
    if i < count:
        total, at = 0, heads[i]
        while at >= 0:
            total, at = total + values[at], below[at]
        sums[i] = total


def stacks(sums, heads, below, values):
    stacks_kernel[-(-values.shape[0] // 32), 32](sums, heads, below, values)


def draw_stacks(rng, n):
    values = rng.integers(0, 99, n).astype(np.int32)
    sums = np.array([values[i::5].sum() for i in range(5)])
    return (np.zeros(5, np.int32), np.full(5, -1, np.int32), np.full(n, -1, np.int32), values), {0: sums}


# --- int4 weights made float16 in registers, as A of a warpgroup's product (TileLang, dequantised matmul) -------------


@mo.kernel
def quantised_kernel(C, W, scales, tma_X, mma):
    """C (M, N) = scales * W (M, K) times X (N, K): eight weights in a word, tiles of X by TMA in a ring of two."""
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sX = mo.shared_array(tma_X.dtype, mo.tile_to_shape(tma_X.smem_layout, (*tma_X.tile, 2)))        # (bN, bK, 2)
    gX = mo.tile(tma_X.tensor, tma_X.tile, (by, None))                          # (bN, bK, k), coordinates
    pipe, thr = mo.PipelineTma(2, tma_X.bytes, consumers=1), mma.get_slice(tid)
    pipe.init()
    mo.sync_threads()
    tCcA = thr.partition_A(mo.identity_tensor((64, 64)))                        # (MMA, MMA_M, MMA_K), coordinates
    tCrA = mo.fragment(mo.shape(tCcA), mo.float16)                              # (MMA, MMA_M, MMA_K)
    tCrC = mma.partition_fragment_C((64, 32))                                   # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    ahead, state = pipe.producer_start(), pipe.consumer_start()
    for k in range(mo.size(gX, 2)):
        if tid == 0:
            pipe.producer_acquire(ahead)
            mo.copyto(tma_X, sX[:, :, ahead.stage], gX[:, :, k], barrier=pipe.barrier(ahead))
        ahead = ahead.next()
        for i in mo.static_range(0, mo.size(tCcA), 2):                          # a pair is in one word
            m, kk = tCcA[i]
            word, scale = W[bx * 64 + m, (k * 64 + kk) // 8], scales[bx * 64 + m, k]
            for j in mo.static_range(2):
                tCrA[i + j] = ((word >> 4 * ((kk + j) % 8) & 15).to(mo.int32) - 8).to(mo.float16) * scale
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        mo.gemm(mma, tCrA, thr.partition_fragment_B(sX[:, :, state.stage]), tCrC)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        if tid == 0:
            pipe.consumer_release(state)
        state = state.next()
    mo.copyto(thr.partition_C(mo.tile(C, (64, 32), (bx, by))), tCrC)


def quantised(C, W, scales, X):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 32, a_source="registers"))
    stage = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (32, 64))
    tma_X = mo.make_tma_copy(mo.TmaLoad(), X, stage)
    quantised_kernel[(C.shape[0] // 64, C.shape[1] // 32), 128](C, W, scales, tma_X, mma)


def draw_quantised(rng, n):
    M, N, K = 64, 32, n // 32 * 64
    W, X = rng.integers(0, 1 << 32, (M, K // 8)).astype(np.uint32), floats(rng, N, K, dtype=np.float16)
    scales = rng.uniform(0.05, 0.2, (M, K // 64)).astype(np.float16)
    numbers = (W[:, :, None] >> 4 * np.arange(8, dtype=np.uint32) & 15).astype(np.float64) - 8
    weights = (numbers.reshape(M, K) * scales.repeat(64, 1)).astype(np.float16).astype(np.float64)
    return (np.full((M, N), np.nan, np.float32), W, scales, X), {0: weights @ X.T.astype(np.float64)}


PORTS = [Port("dispatch in a cluster", dispatch, draw_dispatch, tolerance=0), Port("ring of sums", ring, draw_ring),
         Port("channel of two blocks", channel, draw_channel, tolerance=0), Port("ring of rows", rows, draw_rows),
         Port("stacks", stacks, draw_stacks, tolerance=0),
         Port("quantised product", quantised, draw_quantised, tolerance=1e-3)]
