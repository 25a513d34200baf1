"""The kernel of ``gemm_sm90``: one warp loads, warpgroups multiply and store.

In: TMA copies of A (M, K), B (N, K) and C (M, N), what is fused, a ``Plan``.  Out: C written.

    gemm_sm90_kernel.launch(tma_A, tma_B, None, tma_C, *10 * [None], plan, grid=132, block=plan.config.threads)

A persistent grid.  One thread fills a ring of stages by TMA; warpgroups multiply them, together or in turns.  Edges
need no predicates: TMA reads zeros outside.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP
from moye.kernels.gemm.sm90.epilogue import Output, at, finish, put, tiles_of

_ORDER = 4
"""Named barriers from here on: whose turn it is to multiply; those below it are the epilogue's."""


@mo.jit
def coordinates(plan, sched, tile):
    """(m, n, batch) of a tile; blocks that share an operand have neighbouring ones, which count as one until here."""
    m, n, batch = sched.coordinates(tile)
    if plan.config.multicast == "A":
        n = 2 * n + mo.cluster_rank()
    if plan.config.multicast == "B":
        m = 2 * m + mo.cluster_rank()
    return m, n, batch


@mo.jit
def k_range(plan, k_tiles):
    """The k tiles of this block: all of them, or its share in the cluster."""
    if plan.gathers:
        rank, split = mo.cluster_rank(), plan.config.split_k
        return rank * k_tiles // split, (rank + 1) * k_tiles // split
    return 0, k_tiles


