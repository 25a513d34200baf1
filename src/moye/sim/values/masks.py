"""Sets of lanes, and values that differ between lanes: what generated code does under divergence.

A mask is None (every thread of every block), False (nobody) or a bool array of shape (T or 1, B or 1).  A value is a
Python or NumPy scalar where it is the same for all, else an array of shape (T or 1, B or 1).

>>> both(None, np.array([[True], [False]]))     # the lanes where the condition holds
array([[ True],
       [False]])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.sim.values.memory import Array

Mask = Array | None | bool


def both(mask: Mask, condition: Array) -> Mask:
    """The lanes of ``mask`` where the condition holds."""
    lanes = condition if mask is None else mask & condition
    if not lanes.any():
        return False
    return None if mask is None and lanes.all() else lanes


def inside(mask: Mask, index: Any, extent: Any) -> Mask:
    """The lanes of ``mask`` whose index is one of an extent: from 0 to ``extent - 1``."""
    return False if mask is False else both(mask, np.atleast_2d((index >= 0) & (index < extent)))


def minus(mask: Mask, other: Mask) -> Mask:
    """The lanes of ``mask`` that are not in ``other``."""
    if other is None or mask is False:
        return False
    if other is False:
        return mask
    lanes = ~np.asarray(other) if mask is None else mask & ~np.asarray(other)
    return lanes if lanes.any() else False


def union(a: Mask, b: Mask) -> Mask:
    if a is None or b is None:
        return None
    if a is False or b is False:
        return b if a is False else a
    return np.asarray(a | b)


def wide(value: Any, dtype: np.dtype[Any]) -> Array:
    """The value as an array that broadcasts against (T, B)."""
    return value if isinstance(value, np.ndarray) else np.full((1, 1), value, dtype)


def choose(mask: Mask, new: Any, old: Any, dtype: np.dtype[Any]) -> Array:
    """``new`` in the lanes of the mask, ``old`` elsewhere."""
    if mask is None:
        return wide(new, dtype)
    lanes = np.asarray(mask)
    shape = np.broadcast_shapes(lanes.shape, np.shape(new), np.shape(old))
    result = np.empty(shape, dtype)
    np.copyto(result, old, casting="unsafe")
    np.copyto(result, new, where=lanes, casting="unsafe")
    return result


def lanes_of(mask: Mask, threads: int, blocks: int) -> Array:
    """The mask as a full (T, B) array."""
    if mask is None:
        return np.ones((threads, blocks), np.bool_)
    return np.broadcast_to(np.asarray(mask), (threads, blocks))
