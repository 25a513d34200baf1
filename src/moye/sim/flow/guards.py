"""Statements that fill shared memory from global memory under a condition, in a loop, and what they leave if it fails.

In: a Func.  Out: ``guards``: by the id of an ``if`` what it guards, and which of its operations the addresses need.
That is either arm, or what follows it where an arm goes elsewhere (``continue``, ``return``).

    guards(func)[id(branch)][0].targets[0].op       # sA[i] = x[i] under ``if i < n``

A condition is ragged if it bounds an index: integers are compared by size, one depends on the thread, none on data.  A
value that is kept on purpose has another condition (``k % 4 == 0``, ``best < x[i]``).  One that is the same in every
pass (``tid < 8``) says who works, and guards nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moye.dtypes import DType, Kind, Space
from moye.ir import ops
from moye.ir.nodes import Block, Func, Index, Operand, Ref, TileRef, Value
from moye.ir.traits import Trait
from moye.sim.flow.once import once_per_func

_SIZES = ("lt", "le", "gt", "ge")


@dataclass(frozen=True, slots=True)
class Target:
    """One store or copy, for a store the load of its value, and the indices that tell if it has such an element."""

    op: ops.Store | ops.Copy
    load: ops.Load | None
    within: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """What a branch guards and fills shared memory; ``needed``: the ids of operations that addresses are made of."""

    targets: tuple[Target, ...]
    needed: frozenset[int]
    ragged: bool
    block: Block
    """What is executed if the condition is ``when``."""
    when: bool
    """The outcome of the condition that executes the block."""

    def places(self) -> list[tuple[object, int]]:
        """Statement and buffer of each target: those of an unrolled loop are the same."""
        return [(op.loc, (op.dst if isinstance(op, ops.Copy) else op.ref).buffer.id)
                for op in (target.op for target in self.targets)]


@once_per_func
def guards(func: Func) -> dict[int, list[Guard]]:
    """The guards in loops of the kernel, and in unrolled ones that use what a statement left before it runs again."""
    loops = loops_of(func)
    looped = {id(op) for op in _looped(func.body, False)}
    found = [(op, guard, fixed(op.cond, loops)) for op, block, when in _guarded(func.body)
             if (guard := _guard(op, block, when, loops)) is not None]
    used, keys = _used(func, [guard for _, guard, _ in found]), dict[tuple[object, int], set[object]]()
    for _, guard, key in found:
        for at in guard.places():
            keys.setdefault(at, set()).add(key)

    def counts(branch: int, guard: Guard, key: object | None) -> bool:
        if key is None and branch in looped:
            return True
        return any(at in used and (key is None or len(keys[at]) > 1) for at in guard.places())

    result: dict[int, list[Guard]] = {}
    for op, guard, key in found:
        if counts(id(op), guard, key):
            result.setdefault(id(op), []).append(guard)
    return result


def _guarded(block: Block) -> Iterator[tuple[ops.If, Block, bool]]:
    """Every branch with what is executed if its condition is true or false: an arm, or what follows it."""
    for place, op in enumerate(block.ops):
        if isinstance(op, ops.If):
            yield op, op.then, True
            yield op, op.orelse, False
            for arm, when in ((op.then, False), (op.orelse, True)):
                # ``if not inside: continue`` guards what follows it, as an arm of its own would.
                if arm.ops and isinstance(exit := arm.ops[-1], ops.Exit) and exit.kind != "break":
                    yield op, Block(block.ops[place + 1:]), when
        for inner in op.blocks():
            yield from _guarded(inner)


def _used(func: Func, found: list[Guard]) -> set[tuple[object, int]]:
    """The statements of unrolled loops between which the buffer that they write is read."""
    order = {id(op): number for number, op in enumerate(func.body.walk())}
    reads: dict[int, list[int]] = {}
    for op in func.body.walk():
        for ref, written in op.refs():
            if not written:
                reads.setdefault(ref.buffer.id, []).append(order[id(op)])
    spans: dict[tuple[object, int], list[int]] = {}
    for guard in found:
        for at, target in zip(guard.places(), guard.targets, strict=True):
            spans.setdefault(at, []).append(order[id(target.op)])
    return {at for at, span in spans.items() if any(min(span) < read < max(span) for read in reads.get(at[1], ()))}


def fixed(cond: Operand, loops: dict[int, ops.For]) -> object | None:
    """What a condition is made of, to compare it with others, if no pass of a loop changes it; else None."""
    if not isinstance(cond, Value):
        return cond
    if cond.op is None:
        return None if cond.id in loops else ("value", cond.id)
    if isinstance(cond.op, ops.Special):
        return cond.op.kind
    if Trait.PURE not in cond.op.traits:
        return None
    parts = tuple(fixed(part, loops) for part in cond.op.operands())
    return None if None in parts else (getattr(cond.op, "kind", type(cond.op).__name__), parts)


@once_per_func
def loops_of(func: Func) -> dict[int, ops.For]:
    """Each loop, by the id of its variable."""
    return {op.iv.id: op for op in func.body.walk() if isinstance(op, ops.For)}


def is_ragged(cond: Operand, loops: dict[int, ops.For]) -> bool | None:
    """Whether a condition bounds an index that depends on the thread; None if it depends on data or compares for
    equality."""
    if not isinstance(cond, Value) or not isinstance(cond.op, (ops.Binary, ops.Unary)):
        return None
    parts = [is_ragged(part, loops) for part in cond.op.operands()] if cond.op.kind in ("land", "lor", "not") else []
    if parts:
        return None if None in parts else any(parts)
    if cond.op.kind not in _SIZES or _dtype(cond.op).kind is not Kind.INT:
        return None
    origins = [origin for part in cond.op.operands() for origin in _origins(part, loops)]
    if any(isinstance(origin, (ops.Load, ops.Read, ops.Atomic)) for origin in origins):
        return None
    return any(isinstance(origin, ops.Special) and origin.kind.startswith("thread") for origin in origins)


def _dtype(op: ops.Binary | ops.Unary) -> DType:
    return next(iter(op.operands())).dtype


def _looped(block: Block, inside: bool) -> Iterator[ops.Op]:
    """The operations that are in a loop."""
    for op in block:
        if inside:
            yield op
        for inner in op.blocks():
            yield from _looped(inner, inside or Trait.LOOP in op.traits)


def _guard(branch: ops.If, block: Block, when: bool, loops: dict[int, ops.For]) -> Guard | None:
    walked = {id(op): op for op in block.walk()}
    targets, needed, bounds = [], set[int](), dict[tuple[int, object], tuple[Index, ...]]()
    for op in walked.values():
        if isinstance(op, ops.Bounds) and op.write:
            bounds[op.buffer.id, op.loc] = tuple(check for check in op.checks if not check.strides)
        load = _source(op, walked) if isinstance(op, ops.Store) else None
        if not ((isinstance(op, ops.Copy) and _fills(op)) or load is not None):
            continue
        assert isinstance(op, (ops.Store, ops.Copy)), "they write"
        refs = [op.dst, op.src] if isinstance(op, ops.Copy) else [op.ref, load.ref]         # type: ignore[union-attr]
        counted = [part for loop in walked.values() if isinstance(loop, ops.For) and op in loop.body.walk()
                   for part in (loop.start, loop.stop, loop.step)]
        counted += [inner.cond for inner in walked.values()
                    if isinstance(inner, ops.If) and any(op in arm.walk() for arm in inner.blocks())]
        made = _needed([part for ref in refs for part in _parts(ref)]
                       + (list(op.extents) if isinstance(op, ops.Copy) else []) + counted, walked)
        if made is not None:
            within = bounds.pop((refs[0].buffer.id, op.loc), ())
            judged = _needed([part for check in within for part in check.operands()], walked)
            targets.append(Target(op, load, within if judged is not None else ()))
            needed |= made | (judged or set())
    if not targets:
        return None
    return Guard(tuple(targets), frozenset(needed), bool(is_ragged(branch.cond, loops)), block, when)


def _fills(op: ops.Copy) -> bool:
    return (op.src.buffer.space is Space.GLOBAL and op.dst.buffer.space is Space.SHARED and
            op.dst.dtype.bits == op.dst.buffer.dtype.bits >= 8 and not op.atom.matrices)


def _source(store: ops.Store, inside: dict[int, ops.Op]) -> ops.Load | None:
    """The load from global memory, in the branch, that the value of a store is made of."""
    if store.ref.buffer.space is not Space.SHARED or store.order is not None or \
            store.ref.dtype.bits != store.ref.buffer.dtype.bits or store.ref.dtype.bits < 8:
        return None
    return next((origin for origin in _origins(store.value, {}) if isinstance(origin, ops.Load)
                 and id(origin) in inside and origin.ref.buffer.space is Space.GLOBAL and origin.order is None), None)


def _origins(operand: object, loops: dict[int, ops.For]) -> Iterator[ops.Op]:
    """What a value is made of: the operations that are no arithmetic, those before variables of loops included."""
    todo, seen = [operand], set[int]()
    while todo:
        value = todo.pop()
        if isinstance(value, Value) and (loop := loops.get(value.id)) is not None and id(loop) not in seen:
            seen.add(id(loop))
            todo += [loop.start, loop.step]
        if not isinstance(value, Value) or value.op is None or id(value.op) in seen:
            continue
        seen.add(id(value.op))
        if Trait.ARITHMETIC in value.op.traits:
            todo += value.op.operands()
        else:
            yield value.op


def _parts(ref: Ref | TileRef) -> list[object]:
    return [ref.offset, *(ref.strides if isinstance(ref, TileRef) else ())]


def _needed(operands: list[object], inside: dict[int, ops.Op]) -> set[int] | None:
    """The operations of the branch that the operands are made of; None if not all of them can be done in advance.

    Those are arithmetic, and variables that the branch itself declares (running addresses of loops) or never assigns.
    """
    declared, assigned = _variables(inside)
    todo, found = list(operands), set[int]()
    while todo:
        value = todo.pop()
        if not isinstance(value, Value) or value.op is None or id(value.op) not in inside or id(value.op) in found:
            continue
        found.add(id(value.op))
        if isinstance(value.op, ops.Read):
            number = value.op.var.id
            # A variable that the branch changes has no value yet where its addresses are asked for.
            if number not in declared and number in assigned:
                return None
            for op in (*declared.get(number, ()), *assigned.get(number, ())):
                if any(var.id not in declared for var, _ in (op.pairs if isinstance(op, ops.Assign) else ())):
                    return None
                found.add(id(op))
                todo += op.operands()
        elif Trait.PURE in value.op.traits:
            todo += value.op.operands()
        else:
            return None
    return found


def _variables(inside: dict[int, ops.Op]) -> tuple[dict[int, list[ops.Op]], dict[int, list[ops.Op]]]:
    """The operations that declare each variable, and those that assign it."""
    declared: dict[int, list[ops.Op]] = {}
    assigned: dict[int, list[ops.Op]] = {}
    for op in inside.values():
        if isinstance(op, ops.Declare):
            declared.setdefault(op.var.id, []).append(op)
        elif isinstance(op, ops.Assign):
            for var, _ in op.pairs:
                assigned.setdefault(var.id, []).append(op)
    return declared, assigned
