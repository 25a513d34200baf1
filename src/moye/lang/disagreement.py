"""Where two ways meet that do not agree: the errors of variables whose dtype or structure differs between them.

In: a variable's dtype or structure before, and what another way brings.  Out: nothing, or a ``TraceError``.

>>> check_dtype("the variable 'x'", dt.int32, 1.5)
Traceback (most recent call last):
    ...
moye.errors.TraceError: the variable 'x' is int32 before this loop or branch and float32 at its end
...
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import TraceError
from moye.ir import constants
from moye.lang.carry import carried_dtype, describe, plain_class
from moye.tensor.context import locate
from moye.tensor.expr import Expr, Scalar
from moye.tensor.known import Known


def check_dtype(name: str, dtype: dt.DType, leaf: Scalar) -> None:
    """A variable keeps its dtype: Python numbers that fit, and dtypes all of whose numbers it holds, are converted."""
    if agrees(dtype, leaf):
        return
    have = carried_dtype(leaf)
    raise TraceError(f"{name} is {dtype} before this loop or branch and {have} at its end",
                     hint=f"start with mo.{have}(...), or convert with .to(mo.{dtype})", locs=(locate(),))


def check_arms(name: str, dtype: dt.DType, then: Scalar, orelse: Scalar) -> None:
    """A variable that has ``dtype`` behind an ``if`` takes what both arms leave in it."""
    if agrees(dtype, then) and agrees(dtype, orelse):
        return
    here, there = carried_dtype(then), carried_dtype(orelse)
    wide = here if here.is_float else there
    hint = f"start with mo.{wide}(...), or convert with .to(mo.{there if wide is here else here})" if wide.is_float \
        else "convert one of the two, with .to(mo.int32) or .to(mo.int64)"
    raise TraceError(f"{name} is {here} where the condition holds and {there} where it does not", hint=hint,
                     locs=(locate(),))


def agrees(dtype: dt.DType, leaf: Scalar) -> bool:
    """Whether a variable of a dtype takes a value."""
    have = carried_dtype(leaf)
    if have == dtype:
        return True
    if isinstance(leaf, (Expr, Known)):
        return _holds(dtype, have)
    return dtype.is_float or (dtype.is_integer and isinstance(leaf, int) and constants.fits(int(leaf), dtype))


def _holds(dtype: dt.DType, have: dt.DType) -> bool:
    """Whether every integer, or every float, of one dtype is one of the other, so that converting loses nothing."""
    if have.is_integer and dtype.is_integer:
        same_sign = have.kind == dtype.kind
        return have.bits <= dtype.bits if same_sign else dtype.kind is dt.Kind.INT and have.bits < dtype.bits
    return have.is_float and dtype.is_float and dt.promote(have, dtype) == dtype


def changed_structure(name: str, before: object, after: object) -> TraceError:
    """The error of a variable whose static structure differs between two ways to one point."""
    if (plain := plain_class(before, after)) is not None:
        return TraceError(f"{name} is one {plain} on one way to this point and another on another, and what an object "
                          "of a plain class holds is not carried", locs=(locate(),),
                          hint=f"make {plain} a dataclass: its fields are carried")
    kinds = _kind(before), _kind(after)
    told = describe(before), describe(after)
    hint = "give it a value of one kind on every way to this point"
    if "fragment" in kinds:
        if kinds[0] == kinds[1]:
            told = told[0], "another " + told[1].removeprefix("the ")
        hint = "write into the same registers: " + (name.rpartition("'")[0].rpartition("'")[2] or "x") + "[...] = ..."
    elif kinds == ("tensor", "tensor"):
        of_arguments = before[5].value.space is Space.GLOBAL and before[1] != after[1]  # type: ignore[index]
        hint = "call a function with @mo.jit, step(a, b) under if turn % 2 == 0, else step(b, a)" if of_arguments \
            else "keep one buffer with a stage mode and carry the stage index"
    return TraceError(f"{name} changes its structure in a loop or branch of the kernel: "
                      f"{told[0]} before, {told[1]} after", hint=hint, locs=(locate(),))


def _kind(structure: object) -> object:
    return structure[0] if isinstance(structure, tuple) and structure else structure
