"""The gradients of RMSNorm and LayerNorm: of x by rows, of weight and bias by sums that each block keeps in registers.

In: the gradient of the result, what was normed, rstd and mean of the forward pass.  Out: gradients, written in place.

    rms_norm_backward(dx, dout, x, weight, rstd, dweight=dweight)

Blocks take rows in turn and have the same columns in each, so the sums over rows stay with the threads; each block
writes its own to a workspace, and a second kernel folds these; one that has all rows writes the gradients.  Every order
is fixed: each run gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.options import real
from moye.kernels.rows import parts, rings
from moye.kernels.rows.arrays import Rows, beside, in_memory
from moye.kernels.rows.norm_kernels import (
    Sum,
    affine,
    gain_of,
    gains,
    in_registers,
    lifted,
    once_more,
    optional_row,
    sums,
)
from moye.kernels.rows.plan import RowPlan, power
from moye.kernels.rows.views import launched
from moye.kernels.workspace import empty

_MOST = 16
"""Elements of a row that a thread holds of x, and of dout, where it keeps no sums over rows."""
_SLOTS = (8, 1), (64, 8)
"""Blocks that left sums of columns at most, and threads below each other that fold them; 32 of more."""
_COLUMNS, _BLOCKS = 256, 8
"""Where rows are streamed: threads of a block that sums columns, and such blocks of a multiprocessor."""
_TOGETHER = 512
"""Threads of a block that has all rows at most, as each needs up to 128 registers."""


@mo.jit
def number(tensor, where, row, turn):
    """The number of a row in an array that has one for each; None stays None."""
    if tensor is None:
        return None
    return parts.as_column(tensor)[turn + where.slot] if row.there else tensor.dtype(0)


@mo.jit
def terms(x, dout, scale, middle, weight, offset):
    """(x normed, gradient of the result, the same times the weight) of a piece."""
    x, dout = x.to(scale.dtype), dout.to(scale.dtype)
    hat = x * scale if middle is None else (x - middle) * scale
    return hat, dout, dout if weight is None else dout * lifted(weight.to(scale.dtype), offset)


@mo.jit
def gradient(hat, weighted, scale, means):
    """The gradient of x, of a piece: what changes the mean, or the length, of its row is taken away."""
    along, across = means
    inner = weighted - hat * along if across is None else weighted - across - hat * along
    return inner * scale


@mo.jit
def zeros(piece, dtype):
    """Registers for the sums of a piece."""
    found = mo.fragment((piece.width,), dtype)
    found.fill(0)
    return found


@mo.jit
def ahead(plan, where, matrices, turn):
    """The pieces of a row of some matrices (or None), with zeros where the row is not there."""
    found, there = [], turn + where.slot < where.rows
    for matrix in matrices:
        if matrix is not None:
            row = replace(parts.row(plan, where, matrix, mo.where(there, turn, where.first)), there=there)
            found.append([parts.read(piece, row) for piece in where.pieces])
    return found


@dataclass(frozen=True, slots=True)
class Work:
    """What a thread keeps from row to row: parts of the weight, sums for dweight and dbias, room for folds."""

    plan: Any
    where: Any
    gains: Any
    totals: Any
    room: Any

    @property
    def anew(self) -> Work:
        """The same, of which parts of the weight are read anew."""
        return replace(self, gains=once_more(self.gains))

    def gain(self, i: int) -> Any:
        """The part of the weight of piece ``i``."""
        return gain_of(self.plan, self.where, self.gains, i)[0]


@mo.jit
def work(plan, where, weight, wanted, acc, near):
    """``Work`` before the first row; parts of the weight stay in registers where there is room for them."""
    room = parts.scratch(plan, acc, 2)
    totals = [[zeros(piece, acc) for piece in where.pieces] if want else [] for want in wanted]
    return Work(plan, where, gains(plan, where, weight, None, near), totals, room)


@mo.jit
def means_of(plan, kept, held, numbers, offset):
    """What is taken away from a row's gradient: the means of hat * weighted, and of weighted (or None), of the row."""
    found = parts.fold(plan, inner_of(kept, held, numbers, offset), "add", kept.room)
    for values in (*held[0], *held[1], *(gain for gain, _ in kept.gains.held or () if gain is not None)):
        mo.pin(values)                                  # converted and weighted again: kept from above, it would spill
    return means(kept, found)


