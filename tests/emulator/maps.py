"""Tensor maps of the emulator: 128 bytes with all that the driver is given; refused where the driver refuses.

In: the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.  Out: (error, map), as cuda.bindings answers.

Source: CUDA driver API, Tensor Map Object Management.  ``TensorMap`` of tensor_maps.hpp has the same fields.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

FORM, MADE = "<Q4Q5I5H3h3h2H5B7B2xI", 0x70617374
BYTES = {"UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2, "FLOAT32": 4,
         "FLOAT64": 8, "BFLOAT16": 2, "FLOAT32_FTZ": 4, "TFLOAT32": 4, "TFLOAT32_FTZ": 4}
SWIZZLES = {"NONE": 0, "32B": 1, "64B": 2, "128B": 3}
_INVALID = 1


class Encoded:
    """CUtensorMap."""

    def __init__(self, data: bytes) -> None:
        self._held = ctypes.create_string_buffer(data, 128)

    def getPtr(self) -> int:
        return ctypes.addressof(self._held)


def _name(value: str, prefix: str) -> str:
    return value.removeprefix(f"CU_TENSOR_MAP_{prefix}_")


def _padded(values: Sequence[int], count: int, filler: int) -> list[int]:
    return [*map(int, values), *[filler] * (count - len(values))]


def tiled(dtype: str, rank: int, address: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int],
          steps: Sequence[int], interleave: str, swizzle: str, promotion: str, fill: str) -> tuple[int, Any]:
    """A map of tiles; ``strides`` in bytes of all dimensions but the first."""
    size = BYTES[_name(dtype, "DATA_TYPE")]
    inner = box[0] * size
    width = {"NONE": 1 << 30, "32B": 32, "64B": 64, "128B": 128}[_name(swizzle, "SWIZZLE")]
    if not all(1 <= n <= 256 for n in box) or inner % 16 or inner > width or len(box) != rank:
        return _INVALID, None
    return _encoded((dtype, rank, address, sizes, strides, interleave, swizzle, fill), box, steps)


def im2col(dtype: str, rank: int, address: int, sizes: Sequence[int], strides: Sequence[int], lower: Sequence[int],
           upper: Sequence[int], channels: int, pixels: int, steps: Sequence[int], interleave: str, swizzle: str,
           promotion: str, fill: str) -> tuple[int, Any]:
    """A map of places of a filter: so many channels of so many pixels."""
    if rank < 3 or len(lower) != rank - 2 or not 1 <= channels <= 256 or not 1 <= pixels <= 1024:
        return _INVALID, None
    return _encoded((dtype, rank, address, sizes, strides, interleave, swizzle, fill), [channels, pixels], steps, lower,
                    upper)


def _encoded(shared: tuple[Any, ...], box: Sequence[int], steps: Sequence[int], lower: Sequence[int] = (),
             upper: Sequence[int] = ()) -> tuple[int, Any]:
    dtype, rank, address, sizes, strides, interleave, swizzle, fill = shared
    apart = strides[:rank - 1]
    if address % 16 or not 1 <= rank <= 5 or len(sizes) != rank or not all(1 <= n <= 1 << 32 for n in sizes) \
            or any(s % 16 or not 0 <= s < 1 << 40 for s in apart) or not all(1 <= n <= 8 for n in steps):
        return _INVALID, None
    kinds = list(BYTES)
    window = bool(lower)
    data = struct.pack(FORM, address, *_padded(apart, 4, 0), *(n - 1 for n in _padded(sizes, 5, 1)),
                       *_padded([] if window else box, 5, 0), *_padded(lower, 3, 0), *_padded(upper, 3, 0),
                       *(box if window else (0, 0)), *_padded(steps, 5, 0), kinds.index(_name(dtype, "DATA_TYPE")),
                       rank, ["NONE", "16B", "32B"].index(_name(interleave, "INTERLEAVE")),
                       SWIZZLES[_name(swizzle, "SWIZZLE")], 0, _name(fill, "FLOAT_OOB_FILL") != "NONE", window, MADE)
    return 0, Encoded(data)
