"""What Python's builtins become inside a kernel.

In: a builtin function object.  Out: the function that a kernel calls instead.

>>> import builtins
>>> TRACED[builtins.range].__name__         # a loop of the kernel
'dynamic_range'

If they are given static values, these functions behave like Python's own.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.lang import math
from moye.lang.builtins import dtype_cast
from moye.lang.debug import breakpoint_, print_
from moye.lang.ranges import DynamicRange, dynamic_range
from moye.lang.texts import format_of, repr_of, text_of
from moye.tensor.asking import is_number_class, no_class
from moye.tensor.context import locate
from moye.tensor.expr import Expr, beside, bitwise, is_scalar, truth, where
from moye.tensor.known import Known, known, weak
from moye.tensor.tensor import Tensor


def _traced(value: object) -> bool:
    return isinstance(value, (Expr, Known, Tensor))


def _int(*args: Any) -> Any:
    """``int(x)``: truncated to int32, or of narrower integers the number as int32; wider ones stay."""
    if not args or not isinstance(args[0], (Expr, Known)):
        return int(*args)
    if isinstance(args[0], Known) and not args[0].dtype.is_integer:
        return known(bool(args[0]), dt.int32)
    return args[0] if args[0].dtype.is_integer and args[0].dtype.bits >= 32 else dtype_cast(args[0], dt.int32)


TRUTH = 'x is not None asks whether there is one; & and | combine elements, x.reduce("or") is whether any is true'
"""What to say in place of the truth value of a tensor."""


def _float(*args: Any) -> Any:
    """``float(x)``: float32; float64 stays."""
    if not args or not isinstance(args[0], (Expr, Known)):
        return float(*args)
    return args[0] if args[0].dtype == dt.float64 else dtype_cast(args[0], dt.float32)


def _bool(*args: Any) -> Any:
    if args and isinstance(args[0], Known):
        return known(bool(args[0]), dt.bool_)
    if args and isinstance(args[0], Tensor):
        raise TraceError(f"{args[0]!r} has no truth value", locs=(locate(),),
                         hint=TRUTH)
    return truth(args[0]) if args and isinstance(args[0], Expr) else bool(*args)


def _quantifier(own: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """``any`` and ``all`` of a static collection with some traced items."""
    def quantifier(items: Any) -> Any:
        values = list(items)
        traced: list[Any] = [truth(v) for v in values if isinstance(v, Expr)]
        decided = own(v for v in values if not isinstance(v, Expr))
        if not traced or bool(decided) is (kind == "or"):
            return known(decided, dt.bool_) if any(isinstance(v, (Expr, Known)) for v in values) else decided
        return functools.reduce(lambda a, b: bitwise(kind, a, b), traced)
    return quantifier


def _extremum(own: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    def extremum(*args: Any, key: Any = None, **options: Any) -> Any:
        items = args
        if len(args) == 1:
            math.refuse_one_tensor(own.__name__, args[0])
        if len(args) == 1 and isinstance(args[0], Iterable) and not _traced(args[0]):
            items = tuple(args[0])                      # a generator, too, is read once
            args, options = (items,), {} if items else options      # a default is for nothing
        if key is not None:
            keys = tuple(map(key, items))
            if any(map(_traced, keys)):
                return _first_by(own, items, keys)
            options["key"] = key
        return traced(*items) if any(_traced(item) for item in items) and not options else own(*args, **options)
    return extremum


def _first_by(own: Callable[..., Any], items: tuple[Any, ...], keys: tuple[Any, ...]) -> Any:
    """The first of the items whose key is the greatest, or least."""
    best, most = items[0], keys[0]
    for item, key in zip(items[1:], keys[1:], strict=True):
        better = key > most if own is max else key < most
        if isinstance(better, Expr) and not (is_scalar(item) and is_scalar(best)):
            raise TraceError(f"{own.__name__} chooses one of several objects by a key that is known only when the "
                             "kernel runs", hint="choose among numbers, or with an if", locs=(locate(),))
        if isinstance(better, Expr):
            best, most = where(better, item, best), where(better, key, most)
        elif better:
            best, most = item, key
    return best


def _round(value: Any, *digits: Any) -> Any:
    """``round(x)``: the nearest integer, ties to even; a scalar gives an int32, a tensor gives floats."""
    if not _traced(value):
        return round(value, *digits)
    if digits and digits != (None,):
        raise TraceError(f"round({value}, {digits[0]}): a kernel rounds to integers only",
                         hint="mo.round(x * 100) / 100 rounds to two digits", locs=(locate(),))
    if isinstance(value, Tensor):
        return math.round_(value)
    return value if value.dtype.is_integer else dtype_cast(math.round_(value), dt.int32)


def _beside(own: Callable[..., Any]) -> Callable[..., Any]:
    """``divmod`` and ``pow`` of two numbers, the first of which may be a Python float."""
    def function(first: Any, *others: Any, **options: Any) -> Any:
        return own(first, *(beside(first, other) for other in others), **options)
    return function


def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    """``pow(x, n)``: ``x ** n``; with a modulus Python's own, of integers that tracing knows."""
    if mod is None:
        return _beside(pow)(base, exp)
    if any(map(_traced, (base, exp, mod))):
        raise TraceError(f"pow({base}, {exp}, {mod}): a kernel has no powers with a modulus", locs=(locate(),),
                         hint="x ** n % m, or a loop that multiplies and takes % m each time, as x ** n may overflow")
    return pow(base, exp, mod)


def _sum(items: Any, /, start: Any = 0) -> Any:
    """As Python's own, from left to right."""
    values = [start, *items]
    if not any(isinstance(value, Known) for value in values):
        return sum(values[1:], start)
    return functools.reduce(lambda a, b: a + beside(a, b), values)


def _reversed(items: Any, /) -> Any:
    """As Python's own; a range whose bounds are known only when the kernel runs stays a loop of the kernel."""
    traced = isinstance(items, DynamicRange) and any(isinstance(x, Expr) for x in (items.start, items.stop, items.step))
    return items.backwards() if traced else reversed(items)


def _length(value: Any) -> int:
    if isinstance(value, Tensor):
        raise TraceError(f"len({value.label}): a tensor has modes", hint="mo.size(x, mode) or mo.rank(x)",
                         locs=(locate(),))
    return len(value)


def _isinstance(value: Any, asked: Any) -> bool:
    """As Python's own, where it asks for something else than a number."""
    if isinstance(value, Expr) and is_number_class(asked):
        raise no_class(value, f"whether {value!r} is a number of Python's")
    return isinstance(weak(value), asked)


def _type(*args: Any, **options: Any) -> Any:
    """As Python's own, of what is no scalar of the kernel; with three arguments it makes a class."""
    if len(args) != 1:
        return type(*args, **options)
    if isinstance(args[0], Expr):
        raise no_class(args[0], f"type({args[0]!r})")
    return type(weak(args[0]))


TRACED: dict[object, Callable[..., Any]] = {
    builtins.range: dynamic_range,
    builtins.reversed: _reversed,
    builtins.print: print_,
    builtins.breakpoint: breakpoint_,
    builtins.min: _extremum(min, math.minimum),
    builtins.max: _extremum(max, math.maximum),
    builtins.divmod: _beside(divmod),
    builtins.pow: _pow,
    builtins.sum: _sum,
    builtins.int: _int,
    builtins.float: _float,
    builtins.bool: _bool,
    builtins.round: _round,
    builtins.any: _quantifier(any, "or"),
    builtins.all: _quantifier(all, "and"),
    builtins.len: _length,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.str: text_of,
    builtins.repr: repr_of,
    builtins.format: format_of,
}