@mo.jit
def produce(plan, A, Bs, sA, sB, pipe, sched, k_tiles):
    """One thread fills the stages, tile after tile, as they become free."""
    config = plan.config
    hints = ["evict_first" if config.stream == side else None for side in "AB"]
    masks = [0b11 if config.multicast == side else None for side in "AB"]
    gA = tiles_of(A.tensor, (config.bM, config.bK), plan.batched)                       # (bM, bK, m, k[, l])
    gBs = [tiles_of(B.tensor, (config.bN // len(Bs), config.bK), plan.batched) for B in Bs]     # (bN, bK, n, k[, l])
    k_first, k_last = k_range(plan, k_tiles)
    state = pipe.producer_start()
    for tile in range(sched.first, sched.tiles, sched.step):
        bx, by, bz = coordinates(plan, sched, tile)
        for k in range(k_first, k_last):
            pipe.producer_acquire(state)
            mo.copyto(A, sA[:, :, state.stage], at(gA, bx, k, bz, plan.batched), barrier=pipe.barrier(state),
                      hint=hints[0], multicast=masks[0])
            for j in mo.static_range(len(Bs)):
                half = mo.tile(sB, (config.bN // len(Bs), config.bK, 1), (j, 0, state.stage))[:, :, 0]
                mo.copyto(Bs[j], half, at(gBs[j], by, k, bz, plan.batched), barrier=pipe.barrier(state),
                          hint=hints[1], multicast=masks[1])
            state = state.next()


@mo.jit
def release(plan, pipe, state):
    """The warpgroup has read a stage: one arrival in every block that fills it."""
    lane = mo.thread_idx().x % GROUP
    if plan.config.multicast:
        if lane < 2:
            pipe.consumer_release(state, cta=lane)
    elif lane == 0:
        pipe.consumer_release(state)


@mo.jit
def mainloop(plan, pipe, acc, tCrA, tCrB, state, k_first, k_last):
    """acc = A * B over these k tiles; the state after them.  A stage is released one step after its products began."""
    before = state
    for k in range(k_first, k_last):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(plan.mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], acc,
                    accumulate=kk > 0 or k > k_first)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
        if k > k_first:
            release(plan, pipe, before)
        before, state = state, state.next()
    hand_over(plan)
    mo.warpgroup_wait(0)
    release(plan, pipe, before)
    return state


@mo.jit
def promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, k_first, k_last):
    """The same, but the tensor core, whose sums of 8-bit floats keep 14 bits, sums one k tile; registers the rest."""
    part = mo.make_fragment_like(acc)
    acc.fill(0)
    for _k in range(k_first, k_last):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(plan.mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], part, accumulate=kk > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        release(plan, pipe, state)
        acc[...] = acc + part
        state = state.next()
    hand_over(plan)
    return state


@mo.jit
def hand_over(plan):
    """The other warpgroup may multiply."""
    if plan.config.schedule == "pingpong":
        mo.barrier_arrive(_ORDER + 1 - mo.warpgroup_idx(), 2 * GROUP)


@mo.jit
def pieces(plan, acc):
    """The accumulators as pieces of 64 rows and ``plan.columns`` columns: (sums, column, row)."""
    each = plan.columns // 2
    return acc.with_layout(mo.make_layout((each, plan.config.bN // plan.columns, plan.config.rows // 64)))


@mo.jit
def store(plan, out, sC, acc, bx, by, bz):
    """The warpgroup's rows of a tile to C, piece after piece through two buffers."""
    sums, config = pieces(plan, acc), plan.config                       # (sums, column, row)
    halves = 2 if plan.fusion.gated else 1
    columns, rows = mo.size(sums, 1) // halves, mo.size(sums, 2)
    group, groups = (mo.warpgroup_idx(), config.groups) if config.schedule == "cooperative" else (0, 1)
    for p in mo.static_range(rows * columns):
        i, c = p // columns, p % columns
        place = (bx * (config.bM // 64) + group + groups * i, by * columns + c)
        parts = [plan.chunk.partition_fragment_C((64, plan.columns)) for _ in range(halves)]        # (MMA, 1, 1)
        for half in mo.static_range(halves):
            mo.copyto(parts[half].with_layout(mo.make_layout(mo.size(sums, 0))), sums[:, c + half * columns, i])
        part = finish(plan, out, parts, place, bz)
        put(plan, out, sC, part, place, bz, p % 2, 0 if p == 0 and rows * columns % 2 else 1)


@mo.jit
def gather_and_store(plan, out, memory, acc, bx, by, bz):
    """Each block of the cluster hands its sums round in shared memory, and stores the pieces that are its own.

    They lie where tiles of A were, and the pieces on their way out where tiles of B were.
    """
    sums, config, tid = pieces(plan, acc), plan.config, mo.thread_idx().x
    each, columns, rows = mo.size(sums, 0), mo.size(sums, 1), mo.size(sums, 2)
    threads, rank = config.groups * GROUP, mo.cluster_rank()
    sC = mo.recast(memory[1], plan.out).with_layout(plan.sC) if plan.major_C else None      # (64 * groups, columns, 2)
    parts = mo.recast(memory[0], acc.dtype).with_layout(mo.make_layout((4, threads, each // 4, columns, rows)))
    mo.barrier_sync(3, threads)                                         # the stages are read, by all of the block
    quads = acc.with_layout(mo.make_layout((4, each // 4, columns, rows)))
    mo.copyto(parts[:, tid, :, :, :], quads)
    mo.cluster_sync()
    for p in mo.static_range(rows * columns):
        if rank == p % config.split_k:
            i, c = p // columns, p % columns
            part = plan.chunk.partition_fragment_C((64, plan.columns))
            part.fill(0)
            for peer in mo.static_range(config.split_k):
                theirs = mo.make_fragment_like(part).with_layout(mo.make_layout((4, each // 4)))
                mo.copyto(theirs, mo.map_shared_rank(parts, peer)[:, tid, :, c, i])
                part[...] = part + theirs.with_layout(part.layout)
            place = (bx * (config.bM // 64) + mo.warpgroup_idx() + config.groups * i, by * columns + c)
            put(plan, out, sC, finish(plan, out, [part], place, bz), place, bz, p // config.split_k % 2, 1)
    mo.cluster_sync()


@mo.jit
def stages_of(plan):
    """The stages of A and B; where blocks gather their sums there also as plain memory."""
    if not plan.gathers:
        return mo.shared_array(plan.dtypes[0], plan.sA), mo.shared_array(plan.dtypes[1], plan.sB), None
    A = mo.shared_array(plan.dtypes[0], mo.cosize(plan.sA), align=1024)
    B = mo.shared_array(plan.dtypes[1], mo.cosize(plan.sB), align=1024)
    return A.with_layout(plan.sA), B.with_layout(plan.sB), (A, B)


@mo.jit
def consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles):
    """A warpgroup's tiles: multiplied together with the others, or in turns, and stored."""
    config, tid, group = plan.config, mo.thread_idx().x, mo.warpgroup_idx()
    pingpong = config.schedule == "pingpong"
    thr_mma = plan.mma.get_slice(tid % (GROUP if pingpong else config.groups * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)                         # (MMA, MMA_M, MMA_K, stages)
    tCrB = thr_mma.partition_fragment_B(sB)                         # (MMA, MMA_N, MMA_K, stages)
    state = pipe.consumer_start()
    k_first, k_last = k_range(plan, k_tiles)
    multiply = promoted_mainloop if plan.promote else mainloop
    first, step = sched.first, sched.step
    if pingpong:
        if group == 1:
            mo.barrier_arrive(_ORDER, 2 * GROUP)
            state = state.advance(k_tiles)
        first, step = first + group * step, 2 * step
    for tile in range(first, sched.tiles, step):
        bx, by, bz = coordinates(plan, sched, tile)
        acc = plan.mma.partition_fragment_C((config.bM, config.bN))             # (MMA, MMA_M, MMA_N)
        if pingpong:
            mo.barrier_sync(_ORDER + group, 2 * GROUP)
        state = multiply(plan, pipe, acc, tCrA, tCrB, state, k_first, k_last)
        if pingpong:
            state = state.advance(k_tiles)
        if plan.gathers:
            gather_and_store(plan, out, memory, acc, bx, by, bz)
        else:
            store(plan, out, sC, acc, bx, by, bz)
    if plan.major_C and tid % (GROUP if config.store == "warpgroup" else 32) == 0:
        mo.tma_store_wait(0)


@mo.kernel
def gemm_sm90_kernel(A, B, B_up, C_tma, C, residual, bias, bias_up, rows, columns, columns_up, alpha, beta,
                     plan: mo.Constexpr):
    """Tiles of C, block after block of the persistent grid, or one for each cluster; what is not asked for is None."""
    Bs = (B, B_up) if plan.fusion.gated else (B,)
    out = Output(C_tma, C, residual, (bias, bias_up), rows, (columns, columns_up), alpha, beta, mo.size(A.tensor, 0),
                 mo.size(B.tensor, 0))
    config, tid = plan.config, mo.thread_idx().x
    groups, pingpong = config.groups, config.schedule == "pingpong"
    sA, sB, memory = stages_of(plan)                                    # (bM, bK, stages), (bN, bK, stages)
    sC = mo.shared_array(plan.out, plan.sC) if plan.major_C and not plan.gathers else None      # (rows, columns, 2)
    if tid == groups * GROUP:
        for X in (A, *Bs, *([out.tma] if plan.major_C else [])):
            mo.prefetch_tensormap(X)
    pipe = mo.PipelineTma(config.stages, A.bytes + len(Bs) * Bs[0].bytes,
                          consumers=(1 if pingpong else groups) * (2 if config.multicast else 1))
    pipe.init()
    if config.cluster > 1:
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()
    else:
        mo.sync_threads()
    sched, k_tiles = schedule(plan, A, Bs, out)
    if mo.warpgroup_idx() == groups:
        if groups == 2:
            mo.warpgroup_reg_dealloc(24)
        if tid == groups * GROUP:
            produce(plan, A, Bs, sA, sB, pipe, sched, k_tiles)
        if plan.gathers:
            mo.cluster_sync()
            mo.cluster_sync()
    else:
        if groups == 2:
            mo.warpgroup_reg_alloc(240)
        consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles)
    if config.multicast:                                # no block leaves while another may still load into it
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()


@mo.jit
def schedule(plan, A, Bs, out):
    """The tiles of C in the order of the persistent grid, and how many k tiles each has."""
    config = plan.config
    M, N, K = plan.extents or (out.M, out.N, mo.size(A.tensor, 1))
    m_tiles, n_tiles = mo.ceil_div(M, config.bM), mo.ceil_div(N, config.bN // len(Bs))
    if config.multicast == "A":
        n_tiles = mo.ceil_div(n_tiles, 2)
    if config.multicast == "B":
        m_tiles = mo.ceil_div(m_tiles, 2)
    batches = mo.size(A.tensor, 2) if plan.batched else 1
    return mo.PersistentTileScheduler(m_tiles, n_tiles, batches, config.raster, cluster=config.cluster), \
        mo.ceil_div(K, config.bK)
