"""Right kernels that look wrong: none may be accused."""

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


def store(array):
    """A TMA store of such tiles."""
    return mo.make_tma_copy(mo.TmaStore(), array, TILE)


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def all_write_one_value(out, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 2)
    s[0] = 7.0
    s[1] = x[3]
    mo.sync_threads()
    out[tid] = s[0] + s[1]


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def flag_set_by_many(out, x):
    """Whoever sees a large element says so; the same True from all."""
    tid = mo.thread_idx().x
    found = mo.shared_array(mo.int32, 1)
    if tid == 0:
        found[0] = 0
    mo.sync_threads()
    if x[tid] > 10.0:
        found[0] = 1
    mo.sync_threads()
    out[tid] = found[0].to(mo.float32)


@table.right(lambda: (zeros(1), ramp(128)), block=32, grid=4)
@mo.kernel
def blocks_set_one_flag(out, x):
    if x[mo.block_idx().x * 32 + mo.thread_idx().x] > 3.0:
        out[0] = 1.0


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def warp_reduction_in_shared(out, x):
    """The last five steps of a tree within one warp, with sync_warp."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    mo.sync_threads()
    if tid < 32:
        for p in mo.static_range(6):
            d = 32 >> p
            value = s[tid] + (s[tid + d] if d == 32 else s[(tid + d) % 64])
            mo.sync_warp()
            s[tid] = value
            mo.sync_warp()
        if tid == 0:
            out[0] = s[0]


@table.right(lambda: (zeros(128), ramp(128), 64), block=128)
@mo.kernel
def whole_warps_return(out, x, n):
    tid = mo.thread_idx().x
    if tid >= n:
        return
    s = mo.shared_array(mo.float32, 128)
    s[tid] = x[tid]
    mo.sync_threads()
    out[tid] = s[n - 1 - tid]


@table.right(lambda: (zeros(64), ramp(64), 45), block=64)
@mo.kernel
def lanes_return(out, x, n):
    """Some lanes of a warp return before a barrier, which need not come."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    if tid >= n:
        return
    for k in range(2):
        s[tid] = x[tid] + k
        mo.sync_threads()
        out[tid] = s[n - 1 - tid]
        mo.sync_threads()


@table.right(lambda: (zeros(64), ramp(64), 50), block=64)
@mo.kernel
def load_compute_store_guarded(out, x, n):
    """Load, arithmetic and store under one predicate, written three times."""
    tid = mo.thread_idx().x
    part = mo.fragment((1,), mo.float32)
    if tid < n:
        part[0] = x[tid]
    part[0] = part[0] * 2.0 + 1.0
    if tid < n:
        out[tid] = part[0]


