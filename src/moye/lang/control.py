"""Control flow while tracing: the one place that decides what is static and what becomes control flow of the kernel.

In: calls that ``rewrite.py`` put into the kernel (``loop``, ``while_``, ``if_``, ``and_``, ...).  Out: regions of IR,
and the merged values of the variables that they change.

    l = control.loop(range(n), ("x",), "i")       # for i in range(n), carrying x

Regions are traced once; where the facts of a carried value turn out weaker at the end of a loop body, once more.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.ir import constants, ops
from moye.ir.nodes import Block
from moye.lang import branches, decided, functions, identity, loops, python_builtins, texts, unrolled
from moye.lang.annotations import dtype_of
from moye.lang.carry import Undefined
from moye.lang.host_objects import Snapshot
from moye.lang.ranges import DynamicRange
from moye.lang.scopes import naming, regions
from moye.tensor.asking import KEEP_ITEMS
from moye.tensor.context import builder, locate
from moye.tensor.expr import (
    Expr,
    Scalar,
    beside,
    is_scalar,
    no_text,
    operand_of,
    plain,
    together,
    truth,
    typed,
    where,
    wrap,
)
from moye.tensor.known import Known, KnownBool, KnownInt, known, weak
from moye.tensor.tensor import Tensor


class Control:
    """What rewritten code calls ``__moye__``; stateless, the state is the current trace's."""

    # --- statements ---

    def loop(self, iterable: Any, names: tuple[str, ...], target: str, jumps: tuple[str, ...] = ()) -> loops.Loop:
        """A for statement; a dynamic loop for ``range`` and ``mo.range``, else Python's own iteration."""
        if isinstance(iterable, DynamicRange):
            return loops.DynamicFor(iterable, names, target)
        if isinstance(iterable, (Expr, Tensor)):
            raise TraceError(f"a kernel cannot iterate over {iterable!r}", hint="loop over range(mo.size(x, mode))",
                             locs=(locate(),))
        if not isinstance(iterable, Iterable) and not hasattr(type(iterable), "__getitem__"):
            raise TraceError(f"{iterable!r} cannot be iterated over", locs=(locate(),))
        return unrolled.StaticFor(iterable, names, target, jumps)

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
            builder().emit(ops.Assert(cond=truth(cond).operand, message=_told(message)))
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
        builder().emit(ops.Assert(cond=operand_of(False), message=_told(message)))

    def raising(self) -> None:
        """A raise statement: only what tracing decides may raise."""
        if under_a_condition():
            raise TraceError("a kernel cannot raise under a traced condition: there are no exceptions on a device",
                             hint='say assert False, "message": the simulator reports it when a thread gets there',
                             locs=(locate(),))

    def alone(self, text: str, value: object) -> None:
        """A name that is a statement: nothing happens, which is not what a function of moye was named for."""
        if callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] == "moye":
            raise TraceError(f"{text} is a function, and a statement that only names it does nothing",
                             hint=f"call it: {text}()", locs=(locate(),))

    def subject(self, truths: bool, value: object) -> object:
        """The subject of a match statement: Python decides it, so it must be known; ``truths``: by identity."""
        value = bool(value) if isinstance(value, KnownBool) else value
        if isinstance(value, (Expr, Tensor)):
            raise TraceError(f"a match statement cannot look at {value!r}, which is known only when the kernel runs",
                             hint="use if and elif", locs=(locate(),))
        if truths and _holds_truths(value):
            raise TraceError("a match statement cannot tell whether values of the kernel are True or False",
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
        """``a and b`` where only its truth is asked, as in a condition."""
        return self._short_circuit(terms, "land")

    def or_(self, *terms: Callable[[], object]) -> object:
        return self._short_circuit(terms, "lor")

    def and_value(self, called: Called | None, *terms: Callable[[], object]) -> object:
        """``a and b`` as Python has it: the operand that decides."""
        return self._deciding(terms, "land", called)

    def or_value(self, called: Called | None, *terms: Callable[[], object]) -> object:
        return self._deciding(terms, "lor", called)

    def _short_circuit(self, terms: tuple[Callable[[], object], ...], kind: str, by_facts: bool = False) -> object:
        value, others = terms[0](), terms[1:]
        if isinstance(value, Expr) and others:
            return self._dynamic_logic(truth(value), lambda: _bool_of(self._short_circuit(others, kind)), kind)
        if not others or bool(_truth_of(value)) is (kind == "lor"):
            if not by_facts and not isinstance(value, Known):
                return value
            return truth(value) if isinstance(value, Expr) else known(bool(_truth_of(value)), dt.bool_)
        return self._short_circuit(others, kind, by_facts or isinstance(value, Known))

    def _deciding(self, terms: tuple[Callable[[], object], ...], kind: str, called: Called | None) -> object:
        value, others = terms[0](), terms[1:]
        if not others:
            return value
        if isinstance(value, Expr):
            return self._dynamic_logic(value, lambda: self._deciding(others, kind, called), kind)
        if bool(_truth_of(value)) is (kind == "lor"):
            taken, other = value, lambda: self._deciding(others, kind, called)
        else:
            taken, other = self._deciding(others, kind, called), lambda: value
        return decided.decided_value(taken, other, called) if isinstance(value, Known) else taken

    def _dynamic_logic(self, first: Expr, rest: Callable[[], object], kind: str) -> Scalar:
        """``first and rest``: both sides at once where the right one is pure, else an if of the kernel."""
        b, host, cond = builder(), Snapshot(), truth(first)
        b.open_conditions.append(cond.operand if kind == "land" else b.unary("not", cond.operand))
        with b.inside(Block()) as block:
            other: Any = rest()
            if not is_scalar(other):
                raise TraceError(f"{first!r} {_WORDS[kind]} {other!r}: one of both is the result, and a scalar and "
                                 "something else cannot be one value", hint="use an if statement", locs=(locate(),))
            dtype = together(first, other)
            right = operand_of(other, dtype)
        b.open_conditions.pop()
        if changed := host.changed():
            raise TraceError(f"{next(iter(changed))} changes in an operand that may not run when the kernel does",
                             hint="change it in an if statement", locs=(locate(),))
        if not branches.may_speculate(block):
            return branches.guarded_value(first, block, right, kind)
        b.splice(block)
        if dtype == dt.bool_:
            return wrap(b.binary(kind, cond.operand, right), first)
        return where(cond, wrap(right), first) if kind == "land" else where(cond, first, wrap(right))

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
              called: Called | None) -> object:
        if isinstance(cond, Expr):
            return branches.conditional_value(truth(cond), then, orelse)
        taken, other = (then, orelse) if _truth_of(cond) else (orelse, then)
        return decided.decided_value(taken(), other, called) if isinstance(cond, Known) else taken()

    def chosen(self, cond: object) -> bool:
        """A condition of a comprehension."""
        if isinstance(cond, Expr):
            raise TraceError("a comprehension chooses its items while tracing, and this condition is known only when "
                             "the kernel runs", hint=KEEP_ITEMS, locs=(locate(),))
        return bool(_truth_of(cond))

    def builtin(self, function: Any, bound: tuple[str, ...] = ()) -> Any:
        """The traced counterpart of a Python builtin (``range``, ``min``, ``print``, ...); others as they are.

        ``bound`` are names that a walrus in the items of ``any`` or ``all`` binds for others to read.
        """
        try:
            found = python_builtins.TRACED.get(function, function)
        except TypeError:
            return function
        return functools.partial(found, bound=bound) if bound and found is not function else found

    # --- names ---

    def annotated(self, names: tuple[Callable[[], object], ...], value: Any) -> Any:
        """``total: mo.float64 = 0``: a number has the dtype that its variable is annotated with."""
        found = set()
        for look_up in names:
            with contextlib.suppress(NameError, AttributeError):        # Python would not look
                found.add(dtype_of(look_up()))
        found.discard(None)
        return of_dtype(found.pop(), value) if len(found) == 1 else value

    def name(self, name: str, value: Any) -> Any:
        return naming(name, value)

    def names(self, names: tuple[str, ...], values: Any) -> Any:
        items = tuple(values)
        if len(items) == len(names):
            return tuple(naming(n, v) for n, v in zip(names, items, strict=True))
        return items


