"""What the threads of a warp or of a block compute together: folds, scans, matches, folds of rows of accumulators.

In: a scalar of each thread, or a pair (value, index).  Out: the fold for every thread, or what comes before each.

    total = mo.block_reduce(x, scratch); before = mo.warp_scan(x, "add", inclusive=False)

They are made of shuffles, one step for each bit of a lane's number, so the order of float sums is fixed and the
simulator has the same.  Whole warps fold integers of up to 32 bits in one instruction, redux.sync (PTX ISA).
"""

from __future__ import annotations

from typing import Any

from moye import dtypes as dt
from moye.dtypes import Kind, Space
from moye.errors import DTypeError, TensorError, TraceError
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Value
from moye.lang.branches import DynamicIf
from moye.lang.builtins import (
    lane_idx,
    lane_mask,
    linear_thread,
    of_each,
    shuffle_idx,
    shuffle_up,
    shuffle_xor,
    static,
    sync_threads,
    warp_idx,
)
from moye.tensor import expr
from moye.tensor.accumulators import mn_view, row_lanes
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of, wrap
from moye.tensor.folds import BITS, PAIRS, fold, fold_dtype, fold_kind, folds_pairs, neutral
from moye.tensor.tensor import Tensor
from moye.tensor.tiled import TiledMMA

__all__ = ["block_reduce", "block_scan", "match_all", "match_any", "row_reduce", "warp_reduce", "warp_scan"]

_FULL = 0xFFFFFFFF


# --- warps -----------------------------------------------------------------------------------------------------------


def warp_reduce(value: Any, kind: str = "add", width: int = WARP) -> Any:
    """Fold ``value`` over the lanes of a warp, or of each segment of ``width`` lanes; every lane gets the result.

    The kinds are add (or sum), mul (prod), min, max, and, or, xor.  argmax and argmin take a pair (value, index) and
    give the pair of the largest or least value; of equal values that of the least index.  NaN is never taken before a
    number.  Of a register tensor, every element is folded by itself.  Sums and products of bools and of integers below
    32 bits are int32, of unsigned ones uint32.

    Integers of up to 32 bits in whole warps take redux.sync, which leaves out lanes that have exited; all else takes
    shuffles: with the lane ``width / 2`` away, then half as far, down to the neighbour.
    """
    width = _width("warp_reduce", width)
    if isinstance(value, (tuple, list)) or folds_pairs(kind):
        return _pairs("warp_reduce", value, kind, width)
    if isinstance(value, Tensor):
        return of_each(lambda x: warp_reduce(x, kind, width), value)
    operand = operand_of(value)
    kind = fold_kind("warp_reduce", kind, operand.dtype)
    operand = builder().cast(operand, fold_dtype(kind, operand.dtype))
    value = Expr(operand)
    if width == WARP and kind != "mul" and _one_instruction(operand.dtype, kind):
        return _redux(value, kind)
    delta = width // 2
    while delta:
        value = fold(kind, value, shuffle_xor(value, delta, width))
        delta //= 2
    return value


def _width(what: str, width: object) -> int:
    number = static(width)
    if not isinstance(number, int) or number not in (1, 2, 4, 8, 16, 32):
        raise TraceError(f"{what}: the width {number!r} is no power of two up to 32", locs=(locate(),))
    return number


def _one_instruction(dtype: dt.DType, kind: str) -> bool:
    """Whether redux.sync folds it; bools are counted and compared as integers, and their bits shuffled."""
    return (dtype.is_integer and dtype.bits <= 32) or (dtype.kind is Kind.BOOL and kind not in BITS)


def _redux(value: Scalar, kind: Any) -> Scalar:
    operand = operand_of(value)
    own = dt.int32 if operand.dtype.kind is Kind.BOOL else operand.dtype
    word = dt.uint32 if own.kind is Kind.UINT else dt.int32
    result = Value(word)
    builder().emit(ops.Redux(result=result, kind=kind, value=builder().cast(operand, word)))
    return wrap(builder().cast(result, own))


