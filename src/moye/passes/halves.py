"""Which elementwise operations 16-bit floats have in pairs: those whose words packed instructions compute.

In: a Map.  Out: ``pairable``: the dimension along which two neighbours share a word, None where there is none.
In: a Reduce.  Out: ``folds_in_pairs``: whether two of its chains share a word.

All that a Map's body does must be a packed instruction, and all that it touches of one 16-bit dtype.  What prints them
is cuda/printing/pairs.py and reductions.py; registers that take part are stored as words (cuda/printing/uses.py).
"""

from __future__ import annotations

from moye.dtypes import DType, Space
from moye.ir import ops
from moye.ir.nodes import Operand, TileRef
from moye.passes.contract import HALF


def pairable(op: ops.Map) -> int | None:
    """The dimension along which a Map goes two elements at a time."""
    dtype = op.dst.dtype
    if dtype not in HALF or not op.body.ops or not _packed(op, dtype):
        return None
    for d, extent in enumerate(op.extents):
        if extent % 2 == 0 and op.dst.strides[d] == 1 and all(_fits(ref, d) for ref in (op.dst, *op.sources)):
            return d
    return None


def folds_in_pairs(op: ops.Reduce) -> bool:
    """Whether a fold of registers has packed instructions, and chains side by side for them."""
    return op.src.dtype in HALF and op.chains > 1 and op.kind in ops.NARROW_ARITHMETIC and \
        op.src.buffer.space is Space.REGISTER and op.src.swizzle is None


def begins_in_words(op: ops.Reduce) -> bool:
    """Whether the elements that such a fold takes together are neighbours in registers."""
    steps = [stride for extent, stride in zip(op.extents, op.src.strides, strict=True) if extent != 1]
    return folds_in_pairs(op) and steps[:1] == [1]


def _fits(ref: TileRef, d: int) -> bool:
    return ref.buffer.space is Space.REGISTER and ref.swizzle is None and isinstance(ref.strides[d], int)


def _packed(op: ops.Map, dtype: DType) -> bool:
    """Whether packed instructions compute the body, and nothing has another dtype."""
    operands: list[Operand] = [op.value, *op.inputs]
    for inner in op.body.ops:
        result = inner.defines()
        if result is None or not _has_pairs(inner):
            return False
        operands += [result, *inner.operands()]
    return all(operand.dtype is dtype for operand in operands) and all(ref.dtype is dtype for ref in op.sources)


def _has_pairs(op: ops.Op) -> bool:
    if isinstance(op, ops.Binary):
        return op.kind in ops.NARROW_ARITHMETIC
    if isinstance(op, ops.Unary):
        return op.kind in ("neg", "abs") or (op.fast and op.kind in ops.NARROW_FAST)
    return isinstance(op, ops.Fma)
