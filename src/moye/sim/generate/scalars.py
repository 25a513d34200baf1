"""Scalar ops as Python source: infix on Python numbers where uniform, NumPy calls on arrays elsewhere.

In: a Writer and an op.  Out: one or two lines.

    v12 = v3 + 4                # uniform, and its facts exclude overflow
    v13 = np.multiply(v12, v7)  # an array

Which function a kind is stands in values/scalars.py.
"""

from __future__ import annotations

from collections.abc import Callable

from moye import dtypes as dt
from moye.dtypes import DType, Kind
from moye.ir import fold, ops
from moye.ir.constants import kept, limits, loses
from moye.ir.nodes import Func, Operand, Value
from moye.sim.flow.uniformity import SCALAR
from moye.sim.flow.widened import widened, wraps_unseen
from moye.sim.generate.writer import Writer, emits
from moye.sim.values import scalars
from moye.sim.values.fma import multiply_add

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!=", "land": "and", "lor": "or"}
_GROWS = ("add", "sub", "mul", "shl", "floordiv")


@emits(ops.Binary)
def emit_binary(w: Writer, op: ops.Binary) -> None:
    dtype = op.a.dtype
    a, b, result = w.operand(op.a), w.operand(op.b), w.name(op.result)
    if w.level(op.a, op.b) == SCALAR:
        if dtype.is_float:
            _float_scalar(w, op, a, b)
        else:
            _integer_scalar(w, op, a, b)
        return
    function = scalars.binary(op.kind, dtype)
    if w.check and op.kind in ("shl", "shr") and _negative(op.b):
        w.line(f"B.watch.shift({w.op(op)}, {b}, {w.mask})")
    if op.kind in scalars.NONZERO and dtype.is_integer:
        zero = fold.possible(op.b, 0)
        function = function if zero else scalars.NONZERO[op.kind]
        if w.check and zero:
            w.line(f"B.watch.divisor({w.op(op)}, {b}, {w.mask})")
    if w.check and _may_overflow(op):
        a = w.as_level(op.a, 3) if op.kind == "shl" else a
        w.line(f"{result} = B.watch.arithmetic({w.op(op)}, {w.constant(function, 'F')}, {a}, {b}, {w.mask})")
    elif op.kind in ("shl", "shr"):
        w.line(f"{result} = {w.constant(function, 'F')}({w.as_level(op.a, 3)}, {b})")
    else:
        w.line(f"{result} = {w.constant(function, 'F')}({a}, {b})")
    if w.check and wraps_unseen(op, widened(w.func)):
        w.line(f"B.watch.wrapped({w.op(op)}, {a}, {b}, {result}, {w.mask})")


def _may_overflow(op: ops.Binary | ops.Unary) -> bool:
    """Whether the facts of the operands leave room for an overflow of int32 or int64."""
    return fold.may_overflow(op.kind, op.a, op.b if isinstance(op, ops.Binary) else None)


def _may_exceed(op: ops.Binary, dtype: DType) -> bool:
    """Whether the facts leave room for a result that the dtype, which may be one that wraps, does not hold."""
    low, high = limits(dtype)
    if op.kind == "floordiv":
        return low < 0 and fold.possible(op.a, low) and fold.possible(op.b, -1)
    lower, upper = op.result.lower, op.result.upper
    return op.kind in ("add", "sub", "mul") and (lower is None or upper is None or lower < low or upper > high)


def _negative(operand: Operand) -> bool:
    """Whether the facts of an integer allow it to be negative."""
    lower = fold.facts_of(operand)[0]
    return lower is None or lower < 0


def judged(op: ops.Op) -> bool:
    """Whether a checked run looks at what the op computes."""
    if isinstance(op, ops.Cast):
        return not op.bits and _loses(op)
    if isinstance(op, ops.Binary) and op.kind in ("shl", "shr") and _negative(op.b):
        return True
    if isinstance(op, ops.Binary) and op.kind in scalars.NONZERO and op.a.dtype.is_integer:
        return fold.possible(op.b, 0) or _may_overflow(op)
    return isinstance(op, (ops.Binary, ops.Unary)) and _may_overflow(op)


def judged_in(func: Func) -> Callable[[ops.Op], bool]:
    """``judged`` of the ops of a Func, whose narrow results count too where lost bits matter."""
    among = widened(func)
    return lambda op: judged(op) or wraps_unseen(op, among)


