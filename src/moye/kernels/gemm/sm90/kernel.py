"""The kernel of ``gemm_sm90``: one warp loads, warpgroups multiply and store.

In: TMA copies of A (M, K), B (N, K) and C (M, N), what is fused, a ``Plan``.  Out: C written.

    gemm_sm90_kernel.launch(tma_A, tma_B, None, tma_C, *14 * [None], plan, grid=132, block=plan.config.threads)

A persistent grid, or a grid of tiles.  One thread fills a ring of stages by TMA; warpgroups multiply them, together or
in turns.  Edges need no predicates: TMA reads zeros outside.  The roles meet at a stage's mbarriers, ``pipe``, alone.
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
from moye.kernels.gemm.sm90.mainloop import TURN, await_turn, first_turn, kept, mainloop, promoted_mainloop, within
from moye.kernels.gemm.sm90.scales import scales_of_tile, stages_of_scales
from moye.kernels.gemm.sm90.shares import leave, take_up
from moye.kernels.gemm.sm90.strips import column_of


@mo.kernel
def gemm_sm90_kernel(A, B, B_up, C_tma, C, residual, bias, bias_up, rows, columns, columns_up, alpha, beta,
                     parts, arrived, scale_A, scale_B, plan: mo.Constexpr):
    """Tiles of C, block after block of the persistent grid, or one for each block; what is not asked for is None.

    The parameters are flat, because a launch looks at such arguments alone the short way.
    """
    Bs = (B, B_up) if plan.fusion.gated else (B,)
    out = Epilogue(C_tma, C, residual, (bias, bias_up), rows, (columns, columns_up), alpha, beta,
                   mo.size(A.tensor, 0), mo.size(B.tensor, 0))
    config, tid = plan.config, mo.thread_idx().x
    sA, sB, memory = stages_of(plan)                                    # (bM, bK, stages), (bN, bK, stages)
    sS = stages_of_scales(plan)                                         # (bM, 1, stages)
    sC = mo.shared_array(plan.C.dtype, plan.C.staged) if plan.C.staged is not None and not plan.in_cluster else None
    if config.stream_k:
        memory = parts, arrived                                         # (bM * bN, blocks), (blocks)
    elif parts is not None:
        each = config.bM * config.bN * config.split_k
        zero = mo.shared_array(parts.dtype, 1)
        memory = mo.tile(parts, (each, 1), (0, None))[:, 0, :], arrived, zero       # (each, tiles), (tiles)
    if tid == config.groups * GROUP:                                    # fetched while the barriers are initialised
        for X in (A, *Bs, *([out.tma] if plan.C.major else [])):
            mo.prefetch_tensormap(X)
        if plan.gathers and not plan.in_cluster:
            zero[0] = 0
    readers = sharers(plan) * config.peers * plan.product.readers
    in_stage = A.bytes + len(Bs) * Bs[0].bytes + (0 if sS is None else scale_A.bytes)
    pipe = mo.PipelineTma(config.stages, in_stage, consumers=readers)
    sched, k_tiles = schedule(plan, A, Bs, out)
    pipe.init()
    first = first_place(plan, sched)
    if config.cluster > 1:                              # nobody waits before the barriers are initialised; relaxed,
        mo.cluster_arrive(relaxed=True)                 # as pipe.init has a fence for what it wrote
        mo.cluster_wait()
    else:
        mo.sync_threads()
    if mo.warpgroup_idx() == config.groups:
        share_registers(plan, loads=True)
        if tid == config.groups * GROUP:
            if plan.follows:                            # all else that a block does comes after its first loads
                mo.griddepcontrol_wait()
            produce(plan, A, Bs, sA, sB, pipe, sched, first, k_tiles, (scale_A, sS))
        if plan.in_cluster:                                             # every thread of a cluster counts at its
            mo.cluster_sync()                                           # barriers: the two of gather_and_store
            mo.cluster_sync()
    else:
        share_registers(plan, loads=False)
        consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles, (scale_A, sS, scale_B))


@mo.jit
def stages_of(plan):
    """The stages of A and B; where blocks gather their sums there also as plain memory."""
    if not plan.in_cluster:
        return mo.shared_array(plan.A.dtype, plan.A.stages), mo.shared_array(plan.B.dtype, plan.B.stages), None
    A = mo.shared_array(plan.A.dtype, mo.cosize(plan.A.stages), align=1024)         # as swizzled rows are aligned
    B = mo.shared_array(plan.B.dtype, mo.cosize(plan.B.stages), align=1024)
    return A.with_layout(plan.A.stages), B.with_layout(plan.B.stages), (A, B)


@mo.jit
def sharers(plan):
    """Warpgroups that multiply a tile together."""
    return 1 if plan.in_turns else plan.config.groups


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
    """The tiles of C in the order of the persistent grid, and how many k tiles each has; or what share of all these a
    block has.
    """
    config = plan.config
    M, N, K = plan.extents.constant or (out.M, out.N, mo.size(A.tensor, 1))
    m_tiles, n_tiles = mo.ceil_div(M, config.bM), columns_of_tiles(plan, N, config.bN // len(Bs))
    if config.peers > 1:                                # the tiles of a cluster count as one
        m_tiles, n_tiles = mo.ceil_div(m_tiles, config.share_B), mo.ceil_div(n_tiles, config.share_A)
    batches = mo.size(A.tensor, 2) if plan.extents.batched else 1
    if plan.gathers and not plan.in_cluster:
        mo.assume(mo.grid_dim().x >= config.sharing)    # no hardware says so, as it does of clusters
    k_tiles, cluster = mo.ceil_div(K, config.bK), config.sharing
    sched = mo.StreamKScheduler(m_tiles, n_tiles, k_tiles, batches, config.raster, cluster=cluster) \
        if config.stream_k else mo.PersistentTileScheduler(m_tiles, n_tiles, batches, config.raster, cluster=cluster)
    return sched, k_tiles


@mo.jit
def columns_of_tiles(plan, N, bN):
    """How many tiles lie side by side."""
    if plan.C.overlap:
        return mo.ceil_div(N + plan.C.overlap - 1, bN - plan.C.overlap)
    return mo.ceil_div(N, bN)


@mo.jit
def tiles_of(plan, sched, first, step):
    """The numbers of a block's tiles."""
    return mo.static_range(1) if plan.once else range(first, sched.tiles, step)


