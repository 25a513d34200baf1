"""Which arrays have memory in common: outputs that are read elsewhere, or are an input element by element.

In: what ``mo.describe`` says of two arrays, or of one.  Out: whether they overlap, or one sentence that refuses them.

    apart("permute", "x", read, written, "out")
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import moye as mo


def apart(name: str, letter: str, x: Any, c: Any, target: str = "C") -> None:
    """ArgumentError for an operand that has memory in common with C, the ``target``; specifications have none."""
    first, last = _span(x)
    begin, end = _span(c)
    if first < end and begin < last and x.kind != "spec" and _overlap(x, c):
        raise mo.ArgumentError(f"{name}: {target} shares memory with {letter}, which is read while {target} is written",
                               hint="write to another array")


def _span(info: Any) -> tuple[int, int]:
    """Addresses of the first byte and after the last."""
    if 0 in info.shape:
        return 0, 0
    first, last = 0, 1
    for extent, step in zip(info.shape, info.strides, strict=True):
        first, last = first + min(0, (extent - 1) * step), last + max(0, (extent - 1) * step)
    return info.ptr + first * info.dtype.bytes, info.ptr + last * info.dtype.bytes


def same_elements(x: Any, c: Any) -> bool:
    """Whether an array of C's shape is C: each element is read by who writes it."""
    return x.ptr == c.ptr and x.dtype == c.dtype and tuple(x.shape) == tuple(c.shape) and all(
        extent == 1 or step == other for extent, step, other in zip(c.shape, x.strides, c.strides, strict=True))


def repeats(info: Any) -> bool:
    """Whether two coordinates of an array are one element, as far as it is found out soon."""
    if 0 in info.shape:
        return False
    reach, nested = 0, True
    modes = sorted((abs(step), n) for n, step in zip(info.shape, info.strides, strict=True) if n > 1)
    for step, n in modes:                               # nested modes step over all that the narrower ones reach
        nested = nested and bool(step > reach)
        reach += (n - 1) * step
    count = math.prod(n for _, n in modes)
    if nested or modes[0][0] == 0 or count > reach + 1:             # more elements than places
        return not nested
    if count > _LOOKED_AT:
        return False
    places = np.zeros(1, np.int64)
    for step, n in modes:
        places = np.add.outer(places, step * np.arange(n)).ravel()
    return bool(len(np.unique(places)) < count)


_LOOKED_AT = 100_000
"""Elements of an array whose modes are not nested that are looked at one by one; larger ones are taken as they are."""


def _overlap(x: Any, y: Any) -> bool:
    """Whether two arrays have an element in common, as far as NumPy finds out soon; nothing of them is touched."""
    steps: Any = 100_000                                # NumPy's stubs know but two numbers
    try:
        return np.shares_memory(_Memory(x).array(), _Memory(y).array(), max_work=steps)
    except np.exceptions.TooHardError:
        return False


class _Memory:
    """Addresses of an array, on whatever device, as NumPy takes them."""

    def __init__(self, info: Any) -> None:
        size = info.dtype.bytes
        self.__array_interface__ = {"version": 3, "shape": tuple(info.shape), "typestr": f"|V{size}",
                                    "strides": tuple(step * size for step in info.strides), "data": (info.ptr, False)}

    def array(self) -> Any:
        return np.asarray(self)
