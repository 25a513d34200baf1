"""Kernels that users of other systems bring along, each below sixty lines: rows, scans, gathers, a convolution.

In: nothing.  Out: the kernels, and for each a function that launches it on arrays of any place.

    ported_kernels.softmax(out, x)

Tests run them in the simulator and on the GPU against NumPy.
"""

from __future__ import annotations

import math

import moye as mo

THREADS = 128
WARPS = THREADS // 32
LEAST = -3.4028234663852886e38       # of float32


# --- vector add ------------------------------------------------------------------------------------------------------


@mo.kernel
def vector_add_kernel(out, a, b):
    """Four elements a thread in one access; the last thread takes what is left one by one."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    n = mo.size(out)
    if 4 * i + 4 <= n:
        x, y = mo.fragment((4,), a.dtype), mo.fragment((4,), b.dtype)
        mo.copyto(x, mo.tile(a, (4,), (i,), ragged=True))
        mo.copyto(y, mo.tile(b, (4,), (i,), ragged=True))
        x += y
        mo.copyto(mo.tile(out, (4,), (i,), ragged=True), x)
    else:
        for j in range(4 * i, n):
            out[j] = a[j] + b[j]


def vector_add(out, a, b):
    vector_add_kernel[max(1, -(-out.shape[0] // (4 * THREADS))), THREADS](out, a, b)


# --- softmax ---------------------------------------------------------------------------------------------------------


@mo.kernel
def softmax_kernel(out, x):
    """A block has a row.  Each thread keeps a maximum and a sum under it, so that the row is read twice, not thrice."""
    row, tid = mo.block_idx().x, mo.thread_idx().x
    tops, sums = mo.shared_array(mo.float32, WARPS), mo.shared_array(mo.float32, WARPS)
    top, total = mo.float32(LEAST), mo.float32(0)       # finite, so that differences of -inf are no NaN
    for j in mo.range(tid, mo.size(x, 1), THREADS):
        latest = mo.max(top, x[row, j].to(mo.float32))
        total = total * mo.exp(top - latest) + mo.exp(x[row, j].to(mo.float32) - latest)
        top = latest
    whole = mo.block_reduce(top, tops, "max")
    total = mo.block_reduce(total * mo.exp(top - whole), sums)
    for j in mo.range(tid, mo.size(x, 1), THREADS):
        out[row, j] = mo.exp(x[row, j].to(mo.float32) - whole) / total


def softmax(out, x):
    softmax_kernel[x.shape[0], THREADS](out, x)


# --- RMSNorm ---------------------------------------------------------------------------------------------------------


@mo.kernel
def rms_norm_kernel(out, x, weight, epsilon):
    """out = x / sqrt(mean(x^2) + epsilon) * weight, row by row."""
    row, tid = mo.block_idx().x, mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, WARPS)
    square, columns = mo.float32(0), mo.size(x, 1)
    for j in mo.range(tid, columns, THREADS):
        value = x[row, j].to(mo.float32)
        square += value * value
    scale = mo.rsqrt(mo.block_reduce(square, scratch) / columns + epsilon)
    for j in mo.range(tid, columns, THREADS):
        out[row, j] = x[row, j].to(mo.float32) * scale * weight[j].to(mo.float32)


def rms_norm(out, x, weight, epsilon=1e-6):
    rms_norm_kernel[x.shape[0], THREADS](out, x, weight, epsilon)


# --- layer norm, backward --------------------------------------------------------------------------------------------


@mo.kernel
def layer_norm_backward_kernel(dx, dweight, dbias, dy, x, weight, mean, rstd, per_thread: mo.Constexpr):
    """Each block has some rows, each thread the same columns of all of them, for which it sums dweight and dbias."""
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, WARPS)
    columns = mo.size(x, 1)
    dw, db = mo.fragment((per_thread,), mo.float32), mo.fragment((per_thread,), mo.float32)
    normal, scaled = mo.fragment((per_thread,), mo.float32), mo.fragment((per_thread,), mo.float32)
    dw.fill(0)
    db.fill(0)
    for row in mo.range(bx, mo.size(x, 0), mo.grid_dim().x):
        normal.fill(0)
        scaled.fill(0)
        for i in mo.static_range(per_thread):
            j = tid + i * THREADS
            if j < columns:
                slope = dy[row, j]
                normal[i] = (x[row, j] - mean[row]) * rstd[row]
                scaled[i] = slope * weight[j]
                dw[i] = dw[i] + slope * normal[i]
                db[i] = db[i] + slope
        along = mo.block_reduce((normal * scaled).reduce("sum"), scratch) / columns
        shift = mo.block_reduce(scaled.reduce("sum"), scratch) / columns
        for i in mo.static_range(per_thread):
            j = tid + i * THREADS
            if j < columns:
                dx[row, j] = (scaled[i] - normal[i] * along - shift) * rstd[row]
    for i in mo.static_range(per_thread):
        j = tid + i * THREADS
        if j < columns:
            mo.atomic_add(dweight, j, dw[i])
            mo.atomic_add(dbias, j, db[i])


def layer_norm_backward(dx, dweight, dbias, dy, x, weight, mean, rstd, blocks=4):
    """``dweight`` and ``dbias`` are zeros before."""
    layer_norm_backward_kernel[blocks, THREADS](dx, dweight, dbias, dy, x, weight, mean, rstd,
                                                -(-x.shape[1] // THREADS))


# --- top-k -----------------------------------------------------------------------------------------------------------


@mo.kernel
def top_k_kernel(values, indices, x, per_thread: mo.Constexpr):
    """A row in the registers of a block: its largest element is taken out as often as is asked for, by NaN."""
    row, tid = mo.block_idx().x, mo.thread_idx().x
    keys, places = mo.shared_array(mo.float32, WARPS), mo.shared_array(mo.int32, WARPS)
    part, numbers = mo.fragment((per_thread,), mo.float32), mo.fragment((per_thread,), mo.int32)
    for i in mo.static_range(per_thread):
        j = tid + i * THREADS
        numbers[i] = j
        part[i] = math.nan
        if j < mo.size(x, 1):
            part[i] = x[row, j]
    for k in range(mo.size(values, 1)):
        value, i = part.argmax()
        value, index = mo.block_reduce((value, tid + i * THREADS), (keys, places), "argmax")
        if tid == 0:
            values[row, k] = value
            indices[row, k] = index
        part[...] = mo.where(numbers == index, math.nan, part)


def top_k(values, indices, x):
    """The largest elements of each row in order, as many as ``values`` has columns, and their columns."""
    top_k_kernel[x.shape[0], THREADS](values, indices, x, -(-x.shape[1] // THREADS))


# --- scan ------------------------------------------------------------------------------------------------------------

ITEMS = 16
SUM, PREFIX = 1, 2


@mo.jit
def pack(value, state):
    """A float and what it is, in one word, so that they are seen together."""
    return value.bitcast(mo.uint32).to(mo.uint64) << 32 | mo.uint64(state)


@mo.jit
def look_back(words, tile):
    """The sum of all tiles before this one, by a warp: 32 tiles at a time, back to one whose prefix is known."""
    lane, total, at, known = mo.lane_idx(), mo.float32(0), tile - 1, tile == 0
    while not known:
        mine = at - lane
        word = mo.load(words, mo.max(mine, 0))
        while mo.vote_any(mine >= 0 and word & 3 == 0):
            word = mo.load(words, mo.max(mine, 0))
        prefixes = mo.ballot(mine >= 0 and word & 3 == PREFIX)
        nearest = mo.where(prefixes == 0, 31, 31 - mo.clz(prefixes & (0 - prefixes)))   # the lowest bit
        value = (word >> 32).to(mo.uint32).bitcast(mo.float32)
        total += mo.warp_reduce(mo.where(mine >= 0 and lane <= nearest, value, 0.0))
        known = prefixes != 0
        at -= 32
    return total


@mo.kernel
def scan_kernel(out, x, words, ticket):
    """Inclusive sums in one pass (Merrill and Garland, decoupled look-back); ``words`` and ``ticket`` are zeros."""
    tid = mo.thread_idx().x
    scratch, shared, place = (mo.shared_array(t, n) for t, n in ((mo.float32, WARPS), (mo.float32, 2), (mo.int32, 1)))
    if tid == 0:
        place[0] = mo.atomic_add(ticket, 0, 1)          # tiles in the order in which blocks start
    mo.sync_threads()
    tile = place[0]
    part = mo.fragment((ITEMS,), mo.float32)
    mo.copyto(part, mo.tile(x, (ITEMS,), (tile * THREADS + tid,)))
    for i in mo.static_range(1, ITEMS):
        part[i] = part[i - 1] + part[i]
    before = mo.block_scan(part[ITEMS - 1], scratch, inclusive=False)
    if tid == THREADS - 1:
        whole = before + part[ITEMS - 1]
        shared[0] = whole
        mo.store(words, tile, pack(whole, mo.where(tile == 0, PREFIX, SUM)))
    mo.sync_threads()
    if mo.warp_idx() == 0:
        earlier = look_back(words, tile)
        if tid == 0:
            shared[1] = earlier
            if tile > 0:
                mo.store(words, tile, pack(earlier + shared[0], PREFIX))
    mo.sync_threads()
    part += before + shared[1]
    mo.copyto(mo.tile(out, (ITEMS,), (tile * THREADS + tid,)), part)


def scan(out, x, words, ticket):
    """``words`` are a uint64 for each tile, ``ticket`` is one int32; the length is a multiple of a tile's."""
    scan_kernel[x.shape[0] // (THREADS * ITEMS), THREADS](out, x, words, ticket)


# --- histogram -------------------------------------------------------------------------------------------------------

BINS = 256


@mo.kernel
def histogram_kernel(counts, x):
    """Each block counts in shared memory, where lanes of one value add once, and then adds what it has."""
    tid = mo.thread_idx().x
    bins = mo.shared_array(mo.int32, BINS)
    for i in mo.range(tid, BINS, THREADS):
        bins[i] = 0
    mo.sync_threads()
    n, step = mo.size(x), mo.grid_dim().x * THREADS
    for i in mo.range(mo.block_idx().x * THREADS, n, step):
        value = mo.where(i + tid < n, x[mo.min(i + tid, n - 1)].to(mo.int32), BINS)
        same = mo.match_any(value)
        if value < BINS and same & (0 - same) == mo.uint32(1) << mo.lane_idx():
            mo.atomic_add(bins, value, mo.popcount(same))
    mo.sync_threads()
    for i in mo.range(tid, BINS, THREADS):
        mo.atomic_add(counts, i, bins[i])


def histogram(counts, x, blocks=8):
    """``counts`` are 256 zeros before, ``x`` is of uint8."""
    histogram_kernel[blocks, THREADS](counts, x)


# --- embedding -------------------------------------------------------------------------------------------------------


@mo.kernel
def gather_kernel(out, table, ids):
    """A warp copies a row of the table, four elements a lane at a time."""
    mo.assume(mo.size(table, 1) % 4 == 0 and mo.size(out, 1) % 4 == 0)
    token = mo.block_idx().x * WARPS + mo.warp_idx()
    if token < mo.size(ids):
        source, target = table[ids[token], :], out[token, :]            # (D)
        for i in mo.range(mo.lane_idx(), mo.size(source) // 4, 32):
            mo.copyto(mo.tile(target, (4,), (i,)), mo.tile(source, (4,), (i,)))


def gather(out, table, ids):
    """out[i] = table[ids[i]]; rows have a multiple of four elements."""
    gather_kernel[-(-ids.shape[0] // WARPS), THREADS](out, table, ids)


# --- 3x3 convolution -------------------------------------------------------------------------------------------------

BM, BN, BK, STAGES = 128, 64, 64, 4
CONVOLUTION_MMA = mo.make_tiled_mma(mo.mma.SM90_64x64x16_F32BF16BF16_SS, mo.make_layout((2, 1)))


@mo.kernel
def convolution_kernel(out, images, filters, mma):
    """A product of (N P Q, C) and (C, K) for each place of the filter: a warp loads, two warpgroups multiply."""
    tid, bx, by = mo.thread_idx().x, mo.block_idx().x, mo.block_idx().y
    sA = mo.shared_array(images.dtype, mo.tile_to_shape(images.smem_layout, (BM, BK, STAGES)))
    sB = mo.shared_array(filters.dtype, mo.tile_to_shape(filters.smem_layout, (BN, BK, STAGES)))
    gA = mo.tile(images.tensor, images.tile, (bx, None, None))          # (bM, bK, 1, c, place), coordinates
    gB = mo.tile(filters.tensor, filters.tile, (by, None, None))        # (bN, 1, bK, place, c), coordinates
    pipe = mo.PipelineTma(STAGES, images.bytes + filters.bytes, consumers=2)
    pipe.init()
    mo.sync_threads()
    if tid >= 256:
        if mo.warp_idx() == 8 and mo.elect():
            state = pipe.producer_start()
            for place in range(9):
                for c in range(mo.size(gA, 3)):
                    pipe.producer_acquire(state)
                    mo.copyto(images, sA[:, :, state.stage], gA[:, :, :, c, place], barrier=pipe.barrier(state))
                    mo.copyto(filters, sB[:, :, state.stage], gB[:, :, :, place, c], barrier=pipe.barrier(state))
                    state = state.next()
    else:
        thr_mma = mma.get_slice(tid)
        tCrA = thr_mma.partition_fragment_A(sA)         # (MMA, MMA_M, MMA_K, stages)
        tCrB = thr_mma.partition_fragment_B(sB)         # (MMA, MMA_N, MMA_K, stages)
        tCrC = mma.partition_fragment_C((BM, BN))       # (MMA, MMA_M, MMA_N)
        tCrC.fill(0)
        state = pipe.consumer_start()
        before = state
        for step in range(9 * mo.size(gA, 3)):
            pipe.consumer_wait(state)
            mo.warpgroup_arrive()
            for k in mo.static_range(mo.size(tCrA, 2)):
                mo.gemm(mma, tCrA[:, :, k, state.stage], tCrB[:, :, k, state.stage], tCrC)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(1)                        # the products of the stage before are done
            if step > 0 and tid % 128 == 0:
                pipe.consumer_release(before)
            before, state = state, state.next()
        mo.warpgroup_wait(0)
        at = thr_mma.partition_C(mo.tile(mo.identity_tensor(mo.shape(out)), (BM, BN), (bx, by), ragged=True))
        tCgC = thr_mma.partition_C(mo.tile(out, (BM, BN), (bx, by), ragged=True))
        mo.copyto(tCgC, tCrC.to(out.dtype), pred=mo.elem_less(at, mo.shape(out)))


def convolution(out, x, w, stride):
    """out (N, P, Q, K) = x (N, H, W, C) * w (K, 3, 3, C), padded by one pixel; C is a multiple of 8 elements."""
    dtype, channels = mo.bfloat16, w.shape[0]
    tile_A, tile_B = (mo.tile_to_shape(mo.smem_layout_atom(dtype, "k"), (rows, BK)) for rows in (BM, BN))
    images = mo.make_tma_copy(mo.TmaLoadIm2col(filter=(3, 3), padding=1, stride=stride), x, tile_A)
    filters = mo.make_tma_copy(mo.TmaLoad(), w.reshape(channels, 9, -1), tile_B, (BN, 1, BK))
    rows = out.reshape(-1, channels)
    grid = -(-rows.shape[0] // BM), -(-channels // BN)
    convolution_kernel[grid, 288](rows, images, filters, CONVOLUTION_MMA)