def of_dtype(dtype: dt.DType | None, value: Any) -> Any:
    """A number as one of this dtype; anything else, and without a dtype, as it is."""
    if dtype is None or not is_scalar(value) or getattr(value, "dtype", None) == dtype:
        return value
    return value.to(dtype) if isinstance(value, Expr) else Expr(operand_of(value, dtype))


def under_a_condition() -> bool:
    """Whether it is the kernel's values that decide whether this point is reached."""
    return builder().jumped or any(isinstance(region, branches.DynamicIf)
                                   or (isinstance(region, loops.Loop) and region.dynamic) for region in regions())


def _told(message: Any) -> str:
    """The message of an assertion that the kernel decides: Python makes it only where that fails."""
    if not (message.__code__.co_names or message.__code__.co_freevars):     # none, or a constant: most are
        text = message()
        return "" if text is None else texts.shown(text)
    b, host = builder(), Snapshot()
    with b.inside(Block()) as block:
        text = message()
    if branches.acts(block) or host.changed():
        raise TraceError("the message of an assert changes something, which Python would do only where it fails",
                         hint="do it in a statement of its own", locs=(locate(),))
    b.splice(block)
    return "" if text is None else texts.shown(text)


def _holds_truths(value: Any) -> bool:
    """Whether there are numbers of the kernel in a match statement's subject, of which none is True or False."""
    if isinstance(value, (tuple, list)):
        return any(map(_holds_truths, value))
    if isinstance(value, dict):
        return _holds_truths(list(value.values()))
    if is_dataclass(value) and not isinstance(value, type):
        return any(_holds_truths(getattr(value, f.name)) for f in fields(value))
    return isinstance(value, (Expr, KnownBool))


def _truth_of(value: object) -> object:
    if isinstance(value, (Tensor, Undefined)):
        hint = python_builtins.TRUTH
        raise TraceError(f"{value!r} has no truth value", locs=(locate(),),
                         hint=hint if isinstance(value, Tensor) else None)
    return value


