"""The kernel of ``gemm_sm90``: one warp loads, warpgroups multiply and store.

In: TMA copies of A (M, K), B (N, K) and C (M, N), what is fused, a ``Plan``.  Out: C written.

    gemm_sm90_kernel.launch(tma_A, tma_B, None, tma_C, *12 * [None], plan, grid=132, block=plan.config.threads)

A persistent grid.  One thread fills a ring of stages by TMA; warpgroups multiply them, together or in turns.  Edges
need no predicates: TMA reads zeros outside.  The roles meet only at the mbarriers of a stage, ``pipe``: full, empty.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP
from moye.kernels.gemm.sm90.epilogue import (
    Epilogue,
    finish_stores,
    gather_and_store,
    gather_in_memory,
    rank_of,
    store,
    tile_of,
)

_TURN = 4
"""Named barriers 4 and 5: the turn of warpgroup 0 and of 1 to multiply; those below are the epilogue's."""


@mo.kernel
def gemm_sm90_kernel(A, B, B_up, C_tma, C, residual, bias, bias_up, rows, columns, columns_up, alpha, beta,
                     parts, arrived, plan: mo.Constexpr):
    """Tiles of C, block after block of the persistent grid, or one for each cluster; what is not asked for is None.

    The parameters are flat, because a launch looks at such arguments alone the short way.
    """
    Bs = (B, B_up) if plan.fusion.gated else (B,)
    out = Epilogue(C_tma, C, residual, (bias, bias_up), rows, (columns, columns_up), alpha, beta,
                   mo.size(A.tensor, 0), mo.size(B.tensor, 0))
    config, tid = plan.config, mo.thread_idx().x
    sA, sB, memory = stages_of(plan)                                    # (bM, bK, stages), (bN, bK, stages)
    sC = mo.shared_array(plan.C.dtype, plan.C.staged) if plan.C.staged is not None and not plan.in_cluster else None
    if parts is not None:
        each = config.bM * config.bN * config.split_k
        room = mo.shared_array(mo.float32, plan.room)                               # (4, threads, sums / 4, peers)
        memory = mo.tile(parts, (each, 1), (0, None))[:, 0, :], arrived, room       # (each, tiles), (tiles)
    if tid == config.groups * GROUP:                                    # fetched while the barriers are initialised
        for X in (A, *Bs, *([out.tma] if plan.C.major else [])):
            mo.prefetch_tensormap(X)
    readers = (1 if plan.in_turns else config.groups) * config.peers
    pipe = mo.PipelineTma(config.stages, A.bytes + len(Bs) * Bs[0].bytes, consumers=readers)
    pipe.init()
    if config.cluster > 1:                              # nobody waits before the barriers are initialised; relaxed,
        mo.cluster_arrive(relaxed=True)                 # as pipe.init has a fence for what it wrote
        mo.cluster_wait()
    else:
        mo.sync_threads()
    sched, k_tiles = schedule(plan, A, Bs, out)
    if mo.warpgroup_idx() == config.groups:
        share_registers(plan, loads=True)
        if tid == config.groups * GROUP:
            produce(plan, A, Bs, sA, sB, pipe, sched, k_tiles)
        if plan.in_cluster:                                             # every thread of a cluster counts at its
            mo.cluster_sync()                                           # barriers: the two of gather_and_store
            mo.cluster_sync()
    else:
        share_registers(plan, loads=False)
        consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles)
    if config.peers > 1:                                # no block leaves while another may still load into it
        mo.cluster_arrive(relaxed=True)
        mo.cluster_wait()


@mo.jit
def stages_of(plan):
    """The stages of A and B; where blocks gather their sums there also as plain memory."""
    if not plan.in_cluster:
        return mo.shared_array(plan.A.dtype, plan.A.stages), mo.shared_array(plan.B.dtype, plan.B.stages), None
    A = mo.shared_array(plan.A.dtype, mo.cosize(plan.A.stages), align=1024)         # as swizzled rows are aligned
    B = mo.shared_array(plan.B.dtype, mo.cosize(plan.B.stages), align=1024)
    return A.with_layout(plan.A.stages), B.with_layout(plan.B.stages), (A, B)


@mo.jit
def share_registers(plan, loads):
    """Of 65536 registers, 384 threads get 168 each.  One warpgroup leaves 144 of them, the other two take 72 each.

    The sums of a 128 x 192 tile are 192 registers of each of its threads.  Two warpgroups have enough as it is.
    """
    if plan.config.groups > 1:
        least, most = (24, 240) if plan.config.groups == 2 else (32, 160)
        if loads:
            mo.warpgroup_reg_dealloc(least)
        else:
            mo.warpgroup_reg_alloc(most)


