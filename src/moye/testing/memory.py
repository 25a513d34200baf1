"""Arrays as another process sees them: a few pieces of memory and views of these; aliases and strides stay.

In: NumPy arrays by name.  Out: ``Packed``, whose ``plan`` is plain data and whose ``pieces`` are bytes; on the other
side a ``Room`` has arrays of the same shapes, strides and overlaps in memory of its own.

    packed = pack({"x": x, "out": x[::2]}); room = Room(packed.plan); room.arrays["out"]
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moye.errors import ArgumentError

Array = np.ndarray[Any, Any]
_ALIGN = 256
GUARD = 0xA5
"""What the bytes around and between the elements hold."""
_MARK = 0x3C


@dataclass(frozen=True, slots=True)
class Packed:
    """``plan`` is what JSON can hold; ``pieces`` are the bytes of each piece of memory."""

    plan: dict[str, Any]
    pieces: list[bytearray]

    def view(self, name: str, pieces: Sequence[bytes | bytearray] | None = None) -> Array:
        """An array of the plan in its own memory, or in other pieces."""
        spec = self.plan["arrays"][name]
        memory = np.frombuffer((self.pieces if pieces is None else pieces)[spec["piece"]], np.uint8)
        return _view(memory, spec)

    def mask(self, names: Sequence[str]) -> list[Array]:
        """For each piece, which of its bytes belong to elements of these arrays."""
        masks = [np.zeros(len(piece), np.bool_) for piece in self.pieces]
        for name in names:
            spec = self.plan["arrays"][name]
            size = dtype_of(spec["dtype"]).itemsize
            start = masks[spec["piece"]][spec["offset"]:]
            np.lib.stride_tricks.as_strided(start, (*spec["shape"], size), (*spec["strides"], 1))[...] = True
        return masks


def pack(arrays: Mapping[str, Array]) -> Packed:
    """The arrays, with those that overlap in one piece of memory.  Bytes between their elements become ``GUARD``."""
    spans = sorted((*byte_bounds(x), name) for name, x in arrays.items() if x.size)
    merged: list[list[int]] = []
    for low, high, _ in spans:
        if merged and low < merged[-1][1]:
            merged[-1][1] = max(high, merged[-1][1])
        else:
            merged.append([low, high])
    pieces = [bytearray([GUARD]) * (high - low + 2 * _ALIGN) for low, high in merged] or [bytearray(_ALIGN)]
    plan: dict[str, Any] = {"sizes": [len(piece) for piece in pieces], "arrays": {}}
    for name, x in arrays.items():
        if any(stride < 0 for stride in x.strides):
            raise ArgumentError(f"the array {name} has negative strides {x.strides}, which kernels do not follow")
        low = x.ctypes.data
        number = next((i for i, (first, end) in enumerate(merged) if first <= low < end), 0) if x.size else 0
        offset = _ALIGN + (low - merged[number][0] if x.size else 0)
        plan["arrays"][name] = {"piece": number, "offset": offset, "shape": list(x.shape), "strides": list(x.strides),
                                "dtype": x.dtype.name}
    packed = Packed(plan, pieces)
    for name, x in arrays.items():
        packed.view(name)[...] = x
    return packed


def byte_bounds(x: Array) -> tuple[int, int]:
    """The first address of an array, and the one behind its last byte."""
    reach = sum((n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True))
    return x.ctypes.data, x.ctypes.data + (reach + x.itemsize if x.size else 0)


class Room:
    """Memory for a plan and its arrays: zero at first, and ``outputs`` something else."""

    def __init__(self, plan: Mapping[str, Any], outputs: Sequence[str] = ()) -> None:
        self.pieces = [_aligned(size) for size in plan["sizes"]]
        self.arrays = {name: _view(self.pieces[spec["piece"]], spec) for name, spec in plan["arrays"].items()}
        for name in outputs:
            x = self.arrays[name]
            x[...] = np.full(x.itemsize, _MARK if x.dtype.kind != "b" else 1, np.uint8).view(x.dtype)[0]
        self._before = self.contents()

    def touched(self) -> bool:
        """Whether somebody wrote there before the data came."""
        return self.contents() != self._before

    def fill(self, pieces: Sequence[bytes]) -> None:
        for mine, given in zip(self.pieces, pieces, strict=True):
            ctypes.memmove(mine.ctypes.data, given, len(given))

    def contents(self) -> list[bytes]:
        return [piece.tobytes() for piece in self.pieces]


def _aligned(size: int) -> Array:
    memory = np.zeros(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start:start + size]


def _view(memory: Array, spec: Mapping[str, Any]) -> Array:
    dtype = dtype_of(spec["dtype"])
    shape, strides, offset = tuple(spec["shape"]), tuple(spec["strides"]), spec["offset"]
    return np.ndarray(shape, dtype, memory.data, offset, strides)


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype of this name, or that of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