def _float_scalar(w: Writer, op: ops.Binary, a: str, b: str) -> None:
    function = w.constant(scalars.binary(op.kind, op.a.dtype), "F")
    call = f"{function}({a}, {b})"
    if op.result.dtype.kind is Kind.BOOL:
        call = f"bool({call})"
    w.line(f"{w.name(op.result)} = {call}")


def _integer_scalar(w: Writer, op: ops.Binary, a: str, b: str) -> None:
    result, dtype = w.name(op.result), op.result.dtype
    zero = op.kind in scalars.NONZERO and fold.possible(op.b, 0)
    if w.check and zero:
        w.line(f"if not {b}: B.watch.divisor({w.op(op)}, {b}, {w.mask})")
    if w.check and op.kind in ("shl", "shr") and _negative(op.b):
        w.line(f"if {b} < 0: B.watch.shift({w.op(op)}, {b}, {w.mask})")
    if op.kind in _INFIX:
        w.line(f"{result} = {a} {_INFIX[op.kind]} {b}")
    elif op.kind in scalars.PYTHON:
        w.line(f"{result} = {w.constant(scalars.PYTHON[op.kind], 'F')}({a}, {b})")
    elif op.kind == "div":
        w.line(f"{result} = to_scalar(np.divide({a}, {b}), {w.moye_dtype(dtype)})")
    else:
        scalars.binary(op.kind, op.a.dtype)           # raises where the kind is unknown
        wide = f"{w.dtype(op.a.dtype)}.type({a})"           # a Python integer has no width
        w.line(f"{result} = to_scalar({w.constant(scalars.BINARY[op.kind], 'F')}({wide}, {b}), {w.moye_dtype(dtype)})")
    if op.kind not in _GROWS or not dtype.is_integer:
        return
    low, high = limits(dtype)
    reported = _may_overflow(op)
    if op.kind != "shl" and not zero and not reported and not _may_exceed(op, dtype):
        return
    fix = f"wrap({result}, {dtype.bits}, {low < 0})"
    if w.check and wraps_unseen(op, widened(w.func)):
        fix = f"B.watch.wrapped_alike({w.op(op)}, {result})"
    elif w.check and reported:
        fix = f"B.watch.overflow({w.op(op)}, {result})"
    w.line(f"if not {low} <= {result} <= {high}: {result} = {fix}")


def counter_may_wrap(op: ops.For) -> bool:
    """Whether the variable of a loop may leave its dtype by the step behind its last iteration."""
    if op.step in (1, -1):
        return False                                    # it stops where the bound is, which fits
    low, high = limits(op.iv.dtype)
    lower, upper, _ = fold.facts_of(op.stop)
    most = fold.facts_of(op.step)[1] if isinstance(op.step, Value) else abs(op.step)
    if most is None:
        return True
    return upper is None or upper - 1 + most > high if op.up else lower is None or lower + 1 - most < low


@emits(ops.Unary)
def emit_unary(w: Writer, op: ops.Unary) -> None:
    a, result, dtype = w.operand(op.a), w.name(op.result), op.result.dtype
    function = w.constant(scalars.unary(op.kind, op.a.dtype, fast=op.fast), "F")
    if w.check and _may_overflow(op):
        w.line(f"B.watch.negation({w.op(op)}, {a}, {w.mask})")
    if w.level(op.a) != SCALAR:
        w.line(f"{result} = {function}({a})")
    elif op.kind == "not":
        w.line(f"{result} = not {a}")
    elif op.kind == "neg" and dtype.is_integer:
        w.line(f"{result} = wrap(-{a}, {dtype.bits}, {limits(dtype)[0] < 0})")
    else:
        w.line(f"{result} = to_scalar({function}({w.dtype(op.a.dtype)}.type({a})), {w.moye_dtype(dtype)})")
    if w.check and wraps_unseen(op, widened(w.func)):
        _lost_sign(w, op, a, result)


def _lost_sign(w: Writer, op: ops.Unary, a: str, result: str) -> None:
    if w.level(op.a) != SCALAR:
        w.line(f"B.watch.negated({w.op(op)}, {a}, {result}, {w.mask})")
        return
    exact = f"-{a}" if op.kind == "neg" else f"abs({a})"
    w.line(f"if {result} != {exact}: B.watch.wrapped_alike({w.op(op)}, {exact})")


