"""Matrix products through ``mo.PipelineTma``: two roles, the same by hand, ping-pong, a cluster; one fault on request.

In: stages, extents, a fault.  Out: kernels, and ``run``: C = A @ B.T of float16 with float32 sums, any extents.

``tests/pipelines/test_tma.py`` simulates and compiles them, ``tests/gpu/test_pipelines_tma_gpu.py`` runs them.
"""

from __future__ import annotations

import numpy as np

import moye as mo

BM, BN, BK = 128, 32, 64
CONSUMERS, THREADS = 256, 384
ATOM = mo.smem_layout_atom(mo.float16, "k")
PAIR, ONE = (mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, BN), mo.make_layout((n, 1)))
             for n in (2, 1))


@mo.jit
def store(C, mma, acc, extents, m, n):
    """The sums that lie inside C."""
    thr_mma = mma.get_slice(mo.thread_idx().x % mo.size(mma))
    cC = mo.tile(mo.identity_tensor(mo.shape(C)), extents, (m, n), ragged=True)
    gC = mo.tile(C, extents, (m, n), ragged=True)                       # (bM, bN)
    tCgC, tCcC = thr_mma.partition_C(gC), thr_mma.partition_C(cC)       # (MMA, MMA_M, MMA_N)
    for i in mo.static_range(mo.size(acc)):
        row, column = tCcC[i]
        if row < mo.size(C, 0) and column < mo.size(C, 1):
            tCgC[i] = acc[i]


@mo.jit
def multiply(mma, tCrA, tCrB, acc, stage, k):
    """One stage's products, which may be under way together with those of the stage before."""
    mo.warpgroup_arrive()
    for kk in mo.static_range(mo.size(tCrA, 2)):
        mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], acc, accumulate=kk > 0 or k > 0)
    mo.warpgroup_commit_batch()


# --- two roles -------------------------------------------------------------------------------------------------------


@mo.jit
def produce(A, B, sA, sB, pipe, n_tiles, fault):
    gA = mo.tile(A.tensor, (BM, BK), (mo.block_idx().x, None))          # (bM, bK, k), coordinates
    gB = mo.tile(B.tensor, (BN, BK), (None, None))                      # (bN, bK, n, k)
    state = pipe.consumer_start() if fault == "starts with the other phase" else pipe.producer_start()
    for n in range(n_tiles):
        for k in range(mo.size(gA, 2)):
            if fault == "no acquire":
                mo.mbarrier_arrive_expect_tx(pipe.full, state.stage, pipe.bytes)
            else:
                pipe.producer_acquire(state, bytes=A.bytes if fault == "expects too few" else None)
            mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
            mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
            state = state.next()


@mo.jit
def consume(C, sA, sB, pipe, n_tiles, k_tiles, fault):
    thr_mma, first = PAIR.get_slice(mo.thread_idx().x % CONSUMERS), mo.thread_idx().x % 128 == 0
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K, stages)
    state = pipe.consumer_start()
    for n in range(n_tiles):
        acc, before = PAIR.partition_fragment_C((BM, BN)), state        # (MMA, MMA_M, MMA_N)
        for k in range(k_tiles):
            if fault != "no wait":
                pipe.consumer_wait(state)
            multiply(PAIR, tCrA, tCrB, acc, state.stage, k)
            if fault == "released too early" and first:
                pipe.consumer_release(state)
            mo.warpgroup_wait(1)
            if k > 0 and first and fault == "":
                pipe.consumer_release(before)
            before, state = state, state.next()
        mo.warpgroup_wait(0)
        if first and fault not in ("no release", "released too early"):
            pipe.consumer_release(before)
        store(C, PAIR, acc, (BM, BN), mo.block_idx().x, n)


