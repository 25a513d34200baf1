"""Cuts a Func where threads may have to wait: Func -> segments of straight code that end in a jump.

In: a Func.  Out: ``Segment``s: items (ops, among them control flow in which nobody can wait) and an end (goto, branch,
wait, yield, pause, leave).  Names live across segments are known by liveness: ``v12`` is Value 12, ``x3`` Var 3.

    lower(func)[0].end      # Wait(op=SyncThreads(...), next=1)

A ``Loop`` that polls memory yields after each iteration, so that whoever it waits for can run.  Where threads give way
(giving_way.py) there is a pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from moye.ir import ops
from moye.ir.nodes import Block, Func, Literal, Operand, ScalarParam, Value, Var
from moye.ir.traits import Trait
from moye.sim.flow.giving_way import Way, sites
from moye.sim.flow.polling import polls


@dataclass(slots=True)
class IvStart:
    """The loop variable takes its first value."""

    loop: ops.For


@dataclass(slots=True)
class IvStep:
    """The loop variable takes its next value."""

    loop: ops.For


@dataclass(slots=True)
class Lap:
    """A pass of the loop begins, or the loop itself: passes are counted."""

    loop: ops.For | ops.Loop
    first: bool = False


@dataclass(slots=True)
class Turn:
    """A loop in which lanes meet begins, or another pass of it: they are counted."""

    loop: ops.For | ops.Loop
    first: bool = False


Item = ops.Op | IvStart | IvStep | Lap | Turn
Loops = Mapping[int, tuple[Value, ...]]
"""The variables of the loops around an op, by the op's id: what a recorded op needs besides its operands."""


@dataclass(slots=True)
class Goto:
    target: Segment


@dataclass(slots=True)
class Branch:
    """On a bool operand, or on whether a For goes on."""

    cond: Operand | ops.For
    yes: Segment
    no: Segment


@dataclass(slots=True)
class Wait:
    """Continue at ``next`` once ``op`` lets the lanes through; what the op computes is the first item there."""

    op: ops.Op
    next: Segment


@dataclass(slots=True)
class Yield:
    """Continue at ``next`` after everybody else had a turn; ``loop`` is what spins."""

    loop: ops.Loop | ops.For
    next: Segment


@dataclass(slots=True)
class Pause:
    """Continue at ``next``; in some schedules when everybody else has got as far as they can."""

    way: Way
    next: Segment


@dataclass(slots=True)
class Leave:
    """The threads exit."""


@dataclass(slots=True)
class Segment:
    """Straight code: items, an end, and the names that it needs, changes, and that are needed after it."""

    index: int = -1
    items: list[Item] = field(default_factory=list)
    end: Goto | Branch | Wait | Yield | Pause | Leave = field(default_factory=Leave)
    needs: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    live_in: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)

    def successors(self) -> tuple[Segment, ...]:
        if isinstance(self.end, Branch):
            return (self.end.yes, self.end.no)
        if isinstance(self.end, Leave):
            return ()
        return (self.end.target if isinstance(self.end, Goto) else self.end.next,)


def name_of(item: Operand | Var) -> str:
    """The local name of a Value or Var in generated code."""
    if isinstance(item, Literal):
        raise TypeError(f"the literal {item} has no name")
    return f"v{item.id}" if isinstance(item, Value) else f"x{item.id}"


# --- where to cut ----------------------------------------------------------------------------------------------------


def splitting(func: Func) -> set[int]:
    """The ids of ops at which segments end: what may wait, where threads give way, what contains such an op, and exits
    out of it."""
    found = set(sites(func))
    size = -1
    # An exit out of a loop that is cut cuts what is around the exit, so go on until nothing is added.
    while size != len(found):
        size = len(found)
        for op in func.body:
            _splits(op, found)
    return found


def _splits(op: ops.Op, found: set[int]) -> bool:
    # All children first, in a list: any() alone would stop at the first and leave the others without a cut.
    inner = [_splits(child, found) for block in op.blocks() for child in block]
    leaves = isinstance(op, ops.Exit) and op.target is not None and id(op.target) in found
    if Trait.WAITS in op.traits or any(inner) or leaves or id(op) in found or polls(op):
        found.add(id(op))
    return id(op) in found


