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
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.ir.nodes import Block
from moye.lang import math
from moye.lang.branches import acts, guarded_value
from moye.lang.builtins import dtype_cast
from moye.lang.debug import breakpoint_, print_
from moye.lang.host_objects import Snapshot
from moye.lang.ranges import DynamicRange, dynamic_range
from moye.lang.texts import format_of, repr_of, text_of
from moye.tensor.asking import is_number_class, no_class
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, beside, bitwise, is_scalar, operand_of, truth, where
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


class _Quantifier:
    """``any`` and ``all``: of a collection whose items are there, or of an iterator, which Python asks no longer than
    it must.
    """

    def __init__(self, own: Callable[..., Any], kind: str) -> None:
        self._own, self._kind, self._ends = own, kind, kind == "or"

    def __call__(self, items: Any, bound: tuple[str, ...] = ()) -> Any:
        """``bound`` are the names that a walrus among the items binds for others to read."""
        if isinstance(items, Iterator):
            return self._asked(items, bound)
        values = list(items)
        traced: list[Any] = [truth(v) for v in values if isinstance(v, Expr)]
        decided = self._own(v for v in values if not isinstance(v, Expr))
        if not traced or bool(decided) is self._ends:
            return known(decided, dt.bool_) if any(isinstance(v, (Expr, Known)) for v in values) else decided
        return functools.reduce(self._both, traced)

    def _both(self, a: Any, b: Any) -> Any:
        return bitwise(self._kind, a, b)

    def _asked(self, items: Iterator[Any], bound: tuple[str, ...]) -> Any:
        """Tracing decides up to the first item that only the kernel knows."""
        of_kernel = False
        for value in items:
            if isinstance(value, Expr):
                return self._undecided(truth(value), items, bound)
            of_kernel |= isinstance(value, Known)
            if bool(value) is self._ends:
                return known(self._ends, dt.bool_) if of_kernel else self._ends
        return known(not self._ends, dt.bool_) if of_kernel else not self._ends

    def _undecided(self, so_far: Any, items: Iterator[Any], bound: tuple[str, ...]) -> Any:
        if bound:
            raise TraceError(f"{self._own.__name__} may end before := binds {bound[0]}, when the kernel runs",
                             locs=(locate(),), hint=f"write a for loop that assigns {bound[0]}")
        host, decided = Snapshot(), False
        while not decided:
            with builder().inside(Block()) as block:
                item = next(items, _NONE)
                item = truth(item) if isinstance(item, Expr) else item
            decided = item is _NONE or (not isinstance(item, Expr) and bool(item) is self._ends)
            so_far = self._with(so_far, block, not self._ends if item is _NONE else item)
        if changed := host.changed():
            raise TraceError(f"{next(iter(changed))} changes in an item that {self._own.__name__} may not come to when "
                             "the kernel runs", hint="change it in a for loop that ends with break", locs=(locate(),))
        return so_far

    def _with(self, so_far: Any, block: Block, item: Any) -> Any:
        """The next item as well: what it does besides is done only if those before it leave the answer open."""
        if isinstance(so_far, Expr) and acts(block):
            of_item = operand_of(item if isinstance(item, Expr) else bool(item), dt.bool_)
            return guarded_value(so_far, block, of_item, "lor" if self._ends else "land")
        builder().splice(block)
        if isinstance(item, Expr):
            return self._both(so_far, item)
        return known(self._ends, dt.bool_) if bool(item) is self._ends else so_far


_NONE = object()


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
    builtins.any: _Quantifier(any, "or"),
    builtins.all: _Quantifier(all, "and"),
    builtins.len: _length,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.str: text_of,
    builtins.repr: repr_of,
    builtins.format: format_of,
}
