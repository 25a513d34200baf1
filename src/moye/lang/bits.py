"""Instructions on the bits of 32-bit words: permutations of bytes, any function of three bits, funnel shifts.

In: integers of 32 bits, or register tensors of them.  Out: uint32.

    mo.lop3(a, 0x000F000F, 0x64006400, lambda a, b, c: (a & b) | c)

They are snippets of PTX with a meaning in NumPy (``lang/inline.py``), as a kernel may have its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType
from moye.errors import DTypeError, TraceError
from moye.ir.inline import Snippet
from moye.lang.builtins import static
from moye.lang.inline import emit
from moye.tensor.context import locate
from moye.tensor.expr import Expr, operand_of, require_scalar
from moye.tensor.tensor import Tensor, elementwise

Argument = Any
Array = Any

_A, _B, _C = 0xF0, 0xCC, 0xAA                           # of the eight cases of three bits those where each is set


def words(made: Snippet, *arguments: Argument) -> Argument:
    """The first result of a snippet of 32-bit words, for scalars or for each element."""
    def one(*values: Any) -> Expr:
        return emit(made, tuple(_word(made.name, value) for value in values))[0]
    return elementwise(one, *arguments) if any(isinstance(x, Tensor) for x in arguments) else one(*arguments)


def _word(name: str, value: Any) -> Expr:
    require_scalar(name, value)
    dtype = value.dtype if isinstance(value, Expr) else dt.uint32
    if not dtype.is_integer or dtype.bits != 32:
        raise DTypeError(f"{name} is for integers of 32 bits, not {dtype}", hint="x.bitcast(mo.uint32) keeps its bits",
                         locs=(locate(),))
    return Expr(operand_of(value, dt.uint32, modulo=True))


def ptx(name: str, text: str, meaning: Callable[..., Array], *gives: DType) -> Snippet:
    """A snippet of one PTX instruction."""
    return Snippet("ptx", name, text, (), gives or (dt.uint32,), meaning)


# --- bytes -----------------------------------------------------------------------------------------------------------


def _permuted(a: Array, b: Array, selector: Array) -> Array:
    octets = a.astype("uint64") | b.astype("uint64") << 32
    result = a & 0
    for i in range(4):
        chosen = selector >> (4 * i)
        byte = (octets >> (8 * (chosen & 7)).astype("uint64") & 0xFF).astype("uint32")
        # Bit 3 of a digit asks for the sign of the byte, eight times.
        byte = byte * (1 - (chosen >> 3 & 1)) + (byte >> 7) * (chosen >> 3 & 1) * 0xFF
        result = result | byte << (8 * i)
    return result


_PRMT = ptx("prmt", "prmt.b32 %0, %1, %2, %3;", _permuted)


def prmt(a: Argument, b: Argument, selector: Argument) -> Argument:
    """Four of the eight bytes of ``a`` (0 to 3) and ``b`` (4 to 7), the lowest first (PTX ISA, prmt.b32).

    Each hexadecimal digit of ``selector``, the lowest first, says which byte; with 8 added, eight times its sign.
    CUDA's name is ``__byte_perm``.
    """
    return words(_PRMT, a, b, selector)


# --- bits ------------------------------------------------------------------------------------------------------------


@cache
def _lop3(table: int) -> Snippet:
    def meaning(a: Array, b: Array, c: Array) -> Array:
        result = a & 0
        for case in range(8):
            if table >> case & 1:
                result = result | (a if case & 4 else ~a) & (b if case & 2 else ~b) & (c if case & 1 else ~c)
        return result
    return ptx(f"lop3_{table:02x}", f"lop3.b32 %0, %1, %2, %3, {table:#04x};", meaning)


def lop3(a: Argument, b: Argument, c: Argument, function: int | Callable[[int, int, int], int]) -> Argument:
    """Any function of three bits, of all 32 bits of three words at once (PTX ISA, lop3.b32).

    ``function`` is one of Python, such as ``lambda a, b, c: (a & b) | c``, or the table of its values: what it gives
    for 0xF0, 0xCC and 0xAA.
    """
    found = _table(function) if callable(function) else static(function)
    if not isinstance(found, int) or not 0 <= found <= 0xFF:
        raise TraceError(f"lop3: the table {found!r} of a function of three bits is a static integer from 0 to 255",
                         locs=(locate(),))
    return words(_lop3(found), a, b, c)


def _table(function: Callable[[int, int, int], int]) -> int:
    """The values of a Python function, for the eight cases at once; each alone must have the same bit."""
    try:
        table = function(_A, _B, _C) & 0xFF
        alone = [function(case >> 2, case >> 1 & 1, case & 1) & 1 for case in range(8)]
    except TypeError as error:
        raise TraceError(f"lop3: {function!r} is no function of three integers that gives one", locs=(locate(),)
                         ) from error
    if alone != [table >> case & 1 for case in range(8)]:
        raise TraceError("lop3: the function does not take each bit by itself", locs=(locate(),),
                         hint="&, |, ^ and ~ do; +, `and`, `if` and comparisons do not")
    return table


def _shifted(left: bool, clamp: bool) -> Callable[[Array, Array, Array], Array]:
    def meaning(low: Array, high: Array, count: Array) -> Array:
        both = low.astype("uint64") | high.astype("uint64") << 32
        by = (count.clip(0, 32) if clamp else count & 31).astype("uint64")
        return (both << by >> 32 if left else both >> by).astype("uint32")
    return meaning


_SHIFTS = {(left, clamp): ptx(f"shf_{'l' if left else 'r'}", f"shf.{'l' if left else 'r'}."
                              f"{'clamp' if clamp else 'wrap'}.b32 %0, %1, %2, %3;", _shifted(left, clamp))
           for left in (False, True) for clamp in (False, True)}


def funnel_shift_left(low: Argument, high: Argument, count: Argument, *, clamp: bool = False) -> Argument:
    """The upper word of ``high``:``low`` shifted to the left (PTX ISA, shf.l).

    The count is taken modulo 32, or with ``clamp`` at most as 32.  Of one word twice it is a rotation.
    """
    return words(_SHIFTS[True, clamp], low, high, count)


def funnel_shift_right(low: Argument, high: Argument, count: Argument, *, clamp: bool = False) -> Argument:
    """The lower word of ``high``:``low`` shifted to the right (PTX ISA, shf.r); ``count`` as for the left."""
    return words(_SHIFTS[False, clamp], low, high, count)
