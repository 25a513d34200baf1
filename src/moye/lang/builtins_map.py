"""The traced counterparts of Python's builtins inside a kernel.

In: a builtin function object.  Out: what a kernel calls instead.

>>> TRACED[range]     # dynamic_range: a loop of the kernel

Functions given static values behave as Python's own.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from moye import dtypes as dt
from moye.lang import math
from moye.lang.builtins import dtype_cast, print_
from moye.lang.loops import dynamic_range
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor


def _traced(value: object) -> bool:
    return isinstance(value, (Expr, Tensor))


def _number(convert: Callable[..., Any], dtype: dt.DType) -> Callable[..., Any]:
    def conversion(*args: Any) -> Any:
        return dtype_cast(args[0], dtype) if args and isinstance(args[0], Expr) else convert(*args)
    return conversion


def _bool(*args: Any) -> Any:
    return args[0] != 0 if args and isinstance(args[0], Expr) else bool(*args)


def _extremum(own: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    def extremum(*args: Any, **options: Any) -> Any:
        items = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return traced(*items) if any(_traced(item) for item in items) and not options else own(*args, **options)
    return extremum


def _round(value: Any, *digits: Any) -> Any:
    return math.round_(value) if _traced(value) else round(value, *digits)


TRACED: dict[object, Callable[..., Any]] = {
    builtins.range: dynamic_range,
    builtins.print: print_,
    builtins.min: _extremum(min, math.minimum),
    builtins.max: _extremum(max, math.maximum),
    builtins.int: _number(int, dt.int32),
    builtins.float: _number(float, dt.float32),
    builtins.bool: _bool,
    builtins.round: _round,
}
