"""TMA: the copies that exist, and the static part of a tensor map: its box, its swizzle, the order of modes.

In: nothing.  Out: ``TmaLoad``, ``TmaLoadIm2col``, ``TmaGather4``, ``TmaStore``, ``TmaScatter4``, ``TmaReduce``, and
``TensorMap``, which tensor parameters carry.

>>> TensorMap(float16, modes=(1, 0), box=(64, 128), swizzle=128).bytes      # a row-major (M, K): 128 rows of 64
16384

Extents and strides of the tensor are known at launch.  Source: PTX ISA, cp.async.bulk.tensor and
cp.reduce.async.bulk.tensor; CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
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
        told += [] if self.prefetch == 128 else [f"prefetch={self.prefetch}"]
        return f"{type(self).__name__}({', '.join(told)})"


@dataclass(frozen=True, slots=True)
class Window:
    """How a map in im2col mode goes over pixels; the dimensions are in its order, the fastest first.

    The first pixels of the filter are those from ``lower`` to the extent plus ``upper``, ``strides`` apart.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    strides: tuple[int, ...]


_CORNERS = {1: (1 << 15, 1 << 16), 2: (1 << 7, 1 << 8), 3: (1 << 4, 1 << 5)}
"""By the modes of pixels: corners are at least minus the first and below it, and offsets are below the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TmaLoadIm2col(TmaLoad):
    """Global to shared memory: for each place of a filter the pixels of images that lie under it, as rows of a matrix.

    The array is (images, pixels along 1 to 3 modes, channels), contiguous along channels.  The copy's coordinates are
    (outputs, channels, places of the filter): output ``(n P + p) Q + q`` at place ``r S + s`` is the pixel
    ``(n, p stride + r dilation - padding, q stride + s dilation - padding)``, and zero where there is none.  Each of
    the numbers is for all modes of pixels, or there is one for each.  Source: PTX ISA, Tensors, im2col mode.
    """

    filter: tuple[int, ...]
    padding: int | tuple[int, ...] = 0
    stride: int | tuple[int, ...] = 1
    dilation: int | tuple[int, ...] = 1

    def __post_init__(self) -> None:
        TmaLoad.__post_init__(self)
        if not (isinstance(self.filter, tuple) and 1 <= len(self.filter) <= 3):
            raise DTypeError(f"TmaLoadIm2col(filter={self.filter!r}): a filter has 1 to 3 extents, such as (3, 3)")
        for name, least, most in (("filter", 1, 1 << 16), ("padding", 0, 1 << 15), ("stride", 1, 8),
                                  ("dilation", 1, 1 << 16)):
            given = getattr(self, name)
            each = given if isinstance(given, tuple) else (given,) * len(self.filter)
            if len(each) != len(self.filter) or not all(isinstance(x, int) and least <= x <= most for x in each):
                raise DTypeError(f"TmaLoadIm2col({name}={given!r}): one integer of {least} to {most} for each of "
                                 f"{len(self.filter)} modes of pixels")
            object.__setattr__(self, name, each)
        corner, offset = _CORNERS[len(self.filter)]
        lower, upper = self._corners()
        if min(lower + upper) < -corner or max(lower + upper) >= corner or max(self.reach) >= offset:
            raise DTypeError(f"{self}: with {len(self.filter)} modes of pixels TMA takes corners of {-corner} to "
                             f"{corner - 1} and filters that reach {offset - 1} pixels; here the corners are {lower} "
                             f"and {upper}, and it reaches {self.reach}")

    @property
    def reach(self) -> tuple[int, ...]:
        """How far the last place of the filter is from the first, along each mode of pixels."""
        return tuple((n - 1) * apart for n, apart in zip(self.filter, self._each("dilation"), strict=True))

    def _each(self, name: str) -> tuple[int, ...]:
        found = getattr(self, name)
        assert isinstance(found, tuple), "made so when it was made"
        return found

    def _corners(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        padding = self._each("padding")
        return tuple(-n for n in padding), tuple(n - far for n, far in zip(padding, self.reach, strict=True))

    @property
    def window(self) -> Window:
        """The corners and strides of the map."""
        lower, upper = self._corners()
        return Window(lower[::-1], upper[::-1], self._each("stride")[::-1])

    def outputs(self, extents: Sequence[Any]) -> tuple[Any, ...]:
        """How many places the filter has along modes of pixels of these extents, which may be traced."""
        lower, upper = self._corners()
        return tuple((n + (last - first + stride - 1)) // stride for n, first, last, stride in zip(
            extents, lower, upper, self._each("stride"), strict=True))

    def __str__(self) -> str:
        told = [f"{name}={shown}" for name, unusual in (("padding", 0), ("stride", 1), ("dilation", 1))
                if (shown := getattr(self, name)) not in (unusual, (unusual,) * len(self.filter))]
        return f"TmaLoadIm2col({', '.join([f'filter={self.filter}', *told])})"


@dataclass(frozen=True, slots=True)
class TmaStore(TmaOp):
    """Shared to global memory; part of the thread's bulk group.  What lies outside the tensor is dropped."""

    kind = "store"


@dataclass(frozen=True, slots=True)
class TmaGather4(TmaLoad):
    """Global to shared memory: rows of a matrix at any indices, four with each instruction; sm_100 and later have it.

    It completes on an mbarrier.  A row that the matrix does not have, and what lies beyond the end of rows, reads as
    zero.  Source: PTX ISA, cp.async.bulk.tensor, .tile::gather4; Tensors, tiled::gather4 mode.
    """


@dataclass(frozen=True, slots=True)
class TmaScatter4(TmaStore):
    """Shared to global memory: rows of a matrix at any indices, four with each instruction; of sm_100a and its kin.

    It is part of the thread's bulk group.  Rows beyond the last are dropped, and so is what lies beyond the end of
    rows.  Source: PTX ISA, cp.async.bulk.tensor, .tile::scatter4.
    """


GATHERED = TmaGather4, TmaScatter4
"""Copies of rows at any indices."""
ROWS = 4
"""The rows of one instruction of these."""


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
    window: Window | None = field(default=None, repr=False)
    """In im2col mode; a box is then so many channels of so many pixels."""

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
