"""RMSNorm and LayerNorm of rows that come to shared memory by bulk copies, and are swept twice there (sm_90).

In: matrices (rows, columns) and a plan with stages.  Out: the normed rows, written, as ``norm_kernel`` writes them.

    norm_staged_kernel[grid, plan.threads](out, x, weight, None, ..., eps, 0.0, plan, False, False, False, False)

Of rows with a mean, parts are merged (float32, and in place), or summed about a number near the mean (16 bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.rows import parts, rings
from moye.kernels.rows.norm_kernels import (
    Sum,
    by_block,
    gain_of,
    gains,
    inverted,
    largest,
    normed,
    once_more,
    optional_row,
    quotient,
    sums,
)
from moye.kernels.rows.plan import power

_SAMPLES = 8
"""Elements of a row whose mean is near the row's."""


@mo.kernel
def norm_staged_kernel(out, x, weight, bias, residual, summed, rstd, mean, factor, eps: mo.Constexpr,
                       offset: mo.Constexpr, plan: mo.Constexpr, centred: mo.Constexpr, by_row: mo.Constexpr,
                       near: mo.Constexpr, over: mo.Constexpr):
    """out = (x - mean) * rstd * (weight + offset) + bias, as ``norm_kernel``; ``near`` says where the weights stay.

    ``over``: what is written lies over what is read, of which a thread then reads its own part alone.
    """
    mo.min_blocks(plan.resident)
    gO, gX = parts.as_rows(out), parts.as_rows(x)                           # (rows, columns)
    gR, gS = (None if t is None else parts.as_rows(t) for t in (residual, summed))
    where, acc = parts.place(plan, gX), sums(x.dtype)
    kept = gains(plan, where, weight, bias, near)
    ring = rings.ring(plan, where, [t for t in (gX, gR) if t is not None])
    dtype = x.dtype if summed is None else summed.dtype
    row = Brought(plan, where, kept, ring, dtype, acc, eps, offset, centred, by_row, over)
    room = parts.scratch(plan, acc, 3 if row.merges else 1 + (centred or row.at_once))

    def fetch(number):
        return (near_mean(row, number),)

    def find(spot, given):
        return moments_of(row, spot, given[0])

    def finish(spot, turn, given, found):
        rO, rS = parts.row(plan, where, gO, turn), optional_row(plan, where, gS, turn)
        finish_row(row, spot, (rO, rS), numbers_of(row, given[0], found), (rstd, mean, factor), turn, room)

    rings.twice(plan, where, ring, (fetch, find, finish), together(row), room)


@dataclass(frozen=True, slots=True)
class Brought:
    """What a thread knows of all rows that come to shared memory: ``dtype`` of what is normed, ``acc`` of its sums."""

    plan: Any
    where: Any
    kept: Any
    ring: Any
    dtype: Any
    acc: Any
    eps: Any
    offset: Any
    centred: Any
    by_row: Any
    over: Any

    @property
    def at_once(self) -> bool:
        """Whether the largest result is known from what is normed, up to a factor that is positive."""
        return bool(self.by_row) and not self.centred and self.kept.bias is None

    @property
    def merges(self) -> bool:
        """Whether means of parts are merged, with no digit lost; of 16 bits, sums less about the mean are as good."""
        return bool(self.centred) and (self.over or self.ring.matrices[0].dtype.bits > 16)


