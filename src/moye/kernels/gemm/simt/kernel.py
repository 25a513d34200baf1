"""Matrix products on the ordinary cores: C = alpha * A @ B.T + beta * C in float32, float64 or int32, with epilogues.

In: A (M, K), B (N, K), C (M, N) or the same with a batch mode behind, of any strides.  Out: C, written in place.

    gemm_simt(A, B, C)                       # any transposes are views: gemm_simt(A.T, B, C)

Multi-stage cp.async, 16 bytes at a time where the operands allow it, into tiles that lie as the operands do; 128-bit
shared reads.  Edges are predicated and zero-filled.  Where tiles are few, several blocks share each, along K.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import (
    activation_of,
    addend,
    configured,
    matrices,
    part_count,
    same_problem,
    scalar,
)
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS, Activation, Epilogue, added, spread
from moye.kernels.gemm.parts.operands import copy_end, copy_whole, factor, load_end, load_whole, raster, side_of
from moye.kernels.gemm.simt import choice, few
from moye.kernels.gemm.simt.config import Problem, TileConfig, choose, most_parts, streaming, turned
from moye.kernels.gemm.simt.few_kernel import multiply
from moye.kernels.gemm.simt.plan import make_plan
from moye.kernels.pack import packed_whole
from moye.kernels.workspace import MAKES_ARRAYS, counters, empty, one_row, swapped

_AT_ONCE = 16
"""Sums of other blocks that a thread waits for together."""

# --- sums ------------------------------------------------------------------------------------------------------------


@mo.jit
def mainloop(plan, a, b, acc, k_first, k_last, K):
    """acc += A * B over the k tiles [k_first, k_last): stages of shared memory, fragments some k ahead."""
    if plan.turns:
        if k_first < k_last:
            through_registers(plan, a, b, acc, k_first, k_last, K)
    else:
        asynchronous(plan, a, b, acc, k_first, k_last, K)


@mo.jit
def asynchronous(plan, a, b, acc, k_first, k_last, K):
    """Copies that nobody waits for before their stage is read."""
    pipe = mo.Pipeline(plan.config.stages)
    for s in mo.static_range(pipe.ahead):
        if k_first + s < k_last:
            begin(plan, a, b, s, k_first + s, K)
        pipe.commit()
    if k_first < k_last:
        if plan.along_k == (False, False):
            by_rows(plan, pipe, a, b, acc, k_first, k_last)
        else:
            by_quads(plan, pipe, a, b, acc, k_first, k_last)


@mo.jit
def begin(plan, a, b, stage, k_tile, K):
    """Ask for one of the first k tiles.  The one that ends beyond K, if any, is number 0: no other has predicates."""
    if plan.ragged_K and stage == 0:
        if k_tile == 0:
            last = mo.ceil_div(K, plan.config.bK) - 1
            load_end(a, stage, last, K)
            load_end(b, stage, last, K)
        else:
            fetch(plan, a, b, stage, k_tile)
    else:
        fetch(plan, a, b, stage, k_tile)


@mo.jit
def fetch(plan, a, b, stage, k_tile):
    """Ask for a k tile that ends before K."""
    which = k_tile - 1 if plan.ragged_K else k_tile
    load_whole(a, stage, which)
    load_whole(b, stage, which)


@mo.jit
def refill(plan, pipe, state, a, b, k_tile, k_last):
    """Ask for the tile that comes into the stage which everybody has read."""
    if k_tile + pipe.ahead < k_last:
        fetch(plan, a, b, state.write, k_tile + pipe.ahead)
    pipe.commit()


@mo.jit
def by_rows(plan, pipe, a, b, acc, k_first, k_last):
    """The products where both operands lie along their rows: 16 bytes of shared memory are rows of one k."""
    bK = plan.config.bK
    tCrA = mo.fragment((1, mo.size(a.operand, 1), 2), a.operand.dtype)      # (MMA, MMA_M, 2)
    tCrB = mo.fragment((1, mo.size(b.operand, 1), 2), b.operand.dtype)      # (MMA, MMA_N, 2)
    pipe.wait()
    state = pipe.start()
    tCsA, tCsB = a.operand[:, :, :, 0], b.operand[:, :, :, 0]               # (MMA, MMA_M, MMA_K)
    mo.copyto(tCrA[:, :, 0], tCsA[:, :, 0])
    mo.copyto(tCrB[:, :, 0], tCsB[:, :, 0])
    for k_tile in range(k_first, k_last):
        for k in mo.static_range(bK):
            if k == bK - 1:
                pipe.wait()
                state = state.next(k_tile + 1 < k_last)
                tCsA, tCsB = a.operand[:, :, :, state.read], b.operand[:, :, :, state.read]
            mo.copyto(tCrA[:, :, (k + 1) % 2], tCsA[:, :, (k + 1) % bK])
            mo.copyto(tCrB[:, :, (k + 1) % 2], tCsB[:, :, (k + 1) % bK])
            if k == 0:
                refill(plan, pipe, state, a, b, k_tile, k_last)
            mo.gemm(plan.mma, tCrA[:, :, k % 2], tCrB[:, :, k % 2], acc)


@mo.jit
def through_registers(plan, a, b, acc, k_first, k_last, K):
    """The next tile comes into registers while one is multiplied, and from there into the other stage.

    So an operand that lies along K is turned round: registers of 16 bytes of one k are what FFMA reads without two of
    them in one bank of the register file, whose banks are the odd and the even registers.
    """
    bK = plan.config.bK
    tArA = mo.make_fragment_like(a.stages[:, :, :, 0])                      # (CPY, CPY_M, CPY_K)
    tBrB = mo.make_fragment_like(b.stages[:, :, :, 0])                      # (CPY, CPY_N, CPY_K)
    tCrA = mo.fragment((1, mo.size(a.operand, 1), 2), a.operand.dtype)      # (MMA, MMA_M, 2)
    tCrB = mo.fragment((1, mo.size(b.operand, 1), 2), b.operand.dtype)      # (MMA, MMA_N, 2)
    read = mo.int32(0)
    into_registers(plan, a, b, tArA, tBrB, k_first, K)
    mo.copyto(a.stages[:, :, :, 0], tArA)
    mo.copyto(b.stages[:, :, :, 0], tBrB)
    if k_last - k_first == 1:                           # behind the last tile the other stage is read, for nothing
        mo.copyto(a.stages[:, :, :, 1], tArA)
        mo.copyto(b.stages[:, :, :, 1], tBrB)
    mo.sync_threads()
    mo.copyto(tCrA[:, :, 0], a.operand[:, :, 0, 0])
    mo.copyto(tCrB[:, :, 0], b.operand[:, :, 0, 0])
    for k_tile in range(k_first, k_last):
        tCsA, tCsB = a.operand[:, :, :, read], b.operand[:, :, :, read]     # (MMA, MMA_M, MMA_K)
        for k in mo.static_range(bK):
            if k == 0 and k_tile + 1 < k_last:
                from_memory(plan, a, b, tArA, tBrB, k_tile + 1)
            if k == bK - 1:
                read = 1 - read
                if k_tile + 1 < k_last:
                    mo.copyto(a.stages[:, :, :, read], tArA)
                    mo.copyto(b.stages[:, :, :, read], tBrB)
                mo.sync_threads()
                tCsA, tCsB = a.operand[:, :, :, read], b.operand[:, :, :, read]
            mo.copyto(tCrA[:, :, (k + 1) % 2], tCsA[:, :, (k + 1) % bK])
            mo.copyto(tCrB[:, :, (k + 1) % 2], tCsB[:, :, (k + 1) % bK])
            mo.gemm(plan.mma, tCrA[:, :, k % 2], tCrB[:, :, k % 2], acc)


@mo.jit
def into_registers(plan, a, b, tArA, tBrB, k_tile, K):
    """The first k tile of a block."""
    if plan.ragged_K:
        if k_tile == 0:
            last = mo.ceil_div(K, plan.config.bK) - 1
            copy_end(a, tArA, last, K)
            copy_end(b, tBrB, last, K)
        else:
            from_memory(plan, a, b, tArA, tBrB, k_tile)
    else:
        from_memory(plan, a, b, tArA, tBrB, k_tile)


@mo.jit
def from_memory(plan, a, b, tArA, tBrB, k_tile):
    """A k tile that ends before K."""
    which = k_tile - 1 if plan.ragged_K else k_tile
    copy_whole(a, tArA, which)
    copy_whole(b, tBrB, which)


@mo.jit
def by_quads(plan, pipe, a, b, acc, k_first, k_last):
    """The products where an operand lies along K: 16 bytes of shared memory are some k of one row.

    Such an operand is held, all rows of a thread for these k, and the other passes by piece for piece: by rows if it
    lies along K, too, else by k.
    """
    hold, other = (b, a) if plan.hold == "B" else (a, b)
    quad, chunks = plan.quad, plan.config.bK // plan.quad
    tCrH = held(hold, quad)                                                 # (MMA, MMA_M or MMA_N, quad)
    tCrP = passing(plan, other)                                             # (MMA, rows, k, 2)
    pipe.wait()
    state = pipe.start()
    for k_tile in range(k_first, k_last):
        tCsH, tCsP = hold.operand[:, :, :, state.read], other.operand[:, :, :, state.read]
        refill(plan, pipe, state, a, b, k_tile, k_last)
        if plan.along_k == (True, True):                # a loop: unrolled, ptxas would load more than it has room for
            for chunk in mo.range(chunks, unroll=plan.unroll):
                products(plan, tCrH, tCrP, acc, mo.tile(tCsH, (1, mo.size(tCsH, 1), quad), (0, 0, chunk)),
                         mo.tile(tCsP, (1, mo.size(tCsP, 1), quad), (0, 0, chunk)))
        else:
            for chunk in mo.static_range(chunks):
                part = slice(chunk * quad, chunk * quad + quad)
                products(plan, tCrH, tCrP, acc, tCsH[:, :, part], tCsP[:, :, part])
        pipe.wait()
        state = state.next(k_tile + 1 < k_last)


@mo.jit
def held(side, quad):
    """Registers for all rows of a thread, some k of each side by side."""
    rows = mo.size(side.operand, 1)
    return mo.fragment(mo.make_layout((1, rows, quad), (0, quad, 1)), side.operand.dtype)


@mo.jit
def passing(plan, side):
    """Registers for two pieces of what passes by: one row and some k, or all rows and one k."""
    if plan.along_k == (True, True):
        return mo.fragment(mo.make_layout((1, 1, plan.quad, 2), (0, 0, 1, plan.quad)), side.operand.dtype)
    rows = mo.size(side.operand, 1)
    return mo.fragment(mo.make_layout((1, rows, 1, 2), (0, 1, 0, rows)), side.operand.dtype)


@mo.jit
def products(plan, tCrH, tCrP, acc, tCsH, tCsP):
    """acc += A * B for the k of 16 bytes."""
    both = plan.along_k == (True, True)
    for i in mo.static_range(mo.size(tCrH, 1)):
        mo.copyto(tCrH[:, i, :], tCsH[:, i, :])
    for part in mo.static_range(plan.pieces):
        P = tCrP[:, :, :, part % 2]
        if both:
            mo.copyto(P[:, 0, :], tCsP[:, part, :])
        else:
            mo.copyto(P[:, :, 0], tCsP[:, :, part])
        for k in mo.static_range(plan.quad if both else 1):
            H = tCrH[:, :, k if both else part]
            if plan.hold == "A":
                mo.gemm(plan.mma, H, P[:, :, k], acc[:, :, part:part + 1] if both else acc)
            else:
                mo.gemm(plan.mma, P[:, :, k], H, acc[:, part:part + 1, :] if both else acc)


# --- C ---------------------------------------------------------------------------------------------------------------


@mo.jit
def edge_predicate(acc, coords, window, vector):
    """Which of a thread's elements of C are this block's and inside, ``vector`` rows at a time."""
    groups, columns = mo.size(acc, 1) // vector, mo.size(acc, 2)
    inside = mo.fragment((1, groups, columns), mo.bool)
    for i in mo.static_range(groups):
        for j in mo.static_range(columns):
            inside[0, i, j] = within(window, coords[0, i * vector, j])
    return inside.with_layout(mo.make_layout((1, (vector, groups), columns), (0, (0, 1), groups)))


@mo.jit
def within(window, place):
    """Whether an element of a tile is in a window of it: from first to before last, along M and N."""
    (first_m, last_m), (first_n, last_n) = window
    m, n = place
    return (m >= first_m) & (m < last_m) & (n >= first_n) & (n < last_n)


@mo.jit
def store(plan, C, acc, adds, pred, factors):
    """Finish the sums and store them, a column at a time: of all columns together, what is added would be spilled."""
    if plan.epilogue == Epilogue():
        mo.copyto(C, acc, pred=pred)
    else:
        for j in mo.static_range(mo.size(acc, 2)):
            sums, out, *more = [X[:, :, j] for X in [acc, C, *adds]]
            inside = None if pred is None else pred[:, :, j]
            finish(plan, sums, out, more, inside, factors)
            mo.copyto(out, sums, pred=inside)


@mo.jit
def finish(plan, sums, C, adds, pred, factors):
    """Everything that is done to sums before they are stored: ``adds`` lie as C does."""
    (alpha, beta), epilogue = factors, plan.epilogue
    if epilogue.scaled:
        sums[...] = sums * factor(alpha, sums.dtype)
    if epilogue.accumulate:
        sums[...] = sums + added(sums, C, pred) * factor(beta, sums.dtype)
    for more in adds:
        sums[...] = sums + added(sums, more, pred)
    if epilogue.activation is not None:
        sums[...] = epilogue.activation(sums)


@mo.jit
def addends(plan, C, residual, bias):
    """What is added to sums, as tensors like C."""
    shape = mo.size(C, 0), mo.size(C, 1)
    rows = [] if bias is None else [spread(bias, *shape, plan.bias_mode)]
    return rows if residual is None else [residual, *rows]


@mo.jit
def gather(plan, acc, tCgC, adds, tCcC, window, meeting, factors):
    """Each block leaves its sums in memory, waits for the others of its tile, and stores some pieces of it.

    All blocks together read each piece once from each of them, and add in one order, so that results repeat.
    """
    parts, arrived, (tile, rank, splits) = meeting
    tid, quad, threads = mo.thread_idx().x, plan.quad, plan.config.threads
    groups, columns = mo.size(acc, 1) // quad, mo.size(acc, 2)
    quads = mo.make_layout((quad, threads, groups * columns))
    pieces = mo.make_layout((quad, (groups, columns)), (columns, (quad * columns, 1)))
    mine = parts[:, tile * splits + rank].with_layout(quads)                # (quad, threads, pieces)
    mo.copyto(mine[:, tid, :], acc.with_layout(pieces))
    wait_for_all(arrived, tile, splits)
    for piece in mo.range(rank, groups * columns, splits):
        total = mo.fragment((quad,), acc.dtype)
        total.fill(0)
        for some in mo.range(mo.ceil_div(splits, _AT_ONCE)):
            theirs = mo.fragment((quad, _AT_ONCE), acc.dtype)
            for i in mo.static_range(_AT_ONCE):
                peer = some * _AT_ONCE + i
                mo.copyto(theirs[:, i], parts[:, tile * splits + peer].with_layout(quads)[:, tid, piece],
                          pred=peer < splits, zero_fill=True)
            for i in mo.static_range(_AT_ONCE):
                total[...] = total + theirs[:, i]
        store_piece(plan, total, tCgC, adds, tCcC, (piece % groups, piece // groups), window, factors)
    mo.sync_threads()                                                       # all of this block have read
    if tid == 0 and mo.atomic_add(arrived, tile, 1, order="acq_rel") == 2 * splits - 1:
        arrived[tile] = 0                                                   # for the next launch


@mo.jit
def wait_for_all(arrived, tile, splits):
    """What every block of this tile wrote before is there for every thread."""
    mo.sync_threads()
    if mo.thread_idx().x == 0:
        mo.atomic_add(arrived, tile, 1, order="release")
        while mo.load(arrived, tile) < splits:
            pass
    mo.sync_threads()


@mo.jit
def store_piece(plan, total, tCgC, adds, tCcC, place, window, factors):
    """Some rows of one column, finished and stored."""
    quad = plan.quad
    out, coords, *more = [mo.tile(X[0, :, :], (quad, 1), place)[:, 0] for X in [tCgC, tCcC, *adds]]
    inside = mo.fragment((quad,), mo.bool)
    for i in mo.static_range(quad):
        inside[i] = within(window, coords[i])
    finish(plan, total, out, more, inside, factors)
    mo.copyto(out, total, pred=inside)


# --- the kernel ------------------------------------------------------------------------------------------------------


@mo.jit
def tile_of(extent, inside, size, coordinate, edge, step):
    """Where a tile of a mode begins, and which part of it, from there, is this block's.

    Where the tiles do not divide the extent, the last begins earlier, as a multiple of ``step``, and has some rows of
    its neighbour.  So only an extent that is shorter than a tile needs predicates.  ``inside``: C's extent, if it is
    less.
    """
    if edge == "whole":
        return coordinate * size, (0, size)
    if edge == "short":
        return 0, (0, extent if inside is None else inside)
    first = mo.min(coordinate * size, (extent - size) // step * step)
    return first, (coordinate * size - first, size if inside is None else mo.min(inside - first, size))


@mo.jit
def share(splits):
    """The tile of this block, and which of the blocks that share it this one is.

    They follow one another, and blocks begin in order.  So those of the first tile that is not done are all there, if
    no more share one than the device holds: none waits for a block that waits for its place.
    """
    mo.assume(splits > 0)
    mo.assume(mo.grid_dim().x >= splits)                                # none of those waited for is missing
    return mo.block_idx().x // splits, mo.block_idx().x % splits


@mo.jit
def wait_for_turned(plan):
    """Operands that the launch before turns round are there."""
    if plan.follows:
        mo.griddepcontrol_wait()


@mo.kernel
def gemm_kernel(A, B, C, residual, bias, alpha, beta, parts, arrived, splits, plan: mo.Constexpr):
    """One (bM, bN) tile of C per block, or its part of the sum over K; batches follow one another."""
    bM, bN, bK = plan.config.bM, plan.config.bN, plan.config.bK
    M, N, K = mo.size(A, 0), mo.size(B, 0), mo.size(A, 1)
    edge_M, edge_N = plan.edges
    tile, rank = share(splits) if plan.split else (mo.block_idx().x, 0)
    m_tiles, n_tiles, own = mo.ceil_div(M, bM), mo.ceil_div(N, bN), tile
    if plan.batched:
        batch, own = tile // (m_tiles * n_tiles), tile % (m_tiles * n_tiles)
        A, B, C = A[:, :, batch], B[:, :, batch], C[:, :, batch]
        residual = None if residual is None else residual[:, :, batch]
    bx, by = raster(own, m_tiles, n_tiles)
    rows_C, columns_C = (mo.size(C, i) if plan.padded[i] else None for i in range(2))
    m, rows = tile_of(M, rows_C, bM, bx, edge_M, plan.steps[0])
    n, columns = tile_of(N, columns_C, bN, by, edge_N, plan.steps[1])
    thr_mma = plan.mma.get_slice(mo.thread_idx().x)
    mo.min_blocks(plan.config.blocks)

    sA = mo.shared_array(A.dtype, plan.sA)                              # (bM, bK, stages)
    sB = mo.shared_array(B.dtype, plan.sB)                              # (bN, bK, stages)
    tCcC = thr_mma.partition_C(mo.identity_tensor((bM, bN)))            # (MMA, MMA_M, MMA_N)
    a = side_of(mo.domain_offset((m, 0), A), sA, plan.copy_A, thr_mma.partition_A, (bM, bK), 0, (True, True),
                edge_M == "short")
    b = side_of(mo.domain_offset((n, 0), B), sB, plan.copy_B, thr_mma.partition_B, (bN, bK), 0, (True, True),
                edge_N == "short")
    acc = mo.fragment(mo.make_layout((1, mo.size(tCcC, 1), mo.size(tCcC, 2)), (0, mo.size(tCcC, 2), 1)), C.dtype)
    acc.fill(0)                                                         # (MMA, MMA_M, MMA_N)

    k_first, k_last = 0, mo.ceil_div(K, bK)
    if plan.split:
        k_first, k_last = rank * k_last // splits, (rank + 1) * k_last // splits
    wait_for_turned(plan)
    mainloop(plan, a, b, acc, k_first, k_last, K)

    tCgC, *adds = [thr_mma.partition_C(mo.tile(mo.domain_offset((m, n), X), (bM, bN), (0, 0), ragged=True))
                   for X in [C, *addends(plan, C, residual, bias)]]     # (MMA, MMA_M, MMA_N)
    if plan.split:
        gather(plan, acc, tCgC, adds, tCcC, (rows, columns), (parts, arrived, (tile, rank, splits)), (alpha, beta))
    elif plan.edges == ("whole", "whole") or ((bx + 1) * bM <= mo.size(C, 0) and (by + 1) * bN <= mo.size(C, 1)):
        store(plan, tCgC, acc, adds, None, (alpha, beta))
    else:
        store(plan, tCgC, acc, adds, edge_predicate(acc, tCcC, (rows, columns), plan.vector), (alpha, beta))


# --- host ------------------------------------------------------------------------------------------------------------


def gemm_simt(A: Any, B: Any, C: Any, *, bias: Any = None, residual: Any = None, activation: Activation = "none",
              alpha: float = 1, beta: float = 0, config: TileConfig | None = None, splits: int | None = None) -> Any:
    """C = activation(alpha * A @ B.T + beta * C + residual + bias), in place; returns C.

    A is (M, K), B (N, K) and C (M, N), or (M, K, L), (N, K, L) and (M, N, L), of one dtype (float32, float64, int32),
    of any strides, on one device.  ``residual`` is like C, and ``bias`` has N elements.  ``activation`` is "none",
    "relu", "gelu", "silu" or a function of a register tensor.
    ``config`` and ``splits`` override the choice; no more blocks share a tile than k tiles it has, and than the device
    has multiprocessors.  Without them, up to eight rows of float32 are multiplied without tiles, while an operand along
    K streams from memory, where that is sooner; and operands of a long product that lie along K, or whose lines begin
    anywhere, are copied first, into memory of their own size.  ArgumentError for other shapes and dtypes.
    """
    a, b, c = matrices("gemm_simt", A, B, C, ranks=(2, 3))
    _check(a, b, c)
    addend("gemm_simt", "bias", bias, (b.shape[0],), c)
    addend("gemm_simt", "residual", residual, tuple(c.shape), c)
    configured("gemm_simt", config, TileConfig)
    splits = part_count("gemm_simt", splits)
    factors, result = [scalar(x, c.dtype, "gemm_simt") for x in (alpha, beta)], C
    epilogue = Epilogue(bool(alpha != 1), bool(beta != 0), residual is not None, bias is not None,
                        activation_of("gemm_simt", activation, ACTIVATIONS))
    if 0 in c.shape:
        return result
    problem, exchanged = problem_of(a, b, c), _exchanged(c)
    M, N, K = problem.M, problem.N, problem.K
    A, B = one_row(A, a), one_row(B, b)
    if exchanged:
        A, B, C, residual = B, A, swapped(C), None if residual is None else swapped(residual)
    free = config is None and splits is None and c.dtype == mo.float32
    if free and (side := choice.streams(problem, mo.multiprocessors(c))):
        _few(A, B, C, (residual, bias), problem, side, factors, epilogue=epilogue, batched=len(c.shape) == 3,
             bias_streams=exchanged == (side == "A"))
        return result
    which = (False, False)
    if config is None:
        if splits is None:
            config, splits, which = choice.choose(problem, mo.multiprocessors(c))
        else:
            config, _ = choose(problem, mo.multiprocessors(c))
        A, B = (swapped(packed_whole(swapped(X))) if turn else X for X, turn in zip((A, B), which, strict=True))
        problem = turned(problem, which)
    splits = min(splits or 1, most_parts(config, problem.K, mo.multiprocessors(c)))
    tiles = -(-M // config.bM) * -(-N // config.bN) * problem.batches
    # Blocks that begin early go where there is room first, and take up to 1.7 times as long unless all is full.
    early = any(which) and -(-tiles * splits // mo.multiprocessors(c)) == config.blocks
    plan = make_plan(config, c.dtype, problem.majors, (_edge(M, config.bM), _edge(N, config.bN)), K % config.bK != 0,
                     problem.vector, split=splits > 1, batched=len(c.shape) == 3, epilogue=epilogue,
                     bias_mode=0 if exchanged else 1,
                     wide=problem.vector > 1 or (problem.majors[0][0] != "k" and K > 1024), follows=early,
                     padded=(which[0] and M % 4 != 0, which[1] and N % 4 != 0))
    parts, arrived = None, None
    if splits > 1:
        parts, arrived = empty(C, c.dtype, (config.bM * config.bN, tiles * splits)), counters(C, tiles)
    gemm_kernel.launch(A, B, C, residual, bias, *factors, parts, arrived, splits, plan, grid=tiles * splits,
                       block=config.threads, dependent=plan.follows)
    return result


def _few(A: Any, B: Any, C: Any, more: tuple[Any, Any], problem: Problem, side: str, factors: list[Any],
         **finish: Any) -> None:
    """The product of few rows with the operand of this side, which streams.  ``more``: a residual and a bias.

    ``finish``: fields of the plan that say what is done beside multiplying.
    """
    size, (residual, bias) = streaming(problem, side), more
    assert size is not None, "streams() names a side that may stream"
    plan = replace(few.choose(size, mo.multiprocessors(C)), **finish)
    if side == "B":
        A, B, C, residual = B, A, swapped(C), None if residual is None else swapped(residual)
    multiply(A, B, C, plan, size, alpha=factors[0], beta=factors[1], residual=residual, bias=bias)


def problem_of(a: Any, b: Any, c: Any) -> Problem:
    """The product of arrays like these as the model of costs sees it; that of C.T, if C is contiguous along N."""
    if _exchanged(c):
        a, b, c = b, a, c._replace(shape=(c.shape[1], c.shape[0], *c.shape[2:]),
                                   strides=(c.strides[1], c.strides[0], *c.strides[2:]))
    return Problem(a.shape[0], b.shape[0], a.shape[1], c.dtype.bytes, (_major(a), _major(b)), _store_vector(c),
                   c.kind in MAKES_ARRAYS, c.shape[2] if len(c.shape) == 3 else 1)


def _edge(extent: int, tile: int) -> str:
    return "whole" if extent % tile == 0 else "short" if extent < tile else "shifted"


def _exchanged(c: Any) -> bool:
    return bool(c.strides[0] != 1 and c.strides[1] == 1)


def _check(a: Any, b: Any, c: Any) -> None:
    for name, info in (("A", a), ("B", b), ("C", c)):
        if info.dtype not in (mo.float32, mo.float64, mo.int32) or info.dtype != a.dtype:
            raise mo.ArgumentError(f"gemm_simt: {name} holds {info.dtype}" + (f", A {a.dtype}" if name != "A" else "")
                                   + "; A, B and C are all float32, float64 or int32")
    same_problem("gemm_simt", a, b, c)


def _major(info: Any) -> str:
    """How an operand is copied: along its rows 16 bytes ("vector") or one "element", along K "k vector" or "k"."""
    quad = 16 // info.dtype.bytes
    aligned = info.ptr % 16 == 0 and _apart(info, quad)
    if info.shape[0] == 1 and info.strides[1] == 1:     # however far the next row would be: see ``one_row``
        return "k vector" if info.shape[1] % quad == 0 and aligned else "k"
    for mode, name in ((0, "vector"), (1, "k vector")):
        if info.strides[mode] == 1 and info.shape[mode] % quad == 0 and info.strides[1 - mode] % quad == 0 and aligned:
            return name
    return "k" if info.strides[1] == 1 and info.strides[0] != 1 else "element"


def _apart(info: Any, quad: int) -> bool:
    """Whether matrices of a batch, if there are any, are multiples of ``quad`` elements apart."""
    return len(info.shape) == 2 or info.shape[2] == 1 or info.strides[2] % quad == 0


def _store_vector(info: Any) -> int:
    quad = 16 // info.dtype.bytes
    aligned = info.strides[0] == 1 and info.strides[1] % quad == 0 and info.ptr % 16 == 0 and _apart(info, quad)
    return quad if aligned and info.shape[0] % quad == 0 else 1
