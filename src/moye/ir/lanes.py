"""Operands that depend on the thread's index alone, computed for each thread as the GPU computes them.

In: an operand and threads.  Out: their numbers, or UnknownError.

    values_of(cond, lanes_of_block((64, 1, 1)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from moye.dtypes import DType
from moye.ir import ops
from moye.ir.constants import wrap
from moye.ir.nodes import Operand, Value

Lane = Mapping[str, int]
"""The index of a thread, by the kinds of ``Special``."""

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": min, "max": max,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "land": lambda a, b: bool(a and b),
    "lor": lambda a, b: bool(a or b),
}


class UnknownError(Exception):
    """It depends on more than the thread's index."""


def lanes_of_block(block: tuple[int, int, int]) -> list[Lane]:
    """All threads of a block, x fastest."""
    x, y, z = block
    return [{"thread_x": t % x, "thread_y": t // x % y, "thread_z": t // (x * y)} for t in range(x * y * z)]


def values_of(operand: Operand, lanes: Sequence[Lane]) -> list[int]:
    """The number that an operand is for each thread; UnknownError where one of them depends on more."""
    if not lanes:                                       # of no thread nothing is unknown
        return []
    if not isinstance(operand, Value):
        return [int(operand.value)] * len(lanes)
    match operand.op:
        case ops.Special(kind=kind) if kind in lanes[0]:
            return [lane[kind] for lane in lanes]
        case ops.Binary(kind=kind, a=a, b=b) if kind in _BINARY:
            return _computed(kind, values_of(a, lanes), values_of(b, lanes), operand.dtype)
        case ops.Unary(kind="not", a=a):
            return [int(not value) for value in values_of(a, lanes)]
        case ops.Cast(a=a, bits=False, result=result) if result.dtype.is_integer:
            return [wrap(value, result.dtype) for value in values_of(a, lanes)]
        case ops.Select(cond=cond, a=a, b=b):
            which = values_of(cond, lanes)
            first, second = (iter(values_of(arm, [lane for lane, taken in zip(lanes, which, strict=True)
                                                  if bool(taken) is side])) for arm, side in ((a, True), (b, False)))
            return [next(first if taken else second) for taken in which]
    raise UnknownError


def _computed(kind: str, left: list[int], right: list[int], dtype: DType) -> list[int]:
    """The numbers as the GPU computes them, unsigned differences among them."""
    if (kind in ("floordiv", "mod") and 0 in right) or \
            (kind in ("shl", "shr") and not all(0 <= b < dtype.bits for b in right)):
        raise UnknownError
    found = [int(value) for value in map(_BINARY[kind], left, right)]
    return [wrap(value, dtype) for value in found] if dtype.is_integer else found
