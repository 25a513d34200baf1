"""Cross-entropy of rows of logits with integer labels, and its gradient, from one read of each row.

In: rows in registers, as ``parts`` reads them.  Out: a loss and the logarithm of the sum for each row, and the gradient
if it is asked for, which may lie where the logits are.

    loss = (1 - s) * (lse - x[label]) + s * (lse - mean(x)) + z * lse ** 2          # s: smoothing, z: of the z-loss

A label beyond the columns is found by the simulator, and on the device with MOYE_ASSERT=1.  Without, the loss of its
row and the gradient are NaN; nothing else is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.loads import in_flight
from moye.kernels.rows import rings
from moye.kernels.rows.parts import (
    anew,
    as_column,
    as_rows,
    brought_number,
    fold,
    place,
    read,
    row,
    scratch,
    swept,
    write,
)
from moye.kernels.rows.softmax import (
    LOG2E,
    LOWEST,
    each,
    exponentials,
    first_column,
    kept_exponentials,
    shares,
    wider,
)

COUNTED = 128
"""Labels that a warp counts beside its row at most."""
_LIGHT = 16
"""Registers of a thread for parts of a row that are asked for together with labels."""
THREADS = 1024
"""Of a block that adds up losses, always in the same order."""


def light(plan: Any, dtype: Any) -> bool:
    """Whether a thread has registers for all of a row's parts beside what tells of the label."""
    return bool(plan.rounds * plan.width * dtype.bits <= 32 * _LIGHT)


@dataclass(frozen=True, slots=True)
class Target:
    """The label of a row: its column, whether it counts, its weight (NaN if the label is none of the columns)."""

    column: Any
    counts: Any
    known: Any
    weight: Any


@mo.jit
def label_of(labels, number, there):
    """The label of a row, or -1 if there is no such row."""
    label = labels.dtype(-1)
    if there:
        label = labels[number]
    return label


@mo.jit
def target_of(dtype, label, weight, there, ignored, n):
    """What a row is compared with."""
    counts = there & (label != ignored)
    known = counts & (label >= 0) & (label < n)
    assert known | ~counts, "the label of a row is none of the columns, and is not ignored"
    column = mo.int32(mo.where(known, label, label.dtype(0)))               # an ignored label may have 64 bits
    factor = dtype(1) if weight is None else mo.where(known, dtype(weight[column]), dtype(1))
    return Target(column, counts, known, mo.where(counts & ~known, dtype(float("nan")), factor))


@mo.jit
def gradient_of(of, target, given, counted):
    """What the gradient of a row is multiplied by.  ``given``: the gradient of its loss, or None for 1; ``counted``:
    what ``asked`` read for a mean, or nothing."""
    found = of.z.dtype(1) if given is None else of.z.dtype(given[0])
    if counted:
        found = found / (counted[0][0] if of.count is not None else counted_here(of, counted))
    return target.weight * found


