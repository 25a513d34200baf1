"""What the scalar operations compute: one table row per kind, for scalars and for arrays.

In: the kind and dtype of an op.  Out: NumPy functions (arrays) or Python functions (integers and bools that are the
same for every lane).  Integers wrap; floor division and modulo floor; floats compute in their own dtype.

>>> BINARY["floordiv"](np.int32([-7]), 2)
array([-4], dtype=int32)

``generate/scalars.py`` writes the common ones inline; nothing here knows masks, memory or control flow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from moye.dtypes import DType, Kind, rounded
from moye.errors import UnsupportedError
from moye.ir.constants import limits, of_nan
from moye.sim.values import special_functions as special
from moye.sim.values.memory import Array, numpy_dtype

Function = Callable[..., Any]


def wrap(number: int, bits: int, signed: bool) -> int:
    """The integer as ``bits`` bits hold it."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if signed and number >> (bits - 1) else number


# --- integers that are the same for every lane: Python ints -----------------------------------------------------------

PYTHON: dict[str, Function] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else -1, "mod": lambda a, b: a % b if b else a,  # by zero: all bits, a
    "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "land": lambda a, b: bool(a and b), "lor": lambda a, b: bool(a or b),
    "shl": lambda a, b: a << min(b, 256) if b >= 0 else 0,      # counts are unsigned and clamped, as in PTX
    "shr": lambda a, b: a >> (b if 0 <= b < 64 else 64),
}


# --- arrays ----------------------------------------------------------------------------------------------------------


def _shift_left(a: Array, b: Any) -> Array:
    bits = a.dtype.itemsize * 8
    count = np.asarray(b)
    shifted: Array = np.left_shift(a, np.clip(count, 0, bits - 1).astype(a.dtype))
    return np.where((count >= 0) & (count < bits), shifted, a.dtype.type(0))


def _shift_right(a: Array, b: Any) -> Array:
    bits = a.dtype.itemsize * 8
    count = np.asarray(b)
    inside = (count >= 0) & (count < bits)
    shifted: Array = np.right_shift(a, np.where(inside, count, bits - 1).astype(a.dtype))
    return np.where(inside, shifted, a.dtype.type(0)) if a.dtype.kind == "u" else shifted


def _floor_divide(a: Any, b: Any, dtype: Any = None) -> Array:
    """All bits set where the divisor is zero."""
    quotient: Array = np.floor_divide(a, b, dtype=dtype)
    ones = quotient.dtype.type(-1) if quotient.dtype.kind == "i" else ~quotient.dtype.type(0)
    return np.where(np.equal(b, 0), ones, quotient)


def _modulo(a: Any, b: Any) -> Array:
    """The dividend where the divisor is zero."""
    rest: Array = np.mod(a, b)
    return np.where(np.equal(b, 0), a, rest).astype(rest.dtype, copy=False)


def _through_double(function: Function) -> Function:
    def apply(a: Any) -> Any:
        wide = np.asarray(a).astype(np.float64)
        return np.asarray(function(wide)).astype(np.float64).astype(np.asarray(a).dtype)[()]
    return apply


def _pair_through_double(function: Function) -> Function:
    def apply(a: Any, b: Any) -> Any:
        own = np.asarray(a).dtype if isinstance(a, (np.ndarray, np.generic)) else np.asarray(b).dtype
        return np.asarray(function(np.asarray(a, np.float64), np.asarray(b, np.float64))).astype(own)[()]
    return apply


def _power(a: Any, b: Any) -> Any:
    """C's pow; NumPy's takes the square root for an exponent of 0.5, which -inf and -0.0 show."""
    found = np.power(a, b)
    if not np.any(np.equal(b, 0.5)):
        return found
    return np.where(np.equal(b, 0.5) & (np.isinf(a) | np.equal(a, 0)), np.abs(a), found)[()]


BINARY: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": _floor_divide,
    "mod": _modulo, "min": np.minimum, "max": np.maximum, "shl": _shift_left, "shr": _shift_right,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "pow": _power,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "land": np.logical_and, "lor": np.logical_or, "mul_hi": special.mul_hi,
    "atan2": _pair_through_double(np.arctan2), "hypot": _pair_through_double(np.hypot), "fmod": np.fmod,
    "remainder": _pair_through_double(special.remainder), "copysign": np.copysign, "nextafter": np.nextafter,
    "ldexp": special.ldexp,
}


def least(a: Any, b: Any) -> Any:
    """The minimum as PTX has it: a NaN loses against a number, and -0.0 is below 0.0."""
    return _with_signs(np.fmin(a, b), a, b, lambda x, y: -(-x - y))


def most(a: Any, b: Any) -> Any:
    """The maximum as PTX has it: a NaN loses against a number, and 0.0 is above -0.0."""
    return _with_signs(np.fmax(a, b), a, b, lambda x, y: x + y)


def _with_signs(found: Any, a: Any, b: Any, of_zeros: Function) -> Any:
    """NumPy takes two zeros for equal, and either of them: only those are looked at again."""
    if not np.any(found == 0):
        return found
    return np.where((a == 0) & (b == 0), of_zeros(a, b), found)[()]


