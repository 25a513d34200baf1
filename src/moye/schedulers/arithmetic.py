"""Quotients of non-negative numbers: 32-bit, unsigned, with what is known of the results.

In: Python integers or scalars of the kernel.  Out: the same.

    rows, column = divide(t, width)

Static numbers are checked.  For others, a scheduler proves what it claims.
"""

from __future__ import annotations

from operator import index
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.ir import fold
from moye.ir.nodes import Value
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, arithmetic, operand_of, plain


def count(x: Any, least: int = 0) -> Any:
    """A number of tiles, rows or k-tiles: a non-negative int32; TraceError for a static one below ``least``."""
    x = plain(x)
    if isinstance(x, Expr) and not x.dtype.is_float:
        return bounded(x if x.dtype is dt.int32 else x.to(dt.int32))
    number = None if isinstance(x, Expr) else _whole(x)
    if number is None or not least <= number < 1 << 31:
        raise TraceError(f"a scheduler counts tiles, k-tiles and blocks with integers from {least} to 2147483647, "
                         f"not {x!r}", locs=(locate(),))
    return number


def _whole(x: Any) -> int | None:
    """x as a Python integer; None if it is not one."""
    try:
        return index(x)
    except TypeError:
        return None


def bounded(x: Any, upper: int | None = None) -> Any:
    """``x``, known from here on to lie between 0 and ``upper``."""
    if isinstance(x, Expr) and isinstance(x.operand, Value):
        lower, most, _ = fold.facts_of(x.operand)
        if lower is None or lower < 0 or (upper is not None and (most is None or most > upper)):
            builder().learn(x.operand, lower=0, upper=upper)
    return x


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else arithmetic("min", a, b)


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else arithmetic("max", a, b)


def divide(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and rest of ``a`` >= 0 by ``b`` > 0.

    A power of two shifts, and another constant multiplies.  Anything else is one unsigned division, and the rest comes
    from a product.
    """
    if isinstance(a, int) and isinstance(b, int):
        return divmod(a, b)
    b = 1 if isinstance(b, int) and not b else b        # of no tiles: the loop around it never comes here
    if isinstance(b, int) and b & (b - 1) == 0:
        return bounded(a // b), bounded(a % b, b - 1)
    least, most = (b, b) if isinstance(b, int) else (1, b.upper)
    highest = a if isinstance(a, int) else a.upper
    unsigned = Expr(operand_of(a, dt.uint32)) // Expr(operand_of(b, dt.uint32))
    quotient = bounded(unsigned.to(dt.int32), None if highest is None else highest // least)
    return quotient, bounded(a - quotient * b, None if most is None else most - 1)