@mo.jit
def inner_of(kept, held, numbers, offset):
    """This thread's sums of hat * weighted, and of weighted unless there is no mean, over pieces of x and dout."""
    return inner(kept, numbers, offset, lambda i: (held[0][i], held[1][i]))


@mo.jit
def inner(kept, numbers, offset, pair):
    """The same, of what ``pair(i)`` gives of piece ``i``."""
    scale, middle = numbers
    along, across = (Sum(kept.plan.width, scale.dtype, middle is None) for _ in range(2))
    for i in mo.static_range(len(kept.where.pieces)):
        hat, _, weighted = terms(*pair(i), scale, middle, kept.gain(i), offset)
        along.add_product(hat, weighted)
        if middle is not None:
            across.add(weighted)
    return [along.all()] if middle is None else [along.all(), across.all()]


@mo.jit
def means(kept, found):
    """[mean of hat * weighted, mean of weighted or None] of a row."""
    return [*(total / kept.where.columns for total in found), None][:2]


@mo.jit
def finish(kept, i, pair, numbers, means, offset, rD, added):
    """Write the gradient of piece ``i``, with what is ``added`` to it, and add to the sums of its columns."""
    scale, middle = numbers
    hat, plain, weighted = terms(*pair, scale, middle, kept.gain(i), offset)
    result = gradient(hat, weighted, scale, means)
    parts.write(kept.where.pieces[i], rD, result if added is None else result + added.to(scale.dtype))
    for total, of_row in zip(kept.totals, (hat * plain, plain), strict=True):
        if total:
            total[i] += of_row


@mo.kernel
def norm_backward_kernel(dx, dout, x, weight, rstd, mean, dsummed, partial, offset: mo.Constexpr, plan: mo.Constexpr,
                         wanted: mo.Constexpr):
    """dx by rows; this block's sums of dout * x normed, and of dout, go to ``partial`` (columns, blocks, sums), or are
    what dweight and dbias, a tuple in its place, are.

    The next row is on its way while one is folded.
    """
    mo.min_blocks(plan.resident)
    mo.griddepcontrol_launch_dependents()
    gD, gG, gX = (parts.as_rows(t) for t in (dx, dout, x))                  # (rows, columns)
    gS = None if dsummed is None else parts.as_rows(dsummed)
    where = parts.place(plan, gX)
    kept = work(plan, where, weight, wanted, sums(x.dtype), in_registers(plan, weight))
    held = ahead(plan, where, (gX, gG), where.first)
    for turn in mo.range(where.first, where.rows, where.step):
        following = ahead(plan, where, (gX, gG), turn + where.step)
        added = [] if plan.shifted else ahead(plan, where, (gS,), turn)
        rD = parts.row(plan, where, gD, turn)
        scale, middle = number(rstd, where, rD, turn), number(mean, where, rD, turn)
        means = means_of(plan, kept, held, (scale, middle), offset)
        if plan.shifted:
            added = ahead(plan, where, (gS,), turn)
        for i in mo.static_range(len(where.pieces)):
            finish(kept, i, (held[0][i], held[1][i]), (scale, middle), means, offset, rD,
                   added[0][i] if added else None)
            held[0][i][...], held[1][i][...] = following[0][i], following[1][i]
    hand_over(plan, where, kept.totals, wanted, partial)


