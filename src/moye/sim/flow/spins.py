"""What a loop that waits for memory depends on: whether its next pass can differ from this one.

In: a loop that polls.  Out: ``quiet``, whether its state is variables and memory alone, and which variables decide.
While neither changes, nor does what other threads do, every pass is as the one before: the loop never ends.

In: all loops that poll.  Out: ``Ends``, the variables and the memory that decide whether one of them is left.  Where
these are again what they were, the loops go round, whatever else they compute and store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Operand, Value
from moye.ir.traits import Trait
from moye.sim.flow.remainders import remainders
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


# --- what decides whether a loop ends --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ends:
    """What decides whether loops are left: names of variables, what the operations ``reads`` (by id) find where they
    look, and all of the buffers ``whole`` (by id).  Of counters among the names the ``remainders`` by a number do."""

    names: frozenset[str]
    reads: frozenset[int]
    whole: frozenset[int]
    remainders: dict[str, int]


def repeats(loop: ops.Loop | ops.For) -> bool:
    """Whether the state of a loop is its variables, registers and memory, but for what cp.async has in flight."""
    return all(Trait.QUIET in op.traits or isinstance(op, (ops.Alloc, ops.Map, ops.Gemm, ops.Copy, ops.CpAsyncCommit,
                                                           ops.CpAsyncWait)) for op in loop.body.walk())


def ends(loops: Iterable[ops.Loop | ops.For], same: Callable[[Buffer], Iterable[Buffer]]) -> Ends | None:
    """What decides whether any of these loops is left, as long as nobody but them runs; None if the clock does, or a
    copy that no pass waits for.

    ``same`` are the buffers that may be the same memory as one of them, itself included.
    """
    found, loops = _Ends(same), list(loops)
    for loop in loops:
        found.collect(loop.body, (loop.start, loop.stop, loop.step, loop.iv) if isinstance(loop, ops.For) else ())
    return found.close(remainders(loops))


class _Ends:
    def __init__(self, same: Callable[[Buffer], Iterable[Buffer]]) -> None:
        self.same = same
        self.todo: list[Operand | int] = []
        self.assigned: dict[int, list[tuple[Operand | int, ...]]] = {}
        """What the loops give each variable, and what decides whether they do."""
        self.written: dict[int, list[tuple[ops.Op, tuple[Operand | int, ...]]]] = {}
        self.counted: dict[int, tuple[Operand | int, ...]] = {}
        self.reads, self.whole, self.buffers = set[int](), set[int](), set[int]()
        self.copies = self.lands = False
        """Whether cp.async writes what decides, and whether a pass waits until all of it is there: else what is in
        flight is part of the state, too."""

    def collect(self, block: Block, way: tuple[Operand | int, ...]) -> None:
        for op in block:
            if isinstance(op, ops.Exit) or Trait.WAITS in op.traits:
                self.todo += way
            elif isinstance(op, ops.Assign):
                for var, source in op.pairs:
                    self.assigned.setdefault(var.id, []).append((source, *way))
            elif isinstance(op, ops.CpAsyncWait):
                self.lands |= not op.pending
            for ref, written in op.refs():
                if written:
                    self.written.setdefault(ref.buffer.root.id, []).append((op, way))
            inner = way
            if isinstance(op, ops.If):
                inner = (*way, op.cond)
            elif isinstance(op, ops.For):
                self.counted[op.iv.id] = (op.start, op.stop, op.step)
                inner = (*way, op.start, op.stop, op.step)
            for each in op.blocks():
                self.collect(each, inner)

    def close(self, counters: dict[str, int]) -> Ends | None:
        seen, names = set[int](), set[str]()
        while self.todo:
            value = self.todo.pop()
            if not isinstance(value, Value) or value.id in seen:
                continue
            seen.add(value.id)
            names.add(name_of(value))
            self.todo += self.counted.get(value.id, ())
            op = value.op
            if isinstance(op, ops.Special) and op.kind in ("clock", "globaltimer"):
                return None
            if isinstance(op, ops.Read):
                names.add(name_of(op.var))
                self.todo += [part for parts in self.assigned.get(op.var.id, ()) for part in parts]
            if op is not None:
                self.todo += op.operands()
                self._reads(op)
        known = self.lands or not self.copies
        return Ends(frozenset(names), frozenset(self.reads), frozenset(self.whole), counters) if known else None

    def _reads(self, op: ops.Op) -> None:
        """What the op finds decides, so what is written there does, and when."""
        if isinstance(op, (ops.Load, ops.Atomic)):
            self.reads.add(id(op))
        todo = [ref.buffer.root for ref, _ in op.refs()]
        if not isinstance(op, (ops.Load, ops.Atomic)):
            self.whole |= {buffer.id for buffer in todo}
        while todo:
            for each in self.same(todo.pop()):
                if each.id in self.buffers:
                    continue
                self.buffers.add(each.id)
                for writer, way in self.written.get(each.id, ()):
                    self.copies |= isinstance(writer, ops.Copy) and writer.atom.asynchronous is not None
                    self.todo += [*way, *writer.operands(), *writer.computed()]
                    if not isinstance(writer, (ops.Store, ops.Atomic)):
                        sources = [ref.buffer.root for ref, _ in writer.refs()]
                        self.whole |= {buffer.id for buffer in sources}
                        todo += sources
