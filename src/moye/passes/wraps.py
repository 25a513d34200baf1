"""Func -> Func whose remainders wrap round once at most, and are no divisions: ``(i + 1) % n`` where i is below n.

Contract: a condition around an operation, or one that left the kernel or the loop before it, has said ``0 <= i < n``.
Then ``i + 1``, ``i + n - 1`` and ``i + n`` lie within two periods, and their remainder by n is the number itself or n
less.  The compiler, which does not know so, divides: some twenty instructions.  In place.

    if (i >= n) return;                                     # behind it
    (i + n - 1) % n                                         # becomes
    i + n - 1 >= n ? i + n - 1 - n : i + n - 1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from moye import dtypes as dt
from moye.dtypes import Kind
from moye.ir import ops
from moye.ir.fold import facts_of
from moye.ir.nodes import Block, Func, Literal, Operand, Value

Below = frozenset[tuple[int, int]]
"""Pairs of values of which the first is known to be less than the second."""
_WRAPPED = {(0, 1), (1, -1)}            # periods and elements behind a number of one period: within two periods
_LESS = {"lt": (1, 0), "gt": (0, 1)}    # comparisons, and where in them the smaller and the larger number stand
_NOT_LESS = {"ge": (1, 0), "le": (0, 1)}


def wrap(func: Func) -> Func:
    """Rewrite every remainder of which the conditions around it say that it wraps once at most."""
    _block(func.body, frozenset())
    return func


def _block(block: Block, below: Below) -> None:
    found: list[ops.Op] = []
    for op in block.ops:
        if isinstance(op, ops.If):
            then, orelse = _said(op.cond, True), _said(op.cond, False)
            _block(op.then, below | then)
            _block(op.orelse, below | orelse)
            below |= orelse if _ends(op.then) else then if _ends(op.orelse) else frozenset()
        elif isinstance(op, ops.For) and op.up and isinstance(op.stop, Value):
            _block(op.body, below | {(op.iv.id, op.stop.id)})
        else:
            for inner in op.blocks():
                _block(inner, below)
        found += _wrapped(op, below) if isinstance(op, ops.Binary) and op.kind == "mod" else [op]
    block.ops = found


def _ends(block: Block) -> bool:
    """Whether nobody comes to what stands behind the block."""
    return bool(block.ops) and isinstance(block.ops[-1], ops.Exit)


def _said(cond: Operand, holds: bool) -> Below:
    """What is less than what where a condition holds, or does not hold."""
    op = cond.op if isinstance(cond, Value) else None
    if isinstance(op, ops.Unary) and op.kind == "not":
        return _said(op.a, not holds)
    if not isinstance(op, ops.Binary):
        return frozenset()
    if op.kind == ("land" if holds else "lor"):
        return _said(op.a, holds) | _said(op.b, holds)
    order, sides = (_LESS if holds else _NOT_LESS).get(op.kind), (op.a, op.b)
    if order is None:
        return frozenset()
    small, large = (sides[1 - place] for place in order)
    integers = isinstance(small, Value) and isinstance(large, Value) and small.dtype.kind is Kind.INT
    return frozenset({(small.id, large.id)}) if integers else frozenset()    # type: ignore[union-attr]


@dataclass(slots=True)
class _Sum:
    """A sum of values, each so many times, and a number."""

    times: Counter[int]
    number: int = 0


def _summands(operand: Operand, period: Value, below: Below, sign: int, total: _Sum) -> Value | None:
    """Add an operand to a sum; the value below the period that it has, if it has one."""
    if isinstance(operand, Literal):
        total.number += sign * int(operand.value)
        return None
    if (operand.id, period.id) in below or operand is period:
        total.times[operand.id] += sign
        return None if operand is period else operand
    op = operand.op
    if isinstance(op, ops.Binary) and op.kind in ("add", "sub"):
        first = _summands(op.a, period, below, sign, total)
        second = _summands(op.b, period, below, sign if op.kind == "add" else -sign, total)
        return first or second
    total.times[operand.id] += sign
    return None


def _wrapped(op: ops.Binary, below: Below) -> list[ops.Op]:
    """The operations that make what a remainder makes."""
    if not isinstance(op.b, Value) or op.result.dtype.kind is not Kind.INT:
        return [op]
    total = _Sum(Counter())
    base = _summands(op.a, op.b, below, 1, total)
    lower = None if base is None else facts_of(base)[0]
    if base is None or lower is None or lower < 0:
        return [op]
    periods = total.times.pop(op.b.id, 0)
    if {place: times for place, times in total.times.items() if times} != {base.id: 1}:
        return [op]
    if (periods, total.number) == (1, 0):
        op.kind = "sub"
        return [op]
    if (periods, total.number) not in _WRAPPED:
        return [op]
    beyond = ops.Binary(result=Value(dt.bool_), kind="ge", a=op.a, b=op.b, loc=op.loc)
    less = ops.Binary(result=Value(op.result.dtype), kind="sub", a=op.a, b=op.b, loc=op.loc)
    return [beyond, less, ops.Select(result=op.result, cond=beyond.result, a=less.result, b=op.a, loc=op.loc)]
