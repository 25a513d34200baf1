"""Kernels of persistent grids, one for each tile scheduler: copies, and matrix products on the ordinary cores.

In: extents, how many blocks, a fault.  Out: kernels and their launches; sums are float32.

``tests/schedulers`` simulates and compiles them, ``tests/gpu/test_schedulers_gpu.py`` runs them.
"""

from __future__ import annotations

import itertools

import numpy as np

import moye as mo

THREADS = 64
BM = BN = 32
BK = 8
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 8)))


# --- copies ----------------------------------------------------------------------------------------------------------


@mo.kernel
def copy_kernel(dst, src, counts, group: mo.Constexpr, along: mo.Constexpr, cluster: mo.Constexpr):
    """Tiles of (BM, BN, 1) of a stack of matrices; how often each was copied.  Blocks of a cluster share a tile."""
    M, N, L = mo.shape(src)
    tid = mo.thread_idx().x + THREADS * mo.cluster_rank()
    sched = mo.PersistentTileScheduler(mo.ceil_div(M, BM), mo.ceil_div(N, BN), L, group, along, cluster=cluster)
    for t in range(sched.first, sched.tiles, sched.step):
        m, n, batch = sched.coordinates(t)
        for i in range(tid, BM * BN, THREADS * cluster):
            row, column = m * BM + i % BM, n * BN + i // BM
            if row < M and column < N:
                dst[row, column, batch] = src[row, column, batch]
        if tid == 0:
            mo.atomic_add(counts, (m, n, batch), 1)


@mo.kernel
def turns_kernel(dst, src, counts, group: mo.Constexpr, along: mo.Constexpr, cluster: mo.Constexpr):
    """The same by two warps of each block, which have every other tile of the block."""
    M, N, L = mo.shape(src)
    lane, warp = mo.lane_idx(), mo.warp_idx()
    sched = mo.PersistentTileScheduler(mo.ceil_div(M, BM), mo.ceil_div(N, BN), L, group, along, cluster=cluster)
    for t in range(sched.first + warp * sched.step, sched.tiles, 2 * sched.step):
        m, n, batch = sched.coordinates(t)
        for i in range(lane, BM * BN, 32):
            row, column = m * BM + i % BM, n * BN + i // BM
            if row < M and column < N:
                dst[row, column, batch] = src[row, column, batch]
        if lane == 0:
            mo.atomic_add(counts, (m, n, batch), 1)


# --- products --------------------------------------------------------------------------------------------------------


