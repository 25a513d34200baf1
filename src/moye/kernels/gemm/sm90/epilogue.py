"""A warpgroup's sums on their way to C: cut into pieces, gathered over a cluster, finished, rounded, stored.

In: accumulators (MMA, MMA_M, MMA_N) of a tile, which tile it is, C and what is fused.  Out: C written.

    store(plan, out, sC, acc, (m, n, batch))

C goes through shared memory by TMA, 64 rows and up to 64 columns at a time through two buffers, so that one piece is
written while the one before leaves.  Of a C that TMA cannot describe, rows go as ``strips`` says, and what else there
is from registers, predicated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP
from moye.kernels.gemm.sm90.fusion import finish
from moye.kernels.gemm.sm90.strips import store_rows

_AT_ONCE = 24
"""Loads of 16 bytes that a thread has on their way at a time: 96 registers."""
_STORING, GATHERING = 1, 6
"""Named barriers: of the warpgroup that stores (1 to 3), and of all that multiply.  0 is that of ``sync_threads``."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """C, as TMA copy or as tensor, what is fused into it, and its extents; what is not asked for is None.

    ``row``: where the matrix begins whose tiles these are, in a C of several.
    """

    tma: Any
    C: Any
    residual: Any
    bias: Any
    rows: Any
    columns: Any
    alpha: Any
    beta: Any
    M: Any
    N: Any
    row: Any = None


@mo.jit
def store(plan, out, sC, acc, tile):
    """The warpgroup's rows of a tile to C, piece after piece through two buffers."""
    if plan.C.by_rows:
        store_rows(plan, out, sC, acc, tile)
    else:
        store_pieces(plan, out, sC, acc, tile)


