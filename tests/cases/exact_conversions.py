"""Conversions between dtypes, exactly: ``ops.Cast`` in rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from moye.dtypes import DType, Kind

# mantissa bits, smallest normal exponent, largest finite value, whether what is larger saturates
FORMATS = {"bfloat16": (7, -126, 2.0**128 * (1 - 2**-8), False), "float16": (10, -14, 65504.0, False),
           "tfloat32": (10, -126, 2.0**128 * (1 - 2**-11), False), "float8_e4m3fn": (3, -6, 448.0, True),
           "float8_e5m2": (2, -14, 57344.0, True)}
_SINGLE = (23, -126, 2.0**128 * (1 - 2**-24), False)        # float32, of which NumPy knows the rest


def converted(a: Any, old: DType, new: DType) -> Any:
    """The number that ``new`` holds, as a Python number."""
    if new.name in FORMATS:
        return rounded(a if isinstance(a, (bool, int)) else float(a), new.name)
    if old.is_float and new.is_integer:
        low = -(1 << (new.bits - 1)) if new.kind is Kind.INT else 0
        high = low + (1 << new.bits) - 1
        if math.isnan(a):                                   # the PTX ISA's table; 8 and 16 bits come of an int32
            return 0 if max(old.bits, new.bits) < 64 else low if low or new.bits < 32 else 1 << (new.bits - 1)
        return (high if a > 0 else low) if math.isinf(a) else min(max(int(a), low), high)
    return a


def rounded(a: int | float | Fraction, name: str) -> float:
    """To nearest, ties to even (tfloat32: away from zero); the size of a finite result may be too large to keep."""
    mantissa, smallest, largest, saturates = FORMATS.get(name, _SINGLE)
    if isinstance(a, float) and not math.isfinite(a):
        return math.copysign(largest, a) if saturates and math.isinf(a) else a
    size = abs(Fraction(a))
    exponent = max(smallest, math.floor(math.log2(size)) if size else smallest)
    exponent += (size >= Fraction(2) ** (exponent + 1)) - (exponent > smallest and size < Fraction(2) ** exponent)
    step = Fraction(2) ** (exponent - mantissa)
    steps = math.floor(size / step + Fraction(1, 2)) if name == "tfloat32" else round(size / step)
    found = steps * step
    if found > Fraction(largest):
        return math.copysign(largest if saturates else math.inf, a)
    return math.copysign(float(found), a)