def _pairs(what: str, pair: object, kind: object, width: int) -> tuple[Scalar, Scalar]:
    value, index = _pair(what, pair, kind)
    delta = width // 2
    while delta:
        other = shuffle_xor(value, delta, width), shuffle_xor(index, delta, width)
        value, index = _better(kind, (value, index), other)
        delta //= 2
    return value, index


def _pair(what: str, pair: object, kind: object) -> tuple[Scalar, Scalar]:
    """A pair (value, index) that is folded with argmax or argmin."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(expr.is_scalar(x) for x in pair):
        raise TraceError(f"{what}: kind {kind!r} folds a pair of scalars (value, index), not {expr.shorten(pair)}",
                         locs=(locate(),))
    if not folds_pairs(kind):
        raise TraceError(f"{what}: a pair is folded with {' or '.join(PAIRS)}, not {kind!r}", locs=(locate(),))
    index = operand_of(pair[1])
    if not index.dtype.is_integer:
        raise DTypeError(f"{what}: the index of a pair is an integer, not a {index.dtype}", locs=(locate(),))
    return Expr(operand_of(pair[0])), Expr(index)


def _better(kind: object, mine: tuple[Scalar, Scalar], other: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    """The one of two pairs that both sides of an exchange choose."""
    (value, index), (theirs, their_index) = mine, other
    wins = expr.compare("gt" if kind == "argmax" else "lt", theirs, value)
    same = expr.compare("eq", theirs, value)
    if operand_of(value).dtype.is_float:                # a number wins against NaN, and of two NaN the first
        here, there = (expr.compare("ne", x, x) for x in (value, theirs))
        wins = expr.bitwise("or", wins, expr.bitwise("and", here, expr.compare("eq", theirs, theirs)))
        same = expr.bitwise("or", same, expr.bitwise("and", here, there))
    first = expr.compare("lt", their_index, index)
    wins = expr.bitwise("or", wins, expr.bitwise("and", same, first))
    return expr.where(wins, theirs, value), expr.where(wins, their_index, index)


def warp_scan(value: Any, kind: str = "add", *, inclusive: bool = True, width: int = WARP) -> Any:
    """Fold ``value`` over the lanes up to this one, of a warp or of each segment of ``width`` lanes.

    ``inclusive=False`` leaves this lane out; the first lane then gets what changes nothing: 0 for add, or and xor, 1
    for mul, all bits for and, the end of the dtype for min and max.  The kinds are those of ``warp_reduce`` for
    scalars.  Step s folds what lane i - 2^s has with what lane i has, for s = 0, 1, ...
    """
    width = _width("warp_scan", width)
    if isinstance(value, Tensor):
        return of_each(lambda x: warp_scan(x, kind, inclusive=inclusive, width=width), value)
    operand = operand_of(value)
    kind = fold_kind("warp_scan", kind, operand.dtype)
    operand = builder().cast(operand, fold_dtype(kind, operand.dtype))
    if operand.dtype.kind is Kind.BOOL and kind not in BITS:
        operand = builder().cast(operand, dt.int32)
    result: Scalar = Expr(operand)
    lane = expr.arithmetic("mod", lane_idx(), width)
    step = 1
    while step < width:
        below = shuffle_up(result, step, width)
        result = expr.where(expr.compare("ge", lane, step), fold(kind, below, result), result)
        step *= 2
    if _static_bool("warp_scan", inclusive):
        return result
    before = shuffle_up(result, 1, width)
    return expr.where(expr.compare("eq", lane, 0), neutral(kind, operand.dtype), before)


def _static_bool(what: str, inclusive: object) -> bool:
    known = static(inclusive)
    if not isinstance(known, bool):
        raise TraceError(f"{what}: inclusive={inclusive!r} is True or False, known while tracing", locs=(locate(),))
    return known


def match_any(value: Scalar, mask: int = _FULL) -> Scalar:
    """match.sync.any: a uint32 with the bit of each lane in ``mask`` that has the same value as this one.

    Floats are the same if their bits are.
    """
    return _match("any", value, mask)


def match_all(value: Scalar, mask: int = _FULL) -> Scalar:
    """match.sync.all: ``mask`` where all of its lanes have one value, else 0; a uint32.

    Floats are the same if their bits are.
    """
    return _match("all", value, mask)


def _match(kind: Any, value: Scalar, mask: int) -> Scalar:
    operand, b = operand_of(value), builder()
    dtype = operand.dtype
    if dtype.is_float:
        if dtype.bits not in (16, 32, 64):
            raise DTypeError(f"match_{kind} takes numbers of 16, 32 or 64 bits, not {dtype}", locs=(locate(),))
        operand = b.cast(operand, {16: dt.uint16, 32: dt.uint32, 64: dt.uint64}[dtype.bits], bits=True)
    operand = b.cast(operand, dt.uint64 if operand.dtype.bits == 64 else dt.uint32)
    result = Value(dt.uint32)
    b.emit(ops.Match(result=result, kind=kind, value=operand, mask=lane_mask(f"match_{kind}", mask)))
    return Expr(result)


# --- blocks ----------------------------------------------------------------------------------------------------------


def block_reduce(value: Any, scratch: Any, kind: str = "add") -> Any:
    """Fold ``value`` over all threads of the block; every thread gets the result.

    The kinds are those of ``warp_reduce``.  ``scratch`` is a shared tensor of at least one element per warp, for a pair
    (value, index) one of each; it may be reused after the call.  The block must be a whole number of warps, and all of
    its threads must call.  Each warp is folded first, then warp 0 with warp 1, that with warp 2, and so on.
    """
    warps = _warps("block_reduce")
    if isinstance(value, (tuple, list)) or folds_pairs(kind):
        return _block_pairs(value, scratch, kind, warps)
    kind = fold_kind("block_reduce", kind, operand_of(value).dtype)
    value = warp_reduce(value, kind)
    _shared("block_reduce", scratch, value)
    if warps == 1:
        return value
    _by_one_lane(0, [(scratch, value)])
    result: Any = scratch[0]
    for warp in range(1, warps):
        result = fold(kind, result, scratch[warp])
    _before_the_next_use(scratch)
    return result


def _block_pairs(pair: object, scratch: Any, kind: object, warps: int) -> tuple[Scalar, Scalar]:
    if not isinstance(scratch, (tuple, list)) or len(scratch) != 2:
        raise TensorError(f"block_reduce: kind {kind!r} takes two shared tensors, of values and of indices, not "
                          f"{expr.shorten(scratch)}", locs=(locate(),))
    value, index = _pairs("block_reduce", pair, kind, WARP)
    for each, scalar in zip(scratch, (value, index), strict=True):
        _shared("block_reduce", each, scalar)
    if warps == 1:
        return value, index
    _by_one_lane(0, [(scratch[0], value), (scratch[1], index)])
    result: Any = scratch[0][0], scratch[1][0]
    for warp in range(1, warps):
        result = _better(kind, result, (scratch[0][warp], scratch[1][warp]))
    _before_the_next_use(*scratch)
    return result  # type: ignore[no-any-return]


def block_scan(value: Scalar, scratch: Tensor, kind: str = "add", *, inclusive: bool = True) -> Scalar:
    """Fold ``value`` over the threads of the block up to this one (x fastest), or up to the one before it.

    ``scratch`` is a shared tensor of at least one element per warp; it may be reused after the call.  The block must be
    a whole number of warps, and all of its threads must call.  Kinds, and what the first thread gets where
    ``inclusive`` is False, are those of ``warp_scan``.  Each warp is scanned, then the warps' results are.
    """
    warps = _warps("block_scan")
    whole = warp_scan(value, kind)
    _shared("block_scan", scratch, whole)
    dtype = operand_of(whole).dtype
    kind = fold_kind("block_scan", kind, dtype)
    mine = whole if _static_bool("block_scan", inclusive) else _before(whole, kind)
    if warps == 1:
        return mine
    _by_one_lane(WARP - 1, [(scratch, whole)])
    lane, last = lane_idx(), warps - 1
    of_warp: Any = scratch[expr.where(expr.compare("lt", lane, warps), lane, last)]
    width = 1 << last.bit_length()                      # no more steps than that many warps need
    below = shuffle_idx(warp_scan(of_warp, kind, width=width), expr.arithmetic("sub", warp_idx(), 1))
    _before_the_next_use(scratch)
    return expr.where(expr.compare("lt", linear_thread(), WARP), mine, fold(kind, below, mine))


def _before(scanned: Scalar, kind: str) -> Scalar:
    """What an exclusive scan of the warp gives, from what an inclusive one gave."""
    below = shuffle_up(scanned, 1)
    return expr.where(expr.compare("eq", lane_idx(), 0), neutral(kind, operand_of(scanned).dtype), below)


def _warps(what: str) -> int:
    threads = builder().func.threads
    if threads % WARP:
        raise TraceError(f"{what}: a block of {threads} threads is no whole number of warps", locs=(locate(),),
                         hint=f"launch {-(-threads // WARP) * WARP} threads; those without an element give what "
                              "changes nothing, such as 0 to a sum")
    return threads // WARP


def _shared(what: str, scratch: object, value: Scalar) -> None:
    if not isinstance(scratch, Tensor) or scratch.space is not Space.SHARED:
        raise TensorError(f"{what}: the scratch {scratch!r} must be a shared tensor", locs=(locate(),))
    dtype = operand_of(value).dtype
    if dt.promote(dtype, scratch.dtype) is not scratch.dtype:
        raise DTypeError(f"{what}: the scratch {scratch.label} holds {scratch.dtype}, and the value is {dtype}",
                         hint=f"make it with mo.shared_array(mo.{dtype}, ...)", locs=(locate(),))


def _by_one_lane(lane: int, stores: list[tuple[Tensor, Scalar]]) -> None:
    """One lane of each warp stores its values at the number of the warp; then the block may read them."""
    chosen: Any = expr.compare("eq", lane_idx(), lane)
    first = DynamicIf(Expr(operand_of(chosen)), ())
    first.then({})
    for scratch, value in stores:
        scratch[warp_idx()] = value
    first.end_then({})
    first.orelse()
    first.end_else({})
    first.merge({})
    sync_threads()


def _before_the_next_use(*scratch: Tensor) -> None:
    """The barrier that lets the scratch be used again; it goes if nobody does (passes/barriers.py)."""
    builder().emit(ops.SyncThreads(keeps=tuple(each.buffer for each in scratch)))


# --- accumulators ----------------------------------------------------------------------------------------------------


def row_reduce(acc: Tensor, kind: str, mma: TiledMMA) -> Tensor:
    """Fold each row of a tile over all of its columns; every thread gets the folds of the rows that it holds.

    ``acc`` are the accumulators (MMA, MMA_M, MMA_N) of ``mma``.  The result has one mode, the rows of
    ``mn_view(acc, mma)``, ((2,MMA_M)) for mma.sync and wgmma.  Kinds are those of ``Tensor.reduce``, which folds what
    the thread holds; then the lanes that share the row exchange by xor, the nearest first (two steps of shuffles for
    mma.sync and wgmma).  TensorError if several warps hold parts of one row: that takes shared memory.
    """
    rows = mn_view(acc, mma)
    lanes = row_lanes(mma)
    kind = fold_kind("row_reduce", kind, acc.dtype)
    found: Tensor = rows.reduce(kind, mode=1)
    for i in range(found.buffer.elements or 0):
        value = found[i]
        for lane in lanes:
            value = fold(kind, value, shuffle_xor(value, lane))
        found[i] = value
    return found