@mo.jit
def store_pieces(plan, out, sC, acc, tile):
    """The same of a C that TMA stores, or that threads store as they hold it."""
    sums, config, (bx, by, bz) = plan.pieces(acc), plan.config, tile   # (sums, column, row)
    halves = 2 if plan.fusion.gated else 1                              # a gated tile has its two factors side by side
    columns, rows = mo.size(sums, 1) // halves, mo.size(sums, 2)
    group, groups = (0, 1) if plan.in_turns else (mo.warpgroup_idx(), config.groups)    # who shares the tile's rows
    for p in mo.static_range(rows * columns):
        i, c = p // columns, p % columns
        place = (bx * (config.bM // 64) + group + groups * i, by * columns + c)
        parts = [plan.C.piece.partition_fragment_C((64, plan.C.columns)) for _ in range(halves)]    # (MMA, 1, 1)
        for half in mo.static_range(halves):
            mo.copyto(parts[half].with_layout(mo.make_layout(mo.size(sums, 0))), sums[:, c + half * columns, i])
        part = finish(plan, out, parts, place, bz)
        # The last piece of a tile of an odd number of them was in buffer 0, where the next tile begins: no store of it
        # may be left.  Else the latest one reads the other buffer, and may go on.
        put(plan, out, sC, part, place, bz, p % 2, 0 if p == 0 and rows * columns % 2 else 1)


# --- a tile whose k tiles are split over the blocks of a cluster -----------------------------------------------------


@mo.jit
def gather_and_store(plan, out, memory, acc, tile):
    """Each block of the cluster hands its sums round in shared memory, and stores the pieces that are its own.

    They lie where tiles of A were, and the pieces on their way out where tiles of B were.
    """
    sums, config, (bx, by, bz) = plan.pieces(acc), plan.config, tile   # (sums, column, row)
    each, columns, rows = mo.size(sums, 0), mo.size(sums, 1), mo.size(sums, 2)
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    sC = mo.recast(memory[1], plan.C.dtype).with_layout(plan.C.staged) if plan.C.major else None
    parts = hand_round(plan, memory, acc, mo.shape(sums))               # (4, threads, sums / 4, column, row)
    total = rows * columns
    for q in mo.static_range(mo.ceil_div(total, config.split_k)):       # the blocks have pieces in turn
        piece = q * config.split_k + rank
        if total % config.split_k == 0 or piece < total:
            i, c = piece // columns, piece % columns
            part = plan.C.piece.partition_fragment_C((64, plan.C.columns))          # (MMA, 1, 1)
            theirs = mo.fragment((4, each // 4, config.split_k), part.dtype)        # all of them on their way at a time
            for peer in mo.static_range(config.split_k):
                mo.copyto(theirs[:, :, peer], mo.map_shared_rank(parts, peer)[:, tid, :, c, i])
            mo.copyto(part, theirs[:, :, 0].with_layout(part.layout))
            for peer in mo.static_range(1, config.split_k):             # in one order, so that results repeat
                part[...] = part + theirs[:, :, peer].with_layout(part.layout)
            place = (bx * (config.bM // 64) + mo.warpgroup_idx() + config.groups * i, by * columns + c)
            put(plan, out, sC, finish(plan, out, [part], place, bz), place, bz, q % 2, 1)
    mo.cluster_sync()                                                   # no block ends while others read its sums


@mo.jit
def hand_round(plan, memory, acc, shape):
    """The sums of all threads in shared memory, four at a time next to those of other threads: no bank conflicts."""
    threads, tid, (each, columns, rows) = plan.config.groups * GROUP, mo.thread_idx().x, shape
    parts = mo.recast(memory[0], acc.dtype).with_layout(mo.make_layout((4, threads, each // 4, columns, rows)))
    mo.barrier_sync(GATHERING, threads)                                 # the stages are read, by all of the block
    quads = acc.with_layout(mo.make_layout((4, each // 4, columns, rows)))          # (4, sums / 4, column, row)
    mo.copyto(parts[:, tid, :, :, :], quads)
    mo.cluster_sync()                                                   # the sums of every block are there
    return parts


# --- a tile whose k tiles are split over blocks that meet in memory --------------------------------------------------


@mo.jit
def rank_of(plan):
    """Which of the blocks that share a tile this one is."""
    return mo.cluster_rank() if plan.in_cluster else mo.block_idx().x // plan.config.cluster % plan.config.split_k


@mo.jit
def gather_in_memory(plan, out, memory, sC, acc, tile, number):
    """Each block leaves its sums in global memory, waits for the others', and stores the pieces that are its own.

    What all blocks of a tile read is each piece once from each of them, so it takes as long for many as for few.  The
    sums themselves have left registers, which are there for many loads at a time: memory is waited for once.
    """
    sums, config, (bx, by, bz) = plan.pieces(acc), plan.config, tile   # (sums, column, row)
    each, columns, rows = mo.size(sums, 0), mo.size(sums, 1), mo.size(sums, 2)
    threads, tid, rank = config.groups * GROUP, mo.thread_idx().x, rank_of(plan)
    parts, arrived, zero = memory                                       # (4, threads, sums / 4, piece, block)
    parts = parts[:, number].with_layout(mo.make_layout((4, threads, each // 4, rows * columns, config.split_k)))
    mo.copyto(parts[:, tid, :, :, rank], acc.with_layout(mo.make_layout((4, each // 4, (columns, rows)),
                                                                        (1, 4, (each, each * columns)))))
    wait_for_all(plan, arrived, number)
    own = mo.ceil_div(rows * columns, config.split_k)                   # the blocks have pieces in turn
    at_once = max(1, min(own, _AT_ONCE * 4 // (each * config.split_k)))
    for q in mo.static_range(0, own, at_once):
        pieces = [(q + i) * config.split_k + rank for i in range(min(at_once, own - q))]
        found = [plan.C.piece.partition_fragment_C((64, plan.C.columns)) for _ in pieces]           # (MMA, 1, 1)
        added(plan, parts, zero, found, pieces, (arrived, number) if q == 0 else None)
        for i in mo.static_range(len(pieces)):
            if pieces[i] < rows * columns:
                row, c = pieces[i] // columns, pieces[i] % columns
                place = (bx * (config.bM // 64) + mo.warpgroup_idx() + config.groups * row, by * columns + c)
                # The first piece may have the buffer of the last one of the tile before: no store may be left.
                put(plan, out, sC, finish(plan, out, [found[i]], place, bz), place, bz, (q + i) % 2,
                    0 if q + i == 0 else 1)


@mo.jit
def added(plan, parts, zero, found, pieces, seen):
    """The sums of all blocks of some pieces, added in one order, so that results repeat.

    Many loads are to be on their way at a time, and ptxas would wait for each few of them to save registers.  It moves
    no load down over a barrier, and no addition up over one behind which its first number, ``zero``, is read.
    ``seen``: the counts of blocks that arrived and the tile's number; this one is counted while sums are on their way.
    """
    tid = mo.thread_idx().x
    each, total, split = mo.size(parts, 2) * 4, mo.size(parts, 3), plan.config.split_k
    batch = min(split, max(1, _AT_ONCE * 4 // (each * len(pieces))))
    places = pieces if total % split == 0 else [mo.min(piece, total - 1) for piece in pieces]       # no predicates
    for first in mo.static_range(0, split, batch):
        some = min(batch, split - first)
        theirs = mo.fragment((4, each // 4, len(pieces), some), parts.dtype)
        for i in mo.static_range(len(pieces)):
            for k in mo.static_range(some):
                mo.copyto(theirs[:, :, i, k], parts[:, tid, :, places[i], first + k])
        if first == 0 and seen is not None and tid == 0:
            end_count(plan, *seen)
        mo.barrier_sync(GATHERING, plan.config.groups * GROUP)
        for i in mo.static_range(len(pieces)):
            if first == 0:
                found[i].fill(zero[0])
            else:
                found[i][...] = found[i] + zero[0]
            for k in mo.static_range(some):
                part = theirs[:, :, i, k].with_layout(found[i].layout)
                found[i][...] = found[i] + part


@mo.jit
def wait_for_all(plan, arrived, number):
    """What every block of this tile wrote before is there for every thread that multiplies."""
    threads = plan.config.groups * GROUP
    mo.barrier_sync(GATHERING, threads)
    if mo.thread_idx().x == 0:
        mo.atomic_add(arrived, number, 1, order="release")
        while mo.load(arrived, number) < plan.config.split_k:
            pass
    mo.barrier_sync(GATHERING, threads)


@mo.jit
def end_count(plan, arrived, number):
    """This block has seen that all have arrived; the last one to see it ends the count, for the next launch."""
    if mo.atomic_add(arrived, number, 1, order="acq_rel") == 2 * plan.config.split_k - 1:
        arrived[number] = 0


# --- one piece -------------------------------------------------------------------------------------------------------


@mo.jit
def put(plan, out, sC, part, place, batch, buffer, pending):
    """A finished piece (MMA, 1, 1) to C, rounded; ``pending`` stores of this thread may still read shared memory."""
    rounded = mo.make_fragment_like(part, plan.C.dtype)                 # (MMA, 1, 1)
    mo.copyto(rounded, part)
    if plan.C.major:
        put_by_tma(plan, out, sC, rounded, place, batch, buffer, pending)
    else:
        put_by_threads(plan, out, rounded, place, batch)


@mo.jit
def put_by_tma(plan, out, sC, rounded, place, batch, buffer, pending):
    """Through a buffer of shared memory, from which one thread of a warpgroup, or of each warp, stores."""
    group, lane = mo.thread_idx().x // GROUP, mo.thread_idx().x % GROUP
    rows = mo.size(plan.C.box, 0)                                       # 64 of a warpgroup, or 16 of a warp
    by_warp = rows == 16
    first = lane % 32 == 0 if by_warp else lane == 0
    thr_copy = plan.C.copy.get_slice(lane)
    if first:
        mo.tma_store_wait(pending)                                      # only the thread that stored can wait for it,
    meet(by_warp, group)                                                # so the others wait here: the buffer is free
    sD = mo.tile(sC, (64, plan.C.columns, 1), (group, 0, buffer))[:, :, 0]          # (64, columns)
    mo.copyto(plan.C.copy, thr_copy.partition_D(sD), thr_copy.retile_S(rounded))
    mo.fence_proxy_async()                                              # what this thread wrote is visible to TMA,
    meet(by_warp, group)                                                # and now what all of them wrote
    if first:
        strip = lane // 32 if by_warp else 0
        row, column = place
        sS = mo.tile(sC, (rows, plan.C.columns, 1), (group * (64 // rows) + strip, 0, buffer))[:, :, 0]
        gC = tile_of(plan, below(out.tma.tensor, out.row), (rows, plan.C.columns), row * (64 // rows) + strip, column,
                     batch)                                             # (rows, columns[, 1])
        mo.copyto(out.tma, gC, sS)
        mo.tma_store_arrive()                                           # a group of its own, to be waited for


@mo.jit
def matrix_of(out, batch):
    """The matrix of a batch, from the row on where this product's begins."""
    return below(out.C[:, :, batch] if mo.rank(out.C) == 3 else out.C, out.row)


@mo.jit
def put_by_threads(plan, out, rounded, place, batch):
    """Straight from registers; one predicate for the elements of a store, which lie in one row."""
    thr_copy = plan.C.copy.get_slice(mo.thread_idx().x % GROUP)
    tRrC = thr_copy.retile_S(rounded)                                   # (CPY, CPY_M, CPY_N)
    C = matrix_of(out, batch)
    tDgC = thr_copy.partition_D(mo.tile(C, (64, plan.C.columns), place, ragged=True))
    coords = mo.identity_tensor((out.M, out.N))
    tDcC = thr_copy.partition_D(mo.tile(coords, (64, plan.C.columns), place, ragged=True))
    width = mo.size(mo.shape(tDcC)[0][0])                               # ((width, stores), 1, 1)
    stores = mo.size(tDcC) // width
    inside = mo.fragment(stores, mo.bool)
    for s in mo.static_range(stores):
        m, n = tDcC[(0, s), 0, 0]
        inside[s] = (m < out.M) & (n < out.N)
    inside = inside.with_layout(mo.make_layout(((width, stores), 1, 1), ((0, 1), 0, 0)))
    mo.copyto(plan.C.copy, tDgC, tRrC, pred=inside)


@mo.jit
def finish_stores(plan):
    """Shared memory is freed with the block: the threads that store wait until TMA has read it."""
    if plan.C.major and mo.thread_idx().x % (GROUP if plan.config.store == "warpgroup" else 32) == 0:
        mo.tma_store_wait(0)


@mo.jit
def meet(by_warp, group):
    """The threads that store together."""
    if by_warp:
        mo.sync_warp()
    else:
        mo.barrier_sync(_STORING + group, GROUP)


@mo.jit
def below(X, row):
    """A matrix, or its coordinates, from a row on."""
    return X if row is None else mo.domain_offset((row, 0), X)


@mo.jit
def tile_of(plan, X, tiler, m, n, batch):
    """A tile of TMA coordinates, (rows, columns) or of one batch (rows, columns, 1); it may reach beyond the edges."""
    if plan.extents.batched:
        return mo.tile(X, (*tiler, 1), (None, None, None), ragged=True)[:, :, :, m, n, batch]
    return mo.tile(X, tiler, (None, None), ragged=True)[:, :, m, n]