@mo.kernel
def norm_backward_staged_kernel(dx, dout, x, weight, rstd, mean, dsummed, partial, offset: mo.Constexpr,
                                plan: mo.Constexpr, wanted: mo.Constexpr, near: mo.Constexpr):
    """The same, where rows come to shared memory by bulk copies, and are read there twice; ``near``: where the weights
    stay, as ``arrays.beside`` says.
    """
    mo.min_blocks(plan.resident)
    mo.griddepcontrol_launch_dependents()
    gD, gG, gX = (parts.as_rows(t) for t in (dx, dout, x))                  # (rows, columns)
    where = parts.place(plan, gX)
    ring = rings.ring(plan, where, [gX, gG, *(parts.as_rows(t) for t in (dsummed,) if t is not None)])
    kept = work(plan, where, weight, wanted, sums(x.dtype), near)

    def fetch(number):
        return tuple(None if t is None else parts.as_column(t)[number] for t in (rstd, mean))

    def find(spot, numbers):
        return inner_of_row(kept.anew, ring, spot, numbers, offset)

    def finish_row(spot, turn, numbers, found):
        rD, shares, again = parts.row(plan, where, gD, turn), means(kept, found), kept.anew

        def put(i, pieces):
            finish(again, i, pieces[:2], numbers, shares, offset, rD, pieces[2] if len(pieces) > 2 else None)

        rings.each_piece(plan, where, ring, spot, turn, put)

    rings.twice(plan, where, ring, (fetch, find, finish_row), "add", kept.room)
    hand_over(plan, where, kept.totals, wanted, partial)


@mo.jit
def inner_of_row(kept, ring, spot, numbers, offset):
    """``inner_of`` of a row that comes to shared memory."""
    @mo.jit
    def pair(i):
        rings.wait(kept.plan, ring, spot, i)
        return rings.piece_of(kept.plan, kept.where, ring, spot, i)[:2]

    return inner(kept, numbers, offset, pair)


@mo.kernel
def norm_backward_alone_kernel(dx, dout, x, weight, rstd, mean, dsummed, offset: mo.Constexpr, plan: mo.Constexpr):
    """dx alone, of rows that registers hold only where they keep no sums over rows, nor the next row."""
    mo.min_blocks(plan.resident)
    gD, gG, gX = (parts.as_rows(t) for t in (dx, dout, x))                  # (rows, columns)
    gS = None if dsummed is None else parts.as_rows(dsummed)
    where = parts.place(plan, gX)
    kept = work(plan, where, weight, (False, False), sums(x.dtype), in_registers(plan, weight))
    if not plan.whole:                                  # predicates take registers, and the weight comes from L2 again
        kept = replace(kept, gains=replace(kept.gains, held=None))
    for turn in mo.range(where.first, where.rows, where.step):
        held, rD = ahead(plan, where, (gX, gG), turn), parts.row(plan, where, gD, turn)
        scale, middle = number(rstd, where, rD, turn), number(mean, where, rD, turn)
        means, added = means_of(plan, kept, held, (scale, middle), offset), ahead(plan, where, (gS,), turn)
        for i in mo.static_range(len(where.pieces)):
            finish(kept, i, (held[0][i], held[1][i]), (scale, middle), means, offset, rD,
                   added[0][i] if added else None)


@mo.jit
def hand_over(plan, where, totals, wanted, partial):
    """Write this block's sums over its rows; blocks that have rows side by side sum these first."""
    group, kind = mo.block_idx().x // plan.cluster, 0
    for k in mo.static_range(2):
        if wanted[k]:
            target = partial[k] if isinstance(partial, tuple) else partial[None, group, kind]       # (columns)
            if plan.rows == 1:
                for piece, total in zip(where.pieces, totals[k], strict=True):
                    parts.write(piece, target, total)
            else:
                side_by_side(plan, where, totals[k], target)
            kind += 1


@mo.jit
def side_by_side(plan, where, totals, target):
    """The sums of a block's slots, through shared memory."""
    room = plan.lanes * plan.rounds * plan.width + plan.edges
    sT = mo.shared_array(totals[0].dtype, (room, plan.rows))                # (columns, slots)
    for piece, total in zip(where.pieces, totals, strict=True):
        parts.write(piece, sT[None, where.slot], total)
    mo.sync_threads()
    for column in mo.range(mo.thread_idx().x, where.columns, plan.threads):
        found = sT[column, 0]
        for slot in mo.static_range(1, plan.rows):
            found += sT[column, slot]
        target[column] = found.to(target.dtype)


