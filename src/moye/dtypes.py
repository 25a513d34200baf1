"""Element types and memory spaces: one record each, shared by front end, printer and simulator.

In: nothing.  Out: ``float32`` and its like; ``DType`` with bits, CUDA spelling and NumPy spelling.

>>> float32.bits, float32.cuda, float32.numpy
(32, 'float', 'float32')

bfloat16 and float8 name an ``ml_dtypes`` type; NumPy is not imported here.  Types narrower than a byte live in
registers only, packed into 32-bit words, lowest first: their NumPy name is that of an element taken out.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moye.errors import DTypeError


class Space(enum.Enum):
    """Where a tensor's elements live."""

    GLOBAL = "gmem"
    SHARED = "smem"
    CLUSTER = "dsmem"
    """Shared memory of any block of the cluster, seen from one of them (distributed shared memory)."""
    REGISTER = "rmem"


class Kind(enum.Enum):
    """Arithmetic family of a dtype; promotion goes down this list."""

    BOOL = 0
    UINT = 1
    INT = 2
    FLOAT = 3


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type: name, width in bits, family, and its spelling in CUDA C++ and NumPy.

    There is one object for each, which copies and pickles keep.  It is equal to NumPy's and torch's dtypes that stand
    for the same, and to its name, as NumPy's own are; they do not hash alike.

    ``cuda`` is the storage type in printed code (self-contained: no header is included).
    ``numpy`` is a NumPy or ml_dtypes type name.
    """

    name: str
    bits: int
    kind: Kind
    cuda: str
    numpy: str

    @property
    def bytes(self) -> int:
        """Size in bytes; DTypeError for types narrower than a byte."""
        if self.bits % 8:
            raise DTypeError(f"{self.name} is {self.bits} bits wide: it has no size in bytes")
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_signed(self) -> bool:
        return self.kind in (Kind.INT, Kind.FLOAT)

    def __call__(self, value: Any) -> Any:
        """``float32(x)`` in a kernel: a scalar (or register tensor) converted to this dtype."""
        if not conversions:
            raise DTypeError(f"{self.name}(...) converts the scalars of a kernel; there is none here")
        return conversions[0](value, self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        found = BY_NAME.get(other) if isinstance(other, str) else stands_for(other)
        return NotImplemented if found is None else self is found

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return from_name, (self.name,)

    def __repr__(self) -> str:
        return self.name


conversions: list[Callable[[Any, DType], Any]] = []
"""How kernels convert a scalar; set by the module that knows their scalars."""

bool_ = DType("bool", 8, Kind.BOOL, "bool", "bool")
int8 = DType("int8", 8, Kind.INT, "signed char", "int8")
uint8 = DType("uint8", 8, Kind.UINT, "unsigned char", "uint8")
int16 = DType("int16", 16, Kind.INT, "short", "int16")
uint16 = DType("uint16", 16, Kind.UINT, "unsigned short", "uint16")
int32 = DType("int32", 32, Kind.INT, "int", "int32")
uint32 = DType("uint32", 32, Kind.UINT, "unsigned", "uint32")
int64 = DType("int64", 64, Kind.INT, "long long", "int64")
uint64 = DType("uint64", 64, Kind.UINT, "unsigned long long", "uint64")
uint128 = DType("uint128", 128, Kind.UINT, "uint4", "V16")
float16 = DType("float16", 16, Kind.FLOAT, "f16", "float16")
bfloat16 = DType("bfloat16", 16, Kind.FLOAT, "bf16", "bfloat16")
tfloat32 = DType("tfloat32", 32, Kind.FLOAT, "float", "float32")
float32 = DType("float32", 32, Kind.FLOAT, "float", "float32")
float64 = DType("float64", 64, Kind.FLOAT, "double", "float64")
float8_e4m3fn = DType("float8_e4m3fn", 8, Kind.FLOAT, "e4m3", "float8_e4m3fn")
float8_e5m2 = DType("float8_e5m2", 8, Kind.FLOAT, "e5m2", "float8_e5m2")

ALL: tuple[DType, ...] = (
    bool_, int8, uint8, int16, uint16, int32, uint32, int64, uint64, uint128, float16, bfloat16, tfloat32, float32,
    float64, float8_e4m3fn, float8_e5m2,
)
"""What arrays hold."""

int4 = DType("int4", 4, Kind.INT, "signed char", "int8")
uint4 = DType("uint4", 4, Kind.UINT, "unsigned char", "uint8")
uint1 = DType("uint1", 1, Kind.UINT, "unsigned char", "uint8")
float4_e2m1fn = DType("float4_e2m1fn", 4, Kind.FLOAT, "unsigned char", "float4_e2m1fn")
float6_e2m3fn = DType("float6_e2m3fn", 6, Kind.FLOAT, "unsigned char", "float6_e2m3fn")
float6_e3m2fn = DType("float6_e3m2fn", 6, Kind.FLOAT, "unsigned char", "float6_e3m2fn")
SUB_BYTE: tuple[DType, ...] = (int4, uint4, uint1, float4_e2m1fn, float6_e2m3fn, float6_e3m2fn)
"""What 32-bit words hold several of: operands of tensor cores, and what ``mo.unpack`` takes."""

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in (*ALL, *SUB_BYTE)}


_DIGITS: dict[str, tuple[int, int, float]] = {
    "float32": (24, -149, (2 - 2.0**-23) * 2.0**127), "float16": (11, -24, 65504.0),
    "bfloat16": (8, -133, (2 - 2.0**-7) * 2.0**127), "tfloat32": (11, -136, (2 - 2.0**-10) * 2.0**127),
    "float8_e4m3fn": (4, -9, 448.0), "float8_e5m2": (3, -16, 57344.0),
}
"""Binary digits, the power of two of the smallest step, and the largest number of each float below float64."""


def rounded(value: float, dtype: DType) -> float:
    """The number as the float dtype holds it: to nearest, ties to even (tfloat32: away from zero, as cvt.rna does).

    What is too large becomes infinite; 8-bit floats saturate, infinities too.
    """
    if dtype.name not in _DIGITS or math.isnan(value) or value == 0:
        return value
    digits, least, largest = _DIGITS[dtype.name]
    beyond = largest if dtype.bits == 8 else math.inf
    if math.isinf(value):
        return math.copysign(beyond, value)
    unit = max(math.frexp(value)[1] - digits, least)
    steps = math.ldexp(abs(value), -unit)
    result = math.ldexp(math.floor(steps + 0.5) if dtype is tfloat32 else round(steps), unit)
    return math.copysign(beyond if result > largest else result, value)


_NANS = {"bfloat16": 0x7FC0, "float8_e4m3fn": 0x7F, "float8_e5m2": 0x7F}


def bits_of(value: float, dtype: DType) -> int:
    """The bits of a number rounded to bfloat16 or an 8-bit float, which the host passes to kernels as integers."""
    digits, least, _ = _DIGITS[dtype.name]
    sign = (1 << dtype.bits - 1) if math.copysign(1, value) < 0 else 0
    number = abs(rounded(value, dtype))
    if number == 0 or not math.isfinite(number):
        return sign | (0 if number == 0 else 0x7F80 if math.isinf(number) else _NANS[dtype.name])
    steps = max(math.frexp(number)[1] - digits - least, 0)     # of the exponent, above that of subnormal numbers
    return sign | ((steps << digits - 1) + int(math.ldexp(number, -least - steps)))


def from_name(name: str) -> DType:
    """The dtype of a NumPy, torch or moye type name such as ``"float32"`` or ``"torch.bfloat16"``."""
    dtype = BY_NAME.get(name.rpartition(".")[2])
    if dtype is None:
        raise DTypeError(f"{name!r} is not a dtype that moye knows; it knows {', '.join(BY_NAME)}")
    return dtype


def as_dtype(what: str, dtype: object) -> DType:
    """The dtype that an object of moye, NumPy or torch stands for, or a name; DTypeError for any other."""
    if isinstance(dtype, DType):
        return dtype
    module = getattr(dtype, "__module__", "") if isinstance(dtype, type) else type(dtype).__module__
    if isinstance(dtype, str) or str(module).partition(".")[0] in ("numpy", "ml_dtypes", "torch"):
        name = dtype.__name__ if isinstance(dtype, type) else str(dtype)
        found = BY_NAME.get(name.rpartition(".")[2].rstrip("_"))
        if found is not None:
            return found
    require_dtype(what, dtype)
    raise DTypeError(f"{what}: {dtype!r} is no dtype of moye")


def stands_for(value: object) -> DType | None:
    """The dtype that one of NumPy's or torch's, or a class of NumPy's numbers, stands for; None for anything else."""
    if not isinstance(value, type) and not type(value).__name__.lower().endswith("dtype"):
        return None
    try:
        return as_dtype("", value)
    except DTypeError:
        return None


def require_dtype(what: str, dtype: object) -> None:
    """DTypeError unless this is a dtype; its hint is the dtype of that name."""
    if not isinstance(dtype, DType):
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
        short = str(name).rpartition(".")[2]
        known = {"float": "float32", "int": "int32", "half": "float16", "double": "float64"}
        found = BY_NAME.get(known.get(short, short))
        raise DTypeError(f"{what}: {dtype!r} is no dtype of moye",
                         hint=f"use mo.{found}" if found else f"moye has {', '.join(BY_NAME)}")


def promote(a: DType, b: DType) -> DType:
    """The dtype of ``a + b``: the wider of the higher family.

    Mixed signs take the signed type where it is wider, else the unsigned one, as in C.  float16 with bfloat16 gives
    float32.
    """
    if a is b:
        return a
    if a.kind is b.kind:
        if a.bits == b.bits:
            return float32
        return a if a.bits > b.bits else b
    high, low = (a, b) if a.kind.value > b.kind.value else (b, a)
    if high.kind is Kind.INT and low.kind is Kind.UINT and low.bits >= high.bits:
        return low
    return high
