"""Operands that depend on the thread's index alone, computed for one thread as the GPU computes them.

In: an operand and a thread.  Out: a number, or UnknownError.

    [value_of(cond, lane) for lane in lanes_of_block((64, 1, 1))]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def value_of(operand: Operand, lane: Lane) -> int:
    """The number that an operand is for a thread; UnknownError where that depends on more."""
    if not isinstance(operand, Value):
        return int(operand.value)
    match operand.op:
        case ops.Special(kind=kind) if kind in lane:
            return lane[kind]
        case ops.Binary(kind=kind, a=a, b=b) if kind in _BINARY:
            return _computed(kind, value_of(a, lane), value_of(b, lane), operand.dtype)
        case ops.Unary(kind="not", a=a):
            return int(not value_of(a, lane))
        case ops.Cast(a=a, bits=False, result=result) if result.dtype.is_integer:
            return wrap(value_of(a, lane), result.dtype)
        case ops.Select(cond=cond, a=a, b=b):
            return value_of(a if value_of(cond, lane) else b, lane)
    raise UnknownError


def _computed(kind: str, a: int, b: int, dtype: DType) -> int:
    """The number as the GPU computes it, unsigned differences among them."""
    if (kind in ("floordiv", "mod") and b == 0) or (kind in ("shl", "shr") and not 0 <= b < dtype.bits):
        raise UnknownError
    found = int(_BINARY[kind](a, b))
    return wrap(found, dtype) if dtype.is_integer else found