@mo.kernel
def roles(C, A, B, K, stages: mo.Constexpr, fault: mo.Constexpr):
    """Each block has a row of tiles of C, one after the other."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(ATOM, (BM, BK, stages)))             # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(ATOM, (BN, BK, stages)))             # (bN, bK, stages)
    pipe = mo.PipelineTma(stages, A.bytes + B.bytes, consumers=1 if fault == "counts one of two" else 2)
    if fault != "no init":
        pipe.init()
    if fault != "no barrier":
        mo.sync_threads()
    n_tiles, k_tiles = mo.ceil_div(mo.size(C, 1), BN), mo.ceil_div(K, BK)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)
        if tid == CONSUMERS:
            produce(A, B, sA, sB, pipe, n_tiles, fault)
    else:
        mo.warpgroup_reg_alloc(232)
        consume(C, sA, sB, pipe, n_tiles, k_tiles, fault)


# --- the same by hand ------------------------------------------------------------------------------------------------


@mo.jit
def produce_by_hand(A, B, sA, sB, full, empty, n_tiles):
    gA = mo.tile(A.tensor, (BM, BK), (mo.block_idx().x, None))          # (bM, bK, k), coordinates
    gB = mo.tile(B.tensor, (BN, BK), (None, None))                      # (bN, bK, n, k)
    stage, phase = 0, 1
    for n in range(n_tiles):
        for k in range(mo.size(gA, 2)):
            mo.mbarrier_wait(empty, stage, phase)
            mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
            mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
            mo.copyto(B, sB[:, :, stage], gB[:, :, n, k], barrier=(full, stage))
            stage += 1
            if stage == mo.size(full):
                stage, phase = 0, phase ^ 1


@mo.jit
def consume_by_hand(C, sA, sB, full, empty, n_tiles, k_tiles):
    thr_mma, first = PAIR.get_slice(mo.thread_idx().x % CONSUMERS), mo.thread_idx().x % 128 == 0
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K, stages)
    stage, phase = 0, 0
    for n in range(n_tiles):
        acc, before = PAIR.partition_fragment_C((BM, BN)), stage        # (MMA, MMA_M, MMA_N)
        for k in range(k_tiles):
            mo.mbarrier_wait(full, stage, phase)
            multiply(PAIR, tCrA, tCrB, acc, stage, k)
            mo.warpgroup_wait(1)
            if k > 0 and first:
                mo.mbarrier_arrive(empty, before)
            before = stage
            stage += 1
            if stage == mo.size(full):
                stage, phase = 0, phase ^ 1
        mo.warpgroup_wait(0)
        if first:
            mo.mbarrier_arrive(empty, before)
        store(C, PAIR, acc, (BM, BN), mo.block_idx().x, n)


@mo.kernel
def roles_by_hand(C, A, B, K, stages: mo.Constexpr, fault: mo.Constexpr):
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(ATOM, (BM, BK, stages)))             # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(ATOM, (BN, BK, stages)))             # (bN, bK, stages)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    n_tiles, k_tiles = mo.ceil_div(mo.size(C, 1), BN), mo.ceil_div(K, BK)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)
        if tid == CONSUMERS:
            produce_by_hand(A, B, sA, sB, full, empty, n_tiles)
    else:
        mo.warpgroup_reg_alloc(232)
        consume_by_hand(C, sA, sB, full, empty, n_tiles, k_tiles)


# --- a persistent grid -----------------------------------------------------------------------------------------------


@mo.kernel
def persistent(C, A, B, K, stages: mo.Constexpr, fault: mo.Constexpr):
    """Tiles as a scheduler deals them out; the ring goes on from tile to tile."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(ATOM, (BM, BK, stages)))             # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(ATOM, (BN, BK, stages)))             # (bN, bK, stages)
    pipe = mo.PipelineTma(stages, A.bytes + B.bytes)
    pipe.init()
    mo.sync_threads()
    k_tiles = mo.ceil_div(K, BK)
    sched = mo.PersistentTileScheduler(mo.ceil_div(mo.size(C, 0), BM), mo.ceil_div(mo.size(C, 1), BN))
    if mo.warpgroup_idx() == 2:
        if tid == CONSUMERS:
            gA = mo.tile(A.tensor, (BM, BK), (None, None))                              # (bM, bK, m, k)
            gB = mo.tile(B.tensor, (BN, BK), (None, None))                              # (bN, bK, n, k)
            state = pipe.producer_start()
            for t in range(sched.first, sched.tiles, sched.step):
                m, n, _ = sched.coordinates(t)
                for k in range(k_tiles):
                    pipe.producer_acquire(state)
                    mo.copyto(A, sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
                    mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                    state = state.next()
    else:
        thr_mma = PAIR.get_slice(tid % CONSUMERS)
        tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)
        state = pipe.consumer_start()
        for t in range(sched.first, sched.tiles, sched.step):
            m, n, _ = sched.coordinates(t)
            acc = PAIR.partition_fragment_C((BM, BN))                   # (MMA, MMA_M, MMA_N)
            for k in range(k_tiles):
                pipe.consumer_wait(state)
                multiply(PAIR, tCrA, tCrB, acc, state.stage, k)
                mo.warpgroup_wait(0)
                if tid % 128 == 0:
                    pipe.consumer_release(state)
                if fault != "stays":
                    state = state.next()
            store(C, PAIR, acc, (BM, BN), m, n)


# --- ping-pong -------------------------------------------------------------------------------------------------------


