"""Formulas over arguments as C: the guards of a Func, and a grid that an author computes from extents.

In: an operand, and where its parameters are in the C; or a Python function of extents.  Out: C expressions.

    c_expression(guard.cond, names)         # '(moye_mod(y.shape[0], 4, &bad) == 0)'

Numbers are int64_t with floor semantics.  What leaves 64 bits or divides by zero sets ``bad``, so that no formula is
wrong in silence.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import NoReturn

from moye.dtypes import Kind
from moye.errors import ArgumentError, UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Func, Literal, Operand, ScalarParam, TensorParam, Value
from moye.layout.ints import DynInt, Int

_CHECKED = {"add": "moye_add", "sub": "moye_sub", "mul": "moye_mul", "floordiv": "moye_floordiv", "mod": "moye_mod",
            "shl": "moye_shl", "shr": "moye_shr"}
_PLAIN = {"min": "moye_min", "max": "moye_max"}
_INFIX = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "&&", "lor": "||", "and": "&",
          "or": "|", "xor": "^"}
_MOST = 1 << 63


def number(value: int) -> str:
    """An integer as a C constant."""
    if not -_MOST < value < _MOST:
        raise UnsupportedError(f"export: {value} does not fit 64 bits, in what a launch assumes")
    return f"INT64_C({value})" if abs(value) >= 1 << 31 else str(value)


def slot_names(func: Func, arguments: Mapping[str, str]) -> dict[int, str]:
    """Where each parameter Value is in the C; ``arguments`` has the C name of each parameter."""
    names: dict[int, str] = {}
    for param in func.params:
        own = arguments[param.name]
        if isinstance(param, ScalarParam):
            names[param.value.id] = f"(int64_t){own}"
        elif isinstance(param, TensorParam):
            for what, entries in (("shape", param.shape), ("strides", param.strides)):
                names |= {entry.id: f"{own}->{what}[{mode}]" for mode, entry in enumerate(entries)
                          if isinstance(entry, Value)}
    return names


def c_expression(operand: Operand, names: Mapping[int, str], kernel: str) -> str:
    """An operand made of parameters and grid extents, as C; UnsupportedError if C would not compute the same."""
    if isinstance(operand, Literal):
        if isinstance(operand.value, float):
            _refuse(kernel, f"the float {operand.value}")
        return number(int(operand.value))
    if operand.id in names:
        if operand.dtype.is_float or (operand.dtype.bits == 64 and not operand.dtype.is_signed):
            _refuse(kernel, f"a scalar of {operand.dtype}")
        return names[operand.id]
    op = operand.op

    def of(x: Operand) -> str:
        return c_expression(x, names, kernel)

    if isinstance(op, ops.Special) and op.kind.startswith("grid_"):
        return f"grid[{'xyz'.index(op.kind[-1])}]"
    if isinstance(op, ops.Binary):
        return _binary(op.kind, of(op.a), of(op.b), kernel)
    if isinstance(op, ops.Cast):
        return f"({of(op.a)} != 0)" if op.result.dtype.kind is Kind.BOOL else of(op.a)
    if isinstance(op, ops.Unary):
        if op.kind == "not":
            return f"!({of(op.a)})"
        if op.kind == "neg":
            return f"moye_sub(0, {of(op.a)}, &bad)"
        if op.kind == "abs":
            return f"moye_max({of(op.a)}, moye_sub(0, {of(op.a)}, &bad))"
    if isinstance(op, ops.Select):
        return f"({of(op.cond)} ? {of(op.a)} : {of(op.b)})"
    _refuse(kernel, type(op).__name__)


def _binary(kind: str, a: str, b: str, kernel: str) -> str:
    if kind in _CHECKED:
        return f"{_CHECKED[kind]}({a}, {b}, &bad)"
    if kind in _PLAIN:
        return f"{_PLAIN[kind]}({a}, {b})"
    if kind in _INFIX:
        return f"({a} {_INFIX[kind]} {b})"
    _refuse(kernel, kind)


def _refuse(kernel: str, what: str) -> NoReturn:
    raise UnsupportedError(f"export: a precondition of {kernel} depends on {what}, which the C source cannot check")


def told(operand: Operand, names: Mapping[int, str]) -> str:
    """An operand in a message: the number, or what it is of the arguments; ``...`` where it is longer than that."""
    if isinstance(operand, Literal):
        return str(operand.value)
    if operand.id in names:
        return names[operand.id].replace("->", ".").replace("(int64_t)", "")
    return "..."


_SHOWN = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "shl": "<<", "shr": ">>", "and": "&",
          "xor": "^"}


class Formula(DynInt):
    """An extent or a stride that the author of a grid computes with: ``text`` is its C, ``shown`` what people read."""

    __slots__ = ("shown", "text")
    divisor, lower, upper = 1, None, None

    def __init__(self, text: str, shown: str) -> None:
        self.text, self.shown = text, shown

    def _by(self, kind: str, a: Int, b: Int) -> Formula:
        return Formula(_binary(kind, formula_text(a), formula_text(b), "a grid"), f"({a} {_SHOWN[kind]} {b})")

    def __add__(self, other: Int) -> Formula:
        return self._by("add", self, other)

    def __radd__(self, other: Int) -> Formula:
        return self._by("add", other, self)

    def __sub__(self, other: Int) -> Formula:
        return self._by("sub", self, other)

    def __rsub__(self, other: Int) -> Formula:
        return self._by("sub", other, self)

    def __neg__(self) -> Formula:
        return self._by("sub", 0, self)

    def __mul__(self, other: Int) -> Formula:
        return self._by("mul", self, other)

    def __rmul__(self, other: Int) -> Formula:
        return self._by("mul", other, self)

    def __floordiv__(self, other: Int) -> Formula:
        return self._by("floordiv", self, other)

    def __rfloordiv__(self, other: Int) -> Formula:
        return self._by("floordiv", other, self)

    def __mod__(self, other: Int) -> Formula:
        return self._by("mod", self, other)

    def __rmod__(self, other: Int) -> Formula:
        return self._by("mod", other, self)

    def __and__(self, other: Int) -> Formula:
        return self._by("and", self, other)

    def __xor__(self, other: Int) -> Formula:
        return self._by("xor", self, other)

    def __lshift__(self, other: Int) -> Formula:
        return self._by("shl", self, other)

    def __rshift__(self, other: Int) -> Formula:
        return self._by("shr", self, other)

    def __hash__(self) -> int:
        return hash(self.text)

    def same(self, other: Int) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def exact_div(self, divisor: Int) -> Formula:
        return self // divisor

    def require_divisible(self, divisor: Int, what: str, code: str = "A12") -> Formula:
        return self // divisor

    def _compared(self, other: object = None) -> NoReturn:
        raise ArgumentError("grid= compares extents, or uses one as a Python integer, and in C they are known only at "
                            "a launch", hint="compute with + - * // % and mo.ceil_div, or leave grid= out: the C "
                                             "function then takes the grid")

    def _fraction(self, other: object = None) -> NoReturn:
        raise ArgumentError("grid= divides by /, and extents in C are integers", hint="use // or mo.ceil_div")

    __truediv__ = __rtruediv__ = _fraction
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __bool__ = __index__ = __int__ = __float__ = _compared

    def __repr__(self) -> str:
        return self.shown


def formula_text(value: object) -> str:
    """A number that a grid has, as C; ArgumentError if it is none."""
    if isinstance(value, Formula):
        return value.text
    try:
        return number(operator.index(value))            # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"grid= computes {value!r}, which is no integer") from None
