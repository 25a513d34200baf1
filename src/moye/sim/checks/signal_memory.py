"""Which memory of a kernel its threads may signal through: found once, from the Func.

In: a Func.  Out: ``Traffic``: the buffers whose strong values somebody looks at, and the ops that poll.

    traffic(func, {}).follows(op)       # whether what this access synchronises must be followed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Operand, Value
from moye.sim.checks.patience import patience
from moye.sim.flow.double_looks import twices
from moye.sim.flow.polling import polls

ACQUIRES = ("acquire", "acq_rel", "seq_cst")
RELEASES = ("release", "acq_rel", "seq_cst")


@dataclass(frozen=True, slots=True)
class Traffic:
    """``ordered``: whether anything in the kernel releases, acquires or fences at all."""

    ordered: bool
    read: frozenset[int]
    """The buffers with strong accesses whose values are used."""
    mixed: frozenset[int]
    """Those of ``read`` that plain accesses reach, too."""
    polled: frozenset[int]
    """The ids of the strong accesses in loops that poll."""
    spun: frozenset[int]
    """The ids of all atomics in loops that poll."""
    used: frozenset[int]
    """The ids of atomics whose result is used."""
    idle: frozenset[int]
    """The buffers whose atomics' results decide nothing: neither what is done, nor what is told."""
    reset: frozenset[int]
    """Those of ``idle`` that are counters, and that stores or exchanges set back."""
    alias: Mapping[int, int]
    hasty: frozenset[int] = frozenset()
    """The ids of strong loads in loops that give up."""
    older: bool = False
    """Whether loads find the oldest values that they may: then all that anybody reads is followed."""

    def key(self, buffer: Buffer) -> int:
        """One number for all buffers that share memory."""
        return self.alias.get(buffer.root.id, buffer.root.id)

    def follows(self, op: ops.Op) -> bool:
        """Whether a strong access may synchronise with another one, or order plain accesses."""
        if not isinstance(op, (ops.Load, ops.Store, ops.Atomic)):
            return False
        key = self.key(op.ref.buffer)
        # Polls are given older values first, whether or not anything is ordered by what they find.
        return key in self.read and (self.ordered or key in self.mixed | self.reset or self.older or bool(self.polled))

    def waits_at(self, func: Func) -> tuple[int, ...]:
        """The buffers that are polled, in the order of the program."""
        return tuple(dict.fromkeys(self.key(op.ref.buffer) for op in func.body.walk()
                                   if isinstance(op, (ops.Load, ops.Atomic)) and id(op) in self.polled))

    def glances(self, func: Func) -> bool:
        """Whether the kernel has a strong load that does not wait for a value, or not for long: it may find an old one.
        """
        return any(isinstance(op, ops.Load) and strong(op) and id(op) not in self.polled - self.hasty
                   and self.key(op.ref.buffer) in self.read for op in func.body.walk())

    def counters(self, func: Func) -> bool:
        """Whether it matters in which order threads come to atomics.

        Those of several tensors tell blocks whose turn it is, and one of them is set back: who is last at one counter
        need not be last at another.  Or they acquire from each other, and who sets the counter up is the first of them
        by chance.
        """
        atomics = [op for op in func.body.walk() if isinstance(op, ops.Atomic) and id(op) in self.used]
        keys = {self.key(op.ref.buffer) for op in atomics}
        return (len(keys) > 1 and not keys.isdisjoint(self.mixed | self.reset)) or any(
            op.order in ACQUIRES and op.ref.buffer.space is Space.SHARED and self.key(op.ref.buffer) in self.mixed
            for op in atomics)

    def tries(self, func: Func) -> bool:
        """Whether threads try for something: who comes first gets it, and may be done with it before others come."""
        return any(isinstance(op, ops.Atomic) and op.kind in ("cas", "exch") and id(op) in self.used
                   for op in func.body.walk())

    def looks(self, op: ops.Op) -> bool:
        """Whether anybody learns the value that is read."""
        return isinstance(op, ops.Load) or id(op) in self.used or getattr(op, "order", None) in ACQUIRES

    def heedless(self, op: ops.Op) -> bool:
        """Whether a look, as all others at its tensor, decides nothing."""
        return isinstance(op, ops.Atomic) and self.key(op.ref.buffer) in self.idle

    def watched(self, buffer: Buffer) -> bool:
        """Whether it matters who has seen which value."""
        return self.key(buffer) in self.mixed | self.reset or bool(self.polled) or self.older


