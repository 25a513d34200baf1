"""Sums and products of 8 and 16 bits whose lost bits would matter: what is made of them needs more than the low ones.

In: a Func.  Out: the ids of the values that wrap in silence and are then converted, divided, ordered or shifted right.

    total = x8[i] + x8[i + 1]; out[i] = total / 2           # 44, where 200 + 100 was meant

A byte that is stored as a byte keeps what it needs: sums, differences, products and bits of the low byte are the low
byte of theirs.  C++ computes in int, so that there the two differ nowhere else.  What a loop carries is a byte in C++,
too, and its lost bits are meant: hashes and checksums are computed so.
"""

from __future__ import annotations

from typing import TypeGuard

from moye.dtypes import DType
from moye.ir import fold, ops
from moye.ir.constants import limits
from moye.ir.nodes import Func, Operand, Value
from moye.sim.flow.once import once_per_func

_LOW_BITS = ("add", "sub", "mul", "or", "xor")
_GROWS = ("add", "sub", "mul", "shl")
_WHOLE = ("floordiv", "mod", "shr", "lt", "le", "gt", "ge", "min", "max")


@once_per_func
def widened(func: Func) -> frozenset[int]:
    """The ids of narrow values whose lost bits would matter."""
    every = [op for op in func.body.walk() if isinstance(op, (ops.Binary, ops.Unary, ops.Cast, ops.Select))]
    found = {operand.id for op in every for operand in _needed(op) if is_narrow(operand)}
    before = 0
    while before != len(found):
        before = len(found)
        for op in reversed(every):
            if op.result.id in found:
                found |= {operand.id for operand in _parts(op) if is_narrow(operand)}
    return frozenset(found)


def wraps_unseen(op: ops.Op, among: frozenset[int]) -> bool:
    """Whether an op may lose bits that matter, as far as the facts of its operands tell."""
    if not isinstance(op, (ops.Binary, ops.Unary)) or op.result.id not in among:
        return False
    low, high = limits(op.a.dtype)
    if isinstance(op, ops.Unary):
        return _negates_beyond(op, low)
    if op.kind == "floordiv":
        return low < 0 and fold.possible(op.a, low) and fold.possible(op.b, -1)
    lower, upper, _ = fold.facts(op.kind, op.a, op.b)
    return op.kind in _GROWS and (lower is None or upper is None or lower < low or upper > high)


def _negates_beyond(op: ops.Unary, low: int) -> bool:
    """Whether the negative of a number may not fit: of the least signed one, and of each unsigned one but 0."""
    if low < 0:
        return op.kind in ("neg", "abs") and fold.possible(op.a, low)
    return op.kind == "neg" and fold.facts_of(op.a)[1] != 0


def is_narrow(operand: Operand) -> TypeGuard[Value]:
    """Whether it is a value of an integer of 8 or 16 bits."""
    return isinstance(operand, Value) and _narrow(operand.dtype)


def _narrow(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits < 32


def _needed(op: ops.Op) -> list[Value]:
    """The operands of which an op needs every bit."""
    if isinstance(op, ops.Cast):
        wider = not op.bits and (op.result.dtype.is_float or op.result.dtype.bits > op.a.dtype.bits)
        return [op.a] if wider and isinstance(op.a, Value) else []
    if isinstance(op, ops.Binary) and op.kind in _WHOLE:
        both = (op.a,) if op.kind == "shr" else (op.a, op.b)
        return [operand for operand in both if isinstance(operand, Value)]
    return [op.a] if isinstance(op, ops.Unary) and op.kind == "abs" and isinstance(op.a, Value) else []


def _parts(op: ops.Op) -> list[Operand]:
    """What the bits of a result are made of."""
    if isinstance(op, ops.Binary) and op.kind in _LOW_BITS:
        return [op.a, op.b]
    if isinstance(op, ops.Binary) and op.kind == "shl":
        return [op.a]
    if isinstance(op, ops.Select):
        return [op.a, op.b]
    return [op.a] if isinstance(op, ops.Unary) and op.kind == "neg" else []
