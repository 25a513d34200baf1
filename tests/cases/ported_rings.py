"""Programs of Hopper by hand: two rings at once, halos by st.async, tiles that go round a cluster, barriers that are
polled, a hidden layer over its operand's memory, sums of splits by TMA."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import moye as mo
from ports import Port

BF16 = ml_dtypes.bfloat16
SLOTS_A, SLOTS_B, SLOTS = 3, 2, 3


@mo.kernel
def two_rings_kernel(out: mo.Static, A, B, n):
    """Rows of products: tiles of A come one a step, tiles of B one every other step, each by a warp and a ring."""
    sA = mo.shared_array(mo.float32, mo.make_layout((32, 32, SLOTS_A), (32, 1, 1024)))
    sB = mo.shared_array(mo.float32, mo.make_layout((32, 32, SLOTS_B), (32, 1, 1024)))
    fullA, emptyA = mo.mbarrier_array(SLOTS_A), mo.mbarrier_array(SLOTS_A)
    fullB, emptyB = mo.mbarrier_array(SLOTS_B), mo.mbarrier_array(SLOTS_B)
    tid, warp, lane, bx = mo.thread_idx().x, mo.warp_idx(), mo.lane_idx(), mo.block_idx().x
    if tid == 0:
        for s in mo.static_range(SLOTS_A):
            mo.mbarrier_init(fullA, s, 1)
            mo.mbarrier_init(emptyA, s, 64)
        for s in mo.static_range(SLOTS_B):
            mo.mbarrier_init(fullB, s, 1)
            mo.mbarrier_init(emptyB, s, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if warp == 0:
        if mo.elect():
            for k in range(n):
                mo.mbarrier_wait(emptyA, k % SLOTS_A, k // SLOTS_A % 2 ^ 1)
                mo.mbarrier_arrive_expect_tx(fullA, k % SLOTS_A, A.bytes)
                mo.copyto(A, sA[:, :, k % SLOTS_A], mo.tile(A.tensor, (32, 32), (bx, k)), barrier=(fullA, k % SLOTS_A))
    elif warp == 1:
        if mo.elect():
            for k in range((n + 1) // 2):
                mo.mbarrier_wait(emptyB, k % SLOTS_B, k // SLOTS_B % 2 ^ 1)
                mo.mbarrier_arrive_expect_tx(fullB, k % SLOTS_B, B.bytes)
                mo.copyto(B, sB[:, :, k % SLOTS_B], mo.tile(B.tensor, (32, 32), (bx, k)), barrier=(fullB, k % SLOTS_B))
    else:
        total, half = 0.0, warp - 2
        for k in range(n):
            b = k // 2
            mo.mbarrier_wait(fullA, k % SLOTS_A, k // SLOTS_A % 2)
            if k % 2 == 0:
                mo.mbarrier_wait(fullB, b % SLOTS_B, b // SLOTS_B % 2)
            for j in range(16):
                total += sA[lane, half * 16 + j, k % SLOTS_A] * sB[lane, half * 16 + j, b % SLOTS_B]
            mo.mbarrier_arrive(emptyA, k % SLOTS_A)
            if k % 2 == 1 or k == n - 1:
                mo.sync_warp()
                if lane == 0:
                    mo.mbarrier_arrive(emptyB, b % SLOTS_B)
        out[bx * 32 + lane, half] = total


def two_rings(out, A, B):
    tile = mo.make_layout((32, 32), (32, 1))
    loads = mo.make_tma_copy(mo.TmaLoad(), A, tile), mo.make_tma_copy(mo.TmaLoad(), B, tile)
    two_rings_kernel[A.shape[0] // 32, 128](out, *loads, A.shape[1] // 32)


def draw_two_rings(rng, size):
    n = size // 10 + 1
    A, B = (rng.integers(-3, 4, (64, 32 * k)).astype(np.float32) for k in (n, (n + 1) // 2))
    parts = np.stack([A[:, 32 * k:32 * k + 32] * B[:, k // 2 * 32:k // 2 * 32 + 32] for k in range(n)]).sum(0)
    return (np.full((64, 2), np.nan, np.float32), A, B), {0: parts.reshape(64, 2, 16).sum(2)}


@mo.kernel
def halos_kernel(out: mo.Static, x: mo.Static, steps):
    """A line over the blocks of a cluster: the ends go to the neighbours' memory by st.async, into two buffers."""
    tid, rank, n = mo.thread_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    line, edge = mo.shared_array(mo.float32, (66, 2)), mo.fragment((1,), mo.float32)
    came, free = mo.mbarrier_array(2), mo.mbarrier_array(2)
    left, right = (rank + n - 1) % n, (rank + 1) % n
    if tid == 0:
        for b in mo.static_range(2):
            mo.mbarrier_init(came, b, 1)
            mo.mbarrier_init(free, b, 2)
        mo.fence_mbarrier_init()
    line[1 + tid, 0] = x[mo.block_idx().x * 64 + tid]
    mo.cluster_sync()
    for s in range(steps):
        b, phase = s % 2, s // 2 % 2
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(came, b, 8)
        edge[0] = line[1 + tid, b]
        if tid == 0:
            mo.mbarrier_wait(free, b, phase ^ 1)
            mo.st_async(mo.tile(mo.map_shared_rank(line, left), (1, 1), (65, b))[:, 0], edge, barrier=(came, b))
        if tid == 63:
            mo.mbarrier_wait(free, b, phase ^ 1)
            mo.st_async(mo.tile(mo.map_shared_rank(line, right), (1, 1), (0, b))[:, 0], edge, barrier=(came, b))
        mo.mbarrier_wait(came, b, phase)
        new = (line[tid, b] + line[tid + 2, b]) * 0.5
        mo.sync_threads()
        if tid == 0:
            mo.mbarrier_arrive(free, b, cta=left)
        if tid == 32:
            mo.mbarrier_arrive(free, b, cta=right)
        line[1 + tid, 1 - b] = new
        mo.sync_threads()
    out[mo.block_idx().x * 64 + tid] = line[1 + tid, steps % 2]
    mo.cluster_sync()