@mo.jit
def coordinates(plan, sched, tile):
    """(m, n, batch) of a tile; blocks that share operands have neighbouring ones, which count as one until here."""
    config, (m, n, batch) = plan.config, place_of_block(plan) if plan.once else sched.coordinates(tile)
    if config.peers == 1:
        return m, n, batch
    row, column = within(plan)
    return config.share_B * m + row, config.share_A * n + column, batch


@mo.jit
def first_place(plan, sched):
    """(m, n, batch) of a block's first tile, which those who load compute while others initialise barriers.

    None: computed later, where blocks share operands, as the 24 registers of those who load hold no more.
    """
    if plan.config.stream_k or (plan.config.peers > 1 and not plan.once):
        return None
    if plan.once:
        return coordinates(plan, sched, 0)
    m, n, batch = 0, 0, 0
    if mo.warpgroup_idx() == plan.config.groups:
        m, n, batch = (kept(x) for x in coordinates(plan, sched, sched.first))      # not to be moved behind the barrier
    return m, n, batch


@mo.jit
def place_of_block(plan):
    """(m, n, batch) of the only tile of a block: its place in a grid of tiles.

    Two divisions tell as much of a tile's number, and take a fourth of a microsecond before anything can be loaded.
    """
    x, y = mo.block_idx().x // plan.config.sharing, mo.block_idx().y
    batch = mo.block_idx().z if plan.extents.batched else 0
    return (y, x, batch) if plan.config.raster == 1 else (x, y, batch)


@mo.jit
def number_of(plan, tile):
    """A tile's number among all, if the tiles of a cluster count as one until here."""
    if plan.once:
        at, grid = mo.block_idx(), mo.grid_dim()
        tile = at.x // plan.config.sharing + grid.x // plan.config.sharing * (at.y + grid.y * at.z)
    return tile if plan.config.cluster == 1 else tile * plan.config.cluster + mo.cluster_rank()


@mo.jit
def k_range(plan, k_tiles):
    """The k tiles of this block: all of them, or its share."""
    if plan.gathers:
        rank, split = rank_of(plan), plan.config.split_k
        return rank * k_tiles // split, (rank + 1) * k_tiles // split
    return 0, k_tiles


# --- the thread that loads -------------------------------------------------------------------------------------------


@mo.jit
def produce(plan, A, Bs, sA, sB, pipe, sched, first, k_tiles, scales):
    """One thread fills the stages, tile after tile, as they become free: it runs ahead as far as there are stages."""
    masks = readers_of(plan)
    state = pipe.producer_start()
    if plan.config.stream_k:
        unit = sched.start()
        while unit.valid:
            state = fill(plan, A, Bs, sA, sB, pipe, state, coordinates(plan, sched, unit.tile),
                         (unit.k_first, unit.k_last), scales, masks)
            unit = unit.next()
    else:
        ks, place = k_range(plan, k_tiles), first
        for tile in tiles_of(plan, sched, sched.first, sched.step):
            here = coordinates(plan, sched, tile) if place is None else place
            state = fill(plan, A, Bs, sA, sB, pipe, state, here, ks, scales, masks)
            if place is not None and not plan.once:     # the next one's, while these arrive
                place = coordinates(plan, sched, mo.min(tile + sched.step, sched.tiles - 1))
    if plan.config.peers > 1:                           # a block that has left is no place to arrive at
        pipe.producer_tail(state)


