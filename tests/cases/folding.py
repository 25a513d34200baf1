"""Scalar code of its own for the tests of folding and of facts, and the number that it computes."""

from __future__ import annotations

from ir_interpreter import Memory, Outcome, Thread
from moye.errors import UNKNOWN
from moye.ir import fold
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Func, ScalarParam, Value

KINDS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def fresh(dtypes, ranges):
    """A builder with parameters of these (lower, upper, divisor)."""
    params = [ScalarParam(f"p{i}", Value(d, lower=r[0], upper=r[1], divisor=r[2], name=f"p{i}"))
              for i, (d, r) in enumerate(zip(dtypes, ranges, strict=True))]
    func = Func("f", list(params), Block(), (1, 1, 1))
    return Builder(func, lambda: UNKNOWN), [p.value for p in params]


def evaluate(builder, values, numbers, operand):
    """The number that an operand has; the interpreter checks every fact on the way."""
    known = {v.id: n for v, n in zip(values, numbers, strict=True)}
    thread = Thread(builder.func, known, dict[int, Memory](), {}, Outcome())
    for _ in thread.run():
        raise AssertionError("scalar code does not wait")
    result = thread.get(operand)
    if operand.dtype.is_integer:
        lower, upper, divisor = fold.facts_of(operand)
        assert (lower is None or lower <= result) and (upper is None or result <= upper) and result % divisor == 0
    return result
