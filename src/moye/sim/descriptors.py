"""Where the elements of a wgmma operand lie in shared memory, from its matrix descriptor.

In: rows, k, bytes of an element, major-ness, (leading byte offset, stride byte offset, bytes of the swizzle).  Out: the
byte offset of each element from the start address, before the swizzle of the whole address.

>>> int(operand_bytes(64, 16, 2, "k", (16, 1024, 128))[9, 3])
1158

Tiles are made of core matrices: 8 rows of 16 bytes.  Source: PTX ISA, asynchronous warpgroup level matrix shared
memory layout; CuTe's canonical layouts of descriptors.
"""

from __future__ import annotations

import numpy as np

from moye.sim.memory import Array

_CHUNK, _ROWS = 16, 8


def operand_bytes(rows: int, k: int, itemsize: int, major: str, descriptor: tuple[int, int, int]) -> Array:
    """(rows, k) -> byte offset."""
    leading, stride, span = descriptor
    row, column = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)
    if major == "k":
        return _tiled(column * itemsize, row, span or _CHUNK, leading, stride, bool(span))
    if not span:                                        # the two offsets change their roles
        return _tiled(row * itemsize, column, _CHUNK, stride, leading, False)
    return _tiled(row * itemsize, column, span, leading, stride, False)


def _tiled(along: Array, across: Array, span: int, beyond: int, group: int, single: bool) -> Array:
    """Contiguous ``span`` bytes along the major mode, 8 of them across, then ``group`` bytes to the next 8.

    ``beyond`` is the distance of the next span along the major mode; a swizzled operand that is k-major has one only.
    """
    step = 0 if single else along // span * beyond
    inner = along if single else along % span
    return np.asarray(inner + step + across % _ROWS * span + across // _ROWS * group)