# --- lowering --------------------------------------------------------------------------------------------------------


def lower(func: Func, loops: Loops | None = None, counted: frozenset[int] = frozenset()) -> list[Segment]:
    """The segments in program order; execution begins at the first.

    ``loops`` has an entry per op to be recorded; ``counted`` are the ids of the loops whose passes are counted.
    """
    lowering = _Lowering(func, counted)
    lowering.block(func.body)
    params = {name_of(p.value) for p in func.params if isinstance(p, ScalarParam)}
    params |= {name_of(e) for p in func.params if not isinstance(p, ScalarParam) for e in (*p.shape, *p.strides)
               if isinstance(e, Value)}
    _liveness(lowering.segments, params, loops or {})
    return lowering.segments


class _Lowering:
    def __init__(self, func: Func, counted: frozenset[int]) -> None:
        self.split, self.sites, self.counted = splitting(func), sites(func), counted
        self.segments: list[Segment] = []
        self.exits: dict[int, dict[str, Segment]] = {}
        self.here = self.place(Segment())

    def place(self, segment: Segment) -> Segment:
        segment.index = len(self.segments)
        self.segments.append(segment)
        self.here = segment
        return segment

    def block(self, block: Block) -> None:
        for op in block:
            if id(op) in self.split:
                self.cut(op)
            else:
                self.here.items.append(op)

    def cut(self, op: ops.Op) -> None:
        if isinstance(op, ops.If):
            self.branch(op)
        elif isinstance(op, ops.For):
            self.count(op)
        elif isinstance(op, ops.Loop):
            self.loop(op)
        elif isinstance(op, ops.Scope):
            after = Segment()
            self.exits[id(op)] = {"leave": after}
            self.block(op.body)
            self.go(after)
        elif isinstance(op, ops.Exit):
            self.here.end = Goto(self.exits[id(op.target)][op.kind])
            self.place(Segment())
        elif id(op) in self.sites:
            after = Segment()
            self.here.end = Pause(self.sites[id(op)], after)
            self.place(after)
            after.items.append(op)
        else:
            after = Segment()
            self.here.end = Wait(op, after)
            self.place(after)
            if Trait.ACTS_WHEN_MET in op.traits:
                after.items.append(op)

    def go(self, target: Segment) -> None:
        """End here with a jump to ``target``, which is placed next."""
        self.here.end = Goto(target)
        self.place(target)

    def branch(self, op: ops.If) -> None:
        # What follows is placed last: numbers are program order, and the lowest runs first, so lanes meet again there.
        then, orelse, after = Segment(), Segment(), Segment()
        self.here.end = Branch(op.cond, then, orelse if op.orelse.ops else after)
        self.place(then)
        self.block(op.then)
        self.here.end = Goto(after)
        if op.orelse.ops:
            self.place(orelse)
            self.block(op.orelse)
            self.here.end = Goto(after)
        self.place(after)

    def count(self, op: ops.For) -> None:
        # ``continue`` still steps the variable, so it goes to the latch, and ``break`` behind the loop.
        head, body, latch, after = Segment(), Segment(), Segment(), Segment()
        self.exits[id(op)] = {"break": after, "continue": latch}
        self.lap(op, first=True)
        self.here.items += [Turn(op, first=True), IvStart(op)]
        self.go(head)
        head.end = Branch(op, body, after)
        self.place(body)
        self.lap(op)
        self.block(op.body)
        self.go(latch)
        # A loop that polls gives way after each pass: one set of lanes runs at a time, and who is to set the flag may
        # be another.  Nor are its passes counted, because others decide how many they are.
        latch.items += [IvStep(op)] if polls(op) else [Turn(op), IvStep(op)]
        latch.end = Yield(op, head) if polls(op) else Goto(head)
        self.place(after)

    def loop(self, op: ops.Loop) -> None:
        body, latch, after = Segment(), Segment(), Segment()
        self.exits[id(op)] = {"break": after, "continue": latch}
        self.lap(op, first=True)
        self.here.items.append(Turn(op, first=True))
        self.go(body)
        self.lap(op)
        self.block(op.body)
        self.go(latch)
        latch.end = Yield(op, body) if polls(op) else Goto(body)
        if not polls(op):
            latch.items.append(Turn(op))
        self.place(after)

    def lap(self, op: ops.For | ops.Loop, *, first: bool = False) -> None:
        if id(op) in self.counted:
            self.here.items.append(Lap(op, first))


