"""From a memory reference to element indices: offset + static table, through the swizzle.

In: a ``Ref`` or ``TileRef``, its index space.  Out: ``Addresser``: called with the run-time offset (and the strides and
extents that are not static) it gives an index array (V, T or 1, B or 1), V counting elements, ``width`` per access.

    Addresser(ref, (4,), 2, None)(offset, (), ())
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from moye.ir.nodes import Extent, Literal, Ref, TileRef
from moye.layout import Swizzle
from moye.sim.values.memory import Array


def coordinates(extents: tuple[int, ...]) -> list[Array]:
    """The coordinate of every point in each dimension, the first dimension fastest."""
    count, tables, stride = int(np.prod(extents, dtype=np.int64)), [], 1
    points = np.arange(count, dtype=np.int64)
    for extent in extents:
        tables.append(points // stride % max(extent, 1))
        stride *= extent
    return tables


def static_table(extents: tuple[Extent, ...], strides: tuple[Extent, ...]) -> Array | None:
    """The offset of every point, if extents and strides are static."""
    known = tuple([extent for extent in extents if isinstance(extent, int)])
    steps = tuple([stride for stride in strides if isinstance(stride, int)])
    if len(known) < len(extents) or len(steps) < len(strides):
        return None
    return _table(known, steps)


@lru_cache(maxsize=512)
def _table(extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Kernels access most tiles, and above all single elements, many times: nobody writes to a table."""
    table = np.zeros(int(np.prod(extents, dtype=np.int64)), np.int64)
    for coordinate, stride in zip(coordinates(extents), strides, strict=True):
        table += coordinate * stride
    table.flags.writeable = False
    return table


def apply_swizzle(swizzle: Swizzle | None, index: Any) -> Any:
    """The swizzle of an array (or int) of element offsets."""
    if swizzle is None or not swizzle.bits:
        return index
    mask = ((1 << swizzle.bits) - 1) << (swizzle.base + max(swizzle.shift, 0))
    source = index & mask
    return index ^ (source >> swizzle.shift if swizzle.shift >= 0 else source << -swizzle.shift)


class Addresser:
    """The indices of one reference; ``order`` permutes the accesses."""

    __slots__ = ("extents", "order", "ref", "strides", "table", "tables", "width")

    def __init__(self, ref: Ref | TileRef, extents: tuple[Extent, ...], width: int, order: Array | None) -> None:
        self.ref = ref
        self.extents = extents
        self.strides = ref.strides if isinstance(ref, TileRef) else ()
        self.width = width
        self.order = order
        table = static_table(extents, self.strides)
        self.table = None if table is None else self._expand(table)
        self.tables: dict[object, Array] = {}

    def _expand(self, table: Array) -> Array:
        if self.order is not None:
            table = table[self.order]
        return (table[:, None] + np.arange(self.width)).reshape(-1)[:, None, None]

    def __call__(self, offset: Any, strides: tuple[Any, ...], extents: tuple[Any, ...]) -> Array:
        table = self.table if self.table is not None else self._dynamic(strides, extents)
        index: Array = table + offset
        return index if self.ref.swizzle is None else np.asarray(apply_swizzle(self.ref.swizzle, index))

    def beyond(self, offset: Any, strides: tuple[Any, ...], extents: tuple[Any, ...], low: int, high: int) -> Array:
        """Where an index is below ``low`` or above ``high``: only blocks in which one may be are looked at."""
        table = self.table if self.table is not None else self._dynamic(strides, extents)
        start: Array = np.atleast_2d(offset)
        if self.ref.swizzle is not None or not table.size or not start.size or table.shape[1:] != (1, 1):
            index = self(offset, strides, extents)
            return (index < low) | (index > high)
        first, last = start.min(axis=0) + table.min(), start.max(axis=0) + table.max()
        found: Array = (last < low) | (first > high)
        partly = np.flatnonzero(~found & ((first < low) | (last > high)))
        if partly.size:
            index = table + start[:, partly]
            found = np.broadcast_to(found, (len(table), *start.shape)).copy()
            found[:, :, partly] = (index < low) | (index > high)
        return found if found.ndim == 3 else found[None, None]

    def _dynamic(self, strides: tuple[Any, ...], extents: tuple[Any, ...]) -> Array:
        """The table for run-time strides and extents: kept where they are the same for all lanes."""
        plain = all(isinstance(s, int) for s in strides)
        key = (strides, extents)
        if plain and key in self.tables:
            return self.tables[key]
        given_strides, given_extents = iter(strides), iter(extents)
        all_strides = [s if isinstance(s, int) else next(given_strides) for s in self.strides]
        all_extents = tuple(e if isinstance(e, int) else next(given_extents) for e in self.extents)
        table: Array = np.zeros((max(int(np.prod(all_extents, dtype=np.int64)), 0), 1, 1), np.int64)
        for coordinate, stride in zip(coordinates(all_extents), all_strides, strict=True):
            table = table + coordinate[:, None, None] * stride
        if plain:
            self.tables[key] = self._expand(table[:, 0, 0])
            return self.tables[key]
        if self.order is not None:
            table = table[self.order]
        return np.repeat(table, self.width, axis=0) + np.tile(np.arange(self.width), len(table))[:, None, None]


def register_rows(ref: Ref | TileRef, extents: tuple[Extent, ...], width: int) -> Array:
    """The elements of a register fragment that a reference touches (register references are static)."""
    strides = ref.strides if isinstance(ref, TileRef) else ()
    table = static_table(extents, strides)
    if table is None and all(isinstance(stride, int) and stride == 0 for stride in strides):
        table = np.zeros(1, np.int64)                   # one access over and over, however often
    if table is None or not isinstance(ref.offset, Literal):
        raise TypeError(f"the register reference into {ref.buffer.name} is not static")
    lane = ref.lane if isinstance(ref, TileRef) else 1
    rows = (table[:, None] + (int(ref.offset.value) + lane * np.arange(width))).reshape(-1)
    return np.asarray(apply_swizzle(ref.swizzle, rows))


def as_slice(rows: Array) -> slice | None:
    """The rows as a slice, if they ascend by a constant step."""
    if not len(rows):
        return slice(0, 0)
    if len(rows) == 1:
        return slice(int(rows[0]), int(rows[0]) + 1, 1)
    step = int(rows[1] - rows[0])
    if step <= 0 or not np.array_equal(rows, rows[0] + step * np.arange(len(rows))):
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1, step)
