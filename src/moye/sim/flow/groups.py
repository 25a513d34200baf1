"""A group of lanes at one program point, with the values that it needs there.

In: nothing.  Out: ``Group`` and ``merge_values``, which makes one list of values of two.

The values of a group belong to it alone; groups of one batch share registers and memory, each owns its lanes of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from moye.sim.flow.uniformity import SCALAR
from moye.sim.values.masks import Mask, choose


class Group:
    """Lanes (``mask``) that continue at segment ``pc`` with values ``env``."""

    __slots__ = ("env", "mask", "pc")

    def __init__(self, pc: int, env: list[Any], mask: Mask) -> None:
        self.pc, self.env, self.mask = pc, env, mask


class Slot:
    """A name that is live across segments: its place, how varied it is, and its NumPy dtype."""

    __slots__ = ("dtype", "index", "level")

    def __init__(self, index: int, level: int, dtype: np.dtype[Any]) -> None:
        self.index, self.level, self.dtype = index, level, dtype


def merge_values(slots: Iterable[Slot], a: list[Any], b: list[Any], b_lanes: Mask) -> list[Any] | None:
    """The values of two groups as one (``b`` in its lanes), or None where a value cannot be both."""
    lanes = np.asarray(b_lanes)
    merged = list(a)
    for slot in slots:
        x, y = a[slot.index], b[slot.index]
        if x is y:
            continue
        if slot.level == SCALAR:
            if not _equal(x, y):
                return None
            continue
        if not _equal(x, y):
            merged[slot.index] = choose(lanes, y, x, slot.dtype)
    return merged


def same_values(a: list[Any], b: list[Any] | None) -> bool:
    """Whether two groups at one point carry the same."""
    return b is not None and all(x is y or _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    """Whether two values are the same for all lanes; 0.0 and -0.0 are not."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.array_equal(x, y) and (_whole(x) or np.array_equal(np.signbit(x), np.signbit(y)))
    return bool(x == y and (_whole(x) or np.signbit(x) == np.signbit(y))) or (x != x and y != y)


def _whole(x: Any) -> bool:
    """Whether a value has no zeros with signs."""
    return np.asarray(x).dtype.kind in "biuO" if isinstance(x, (np.ndarray, np.generic)) else not isinstance(x, float)
