"""Softmax of rows and its logarithm, forward and backward: a factor, masks, a causal edge; one read of each row.

In: rows in registers, as ``parts`` reads them.  Out: rows written; every thread knows the row's maximum and sum.

    top, total = exponentials(plan, held, factor, scratch)      # exp2(r * factor - top * factor), summed

Scores stay in the dtype of x until they are used, so that 16-bit rows take half of the registers.  Exponentials are
those of ``mo.exp2(fast=True)``, off by at most 2 units in the last place of float32; float64 has accurate ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.options import integer, real, shown
from moye.kernels.rows import rings
from moye.kernels.rows.arrays import Rows
from moye.kernels.rows.parts import (
    always,
    anew,
    as_rows,
    fold,
    place,
    read,
    row,
    scratch,
    swept,
    write,
)
from moye.kernels.rows.plan import RowPlan
from moye.kernels.rows.views import dtype_of, last, launched, plan_of, repeated, separate, shape_of
from moye.kernels.views import FLOATS

LOG2E, LN2 = 1.4426950408889634, 0.6931471805599453
FITS = 1 << 22                          # times LOG2E it is rounded by no more than a half
LOWEST = -float("inf")


@dataclass(frozen=True, slots=True)
class Scores:
    """How scores come from x.  ``mask``: "" for none, "kept" (bool, true where a score counts) or "added".

    ``causal``: row i of ``queries`` counts columns up to i + past.  ``log``: the logarithm is wanted.
    """

    mask: str = ""
    causal: bool = False
    log: bool = False


def wider(dtype: Any) -> Any:
    """The dtype of sums."""
    return mo.float64 if dtype == mo.float64 else mo.float32


@mo.jit
def exponentials(plan, where, held, fetch, factor, room):
    """The largest score of a row, 0 if none counts, and the sum of exp2((score - largest) * factor).

    Each thread sums below the largest of its own scores, and one fold of both brings all to the row's.
    """
    @mo.jit
    def absorb(_, scores, state):
        return absorbed(plan, *state, scores, factor)

    wide = factor.dtype
    state = wide(LOWEST), wide(0)
    if plan.streamed:
        state = swept(plan, where, fetch, absorb, state)
    elif len(held) > 0:
        state = absorbed(plan, *state, held, factor)
    return folded(plan, *state, factor, room)


@mo.jit
def folded(plan, top, total, factor, room):
    """The largest score of a row, 0 if none counts, and the sum below it, of those that threads have."""
    top, total = fold(plan, [top, total], together(factor), room)
    return base_of(top), total


@mo.jit
def together(factor):
    """How (largest score, sum of exponentials below it) of threads are folded."""
    @mo.jit
    def of_lanes(state, lanes):
        top, total = state
        above = mo.warp_reduce(top, "max", lanes)
        return [above, mo.warp_reduce(total * mo.exp2((top - base_of(above)) * factor, fast=True), "add", lanes)]

    return of_lanes


@mo.jit
def kept_exponentials(plan, held, factor, room):
    """(largest, sum, exponentials below the largest score of this thread, by what these are multiplied to lie below the
    row's) of scores that are held.

    Nobody computes an exponential twice, but they take registers of the dtype of sums.
    """
    mine = factor.dtype(LOWEST)
    for r in held:
        mine = mo.max(mine, r.to(mine.dtype).reduce("max"))
    each = [shares(r, factor, base_of(mine)) for r in held]
    top, total = folded(plan, mine, sum(e.reduce("add") for e in each), factor, room)
    return top, total, each, mo.exp2((mine - top) * factor, fast=True)


@mo.jit
def base_of(top):
    """What is taken from scores: the largest, or 0 where no score counts, as -inf less -inf is no number."""
    return mo.where(top == LOWEST, top.dtype(0), top)


@mo.jit
def absorbed(plan, top, total, held, factor):
    """The largest score so far and the sum of exponentials below it, with those of some pieces."""
    above = top
    if plan.streamed:
        above = mo.max(above, largest(held).to(top.dtype))
    else:
        for r in held:
            above = mo.max(above, r.to(top.dtype).reduce("max"))
    base = base_of(above)
    total = total * mo.exp2((top - base) * factor, fast=True)
    if plan.streamed:
        return above, total + below(plan, base, held, factor)
    for r in held:
        if len(held) > 1:
            anew(plan, r, factor.dtype)
        total += shares(r, factor, base).reduce("add")
    return above, total


@mo.jit
def below(plan, base, held, factor):
    """The sum of exponentials below ``base``, by one multiplication and addition each: rows that pass are work for all.

    base * factor is rounded; by how much is known exactly, and the sum is made good for it.  Of scores so large that
    this would be much, the difference is taken first.
    """
    lift, total = base * factor, base.dtype(0)
    if mo.abs(base) < FITS:
        for r in held:
            anew(plan, r, factor.dtype)
            total += mo.exp2(mo.fma(r.to(factor.dtype), factor, -lift), fast=True).reduce("add")
        total = total * mo.exp2(-mo.fma(base, factor, -lift), fast=True)
    else:
        for r in held:
            total += shares(r, factor, base).reduce("add")
    return total


@mo.jit
def largest(held):
    """The largest of some pieces, which lie in registers as they were read: two of 16 bits by one instruction."""
    found, beside = held[0], []
    for r in held[1:]:
        if mo.size(r) == mo.size(found):
            found = mo.max(found, r)
        else:
            beside.append(r)
    found = found.reduce("max")
    for r in beside:
        found = mo.max(found, r.reduce("max"))
    return found


@mo.jit
def each(plan, where, held, fetch, action):
    """action(piece, its scores) of all pieces of a row; those of a streamed row are fetched once more."""
    if plan.streamed:
        swept(plan, where, fetch, lambda pieces, found, _: all_of(action, pieces, found), None)
    else:
        all_of(action, where.pieces, held)


@mo.jit
def all_of(action, pieces, held):
    """action(piece, what is held of it) of each piece."""
    for piece, r in zip(pieces, held, strict=True):
        action(piece, r)


@mo.jit
def shares(r, factor, top):
    """exp2((r - top) * factor) of a register tensor; r * factor - top * factor would lose digits of large scores."""
    return mo.exp2((r.to(factor.dtype) - top) * factor, fast=True)


@mo.jit
def scores(kind, piece, gX, gM, scale, seen):
    """A piece of the scores: x itself, to be scaled later, or with an added mask x * scale + mask."""
    first = first_column(piece)
    if kind.causal:
        piece = narrowed(piece, first < seen)
    r = read(piece, gX, LOWEST)
    if kind.mask == "kept":
        r[...] = mo.where(read(piece, gM, False), r, r.dtype(LOWEST))
    if kind.causal:
        for k in mo.static_range(piece.width):
            r[k] = mo.where(first + k < seen, r[k], r.dtype(LOWEST))
    if kind.mask == "added":
        return r.to(scale.dtype) * scale + read(piece, gM, 0).to(scale.dtype)
    return r


@mo.jit
def narrowed(piece, condition):
    """A piece that has nothing where the condition is false."""
    return replace(piece, has=condition if always(piece.has) else piece.has & condition)


@mo.jit
def first_column(piece):
    """The column of a piece's first element."""
    return piece.at if piece.edge else piece.lead + piece.at * piece.width


@mo.kernel
def softmax_kernel(out, x, mask, scale: mo.float64, queries, past,     # type: ignore[valid-type]
                   plan: mo.Constexpr, kind: mo.Constexpr):
    """out = softmax(x * scale + mask) of each row, or its logarithm; a row of which nothing counts is 0, or -inf."""
    wide, gX, gO = wider(x.dtype), as_rows(x), as_rows(out)             # (rows, n)
    gM = None if mask is None else as_rows(mask)                        # (rows, n)
    mo.min_blocks(plan.resident)
    room, where = scratch(plan, wide, 2), place(plan, gX)
    for first in mo.range(where.first, where.rows, where.step):
        rX, rO = row(plan, where, gX, first), row(plan, where, gO, first)
        rM = None if mask is None else row(plan, where, gM, first)
        seen = (first + where.slot) % queries + past + 1
        softmax_row(plan, kind, where, (rO, rX, rM), wide(scale), seen, room)


@mo.jit
def softmax_row(plan, kind, where, rows, scale, seen, room):
    """One row: read, folded, written."""
    rO, rX, rM = rows

    def fetch(p):
        return scores(kind, p, rX, rM, scale, seen)

    held = [fetch(p) for p in where.pieces]
    step = scale if kind.mask != "added" else scale.dtype(1)            # the mask was added to what is scaled
    factor = step * LOG2E
    top, total = exponentials(plan, where, held, fetch, factor, room)
    share, rest = inverse_and_log(total)

    def put(p, r):
        if not plan.streamed:
            anew(plan, r, top.dtype)
        values = (r.to(top.dtype) - top) * step - rest if kind.log else shares(r, factor, top) * share
        if not plan.streamed:
            anew(plan, values, top.dtype)               # one piece after the other
        write(p, rO, values)

    each(plan, where, held, fetch, put)


@mo.jit
def inverse_and_log(total):
    """1 / total and log(total), 0 for both where nothing counts."""
    return mo.where(total == 0, total, 1 / total), mo.where(total == 0, total, mo.log(total))


@mo.kernel
def softmax_staged_kernel(out, x, scale: mo.float64,                   # type: ignore[valid-type]
                          plan: mo.Constexpr, log: mo.Constexpr):
    """The same without masks, where rows come to shared memory by bulk copies."""
    wide, gX, gO = wider(x.dtype), as_rows(x), as_rows(out)             # (rows, n)
    mo.min_blocks(plan.resident)
    room, where, scale = scratch(plan, wide, 2), place(plan, gX), wide(scale)
    ring = rings.ring(plan, where, (gX,))
    spot = rings.begin(plan, where, ring, LOWEST)
    for number in mo.range(where.first, where.rows, where.step):
        edges = rings.edges_of(plan, where, ring, number + where.step, LOWEST)
        held, = rings.row_of(plan, where, ring, spot, LOWEST)
        top, total, kept, fit = kept_exponentials(plan, held, scale * LOG2E, room)
        rings.ask(plan, where, ring, spot, number)      # all have read the row by now
        rO, (share, rest) = row(plan, where, gO, number), inverse_and_log(total)
        for piece, r, e in zip(where.pieces, held, kept, strict=True):
            write(piece, rO, (r.to(wide) - top) * scale - rest if log else e * (fit * share))
        spot = rings.follow(plan, spot, edges)


@mo.kernel
def softmax_backward_kernel(dx, dout, out, scale: mo.float64,          # type: ignore[valid-type]
                            plan: mo.Constexpr, log: mo.Constexpr):
    """dx = scale * y * (dy - sum(y * dy)); of the logarithm y, scale * (dy - exp(y) * sum(dy)), 0 where y is -inf."""
    wide, gX, gD, gY = wider(out.dtype), as_rows(dx), as_rows(dout), as_rows(out)           # (rows, n)
    room, where = scratch(plan, wide), place(plan, gY)
    for first in mo.range(where.first, where.rows, where.step):
        rX, rD, rY = (row(plan, where, t, first) for t in (gX, gD, gY))
        backward_row(plan, log, where, (rX, rD, rY), wide(scale), room)


@mo.kernel
def softmax_backward_staged_kernel(dx, dout, out, scale: mo.float64,   # type: ignore[valid-type]
                                   plan: mo.Constexpr, log: mo.Constexpr):
    """The same, where rows come to shared memory by bulk copies, and are read there twice."""
    wide, gX, gD, gY = wider(out.dtype), as_rows(dx), as_rows(dout), as_rows(out)           # (rows, n)
    mo.min_blocks(plan.resident)
    room, where, fill = scratch(plan, wide), place(plan, gY), LOWEST if log else 0
    ring = rings.ring(plan, where, (gY, gD))

    def find(spot, _):
        total = wide(0)
        for i in mo.static_range(len(where.pieces)):
            rings.wait(plan, ring, spot, i)
            total = weights_of([rings.piece_of(plan, where, ring, spot, i, fill)], total, log)
        return [total]

    def finish(spot, number, _, found):
        rX = row(plan, where, gX, number)
        rings.each_piece(plan, where, ring, spot, number, lambda i, pair: put_gradient(
            where.pieces[i], rX, pair, found[0], wide(scale), log), fill)

    rings.twice(plan, where, ring, (lambda number: (), find, finish), "add", room, fill)


@mo.jit
def backward_row(plan, log, where, rows, scale, room):
    """One row of the gradient."""
    rX, rD, rY = rows

    def fetch(p):
        return read(p, rY, LOWEST if log else 0), read(p, rD, 0)

    @mo.jit
    def add(_, pairs, total):
        return weights_of(pairs, total, log)

    held, total = [fetch(p) for p in where.pieces], scale.dtype(0)
    total = swept(plan, where, fetch, add, total) if plan.streamed else weights_of(held, total, log)
    total, = fold(plan, [total], "add", room)

    def put(p, pair):
        put_gradient(p, rX, pair, total, scale, log)

    each(plan, where, held, fetch, put)


@mo.jit
def weights_of(pairs, total, log):
    """``total`` and what comes in through some pieces of the result and its gradient."""
    for y, d in pairs:
        total += weighted(y.to(total.dtype), d.to(total.dtype), log)
    return total


@mo.jit
def put_gradient(piece, rX, pair, total, scale, log):
    """Write a piece of the gradient."""
    y, d = pair
    write(piece, rX, gradient(y.to(scale.dtype), d.to(scale.dtype), total, log) * scale)


@mo.jit
def weighted(y, d, log):
    """The sum of what comes in through a piece: y * dy, or dy where the logarithm y is a number."""
    return (mo.where(y == LOWEST, y.dtype(0), d) if log else y * d).reduce("add")


@mo.jit
def gradient(y, d, total, log):
    """dy - exp(y) * total of the logarithm y, 0 where y is -inf; else y * (dy - total)."""
    if log:
        return mo.where(y == LOWEST, y.dtype(0), d - mo.exp2(y * LOG2E, fast=True) * total)
    return y * (d - total)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def softmax(out: Any, x: Any, *, axis: int = -1, scale: float = 1.0, mask: Any = None,
            causal: int | None = None, plan: RowPlan | None = None) -> Any:
    """out = softmax(x * scale + mask) along an axis, in place; returns out, which may be x.

    x and out have one shape, any strides, and hold float16, bfloat16, float32 or float64.  ``mask`` is repeated to
    their shape as NumPy broadcasts: of bools, true where an element counts, or of numbers that are added.  With
    ``causal``, row i of the mode before the last counts its columns up to i + causal.  A row of which no element counts
    is 0.  ``scale`` is above 0.  ``plan`` takes the place of the rule's.  ArgumentError for other arguments.
    """
    return _forward("softmax", out, x, axis, scale, mask, causal, plan, log=False)


@mo.replayed
def log_softmax(out: Any, x: Any, *, axis: int = -1, scale: float = 1.0, mask: Any = None,
                causal: int | None = None, plan: RowPlan | None = None) -> Any:
    """The natural logarithm of ``softmax``, with its arguments; what does not count is -inf."""
    return _forward("log_softmax", out, x, axis, scale, mask, causal, plan, log=True)


@mo.replayed
def softmax_backward(dx: Any, dout: Any, out: Any, *, axis: int = -1, scale: float = 1.0,
                     plan: RowPlan | None = None) -> Any:
    """dx = scale * out * (dout - sum(out * dout)) along an axis, in place; returns dx, which may be dout.

    ``out`` is what ``softmax`` wrote.  All have one shape; ``scale`` is that of ``softmax``.
    """
    return _backward("softmax_backward", dx, dout, out, axis, scale, plan, log=False)


@mo.replayed
def log_softmax_backward(dx: Any, dout: Any, out: Any, *, axis: int = -1, scale: float = 1.0,
                         plan: RowPlan | None = None) -> Any:
    """dx = scale * (dout - exp(out) * sum(dout)) along an axis, 0 where out is -inf; as ``softmax_backward``."""
    return _backward("log_softmax_backward", dx, dout, out, axis, scale, plan, log=True)


def _forward(name: str, out: Any, x: Any, axis: int, scale: float, mask: Any, causal: int | None,
             plan: RowPlan | None, log: bool) -> Any:
    """Check, choose a plan, launch."""
    given, axis, scale = _given(name, "x", x, axis, scale)
    shape, gO = shape_of(x), _alike(given, "out", out, x, axis)
    if causal is not None:
        causal = integer(name, "causal", causal)
        if axis % len(shape) != len(shape) - 1 or len(shape) < 2:
            raise mo.ArgumentError(f"{name}: causal={shown(causal)} along axis {axis} of {tuple(shape)}: it needs a "
                                   "mode of queries before the last, which is the axis")
    separate(name, "out", out, "x", x)
    gM, kind = None, Scores("", causal is not None, log)
    if mask is not None:
        gM = _alike(given, "mask", repeated(name, "mask", mask, shape), x, axis, (mo.bool, *FLOATS))
        separate(name, "out", out, "mask", mask)
        kind = replace(kind, mask="kept" if dtype_of(mask) == mo.bool else "added")
    plan = given.checked(plan)
    if 0 in shape:
        return out
    plan, queries = plan or plan_of(given, ahead=int(kind == Scores(log=log))), shape[-2] if causal is not None else 1
    if plan.stages and kind == Scores(log=log):
        softmax_staged_kernel.launch(gO, given.matrix, scale, plan, log, **launched(given, plan))
        return out
    softmax_kernel.launch(gO, given.matrix, gM, scale, queries, causal or 0, plan, kind, **launched(given, plan))
    return out


def _backward(name: str, dx: Any, dout: Any, out: Any, axis: int, scale: float, plan: RowPlan | None, *,
              log: bool) -> Any:
    """Check, choose a plan, launch."""
    given, axis, scale = _given(name, "out", out, axis, scale)
    gD, gX = (_alike(given, letter, x, out, axis) for letter, x in (("dout", dout), ("dx", dx)))
    separate(name, "dx", dx, "dout", dout)
    separate(name, "dx", dx, "out", out)
    plan = given.checked(plan, gD)
    if 0 not in given.info.shape:
        plan = plan or plan_of(given, held=2, ahead=2 * given.bulky(gD))
        kernel = softmax_backward_staged_kernel if plan.stages else softmax_backward_kernel
        kernel.launch(gX, gD, given.matrix, scale, plan, log, **launched(given, plan))
    return dx


def _alike(given: Rows, letter: str, x: Any, like: Any, axis: int, dtypes: Sequence[Any] = FLOATS) -> Any:
    """An array of one shape with ``like``, whose modes ``given`` has in another order, as a matrix of such rows."""
    Rows(given.what, like, given.name).alike(letter, x, dtypes, needed=True)
    return given.alike(letter, last(x, axis), dtypes)


def _given(name: str, letter: str, x: Any, axis: Any, scale: Any) -> tuple[Rows, int, float]:
    """The array whose shape all others have, with the axis as its last mode; and the options as Python's numbers."""
    wide = wider(Rows(name, x, letter).info.dtype)      # refuses what is no array of floats
    modes, none = len(shape_of(x)), f"none of the {len(shape_of(x))} modes of {letter}"
    axis, factor = integer(name, "axis", axis, none, -modes), real(name, "scale", scale)
    if axis >= modes:
        raise mo.ArgumentError(f"{name}: axis={shown(axis)} is {none}")
    if not 0 < factor < float("inf"):
        raise mo.ArgumentError(f"{name}: scale={shown(scale)}, and must be a number above 0")
    least = 126 if wide == mo.float32 else 1022
    if not 2.0**-least <= factor <= 2.0**least:         # smaller ones are rounded to 0, and 0 * inf is NaN
        raise mo.ArgumentError(f"{name}: scale={shown(scale)} is none of 2^-{least} to 2^{least}, as {wide} has them")
    return Rows(name, last(x, axis), letter), axis, factor