@mo.kernel
def norm_backward_streamed_kernel(dx, dout, x, weight, rstd, mean, dsummed, offset: mo.Constexpr, plan: mo.Constexpr):
    """dx of rows longer than all registers: x and dout are read for the means, and again for the result."""
    mo.min_blocks(plan.resident)
    gD, gG, gX = (parts.as_rows(t) for t in (dx, dout, x))                  # (rows, columns)
    gS = None if dsummed is None else parts.as_rows(dsummed)
    where, acc = parts.place(plan, gX), sums(x.dtype)
    room = parts.scratch(plan, acc, 2)
    for turn in mo.range(where.first, where.rows, where.step):
        rD, rG, rX, rS = (optional_row(plan, where, t, turn) for t in (gD, gG, gX, gS))
        scale, middle = number(rstd, where, rD, turn), number(mean, where, rD, turn)
        streamed_row(plan, where, (rD, rG, rX, rS), weight, scale, middle, offset, room)


@mo.jit
def streamed_row(plan, where, rows, weight, scale, middle, offset, room):
    """One row: two sweeps."""
    rD, rG, rX, rS = rows

    @mo.jit
    def read(piece):
        return parts.read(piece, rX), parts.read(piece, rG), affine(piece, weight, None)[0]

    @mo.jit
    def here(x, dout, gain):
        hat, _, weighted = terms(x, dout, scale, middle, gain, offset)
        return hat, weighted

    @mo.jit
    def add(_, held, state):
        along, across = state
        for values in held:
            hat, weighted = here(*values)
            along, across = along + (hat * weighted).reduce("add"), across + weighted.reduce("add")
        return along, across

    start = (scale.dtype(0), scale.dtype(0))
    found = parts.fold(plan, list(parts.swept(plan, where, read, add, start)), "add", room)
    along, across = found[0] / where.columns, found[1] / where.columns

    @mo.jit
    def finish(pieces, held, state):
        for piece, values in zip(pieces, held, strict=True):
            hat, weighted = here(*values)
            result = gradient(hat, weighted, scale, (along, None if middle is None else across))
            parts.write(piece, rD, result if rS is None else result + parts.read(piece, rS).to(scale.dtype))
        return state

    parts.swept(plan, where, read, finish, 0)


@mo.kernel
def columns_kernel(dout, x, rstd, mean, partial, width: mo.Constexpr, wanted: mo.Constexpr):
    """Sums over rows of dout * x normed, and of dout, where no thread keeps columns: a thread has a vector of them, and
    rows in turn.
    """
    gG, gX = parts.as_rows(dout), parts.as_rows(x)                          # (rows, columns)
    vector = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    slice_, slices = mo.block_idx().y, mo.grid_dim().y
    inside = mo.elem_less(mo.tile(mo.identity_tensor((mo.size(gX, 1),)), (width,), (vector,), ragged=True),
                          (mo.size(gX, 1),))
    totals = [mo.fragment((width,), partial.dtype) for _ in range(2)]
    for total in totals:
        total.fill(0)
    for row in mo.range(slice_, mo.size(gX, 0), slices, unroll=4):
        held = [mo.fragment((width,), t.dtype) for t in (gG, gX)]
        for to, source in zip(held, (gG, gX), strict=True):
            mo.copyto(to, mo.tile(source[row, None], (width,), (vector,), ragged=True), pred=inside, zero_fill=True)
        g, value = (t.to(partial.dtype) for t in held)
        middle = partial.dtype(0) if mean is None else parts.as_column(mean)[row]
        totals[0] += g * ((value - middle) * parts.as_column(rstd)[row])
        totals[1] += g
    found = [total for total, want in zip(totals, wanted, strict=True) if want]
    for k in mo.static_range(len(found)):
        mo.copyto(mo.tile(partial[None, slice_, k], (width,), (vector,), ragged=True), found[k], pred=inside)