@mo.jit
def fill(s, X, row, end, k, K):
    """Rows ``row`` to ``end``, as far as there are any, and BK columns from ``k``; zeros beyond."""
    for i in mo.static_range(BM * BK // THREADS):
        at = mo.thread_idx().x + i * THREADS
        r, c = row + at % BM, k + at // BM
        s[at % BM, at // BM] = X[r, c] if r < end and c < K else mo.float32(0)


@mo.jit
def multiply(A, B, rows, columns, k_first, k_last, shared):
    """The sums of one tile over a range of k-tiles; ``rows`` and ``columns``: the first, and the end of them."""
    sA, sB = shared
    thr_mma = MMA.get_slice(mo.thread_idx().x)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)       # (MMA, MMA_M, MMA_K)
    acc = MMA.partition_fragment_C((BM, BN))                            # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    for k in range(k_first, k_last):
        mo.sync_threads()
        fill(sA, A, *rows, k * BK, mo.size(A, 1))
        fill(sB, B, *columns, k * BK, mo.size(B, 1))
        mo.sync_threads()
        for kk in mo.static_range(mo.size(tCsA, 2)):
            mo.gemm(MMA, tCsA[:, :, kk], tCsB[:, :, kk], acc)
    return acc


@mo.jit
def store(C, acc, rows, columns):
    """The sums that lie inside C."""
    cC = MMA.get_slice(mo.thread_idx().x).partition_C(mo.identity_tensor((BM, BN)))    # (MMA, MMA_M, MMA_N)
    for i in mo.static_range(mo.size(acc)):
        m, n = cC[i]
        row, column = rows[0] + m, columns[0] + n
        if row < rows[1] and column < columns[1]:
            C[row, column] = acc[i]


@mo.kernel
def stream_k_kernel(C, A, B, sums, flags, hybrid: mo.Constexpr, fault: mo.Constexpr):
    """C = A @ B.T.  ``sums`` (BM, BN, slots), ``flags`` (slots) of zeros, which they are again afterwards."""
    tid = mo.thread_idx().x
    (M, K), N = mo.shape(A), mo.size(B, 0)
    shared = mo.shared_array(mo.float32, (BM, BK)), mo.shared_array(mo.float32, (BN, BK))
    tCgS = MMA.get_slice(tid).partition_C(mo.tile(sums, (BM, BN), (0, 0)))              # (MMA, MMA_M, MMA_N, slots)
    sched = mo.StreamKScheduler(mo.ceil_div(M, BM), mo.ceil_div(N, BN), mo.ceil_div(K, BK), hybrid=hybrid)
    unit = sched.start()
    while unit.valid:
        m, n, _ = sched.coordinates(unit.tile)
        rows, columns = (m * BM, M), (n * BN, N)
        acc = multiply(A, B, rows, columns, unit.k_first, unit.k_last, shared)
        if unit.finishes:
            first, last = unit.peers
            for peer in range(first, last):
                if tid == 0:
                    while mo.load(flags, peer, order="relaxed" if fault == "relaxed" else "acquire") == 0:
                        pass
                    flags[peer] = 0
                if fault != "no barrier":
                    mo.sync_threads()
                part = mo.make_fragment_like(acc)
                mo.copyto(part, tCgS[:, :, :, peer])
                acc[...] = acc + part
            store(C, acc, rows, columns)
        else:
            mo.copyto(tCgS[:, :, :, unit.block], acc)
            mo.sync_threads()
            if tid == 0:
                mo.store(flags, unit.block, 1, order="release")
        unit = unit.next()


@mo.kernel
def grouped_kernel(C, A, B, offsets):
    """C[rows of g] = A[rows of g] @ B[:, :, g].T for the groups of rows that ``offsets`` says."""
    N, K = mo.size(C, 1), mo.size(A, 1)
    shared = mo.shared_array(mo.float32, (BM, BK)), mo.shared_array(mo.float32, (BN, BK))
    sched = mo.GroupedTileScheduler(offsets, BM, mo.ceil_div(N, BN))
    work = sched.start()
    while work.valid:
        group, _, n, row, left = work.coordinates()
        rows, columns = (row, row + left), (n * BN, N)
        acc = multiply(A, B[:, :, group], rows, columns, 0, mo.ceil_div(K, BK), shared)
        store(C, acc, rows, columns)
        work = work.next()


# --- launches --------------------------------------------------------------------------------------------------------


def copied(shape):
    """A stack of matrices, a poisoned one, and a count for each tile."""
    src = np.random.default_rng(shape).standard_normal(shape, np.float32)
    return src, np.full_like(src, np.nan), np.zeros((-(-shape[0] // BM), -(-shape[1] // BN), shape[2]), np.int32)


def arguments(M, N, K, batches=None):
    """Random-normal A (M, K) and B (N, K[, batches]), a poisoned C, and float64's C."""
    rng = np.random.default_rng([M, N, K])
    A = rng.standard_normal((M, K), np.float32)
    B = rng.standard_normal((N, K) if batches is None else (N, K, batches), np.float32)
    return np.full((M, N), np.nan, np.float32), A, B


def stream_k(kernel, C, A, B, sums, flags, hybrid=True, fault=""):
    """As many blocks as there are flags."""
    return kernel[flags.shape[0], THREADS](C, A, B, sums, flags, hybrid, fault)


def workspace(blocks):
    """Poisoned sums, and flags."""
    return np.full((BM, BN, blocks), np.nan, np.float32, order="F"), np.zeros(blocks, np.int32)


def grouped(kernel, C, A, B, offsets, blocks):
    return kernel[blocks, THREADS](C, A, B, offsets)


def grouped_exactly(A, B, offsets):
    """What ``grouped_kernel`` computes, in float64."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    parts = [A[first:last] @ B[:, :, g].T for g, (first, last) in enumerate(itertools.pairwise(offsets))]
    return np.concatenate(parts)
