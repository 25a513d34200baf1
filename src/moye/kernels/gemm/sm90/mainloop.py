"""A warpgroup's products of one tile: sums over its k tiles, in the tensor core, or promoted to float32 in registers.

In: the stages as operands, a state of their pipeline, a range of k tiles.  Out: accumulators; the state after them.

    state = mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles))

The tensor core keeps 14 bits of sums of 8-bit floats.  With ``plan.product.promote`` it sums 128 bytes of K, and these
sums are added up in float32; what they are multiplied by before, if anything, is in ``Scales``.
"""

from __future__ import annotations

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP
from moye.kernels.gemm.sm90.scales import first_factors, multiply, read_factors

TURN = 4
"""Named barriers 4 and 5: the turn of warpgroup 0 and of 1 to multiply; those below are the epilogue's."""


@mo.jit
def mainloop(plan, pipe, acc, tCrA, tCrB, state, ks):
    """acc = A * B over these k tiles; the state after them.  A stage is released one step after its products began."""
    k_first, k_last = ks[0], kept(ks[1])
    before = state
    # Two groups of products are in flight: while those of one stage run, those of the next are issued, and only then is
    # the older stage given back.  wgmma is asynchronous, and reads shared memory until it is waited for (PTX ISA,
    # wgmma.wait_group).
    for k in range(k_first, k_last):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()                           # the registers of acc are as the products may find them
        mo.gemm(plan.product.mma, tCrA[:, :, :, state.stage], tCrB[:, :, :, state.stage], acc, accumulate=k > k_first)
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
def kept(x):
    """The same number for a warp, computed here: ptxas would do so anew in each turn of a loop, from the launch's
    parameters, for which all that comes after waits; or behind a barrier.
    """
    return x if mo.is_static(x) else mo.shuffle_idx(x, 0)


# --- promoted sums ---------------------------------------------------------------------------------------------------


@mo.jit
def promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, ks, scales):
    """The same; the tensor core sums one k tile, registers the rest, as ``config.promotion`` says."""
    acc.fill(0)
    first_factors(scales, ks)
    adding = {"behind": adding_behind, "ahead": adding_ahead}.get(plan.config.promotion, adding_between)
    state = adding(plan, pipe, acc, tCrA, tCrB, state, (ks[0], kept(ks[1])), scales)
    hand_over(plan)
    return state


@mo.jit
def adding_between(plan, pipe, acc, tCrA, tCrB, state, ks, scales):
    """64 rows of sums of one k tile at a time; while a warpgroup adds them up, the other one's products run."""
    part, slabs = mo.make_fragment_like(acc[:, 0:1, 0:1]), mo.size(acc, 1)          # (MMA, 1, 1)
    k_first, k_last = ks
    for k in range(k_first, k_last):
        pipe.consumer_wait(state)
        for i in mo.static_range(slabs):
            if plan.config.promotion == "turns":
                mo.barrier_sync(TURN + mo.warpgroup_idx(), 2 * GROUP)
            begin(plan, tCrA, tCrB, part, i, 0, state)
            if i == 0:
                read_factors(scales, state.stage, k, ks)
            mo.warpgroup_wait(0)                        # registers read the sums: no product may still be under way
            if i == 0:
                multiply(scales, k, ks)
            if i == slabs - 1:
                release(plan, pipe, state)
            add_up(acc, part, scales, i, 0)
        state = state.next()
    return state


@mo.jit
def adding_behind(plan, pipe, acc, tCrA, tCrB, state, ks, scales):
    """Two parts of a k tile in turn, slabs of 64 rows or halves of the columns: one is added up while the other runs,
    so that a warpgroup alone keeps the tensor core busy.
    """
    first, second = mo.make_fragment_like(acc[:, 0:1, 0:1]), mo.make_fragment_like(acc[:, 0:1, 0:1])    # (MMA, 1, 1)
    i, j = (1, 0) if mo.size(acc, 1) == 2 else (0, 1)                   # the place of the second part
    k_first, k_last = ks
    for k in range(k_first, k_last):
        pipe.consumer_wait(state)
        begin(plan, tCrA, tCrB, first, 0, 0, state)
        begin(plan, tCrA, tCrB, second, i, j, state)
        read_factors(scales, state.stage, k, ks)
        mo.warpgroup_wait(1)
        multiply(scales, k, ks)
        add_up(acc, first, scales, 0, 0)
        mo.warpgroup_wait(0, acc)                       # not before these additions, which the compiler would move
        release(plan, pipe, state)
        add_up(acc, second, scales, i, j)
        state = state.next()
    return state