@mo.kernel
def fold_partial_kernel(partial, first, second, slots: mo.Constexpr):
    """first and second (columns) = partial (columns, blocks, sums) summed over blocks, by ``slots`` threads each."""
    tid, threads, kind, total = mo.thread_idx().x, threads_of(slots), mo.block_idx().y, partial.dtype(0)
    columns = threads // slots                                              # of a block here
    mine, slot = tid % columns, tid // columns
    column = mo.block_idx().x * columns + mine
    mo.griddepcontrol_wait()                                                # for partial
    if column < mo.size(partial, 0):
        for block in mo.range(slot, mo.size(partial, 1), slots, unroll=4):
            total += partial[column, block, kind]
    if slots > 1:
        sT = mo.shared_array(partial.dtype, mo.make_layout((columns, slots)))
        sT[mine, slot] = total
        mo.sync_threads()
        if slot == 0:
            for other in mo.range(1, slots):
                total += sT[mine, other]
    if slot == 0 and column < mo.size(partial, 0):
        if kind == 0:
            first[column] = total
        elif second is not None:
            second[column] = total


def threads_of(slots: int) -> int:
    """Threads of a block that folds what so many below each other have summed: a warp's columns beside each other, or
    eight of them."""
    return 256 if slots == 1 else 32 * slots


