"""What a tensor map says that is static: its box, its swizzle, the order of its modes.

In: nothing.  Out: ``TensorMap``, which tensor parameters carry that are read or written by TMA.

>>> TensorMap(float16, modes=(1, 0), box=(64, 128), swizzle=128)      # a row-major (M, K): boxes of 128 rows, 64 columns

Extents and strides of the tensor come at launch.  Source: CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorMap:
    """``modes[d]`` is the tensor's mode that dimension ``d`` of the map runs along, the one of unit stride first.

    ``box`` has the elements of a box per dimension; ``swizzle`` is 0, 32, 64 or 128 bytes.  ``promotion`` is the L2
    promotion in bytes (0, 64, 128, 256).  What lies outside the tensor reads as zero.
    """

    dtype: DType
    modes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    promotion: int = 128

    @property
    def bytes(self) -> int:
        """Bytes of one box."""
        elements = 1
        for extent in self.box:
            elements *= extent
        return elements * self.dtype.bits // 8