@mo.jit
def near_mean(row, number):
    """The mean of eight elements of a row, from all over it; None where none is asked for.

    Squares of what differs from it lose digits where it is far from the row's mean, by d standard deviations: d^2 of
    the variance's last digits.  One huge element of n makes d^2 n / 64 at most.
    """
    if not row.centred or row.merges:
        return None
    total, step = row.acc(0), mo.max(row.where.columns // _SAMPLES, 1)
    for k in mo.static_range(_SAMPLES):
        column = mo.min(k * step, row.where.columns - 1)
        for matrix in row.ring.matrices:
            total += row.acc(matrix[number, column])
    return total / _SAMPLES


@mo.jit
def held_of(row, i, pieces, rS=None):
    """What is normed of piece ``i``, of x and the residual; with a row of ``summed`` it is written there."""
    held, *other = pieces
    if not other:
        return held
    held = (held.to(row.acc) + other[0].to(row.acc)).to(row.dtype)
    if rS is not None:
        parts.write(row.where.pieces[i], rS, held)
    return held


@mo.jit
def pieces_of(row, spot, i):
    """Piece ``i`` of x, and of the residual if there is one."""
    return rings.piece_of(row.plan, row.where, row.ring, spot, i)


@mo.jit
def moments_of(row, spot, middle):
    """What this thread finds in a row, as soon as it is there, for ``together``.

    With a mean [the mean of its elements, how many they are, the squares of what they differ from it], or what they
    differ from ``middle`` and the squares of that; else the squares, after the largest of what is weighted where the
    result's factor is its.
    """
    if not row.merges:
        return squares_of(row, spot, middle)
    found = [row.acc(0), row.acc(0), row.acc(0)]
    for i in mo.static_range(len(row.where.pieces)):
        rings.wait(row.plan, row.ring, spot, i)
        piece, values = row.where.pieces[i], held_of(row, i, pieces_of(row, spot, i)).to(row.acc)
        mine = values.reduce("add") / piece.width
        apart = values - mine
        has = row.acc(piece.width) if parts.always(piece.has) else mo.where(piece.has, row.acc(piece.width), row.acc(0))
        found = merged(found, (mine, has, (apart * apart).reduce("add")))
    return found


@mo.jit
def squares_of(row, spot, middle):
    """[sum of squares], or [sum, sum of squares] less ``middle``, or [largest of what is weighted, sum of squares]."""
    total, square = (Sum(row.plan.width, row.acc, not row.at_once) for _ in range(2))
    top, kept = mo.float32(0), once_more(row.kept)
    for i in mo.static_range(len(row.where.pieces)):
        rings.wait(row.plan, row.ring, spot, i)
        values = held_of(row, i, pieces_of(row, spot, i)).to(row.acc)
        if row.centred:
            values = parts.only(row.where.pieces[i], values - middle)
            total.add(values)
        square.add_product(values, values)
        if row.at_once:
            gain = gain_of(row.plan, row.where, kept, i)
            top = mo.max(top, largest([row.where.pieces[i]], [normed(values, None, row.acc(1), gain, row.offset)]))
    if row.at_once:
        return [row.acc(top), square.all()]
    return [total.all(), square.all()] if row.centred else [square.all()]


@mo.jit
def merged(one, other):
    """[mean, count, squares apart from it] of two parts together (Chan, Golub and LeVeque 1979)."""
    (middle, n, square), (its, m, more) = one, other
    both, apart = n + m, its - middle
    share = mo.divide(m, mo.max(both, 1.0), fast=True)  # nothing and nothing: 0
    return [middle + apart * share, both, square + more + apart * apart * n * share]


def together(row: Brought) -> Any:
    """How what threads found is folded."""
    if row.merges:
        return merged_lanes
    return greatest_and_sum if row.at_once else "add"


@mo.jit
def merged_lanes(values, lanes):
    """``merged`` over neighbouring lanes."""
    for step in mo.static_range(power(lanes).bit_length() - 1):
        values = merged(values, [mo.shuffle_xor(x, 1 << step) for x in values])
    return values


@mo.jit
def greatest_and_sum(values, lanes):
    """The largest, and the sum."""
    top, total = values
    return [mo.warp_reduce(top, "max", lanes), mo.warp_reduce(total, "add", lanes)]


@mo.jit
def numbers_of(row, middle, found):
    """(mean or None, 1 / sqrt(...), the largest result or None) of a row."""
    top, square = None, found[-1] / row.where.columns
    if row.merges:
        middle = found[0]
    elif row.centred:
        apart = found[0] / row.where.columns
        middle, square = middle + apart, mo.max(square - apart * apart, row.acc(0))
    scale = mo.rsqrt(square + row.eps)
    if row.at_once:
        top = mo.float32(found[0] * scale)
    return middle, scale, top


@mo.jit
def finish_row(row, spot, rows, numbers, arrays, turn, room):
    """Write the result of a row that lies in shared memory, and what else it has."""
    plan, where, (rO, rS), (middle, scale, top), (rstd, mean, factor) = row.plan, row.where, rows, numbers, arrays
    share, kept = None, once_more(row.kept)
    if factor is not None and row.by_row:
        share = quotient(top if row.at_once else largest_of(row, spot, numbers, room))
    parts.note(where, rO, turn, ((rstd, scale), (mean, middle), (factor if row.by_row else None, share)))

    def put(i, pieces):
        held = held_of(row, i, pieces, rS)
        values = normed(held, middle, scale, gain_of(plan, where, kept, i), row.offset)
        if share is not None:
            values = values * inverted(share)
        elif factor is not None:
            values = by_block(plan, where, where.pieces[i], rO, values, parts.as_rows(factor), turn)
        parts.write(where.pieces[i], rO, values)

    rings.each_piece(plan, where, row.ring, spot, turn, put)


@mo.jit
def largest_of(row, spot, numbers, room):
    """The largest result of a row, which is read for it once more."""
    middle, scale, _ = numbers
    top, kept = mo.float32(0), once_more(row.kept)
    for i in mo.static_range(len(row.where.pieces)):
        gain, held = gain_of(row.plan, row.where, kept, i), held_of(row, i, pieces_of(row, spot, i))
        top = mo.max(top, largest([row.where.pieces[i]], [normed(held, middle, scale, gain, row.offset)]))
    return parts.fold(row.plan, [row.acc(top)], "max", room)[0].to(mo.float32)
