"""Products of scalars that are more than ``a * b``: fused with a sum, by a power of two, twice as wide.

In: scalars.  Out: one.

    fma(a, b, c)        # a * b + c, rounded once
"""

from __future__ import annotations

import functools

from moye import dtypes as dt
from moye.errors import DTypeError
from moye.tensor.context import builder, locate
from moye.tensor.expr import NARROW, Expr, Scalar, default_dtype, lifted, operand_of, together, wrap


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """``a * b + c`` of floats, rounded once; 8-bit floats through float64, which holds it exactly."""
    dtypes = [x.dtype for x in map(lifted, (a, b, c)) if isinstance(x, Expr)]
    dtype = functools.reduce(dt.promote, dtypes) if dtypes else dt.float32
    if not dtype.is_float or dtype is dt.tfloat32:
        raise DTypeError(f"fma({a}, {b}, {c}) of {dtype}: it is for float8, float16, bfloat16, float32 and float64",
                         hint="a * b + c is exact for integers" if dtype.is_integer else None, locs=(locate(),))
    work = dt.float64 if dtype.bits == 8 else dtype
    found = Expr(builder().fma(*(operand_of(Expr(operand_of(x, dtype)), work) for x in (a, b, c))))
    return found.to(dtype) if work is not dtype else found


def ldexp(a: Scalar, exponent: Scalar) -> Scalar:
    """``a`` times 2 to an integer power."""
    power_ = lifted(exponent)
    own = power_.dtype if isinstance(power_, Expr) else default_dtype(power_)
    if not own.is_integer:
        raise DTypeError(f"ldexp takes an integer exponent, not a {own}", locs=(locate(),))
    dtype = together(a, 0.0)
    work = dt.float32 if dtype in NARROW else dtype
    result = builder().binary("ldexp", operand_of(a, work), operand_of(exponent, dt.int32))
    return wrap(builder().cast(result, dtype))


def mul_hi(a: Scalar, b: Scalar) -> Scalar:
    """The upper half of a product of two integers of one width, 32 or 64 bits."""
    dtype = together(a, b)
    if not dtype.is_integer or dtype.bits not in (32, 64):
        raise DTypeError(f"mul_hi of {a} and {b}: it is for integers of 32 and 64 bits, not {dtype}", locs=(locate(),))
    return wrap(builder().binary("mul_hi", operand_of(a, dtype), operand_of(b, dtype)), a, b)
