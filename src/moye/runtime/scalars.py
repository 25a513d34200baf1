"""A scalar argument whose parameter is annotated with a dtype: the number that the kernel gets, or a refusal.

In: a value, the dtype.  Out: a Python number that the dtype holds.

>>> annotated("seed", 2**32 - 1, uint32)
4294967295

Scalars without an annotation take their dtype from the value.
"""

from __future__ import annotations

import math
from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType
from moye.errors import ArgumentError

_LARGEST = {dt.float16: 65504.0, dt.bfloat16: 3.3895313892515355e38, dt.tfloat32: 3.4028234663852886e38,
            dt.float32: 3.4028234663852886e38, dt.float8_e4m3fn: 448.0, dt.float8_e5m2: 57344.0}


def annotated(name: str, value: Any, dtype: DType) -> int | float | bool:
    """The value as a number of this dtype; ArgumentError if it does not fit."""
    number: Any = value.item() if not isinstance(value, (int, float)) and _is_scalar(value) else value
    if not isinstance(number, (bool, int, float)) or not (dtype.is_float or dtype.bits <= 64):
        raise ArgumentError(f"argument {name!r} is annotated mo.{dtype}, and a {type(value).__name__} is no such "
                            "number", hint="annotate scalars alone; an array brings its dtype")
    if dtype is dt.bool_:
        fits = isinstance(number, bool) or number in (0, 1)
        number = bool(number)
    elif dtype.is_float:
        fits = not math.isfinite(number) or abs(number) <= _LARGEST.get(dtype, math.inf)
        number = float(number) if fits else number
    else:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        fits = not isinstance(number, float) and low <= number < low + (1 << dtype.bits)
        number = int(number) if fits else number
    if not fits:
        raise ArgumentError(f"argument {name!r} is {value!r}, which mo.{dtype}, its annotation, cannot hold")
    fitting: int | float | bool = number
    return fitting


def _is_scalar(value: Any) -> bool:
    return hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "shape", None) == ()
