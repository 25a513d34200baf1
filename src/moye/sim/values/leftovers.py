"""Which statement wrote each element last, and which elements one has left as they were: tables for stale.py.

In: rows (V, T or 1, B or 1) of elements and lanes (None: all).  Out: ``of`` a table the entries of rows, broadcast
likewise; ``put`` writes one number there.  Rows outside of the table are clipped.

The blocks of a batch mostly write the same elements at the same time: a table of shared memory is one column until
they differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
KEPT = 8


class SharedTable:
    """A number per element and block; one for all blocks while they agree."""

    __slots__ = ("blocks", "data")

    def __init__(self, elements: int, blocks: int, dtype: type[np.generic]) -> None:
        self.data: Array = np.zeros((max(elements, 1), 1), dtype)
        self.blocks = blocks

    def reset(self) -> None:
        self.data = np.zeros((len(self.data), 1), self.data.dtype)

    def of(self, rows: Array) -> Array:
        if self.data.shape[1] == 1:
            return self.data[:, 0].take(rows, mode="clip")
        if rows.shape[-1] == 1:
            return self.data.take(rows[..., 0], axis=0, mode="clip")
        return self.data.reshape(-1).take(rows.clip(0, len(self.data) - 1) * self.blocks + np.arange(self.blocks))

    def put(self, rows: Array, lanes: Array | None, number: int, column: Array | None = None) -> None:
        """``column``: of other blocks (T or 1, B)."""
        if not rows.size:
            return
        rows = rows.clip(0, len(self.data) - 1)
        if column is None and rows.shape[-1] == 1 and (lanes is None or lanes.shape[-1] == 1):
            if lanes is not None:
                rows, lanes = np.broadcast_arrays(rows, lanes)
            self.data[rows[..., 0] if lanes is None else rows[lanes]] = number
            return
        self.split()
        parts = np.broadcast_arrays(rows, np.arange(self.blocks) if column is None else column,
                                    True if lanes is None else lanes)
        row, block = parts[:2] if lanes is None else (part[parts[2]] for part in parts[:2])
        self.data[row, block] = number

    def split(self) -> None:
        """A column for each block."""
        if self.data.shape[1] < self.blocks:
            self.data = np.repeat(self.data, self.blocks, axis=1)


class RegisterTable:
    """A number per element of a fragment and lane."""

    __slots__ = ("data",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.data: Array = np.zeros(shape, np.int16)

    def of(self, rows: Array) -> Array:
        return self.data.take(rows[:, 0, 0], axis=0, mode="clip")

    def put(self, rows: Array, lanes: Array | None, number: int) -> None:
        rows = rows[:, 0, 0].clip(0, len(self.data) - 1)
        if lanes is None:
            self.data[rows] = number
            return
        here = np.broadcast_to(lanes, (len(rows), *self.data.shape[1:]))
        place, thread, block = np.nonzero(here)
        self.data[rows[place], thread, block] = number


class Leftovers:
    """The elements of a shared allocation that a statement has left as they were: does anybody read one?

    What has not been read since it was written is of this pass: another lane or unrolled iteration has just done it.
    """

    __slots__ = ("blocks", "elements", "left", "noted", "read", "reads", "rows", "stamp")

    def __init__(self, elements: int, blocks: int) -> None:
        self.elements, self.blocks = elements, blocks
        self.left: SharedTable | None = None
        """The elements that are left."""
        self.noted: list[tuple[Array, Array]] = []
        """Elements that are left and not yet in that table: most are never asked for."""
        self.rows = np.zeros(elements, np.bool_)
        """Elements that some block may have left: most reads meet none of them, and look no further."""
        self.read = False
        self.reads = 0
        self.stamp = SharedTable(elements, blocks, np.int64)
        """The number of reads that there had been when each element was written."""

    def note(self, rows: Array, lanes: Array) -> None:
        """These elements are left, in some lane at least."""
        row, some = (rows[..., 0], lanes.any(axis=2)) if rows.shape[-1] == 1 else (rows, lanes)
        row, some = np.broadcast_arrays(row, some)
        self.rows[row[some]] = True
        self.noted.append((rows, lanes))
        if len(self.noted) > KEPT:
            self._table()

    def _table(self) -> SharedTable:
        """All that is left."""
        if self.left is None:
            self.left = SharedTable(self.elements, self.blocks, np.bool_)
        for rows, lanes in self.noted:
            self.left.put(rows, lanes, True)
        self.noted.clear()
        return self.left

    def reset(self) -> None:
        """The next blocks: nothing is left yet."""
        self.rows[...] = False
        self.left = None
        self.noted.clear()
        self.stamp.reset()

    def _some(self, rows: Array) -> bool:
        """Whether some block may have left one of these elements."""
        return (self.left is not None or bool(self.noted)) and bool(self.rows.take(rows, mode="clip").any())

    def clear(self, rows: Array, lanes: Array | None, column: Array | None = None) -> None:
        """These elements are written."""
        self.stamp.put(rows, lanes, self.reads, column)
        if self._some(rows):
            self._table().put(rows, lanes, False, column)
            if lanes is None and column is None and rows.shape[-1] == 1:        # in every block
                self.rows[rows.clip(0, self.elements - 1)] = False

    def used(self, rows: Array) -> Array:
        """Whether the allocation has been read since these elements were written."""
        after: Array = self.stamp.of(rows) < self.reads
        return after

    def look(self, index: Array | None = None, mask: Any = None) -> None:
        """The lanes of the mask read these elements (V, T or 1, B or 1), or some that are not known."""
        self.reads += 1
        if self.read or (self.left is None and not self.noted):
            return
        if index is None:
            self.read = True
        elif self._some(index):
            hit = self._table().of(index)
            self.read = bool((hit if mask is None else hit & np.asarray(mask)).any())
