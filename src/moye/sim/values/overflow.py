"""A11: signed integers of 32 or 64 bits that their dtype does not hold: exact, and cheap where nothing comes near.

In: the kind of an operation and its operands, as arrays.  Out: the wrapped result, and where it is not the exact one.

>>> overflowed("add", np.int32([1, 2**31 - 1]), 1, 32)
(array([          2, -2147483648], dtype=int32), array([False,  True]))

Unsigned and narrower integers wrap by their definition.  Who computed it is told by ``Watch``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moye.sim.values.memory import Array
from moye.sim.values.scalars import BINARY

_NAMES = {"add": "a sum", "sub": "a difference", "mul": "a product", "floordiv": "a quotient", "shl": "a shift",
          "neg": "a negation", "abs": "an absolute value"}
_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else -1, "shl": lambda a, b: a << b if b >= 0 else 0,
}
LOW, HIGH = -(1 << 31), (1 << 31) - 1
_LARGE = 128
"""A shift by more than this is told as a shift, not as a number of many digits."""


def name_of(kind: str, given: str) -> str:
    """What a message calls a result: the user's name, or what the operation makes."""
    return given or _NAMES[kind]


def number(kind: str, a: int, b: int) -> str:
    """The exact result, for a message."""
    return f"{a} << {b}" if kind == "shl" and b > _LARGE else str(_EXACT[kind](a, b))


def signed(dtype: np.dtype[Any]) -> bool:
    """Whether results outside of the dtype are overflows."""
    return dtype.kind == "i" and dtype.itemsize >= 4


def overflowed(kind: str, a: Any, b: Any, bits: int, function: Any = None) -> tuple[Array, Array | None]:
    """``a kind b`` wrapped to 32 or 64 bits, and where that is not the exact result; None if nowhere."""
    return _narrow(kind, a, b, function or BINARY[kind]) if bits == 32 else _wide(kind, a, b)


def _narrow(kind: str, a: Any, b: Any, function: Any) -> tuple[Array, Array | None]:
    """int32: computed in int64, which holds every result."""
    if kind == "shl":
        exact = np.where(np.less(b, 0), 0, np.left_shift(a, np.clip(b, 0, 32), dtype=np.int64))
    else:
        exact = function(a, b, dtype=np.int64)
    result: Array = exact.astype(np.int32)
    if not exact.size or (exact.min() >= -(1 << 31) and exact.max() < 1 << 31):
        return result, None
    return result, exact != result


def _wide(kind: str, a: Any, b: Any) -> tuple[Array, Array | None]:
    """int64: from the ends of both operands where they show that all is well, else element by element."""
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    with np.errstate(all="ignore"):
        result: Array = np.asarray(BINARY[kind](a, b))
    if not result.size or (kind in _CORNERS and _near(kind, a, b)):
        return result, None
    if kind == "floordiv":
        bad = (a == np.iinfo(np.int64).min) & (b == -1)
    elif kind == "add":
        # A sum overflows exactly if both operands have the sign that the result has not.
        bad = ((a ^ result) & (b ^ result)) < 0
    elif kind == "sub":
        # A difference can overflow only if the signs differ, and does if the result's is not that of a.
        bad = ((a ^ b) & (a ^ result)) < 0
    elif kind == "shl":
        bad = (b >= 0) & (np.right_shift(result, np.clip(b, 0, 63)) != a) | (b >= 64) & (a != 0)
    else:
        bad = _products(a, b)
    return result, bad if bad.any() else None


_CORNERS = ("add", "sub", "mul")


def _near(kind: str, a: Array, b: Array) -> bool:
    """Whether no result can leave 64 bits, from the least and the largest operands."""
    ends = [_EXACT[kind](x, y) for x in (int(a.min()), int(a.max())) for y in (int(b.min()), int(b.max()))]
    return min(ends) >= -(1 << 63) and max(ends) < 1 << 63


def _products(a: Array, b: Array) -> Array:
    """Where a * b leaves 64 bits: floats tell all but the close ones."""
    a, b = np.broadcast_arrays(a, b)
    # Floats are off by far less than a factor of 2, so below 2^62 the exact product fits for certain.
    doubtful = np.abs(a.astype(np.float64) * b.astype(np.float64)) >= 2.0 ** 62
    bad = np.zeros(a.shape, np.bool_)
    exact = a[doubtful].astype(object) * b[doubtful].astype(object)
    bad[doubtful] = (exact < -(1 << 63)) | (exact >= 1 << 63)
    return bad


def fits_together(a: Array, b: Array, c: Array, terms: int) -> bool:
    """Whether no sum c + a * b + ... of so many products can leave c's dtype, from the largest operands alone."""
    most = _largest(c) + terms * _largest(a) * _largest(b)
    return most <= int(np.iinfo(c.dtype).max)


def _largest(x: Array) -> int:
    return max(-int(x.min()), int(x.max())) if x.size else 0


def beyond(sums: Array) -> bool:
    """Whether a number among these floats is outside of int32."""
    return bool(sums.size) and (float(sums.min()) < LOW or float(sums.max()) > HIGH)
