"""Arithmetic that only one side of a ``where``, ``and`` or ``or`` uses: it is judged where that side is taken.

In: a Func.  Out: the ops whose checks wait for the op that chooses, and for each such op the sides that it takes.

    found = choices(func); found.sides[id(select)]      # [(True, what only a needs), (False, what only b needs)]

Both sides are computed, by the program and by the simulator; an overflow of the side that is not taken is nobody's
mistake.  It looks at straight code alone: what waits for a barrier in between is judged at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value
from moye.ir.traits import Trait

Sides = list[tuple[bool, list[ops.Op]]]
"""When a side is taken: where the condition is true, or where it is not; and what serves it alone."""


@dataclass(slots=True)
class Choices:
    """``postponed``: ids of ops that are judged where they are chosen; ``sides``: by the id of what chooses."""

    postponed: set[int] = field(default_factory=set)
    sides: dict[int, Sides] = field(default_factory=dict)


def choices(func: Func, judged: Callable[[ops.Op], bool]) -> Choices:
    """``judged`` says which ops have a check at all."""
    users = _users(func)
    found = Choices()
    for block in _blocks(func.body):
        for run in _runs(block):
            places = {id(op): place for place, op in enumerate(run)}
            for op in run:
                sides = [(taken, [x for x in _needed(side, op, places, users) if judged(x)])
                         for taken, side in _chosen(op)]
                if any(side for _, side in sides):
                    found.sides[id(op)] = sides
                    found.postponed.update(id(x) for _, side in sides for x in side)
    return found


def condition(op: ops.Op) -> Operand:
    """What decides which side is taken."""
    assert isinstance(op, (ops.Select, ops.Binary)), "what chooses"
    return op.cond if isinstance(op, ops.Select) else op.a


def _chosen(op: ops.Op) -> list[tuple[bool, Operand]]:
    """The operands that an op uses only where its condition is true, or is not."""
    if isinstance(op, ops.Select) and op.a is not op.b:
        return [(True, op.a), (False, op.b)]
    if isinstance(op, ops.Binary) and op.kind in ops.LOGICAL:
        return [(op.kind == "land", op.b)]
    return []


def _users(func: Func) -> dict[int, set[int]]:
    """The ops that use a Value, by its id; a Map's own value counts as used by the Map."""
    users: dict[int, set[int]] = {}
    for op in func.body.walk():
        for operand in (*op.operands(), *([op.value] if isinstance(op, ops.Map) else [])):
            if isinstance(operand, Value):
                users.setdefault(operand.id, set()).add(id(op))
    return users


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks():
            yield from _blocks(inner)


def _runs(block: Block) -> Iterator[list[ops.Op]]:
    """The pieces of a block that are straight scalar code."""
    run: list[ops.Op] = []
    for op in block.ops:
        if Trait.SPECULATIVE in op.traits:
            run.append(op)
        elif run:
            yield run
            run = []
    yield run


def _needed(side: Operand, chooser: ops.Op, places: dict[int, int], users: dict[int, set[int]]) -> list[ops.Op]:
    """The pure ops of the run that serve this side alone, in program order."""
    if side is condition(chooser):
        return []
    found: dict[int, ops.Op] = {}
    open_ = [side]
    while open_:
        operand = open_.pop()
        op = operand.op if isinstance(operand, Value) else None
        if isinstance(operand, Value) and op is not None and Trait.ARITHMETIC in op.traits \
                and not isinstance(op, ops.Select) and id(op) in places and id(op) not in found \
                and users[operand.id] <= {id(chooser), *found}:
            found[id(op)] = op
            open_ += op.operands()
    return sorted(found.values(), key=lambda op: places[id(op)])
