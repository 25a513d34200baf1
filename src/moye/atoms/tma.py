"""TMA: the copies that exist, and the static part of a tensor map: its box, its swizzle, the order of modes.

In: nothing.  Out: ``TmaLoad``, ``TmaStore``, ``TmaReduce``, and ``TensorMap``, which tensor parameters carry.

>>> TensorMap(float16, modes=(1, 0), box=(64, 128), swizzle=128).bytes      # a row-major (M, K): 128 rows of 64
16384

Extents and strides of the tensor are known at launch.  Source: PTX ISA, cp.async.bulk.tensor and
cp.reduce.async.bulk.tensor; CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from typing import Literal as OneOf

from moye import dtypes as dt
from moye.atoms.bulk import REDUCED, require_reduction
from moye.dtypes import DType
from moye.errors import DTypeError


@dataclass(frozen=True, slots=True)
class TmaOp:
    """A copy of boxes between a tensor in global memory and shared memory; sm_90 and later have it."""

    kind: ClassVar[OneOf["load", "store", "reduce"]]

    def takes(self, dtype: DType) -> bool:
        """Whether the operation works on tensor maps of this dtype."""
        return dtype in TYPES

    def in_shared(self, dtype: DType) -> DType:
        """The dtype that elements of this dtype have in shared memory."""
        return dtype

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, slots=True)
class TmaLoad(TmaOp):
    """Global to shared memory; it completes on an mbarrier.  What lies outside the tensor reads as zero.

    With ``outside="nan"``, floats of 16, 32 and 64 bits outside of the tensor read as NaN
    (CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA).  With ``rounding=tfloat32``, float32 elements are rounded to
    tfloat32 on their way, ties to even (CU_TENSOR_MAP_DATA_TYPE_TFLOAT32).  What is missing in L2 comes there in parts
    of ``prefetch`` bytes, 0, 64, 128 or 256 (CUtensorMapL2promotion).
    """

    rounding: DType | None = None
    outside: OneOf["zero", "nan"] = "zero"
    prefetch: int = 128
    kind = "load"

    def __post_init__(self) -> None:
        if self.rounding is not None and self.rounding is not dt.tfloat32:
            raise DTypeError(f"TmaLoad(rounding={self.rounding!r}): TMA rounds to tfloat32 alone",
                             hint="rounding=mo.tfloat32, or None")
        if self.outside not in ("zero", "nan"):
            raise DTypeError(f'TmaLoad(outside={self.outside!r}): what lies outside reads as "zero" or "nan"')
        if self.prefetch not in (0, 64, 128, 256):
            raise DTypeError(f"TmaLoad(prefetch={self.prefetch!r}): a load prefetches 0, 64, 128 or 256 bytes")

    def takes(self, dtype: DType) -> bool:
        """Whether it works on this dtype: only float32, if it rounds."""
        if self.outside == "nan" and TYPES.get(dtype, "").startswith(("UINT", "INT")):
            return False
        return dtype in TYPES if self.rounding is None else dtype == dt.float32

    def in_shared(self, dtype: DType) -> DType:
        """The dtype that elements of this dtype have in shared memory."""
        return self.rounding or dtype

    def __str__(self) -> str:
        told = [] if self.rounding is None else [f"rounding={self.rounding}"]
        told += [] if self.outside == "zero" else ["outside=nan"]
        return f"TmaLoad({', '.join(told + ([] if self.prefetch == 128 else [f'prefetch={self.prefetch}']))})"


@dataclass(frozen=True, slots=True)
class TmaStore(TmaOp):
    """Shared to global memory; part of the thread's bulk group.  What lies outside the tensor is dropped."""

    kind = "store"


@dataclass(frozen=True, slots=True)
class TmaReduce(TmaOp):
    """Combines shared with global memory, one element at a time, atomically; part of the thread's bulk group.

    ``by`` is "add", "min", "max", "and", "or", "xor", "inc" (0 where the old value reaches the new one, else old + 1)
    or "dec" (the new value where the old one is 0 or larger, else old - 1).  Source: PTX ISA,
    cp.reduce.async.bulk.tensor.
    """

    by: str = "add"
    kind = "reduce"

    def __post_init__(self) -> None:
        require_reduction("TmaReduce", self.by)

    def takes(self, dtype: DType) -> bool:
        """Whether the operation works on this dtype; sums of float64 and int64 are for runs alone."""
        return dtype in REDUCED[self.by] and not (self.by == "add" and dtype in (dt.float64, dt.int64))

    def __str__(self) -> str:
        return "TmaReduceAdd()" if self.by == "add" else f'TmaReduce("{self.by}")'


def TmaReduceAdd() -> TmaReduce:
    """``TmaReduce("add")``: adds shared to global memory."""
    return TmaReduce("add")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """``modes[d]`` is the tensor's mode that dimension ``d`` of the map runs along; that of unit stride is first.

    Where it is a tuple, the dimension is these modes in one, the innermost first: each of them begins where the one
    before it ends.
    ``box`` has the elements of a box per dimension; ``swizzle`` is 0, 32, 64 or 128 bytes.  ``promotion`` is the L2
    promotion in bytes (0, 64, 128, 256).  What lies outside the tensor reads as zero, or as ``outside`` says.
    """

    dtype: DType
    modes: tuple[int | tuple[int, ...], ...]
    box: tuple[int, ...]
    swizzle: int = 0
    promotion: int = 128
    outside: OneOf["zero", "nan"] = field(default="zero", repr=False)

    @property
    def bytes(self) -> int:
        """Bytes of one box."""
        elements = 1
        for extent in self.box:
            elements *= extent
        return elements * self.dtype.bits // 8

    def dimensions(self, shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
        """The (extent, stride) of each dimension, in elements, of a tensor of this shape and these strides."""
        found = []
        for modes in self.modes:
            together = (modes,) if isinstance(modes, int) else modes
            first = next((mode for mode in together if shape[mode] != 1), together[0])
            found.append((math.prod(shape[mode] for mode in together), strides[first]))
        return found


TYPES = {
    dt.bool_: "UINT8", dt.int8: "UINT8", dt.uint8: "UINT8", dt.float8_e4m3fn: "UINT8", dt.float8_e5m2: "UINT8",
    dt.int16: "UINT16", dt.uint16: "UINT16", dt.int32: "INT32", dt.uint32: "UINT32", dt.int64: "INT64",
    dt.uint64: "UINT64", dt.float16: "FLOAT16", dt.bfloat16: "BFLOAT16", dt.float32: "FLOAT32",
    dt.tfloat32: "TFLOAT32", dt.float64: "FLOAT64",
}
"""CUtensorMapDataType of each dtype.  It moves every bit as it is, except for tfloat32, to which float32 is rounded."""
