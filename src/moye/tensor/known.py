"""What facts decide of a kernel's values: static numbers that keep the dtype that the value would have.

In: a number and a dtype.  Out: a ``KnownInt``, taken wherever a Python integer is, or a ``KnownBool``.

    tid // 32                         # in a block of one warp: known(0, int32), which meets an int16 as an int32

Arithmetic with them is that of ``Expr``, which gives its operators; outside a trace it is that of the number.
"""

from __future__ import annotations

import sys
from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType
from moye.ir.nodes import Literal
from moye.tensor.asking import asks_for_a_number
from moye.tensor.context import tracing

_OPERATORS = """add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod and rand or ror
                xor rxor lshift rlshift rshift rrshift neg abs invert pow rpow eq ne lt le gt ge"""


class Known:
    """A value of the kernel that facts have decided: static, with a dtype."""

    dtype: DType

    @property
    def operand(self) -> Literal:
        return Literal(weak(self), self.dtype)

    def __hash__(self) -> int:
        return hash(weak(self))

    def __repr__(self) -> str:
        return repr(weak(self))

    def __str__(self) -> str:
        return repr(weak(self))

    def __format__(self, spec: str) -> str:
        return format(weak(self), spec)

    def __copy__(self) -> Known:
        return self

    def __deepcopy__(self, _: object) -> Known:
        return self

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(weak(self)), (weak(self),)


def take_operators(traced: type) -> None:
    """Have operators, and conversions, be those of traced scalars."""
    for name in _OPERATORS.split():
        setattr(Known, f"__{name}__", _as_traced(traced, f"__{name}__"))
    for name in ("to", "bitcast"):
        setattr(Known, name, getattr(traced, name))


def _as_traced(of: type, name: str) -> Any:
    traced = getattr(of, name)

    def operator(self: Known, *others: Any) -> Any:
        return traced(self, *others) if tracing() else getattr(weak(self), name)(*others)
    return operator


class KnownInt(Known, int):
    """Taken wherever a Python integer is."""

    def __new__(cls, value: int, dtype: DType) -> KnownInt:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self


class KnownBool(Known):
    """Python's own truth values, on the left of an operator, leave the operation to it."""

    def __init__(self, value: object) -> None:
        self.value = bool(value)
        self.dtype = dt.bool_

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """For a user's ``isinstance`` it is the bool of Python's that it is taken for."""
        return bool if asks_for_a_number(sys._getframe(1)) else KnownBool

    def __bool__(self) -> bool:
        return self.value

    def __index__(self) -> int:
        return int(self.value)


def known(value: Any, dtype: DType) -> int:
    """What facts decided, in its dtype: an integer for whoever asks."""
    truth: Any = KnownBool(value)
    return truth if dtype is dt.bool_ else KnownInt(value, dtype)


def weak(x: Any) -> Any:
    """What facts decided as the Python number that it is; anything else as it is."""
    return int(x) if isinstance(x, KnownInt) else bool(x) if isinstance(x, Known) else x
