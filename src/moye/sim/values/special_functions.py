"""Functions that NumPy has not, or not as CUDA has them: on arrays of float64, and on integers.

In: arrays of one shape.  Out: an array.  Floats narrower than float64 come here widened, and are rounded afterwards.

>>> remainder(np.array([5.0]), np.array([3.0]))
array([-1.])

Poles, infinities and NaN give what C has for them (C17, annex F), and nothing is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def _each(function: Callable[[float], float]) -> Function:
    """A function of Python's floats, for arrays."""
    made = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(made(a)).astype(np.float64)


# --- floats ----------------------------------------------------------------------------------------------------------


def _log_gamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf                                 # math.lgamma raises at poles
    if 0.75 < x < 1.25:
        return _log_gamma_beside_two(x - 1) - math.log1p(x - 1)
    if 1.75 < x < 2.25:
        return _log_gamma_beside_two(x - 2)
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _log_gamma_beside_two(z: float) -> float:
    """Of 2 + z, where it is nearly zero and Python's function has no digits left (Abramowitz and Stegun, 6.1.33)."""
    return math.fsum([z * (1 - _EULER), *(excess * (-z) ** k / k for k, excess in _ZETA.items())])


_EULER = 0.5772156649015329


def _zeta_less_one(k: int, n: int = 256) -> float:
    """The sum of i ** -k from 2 on: some terms, and the rest by Euler and Maclaurin."""
    rest = n ** (1 - k) / (k - 1) + n ** -k / 2 + k * n ** (-k - 1) / 12 - k * (k + 1) * (k + 2) * n ** (-k - 3) / 720
    return math.fsum([*(i ** -k for i in range(2, n)), rest])


_ZETA = {k: _zeta_less_one(k) for k in range(2, 20)}


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:                               # of large positive ones alone: others go to zero
        return math.inf


erf, erfc = _each(math.erf), _each(math.erfc)


def inverse_erf(x: Array) -> Array:
    """The y with erf(y) = x, by three steps of Halley's method from Winitzki's approximation (2e-3 off at most)."""
    a = np.minimum(np.abs(x), 1.0)
    inside = np.where((a > 0) & (a < 1), a, 0.5)
    logarithm, k = np.log((1 - inside) * (1 + inside)), 0.147
    t = 2 / (math.pi * k) + logarithm / 2
    y = np.where(inside < 1e-4, inside * (math.sqrt(math.pi) / 2), np.sqrt(np.sqrt(t * t - logarithm / k) - t))
    for _ in range(3):
        # Near 1, 1 - erf has the digits; below 1 / 2, erf has them.
        error = np.where(inside < 0.5, erf(y) - inside, (1 - inside) - erfc(y))
        step = error * (math.sqrt(math.pi) / 2) * np.exp(y * y)
        y = y - step / (1 + y * step)
    size = np.where(a == 0, 0.0, np.where(a == 1, np.inf, y))
    return np.where(np.abs(x) <= 1, np.copysign(size, x), np.nan)


def remainder(x: Array, y: Array) -> Array:
    """x minus the multiple of y that is nearest, of two the even one, exactly (C17, 7.12.10.2)."""
    a, b = np.abs(x), np.abs(y)
    with np.errstate(all="ignore"):
        rest = np.fmod(a, 2 * b)                        # 2 * b may be infinite: a is below it then
        # Halves of tiny numbers have fewer digits, doubles of large ones are infinite.
        half, double = np.where(b < 1e-300, b, 0.5 * b), np.where(b < 1e-300, 2.0, 1.0)
        above = rest * double > half
        rest = np.where(above, rest - b, rest)
        rest = np.where(above & (rest * double >= half), rest - b, rest)
        signed: Array = np.where(np.signbit(x), -rest, rest)
        return signed


def ldexp(x: Any, exponent: Any) -> Any:
    """x times 2 to the exponent, rounded once."""
    own = np.asarray(x).dtype
    made = np.ldexp(np.asarray(x), np.clip(np.asarray(exponent, np.int64), -5000, 5000).astype(np.int32))
    return made.astype(own)[()]


SLOW_MATH: dict[str, Function] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "log1p": np.log1p, "expm1": np.expm1, "erfc": erfc,
    "erfinv": inverse_erf, "lgamma": _each(_log_gamma), "tgamma": _each(_gamma), "cbrt": np.cbrt,
}


# --- integers --------------------------------------------------------------------------------------------------------


def mul_hi(a: Any, b: Any) -> Any:
    """The upper half of the product of two integers of 32 or 64 bits."""
    own = np.asarray(a).dtype if isinstance(a, (np.ndarray, np.generic)) else np.asarray(b).dtype
    x, y = np.asarray(a, own), np.asarray(b, own)
    if own.itemsize == 4:
        wide = np.dtype(np.uint64 if own.kind == "u" else np.int64)
        return (x.astype(wide) * y.astype(wide) >> wide.type(32)).astype(own)[()]
    high = _upper_half(x.astype(np.uint64), y.astype(np.uint64))
    if own.kind == "i":
        # A negative factor stands for itself plus 2^64, which adds the other factor to the upper half.
        high = high - np.where(x < 0, y, 0).astype(np.uint64) - np.where(y < 0, x, 0).astype(np.uint64)
    return high.astype(own)[()]


def _upper_half(x: Array, y: Array) -> Array:
    """Of the 128 bits of a product the upper 64, by parts of 32."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + (xl * yl >> half)
    carried = (middle & low) + xl * yh
    upper: Array = xh * yh + (middle >> half) + (carried >> half)
    return upper


def _unsigned(a: Any) -> Array:
    array = np.asarray(a)
    return array.view(f"u{array.dtype.itemsize}")


def ffs(a: Any) -> Any:
    """The place of the lowest set bit, counted from 1; 0 of 0."""
    bits = _unsigned(a).astype(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    return np.frexp(lowest.astype(np.float64))[1].astype(np.int32)


def brev(a: Any) -> Any:
    """The bits in reverse order."""
    array = np.asarray(a)
    octets = np.ascontiguousarray(_unsigned(array)).reshape(*array.shape, 1).view(np.uint8)
    turned = np.packbits(np.unpackbits(octets, axis=-1), axis=-1, bitorder="little")[..., ::-1]
    return np.ascontiguousarray(turned).view(array.dtype).reshape(array.shape)