@mo.jit
def adding_ahead(plan, pipe, acc, tCrA, tCrB, state, ks, scales):
    """Whole k tiles in turn, in sums of their own: one is added up while the next one's products run, so that each
    warpgroup keeps the tensor core busy by itself, and no operand is read twice.
    """
    first, second = mo.make_fragment_like(acc), mo.make_fragment_like(acc)          # (MMA, 1, MMA_N)
    (k_first, k_last), following = ks, state
    if k_first < k_last:
        start(plan, pipe, tCrA, tCrB, first, state)
        for k in mo.range(k_first, k_last - 2, 2):
            following = state.next()
            start(plan, pipe, tCrA, tCrB, second, following)
            finish(plan, pipe, acc, first, state, k, ks, scales, 0)
            state = following.next()
            start(plan, pipe, tCrA, tCrB, first, state)
            finish(plan, pipe, acc, second, following, k + 1, ks, scales, 1)
        if (k_last - k_first) % 2 == 0:                 # two are left, or one
            following = state.next()
            start(plan, pipe, tCrA, tCrB, second, following)
            finish(plan, pipe, acc, first, state, k_last - 2, ks, scales, 0)
            finish(plan, pipe, acc, second, following, k_last - 1, ks, scales, 1, pending=0)
            state = following.next()
        else:
            finish(plan, pipe, acc, first, state, k_last - 1, ks, scales, 0, pending=0)
            state = state.next()
    return state


@mo.jit
def start(plan, pipe, tCrA, tCrB, part, state):
    """The products of a k tile, on their way as soon as its stage is there."""
    pipe.consumer_wait(state)
    begin(plan, tCrA, tCrB, part, 0, 0, state)


@mo.jit
def finish(plan, pipe, acc, part, state, k, ks, scales, turn, pending=1):
    """Add up the sums of k tile ``k``, whose products are all that began but those of the last ``pending`` k tiles."""
    read_factors(scales, state.stage, k, ks, turn)
    mo.warpgroup_wait(pending)
    multiply(scales, k, ks, turn)
    release(plan, pipe, state)
    add_up(acc, part, scales, 0, 0)
    mo.pin(acc)                                         # before the next products begin, not behind them


@mo.jit
def begin(plan, tCrA, tCrB, part, i, j, state):
    """The products of a k tile for 64 rows of the tile and one width of the instruction, on their way."""
    a, b, last = tCrA[:, i:i + 1, :, state.stage], tCrB[:, j:j + 1, :, state.stage], mo.size(tCrA, 2) - 1
    mo.warpgroup_arrive()
    if plan.config.promotion != "turns":
        mo.gemm(plan.product.mma, a, b, part, accumulate=False)
        mo.warpgroup_commit_batch()
    else:                                               # the other one's products begin as the last of these runs
        mo.gemm(plan.product.mma, a[:, :, :last], b[:, :, :last], part, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.gemm(plan.product.mma, a[:, :, last], b[:, :, last], part)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
        mo.barrier_arrive(TURN + 1 - mo.warpgroup_idx(), 2 * GROUP)


@mo.jit
def add_up(acc, part, scales, i, j):
    """Add the sums of a k tile to acc (MMA, MMA_M, MMA_N), at slab i and width j, multiplied by their factors."""
    own = acc[:, i:i + 1, j:j + 1]                      # (MMA, 1, 1)
    if scales is None:
        own[...] = own + part
    else:
        strips = mo.size(scales.factors, 1)
        here = mo.ceil_div(strips, mo.size(acc, 2))     # in this part; one strip is all of the tile
        at = 0 if strips == 1 else j * here
        lie = mo.make_layout((2, 2, mo.size(part) // 4 // here, here))              # column, row, 8 columns, strip
        repeat = mo.make_layout(mo.shape(lie), (0, 1, 0, 2))
        sums = own.with_layout(lie)
        factors = scales.factors[:, at:at + here, i]    # (2, strips)
        sums[...] = sums + part.with_layout(lie) * factors.with_layout(repeat)


# --- stages and turns ------------------------------------------------------------------------------------------------


@mo.jit
def release(plan, pipe, state):
    """The warpgroup, or one of its warps, has read a stage: one arrival in every block that fills it."""
    config, lane = plan.config, mo.thread_idx().x % GROUP
    if plan.product.staged is not None:                 # threads have read it as well, and not together
        mo.sync_warp()
        lane = lane % 32
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
def within(plan):
    """(row, column) of this block's tile among those of its cluster."""
    if plan.config.share_A == 1:
        return mo.cluster_rank(), 0
    if plan.config.share_B == 1:
        return 0, mo.cluster_rank()
    return mo.cluster_rank() // plan.config.share_A, mo.cluster_rank() % plan.config.share_A


@mo.jit
def first_turn(plan):
    """Where warpgroups that share a tile take turns at each k tile, warpgroup 0 begins."""
    if plan.product.promote and plan.config.promotion == "turns" and mo.warpgroup_idx() == 1:
        mo.barrier_arrive(TURN, 2 * GROUP)


@mo.jit
def await_turn(plan):
    """Where warpgroups have a tile each: the other one has begun all of its products."""
    if plan.in_turns:
        mo.barrier_sync(TURN + mo.warpgroup_idx(), 2 * GROUP)


@mo.jit
def hand_over(plan):
    """The other warpgroup may multiply; this one stores meanwhile."""
    if plan.in_turns:
        mo.barrier_arrive(TURN + 1 - mo.warpgroup_idx(), 2 * GROUP)
