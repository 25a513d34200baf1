"""Two looks at one number, and what is read in between and used if both find the same: found once, from the Func.

In: a Func.  Out: ``Twice``s: both strong loads, the strong loads between them, and whether a number, found by both,
lets what they have read be used.

    first = mo.load(seq, 0); x = mo.load(data, 0); last = mo.load(seq, 0); done = first == last and first % 2 == 0

A variable that nothing but one of the loads is assigned to, in a loop that compares on top, stands for that load.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moye.ir import ops
from moye.ir.nodes import Func, Literal, Operand, Value
from moye.sim.flow.once import once_per_func

_KNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shr": operator.rshift, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge}


@dataclass(frozen=True, slots=True)
class Twice:
    """Two looks at one number, ``same`` or not, and what is read in between; ``uses`` are conditions on it."""

    first: ops.Load
    last: ops.Load
    same: ops.Binary
    data: tuple[ops.Load, ...]
    uses: tuple[Operand, ...]
    carried: Mapping[int, ops.Load]
    """The variables that stand for a load, by their ids."""

    def holds(self, number: int) -> bool:
        """Whether the data is used because both looks find this number.  Odd ones say that it is being written."""
        if number % 2:
            return False
        for use in self.uses:
            met, unmet = (self._value(use, number, outcome) for outcome in (True, False))
            if met is not None and unmet is not None and met != unmet:
                return True
        return False

    def _value(self, operand: Operand, number: int, equal: bool) -> Any:
        """What an operand is for the number, None where other things decide."""
        if isinstance(operand, Literal):
            return operand.value
        op = operand.op
        if op is self.same:
            return equal == (self.same.kind == "eq")
        op = _meant(operand, self.carried)
        if op is self.first or op is self.last:
            return number
        if isinstance(op, ops.Cast):
            return self._value(op.a, number, equal)
        if isinstance(op, ops.Unary) and op.kind == "not":
            a = self._value(op.a, number, equal)
            return None if a is None else not a
        if not isinstance(op, ops.Binary):
            return None
        a, b = self._value(op.a, number, equal), self._value(op.b, number, equal)
        if op.kind in ("land", "lor"):
            decides = op.kind == "lor"                  # of either side, whatever the other is
            return decides if decides in (a, b) else None if None in (a, b) else not decides
        if a is None or b is None:
            return None
        if op.kind in ("mod", "floordiv"):
            return (a % b if op.kind == "mod" else a // b) if b else None
        return _KNOWN[op.kind](a, b) if op.kind in _KNOWN else None


@once_per_func
def twices(func: Func) -> tuple[Twice, ...]:
    """The looks that are made twice."""
    walked = list(func.body.walk())
    place = {id(op): number for number, op in enumerate(walked)}
    carried = _carried(walked)
    conditions: list[Operand] = [op.cond for op in walked if isinstance(op, ops.If)]
    conditions += [source for op in walked if isinstance(op, ops.Assign) for _, source in op.pairs]
    found = []
    for same in walked:
        if not isinstance(same, ops.Binary) or same.kind not in ("eq", "ne"):
            continue
        looks = [look for each in (same.a, same.b) if isinstance(look := _meant(each, carried), ops.Load)]
        if len(looks) != 2 or not all(ops.is_ordered(look) for look in looks) or not _one_place(*looks):
            continue
        first, last = sorted(looks, key=lambda look: place[id(look)])
        data = tuple(op for op in walked[place[id(first)] + 1:place[id(last)]]
                     if isinstance(op, ops.Load) and ops.is_ordered(op) and not _one_place(op, first))
        uses = tuple(cond for cond in conditions if _has(cond, same))
        if data and uses:
            found.append(Twice(first, last, same, data, uses, carried))
    return tuple(found)


def _carried(walked: list[ops.Op]) -> dict[int, ops.Load]:
    """The variables that are assigned one load of memory that is in order, and begin as a number, by their ids."""
    sources: dict[int, list[Operand]] = {}
    for op in walked:
        for var, source in op.pairs if isinstance(op, ops.Assign) else ():
            if not (isinstance(source, Value) and isinstance(source.op, ops.Read) and source.op.var is var):
                sources.setdefault(var.id, []).append(source)
    begin = {op.var.id for op in walked if isinstance(op, ops.Declare) and isinstance(op.init, Literal)}
    only = {var: found[0] for var, found in sources.items() if var in begin and len(found) == 1}
    return {var: source.op for var, source in only.items()
            if isinstance(source, Value) and isinstance(source.op, ops.Load) and ops.is_ordered(source.op)}


def _meant(operand: Operand, carried: Mapping[int, ops.Load]) -> ops.Op | None:
    """What makes an operand, or the load that its variable stands for."""
    op = operand.op if isinstance(operand, Value) else None
    return carried.get(op.var.id, op) if isinstance(op, ops.Read) else op


def _one_place(a: ops.Load, b: ops.Load) -> bool:
    x, y = a.ref.offset, b.ref.offset
    same = x is y or (isinstance(x, Literal) and isinstance(y, Literal) and x.value == y.value)
    return a is not b and a.ref.buffer is b.ref.buffer and same


def _has(operand: Operand, op: ops.Op) -> bool:
    """Whether a condition is made of the result of an operation."""
    inner = operand.op if isinstance(operand, Value) else None
    if inner is None or not isinstance(inner, (ops.Binary, ops.Unary, ops.Cast)):
        return False
    return inner is op or any(_has(part, op) for part in inner.operands())
