"""What asynchronous reductions make of the values that memory holds and of those that arrive.

In: a reduction, old and new values.  Out: what memory holds afterwards.

>>> reduced("inc", np.uint32([3, 5]), np.uint32([5, 5]))
array([4, 0], dtype=uint32)

Source: PTX ISA, red: inc and dec; cp.reduce.async.bulk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moye.sim.values.scalars import least, most

_BY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + np.uint32(1)).astype(np.uint32),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(np.uint32),
    "min": lambda old, new: (np.minimum if old.dtype.kind in "iu" else least)(old, new),
    "max": lambda old, new: (np.maximum if old.dtype.kind in "iu" else most)(old, new),
}


def reduced(by: str, old: Any, new: Any) -> Any:
    """Element by element; minima and maxima take the number beside a NaN."""
    return _BY[by](old, new)