# --- which tiles, which k tiles --------------------------------------------------------------------------------------


@mo.jit
def schedule(plan, A, Bs, out):
    """The tiles of C in the order of the persistent grid, and how many k tiles each has."""
    config = plan.config
    M, N, K = plan.extents.constant or (out.M, out.N, mo.size(A.tensor, 1))
    m_tiles, n_tiles = mo.ceil_div(M, config.bM), mo.ceil_div(N, config.bN // len(Bs))
    if config.peers > 1:                                # the tiles of a cluster count as one
        m_tiles, n_tiles = mo.ceil_div(m_tiles, config.share_B), mo.ceil_div(n_tiles, config.share_A)
    batches = mo.size(A.tensor, 2) if plan.extents.batched else 1
    if plan.gathers and not plan.in_cluster:
        mo.assume(mo.grid_dim().x >= config.sharing)    # no hardware says so, as it does of clusters
    return mo.PersistentTileScheduler(m_tiles, n_tiles, batches, config.raster, cluster=config.sharing), \
        mo.ceil_div(K, config.bK)


@mo.jit
def coordinates(plan, sched, tile):
    """(m, n, batch) of a tile; blocks that share operands have neighbouring ones, which count as one until here."""
    config, (m, n, batch) = plan.config, sched.coordinates(tile)
    if config.peers == 1:
        return m, n, batch
    row, column = within(plan)
    return config.share_B * m + row, config.share_A * n + column, batch


@mo.jit
def number_of(plan, tile):
    """A tile's number among all, if the tiles of a cluster count as one until here."""
    return tile if plan.config.cluster == 1 else tile * plan.config.cluster + mo.cluster_rank()


@mo.jit
def within(plan):
    """(row, column) of this block's tile among those of its cluster."""
    if plan.config.share_A == 1:
        return mo.cluster_rank(), 0
    if plan.config.share_B == 1:
        return 0, mo.cluster_rank()
    return mo.cluster_rank() // plan.config.share_A, mo.cluster_rank() % plan.config.share_A


@mo.jit
def k_range(plan, k_tiles):
    """The k tiles of this block: all of them, or its share."""
    if plan.gathers:
        rank, split = rank_of(plan), plan.config.split_k
        return rank * k_tiles // split, (rank + 1) * k_tiles // split
    return 0, k_tiles


# --- the thread that loads -------------------------------------------------------------------------------------------


@mo.jit
def produce(plan, A, Bs, sA, sB, pipe, sched, k_tiles):
    """One thread fills the stages, tile after tile, as they become free: it runs ahead as far as there are stages."""
    config = plan.config
    hints = ["evict_first" if config.stream == side else None for side in "AB"]
    masks = readers_of(plan)
    k_first, k_last = k_range(plan, k_tiles)
    state = pipe.producer_start()
    for tile in range(sched.first, sched.tiles, sched.step):
        bx, by, bz = coordinates(plan, sched, tile)
        for k in range(k_first, k_last):
            pipe.producer_acquire(state)                # and expect all bytes of the stage, before the first arrives
            mo.copyto(A, sA[:, :, state.stage], tile_of(plan, A.tensor, (config.bM, config.bK), bx, k, bz),
                      barrier=pipe.barrier(state), hint=hints[0], multicast=masks[0])           # (bM, bK[, 1])
            for j in mo.static_range(len(Bs)):          # the factors of a gated product lie one below the other
                half = mo.tile(sB, (config.bN // len(Bs), config.bK, 1), (j, 0, state.stage))[:, :, 0]
                mo.copyto(Bs[j], half, tile_of(plan, Bs[j].tensor, (config.bN // len(Bs), config.bK), by, k, bz),
                          barrier=pipe.barrier(state), hint=hints[1], multicast=masks[1])       # (bN, bK[, 1])
            state = state.next()


@mo.jit
def readers_of(plan):
    """Masks of the blocks for which this one loads its part of a tile of A, and of one of B; None: for itself alone."""
    row, column = within(plan)
    A = None if plan.config.share_A == 1 else ((1 << plan.config.share_A) - 1) << plan.config.share_A * row
    B = None if plan.config.share_B == 1 else sum(1 << plan.config.share_A * i
                                                  for i in range(plan.config.share_B)) << column
    return A, B


# --- the warpgroups that multiply ------------------------------------------------------------------------------------


@mo.jit
def consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles):
    """A warpgroup's tiles: multiplied together with the others, or in turns, and stored."""
    config, tid, group = plan.config, mo.thread_idx().x, mo.warpgroup_idx()
    thr_mma = plan.product.mma.get_slice(tid % (GROUP if plan.in_turns else config.groups * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    state = pipe.consumer_start()
    ks = k_range(plan, k_tiles)
    multiply = promoted_mainloop if plan.product.promote else mainloop
    first, step = sched.first, sched.step
    if plan.in_turns:
        if group == 1:
            mo.barrier_arrive(_TURN, 2 * GROUP)         # warpgroup 0 begins
            state = state.advance(k_tiles)              # the stages of the first tile are the other's
        first, step = first + group * step, 2 * step    # every other tile of the block
    for tile in range(first, sched.tiles, step):
        place = coordinates(plan, sched, tile)
        acc = plan.product.mma.partition_fragment_C((config.bM, config.bN))     # (MMA, MMA_M, MMA_N)
        if plan.in_turns:
            mo.barrier_sync(_TURN + group, 2 * GROUP)   # the other has begun all of its products
        state = multiply(plan, pipe, acc, tCrA, tCrB, state, ks)
        if plan.in_turns:
            state = state.advance(k_tiles)              # past the tile that the other multiplies meanwhile
        if plan.in_cluster:
            gather_and_store(plan, out, memory, acc, place)
        elif plan.gathers:
            gather_in_memory(plan, out, memory, sC, acc, place, number_of(plan, tile))
        else:
            store(plan, out, sC, acc, place)
    finish_stores(plan)


@mo.jit
def mainloop(plan, pipe, acc, tCrA, tCrB, state, ks):
    """acc = A * B over these k tiles; the state after them.  A stage is released one step after its products began."""
    k_first, k_last = ks
    before = state
    # Two groups of products are in flight: while those of one stage run, those of the next are issued, and only then is
    # the older stage given back.  wgmma is asynchronous, and reads shared memory until it is waited for (PTX ISA,
    # wgmma.wait_group).
    for k in range(k_first, k_last):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()                           # the registers of acc are as the products may find them
        for kk in mo.static_range(mo.size(tCrA, 2)):    # one instruction deep in K; the first product overwrites acc
            mo.gemm(plan.product.mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], acc,
                    accumulate=kk > 0 or k > k_first)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)                            # the products of the stage before are done; these go on
        if k > k_first:
            release(plan, pipe, before)
        before, state = state, state.next()
    hand_over(plan)                                     # before the wait: the tensor core has no gap between the two
    mo.warpgroup_wait(0)
    release(plan, pipe, before)
    return state


@mo.jit
def promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, ks):
    """The same, but the tensor core, whose sums of 8-bit floats keep 14 bits, sums one k tile; registers the rest."""
    k_first, k_last = ks
    part = mo.make_fragment_like(acc)                   # (MMA, MMA_M, MMA_N)
    acc.fill(0)
    for _k in range(k_first, k_last):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(plan.product.mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], part,
                    accumulate=kk > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)                            # registers read the sums: no product may still be under way
        release(plan, pipe, state)
        acc[...] = acc + part
        state = state.next()
    hand_over(plan)
    return state


@mo.jit
def release(plan, pipe, state):
    """The warpgroup has read a stage: one arrival in every block that fills it."""
    config, lane = plan.config, mo.thread_idx().x % GROUP
    if config.peers == 1:
        if lane == 0:
            pipe.consumer_release(state)
    elif lane < config.peers:
        pipe.consumer_release(state, cta=filler(plan, lane))


@mo.jit
def filler(plan, lane):
    """The rank of one of the blocks that fill this one's stages: those of its row, then the others of its column."""
    across, (row, column) = plan.config.share_A, within(plan)
    if 1 in (across, plan.config.share_B):
        return lane                                     # the cluster is one row, or one column
    other = lane - across
    other = mo.where(other < row, other, other + 1)
    return mo.where(lane < across, across * row + lane, across * other + column)


@mo.jit
def hand_over(plan):
    """The other warpgroup may multiply; this one stores meanwhile."""
    if plan.in_turns:
        mo.barrier_arrive(_TURN + 1 - mo.warpgroup_idx(), 2 * GROUP)
