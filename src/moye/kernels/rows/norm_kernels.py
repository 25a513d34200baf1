"""The device side of RMSNorm and LayerNorm: rows that are held in registers, rows that are streamed, 8-bit results.

In: matrices (rows, columns) and a plan.  Out: the normed rows, written; kernels/rows/norm.py says what is what.

    norm_kernel[grid, plan.threads](out, x, weight, None, None, None, rstd, None, None, eps, 0.0, plan, False, False)

A kernel holds its pieces of each row in registers from the one read to the one write, in the dtype of memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.loads import in_flight
from moye.kernels.rows import parts
from moye.kernels.rows.plan import RowPlan

BLOCK = 128
"""Columns that share a factor, where rows do not."""
_TOP, _LEAST = 448.0, 2.0 ** -126
"""The largest float8_e4m3fn, and the least factor that does not count as zero: the inverse of others is infinite."""


def sums(dtype: Any) -> Any:
    """What is summed in: float64 for float64, else float32."""
    return mo.float64 if dtype == mo.float64 else mo.float32


def in_registers(plan: RowPlan, *vectors: Any) -> bool | None:
    """``near`` for ``gains``, where shared memory has none of these vectors (or None)."""
    return False if plan.keeps([t.dtype.bits for t in vectors if t is not None]) else None


@mo.jit
def affine(piece, weight, bias):
    """Weights and biases of a piece, or None."""
    return (None if weight is None else parts.read(piece, weight), None if bias is None else parts.read(piece, bias))


@mo.jit
def load(piece, rX, rR, rS):
    """x, or the sum of x and the residual as it is rounded to ``summed``, which is written."""
    held = parts.read(piece, rX)
    return held if rR is None else with_residual(piece, held, parts.read(piece, rR), rS)


@mo.jit
def summed_up(where, brought, rS):
    """The pieces of a row, to which those of the residual are added if they came with it."""
    if len(brought) == 1:
        return brought[0]
    return [with_residual(piece, x, r, rS) for piece, x, r in zip(where.pieces, *brought, strict=True)]


@mo.jit
def with_residual(piece, held, residual, rS):
    """The sum of both as it is rounded to ``summed``, which is written, or to the dtype of x."""
    acc = sums(held.dtype)
    held = (held.to(acc) + residual.to(acc)).to(held.dtype if rS is None else rS.tensor.dtype)
    if rS is not None:
        parts.write(piece, rS, held)
    return held


@mo.jit
def optional_row(plan, where, matrix, number):
    """A row of a matrix that may be None."""
    return None if matrix is None else parts.row(plan, where, matrix, number)


@mo.jit
def statistics(plan, where, rows, eps, centred, room, acc):
    """(mean or None, 1 / sqrt(variance + eps)) of each of some rows that are held; without a mean of the squares."""
    means = [None for _ in rows]
    if centred:
        sums = [parts.total([held.to(acc) for held in row]) for row in rows]
        means = [total / where.columns for total in parts.fold(plan, sums, "add", room)]
    squares = []
    for row, mean in zip(rows, means, strict=True):
        each = [held.to(acc) for held in row]
        if centred:
            each = [parts.only(piece, values - mean) for piece, values in zip(where.pieces, each, strict=True)]
        squares.append(parts.total([values * values for values in each]))
    return means, [mo.rsqrt(total / where.columns + eps) for total in parts.fold(plan, squares, "add", room)]


@mo.jit
def lifted(weight, offset):
    """weight + offset; nobody adds 0."""
    return weight if offset == 0 else weight + offset


@mo.jit
def normed(values, middle, scale, gain, offset):
    """A piece of the result: what is held, less the mean, times 1 / sqrt(...), weighted."""
    values = values.to(scale.dtype) if middle is None else values.to(scale.dtype) - middle
    weight, bias = gain
    values = values * scale
    if weight is not None:
        values = values * lifted(weight.to(scale.dtype), offset)
    if bias is not None:
        values = values + bias.to(scale.dtype)
    return values


@mo.jit
def largest(pieces, values):
    """The largest magnitude among register tensors, as float32; NaN counts as zero."""
    found = mo.float32(0)
    for piece, each in zip(pieces, values, strict=True):
        found = mo.max(found, parts.only(piece, mo.abs(each.to(mo.float32))).reduce("max"))
    return found


@mo.jit
def put(plan, where, row, values, factor, by_row, number, room):
    """Write a row divided by largest / 448 of it, or of each 128 columns, which ``factor`` gets."""
    if by_row:
        top, = parts.fold(plan, [largest(where.pieces, values)], "max", room)
        share = quotient(top)
        parts.note(where, row, number, ((factor, share),))
        inverse = inverted(share)
        values = [each * inverse for each in values]
    else:
        gF = parts.as_rows(factor)                                          # (rows, blocks of columns)
        values = [by_block(plan, where, piece, row, each, gF, number)
                  for piece, each in zip(where.pieces, values, strict=True)]
    for piece, each in zip(where.pieces, values, strict=True):
        parts.write(piece, row, each)


@mo.jit
def by_block(plan, where, piece, row, values, factors, number):
    """A piece divided by its block's factor, which the first of the block's lanes writes."""
    lanes = min(BLOCK // plan.width, plan.lanes)
    share = quotient(mo.warp_reduce(largest([piece], [values]), "max", lanes))
    column = piece.at * plan.width
    if (where.lane % lanes == 0) & row.there & (column < where.columns):
        factors[number + where.slot, column // BLOCK] = share
    return values * inverted(share)


@mo.jit
def quotient(top):
    """The factor of numbers up to ``top``."""
    share = top / _TOP
    return mo.where(share < _LEAST, 0.0, share)


@mo.jit
def inverted(share):
    """What numbers are multiplied by: the inverse of their factor, and 0 where all are zero."""
    return mo.where(share > 0, 1.0 / mo.where(share > 0, share, 1.0), 0.0)


@dataclass(frozen=True, slots=True)
class Gains:
    """Weights and biases (or None) of a thread's pieces: in registers, in shared memory, or where the caller has them.

    ``held`` are pairs of registers for each piece, or None; ``near`` a pair of shared memory (columns of the block).
    ``beyond``: what has neither lies so many vectors further than it does, as far as the compiler knows: 0.
    """

    weight: Any
    bias: Any
    held: Any
    near: Any
    beyond: Any = 0

    @property
    def registers(self) -> list[Any]:
        """The register tensors among them."""
        return [values for pair in self.held or () for values in pair if values is not None]


@mo.jit
def gains(plan, where, weight, bias, near):
    """``Gains``, before the first row: in registers, in shared memory if ``near`` is True, or as they are if None.

    Where rows begin anywhere, so do the weights of a vector, which are read one by one: once, and no more.  Each thread
    reads what it has written.
    """
    if near is None:
        return Gains(weight, bias, None, None)
    if not near:
        return Gains(weight, bias, [affine(piece, weight, bias) for piece in where.pieces], None)
    room = [None if t is None else mo.shared_array(t.dtype, (plan.lanes * plan.rounds * plan.width,))
            for t in (weight, bias)]
    for i in mo.static_range(plan.rounds):
        for array, values in zip(room, affine(where.pieces[i], weight, bias), strict=True):
            if array is not None:
                mo.copyto(nearby(plan, where, array, i), values)
    return Gains(weight, bias, None, room)


@mo.jit
def once_more(kept):
    """``Gains`` that are read anew from here on, if they are not kept.

    The compiler would read what all rows have in common before the first one, and spill.
    """
    if kept.held is not None or kept.near is not None:
        return kept
    beyond = mo.fragment((1,), mo.int32)
    beyond.fill(0)
    mo.pin(beyond)
    return replace(kept, beyond=beyond[0])


@mo.jit
def nearby(plan, where, array, i):
    """This thread's vector of round ``i``, of an array of the block's columns."""
    return mo.tile(array, (plan.width,), (i * plan.lanes + where.lane,))


@mo.jit
def gain_of(plan, where, kept, i):
    """The weights and biases of piece ``i``."""
    if kept.held is not None:
        return kept.held[i]
    if kept.near is None or i >= plan.rounds:
        piece = where.pieces[i]
        return affine(replace(piece, at=piece.at + kept.beyond), kept.weight, kept.bias)
    found = []
    for array in kept.near:
        held = None
        if array is not None:
            held = mo.fragment((plan.width,), array.dtype)
            mo.copyto(held, nearby(plan, where, array, i))
        found.append(held)
    return tuple(found)


@mo.kernel
def norm_kernel(out, x, weight, bias, residual, summed, rstd, mean, factor, eps: mo.Constexpr, offset: mo.Constexpr,
                plan: mo.Constexpr, centred: mo.Constexpr, by_row: mo.Constexpr, near: mo.Constexpr):
    """out = (x - mean) * rstd * (weight + offset) + bias; ``plan.at_once`` rows are on their way together.

    ``near``: where weights stay, as ``arrays.beside`` says.
    """
    mo.min_blocks(plan.resident)
    gO, gX = parts.as_rows(out), parts.as_rows(x)                           # (rows, columns)
    gR, gS = (None if t is None else parts.as_rows(t) for t in (residual, summed))
    where = parts.place(plan, gX)
    acc = sums(x.dtype)
    room, kept = parts.scratch(plan, acc, plan.at_once), gains(plan, where, weight, bias, near)
    for first in mo.range(where.first, where.rows, where.step * plan.at_once):
        turns = [first + k * where.step for k in range(plan.at_once)]
        held = []
        for turn in turns:
            rX, rR, rS = (optional_row(plan, where, t, turn) for t in (gX, gR, gS))
            brought = [[parts.read(piece, r) for piece in where.pieces] for r in (rX, rR) if r is not None]
            held.append((brought, rS))
        if plan.eager or plan.shifted:
            in_flight(*kept.registers, *[values for brought, _ in held for row in brought for values in row])
        held = [summed_up(where, *row) for row in held]
        means, scales = statistics(plan, where, held, eps, centred, room, acc)
        for turn, row, middle, scale in zip(turns, held, means, scales, strict=True):
            rO, numbers = parts.row(plan, where, gO, turn), ((rstd, scale), (mean, middle))
            put_row(plan, where, kept, row, rO, numbers, offset, (factor, by_row, turn, room))


@mo.jit
def put_row(plan, where, kept, row, rO, numbers, offset, to):
    """Write the result of a row that is held, and its (array, number) pairs."""
    (_, scale), (_, middle) = numbers
    factor, by_row, turn, room = to
    parts.note(where, rO, turn, numbers)
    results = []
    for i in mo.static_range(len(where.pieces)):
        parts.anew(plan, row[i], scale.dtype)
        values = normed(row[i], middle, scale, gain_of(plan, where, kept, i), offset)
        if factor is None:
            parts.write(where.pieces[i], rO, values)
        else:
            results.append(values)
    if factor is not None:
        put(plan, where, rO, results, factor, by_row, turn, room)


class Sum:
    """A sum of many pieces; ``apart``: by the place in a vector, so that each element is one instruction and no more,
    where registers have room."""

    def __init__(self, width: int, dtype: Any, apart: bool) -> None:
        self.apart, self.one = apart, mo.fragment((1,), dtype)
        self.each = mo.fragment((width,), dtype) if apart else self.one
        for sums in (self.one, self.each):
            sums.fill(0)

    def add(self, values: Any) -> None:
        """Add a piece."""
        if self.apart and mo.size(values) == mo.size(self.each):
            self.each[...] = self.each + values
        else:
            self.one[0] = self.one[0] + values.reduce("add")

    def add_product(self, a: Any, b: Any) -> None:
        """Add a piece times a piece."""
        if self.apart and mo.size(a) == mo.size(self.each):
            self.each[...] = mo.fma(a, b, self.each)
        else:
            self.one[0] = self.one[0] + (a * b).reduce("add")

    def all(self) -> Any:
        """The sum of all."""
        return self.each.reduce("add") + self.one[0] if self.apart else self.one[0]


@mo.jit
def streamed_moments(plan, where, rX, rR, rS, eps, centred, room):
    """(mean or None, 1 / sqrt(...)) of a row, which is read once for each; the sum with the residual is written."""
    acc, middle = sums(rX.tensor.dtype), None

    @mo.jit
    def first(piece):
        return load(piece, rX, rR, rS)

    @mo.jit
    def add(_, held, total):
        return parts.total([values.to(acc) for values in held], total)

    if centred:
        middle = parts.fold(plan, [parts.swept(plan, where, first, add, acc(0))], "add", room)[0] / where.columns

    @mo.jit
    def second(piece):
        return again(piece, rX, rR, rS) if centred else load(piece, rX, rR, rS)

    @mo.jit
    def add_squares(pieces, held, total):
        each = [values.to(acc) for values in held]
        if centred:
            each = [parts.only(piece, values - middle) for piece, values in zip(pieces, each, strict=True)]
        return parts.total([values * values for values in each], total)

    square, = parts.fold(plan, [parts.swept(plan, where, second, add_squares, acc(0))], "add", room)
    return middle, mo.rsqrt(square / where.columns + eps)


@mo.jit
def again(piece, rX, rR, rS):
    """What was normed, once more: the sum if it was written."""
    return load(piece, rX, rR, None) if rS is None else parts.read(piece, rS)


@mo.kernel
def norm_streamed_kernel(out, x, weight, bias, residual, summed, rstd, mean, factor, eps: mo.Constexpr,
                         offset: mo.Constexpr, plan: mo.Constexpr, centred: mo.Constexpr, by_row: mo.Constexpr,
                         near: mo.Constexpr):
    """The same for rows longer than all registers, which are read for the mean, the variance, and the result."""
    mo.min_blocks(plan.resident)
    gO, gX = parts.as_rows(out), parts.as_rows(x)                           # (rows, columns)
    gR, gS = (None if t is None else parts.as_rows(t) for t in (residual, summed))
    where = parts.place(plan, gX)
    room = parts.scratch(plan, sums(x.dtype))
    for turn in mo.range(where.first, where.rows, where.step):
        rO, rX, rR, rS = (optional_row(plan, where, t, turn) for t in (gO, gX, gR, gS))
        middle, scale = streamed_moments(plan, where, rX, rR, rS, eps, centred, room)
        parts.note(where, rO, turn, ((rstd, scale), (mean, middle)))
        terms = (middle, scale, weight, bias, offset)
        finish_streamed(plan, where, (rO, rX, rR, rS), terms, factor, by_row, turn, room)


@mo.jit
def finish_streamed(plan, where, rows, terms, factor, by_row, turn, room):
    """Write the result of a row; a factor of the whole row takes one more read."""
    rO, rX, rR, rS = rows
    middle, scale, weight, bias, offset = terms

    @mo.jit
    def held(piece):
        return again(piece, rX, rR, rS)

    @mo.jit
    def result(piece, values):
        return normed(values, middle, scale, affine(piece, weight, bias), offset)

    @mo.jit
    def add_largest(pieces, values, top):
        return mo.max(top, largest(pieces, [result(*each) for each in zip(pieces, values, strict=True)]))

    share = mo.float32(0)
    if factor is not None and by_row:
        share = quotient(parts.fold(plan, [parts.swept(plan, where, held, add_largest, share)], "max", room)[0])
        parts.note(where, rO, turn, ((factor, share),))

    @mo.jit
    def finish(pieces, values, inverse):
        for piece, each in zip(pieces, values, strict=True):
            put_streamed(plan, where, piece, rO, result(piece, each), factor, by_row, turn, inverse)
        return inverse

    parts.swept(plan, where, held, finish, inverted(share))


@mo.jit
def put_streamed(plan, where, piece, row, values, factor, by_row, turn, inverse):
    """Write a piece of a streamed row, divided by its factor if it has one."""
    if factor is not None and by_row:
        values = values * inverse
    elif factor is not None:
        values = by_block(plan, where, piece, row, values, parts.as_rows(factor), turn)
    parts.write(piece, row, values)