def norm_backward(what: str, dx: Any, dout: Any, x: Any, weight: Any, rstd: Any, mean: Any, dweight: Any, dbias: Any,
                  dsummed: Any, offset: float, plan: RowPlan | None, *, centred: bool) -> None:
    """Check the arguments, and launch."""
    given = Rows(what, x)
    offset = real(what, "offset", offset)
    dx, dout, dsummed = (given.alike(name, t, needed=name != "dsummed") for name, t in
                         (("dx", dx), ("dout", dout), ("dsummed", dsummed)))
    plan = given.checked(plan, dout, dsummed)
    weight, dweight, dbias = (given.of_columns(name, t) for name, t in
                              (("weight", weight), ("dweight", dweight), ("dbias", dbias)))
    in_memory(what, {"dx": dx, "dweight": dweight, "dbias": dbias},
              {"dout": dout, "x": given.matrix, "dsummed": dsummed, "weight": weight, "rstd": rstd, "mean": mean},
              in_place=("dout", "x", "dsummed"))
    acc = sums(given.info.dtype)
    needed = [("rstd", rstd), ("mean", mean)][:1 + centred]
    rstd, mean = [*(given.of_rows(name, t, (acc,), needed=True) for name, t in needed), None][:2]
    if not given.columns:
        return
    wanted = (dweight is not None, dbias is not None)
    ahead = int(given.bulky(dout, dsummed))
    wished, plan = plan, plan or given.plan(held=2, sums=max(1, sum(wanted)), ahead=ahead,
                                            brought=2 + (dsummed is not None))
    if plan.streamed:
        apart(given, wished or given.plan(held=2), dx, dout, weight, rstd, mean, dweight, dbias, dsummed, offset)
        return
    if wished is None and any(wanted):
        plan = together(plan, given.rows)
    grid = given.grid(plan) if given.rows else 0
    if grid == plan.cluster and any(wanted):            # the only ones, which have all rows
        partial: Any = dweight, dbias
    else:
        partial = empty(given.x, acc, (given.columns, grid // plan.cluster, sum(wanted))) if any(wanted) else None
    if grid:
        arrays = (dx, dout, given.matrix, weight, rstd, mean, dsummed, partial, offset)
        kernel, more = norm_backward_kernel, list[Any]()
        if plan.stages:
            plan, near = beside(plan, given.info.dtype, 2 + (dsummed is not None), weight, sums=sum(wanted))
            kernel, more = norm_backward_staged_kernel, [near]
        kernel.launch(*arrays, plan, wanted, *more, grid=grid, block=plan.threads, cluster=plan.cluster)
    if not isinstance(partial, tuple):
        fold_partial(partial, dweight, dbias, given.columns)


def together(plan: RowPlan, rows: int) -> RowPlan:
    """The same with all rows side by side in one block, where these are few and short: nothing is left to be folded."""
    if plan.lanes > mo.hardware.WARP or rows * plan.lanes > _TOGETHER:
        return plan
    return replace(plan, rows=max(power(rows), mo.hardware.WARP // plan.lanes), resident=1)


def apart(given: Rows, plan: RowPlan, dx: Any, dout: Any, weight: Any, rstd: Any, mean: Any, dweight: Any, dbias: Any,
          dsummed: Any, offset: float) -> None:
    """The gradients of rows so long that nobody keeps sums over rows: those sums first, then dx."""
    wanted, acc = (dweight is not None, dbias is not None), sums(given.info.dtype)
    width = 1 if plan.shifted else plan.width
    across = -(-given.columns // (_COLUMNS * width))
    slices = min(given.rows, max(1, given.multiprocessors * _BLOCKS // across))
    partial = empty(given.x, acc, (given.columns, slices, sum(wanted))) if any(wanted) else None
    if given.rows:
        if partial is not None:                         # first: dx may take the place of what it reads
            columns_kernel[(across, slices), _COLUMNS](dout, given.matrix, rstd, mean, partial, width, wanted)
        if plan.rounds * plan.width > _MOST:
            plan = replace(plan, streamed=True)
        kernel = norm_backward_streamed_kernel if plan.streamed else norm_backward_alone_kernel
        kernel.launch(dx, dout, given.matrix, weight, rstd, mean, dsummed, offset, plan, **launched(given, plan))
    fold_partial(partial, dweight, dbias, given.columns)


def fold_partial(partial: Any, dweight: Any, dbias: Any, columns: int) -> None:
    """The sums of all blocks, folded, unless none are wanted."""
    if partial is not None:
        blocks = mo.describe(partial).shape[1]                              # type: ignore[union-attr]
        slots = next((slots for most, slots in _SLOTS if blocks <= most), 32)
        first, second = [*(t for t in (dweight, dbias) if t is not None), None][:2]
        grid = -(-columns * slots // threads_of(slots)), 1 if second is None else 2
        fold_partial_kernel.launch(partial, first, second, slots, grid=grid, block=threads_of(slots), dependent=True)


@mo.replayed
def rms_norm_backward(dx: Any, dout: Any, x: Any, weight: Any, rstd: Any, *, dweight: Any = None, dbias: Any = None,
                      dsummed: Any = None, offset: float = 0.0, plan: RowPlan | None = None) -> None:
    """The gradients of ``rms_norm`` for ``dout``, the gradient of its result: dx, and dweight and dbias if given.

    ``x`` is what was normed: with a residual the sum, and ``dx`` is then the gradient of both.  ``dsummed``, a gradient
    of the sum itself, is added to it.  dx, dout, x and dsummed are (..., columns), of any strides; weight, dweight and
    dbias (columns); ``rstd`` (...) is what the forward pass wrote, float32, or float64 for float64.  dx may take the
    place of dout, x or dsummed.  Sums are float32, of float64 float64, in an order that every run repeats.
    Rows so long that no registers are left for sums over rows are read once more for dweight and dbias, and rows longer
    than all registers twice for dx.  ArgumentError for arrays that do not fit.
    """
    norm_backward("rms_norm_backward", dx, dout, x, weight, rstd, None, dweight, dbias, dsummed, offset, plan,
                  centred=False)


@mo.replayed
def layer_norm_backward(dx: Any, dout: Any, x: Any, weight: Any, rstd: Any, mean: Any, *, dweight: Any = None,
                        dbias: Any = None, dsummed: Any = None, offset: float = 0.0,
                        plan: RowPlan | None = None) -> None:
    """The gradients of ``layer_norm``, with the ``mean`` (...) of the forward pass; else as ``rms_norm_backward``."""
    norm_backward("layer_norm_backward", dx, dout, x, weight, rstd, mean, dweight, dbias, dsummed, offset, plan,
                  centred=True)
