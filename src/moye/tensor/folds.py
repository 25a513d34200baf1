"""What folds share: the kinds, two values folded, what a kind begins with, and in how many chains many values fold.

In: a kind as users name it.  Out: the kind of the IR, or one sentence that says what there is.

    fold_kind("warp_reduce", "sum", float32)            # 'add'
    chains(32)                                          # 4

Folds over registers are ``Tensor.reduce``, those over threads ``moye.lang.collectives``.
"""

from __future__ import annotations

import math
from typing import Any

from moye.dtypes import DType, Kind, int32, uint32
from moye.errors import DTypeError, TraceError
from moye.tensor import expr
from moye.tensor.context import locate
from moye.tensor.expr import Expr, Scalar, operand_of

KINDS = ("add", "mul", "min", "max", "and", "or", "xor")
BITS = ("and", "or", "xor")
PAIRS = ("argmax", "argmin")
_SAME = {"sum": "add", "prod": "mul"}


def fold_kind(what: str, kind: object, dtype: DType | None = None, more: tuple[str, ...] = ()) -> str:
    """The kind under its name in the IR; ``more`` are kinds that this fold has besides.  Bits are of integers alone."""
    found = _SAME.get(kind, kind) if isinstance(kind, str) else None
    if found not in (*KINDS, *more):
        raise TraceError(f"{what}: {kind!r} is none of {', '.join((*KINDS, *more))}", locs=(locate(),),
                         hint='a sum is kind "add"' if isinstance(kind, str) and kind == "+" else None)
    if found in BITS and dtype is not None and dtype.is_float:
        raise DTypeError(f'{what}: kind "{found}" is for integers and bools, not {dtype}', locs=(locate(),))
    return found


def fold_dtype(kind: str, dtype: DType) -> DType:
    """The dtype of a fold: sums and products of bools and of integers below 32 bits have 32, as in NumPy and Triton."""
    if kind not in ("add", "mul") or not (dtype.kind is Kind.BOOL or (dtype.is_integer and dtype.bits < 32)):
        return dtype
    return uint32 if dtype.kind is Kind.UINT else int32


def folds_pairs(kind: object) -> bool:
    """Whether this is the name of a kind that folds pairs (value, index)."""
    return isinstance(kind, str) and kind in PAIRS


def fold(kind: str, a: Scalar, b: Scalar) -> Scalar:
    """Two values folded; DTypeError for what is no number."""
    found: Any = expr.bitwise(kind, a, b) if kind in BITS else expr.arithmetic(kind, a, b)
    if found is NotImplemented:
        raise DTypeError(f"{b!r} is no number to fold with", locs=(locate(),))
    folded: Scalar = found
    return folded


def neutral(kind: str, dtype: DType) -> Scalar:
    """The value that changes nothing when it is folded: 0, 1, all bits, or the end of the dtype."""
    if kind in ("min", "max"):
        return Expr(operand_of(_end(kind, dtype), dtype))
    if kind == "and":
        return Expr(operand_of(True if dtype.kind is Kind.BOOL else -1, dtype, modulo=True))
    return Expr(operand_of(1 if kind == "mul" else 0, dtype))


def _end(kind: str, dtype: DType) -> int | float:
    """The largest value for min, the least one for max."""
    if dtype.is_float:
        return math.inf if kind == "min" else -math.inf
    if dtype.kind is Kind.BOOL:
        return kind == "min"
    signed = dtype.kind is Kind.INT
    if kind == "min":
        return (1 << (dtype.bits - signed)) - 1
    return -(1 << (dtype.bits - 1)) if signed else 0


def chains(points: int) -> int:
    """In how many independent chains so many values of a thread are folded: 1, 2 from four on, 4 from eight on.

    A float's sum takes four cycles, so that four chains keep an adder busy.
    """
    return 1 if points < 4 else 2 if points < 8 else 4
