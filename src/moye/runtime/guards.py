"""Launch-time checks of what a trace assumed, compiled to one Python function.

In: a Func with guards.  Out: ``check(slots, grid)``, which raises PreconditionError with the first broken assumption.

    check = compile_guards(func); check([2047, 256, ...], (16, 16, 1))

``slots`` are the runtime numbers of the parameters: for each tensor its extents, then its strides; scalars as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moye.dtypes import Kind, int32
from moye.errors import IRError, PreconditionError
from moye.ir import fold, ops
from moye.ir.constants import fits
from moye.ir.nodes import Func, Guard, Literal, Op, Operand, ScalarParam, TensorParam, Value

Check = Callable[[Sequence[Any], tuple[int, int, int]], None]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=",
          "eq": "==", "ne": "!=", "land": "and", "lor": "or", "and": "&", "or": "|", "xor": "^"}
_PREFIX = {"neg": "-", "not": "not ", "abs": "abs"}


def slot_names(func: Func) -> dict[int, str]:
    """Where each parameter Value lies in the list of runtime numbers."""
    names: dict[int, str] = {}
    position = 0
    for param in func.params:
        if isinstance(param, ScalarParam):
            names[param.value.id] = f"s[{position}]"
            position += 1
        elif isinstance(param, TensorParam):
            for entry in (*param.shape, *param.strides):
                if isinstance(entry, Value):
                    names[entry.id] = f"s[{position}]"
                position += 1
    return names


def compile_guards(func: Func) -> Check:
    """One function that checks every guard."""
    names = slot_names(func)
    lines = ["def check(s, g):"]
    conditions: dict[str, int] = {}  # equal ones once: a loop's body may have been traced twice
    for index, guard in enumerate(func.guards):
        conditions.setdefault(_python(guard.cond, names), index)
    lines.append("    try:")
    for condition, index in conditions.items():
        lines.append(f"        if not {condition}: fail({index}, s, g)")
    lines.append("        return None")
    lines.append("    except Undefined: undefined(s, g)")
    namespace: dict[str, Any] = {**_FUNCTIONS, "fail": _failure(func, names), "Undefined": ZeroDivisionError,
                                 "undefined": _undefined(func, names)}
    exec("\n".join(lines), namespace)
    check: Check = namespace["check"]
    return check


def block_arithmetic(func: Func) -> list[Op]:
    """The operations of a kernel that block indices go into, and arithmetic of 32 bits on what comes out of these."""
    known: set[int] = set()
    found: list[Op] = []
    for op in func.body.walk():
        if not isinstance(op, (ops.Special, ops.Binary)):
            continue
        if op.kind.startswith("block_") if isinstance(op, ops.Special) else op.result.dtype is int32 and any(
                isinstance(x, Value) and x.id in known for x in (op.a, op.b)):
            found.append(op)
            known.add(op.result.id)
    return found


def counts_elements(func: Func) -> bool:
    """Whether a kernel multiplies extents of its arguments with each other, as ``mo.size(x)`` does."""
    extents = {entry.id for param in func.params if isinstance(param, TensorParam) for entry in param.shape
               if isinstance(entry, Value)}
    for op in func.body.walk():
        if isinstance(op, ops.Binary) and op.kind == "mul" and all(isinstance(x, Value) and x.id in extents
                                                                   for x in (op.a, op.b)):
            return True
    return False


def leaves_32_bits(arithmetic: Sequence[Op], grid: tuple[int, int, int]) -> bool:
    """Whether arithmetic on block indices and constants may leave 32 bits in a launch of this grid.

    It says nothing of values that are known when the kernel runs, arguments among them.
    """
    known: dict[int, fold.Facts] = {}

    def of(x: Operand) -> fold.Facts:
        return known[x.id] if isinstance(x, Value) and x.id in known else fold.facts_of(x)

    for op in arithmetic:
        if isinstance(op, ops.Special):
            known[op.result.id] = 0, grid["xyz".index(op.kind[-1])] - 1, 1
        elif isinstance(op, ops.Binary) and any(isinstance(x, Value) and x.id in known for x in (op.a, op.b)):
            lower, upper, divisor = fold.combined(op.kind, of(op.a), of(op.b))
            if lower is None or upper is None:
                continue
            if op.kind in ("add", "sub", "mul", "shl") and not (fits(lower, int32) and fits(upper, int32)):
                return True
            known[op.result.id] = lower, upper, divisor
    return False


def _failure(func: Func, names: dict[int, str]) -> Callable[[int, Sequence[Any], tuple[int, int, int]], None]:
    def fail(index: int, s: Sequence[Any], g: tuple[int, int, int]) -> None:
        guard: Guard = func.guards[index]
        raise PreconditionError(f"{func.name}: {_told(guard, names, s, g)}", hint=guard.hint, locs=(guard.loc,),
                                code=guard.code)
    return fail


def _undefined(func: Func, names: dict[int, str]) -> Callable[[Sequence[Any], tuple[int, int, int]], None]:
    """What is raised for the first assumption whose value cannot be computed."""
    def undefined(s: Sequence[Any], g: tuple[int, int, int]) -> None:
        for guard in func.guards:
            try:
                _value(guard.cond, names, s, g)
            except ZeroDivisionError as error:
                raise PreconditionError(f"{func.name}: {_told(guard, names, s, g)}: {error}, in what is assumed",
                                        hint=guard.hint, locs=(guard.loc,), code=guard.code) from None
    return undefined


def _told(guard: Guard, names: dict[int, str], s: Sequence[Any], g: tuple[int, int, int]) -> str:
    """The message of a guard, with its numbers; a number that has no value is a question mark."""
    fields: dict[str, Any] = {}
    for name, operand in guard.fields.items():
        try:
            fields[name] = _value(operand, names, s, g)
        except ZeroDivisionError:
            fields[name] = "?"
    return guard.message.format(**fields) if fields else guard.message


def _value(operand: Operand, names: dict[int, str], s: Sequence[Any], g: tuple[int, int, int]) -> Any:
    return eval(_python(operand, names), {**_FUNCTIONS, "s": s, "g": g})


def _shift_left(a: int, b: int) -> int:
    # Python would make a number of any size of it, and the device none: such a guard has no value.
    if not 0 <= b < _MOST_BITS:
        raise ZeroDivisionError(f"a shift by {b}")
    return a << b


def _shift_right(a: int, b: int) -> int:
    if b < 0:
        raise ZeroDivisionError(f"a shift by {b}")
    return a >> b


_MOST_BITS = 64
_FUNCTIONS: dict[str, Any] = {"min": min, "max": max, "abs": abs, "shl": _shift_left, "shr": _shift_right}


def _python(operand: Operand, names: dict[int, str]) -> str:
    """An operand made of parameters and grid extents, as Python source."""
    if isinstance(operand, Literal):
        return repr(operand.value)
    if operand.id in names:
        return names[operand.id]
    op = operand.op
    if isinstance(op, ops.Special) and op.kind.startswith("grid_"):
        return f"g[{'xyz'.index(op.kind[-1])}]"
    if isinstance(op, ops.Binary):
        a, b = _python(op.a, names), _python(op.b, names)
        if op.kind in _FUNCTIONS:
            return f"{op.kind}({a}, {b})"
        return f"({a} {_INFIX[op.kind]} {b})"
    if isinstance(op, ops.Cast):
        return f"({_python(op.a, names)} != 0)" if op.result.dtype.kind is Kind.BOOL else _python(op.a, names)
    if isinstance(op, ops.Unary) and op.kind in _PREFIX:
        return f"({_PREFIX[op.kind]}({_python(op.a, names)}))"
    if isinstance(op, ops.Select):
        return f"({_python(op.a, names)} if {_python(op.cond, names)} else {_python(op.b, names)})"
    raise IRError(f"a guard of the kernel depends on {type(op).__name__}, which launch cannot evaluate")
