"""Which loops wait for as long as it takes, and which give up: found once, from the Func.

In: a Func.  Out: ``Patience``: the accesses in loops that wait without end, and the loops that poll and give up.

A loop gives up if it is left by a condition that a counter of its own, or the clock, may make true whatever is read;
so does a ``for`` that is left early.
A condition that no pass changes says who waits, and gives nothing up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value
from moye.ir.traits import Trait
from moye.sim.flow.polling import polls

_CLOCKS = ("clock", "globaltimer")
_READS = (ops.Load, ops.Atomic, ops.MbarrierTest)
_PASSES_ON = (ops.Shuffle, ops.Vote, ops.Redux, ops.Match)
"""What one lane has read, others get by these."""
Way = tuple[tuple[Operand, bool], ...]
"""Conditions, and which way they go."""


@dataclass(frozen=True, slots=True)
class Patience:
    """``waits`` are the ids of operations in loops that poll without end, ``gives_up`` those in loops that stop
    polling."""

    waits: frozenset[int]
    gives_up: frozenset[int]


def patience(func: Func) -> Patience:
    waits, gives_up = set[int](), set[int]()
    for op in func.body.walk():
        if isinstance(op, ops.For) and polls(op):
            gives_up.add(id(op))
        elif isinstance(op, ops.Loop) and polls(op):
            if _Loop(op).gives_up():
                gives_up.add(id(op))
            else:
                waits |= {id(inner) for inner in op.body.walk()}
    for op in func.body.walk():                         # what gives up inside of a loop that does not
        if id(op) in gives_up:
            waits -= {id(inner) for inner in next(op.blocks()).walk()}
    return Patience(frozenset(waits), frozenset(gives_up))


class _Loop:
    def __init__(self, loop: ops.Loop) -> None:
        self.loop = loop
        self.sources: dict[int, list[tuple[Operand, Way]]] = {}
        """What the loop assigns to each variable, and on which way."""
        self.exits: list[Way] = []
        self._walk(loop.body, ())

    def _walk(self, block: Block, way: Way) -> None:
        for op in block:
            if isinstance(op, ops.Assign):
                for var, source in op.pairs:
                    self.sources.setdefault(var.id, []).append((source, way))
            elif isinstance(op, ops.Exit) and op.target is self.loop and op.kind == "break":
                self.exits.append(way)
            for arm, inner in enumerate(op.blocks()):
                self._walk(inner, (*way, (op.cond, arm == 0)) if isinstance(op, ops.If) else way)

    def gives_up(self) -> bool:
        return any(way and all(self._alone(cond, wanted) for cond, wanted in way) and
                   any(self._moves(cond) for cond, _ in way) for way in self.exits)

    def _alone(self, cond: Operand, wanted: bool) -> bool:
        """Whether a condition may become true, or false, whatever is read."""
        op = cond.op if isinstance(cond, Value) else None
        if isinstance(op, ops.Unary) and op.kind == "not":
            return self._alone(op.a, not wanted)
        if isinstance(op, ops.Binary) and op.kind in ("land", "lor"):
            both = (op.kind == "land") == wanted
            parts = [self._alone(part, wanted) and self._moves(part) for part in (op.a, op.b)]
            return all(parts) if both else any(parts)
        return not any(isinstance(origin, _READS) for origin in self._origins(cond))

    def _moves(self, cond: Operand) -> bool:
        """Whether passes of the loop change a condition without reading anything."""
        op = cond.op if isinstance(cond, Value) else None
        if isinstance(op, (ops.Unary, ops.Binary)) and op.kind in ("not", "land", "lor"):
            return any(self._moves(part) for part in op.operands())
        found = list(self._origins(cond))
        clocks = [origin for origin in found if isinstance(origin, ops.Special) and origin.kind in _CLOCKS]
        return not any(isinstance(origin, _READS) for origin in found) and \
            (bool(clocks) or any(isinstance(origin, ops.Read) for origin in found))

    def _origins(self, operand: Operand) -> Iterator[ops.Op]:
        """What a value is made of: reads of variables of the loop, loads, what decides about them, and the rest."""
        todo, seen = [operand], set[int]()
        while todo:
            value = todo.pop()
            if not isinstance(value, Value) or value.op is None or id(value.op) in seen:
                continue
            seen.add(id(value.op))
            if isinstance(value.op, ops.Read):
                if sources := self.sources.get(value.op.var.id):
                    yield value.op
                    todo += [part for source, way in sources for part in (source, *(cond for cond, _ in way))]
            elif Trait.ARITHMETIC in value.op.traits or isinstance(value.op, _PASSES_ON):
                todo += value.op.operands()
            else:
                yield value.op