@mo.jit
def fill(plan, A, Bs, sA, sB, pipe, state, place, ks, scales, masks):
    """The stages of these k tiles of a tile; the state after them."""
    config, (bx, by, bz) = plan.config, place
    hints = ["evict_first" if config.stream == side else None for side in "AB"]
    for k in range(*ks):
        pipe.producer_acquire(state)                    # and expect all bytes of the stage, before the first arrives
        mo.copyto(A, sA[:, :, state.stage], tile_of(plan, A.tensor, (config.bM, config.bK), bx, k, bz),
                  barrier=pipe.barrier(state), hint=hints[0], multicast=masks[0])               # (bM, bK[, 1])
        for j in mo.static_range(len(Bs)):              # the factors of a gated product lie one below the other
            half = mo.tile(sB, (config.bN // len(Bs), config.bK, 1), (j, 0, state.stage))[:, :, 0]
            mo.copyto(Bs[j], half, tile_of_B(plan, Bs[j].tensor, (config.bN // len(Bs), config.bK), by, k, bz),
                      barrier=pipe.barrier(state), hint=hints[1], multicast=masks[1])           # (bN, bK[, 1])
        if scales[1] is not None:
            mo.copyto(scales[0], scales[1][:, :, state.stage],
                      tile_of(plan, scales[0].tensor, (config.bM, 1), bx, k, bz), barrier=pipe.barrier(state))
        state = state.next()
    return state


@mo.jit
def tile_of_B(plan, X, tiler, n, k, batch):
    """A tile of B; where neighbours share columns of C, tiles begin at other places than multiples of theirs."""
    if plan.C.overlap:
        rest = (0, 0) if plan.extents.batched else (0,)
        return tile_of(plan, mo.domain_offset((column_of(plan, n), *rest), X), tiler, 0, k, batch)
    return tile_of(plan, X, tiler, n, k, batch)


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
def consume(plan, out, sA, sB, sC, memory, pipe, sched, k_tiles, scales):
    """A warpgroup's tiles: multiplied together with the others, or in turns, and stored."""
    config, tid = plan.config, mo.thread_idx().x
    thr_mma = plan.product.mma.get_slice(tid % (sharers(plan) * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    operands = thr_mma, tCrA, tCrB
    if config.stream_k:
        consume_shares(plan, out, operands, sC, memory, pipe, sched, scales)
    else:
        consume_tiles(plan, out, operands, sC, memory, pipe, sched, k_tiles, scales)
    finish_stores(plan)


@mo.jit
def consume_tiles(plan, out, operands, sC, memory, pipe, sched, k_tiles, scales):
    """Tiles of the block one after the other, all of their k tiles, or its part of these."""
    state, ks, group = pipe.consumer_start(), k_range(plan, k_tiles), mo.warpgroup_idx()
    first, step = sched.first, sched.step
    if plan.in_turns:
        if group == 1:
            mo.barrier_arrive(TURN, 2 * GROUP)          # warpgroup 0 begins
            state = state.advance(k_tiles)              # the stages of the first tile are the other's
        first, step = first + group * step, 2 * step    # every other tile of the block
    first_turn(plan)
    for tile in tiles_of(plan, sched, first, step):
        place = coordinates(plan, sched, tile)
        acc, state = multiply(plan, out, operands, pipe, state, ks, place, scales)
        if plan.in_turns:
            state = state.advance(k_tiles)              # past the tile that the other multiplies meanwhile
        if plan.in_cluster:
            gather_and_store(plan, out, memory, acc, place)
        elif plan.gathers:
            gather_in_memory(plan, out, memory, sC, acc, place, number_of(plan, tile))
        else:
            store(plan, out, sC, acc, place)


@mo.jit
def consume_shares(plan, out, operands, sC, memory, pipe, sched, scales):
    """The block's share of all k tiles: the end of a tile, whole ones, the beginning of one."""
    state, unit = pipe.consumer_start(), sched.start()
    if plan.in_turns and mo.warpgroup_idx() == 1:
        mo.barrier_arrive(TURN, 2 * GROUP)
        state, unit = state.advance(unit.k_last - unit.k_first), unit.next()
    first_turn(plan)
    while unit.valid:
        place = coordinates(plan, sched, unit.tile)
        acc, state = multiply(plan, out, operands, pipe, state, (unit.k_first, unit.k_last), place, scales)
        after = unit.next()
        if plan.in_turns:
            state, after = state.advance(after.k_last - after.k_first), after.next()
        if unit.finishes:
            take_up(plan, memory, acc, unit)
            store(plan, out, sC, acc, place)
        else:
            leave(plan, memory, acc, unit)
        unit = after


@mo.jit
def multiply(plan, out, operands, pipe, state, ks, place, scales):
    """The sums (MMA, MMA_M, MMA_N) of these k tiles of a tile, and the state of the pipeline after them."""
    config, (thr_mma, tCrA, tCrB) = plan.config, operands
    acc = plan.product.mma.partition_fragment_C((config.bM, config.bN))
    await_turn(plan)
    if plan.product.promote:
        factors = scales_of_tile(plan, scales, (out.M, place[0] * config.bM), place[1], place[2], thr_mma)
        return acc, promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, ks, factors)
    return acc, mainloop(plan, pipe, acc, tCrA, tCrB, state, ks)
