"""Options of host functions: numbers of Python, NumPy or any library, flags, functions; refused in one sentence if not.

In: what a caller passed.  Out: Python's own int, float or bool, or the function.

    scale = real("softmax", "scale", np.float32(0.5))         # 0.5
    index = integer("cross_entropy", "ignore_index", None)      # ArgumentError
    largest = flag("top_k", "largest", "no")                    # ArgumentError, as "no" would be true
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import moye as mo

_LONGEST = 60


def real(who: str, name: str, x: Any, least: float | None = None) -> float:
    """The float that a real number is, of at least ``least``; bools are none."""
    try:
        if isinstance(x, (bool, str, bytes, bytearray)):
            raise TypeError
        found = float(x)
    except OverflowError:
        raise mo.ArgumentError(f"{who}: {name} is larger than a float can be") from None
    except (TypeError, ValueError):
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is no number") from None
    if least is not None and not found >= least:        # NaN is not
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is no number of at least {least:g}")
    return found


def integer(who: str, name: str, x: Any, what: str = "no integer", least: int | None = None) -> int:
    """The int that an integer of 64 bits is, of at least ``least``; bools are none.  ``what`` says what others are."""
    try:
        found = None if isinstance(x, bool) else operator.index(x)
    except TypeError:
        found = None
    if found is None or not -(1 << 63) <= found < 1 << 63 or (least is not None and found < least):
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is {what}")
    return found


def flag(who: str, name: str, x: Any) -> bool:
    """The bool that a bool of any library is, or one of the numbers 0 and 1; nothing else is true or false here."""
    if isinstance(x, bool):
        return x
    try:
        found = int(x) if type(x).__module__ == "numpy" and type(x).__name__ in ("bool", "bool_") else operator.index(x)
    except TypeError:
        found = None
    if found not in (0, 1):
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is neither True nor False")
    return found == 1


def function(who: str, name: str, x: Any, arguments: int) -> Any:
    """A function that can be called with so many arguments, or None."""
    if x is None:
        return None
    try:
        if not callable(x):
            raise TypeError
        inspect.signature(x).bind(*[None] * arguments)
    except ValueError:                                  # one of C, which has no signature
        return x
    except TypeError:
        raise mo.ArgumentError(f"{who}: {name}={shown(x)} is no function of {arguments} arguments") from None
    return x


def shown(x: Any, longest: int = _LONGEST) -> str:
    """What a caller passed, in a sentence."""
    try:
        text = repr(x)
    except ValueError:                                  # an integer of more digits than Python writes
        return f"a {type(x).__name__}"
    return text if len(text) <= longest else f"{text[:longest]}..."
