"""The stack of regions that are open while tracing, and the names that user variables give to values.

In: regions as they open and close.  Out: what lies between a statement and the loop or function that it leaves.

    with region("if"): ...

Kept per builder, so that nested traces do not see each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any
from weakref import WeakKeyDictionary

from moye.errors import TraceError
from moye.ir.builder import Builder
from moye.ir.nodes import Literal, Value
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr
from moye.tensor.tensor import AUTO, Tensor

_open: WeakKeyDictionary[Builder, list[object]] = WeakKeyDictionary()


def regions() -> list[object]:
    """The open regions of the current trace, outermost first: DynamicIf, loops, function markers."""
    return _open.setdefault(builder(), [])


def above(marker: object) -> list[object]:
    """The regions opened inside ``marker``."""
    stack = regions()
    return stack[stack.index(marker) + 1:]


def leave(marker: object) -> None:
    """Close a region, and what is open inside of it."""
    stack = regions()
    if marker in stack:
        del stack[stack.index(marker):]


def require_end(kind: str, through: bool) -> None:
    """TraceError for a jump of some threads ``through`` the end of a with statement: they would miss what ends it."""
    if through:
        raise TraceError(f"a {kind} that the kernel decides leaves a with statement, and what ends that would not be "
                         "done for the threads that jump", locs=(locate(),),
                         hint=f"set a flag in the with statement, and {kind} behind it")


def called(role: str, value: Any) -> Any:
    """Say what a value is that moye's own device code computes: printed under this name unless the user gives one."""
    operand = value.operand if isinstance(value, Expr) else None
    if isinstance(operand, Value):
        operand.role = operand.role or role
    return value


class Named(ABC):
    """What holds tensors of its own and calls them after the variable that it is assigned to."""

    __slots__ = ()

    @abstractmethod
    def named(self, name: str) -> None: ...


def naming(name: str, value: Any) -> Any:
    """Give a fresh value or tensor the name of the user's variable that it is assigned to."""
    if isinstance(value, Expr):
        operand = value.operand
        if isinstance(operand, Value) and not operand.name and operand.op is not None:
            operand.name = name
        elif isinstance(operand, Literal):
            return value
        return value
    if isinstance(value, Tensor):
        if value.buffer.name.startswith(AUTO):
            value.buffer.name = name
        start = value.offset.operand if isinstance(value.offset, Expr) else None
        if isinstance(start, Value):
            start.view = start.view or name
        if value.name == name:
            return value
        return Tensor(value.buffer, value.offset, value.layout, value.dtype, value.swizzle, name, value.order,
                      value.origin)
    if isinstance(value, Named):
        value.named(name)
    return value
