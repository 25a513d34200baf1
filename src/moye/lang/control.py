"""Control flow while tracing: the one place that decides what is static and what becomes control flow of the kernel.

In: calls that ``rewrite.py`` put into the kernel (``loop``, ``while_``, ``if_``, ``and_``, ...).  Out: regions of IR,
and the merged values of the variables that they change.

    l = control.loop(range(n), ("x",), "i")       # for i in range(n), carrying x

Regions are traced once; where the facts of a carried value turn out weaker at the end of a loop body, once more.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.ir import ops
from moye.ir.nodes import Block
from moye.lang import branches, decided, functions, loops, python_builtins, texts
from moye.lang.carry import Undefined
from moye.lang.host_objects import Snapshot
from moye.lang.ranges import DynamicRange
from moye.lang.scopes import naming, regions
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, beside, no_text, operand_of, truth, wrap
from moye.tensor.known import Known, KnownInt, known
from moye.tensor.tensor import Tensor


class Control:
    """What rewritten code calls ``__moye__``; stateless, the state is the current trace's."""

    # --- statements ---

    def loop(self, iterable: object, names: tuple[str, ...], target: str) -> loops.Loop:
        """A for statement; a dynamic loop for ``range`` and ``mo.range``, else Python's own iteration."""
        if isinstance(iterable, DynamicRange):
            return loops.DynamicFor(iterable, names, target)
        if isinstance(iterable, (Expr, Tensor)):
            raise TraceError(f"a kernel cannot iterate over {iterable!r}", hint="loop over range(mo.size(x, mode))",
                             locs=(locate(),))
        if not isinstance(iterable, Iterable):
            raise TraceError(f"{iterable!r} cannot be iterated over", locs=(locate(),))
        return loops.StaticFor(iterable, names, target)

    def while_(self, names: tuple[str, ...], always: bool) -> loops.Loop:
        return loops.While(names, always)

    def if_(self, cond: object, names: tuple[str, ...], dead: tuple[str, ...] = (),
            called: tuple[str, ...] | None = None) -> branches.Branch:
        if isinstance(cond, Expr):
            return branches.DynamicIf(truth(cond), names, dead)
        if isinstance(cond, Known) and called is not None:
            return decided.DecidedIf(bool(cond), names, dead, called, sys._getframe(1).f_globals)
        return branches.StaticIf(bool(_truth_of(cond)), names)

    def function(self) -> functions.Returns:
        return functions.Returns(sys._getframe(1).f_code)

    def assert_(self, cond: object, message: Callable[[], object]) -> None:
        """A static assertion is checked now; a traced one by the simulator, and by the GPU on request."""
        if isinstance(cond, Expr):
            text = message()
            builder().emit(ops.Assert(cond=truth(cond).operand, message="" if text is None else texts.shown(text)))
        elif not cond:
            self._assert_now(message)

    def _assert_now(self, message: Callable[[], object]) -> None:
        text = message()
        told = "" if text is None else texts.shown(text)
        raise TraceError("assertion failed while tracing" + (f": {told}" if text is not None else ""),
                         locs=(locate(),))

    def fails(self, message: Callable[[], object]) -> None:
        """``assert False``: now, or when the kernel gets here."""
        if not under_a_condition():
            self._assert_now(message)
            return
        text = message()
        builder().emit(ops.Assert(cond=operand_of(False), message="" if text is None else texts.shown(text)))

    def raising(self) -> None:
        """A raise statement: only what tracing decides may raise."""
        if under_a_condition():
            raise TraceError("a kernel cannot raise under a traced condition: there are no exceptions on a device",
                             hint='say assert False, "message": the simulator reports it when a thread gets there',
                             locs=(locate(),))

    def subject(self, value: object) -> object:
        """The subject of a match statement: Python decides it, so it must be known."""
        if isinstance(value, (Expr, Tensor)):
            raise TraceError(f"a match statement cannot look at {value!r}, which is known only when the kernel runs",
                             hint="use if and elif", locs=(locate(),))
        return value

    def text(self, *parts: object) -> object:
        """An f-string; one with values of the kernel can be printed."""
        return texts.joined(parts)

    # --- expressions ---

    def beside(self, left: object, right: object) -> object:
        """The right operand, as a Python float on its left must have it."""
        return beside(left, right)

    def operator(self, symbol: str, left: object, right: object) -> object:
        """The two operands' arithmetic or comparison."""
        if isinstance(left, str) and any(isinstance(x, Expr) for x in _items(right)):
            no_text()
        return _OPERATORS[symbol](left, beside(left, right))

    def added(self, of: object, before: Callable[[], object], value: object) -> object:
        """What an augmented assignment adds to a part of something, or multiplies it with, and so on."""
        return beside(before(), value) if isinstance(value, KnownInt) and not isinstance(of, Tensor) else value

    def and_(self, *terms: Callable[[], object]) -> object:
        return self._short_circuit(terms, "land")

    def or_(self, *terms: Callable[[], object]) -> object:
        return self._short_circuit(terms, "lor")

    def _short_circuit(self, terms: tuple[Callable[[], object], ...], kind: str) -> object:
        value, by_facts = terms[0](), False
        for position in range(1, len(terms)):
            if isinstance(value, Expr):
                rest = terms[position:]
                return self._dynamic_logic(truth(value), rest, kind)
            by_facts |= isinstance(value, Known)
            if bool(_truth_of(value)) is (kind == "lor"):
                break
            value = terms[position]()
        if not by_facts:
            return value
        return truth(value) if isinstance(value, Expr) else known(bool(_truth_of(value)), dt.bool_)

    def _dynamic_logic(self, first: Expr, rest: tuple[Callable[[], object], ...], kind: str) -> Scalar:
        """``first and rest``: both sides at once where the right one is pure, else an if of the kernel."""
        b, host = builder(), Snapshot()
        b.open_conditions.append(first.operand if kind == "land" else b.unary("not", first.operand))
        with b.inside(Block()) as block:
            other = self._short_circuit(rest, kind)
            other = truth(other) if isinstance(other, Expr) else bool(_truth_of(other))
            right = operand_of(other, dt.bool_)
        b.open_conditions.pop()
        if changed := host.changed():
            raise TraceError(f"{next(iter(changed))} changes in an operand that may not run when the kernel does",
                             hint="change it in an if statement", locs=(locate(),))
        if branches.may_speculate(block):
            b.splice(block)
            return wrap(b.binary(kind, first.operand, right), first)
        return branches.guarded_value(first, block, right, kind)

    def not_(self, value: object) -> object:
        if isinstance(value, Expr):
            return wrap(builder().unary("not", truth(value).operand), value)
        return known(not bool(value), dt.bool_) if isinstance(value, Known) else not _truth_of(value)

    def chain(self, operators: tuple[str, ...], first: object, *terms: Callable[[], object]) -> object:
        """``a < b <= c``: each term evaluated once, in order."""
        values = [first]

        def step(i: int) -> Callable[[], object]:
            def evaluate() -> object:
                values.append(terms[i]())
                return self.operator(operators[i], values[i], values[i + 1])
            return evaluate

        return self.and_(*(step(i) for i in range(len(operators))))

    def ifexp(self, cond: object, then: Callable[[], object], orelse: Callable[[], object],
              called: Callable[[], tuple[object, ...]] | None) -> object:
        if isinstance(cond, Expr):
            return branches.conditional_value(truth(cond), then, orelse)
        taken, other = (then, orelse) if _truth_of(cond) else (orelse, then)
        return decided.decided_value(taken(), other, called) if isinstance(cond, Known) else taken()

    def builtin(self, function: object) -> object:
        """The traced counterpart of a Python builtin (``range``, ``min``, ``print``, ...); others as they are."""
        try:
            return python_builtins.TRACED.get(function, function)
        except TypeError:
            return function

    # --- names ---

    def name(self, name: str, value: Any) -> Any:
        return naming(name, value)

    def names(self, names: tuple[str, ...], values: Any) -> Any:
        items = tuple(values)
        if len(items) == len(names):
            return tuple(naming(n, v) for n, v in zip(names, items, strict=True))
        return items


def under_a_condition() -> bool:
    """Whether it is the kernel's values that decide whether this point is reached."""
    return builder().jumped or any(isinstance(region, branches.DynamicIf)
                                   or (isinstance(region, loops.Loop) and region.dynamic) for region in regions())


def _truth_of(value: object) -> object:
    if isinstance(value, (Tensor, Undefined)):
        raise TraceError(f"{value!r} has no truth value", locs=(locate(),))
    return value


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


_OPERATORS: dict[str, Callable[[Any, Any], object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "is": operator.is_, "is not": operator.is_not, "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}

CONTROL = Control()
