"""Counters of loops of which only a remainder matters: which stage, which parity, which of three flags comes next.

In: loops.  Out: by the name of a value, a number: values that differ by a multiple of it make the same passes.

    while go > 0: s[turn % 2, tid] = ...; go = flags[turn % 3]; turn += 1         # turn: 6

A counter that anything else looks at (a comparison, an index, another variable) is not among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from moye.ir import ops
from moye.ir.nodes import Literal, Op, Operand, Value
from moye.sim.flow.segments import name_of


def remainders(loops: Iterable[ops.Loop | ops.For]) -> dict[str, int]:
    """The counters, and what is computed of them before the remainder is taken."""
    return _Counters([op for loop in loops for op in loop.body.walk()]).found()


class _Counters:
    def __init__(self, body: list[Op]) -> None:
        self.users: dict[int, list[Op]] = {}
        self.reads: dict[int, list[ops.Read]] = {}
        self.sources: dict[int, list[Operand]] = {}
        for op in body:
            for operand in (*op.operands(), *op.computed()):
                if isinstance(operand, Value):
                    self.users.setdefault(operand.id, []).append(op)
            if isinstance(op, ops.Read):
                self.reads.setdefault(op.var.id, []).append(op)
            elif isinstance(op, ops.Assign):
                for var, source in op.pairs:
                    self.sources.setdefault(var.id, []).append(source)

    def found(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for number, sources in self.sources.items():
            reads = self.reads.get(number, [])
            if not reads or not all(self._counts(source, number) for source in sources):
                continue
            moduli: dict[str, int] = {}
            needs = [self._need(read.result, number, moduli) for read in reads]
            known = [need for need in needs if need is not None]
            if len(known) == len(needs):
                names |= {**moduli, name_of(reads[0].var): lcm(*known)}
        return names

    def _counts(self, source: Operand, number: int) -> bool:
        """Whether a variable is given what it was and a number more or less."""
        op = source.op if isinstance(source, Value) else None
        if isinstance(op, ops.Binary) and op.kind in ("add", "sub") and isinstance(op.b, Literal):
            return isinstance(op.a, Value) and isinstance(op.a.op, ops.Read) and op.a.op.var.id == number
        return False

    def _need(self, value: Value, number: int, moduli: dict[str, int]) -> int | None:
        """The remainder by this number is all that is looked at, or None."""
        needs = [self._of(op, value, number, moduli) for op in self.users.get(value.id, ())]
        known = [need for need in needs if need is not None]
        if len(known) < len(needs):
            return None
        moduli[name_of(value)] = lcm(*known)
        return moduli[name_of(value)]

    def _of(self, op: Op, value: Value, number: int, moduli: dict[str, int]) -> int | None:
        """What of a value an op needs to know, if it uses it once."""
        if isinstance(op, ops.Assign):                  # those of other variables would be followed for ever
            return 1 if all(source is not value or var.id == number for var, source in op.pairs) else None
        if isinstance(op, ops.Cast):
            whole = op.result.dtype.is_integer and not op.bits and op.result.dtype.bits >= value.dtype.bits
            return self._need(op.result, number, moduli) if whole else None
        if not isinstance(op, ops.Binary) or op.a is op.b:
            return None
        other = op.b if op.a is value else op.a
        if not isinstance(other, Literal) or not isinstance(other.value, int):
            return None
        return self._by(op, int(other.value), op.a is value, number, moduli)

    def _by(self, op: ops.Binary, other: int, left: bool, number: int, moduli: dict[str, int]) -> int | None:
        """The same of a Binary whose other side is known; ``left`` is the side of the value."""
        if op.kind == "mod" and left and other > 0:
            return other
        if op.kind == "and" and other >= 0 and other & (other + 1) == 0:
            return other + 1
        rest = self._need(op.result, number, moduli) if op.kind in ("add", "sub", "mul", "floordiv", "shr") else None
        if rest is None or op.kind in ("add", "sub", "mul"):
            return rest
        if not left or other < (1 if op.kind == "floordiv" else 0):
            return None
        return rest * other if op.kind == "floordiv" else rest << other