@mo.jit
def asked(of):
    """Register tensors that tell what a mean divides by: the count that a launch before left, or some labels of all."""
    if of.count is not None:
        return [brought_number(of.count, 0, True)]
    if of.counts is None:
        return []
    rows = [mo.lane_idx() + k * mo.hardware.WARP for k in range(COUNTED // mo.hardware.WARP)]
    return [brought_number(of.counts, row, row < mo.size(of.counts, 0)) for row in rows]


@mo.jit
def counted_here(of, labels):
    """The labels that count, or their weights, added up by a warp."""
    total = of.z.dtype(0)
    for k in mo.static_range(len(labels)):
        there = mo.lane_idx() + k * mo.hardware.WARP < mo.size(of.counts, 0)
        target = target_of(of.z.dtype, labels[k][0], of.weight, there, of.ignored, of.columns)
        total += mo.where(target.known, target.weight, total.dtype(0))
    return mo.warp_reduce(total, "add")


@mo.jit
def mean_of(plan, where, held, fetch, there, room, dtype):
    """The mean of a row; what a piece lacks was read as -inf."""
    @mo.jit
    def add(pieces, rows, total):
        for p, r in zip(pieces, rows, strict=True):
            if not plan.streamed:
                anew(plan, r, dtype)
            total += mo.where(there & p.has, r.to(dtype).reduce("add"), dtype(0))
        return total

    total = dtype(0)
    total = swept(plan, where, fetch, add, total) if plan.streamed else add(where.pieces, held, total)
    total, = fold(plan, [total], "add", room)
    return total / where.columns


@mo.jit
def row_loss(target, top, logit, rest, mean, smooth, z):
    """The loss of a row whose sum of exponentials has the logarithm top + rest."""
    value = (1 - smooth) * (top - logit + rest) + z * (top + rest) * (top + rest)
    if mean is not None:
        value += smooth * (top - mean + rest)
    return mo.where(target.counts, value * target.weight, top.dtype(0))


@mo.jit
def least(of, upper, n):
    """What all columns have less in the gradient, and what that of the label has."""
    return upper * of.smooth / n, upper * (1 - of.smooth)


@mo.jit
def put_gradient(p, rD, share, target, less, own):
    """A piece of the gradient: share - less, at the label ``own`` less, and 0 if the row does not count."""
    share[...] = share - less
    take_at_label(p, share, target, own)
    write(p, rD, mo.where(target.counts, share, share.dtype(0)))


@mo.jit
def take_at_label(p, share, target, own):
    """The element of a piece that is the label's has ``own`` less."""
    at = target.column - first_column(p)
    if (at >= 0) & (at < p.width):
        for k in mo.static_range(p.width):
            if at == k:
                share[k] = share[k] - own


@dataclass(frozen=True, slots=True)
class Loss:
    """What the loss of a row is made of: its terms, and what a mean divides by: ``count``, or the number of labels
    among ``counts`` that are not ignored (both None without a mean)."""

    weight: Any
    columns: Any
    count: Any
    counts: Any
    ignored: Any
    smooth: Any
    z: Any


@mo.jit
def meet_neighbours(count):
    """The launch that adds up losses may begin, and the one that counts labels is complete, if there is one."""
    mo.griddepcontrol_launch_dependents()
    if count is not None:
        mo.griddepcontrol_wait()


@mo.kernel
def cross_entropy_kernel(loss, lse, dlogits, dloss, logits, labels, weight, count,
                         ignored: mo.int64, smoothing: mo.float64, z: mo.float64,       # type: ignore[valid-type]
                         plan: mo.Constexpr, smoothed: mo.Constexpr, counts: mo.Constexpr):
    """Losses of rows, logarithms of their sums, and the gradient times dloss / count."""
    wide, gX, gI, gL, gS = wider(logits.dtype), as_rows(logits), *map(as_column, (labels, loss, lse))
    gD = None if dlogits is None else as_rows(dlogits)                  # (rows, n)
    mo.min_blocks(plan.resident)
    room, where = scratch(plan, wide, 2), place(plan, gX)
    of = Loss(weight, where.columns, count, gI if counts else None, ignored, wide(smoothing), wide(z))
    meet_neighbours(count)
    for first in mo.range(where.first, where.rows, where.step * plan.at_once):
        brought = []                                    # on its way before the label says which logit is wanted
        for k in mo.static_range(plan.at_once):
            rX, number = row(plan, where, gX, first + k * where.step), first + k * where.step + where.slot
            held, given = [read(p, rX, LOWEST) for p in where.pieces], None
            if dloss is not None:
                given = brought_number(dloss, number, rX.there)
            brought.append((rX, number, held, brought_number(gI, number, rX.there), given))
        counted = asked(of)
        if plan.eager and light(plan, logits.dtype):
            in_flight(*[values for _, _, held, label, given in brought for values in (*held, label, given)], *counted)
        for k in mo.static_range(plan.at_once):
            rX, number, held, label, given = brought[k]
            rD = None if dlogits is None else row(plan, where, gD, first + k * where.step)
            target = target_of(wide, label[0], weight, rX.there, ignored, where.columns)
            upper = gradient_of(of, target, given, counted)
            value, whole, tells = entropy_row(plan, where, (rX, rD), held, (target, upper), of, room, smoothed)
            if rX.there & tells:
                gL[number], gS[number] = gL.dtype(value), gS.dtype(whole)


@mo.jit
def entropy_row(plan, where, rows, held, aim, of, room, smoothed):
    """One row: (loss, logarithm of the sum, whether this is the thread that knows the former); the gradient written."""
    factor, (target, upper), (rX, rD) = of.z.dtype(LOG2E), aim, rows

    def fetch(p):
        return read(p, rX, LOWEST)

    own, tells = label_logit(plan, where, rX, target)
    top, total = exponentials(plan, where, held, fetch, factor, room)
    rest = mo.log(total)
    mean = mean_of(plan, where, held, fetch, rX.there, room, of.z.dtype) if smoothed else None
    part, (less, at_label) = upper * (1 + 2 * of.z * (top + rest)) / total, least(of, upper, where.columns)

    def put(p, r):
        if smoothed:
            anew(plan, r, of.z.dtype)
        put_gradient(p, rD, shares(r, factor, top) * part, target, less, at_label)

    if rD is not None:
        each(plan, where, held, fetch, put)
    return row_loss(target, top, own, rest, mean, of.smooth, of.z), top + rest, tells


@mo.kernel
def cross_entropy_staged_kernel(loss, lse, dlogits, dloss, logits, labels, weight, count,
                                ignored: mo.int64, z: mo.float64,      # type: ignore[valid-type]
                                plan: mo.Constexpr, counts: mo.Constexpr):
    """The same with a gradient and no smoothing, where rows come to shared memory by bulk copies."""
    wide, gX, gD, gI, gL, gS = wider(logits.dtype), as_rows(logits), as_rows(dlogits), *map(as_column,
                                                                                             (labels, loss, lse))
    mo.min_blocks(plan.resident)
    room, where = scratch(plan, wide, 2), place(plan, gX)
    meet_neighbours(count)                                              # who may have made the logits, too
    ring = rings.ring(plan, where, (gX,))
    spot, label = rings.begin(plan, where, ring, LOWEST), label_of(gI, where.first, True)
    of = Loss(weight, where.columns, count, gI if counts else None, ignored, wide(0), wide(z))
    for number in mo.range(where.first, where.rows, where.step):
        rD, following = row(plan, where, gD, number), number + where.step
        next_label = label_of(gI, following, following < where.rows)    # on its way while this row is folded
        edges = rings.edges_of(plan, where, ring, following, LOWEST)
        target = target_of(wide, label, weight, True, ignored, where.columns)
        given = None if dloss is None else brought_number(dloss, number, True)
        upper, (held,) = gradient_of(of, target, given, asked(of)), rings.row_of(plan, where, ring, spot, LOWEST)
        own, tells = staged_logit(plan, where, ring, spot, target, wide)
        top, total, kept, fit = kept_exponentials(plan, held, wide(LOG2E), room)
        rings.ask(plan, where, ring, spot, number)                      # all have read the row by now
        rest = mo.log(total)
        part = upper * (1 + 2 * of.z * (top + rest)) / total
        if target.counts:
            for piece, e in zip(where.pieces, kept, strict=True):
                share = e * (fit * part)
                take_at_label(piece, share, target, upper)
                write(piece, rD, share)
        else:
            for piece, e in zip(where.pieces, kept, strict=True):
                e.fill(0)
                write(piece, rD, e)
        if tells:
            gL[number] = gL.dtype(row_loss(target, top, own, rest, None, of.smooth, of.z))
            gS[number] = gS.dtype(top + rest)
        label, spot = next_label, rings.follow(plan, spot, edges)


@mo.jit
def staged_logit(plan, where, ring, spot, target, dtype):
    """The same as ``label_logit``, of the row that lies in shared memory; an edge, the thread has that reads it."""
    own, column = dtype(float("nan")), mo.where(target.known, target.column, 0)
    place, tells = column - where.lead, where.lane == 0
    vector, vectors = place // plan.width, (where.columns - where.lead) // plan.width
    if plan.cluster > 1:
        tells = tells & (where.rank == home(plan, where, column))
    if not plan.edges:
        whole = True
    else:
        whole, edge = (place >= 0) & (vector < vectors), mo.where(place < 0, column, column - vectors * plan.width)
        tells = mo.where(whole, tells, (where.rank == 0) & (where.lane == edge % plan.lanes))
    if tells & target.known & whole:
        stage = rings.stage_of_vector(plan, spot, vector)
        own = own.dtype(ring.arrays[0][vector % plan.lanes * plan.width + place % plan.width, stage])
    for i in mo.static_range(len(spot.edges[0])):
        own = mo.where(target.known & ~whole & (edge // plan.lanes == i), own.dtype(spot.edges[0][i][0]), own)
    return own, tells


@mo.jit
def label_logit(plan, where, rX, target):
    """(the logit of the label, NaN if there is none; whether this thread has it), before the gradient lies over it.

    It is the first thread of the block whose part of the row the label is in: no barrier stands between blocks.
    """
    own, column = mo.fragment((1,), rX.tensor.dtype), mo.where(target.known, target.column, 0)
    tells, nan = (where.lane == 0) & (where.rank == home(plan, where, column)), wider(own.dtype)(float("nan"))
    if plan.rows == plan.cluster == plan.at_once == 1:  # the row is there; no thread waits to read its part
        own[0] = rX.tensor[column]
    else:
        own.fill(0)
        if tells & target.known:
            own[0] = rX.tensor[column]
    if plan.warps == 1:
        mo.sync_warp()                                  # a barrier of the block comes anyway, in the folds
    if plan.eager and light(plan, own.dtype):
        in_flight(own)                                   # on its way before the folds
    return mo.where(target.known, nan.dtype(own[0]), nan), tells


@mo.jit
def home(plan, where, column):
    """The block of the cluster that has a column of the row; the first one has the edges."""
    if plan.cluster == 1:
        return 0
    vector = (column - where.lead) // plan.width
    whole = (column >= where.lead) & (vector < (where.columns - where.lead) // plan.width)
    return mo.where(whole, vector // plan.lanes % plan.cluster, 0)


@mo.kernel
def cross_entropy_backward_kernel(dlogits, dloss, logits, labels, lse, weight, count,
                                  ignored: mo.int64, smoothing: mo.float64, z: mo.float64,  # type: ignore[valid-type]
                                  plan: mo.Constexpr, counts: mo.Constexpr):
    """The gradient alone, from the logarithms of the sums that a forward pass left."""
    wide, gX, gD, gI, gS = wider(logits.dtype), as_rows(logits), as_rows(dlogits), as_column(labels), as_column(lse)
    where = place(plan, gX)
    of = Loss(weight, where.columns, count, gI if counts else None, ignored, wide(smoothing), wide(z))
    if count is not None:
        mo.griddepcontrol_wait()
    for first in mo.range(where.first, where.rows, where.step):
        number, rX, rD = first + where.slot, row(plan, where, gX, first), row(plan, where, gD, first)
        held, label, whole = [read(p, rX, LOWEST) for p in where.pieces], *(brought_number(t, number, rX.there)
                                                                           for t in (gI, gS))
        given = None if dloss is None else brought_number(dloss, number, rX.there)
        counted = asked(of)
        if light(plan, logits.dtype):
            in_flight(*held, label, whole, given, *counted)     # what is used first, last
        target = target_of(wide, label[0], weight, rX.there, ignored, where.columns)
        backward_row(plan, where, (rX, rD, held), target, of, gradient_of(of, target, given, counted), wide(whole[0]))


@mo.jit
def backward_row(plan, where, row, target, of, upper, whole):
    """One row of the gradient, of which ``whole`` is the logarithm of the sum."""
    rX, rD, held = row

    def fetch(p):
        return read(p, rX, LOWEST)

    part, (less, at_label) = upper * (1 + 2 * of.z * whole), least(of, upper, where.columns)

    def put(p, r):
        put_gradient(p, rD, shares(r, whole.dtype(LOG2E), whole) * part, target, less, at_label)

    each(plan, where, held, fetch, put)


@mo.kernel
def total_kernel(out, losses, labels, weight, ignored: mo.int64, n,     # type: ignore[valid-type]
                 averaged: mo.Constexpr, blocks: mo.Constexpr):
    """out = the sum of losses, by a cluster; ``averaged``: divided by the sum of the weights of the labels that count.

    Without losses it is that sum of weights itself.  Labels are counted while the launch before makes losses.
    """
    wide, threads, labels = wider(out.dtype), blocks * mo.block_dim().x, as_column(labels)
    total, count, room = wide(0), wide(0), mo.shared_array(wide, (THREADS // 32, 2))
    first = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    mo.griddepcontrol_launch_dependents()
    if averaged:
        for number in mo.range(first, mo.size(labels, 0), threads, unroll=4):
            target = target_of(wide, labels[number], weight, True, ignored, n)
            count += mo.where(target.known, target.weight, wide(0))
    if losses is not None:
        mo.griddepcontrol_wait()
        for number in mo.range(first, mo.size(labels, 0), threads, unroll=8):
            total += wide(as_column(losses)[number])
    total = mo.block_reduce(total, room[None, 0], "add")
    count = mo.block_reduce(count, room[None, 1], "add")
    if blocks > 1:
        total, count = of_cluster((total, count), blocks)
    if first == 0:
        result = count if losses is None else total / count if averaged else total
        out[()] = out.dtype(result)


@mo.jit
def of_cluster(values, blocks):
    """Sums that all threads of a block have, added up over the blocks of a cluster, from the first one on."""
    room = mo.shared_array(values[0].dtype, len(values))
    if mo.thread_idx().x == 0:
        for i, value in enumerate(values):
            room[i] = value
    mo.cluster_sync()
    found = [value.dtype(0) for value in values]
    for block in mo.static_range(blocks):
        theirs = mo.map_shared_rank(room, block)
        for i in mo.static_range(len(found)):
            found[i] += theirs[i]
    mo.cluster_sync()                                   # a block whose sums are read is there
    return found