# // and % are Python's, inf // 1 is NaN.
FLOAT_BINARY: dict[str, Function] = {**BINARY, "min": least, "max": most, "floordiv": np.floor_divide, "mod": np.mod}
NONZERO: dict[str, Function] = {"floordiv": np.floor_divide, "mod": np.mod}
"""The faster functions where the divisor is known not to be zero."""

def _popcount(a: Any) -> Any:
    unsigned = np.asarray(a)
    unsigned = unsigned.view(f"u{unsigned.dtype.itemsize}")
    octets = unsigned.reshape(*unsigned.shape, 1).copy().view(np.uint8)
    return np.unpackbits(octets, axis=-1).sum(axis=-1).astype(np.int32)


def _clz(a: Any) -> Any:
    array = np.asarray(a)
    bits = array.dtype.itemsize * 8
    unsigned = array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
    high, low = (unsigned >> np.uint64(32)).astype(np.float64), (unsigned & np.uint64(0xFFFFFFFF)).astype(np.float64)
    length = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    return (bits - length).astype(np.int32)


UNARY: dict[str, Function] = {
    "neg": np.negative, "not": np.logical_not, "invert": np.invert, "popcount": _popcount, "clz": _clz,
    "isnan": np.isnan, "isinf": np.isinf,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
    "rsqrt": _through_double(lambda a: 1.0 / np.sqrt(a)), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "erf": _through_double(special.erf), "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "abs": np.abs, "sigmoid": _through_double(lambda a: 1.0 / (1.0 + np.exp(-a))),
    "rcp": _through_double(lambda a: 1.0 / a),
    "ffs": special.ffs, "brev": special.brev,
    **{kind: _through_double(function) for kind, function in special.SLOW_MATH.items()},
}


# --- the hardware's approximations: rounded correctly here, subnormal numbers flushed where the hardware does --------

_LEAST_NORMAL = np.float32(2.0 ** -126)


def _flushed(a: Any) -> Any:
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(a) < _LEAST_NORMAL, np.copysign(a.dtype.type(0), a), a)


def _approximation(function: Function) -> Function:
    """An ``.approx.ftz.f32`` instruction."""
    exact = _through_double(function)
    return lambda a: _flushed(np.asarray(exact(_flushed(np.asarray(a)))))[()]


_EX2, _LG2, _RCP = _approximation(np.exp2), _approximation(np.log2), _approximation(lambda a: 1.0 / a)
_SIN, _COS = _approximation(np.sin), _approximation(np.cos)


FAST: dict[str, Function] = {
    "exp2": _EX2, "log2": _LG2, "rcp": _RCP, "sin": _SIN, "cos": _COS, "sqrt": _approximation(np.sqrt),
    "rsqrt": _approximation(lambda a: 1.0 / np.sqrt(a)), "tanh": _through_double(np.tanh),
    "tan": lambda a: _SIN(a) * _RCP(_COS(a)),
    "exp": lambda a: _EX2(a * np.float32(1 / math.log(2))), "log": lambda a: _LG2(a) * np.float32(math.log(2)),
    "log10": lambda a: _LG2(a) * np.float32(math.log10(2)),
    "sigmoid": lambda a: _RCP(np.float32(1) + _EX2(a * np.float32(-1 / math.log(2)))),
}


def _narrow_fast(kind: str, dtype: DType) -> Function:
    """ex2 and tanh of 16-bit floats: ``ex2.approx.ftz.bf16`` flushes, the others do not."""
    function = np.exp2 if kind == "exp2" else np.tanh

    def apply(a: Any) -> Any:
        wide = np.asarray(a).astype(np.float32)
        flush = dtype.name == "bfloat16" and kind == "exp2"
        exact = function((_flushed(wide) if flush else wide).astype(np.float64))
        narrow = _narrowed(exact, dtype)
        if flush:
            narrow = _flushed(narrow.astype(np.float32)).astype(narrow.dtype)
        return narrow[()]
    return apply


def binary(kind: str, dtype: DType) -> Function:
    """The array function of a binary kind on operands of ``dtype``."""
    table = FLOAT_BINARY if dtype.is_float else BINARY
    if kind not in table:
        raise UnsupportedError(f"the simulator does not know the binary operation {kind!r}")
    return table[kind]


def unary(kind: str, dtype: DType, *, fast: bool = False) -> Function:
    """The array function of a unary kind; ``fast`` is the approximation where the hardware has one."""
    if fast and dtype.bits == 16 and kind in ("exp2", "tanh"):
        return _narrow_fast(kind, dtype)
    if fast and dtype.name == "float32" and kind in FAST:
        return FAST[kind]
    if kind not in UNARY:
        raise UnsupportedError(f"the simulator does not know the unary operation {kind!r}")
    return UNARY[kind]


# --- conversions -----------------------------------------------------------------------------------------------------


