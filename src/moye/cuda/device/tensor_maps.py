"""Tensor maps as the driver encodes them: 128 bytes that a kernel takes by value.

In: the static part of a map, and pointer, extents and strides of an array.  Out: bytes; DriverError where it refuses.

    len(encode(tensor_map, (4096, 4096), (4096, 1), 0, pointer))        # on device 0
    # 128

Encoded maps are kept: the driver is asked once for the same array.  Source: CUDA driver API, cuTensorMapEncodeTiled,
cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import ctypes
import functools

from moye.atoms.tma import TYPES, TensorMap
from moye.cuda.device import driver

_BYTES, _PART = 128, 16
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}

NUMBERS = {
    **{f"DATA_TYPE_{name}": number for number, name in enumerate(
        ("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
         "FLOAT32_FTZ", "TFLOAT32"))},
    **{f"SWIZZLE_{name}": number for number, name in enumerate(("NONE", "32B", "64B", "128B"))},
    **{f"L2_PROMOTION_{name}": number for number, name in enumerate(("NONE", "L2_64B", "L2_128B", "L2_256B"))},
    "FLOAT_OOB_FILL_NONE": 0, "FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA": 1,
}
"""The numbers of CUtensorMapDataType and its kin, for programs without CUDA's headers."""


def settings(tensor_map: TensorMap) -> tuple[str, str, str, str]:
    """The type, swizzle, L2 promotion and fill of a map, as the driver's names without CU_TENSOR_MAP_."""
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    promotion = f"L2_{tensor_map.promotion}B" if tensor_map.promotion else "NONE"
    return (f"DATA_TYPE_{TYPES[tensor_map.dtype]}", f"SWIZZLE_{swizzle}", f"L2_PROMOTION_{promotion}",
            f"FLOAT_OOB_FILL_{_FILLS[tensor_map.outside]}")


@functools.lru_cache(4096)
def encode(tensor_map: TensorMap, shape: tuple[int, ...], strides: tuple[int, ...], ordinal: int,
           pointer: int) -> bytes:
    """The map of an array; ``strides`` are in elements, in the order of its modes."""
    drv = driver._driver()
    itemsize = tensor_map.dtype.bits // 8
    along = tensor_map.dimensions(shape, strides)
    dims = [extent for extent, _ in along]
    apart = [_legal(stride * itemsize, extent) for extent, stride in along[1:]]
    kind, swizzle, promotion, fill = settings(tensor_map)
    window = tensor_map.window
    array = (getattr(drv.CUtensorMapDataType, f"CU_TENSOR_MAP_{kind}"), len(dims), pointer,
             [drv.cuuint64_t(n) for n in dims], [drv.cuuint64_t(n) for n in apart or [_PART]])
    shared = (drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
              getattr(drv.CUtensorMapSwizzle, f"CU_TENSOR_MAP_{swizzle}"),
              getattr(drv.CUtensorMapL2promotion, f"CU_TENSOR_MAP_{promotion}"),
              getattr(drv.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_{fill}"))
    with driver.current_device(ordinal):
        if window is None:
            result = drv.cuTensorMapEncodeTiled(*array, [drv.cuuint32_t(n) for n in tensor_map.box],
                                                [drv.cuuint32_t(1) for _ in dims], *shared)
        else:
            steps = [drv.cuuint32_t(n) for n in (1, *window.strides, 1)]
            result = drv.cuTensorMapEncodeIm2col(*array, list(window.lower), list(window.upper), *tensor_map.box, steps,
                                                 *shared)
    over = "" if window is None else f" of pixels {window.lower} to {window.upper} by {window.strides}"
    found = driver._check(result, f"a tensor map of {tensor_map.dtype} extents {dims}, strides of {apart} bytes, boxes "
                                  f"{tensor_map.box}{over}, swizzle {tensor_map.swizzle}, at {pointer:#x}")
    return ctypes.string_at(int(found.getPtr()), _BYTES)


def _legal(stride: int, extent: int) -> int:
    """A stride in bytes; the driver checks that of a mode of extent 1 too, although nobody steps along it."""
    return stride if extent > 1 else max(_PART, -(-stride // _PART) * _PART)
