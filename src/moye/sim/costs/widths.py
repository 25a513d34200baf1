"""P2: how wide a copy could be: accesses of a thread that lie side by side, aligned, on both sides.

In: an op.  Out: ``possible_bytes``: the widest access that its layouts provably allow, for every launch of it.

The proof is that of moye.tensor.copying: strides, offsets and bases are multiples of the wider access, in memory the
values are contiguous, in registers they lie at equal distances.
"""

from __future__ import annotations

import math

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Extent, Operand, TileRef, Value

WIDEST = 16


def possible_bytes(op: ops.Op) -> int:
    """The bytes of one access that a copy could have; 0 for an op that has no width to choose."""
    if not isinstance(op, ops.Copy) or op.atom.matrices:
        return 0
    now = op.width * op.dst.dtype.bytes
    if all(ref.buffer.space is Space.REGISTER for ref in (op.dst, op.src)):
        return now
    for factor in (16, 8, 4, 2):
        if now * factor <= WIDEST and any(_fits(op, d, factor) for d in range(len(op.extents))):
            return now * factor
    return now


def _fits(op: ops.Copy, at: int, factor: int) -> bool:
    """Whether ``factor`` accesses along dimension ``at`` could be one."""
    extent = op.extents[at]
    if not isinstance(extent, int) or extent % factor:
        return False
    if isinstance(op.pred, TileRef) and op.pred.strides[at] != 0:
        return False
    return all(_side(ref, at, op.width, factor) for ref in (op.dst, op.src))


def _side(ref: TileRef, at: int, width: int, factor: int) -> bool:
    step = ref.strides[at]
    if ref.buffer.space is Space.REGISTER:
        return ref.swizzle is None and isinstance(step, int) and step != 0 and (width == 1 or step == width * ref.lane)
    if step != width:
        return False
    needed = width * factor * ref.dtype.bytes
    known = math.gcd(ref.buffer.align, _divisor(ref.offset) * ref.dtype.bytes)
    for d, stride in enumerate(ref.strides):
        if d != at:
            known = math.gcd(known, _divisor(stride) * ref.dtype.bytes)
    if ref.swizzle is not None and ref.swizzle.bits:
        known = math.gcd(known, (1 << ref.swizzle.base) * ref.dtype.bytes)
    return known % needed == 0


def _divisor(number: Extent | Operand) -> int:
    """A number that divides it, as large as is known."""
    known = number if isinstance(number, int) else number.divisor if isinstance(number, Value) else int(number.value)
    return abs(known) or 1 << 40
