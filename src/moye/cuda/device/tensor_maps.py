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


@functools.lru_cache(4096)
def encode(tensor_map: TensorMap, shape: tuple[int, ...], strides: tuple[int, ...], ordinal: int,
           pointer: int) -> bytes:
    """The map of an array; ``strides`` are in elements, in the order of its modes."""
    drv = driver._driver()
    itemsize = tensor_map.dtype.bits // 8
    along = tensor_map.dimensions(shape, strides)
    dims = [extent for extent, _ in along]
    apart = [_legal(stride * itemsize, extent) for extent, stride in along[1:]]
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    promotion = f"L2_{tensor_map.promotion}B" if tensor_map.promotion else "NONE"
    window = tensor_map.window
    array = (getattr(drv.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{TYPES[tensor_map.dtype]}"),
             len(dims), pointer, [drv.cuuint64_t(n) for n in dims], [drv.cuuint64_t(n) for n in apart or [_PART]])
    shared = (drv.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
              getattr(drv.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
              getattr(drv.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
              getattr(drv.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{_FILLS[tensor_map.outside]}"))
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
