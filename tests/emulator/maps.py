"""Tensor maps of the emulator: what cuda.bindings is given, encoded by ``tensor_maps.hpp``, which refuses faults.

In: the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.  Out: (error, map), as cuda.bindings answers.

Source: CUDA driver API, Tensor Map Object Management.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from emulator import build

TYPES = ("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
         "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ")
SWIZZLES, PROMOTIONS = ("NONE", "32B", "64B", "128B"), ("NONE", "L2_64B", "L2_128B", "L2_256B")
INTERLEAVES, FILLS = ("NONE", "16B", "32B"), ("NONE", "NAN_REQUEST_ZERO_FMA")


class _Map(ctypes.Structure):
    """``EmuMap`` of bulk.cpp."""

    _fields_ = [("address", ctypes.c_uint64), ("sizes", ctypes.c_uint64 * 5), ("strides", ctypes.c_uint64 * 5),
                ("type", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("box", ctypes.c_uint32 * 5),
                ("steps", ctypes.c_uint32 * 5), *((name, ctypes.c_uint32) for name in
                                                  ("interleave", "swizzle", "promotion", "fill")),
                ("lower", ctypes.c_int32 * 5), ("upper", ctypes.c_int32 * 5)]


class Encoded:
    """CUtensorMap."""

    def __init__(self) -> None:
        self.data = ctypes.create_string_buffer(128)

    def getPtr(self) -> int:
        return ctypes.addressof(self.data)


def _number(value: str, names: Sequence[str], prefix: str) -> int:
    return names.index(value.removeprefix(f"CU_TENSOR_MAP_{prefix}_"))


def _encoded(function: str, dtype: str, rank: int, address: int, sizes: Sequence[int], strides: Sequence[int],
             steps: Sequence[int], kinds: Sequence[str], **more: Sequence[int]) -> tuple[int, Any]:
    interleave, swizzle, promotion, fill = kinds
    given = _Map(address=address, rank=rank, type=_number(dtype, TYPES, "DATA_TYPE"),
                 interleave=_number(interleave, INTERLEAVES, "INTERLEAVE"),
                 swizzle=_number(swizzle, SWIZZLES, "SWIZZLE"),
                 promotion=_number(promotion, PROMOTIONS, "L2_PROMOTION"), fill=_number(fill, FILLS, "FLOAT_OOB_FILL"))
    for name, values in {"sizes": sizes, "strides": strides[:rank - 1], "steps": steps, **more}.items():
        target = getattr(given, name)
        for i, value in enumerate(values):
            target[i] = value
    made, error = Encoded(), ctypes.create_string_buffer(512)
    refused = getattr(build.machine(), function)(ctypes.byref(given), made.data, error)
    return (1, None) if refused else (0, made)


def tiled(dtype: str, rank: int, address: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int],
          steps: Sequence[int], *kinds: str) -> tuple[int, Any]:
    """A map of tiles; ``strides`` in bytes of all dimensions but the first."""
    return _encoded("emu_encode_tiled", dtype, rank, address, sizes, strides, steps, kinds, box=box)


def im2col(dtype: str, rank: int, address: int, sizes: Sequence[int], strides: Sequence[int], lower: Sequence[int],
           upper: Sequence[int], channels: int, pixels: int, steps: Sequence[int], *kinds: str) -> tuple[int, Any]:
    """A map of places of a filter: so many channels of so many pixels."""
    return _encoded("emu_encode_im2col", dtype, rank, address, sizes, strides, steps, kinds, box=(channels, pixels),
                    lower=lower, upper=upper)
