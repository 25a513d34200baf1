"""Constants: what a number becomes in a dtype, and which conversions and integers are taken not to lose anything.

In: a Python number and a dtype.  Out: a ``Literal`` whose value the dtype holds exactly.

>>> literal(0.1, float16).value, literal(300, uint8).value
(0.0999755859375, 44)
"""

from __future__ import annotations

import math

from moye.dtypes import DType, Kind, int32, int64, rounded, uint64
from moye.ir.nodes import Literal


def wraps(dtype: DType) -> bool:
    """Whether arithmetic in the dtype is modulo 2^bits: unsigned and narrow integers."""
    return dtype.kind is Kind.UINT or dtype.bits < 32


def fits(number: int, dtype: DType) -> bool:
    """Whether the dtype can hold the integer."""
    return wrap(number, dtype) == number


def instead_of(number: int, dtype: DType) -> str:
    """What to write in place of an integer that does not fit a dtype."""
    holds = next((x for x in (int32, int64, uint64) if fits(number, x)), None)
    if holds is None:
        return "no integer of a kernel has more than 64 bits"
    same = f"{number & (1 << dtype.bits) - 1:#x}, the same bits, or " if -(1 << dtype.bits - 1) <= number < 0 else ""
    return f"{same}convert the other operand, with .to(mo.{holds})"


def wrap(value: int, dtype: DType) -> int:
    """The integer as the dtype holds it (two's complement)."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind is Kind.INT and value >> (dtype.bits - 1) else value


def literal(number: int | float, dtype: DType) -> Literal:
    """A number as the dtype holds it: a float rounded, an integer modulo 2^bits, a float as integer saturated."""
    if dtype.is_float:
        return Literal(_float(number, dtype), dtype)
    if dtype.kind is Kind.BOOL:
        return Literal(bool(number), dtype)
    if isinstance(number, float):
        low, high = limits(dtype)
        if not math.isfinite(number):
            return Literal(0 if math.isnan(number) else high if number > 0 else low, dtype)
        return Literal(min(max(int(number), low), high), dtype)
    return Literal(wrap(int(number), dtype), dtype)


def _float(number: int | float, dtype: DType) -> float:
    """Rounded once: an integer beyond 2^53 is first made a float whose last digit tells that there was more."""
    if isinstance(number, int) and abs(number) >= 1 << 53 and dtype.bits < 64:
        drop = abs(number).bit_length() - 52
        low = abs(number) & ((1 << drop) - 1)
        size = (abs(number) >> drop | (low != 0)) << drop
        number = size if number > 0 else -size
    return rounded(float(number), dtype)


def cast_literal(a: Literal, dtype: DType) -> Literal:
    """The constant converted to another dtype."""
    if dtype.is_integer and isinstance(a.value, float) and math.isnan(a.value):
        return Literal(of_nan(a.dtype, dtype), dtype)
    return literal(a.value, dtype)


def of_nan(source: DType, target: DType) -> int:
    """The integer that a NaN becomes (PTX ISA, cvt): 0; from float64, or to 64 bits, the one with the top bit alone.

    Integers of 8 and 16 bits are made of an int32, which is clamped.
    """
    low = limits(target)[0]
    if target.bits < 64 and source.bits < 64:
        return 0
    return low if low or target.bits < 32 else 1 << (target.bits - 1)


def limits(dtype: DType) -> tuple[int, int]:
    """Smallest and largest integer of the dtype."""
    signed = dtype.kind is Kind.INT
    return (-1 << (dtype.bits - 1) if signed else 0), (1 << (dtype.bits - signed)) - 1


def loses(source: DType, target: DType) -> bool:
    """Whether a conversion is one from 64 to 32 bits that is taken for a mistake where the value does not fit.

    Of unsigned integers to unsigned ones it is arithmetic modulo 2^32, as everything else on them.
    """
    return source.is_integer and target.is_integer and source.bits == 64 and target.bits == 32 \
        and Kind.INT in (source.kind, target.kind)


def kept(target: DType) -> tuple[int, int]:
    """The numbers that a conversion which ``loses`` may have: the range of the target, and for uint32 negative ones
    too."""
    low, high = limits(target)
    return (low if target.kind is Kind.INT else -1 << (target.bits - 1)), high