def _bool_of(value: object) -> Scalar:
    return truth(value) if isinstance(value, Expr) else bool(_truth_of(value))


def _identical(a: object, b: object) -> bool:
    """``a is b``; of a number of the kernel and another number it would be false, whatever they are."""
    numbers, traced = is_scalar(a) and is_scalar(b), isinstance(a, (Expr, Known)) or isinstance(b, (Expr, Known))
    if numbers and traced:
        raise TraceError(f"{a!r} is {b!r}: numbers of a kernel are equal or not, and none is another's object",
                         hint="use ==", locs=(locate(),))
    if a is not b and isinstance(a, Tensor) and isinstance(b, Tensor):      # each name has a view of its own
        raise TraceError(f"{a.label} is {b.label}: two names of tensors are never known to be one object",
                         hint="tell them apart by an argument of your own", locs=(locate(),))
    if identity.may_be(a, b):
        raise TraceError(f"a loop, branch or early return of the kernel decides which {type(a).__name__} this is, so "
                         "that tracing cannot know whether two names mean one object", locs=(locate(),),
                         hint="compare what is in the objects, such as a number of each")
    return a is b


def _member(item: object, of: Any) -> object:
    """``item in of``: whether it equals one of the elements, which a kernel may have to find out."""
    if isinstance(of, (range, DynamicRange)) and isinstance(item, Expr) and item.dtype.is_integer:
        return _counted(item, of)
    if isinstance(of, DynamicRange) and is_scalar(item):
        bounds = of.start, of.stop, of.step
        if not any(isinstance(x, Expr) for x in bounds):
            return plain(item) in of.static()
        if isinstance(weak(item), int):
            return _counted(Expr(operand_of(plain(item))), of)
    asked = type(of) in (tuple, list, set, frozenset, dict, *_VIEWS) and any(map(_has_traced, (item, *of)))
    if not asked or not of:
        return item in of
    return CONTROL.or_(*(functools.partial(_equal, item, x) for x in of))


def _equal(a: Any, b: Any) -> object:
    """``a == b``; tuples are equal if all of their items are, which a kernel may have to find out."""
    if _traced_tuples(a, b):
        return len(a) == len(b) and CONTROL.and_(*(functools.partial(_equal, x, y) for x, y in zip(a, b, strict=True)))
    return operator.eq(a, b)


def _unequal(a: Any, b: Any) -> object:
    return CONTROL.not_(_equal(a, b)) if _traced_tuples(a, b) else operator.ne(a, b)


def _traced_tuples(a: object, b: object) -> bool:
    return type(a) is type(b) is tuple and (_has_traced(a) or _has_traced(b))


def _has_traced(value: object) -> bool:
    return isinstance(value, Expr) or (type(value) is tuple and any(map(_has_traced, value)))


def _counted(item: Expr, of: range | DynamicRange) -> object:
    """Whether a loop over the range comes to this integer."""
    up = not isinstance(of.step, int) or of.step > 0
    first, last = (operator.le, operator.lt) if up else (operator.ge, operator.gt)
    tests: list[Callable[[], Any]] = [lambda: first(of.start, item), lambda: last(item, of.stop)]
    if of.step not in (1, -1):
        tests.append(lambda: _on_a_step(item, of))
    return CONTROL.and_(*tests)


def _on_a_step(item: Expr, of: range | DynamicRange) -> object:
    """Whether an integer is the start of a range plus steps of it.

    Remainders are compared: a difference might leave the dtype.  They are taken in one that holds all numbers.
    """
    step: Any = abs(of.step) if isinstance(of.step, int) else of.step
    start: Any = of.start % step if isinstance(of.start, int) and isinstance(step, int) else of.start
    numbers = item, start, step
    dtypes = [x.dtype for x in numbers if isinstance(x, (Expr, Known))]
    least = min(0, *(x for x in numbers if isinstance(x, int)))
    unsigned = least == 0 and all(dtype.kind is dt.Kind.UINT for dtype in dtypes)
    words = (dt.uint32, dt.uint64) if unsigned else (dt.int32, dt.int64)
    narrow = all(dt.promote(dtype, words[0]) is words[0] for dtype in dtypes) and \
        all(constants.fits(x, words[0]) for x in numbers if isinstance(x, int))
    if not unsigned and isinstance(of.stop, int):
        operand_of(of.stop, dt.int64)                   # what lies below it fits too
    value, begin, by = (typed(x, words[not narrow]) for x in numbers)
    return value % by == begin % by


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


Called = Callable[[], tuple[object, ...]]
_VIEWS: tuple[type, ...] = type({}.keys()), type({}.values())
_WORDS = {"land": "and", "lor": "or"}
_OPERATORS: dict[str, Callable[[Any, Any], object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": _equal, "!=": _unequal,
    "is": _identical, "is not": lambda a, b: not _identical(a, b),
    "in": _member, "not in": lambda a, b: CONTROL.not_(_member(a, b)),
}

CONTROL: Control = Control()