@emits(ops.Fma)
def emit_fma(w: Writer, op: ops.Fma) -> None:
    function, dtype = w.constant(multiply_add, "F"), w.dtype(op.result.dtype)
    w.line(f"{w.name(op.result)} = {function}({w.operand(op.a)}, {w.operand(op.b)}, {w.operand(op.c)}, {dtype})")


@emits(ops.Select)
def emit_select(w: Writer, op: ops.Select) -> None:
    cond, a, b, result = w.operand(op.cond), w.operand(op.a), w.operand(op.b), w.name(op.result)
    if w.level(op.cond) == SCALAR:
        level = w.level(op.a, op.b)
        w.line(f"{result} = {w.as_level(op.a, level)} if {cond} else {w.as_level(op.b, level)}")
    else:
        w.line(f"{result} = choose({cond}, {a}, {b}, {w.dtype(op.result.dtype)})")


@emits(ops.Cast)
def emit_cast(w: Writer, op: ops.Cast) -> None:
    a, result, source, target = w.operand(op.a), w.name(op.result), op.a.dtype, op.result.dtype
    fits = source.is_integer and target.is_integer and limits(target)[0] <= limits(source)[0] \
        and limits(source)[1] <= limits(target)[1]
    if w.check and not op.bits and _loses(op):
        w.line(f"B.watch.narrowing({w.op(op)}, {a}, {w.mask})")
    if op.bits:
        w.line(f"{result} = bitcast({a}, {w.moye_dtype(source)}, {w.moye_dtype(target)})")
    elif fits:
        w.line(f"{result} = {a}" if w.level(op.a) == SCALAR else f"{result} = {a}.astype({w.dtype(target)})")
    else:
        w.line(f"{result} = cast({a}, {w.moye_dtype(source)}, {w.moye_dtype(target)})")


def _loses(op: ops.Cast) -> bool:
    """Whether the facts leave room for a number that a conversion from 64 to 32 bits does not keep."""
    if not loses(op.a.dtype, op.result.dtype):
        return False
    low, high = kept(op.result.dtype)
    lower, upper, _ = fold.facts_of(op.a)
    return lower is None or upper is None or lower < low or upper > high


@emits(ops.Special)
def emit_special(w: Writer, op: ops.Special) -> None:
    text = "B.launch.tick()" if op.kind in ("clock", "globaltimer") else f"B.specials[{op.kind!r}]"
    if op.result.dtype is not dt.int32:
        text = f"cast({text}, {w.moye_dtype(dt.int32)}, {w.moye_dtype(op.result.dtype)})"
    w.line(f"{w.name(op.result)} = {text}")


@emits(ops.Declare)
def emit_declare(w: Writer, op: ops.Declare) -> None:
    level = w.levels.of_var(op.var)
    if op.init is not None:
        w.line(f"{w.name(op.var)} = {w.as_level(op.init, level)}")
        return
    poison = w.fresh("C")
    w.scope[poison] = _poison(op, level)
    w.line(f"{w.name(op.var)} = {poison}")


def _poison(op: ops.Declare, level: int) -> object:
    from moye.sim.values.masks import wide
    from moye.sim.values.memory import numpy_dtype, poison
    value = scalars.to_scalar(poison(op.var.dtype), op.var.dtype)
    return value if level == SCALAR else wide(value, numpy_dtype(op.var.dtype))


@emits(ops.Read)
def emit_read(w: Writer, op: ops.Read) -> None:
    w.line(f"{w.name(op.result)} = {w.name(op.var)}")


@emits(ops.Assign)
def emit_assign(w: Writer, op: ops.Assign) -> None:
    """All sources first, then all variables; lanes outside the mask keep what they have."""
    names = [w.name(var) for var, _ in op.pairs]
    sources = []
    for var, source in op.pairs:
        level = w.levels.of_var(var)
        if w.mask == "m0" or level == SCALAR:
            sources.append(w.as_level(source, level))
        else:
            sources.append(f"choose({w.mask}, {w.operand(source)}, {w.name(var)}, {w.dtype(var.dtype)})")
    if names:
        w.line(f"{', '.join(names)} = {', '.join(sources)}")
