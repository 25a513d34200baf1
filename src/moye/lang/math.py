"""Math functions of scalars and register tensors.

In: a traced scalar, a Python number or a register tensor.  Out: the same kind of thing.

    a[...] = mo.exp(a); x = mo.rsqrt(mo.max(y, 1e-6), fast=True)

Functions are accurate by default; ``fast=True`` takes the hardware's approximation if there is one (float32; exp2 and
tanh of 16-bit floats, too).  What each rounds to is in docs/kernel-language.md.
Activations have PyTorch's names and definitions.  For 8- and 16-bit floats they compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Literal as OneOf

from moye import dtypes as dt
from moye.errors import TraceError
from moye.tensor import expr, products
from moye.tensor.context import locate
from moye.tensor.known import Known
from moye.tensor.tensor import Tensor, elementwise

Argument = Any


def _unary(kind: str, doc: str) -> Callable[..., Argument]:
    def function(x: Argument, *, fast: bool = False) -> Argument:
        if isinstance(x, Tensor):
            return elementwise(lambda e: expr.unary(kind, e, fast=fast), x)
        return expr.unary(kind, x, fast=fast)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = doc
    return function


exp = _unary("exp", "e to the power of x.")
exp2 = _unary("exp2", "2 to the power of x.")
log = _unary("log", "Natural logarithm.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
sqrt = _unary("sqrt", "Square root, correctly rounded.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
sin = _unary("sin", "Sine of radians.")
cos = _unary("cos", "Cosine of radians.")
tan = _unary("tan", "Tangent of radians.")
tanh = _unary("tanh", "Hyperbolic tangent.")
erf = _unary("erf", "Error function.")
asin = _unary("asin", "Arc sine, in radians; NaN beyond -1 and 1.")
acos = _unary("acos", "Arc cosine, in radians; NaN beyond -1 and 1.")
atan = _unary("atan", "Arc tangent, in radians.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
asinh = _unary("asinh", "Inverse of the hyperbolic sine.")
acosh = _unary("acosh", "Inverse of the hyperbolic cosine; NaN below 1.")
atanh = _unary("atanh", "Inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond.")
log1p = _unary("log1p", "Natural logarithm of 1 + x, exact to the last digits for small x too.")
expm1 = _unary("expm1", "e to the power of x, minus 1, exact to the last digits for small x too.")
erfc = _unary("erfc", "1 - erf(x), exact to the last digits for large x too.")
erfinv = _unary("erfinv", "The y with erf(y) = x; infinite at -1 and 1, NaN beyond.")
lgamma = _unary("lgamma", "Natural logarithm of the gamma function's absolute value.")
tgamma = _unary("tgamma", "Gamma function: (x - 1)! for whole x.")
cbrt = _unary("cbrt", "Cube root, also of negative numbers.")
floor = _unary("floor", "Largest integer not above x, as a float.")
ceil = _unary("ceil", "Smallest integer not below x, as a float.")
round_ = _unary("round", "Nearest integer, ties to even, as a float.")
trunc = _unary("trunc", "Integer part, as a float.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
isnan = _unary("isnan", "Whether x is not a number.")
isinf = _unary("isinf", "Whether x is infinite.")
popcount = _unary("popcount", "Number of set bits, as int32.")
clz = _unary("clz", "Number of leading zero bits, as int32.")
ffs = _unary("ffs", "Place of the lowest set bit, counted from 1, as int32; 0 of 0.")
brev = _unary("brev", "The bits in reverse order (PTX ISA, brev).")
abs_ = _unary("abs", "Absolute value.")
rcp = _unary("rcp", "1 / x.")


def fma(a: Argument, b: Argument, c: Argument) -> Argument:
    """a * b + c of float scalars or register tensors, rounded once, where ``a * b + c`` may round twice (``fma.rn``).

    The dtype is that in which all three meet; Python numbers take it.  DTypeError for integers and tfloat32.
    """
    if any(isinstance(x, Tensor) for x in (a, b, c)):
        return elementwise(products.fma, a, b, c)
    expr.require_scalar("fma", a, b, c)
    return products.fma(a, b, c)


def divide(a: Argument, b: Argument, *, fast: bool = False) -> Argument:
    """a / b of scalars or register tensors; ``fast=True`` is a * rcp(b) in float32, as ``div.approx`` computes it.

    The fast quotient is within 2 units in the last place for 2^-126 <= abs(b) <= 2^126; beyond, it is 0.  16- and 8-bit
    floats are rounded from it, and float64 is divided as ever.  Source: PTX ISA, div; CUDA's __fdividef.
    """
    def function(x: Any, y: Any) -> Any:
        dtype = expr.together(x, y) if expr.together(x, y).is_float else dt.float32
        if not fast or dtype.bits == 64:
            return expr.divide(x, y)
        above, below = (expr.Expr(expr.operand_of(each, dt.float32)) for each in (x, y))
        quotient: Any = expr.arithmetic("mul", above, expr.unary("rcp", below, fast=True))
        return quotient if dtype is dt.float32 else quotient.to(dtype)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return elementwise(function, a, b)
    expr.require_scalar("divide", a, b)
    return function(a, b)


def refuse_one_tensor(kind: str, value: object) -> None:
    """``max(x)`` of a tensor would be its largest element elsewhere; here it is said which elements are folded."""
    if isinstance(value, Tensor):
        raise TraceError(f"{kind} of one tensor: it takes numbers, and two or more tensors", locs=(locate(),),
                         hint=f'x.reduce("{kind}") of registers; mo.warp_reduce over threads')


def _extremum(kind: str, doc: str) -> Callable[..., Argument]:
    def function(*values: Argument) -> Argument:
        items = values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
        if not items:
            raise TraceError(f"{kind} takes at least one value", locs=(locate(),))
        if len(values) == 1:
            refuse_one_tensor(kind, values[0])
        result = items[0]
        for item in items[1:]:
            result = _pair(kind, result, item)
        return result

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = doc
    return function


def _pair(kind: str, a: Argument, b: Argument) -> Argument:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return elementwise(lambda x, y: expr.arithmetic(kind, x, y), a, b)
    expr.require_scalar(kind, a, b)
    if not any(isinstance(x, (expr.Expr, Known)) for x in (a, b)):
        return min(a, b) if kind == "min" else max(a, b)
    return expr.arithmetic(kind, a, b)


minimum = _extremum("min", "The smaller of two (or the smallest of several) values.")
maximum = _extremum("max", "The larger of two (or the largest of several) values.")


# --- functions of two ------------------------------------------------------------------------------------------------


def _binary(kind: str, doc: str) -> Callable[..., Argument]:
    def function(x: Argument, y: Argument) -> Argument:
        return _both(kind, lambda a, b: expr.function_of_two(kind, a, b), x, y)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = doc
    return function


def _both(what: str, function: Callable[[Any, Any], Any], x: Argument, y: Argument) -> Argument:
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return elementwise(function, x, y)
    expr.require_scalar(what, x, y)
    return function(x, y)


atan2 = _binary("atan2", "Angle of the point (y, x), in radians from -pi to pi: atan2(y, x).")
fmod = _binary("fmod", "What is left of x after whole multiples of y, with the sign of x, exactly; % floors.")
remainder = _binary("remainder", "x minus the nearest multiple of y, of two the even one, exactly (IEEE 754).")
hypot = _binary("hypot", "sqrt(x * x + y * y) without overflow on the way.")
copysign = _binary("copysign", "x with the sign of y.")
nextafter = _binary("nextafter", "The number next to x in the direction of y: float32 and float64.")
pow_ = _binary("pow", "x to the power of y, as floats.")


def ldexp(x: Argument, exponent: Argument) -> Argument:
    """``x`` times 2 to the power of ``exponent``, an integer, rounded once."""
    return _both("ldexp", products.ldexp, x, exponent)


def mul_hi(x: Argument, y: Argument) -> Argument:
    """The upper half of the product of two integers of 32 or 64 bits (PTX ISA, mul.hi)."""
    return _both("mul_hi", products.mul_hi, x, y)


def sincos(x: Argument, *, fast: bool = False) -> tuple[Argument, Argument]:
    """``(sin(x), cos(x))``; the compiler reduces the argument once."""
    return sin(x, fast=fast), cos(x, fast=fast)


# --- activations -----------------------------------------------------------------------------------------------------


def relu(x: Argument) -> Argument:
    """``x`` if it is not negative, else 0; a NaN stays.  Source: torch.nn.functional.relu."""
    def function(e: Any) -> Any:
        return expr.where(expr.compare("lt", e, 0), 0, e)
    return elementwise(function, x) if isinstance(x, Tensor) else function(x)


def gelu(x: Argument, *, approximate: OneOf["none", "tanh"] = "none", fast: bool = False) -> Argument:
    """``x`` times the cumulative function of the normal distribution at ``x``.

    ``approximate="none"`` computes it through erf, and ``"tanh"`` as x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715
    x^3))); with ``fast=True`` the tanh is the hardware's.  Source: torch.nn.functional.gelu; Hendrycks and Gimpel,
    "Gaussian error linear units".
    """
    if approximate == "tanh":
        return _each(lambda e: 0.5 * e * (1.0 + expr.unary("tanh", _gelu_inner(e), fast=fast)), x)
    if approximate == "none":
        return _each(lambda e: 0.5 * e * (1.0 + expr.unary("erf", e * 0.7071067811865476)), x)
    raise TraceError(f"gelu's approximate is 'none' or 'tanh', not {approximate!r}", locs=(locate(),))


def _gelu_inner(x: Any) -> Any:
    return 0.7978845608028654 * (x + 0.044715 * x * x * x)


def silu(x: Argument, *, fast: bool = False) -> Argument:
    """``x * sigmoid(x)``.  Source: torch.nn.functional.silu."""
    return _each(lambda e: e * expr.unary("sigmoid", e, fast=fast), x)


def _each(function: Callable[[Any], Any], x: Argument) -> Argument:
    """The function of a float scalar or of each element, computed in 32 bits at least and rounded once."""
    def wide(e: Any) -> Any:
        own = e.dtype if isinstance(e, expr.Expr) else dt.float32
        work = own if own.is_float and own.bits >= 32 else dt.float32
        result = function(expr.Expr(expr.operand_of(e, work)))
        return result.to(own) if own.is_float else result
    return elementwise(wide, x) if isinstance(x, Tensor) else wide(x)
