"""Fused multiply-add on arrays: a * b + c rounded once, to nearest, ties to even, as PTX's ``fma.rn`` does.

In: arrays of one dtype of 16 to 64 bits that broadcast.  Out: an array of their dtype; NaN payloads are not modelled.

>>> fused(np.float32([1 + 2**-12]), np.float32([1 - 2**-12]), np.float32([-1]))     # -2**-24; in two steps 0
array([-5.9604645e-08], dtype=float32)

float32 goes through float64, float64 through pairs of float64: Boldo and Melquiond, Emulation of a FMA and correctly
rounded sums: proved algorithms using rounding to odd (IEEE Transactions on Computers, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.dtypes import float64, from_name
from moye.sim.values.memory import Array
from moye.sim.values.scalars import cast

Pair = tuple[Array, Array]

_TAIL, _HALF = np.int64((1 << 29) - 1), np.int64(1 << 28)
"""What float32 drops of a float64's bits; a tie has the highest of them alone."""
_LEAST_SINGLE = np.float32(2.0 ** -126)
_SPLIT = 2.0 ** 27 + 1
_SMALL, _LARGE = 2.0 ** -400, 2.0 ** 400
"""Between these no step of the float64 algorithm overflows or loses bits below the least normal number."""
_FAR = 200
"""If the terms are this many powers of two apart, the smaller one only breaks ties."""


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once; ``c`` has the shape of the result."""
    with np.errstate(all="ignore"):
        if c.dtype.itemsize == 2:
            return _half(a, b, c)
        return _single(a, b, c) if c.dtype == np.float32 else _double(a, b, c)


def multiply_add(a: Any, b: Any, c: Any, dtype: Any) -> Any:
    """The same of arrays or scalars of a dtype; a scalar of scalars."""
    x, y, z = (np.asarray(each, dtype) for each in (a, b, c))
    shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
    x, y, z = (np.atleast_1d(each) for each in (x, y, np.broadcast_to(z, shape)))
    return fused(x, y, z).reshape(shape)[()]


# --- float16 and bfloat16 --------------------------------------------------------------------------------------------


def _half(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in float64, and a sum that is rounded to odd there may be rounded once more."""
    product, term = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + term
    finite = np.isfinite(total)
    product, term = np.broadcast_to(product, total.shape), np.broadcast_to(term, total.shape)
    total[finite] = _odd_sum(product[finite], term[finite])
    return np.asarray(cast(total, float64, from_name(str(c.dtype))))


# --- float32 ---------------------------------------------------------------------------------------------------------


def _single(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in float64; rounding the sum twice is wrong only where the first result is a tie."""
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    result = total.astype(np.float32)
    # Only a sum that float64 has rounded to the middle of two float32 numbers may be rounded to the wrong side.
    doubtful = (total.view(np.int64) & _TAIL) == _HALF
    small = np.abs(result) <= _LEAST_SINGLE             # subnormal: ties lie elsewhere
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        product = np.broadcast_to(product, total.shape)
        result[doubtful] = _odd_sum(product[doubtful], c[doubtful].astype(np.float64)).astype(np.float32)
    return result


# --- float64 ---------------------------------------------------------------------------------------------------------


def _double(a: Array, b: Array, c: Array) -> Array:
    high, rest = _unrounded(a, b, c)
    result = high + rest
    zero = result == 0
    if zero.any():                                      # an exact zero: its sign is that of the plain sum
        result = np.where(zero, a * b + c, result)
    # The error-free transformations hold as long as no part of them overflows or becomes subnormal.
    tame = _tame(a) & _tame(b) & _tame(c)
    if not tame.all():
        wild = ~tame
        a, b = np.broadcast_to(a, wild.shape), np.broadcast_to(b, wild.shape)
        result[wild] = _scaled(a[wild], b[wild], c[wild])
    return result


def _tame(x: Array) -> Array:
    size = np.abs(x)
    inside: Array = ((size >= _SMALL) & (size <= _LARGE)) | (size == 0)
    return inside


def _unrounded(a: Array, b: Array, c: Array) -> Pair:
    """Two numbers whose sum rounds as a * b + c does."""
    high, low = _two_product(a, b)
    upper, least = _two_sum(c, low)
    result, rest = _two_sum(high, upper)
    return result, _odd_sum(least, rest)


def _scaled(a: Array, b: Array, c: Array) -> Array:
    """Any operands: mantissas are multiplied, and the exponents put back last."""
    (a_part, a_exp), (b_part, b_exp), (c_part, c_exp) = np.frexp(a), np.frexp(b), np.frexp(c)
    exponent = a_exp + b_exp
    distance = np.where(c == 0, -_FAR, c_exp - exponent)
    exponent = np.where(distance > _FAR, c_exp - _FAR, exponent)
    high, rest = _unrounded(a_part, b_part, np.ldexp(c_part, np.clip(distance, -_FAR, _FAR)))
    result = high + rest
    fixed = _at_the_bottom(high, rest, exponent)
    subnormal = np.abs(result) < np.ldexp(1.0, -1022 - exponent)
    scaled = np.copysign(np.ldexp(np.where(subnormal, fixed, result), exponent), result)
    finite = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite & ~np.isfinite(c), c, a * b + c)        # the product itself may have overflowed
    return np.where(finite & np.isfinite(c) & (a != 0) & (b != 0), scaled, plain)


def _at_the_bottom(high: Array, rest: Array, exponent: Array) -> Array:
    """high + rest rounded to a multiple of the least subnormal number, 2**-1074 before scaling by 2**exponent.

    The sum with 2**52 times that unit has its last bit there; far below it everything rounds to zero all the same.
    """
    offset = np.copysign(np.ldexp(1.0, np.minimum(-1022 - exponent, 400)), high + rest)
    upper, lower = _two_sum(offset, high)
    rounded: Array = upper + _odd_sum(lower, rest) - offset
    return rounded


# --- error-free transformations --------------------------------------------------------------------------------------


def _two_sum(x: Array, y: Array) -> Pair:
    """x + y as the rounded sum and its error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _split(x: Array) -> Pair:
    """x as a sum of 26 and 27 bits (Veltkamp)."""
    high = x * _SPLIT
    high -= high - x
    return high, x - high


def _two_product(x: Array, y: Array) -> Pair:
    """x * y as the rounded product and its error (Dekker)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    error = x_high * y_high
    error -= product
    error += x_high * y_low
    error += x_low * y_high
    error += x_low * y_low
    return product, error


def _odd_sum(x: Array, y: Array) -> Array:
    """x + y rounded to odd: an inexact sum gets the neighbour whose last bit is set, which later is no tie."""
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)  # bits count away from zero
    # Round to odd (Boldo and Melquiond): the last bit keeps that something was lost, so that the next rounding is
    # right.
    bits += np.where((error != 0) & (bits & 1 == 0), away, 0)
    return bits.view(np.float64)
