"""What a loop that waits for memory depends on: whether its next pass can differ from this one.

In: a loop that polls.  Out: ``quiet``, whether its state is variables and memory alone, and which variables decide.

While neither changes, nor does what other threads do, every pass is as the one before: the loop never ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Operand, Value
from moye.ir.traits import Trait
from moye.sim.flow.segments import name_of


def quiet(loop: ops.Loop | ops.For) -> bool:
    """Whether the state of a loop is its variables and memory that all can see."""
    return all(Trait.QUIET in op.traits and
               not any(written and ref.buffer.space is Space.REGISTER for ref, written in op.refs())
               for op in loop.body.walk())


def deciding(loop: ops.Loop | ops.For) -> frozenset[str]:
    """The names of the variables that decide which way a quiet loop goes, and what it reads and writes."""
    body = list(loop.body.walk())
    sources: dict[int, list[Operand]] = {}
    for op in body:
        if isinstance(op, ops.Assign):
            for var, source in op.pairs:
                sources.setdefault(var.id, []).append(source)
    todo = [operand for op in body for operand in _used(op)]
    if isinstance(loop, ops.For):
        todo.append(loop.iv)
    seen: set[int] = set()
    names: set[str] = set()
    while todo:
        operand = todo.pop()
        if not isinstance(operand, Value) or operand.id in seen:
            continue
        seen.add(operand.id)
        names.add(name_of(operand))
        if isinstance(operand.op, ops.Read):
            names.add(name_of(operand.op.var))
            todo += sources.get(operand.op.var.id, [])
        elif operand.op is not None:
            todo += operand.op.operands()
    return frozenset(names)


def _used(op: ops.Op) -> Iterator[Operand]:
    """What an op does something with that others see."""
    if isinstance(op, (ops.If, ops.Store, ops.Atomic, ops.Load)):
        yield from op.operands()
    elif isinstance(op, ops.For):
        yield from (op.start, op.stop)