@mo.kernel
def ping_pong(C, A, B, K, stages: mo.Constexpr, fault: mo.Constexpr):
    """Each warpgroup has every other tile of 64 rows, and goes past the stages of the other's.

    They take turns: who waits for a stage must not be two phases ahead of its barrier, and one stores while the other
    multiplies.
    """
    tid = mo.thread_idx().x
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(ATOM, (BM // 2, BK, stages)))        # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(ATOM, (BN, BK, stages)))             # (bN, bK, stages)
    pipe = mo.PipelineTma(stages, A.bytes + B.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    n_tiles, k_tiles = mo.ceil_div(mo.size(C, 1), BN), mo.ceil_div(K, BK)
    group, first = mo.warpgroup_idx(), tid % 128 == 0
    if group == 2:
        if tid == CONSUMERS:
            gA = mo.tile(A.tensor, (BM // 2, BK), (mo.block_idx().x, None))             # (bM, bK, k)
            gB = mo.tile(B.tensor, (BN, BK), (None, None))                              # (bN, bK, n, k)
            state = pipe.producer_start()
            for n in range(n_tiles):
                for k in range(k_tiles):
                    pipe.producer_acquire(state)
                    mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
                    mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                    state = state.next()
    else:
        thr_mma = ONE.get_slice(tid % 128)
        tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)
        state, n = pipe.consumer_start().advance(group * k_tiles), group
        if group == 1:
            mo.barrier_arrive(1, 256)                                   # the other one begins
        while n < n_tiles:
            acc = ONE.partition_fragment_C((BM // 2, BN))               # (MMA, MMA_M, MMA_N)
            if fault != "out of turn":
                mo.barrier_sync(1 + group, 256)
            for k in range(k_tiles):
                pipe.consumer_wait(state)
                multiply(ONE, tCrA, tCrB, acc, state.stage, k)
                mo.warpgroup_wait(0)
                if first:
                    pipe.consumer_release(state)
                state = state.next()
            if n + 1 < n_tiles and fault != "out of turn":
                mo.barrier_arrive(2 - group, 256)
            store(C, ONE, acc, (BM // 2, BN), mo.block_idx().x, n)
            n += 2
            if fault != "no advance":
                state = state.advance(k_tiles)


# --- a cluster -------------------------------------------------------------------------------------------------------


@mo.kernel
def cluster(C, A, B, K, stages: mo.Constexpr, fault: mo.Constexpr):
    """Two blocks load half of each tile of B for both; a stage is free when the warpgroups of both have read it."""
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    sA = mo.shared_array(A.dtype, mo.tile_to_shape(ATOM, (BM, BK, stages)))             # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, mo.tile_to_shape(ATOM, (BN, BK, stages)))             # (bN, bK, stages)
    pipe = mo.PipelineTma(stages, A.bytes + B.bytes, consumers=4)
    pipe.init()
    mo.cluster_sync()
    n_tiles, k_tiles = mo.ceil_div(mo.size(C, 1), BN), mo.ceil_div(K, BK)
    if mo.warpgroup_idx() == 2:
        if tid == CONSUMERS:
            gA = mo.tile(A.tensor, (BM, BK), (mo.block_idx().x, None))                  # (bM, bK, k)
            gB = mo.tile(B.tensor, (BN, BK), (None, None))                              # (bN, bK, n, k)
            state = pipe.producer_start()
            for n in range(n_tiles):
                for k in range(k_tiles):
                    pipe.producer_acquire(state)
                    mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
                    mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state), multicast=0b11)
                    state = state.next()
            if fault != "no tail":
                pipe.producer_tail(state)
    else:
        thr_mma = PAIR.get_slice(tid % CONSUMERS)
        tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)
        state = pipe.consumer_start()
        for n in range(n_tiles):
            acc = PAIR.partition_fragment_C((BM, BN))                   # (MMA, MMA_M, MMA_N)
            for k in range(k_tiles):
                pipe.consumer_wait(state)
                multiply(PAIR, tCrA, tCrB, acc, state.stage, k)
                mo.warpgroup_wait(0)
                if tid % 128 < 2 and fault != "releases its own":       # a thread for each block
                    pipe.consumer_release(state, cta=tid % 128)
                elif tid % 128 < 2:
                    pipe.consumer_release(state, cta=rank)
                state = state.next()
            store(C, PAIR, acc, (BM, BN), mo.block_idx().x, n)


# --- launches --------------------------------------------------------------------------------------------------------

ROWS = {"roles": BM, "roles_by_hand": BM, "persistent": BM, "ping_pong": BM // 2, "cluster": BM}
KERNELS = {"roles": roles, "roles_by_hand": roles_by_hand, "persistent": persistent, "ping_pong": ping_pong,
           "cluster": cluster}


def arguments(M, N, K):
    """Operands whose rows are padded to multiples of 16 bytes, and a poisoned C."""
    rng = np.random.default_rng([M, N, K])
    padded = -(-K // 8) * 8
    A, B = (rng.standard_normal((rows, padded)).astype(np.float16) for rows in (M, N))
    return np.full((M, N), np.nan, np.float32), A[:, :K], B[:, :K]


def run(name, kernel, C, A, B, stages, fault=""):
    """Launch ``kernel``: the kernel of this name, or what checks or compiles it."""
    rows = ROWS[name]
    tma_A = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(ATOM, (rows, BK)))
    shared = {"multicast": 2} if name == "cluster" else {}
    tma_B = mo.make_tma_copy(mo.TmaLoad(), B, mo.tile_to_shape(ATOM, (BN, BK)), **shared)
    grid = -(-C.shape[0] // rows)
    if name == "cluster":
        grid += grid % 2
    elif name == "persistent":                          # fewer blocks than tiles
        grid = max(1, grid - 1)
    return kernel.launch(C, tma_A, tma_B, A.shape[1], stages, fault, grid=grid, block=THREADS,
                         cluster=2 if name == "cluster" else 1)