def strong(op: ops.Op) -> bool:
    """Whether an access is atomic, or has an order."""
    return isinstance(op, ops.Atomic) or ops.is_ordered(op)


def traffic(func: Func, alias: Mapping[int, int]) -> Traffic:
    """``alias``: one id for buffers whose memory overlaps, by theirs."""
    walked = list(func.body.walk())
    used = {operand.id for op in walked for operand in op.operands() if isinstance(operand, Value)}
    atomics = frozenset(id(op) for op in walked if isinstance(op, ops.Atomic) and op.result.id in used)
    base = Traffic(False, frozenset(), frozenset(), frozenset(), frozenset(), atomics, frozenset(),
                   frozenset(), alias)
    read, plain, ordered = set[int](), set[int](), False
    for op in walked:
        if isinstance(op, ops.Fence) or (strong(op) and getattr(op, "order", None) in (*ACQUIRES, *RELEASES)):
            ordered = True
        for ref, _ in op.refs():
            if ref.buffer.space is Space.REGISTER:
                continue
            if not strong(op):
                plain.add(base.key(ref.buffer))
            elif base.looks(op) and not isinstance(op, ops.Store):
                read.add(base.key(ref.buffer))
    inside = [inner for op in walked if isinstance(op, (ops.Loop, ops.For)) and polls(op) for inner in op.body.walk()]
    polled = frozenset(id(op) for op in inside if strong(op) and _looks_again(op))
    spun = frozenset(id(op) for op in inside if isinstance(op, ops.Atomic))
    ordered |= bool(twices(func))
    idle = frozenset(read) - {base.key(op.ref.buffer) for op in _deciding(walked)}
    reset = idle & {base.key(op.ref.buffer) for op in walked if _sets(op, atomics)} & {
        base.key(op.ref.buffer) for op in walked if counts(op) and id(op) in atomics}
    hasty = frozenset(_hasty(func.body, patience(func).gives_up, False))
    return Traffic(ordered, frozenset(read), frozenset(read & plain), polled, spun, atomics, frozenset(idle),
                   frozenset(reset), alias, hasty)


def _hasty(block: Block, gives_up: frozenset[int], inside: bool) -> Iterator[int]:
    """The ids of the strong loads whose innermost loop is one of those that give up."""
    for op in block:
        if isinstance(op, ops.Load) and strong(op) and inside:
            yield id(op)
        for inner in op.blocks():
            # A wait in a loop that ends by itself is one all the same.
            yield from _hasty(inner, gives_up, id(op) in gives_up if isinstance(op, (ops.Loop, ops.For)) else inside)


def counts(op: ops.Op) -> TypeGuard[ops.Atomic]:
    """Whether an access is an atomic that draws numbers."""
    return isinstance(op, ops.Atomic) and op.kind == "add"


def _sets(op: ops.Op, used: frozenset[int]) -> TypeGuard[ops.Store | ops.Atomic]:
    """Whether an ordered access stores a value, whatever was there before."""
    return strong(op) and (isinstance(op, ops.Store) or (
        isinstance(op, ops.Atomic) and op.kind == "exch" and id(op) not in used))


def _deciding(walked: Sequence[ops.Op]) -> Iterator[ops.Load | ops.Atomic]:
    """The looks whose results decide more than where a thread reads and stores data: what it does next, or what memory
    and other threads get."""
    sources: dict[int, list[Operand | None]] = {}
    todo: list[Operand | None] = []
    for op in walked:
        if isinstance(op, ops.Declare):
            sources.setdefault(op.var.id, []).append(op.init)
        elif isinstance(op, ops.Assign):
            for var, source in op.pairs:
                sources.setdefault(var.id, []).append(source)
        elif isinstance(op, ops.Store) and not strong(op):
            todo.append(op.value)
        elif not isinstance(op, ops.Bounds) and (op.defines() is None or isinstance(op, ops.Atomic)):
            todo += op.operands()
    seen = set[int]()
    while todo:
        value = todo.pop()
        if not isinstance(value, Value) or value.op is None or id(value.op) in seen:
            continue
        seen.add(id(value.op))
        todo += sources.get(value.op.var.id, []) if isinstance(value.op, ops.Read) else value.op.operands()
        if isinstance(value.op, (ops.Load, ops.Atomic)) and strong(value.op):
            yield value.op


def _looks_again(op: ops.Op) -> bool:
    """Whether an access may be repeated until its value suits, and changes nothing meanwhile."""
    return isinstance(op, ops.Load) or (isinstance(op, ops.Atomic) and op.kind not in ("cas", "exch"))