def around(block: Block, kind: type[ops.Op], loops: tuple[Value, ...] = ()) -> dict[int, tuple[Value, ...]]:
    """The variables of the loops around every op of one class, by its id."""
    found: dict[int, tuple[Value, ...]] = {}
    for op in block:
        if isinstance(op, kind):
            found[id(op)] = loops
        inside = (*loops, op.iv) if isinstance(op, ops.For) else loops
        for inner in op.blocks():
            found |= around(inner, kind, inside)
    return found


# --- liveness --------------------------------------------------------------------------------------------------------


def _liveness(segments: list[Segment], params: set[str], loops: Loops) -> None:
    for segment in segments:
        for item in segment.items:
            _account(segment, item, loops, nested=False)
        for operand in _end_operands(segment, loops):
            _use(segment, operand)
        segment.needs -= params
    # Backwards to a fixed point.  In reverse program order values pass through all but loops in one round.
    changed = True
    while changed:
        changed = False
        for segment in reversed(segments):
            out = set().union(*(successor.live_in for successor in segment.successors()))
            live = segment.needs | (out - segment.kills)
            if live != segment.live_in or out != segment.live_out:
                segment.live_in, segment.live_out, changed = live, out, True


def _end_operands(segment: Segment, loops: Loops) -> Iterator[Operand]:
    end = segment.end
    if isinstance(end, Wait):
        yield from loops.get(id(end.op), ())
    if isinstance(end, Branch):
        yield from (end.cond.iv, end.cond.stop) if isinstance(end.cond, ops.For) else (end.cond,)
    elif isinstance(end, Wait) and Trait.ACTS_WHEN_MET not in end.op.traits:
        yield from end.op.operands()


def _use(segment: Segment, item: Operand | Var) -> None:
    if not isinstance(item, Literal) and name_of(item) not in segment.kills:
        segment.needs.add(name_of(item))


def _set(segment: Segment, item: Value | Var) -> None:
    segment.kills.add(name_of(item))
    segment.changes.add(name_of(item))


def _account(segment: Segment, item: Item, loops: Loops, nested: bool) -> None:
    if isinstance(item, (IvStart, IvStep)):
        _use(segment, item.loop.start if isinstance(item, IvStart) else item.loop.iv)
        if isinstance(item, IvStep) and isinstance(item.loop.step, Value):
            _use(segment, item.loop.step)
        _set(segment, item.loop.iv)
        return
    if isinstance(item, Turn) and isinstance(item.loop, ops.For) and not item.first:
        for operand in (item.loop.iv, item.loop.stop, item.loop.step):
            if isinstance(operand, Value):
                _use(segment, operand)
    if isinstance(item, (Lap, Turn)):
        return
    for variable in loops.get(id(item), ()):
        _use(segment, variable)
    for operand in item.operands():
        if not (isinstance(item, ops.Map) and operand is item.value):
            _use(segment, operand)
    if isinstance(item, ops.Read):
        _use(segment, item.var)
    for value in item.given():
        _set(segment, value)
    for block in item.blocks():
        for child in block:
            _account(segment, child, loops, nested=Trait.POINTWISE not in item.traits or nested)
    if isinstance(item, ops.Map):
        _use(segment, item.value)
    for operand in item.computed():
        _use(segment, operand)
    if isinstance(item, ops.Declare):
        _set(segment, item.var)
    elif isinstance(item, ops.Assign):
        for var, _ in item.pairs:
            # Under a condition the variable may keep its value, which is then still needed.
            if nested:
                _use(segment, var)
                segment.changes.add(name_of(var))
            else:
                _set(segment, var)
    if (result := item.defines()) is not None:
        _set(segment, result)