@table.right(lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def shuffle_down_tail(out, x):
    """Upper lanes read themselves; their sums are not used."""
    tid = mo.thread_idx().x
    value = x[tid]
    for p in mo.static_range(5):
        value += mo.shuffle_down(value, 16 >> p)
    if tid == 0:
        out[0] = value


@table.right(lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def shuffle_of_a_part(out, x):
    """A part of the warp shuffles in its own mask; what leaves the mask is thrown away."""
    tid = mo.thread_idx().x
    if tid < 16:
        value = x[tid]
        other = mo.shuffle_up(value, 1, mask=0xFFFF)
        if tid > 0:
            value += other
        out[tid] = value


@table.right(lambda: (zeros(32), ramp(32)), block=24)
@mo.kernel
def block_of_24(out, x):
    tid = mo.thread_idx().x
    other = mo.shuffle_xor(x[tid], 8, mask=0x00FFFFFF)
    if tid < 16:
        out[tid] = other


@table.right(lambda: (zeros(300), ramp(300), zeros(1, dtype=np.int32)), block=64, grid=2)
@mo.kernel
def dynamic_tiles(out, x, counter):
    """A queue: thread 0 takes a number and hands it over through shared memory."""
    tid = mo.thread_idx().x
    mine = mo.shared_array(mo.int32, 1)
    n = mo.size(x)
    if tid == 0:
        mine[0] = mo.atomic_add(counter, 0, 1)
    mo.sync_threads()
    tile = mine[0]
    while tile * 64 < n:
        i = tile * 64 + tid
        if i < n:
            out[i] = x[i] * 2.0
        mo.sync_threads()
        if tid == 0:
            mine[0] = mo.atomic_add(counter, 0, 1)
        mo.sync_threads()
        tile = mine[0]


@table.right(lambda: (zeros(256), load(16, 256), zeros(1, dtype=np.int32)), block=64, grid=2)
@mo.kernel
def tile_numbers_by_mbarrier(out, tma, counter):
    """A producer warp takes tiles from a queue, loads them, and hands number and tile over by one mbarrier."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    number = mo.shared_array(mo.int32, 2)
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid == 0:
        for i in mo.static_range(2):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 32)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase, going = 0, 0, True
    if tid == 32:
        while going:
            mo.mbarrier_wait(empty, stage, phase ^ 1)
            tile = mo.atomic_add(counter, 0, 1)
            number[stage] = tile
            if tile < 8:
                mo.mbarrier_arrive_expect_tx(full, stage, tma.bytes)
                mo.copyto(tma, s[:, :, stage], mo.tile(tma.tensor, tma.tile, (0, tile)), barrier=(full, stage))
            else:
                mo.mbarrier_arrive(full, stage)
                going = False
            stage += 1
            if stage == 2:
                stage, phase = 0, phase ^ 1
    elif tid < 32:
        while going:
            mo.mbarrier_wait(full, stage, phase)
            tile = number[stage]
            if tile < 8:
                out[tile * 32 + tid] = s[tile, tid, stage]
            else:
                going = False
            mo.mbarrier_arrive(empty, stage)
            stage += 1
            if stage == 2:
                stage, phase = 0, phase ^ 1


@table.right(lambda: (zeros(8), ramp(32, 8), 20), block=32)
@mo.kernel
def running_best(out, x, threshold):
    """A single element that is kept on purpose unless a better one comes."""
    tid = mo.thread_idx().x
    best = mo.shared_array(mo.float32, 1)
    if tid == 0:
        best[0] = 0.0
    mo.sync_warp()
    for k in range(8):
        top = mo.warp_reduce(x[tid, k], "max")
        if tid == 0:
            if top > best[0]:
                best[0] = top
        mo.sync_warp()
        if tid == 0:
            out[k] = best[0]
        mo.sync_warp()


@table.right(lambda: (ramp(200), 200), block=64, grid=2)
@mo.kernel
def in_place_by_owner(x, n):
    for i in range(mo.block_idx().x * 64 + mo.thread_idx().x, n, 128):
        x[i] = x[i] * x[i]
        x[i] = x[i] + 1.0


@table.right(lambda: (store(zeros(16, 160, order="C")), ramp(16, 160)), block=64)
@mo.kernel
def double_buffered_stores(tma, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 2)))
    for k in range(5):
        if tid == 0:
            mo.tma_store_wait(1)
        mo.sync_threads()
        for i in range(tid // 32, 16, 2):
            s[i, tid % 32, k % 2] = x[i, k * 32 + tid % 32]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(tma, mo.tile(tma.tensor, tma.tile, (0, k)), s[:, :, k % 2])
            mo.tma_store_arrive()
    if tid == 0:
        mo.tma_store_wait(0)


@table.right(lambda: (zeros(32), load(16, 160), 5), block=64)
@mo.kernel
def producer_skips_the_tail(out, tma, n):
    """The producer leaves without waiting for the last stages, as nobody loads into them again."""
    tid = mo.thread_idx().x
    s = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (16, 32, 3)))
    pipe = mo.PipelineTma(3, tma.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if tid >= 32:
        if tid == 32:
            state = pipe.producer_start()
            for k in range(n):
                pipe.producer_acquire(state)
                mo.copyto(tma, s[:, :, state.stage], mo.tile(tma.tensor, tma.tile, (0, k)), barrier=pipe.barrier(state))
                state = state.next()
        return
    state, total = pipe.consumer_start(), 0.0
    for k in range(n):
        pipe.consumer_wait(state)
        total += s[k, tid, state.stage]
        if k + 3 < n:
            mo.sync_warp()
            if tid == 0:
                pipe.consumer_release(state)
        state = state.next()
    out[tid] = total


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def split_barrier(out, x):
    """Arrive, do something of one's own, wait."""
    tid = mo.thread_idx().x
    s, bar = mo.shared_array(mo.float32, 64), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bar, 0, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    total = 0.0
    for k in range(4):
        s[tid] = x[tid] + k
        mo.mbarrier_arrive(bar, 0)
        own = x[(tid * 7) % 64] * k
        mo.mbarrier_wait(bar, 0, 0)
        total += s[63 - tid] + own
        mo.mbarrier_arrive(bar, 0)
        own = own + 1.0
        mo.mbarrier_wait(bar, 0, 1)
        total += own
    out[tid] = total


@table.right(lambda: (zeros(64, 4), ramp(64, 4)), block=128)
@mo.kernel
def named_pairs(out, x):
    """Full and empty as named barriers, with arrive and sync; the last "empty" is left out."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    if tid < 64:
        for k in range(4):
            if k >= 2:
                mo.barrier_sync(3 + k % 2, 128)
            s[tid, k % 2] = x[tid, k]
            mo.barrier_arrive(1 + k % 2, 128)
    else:
        for k in range(4):
            mo.barrier_sync(1 + k % 2, 128)
            out[tid - 64, k] = s[127 - tid, k % 2]
            if k < 2:
                mo.barrier_arrive(3 + k % 2, 128)


@table.right(lambda: (zeros(32, 4), ramp(32, 4)), block=32, grid=4)
@mo.kernel
def one_warp_no_barrier(out, x):
    """Each thread reads only its own shared memory."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    s = mo.shared_array(mo.float32, (4, 32))
    for k in range(4):
        s[k, tid] = x[tid, k]
    total = 0.0
    for k in range(4):
        total += s[3 - k, tid] * (k + 1)
    out[tid, bx] = total


@table.right(lambda: (zeros(100), ramp(100), 0), block=32, grid=2)
@mo.kernel
def loop_of_no_passes(out, x, n):
    tid = mo.thread_idx().x + 32 * mo.block_idx().x
    total = 0.0
    for i in range(n):
        total += x[i + 500]
    for i in range(tid, n, 64):
        out[i] = x[i]
    if total > 0.0:
        out[tid] = total


@table.right(lambda: (zeros(33), ramp(33)), block=64)
@mo.kernel
def stencil_with_guards(out, x):
    tid = mo.thread_idx().x
    n = mo.size(x)
    s = mo.shared_array(mo.float32, 66)
    s[tid + 1] = x[tid] if tid < n else 0.0
    if tid == 0:
        s[0] = 0.0
        s[65] = 0.0
    mo.sync_threads()
    if tid < n:
        out[tid] = s[tid] + s[tid + 1] + s[tid + 2]


@table.right(lambda: (zeros(4), ramp(100), 100), block=32)
@mo.kernel
def only_the_filled_part(out, x, n):
    """The last chunk is short and so is the loop that reads it: old data stays, and nobody reads it."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for chunk in range(mo.ceil_div(n, 32)):
        i = chunk * 32 + tid
        if i < n:
            s[tid] = x[i]
        mo.sync_threads()
        if tid == 0:
            total = 0.0
            for j in range(mo.min(32, n - chunk * 32)):
                total += s[j]
            out[chunk] = total
        mo.sync_threads()


@table.right(lambda: (zeros(128, 1), ramp(128)), block=128)
@mo.kernel
def last_block_style(out, x):
    """Warps count down; the last one adds what all left, as the last block does in global memory."""
    tid, lane, warp = mo.thread_idx().x, mo.lane_idx(), mo.warp_idx()
    parts, left = mo.shared_array(mo.float32, 4), mo.shared_array(mo.int32, 1)
    if tid == 0:
        left[0] = 0
    mo.sync_threads()
    total = mo.warp_reduce(x[tid], "add")
    if lane == 0:
        parts[warp] = total
        seen = mo.atomic_add(left, 0, 1, order="acq_rel", scope="cta")
        if seen == 3:
            out[0, 0] = parts[0] + parts[1] + parts[2] + parts[3]


@table.right(lambda: (zeros(1), zeros(4), zeros(1, dtype=np.int32), ramp(128)), block=32, grid=4)
@mo.kernel
def last_block_adds(out, parts, ticket, x):
    """threadFenceReduction: fences around a relaxed ticket, which the last block resets."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    last = mo.shared_array(mo.int32, 1)
    total = mo.warp_reduce(x[bx * 32 + tid], "add")
    if tid == 0:
        parts[bx] = total
        mo.fence()
        last[0] = mo.atomic_add(ticket, 0, 1)
    mo.sync_threads()
    if last[0] == 3:
        mo.fence()
        if tid == 0:
            total = 0.0
            for i in range(4):
                total += parts[i]
            out[0] = total
            ticket[0] = 0


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def pool_of_three(out, x):
    """One tensor holds two mbarriers, an int and data."""
    tid = mo.thread_idx().x
    pool = mo.shared_array(mo.uint64, 36, align=16)
    bars = pool
    number = mo.recast(mo.domain_offset(2, pool), mo.int32).with_layout(mo.make_layout(1))
    s = mo.recast(mo.domain_offset(4, pool), mo.float32).with_layout(mo.make_layout(64))
    if tid == 0:
        mo.mbarrier_init(bars, 0, 64)
        mo.mbarrier_init(bars, 1, 64)
        mo.fence_mbarrier_init()
        number[0] = 3
    mo.sync_threads()
    s[tid] = x[tid] * number[0]
    mo.mbarrier_arrive(bars, 1)
    mo.mbarrier_wait(bars, 1, 0)
    out[tid] = s[63 - tid]


@table.right(lambda: (zeros(64), ramp(64, 5)), block=64)
@mo.kernel
def own_elements_async(out, x):
    """Each thread copies and reads its own elements: waits, no barriers."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    mo.copyto(ONE, mo.tile(s, (1, 1), (tid, 0)), mo.tile(x, (1, 1), (tid, 0)))
    mo.cp_async_commit()
    total = 0.0
    for k in range(5):
        if k + 1 < 5:
            mo.copyto(ONE, mo.tile(s, (1, 1), (tid, (k + 1) % 2)), mo.tile(x, (1, 1), (tid, k + 1)))
        mo.cp_async_commit()
        mo.cp_async_wait(1)
        total += s[tid, k % 2]
    out[tid] = total


@table.right(lambda: (zeros(64), ramp(64, 3)), block=64)
@mo.kernel
def triple_buffer_one_barrier(out, x):
    """With three buffers one barrier a pass is enough."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 3))
    total = 0.0
    for k in range(3):
        for j in range(3):
            s[tid, (k * 3 + j) % 3] = x[tid, j]
            mo.sync_threads()
            total += s[63 - tid, (k * 3 + j) % 3]
    out[tid] = total


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def barrier_in_uniform_branch(out, x):
    """A branch on what all threads of the block agree about."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    mo.sync_threads()
    if s[0] > 0.0:
        value = s[63 - tid]
        mo.sync_threads()
        s[tid] = value
        mo.sync_threads()
    out[tid] = s[(tid + 1) % 64]


@table.right(lambda: (zeros(32), ramp(32)), block=32)
@mo.kernel
def ballot_compaction(out, x):
    """Elements that pass are packed; each thread knows its place from a ballot."""
    tid = mo.thread_idx().x
    keep = x[tid] > 12.0
    mask = mo.ballot(keep)
    place = 0
    for i in range(32):
        if i < tid:
            if (mask >> i) & 1 == 1:
                place += 1
    if keep:
        out[place] = x[tid]


@table.right(lambda: (zeros(64), ramp(64), 3), block=64)
@mo.kernel
def half_used_buffers(out, x, n):
    """A fragment of eight of which n are set and used."""
    tid = mo.thread_idx().x
    part = mo.fragment((8,), mo.float32)
    for i in mo.static_range(8):
        if i < n:
            part[i] = x[(tid + i) % 64]
    total = 0.0
    for i in mo.static_range(8):
        if i < n:
            total += part[i]
    out[tid] = total


@table.right(lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def elect_leader(out, x):
    """One elected lane of each warp writes for the warp."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    s = mo.shared_array(mo.float32, 2)
    total = mo.warp_reduce(x[tid], "add")
    if mo.elect():
        s[warp] = total
    mo.sync_warp()
    out[tid] = s[warp]


@table.right(lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def split_cluster_barrier(out, x):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid, rank]
    mo.cluster_arrive()
    own = x[31 - tid, rank]
    mo.cluster_wait()
    other = mo.map_shared_rank(s, rank ^ 1)[tid]
    mo.cluster_arrive()
    out[tid, rank] = own + other
    mo.cluster_wait()
