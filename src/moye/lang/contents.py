"""What is in a mutable object that a trace has read: compared at each launch, as names are.

In: a list, dict, set, small array, object of a user's class.  Out: its ``Contents``.

>>> contents_of([1.0, 2]) == contents_of([1.0, 2])
True

Parts of other kinds, such as functions, count by identity, and so does an object that holds more than is compared on
each launch.
"""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import numpy as np

from moye.lang.remade import has_own_equality, held_by, is_plain_instance, is_record

MOST_PARTS = 32
"""Numbers, texts and objects in one object that are compared: some 10 microseconds."""
_MOST_BYTES = 256
_SEQUENCES = (list, tuple, collections.deque)
_SETS = (set, frozenset)
_PLAIN = (bool, int, str, bytes, type(None))
_NUMBERS = (float, complex)


class Contents:
    """A picture of an object; equal to another one of the same contents."""

    __slots__ = ("parts",)

    def __init__(self, parts: object) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contents) and bool(self.parts == other.parts)

    __hash__ = None  # type: ignore[assignment]


class _Is:
    """Something that counts by identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Is) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _TooMuch(Exception):
    """There is more in an object than is compared."""


def contents_of(value: object) -> Contents:
    """The picture of an object; one that holds too much counts by identity."""
    try:
        return Contents(_picture(value, [MOST_PARTS]))
    except _TooMuch:
        return Contents(_Is(value))


def _picture(value: Any, left: list[int]) -> object:
    left[0] -= 1
    if left[0] < 0:
        raise _TooMuch
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind in _NUMBERS:
        return kind, repr(value)                            # 0.0 is not -0.0, and a NaN is itself
    if isinstance(value, _SEQUENCES):
        more = _attributes(value, left) if hasattr(value, "__dict__") else ()
        return kind, tuple([_picture(item, left) for item in value]), more
    if isinstance(value, _SETS):
        return kind, frozenset(_picture(item, left) for item in value)
    if isinstance(value, dict):
        return kind, tuple([(_picture(key, left), _picture(item, left)) for key, item in value.items()])
    if kind is np.ndarray and not value.dtype.hasobject:
        if value.nbytes > _MOST_BYTES:
            raise _TooMuch
        return kind, value.dtype.str, value.shape, value.tobytes()
    if kind is functools.partial:
        return kind, tuple([_picture(part, left) for part in (value.func, value.args, value.keywords)])
    if holds_attributes(value):
        return kind, _attributes(value, left)
    return _Is(value)


def _attributes(value: Any, left: list[int]) -> tuple[tuple[str, object], ...]:
    return tuple([(name, _picture(item, left)) for name, item in held_by(value).items()])


def holds_attributes(value: object) -> bool:
    """Whether an object is what its attributes are: one of a plain class or dataclass of the user's."""
    if is_plain_instance(value) or has_own_equality(value) or type(value) is types.SimpleNamespace:
        return True
    return is_record(value) and not type(value).__module__.startswith("moye.")