def to_scalar(value: Any, dtype: DType) -> Any:
    """The form that a value has where it is the same for all lanes: int, bool, or a NumPy float."""
    if dtype.is_float:
        return numpy_dtype(dtype).type(value)
    return bool(value) if dtype.kind is Kind.BOOL else int(value)


def constant(value: float, dtype: DType) -> Any:
    """A literal of a float dtype, rounded as a conversion to it would."""
    number = np.array(rounded(value, dtype), np.float64)
    with np.errstate(all="ignore"):
        return (_narrowed(number, dtype) if dtype.bits < 32 else number.astype(numpy_dtype(dtype)))[()]


def round_to_tf32(a: Array) -> Array:
    """Round to nearest at 10 bits of mantissa, ties away from zero, as cvt.rna does; a NaN keeps its upper bits."""
    bits = np.array(a, np.float32).view(np.uint32)
    half = np.isfinite(a) * np.uint32(0x1000)
    return np.asarray((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest_tf32(a: Array) -> Array:
    """Round to nearest at 10 bits of mantissa, ties to even, as TMA loads do (seen on an H200); NaNs stay NaNs."""
    bits = np.array(a, np.float32).view(np.uint32)
    half = np.isfinite(a) * (np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)))
    return np.asarray((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)


def round_to_odd(a: Array) -> Array:
    """The values as float32 with a sticky last bit: rounding them further is like rounding ``a`` itself."""
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        negative = a < 0
        size = np.where(negative, -a, a).astype(np.uint64)
        low = size & np.uint64(0x7FF)                   # (2^53 and above lose these bits in float64)
        large = size >= np.uint64(1 << 53)
        size = np.where(large, size - low | (low != 0) * np.uint64(0x800), size)
        a = np.where(negative, -1.0, 1.0) * size.astype(np.float64)
    exact = a.astype(np.float64)
    near = exact.astype(np.float32)
    bits = near.view(np.uint32) - (np.abs(near) > np.abs(exact))
    bits |= (near != exact) & ~np.isnan(exact)
    return bits.astype(np.uint32, copy=False).view(np.float32)


_FINITE = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_NAN: dict[int, Any] = {8: np.uint8(0x7F), 16: np.uint16(0x7FFF)}   # whatever NaN it was


def _narrowed(a: Array, target: DType) -> Array:
    """Rounded once to tfloat32 or a float of 8 or 16 bits; 8-bit floats saturate, infinities too."""
    single = a.astype(np.float32) if a.dtype.itemsize <= (4 if a.dtype.kind not in "iu" else 2) else round_to_odd(a)
    if target.name == "tfloat32":
        return round_to_tf32(single)
    largest = _FINITE.get(target.name, np.inf)
    narrow = np.asarray(np.clip(single, -largest, largest)).astype(numpy_dtype(target))
    nan = _NAN[target.bits]
    bits: Array = np.where(np.isnan(single), nan, narrow.view(nan.dtype))
    return bits.view(narrow.dtype)


def cast(a: Any, source: DType, target: DType) -> Any:
    """Value conversion, as ``ops.Cast`` documents it."""
    scalar = not isinstance(a, np.ndarray)
    array = np.asarray(a, numpy_dtype(source))
    result = _cast_array(array, source, target)
    return to_scalar(result[()], target) if scalar else result


def _cast_array(a: Array, source: DType, target: DType) -> Array:
    wanted = numpy_dtype(target)
    if target.kind is Kind.BOOL:
        return np.not_equal(a, 0)
    if target.is_float and (target.bits < 32 or target.name == "tfloat32"):
        return _narrowed(a, target)
    if source.is_float and target.is_integer:
        low, high = limits(target)
        wide = np.trunc(a.astype(np.float64))
        clean = np.where(np.isnan(wide), float(of_nan(source, target)), wide)
        inside = np.clip(clean, float(low), float(high) if target.bits < 54 else math.nextafter(float(high), 0.0))
        return np.where(clean >= float(high), wanted.type(high), inside.astype(wanted))
    return a.astype(wanted)


def bitcast(a: Any, source: DType, target: DType) -> Any:
    """The same bits as another dtype of the same width."""
    array = np.asarray(a, numpy_dtype(source))
    result = array.view(numpy_dtype(target))
    return result if isinstance(a, np.ndarray) else to_scalar(result[()], target)


REDUCTIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}


def reduction(kind: str, dtype: DType) -> Any:
    """The function that folds with ``kind``: of integers a ufunc."""
    if kind not in REDUCTIONS:
        raise UnsupportedError(f"the simulator does not know the reduction {kind!r}")
    function = FLOAT_BINARY[kind] if dtype.is_float and kind in ("min", "max") else REDUCTIONS[kind]
    return _in_float32(function, dtype) if dtype.is_float and dtype.bits == 8 else function


def _in_float32(function: Function, dtype: DType) -> Function:
    """8-bit floats have no arithmetic of their own: each result is computed in float32, and saturates."""
    def apply(a: Any, b: Any) -> Any:
        return _narrowed(np.asarray(function(np.asarray(a, np.float32), np.asarray(b, np.float32))), dtype)[()]
    return apply