def halos(out, x, steps):
    halos_kernel.launch(out, x, int(steps), grid=x.shape[0] // 64, block=64, cluster=4)


def draw_halos(rng, size):
    x, steps = rng.standard_normal((size // 40 + 1) * 256).astype(np.float32), size // 7
    line = x.astype(np.float64).reshape(-1, 256)
    for _ in range(steps):
        line = (np.roll(line, 1, 1) + np.roll(line, -1, 1)) / 2
    return (np.full_like(x, np.nan), x, steps), {0: line.reshape(-1)}


@mo.kernel
def round_trip_kernel(out: mo.Static, x: mo.Static):
    """Each block sees the tiles of all four of its cluster: they go from one to the next by bulk copies."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    tiles, full = mo.shared_array(mo.float32, (64, 2)), mo.mbarrier_array(2)
    if tid == 0:
        for b in mo.static_range(2):
            mo.mbarrier_init(full, b, 1)
        mo.fence_mbarrier_init()
    tiles[tid, 0] = x[mo.block_idx().x * 64 + tid]
    mo.fence_proxy_async()
    mo.cluster_sync()
    total = 0.0
    for k in mo.static_range(4):
        b = k % 2
        if k < 3 and tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 1 - b, 256)
            mo.copyto(mo.BulkCopy(), mo.map_shared_rank(tiles, (rank + 1) % 4)[:, 1 - b], tiles[:, b],
                      barrier=(full, 1 - b))
        total += tiles[63 - tid, b] * (k + 1)
        if k < 3:
            mo.mbarrier_wait(full, 1 - b, k // 2 % 2)
        mo.cluster_sync()
    out[mo.block_idx().x * 64 + 63 - tid] = total


def round_trip(out, x):
    round_trip_kernel.launch(out, x, grid=x.shape[0] // 64, block=64, cluster=4)


def draw_round_trip(rng, size):
    x = rng.integers(-9, 10, (size // 40 + 1) * 256).astype(np.float32)
    line = x.reshape(-1, 256)
    return (np.full_like(x, np.nan), x), {0: sum(np.roll(line, 64 * k, 1) * (k + 1) for k in range(4)).reshape(-1)}


@mo.kernel
def polled_kernel(out: mo.Static, x: mo.Static):
    """Halves of a column come by cp.async and by a bulk copy, on one mbarrier; two warps ask until they are there."""
    tid, warp, lane = mo.thread_idx().x, mo.warp_idx(), mo.lane_idx()
    ring = mo.shared_array(mo.float32, (128, SLOTS))
    full, empty = mo.mbarrier_array(SLOTS), mo.mbarrier_array(SLOTS)
    if tid == 0:
        for s in mo.static_range(SLOTS):
            mo.mbarrier_init(full, s, 33)
            mo.mbarrier_init(empty, s, 64)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if warp == 0:
        for k in range(mo.size(x, 1)):
            s = k % SLOTS
            mo.mbarrier_wait(empty, s, k // SLOTS % 2 ^ 1)
            if lane < 16:
                mo.copyto(mo.CpAsync(mo.uint128), mo.tile(ring[:, s], (4,), (lane,)), mo.tile(x[:, k], (4,), (lane,)))
            mo.cp_async_mbarrier_arrive(full, s)
            if lane == 0:
                mo.mbarrier_arrive_expect_tx(full, s, 256)
                mo.copyto(mo.BulkCopy(), mo.tile(ring[:, s], (64,), (1,)), mo.tile(x[:, k], (64,), (1,)),
                          barrier=(full, s))
    else:
        total, row = 0.0, tid - 32
        for k in range(mo.size(x, 1)):
            s = k % SLOTS
            while not mo.mbarrier_try_wait(full, s, k // SLOTS % 2):
                pass
            total += ring[row, s] * ring[127 - row, s]
            mo.mbarrier_arrive(empty, s)
        out[row] = total


def polled(out, x):
    polled_kernel[1, 96](out, x)


def draw_polled(rng, size):
    x = np.asfortranarray(rng.integers(-5, 6, (128, size // 6 + 1)).astype(np.float32))
    return (np.full(64, np.nan, np.float32), x), {0: (x[:64] * x[64:][::-1]).sum(1)}


@mo.kernel
def hidden_layer_kernel(Y: mo.Static, X, W1, W2, layout, mma):
    """Y = relu(X * W1^T) * W2^T: the hidden tile lies where that of X was."""
    sX, sW, bars = mo.shared_array(mo.bfloat16, layout), mo.shared_array(mo.bfloat16, layout), mo.mbarrier_array(2)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.mbarrier_init(bars, 1, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(bars, 0, X.bytes)
        mo.copyto(X, sX, mo.tile(X.tensor, (64, 64), (bx, 0)), barrier=(bars, 0))
        mo.mbarrier_arrive_expect_tx(bars, 1, W1.bytes)
        mo.copyto(W1, sW, mo.tile(W1.tensor, (64, 64), (0, 0)), barrier=(bars, 1))
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrX, tCrW = thr.partition_fragment_A(sX), thr.partition_fragment_B(sW)             # (MMA, MMA_M, MMA_K)
    hidden, out = mma.partition_fragment_C((64, 64)), mma.partition_fragment_C((64, 64))
    mo.mbarrier_wait(bars, 0, 0)
    mo.mbarrier_wait(bars, 1, 0)
    mo.warpgroup_arrive()
    mo.gemm(mma, tCrX, tCrW, hidden, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(bars, 1, W2.bytes)
        mo.copyto(W2, sW, mo.tile(W2.tensor, (64, 64), (0, 0)), barrier=(bars, 1))
    store = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), mo.bfloat16), mma)
    mine = store.get_slice(tid)
    mo.copyto(store, mine.partition_D(sX), mine.retile_S(mo.relu(hidden).to(mo.bfloat16)))
    mo.fence_proxy_async()
    mo.sync_threads()
    mo.mbarrier_wait(bars, 1, 1)
    mo.warpgroup_arrive()
    mo.gemm(mma, tCrX, tCrW, out, accumulate=False)
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(mo.tile(Y, (64, 64), (bx, 0))), out)


def hidden_layer(Y, X, W1, W2):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64))
    loads = [mo.make_tma_copy(mo.TmaLoad(), each, layout) for each in (X, W1, W2)]
    hidden_layer_kernel[X.shape[0] // 64, 128](Y, *loads, layout, mma)


def draw_hidden_layer(rng, size):
    rows = 64 * (size // 30 + 1)
    X, W1, W2 = (rng.integers(-2, 3, shape).astype(BF16) for shape in ((rows, 64), (64, 64), (64, 64)))
    x, w1, w2 = (each.astype(np.float64) for each in (X, W1, W2))
    hidden = np.maximum(x @ w1.T, 0).astype(BF16).astype(np.float64)
    return (np.full((rows, 64), np.nan, np.float32), X, W1, W2), {0: hidden @ w2.T}


@mo.kernel
def splits_kernel(C, A, B, layout, layout_C, mma, steps):
    """Each block adds its part of K to C, by a reduction of TMA."""
    sA, sB = mo.shared_array(mo.float16, layout), mo.shared_array(mo.float16, layout)   # (64, 64, 2)
    sC, full = mo.shared_array(mo.float32, layout_C), mo.mbarrier_array(2)
    tid, first = mo.thread_idx().x, mo.block_idx().x * steps
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.mbarrier_init(full, 1, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    thr, acc = mma.get_slice(tid), mma.partition_fragment_C((64, 64))
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)             # (MMA, MMA_M, MMA_K, 2)
    acc.fill(0)
    for k in range(steps + 1):
        if k < steps and tid == 0:
            s = k % 2
            mo.mbarrier_arrive_expect_tx(full, s, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, s], mo.tile(A.tensor, (64, 64), (0, first + k)), barrier=(full, s))
            mo.copyto(B, sB[:, :, s], mo.tile(B.tensor, (64, 64), (0, first + k)), barrier=(full, s))
        if k > 0:
            s = (k - 1) % 2
            mo.mbarrier_wait(full, s, (k - 1) // 2 % 2)
            mo.warpgroup_arrive()
            mo.gemm(mma, tCrA[:, :, :, s], tCrB[:, :, :, s], acc)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(0)
        mo.sync_threads()
    mo.copyto(thr.partition_C(sC), acc)
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(C, mo.tile(C.tensor, (64, 64), (0, 0)), sC)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def splits(C, A, B):
    atom = mo.smem_layout_atom(mo.float16, "k")
    tile, layout_C = mo.tile_to_shape(atom, (64, 64)), mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (64, 64))
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    loads = mo.make_tma_copy(mo.TmaLoad(), A, tile), mo.make_tma_copy(mo.TmaLoad(), B, tile)
    splits_kernel[A.shape[1] // 192, 128](mo.make_tma_copy(mo.TmaReduceAdd(), C, layout_C), *loads,
                                          mo.tile_to_shape(atom, (64, 64, 2)), layout_C, mma, 3)


def draw_splits(rng, size):
    A, B = (rng.integers(-2, 3, (64, 192 * (size // 20 + 1))).astype(np.float16) for _ in range(2))
    return (np.zeros((64, 64), np.float32), A, B), {0: A.astype(np.float64) @ B.T.astype(np.float64)}


PORTS = [Port("two rings at once", two_rings, draw_two_rings, tolerance=0), Port("halos", halos, draw_halos),
         Port("round trip", round_trip, draw_round_trip, tolerance=0),
         Port("polled column", polled, draw_polled, tolerance=0),
         Port("hidden layer", hidden_layer, draw_hidden_layer, tolerance=0),
         Port("sums of splits", splits, draw_splits, tolerance=0)]
