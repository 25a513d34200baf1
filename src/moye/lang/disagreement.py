"""Where two ways meet that do not agree: the errors of variables whose dtype or structure differs between them.

In: a variable's dtype or structure on one way, what another way brings, and which ways these are.  Out: nothing, or a
``TraceError``.

>>> check_dtype("the variable 'x'", dt.int32, 1.5, LOOP)
Traceback (most recent call last):
    ...
moye.errors.TraceError: the variable 'x' is int32 before this loop and float32 at the end of its body
...
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import TraceError
from moye.ir import constants
from moye.lang.carry import carried_dtype, describe, is_none, is_static, plain_class
from moye.tensor.context import joins, locate
from moye.tensor.expr import Expr, Scalar
from moye.tensor.joined import apart
from moye.tensor.known import Known

Ways = tuple[str, str]
LOOP: Ways = "before this loop", "at the end of its body"
BODY: Ways = "on one way through this loop's body", "on another"
ARMS: Ways = "where the condition holds", "where it does not"
RETURNS: Ways = "on one way out of the function", "on another"


def check_dtype(name: str, dtype: dt.DType, leaf: Scalar, ways: Ways) -> None:
    """A variable keeps its dtype: Python numbers that fit, and dtypes all of whose numbers it holds, are converted."""
    if agrees(dtype, leaf):
        return
    have = carried_dtype(leaf)
    hint = f"start with mo.{have}(...), or convert with mo.{dtype}(...)" if ways is LOOP else _converted(dtype, have)
    raise TraceError(f"{name} is {dtype} {ways[0]} and {have} {ways[1]}", hint=hint, locs=(locate(),))


def check_arms(name: str, dtype: dt.DType, then: Scalar, orelse: Scalar) -> None:
    """A variable that has ``dtype`` behind an ``if`` takes what both arms leave in it."""
    if agrees(dtype, then) and agrees(dtype, orelse):
        return
    here, there = carried_dtype(then), carried_dtype(orelse)
    hint = _converted(here, there) if here.is_float or there.is_float else \
        "convert one of the two, with mo.int32(...) or mo.int64(...)"
    raise TraceError(f"{name} is {here} {ARMS[0]} and {there} {ARMS[1]}", hint=hint, locs=(locate(),))


def _converted(one: dt.DType, other: dt.DType) -> str:
    return f"convert one of the two, with mo.{one}(...) or mo.{other}(...)"


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


def changed_structure(name: str, before: object, after: object, ways: Ways) -> TraceError:
    """The error of a variable whose static structure differs between two ways to one point."""
    if (plain := plain_class(before, after)) is not None:
        return TraceError(f"{name} is one {plain} on one way to this point and another on another, and what an object "
                          "of a plain class holds is not carried", locs=(locate(),),
                          hint=f"make {plain} a dataclass: its fields are carried")
    pairs = list(apart(before, after))
    if (known := joins()) is not None and None not in pairs:
        known.wanted = pairs                            # the trace is made anew, with one array for each pair
    told = describe(before), describe(after)
    if told[0] == told[1]:
        told = describe(before, parts=True), describe(after, parts=True)
    if _kind(before) == _kind(after) == "fragment":
        told = told[0], "another " + told[1].removeprefix("the ")
    return TraceError(f"{name} changes its structure in a loop or branch of the kernel: "
                      f"{told[0]} {ways[0]}, {told[1]} {ways[1]}", hint=_one_structure(name, before, after, ways),
                      locs=(locate(),))


def _one_structure(name: str, before: object, after: object, ways: Ways) -> str:
    """What to do about a variable of two structures."""
    kinds = _kind(before), _kind(after)
    if "fragment" in kinds:
        return "write into the same registers: " + (name.rpartition("'")[0].rpartition("'")[2] or "x") + "[...] = ..."
    if kinds == ("tensor", "tensor"):
        if ways is not LOOP:
            return "call a function with @mo.jit in both places, with the one tensor and with the other"
        of_arguments = before[5].value.space is Space.GLOBAL and before[1] != after[1]  # type: ignore[index]
        return "call a function with @mo.jit, step(a, b) under if turn % 2 == 0, else step(b, a)" if of_arguments \
            else "keep one buffer with a stage mode and carry the stage index"
    if is_none(before) != is_none(after):
        return "instead of None give it a value of the other kind, such as 0 or float(\"inf\")"
    if is_static(before) and is_static(after):
        return "tracing decides it: unroll the loop, with mo.static_range" if ways is LOOP else \
            "tracing decides it: use each of the two where it is chosen, or choose by a mo.Constexpr parameter"
    return "give it a value of one kind on every way to this point"


def _kind(structure: object) -> object:
    return structure[0] if isinstance(structure, tuple) and structure else structure
