"""What each scalar depends on: nothing, the thread, the block, or both.

In: a Func.  Out: ``Levels``: per Value and Var one of SCALAR, THREAD, BLOCK, FULL (bits: 1 thread, 2 block).

    analyse(func).of(tid)       # THREAD

Uniform means the same for all lanes of a set, that is of lanes that run in lockstep.  A Var is as varied as what is
assigned to it, and as the conditions between its declaration and the assignment; a divergent exit makes the body
that it leaves divergent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moye.dtypes import Space
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Block, Func, Literal, Operand, Ref, Value, Var
from moye.ir.traits import Trait

SCALAR, THREAD, BLOCK, FULL = range(4)


@dataclass(slots=True)
class Levels:
    """The result, and during the analysis its state."""

    func: Func
    values: dict[int, int] = field(default_factory=dict)
    variables: dict[int, int] = field(default_factory=dict)
    bodies: dict[tuple[int, int], int] = field(default_factory=dict)
    """Divergence of a body (op, arm), relative to what is around it."""
    declared: dict[int, int] = field(default_factory=dict)
    changed: bool = False

    def of(self, operand: Operand) -> int:
        return SCALAR if isinstance(operand, Literal) else self.values.get(operand.id, SCALAR)

    def of_var(self, var: Var) -> int:
        return self.variables.get(var.id, SCALAR)

    def join(self, operands: Sequence[Operand]) -> int:
        level = SCALAR
        for operand in operands:
            level |= self.of(operand)
        return level

    def raise_to(self, table: dict[int, int], key: int, level: int) -> None:
        if table.get(key, SCALAR) | level != table.get(key):
            table[key] = table.get(key, SCALAR) | level
            self.changed = True


Frames = tuple[tuple[int, int], ...]


def analyse(func: Func) -> Levels:
    """The levels of every Value and Var, as a fixed point."""
    levels = Levels(func)
    # Levels only rise, and there are few, so this ends; loops need it, because a use may come before its assignment.
    while True:
        levels.changed = False
        _block(levels, func.body, ())
        if not levels.changed:
            return levels


def _block(levels: Levels, block: Block, frames: Frames) -> None:
    for op in block:
        _op(levels, op, frames)


def _op(levels: Levels, op: ops.Op, frames: Frames) -> None:
    if isinstance(op, ops.Declare):
        levels.declared[op.var.id] = len(frames)
        levels.raise_to(levels.variables, op.var.id, levels.of(op.init) if op.init is not None else SCALAR)
    elif isinstance(op, ops.Assign):
        for var, source in op.pairs:
            # An assignment under a condition makes its variable as varied as the condition, from where it is declared
            # inwards.
            context = _context(levels, frames[levels.declared.get(var.id, 0):])
            levels.raise_to(levels.variables, var.id, levels.of(source) | context)
    elif isinstance(op, ops.Exit):
        _exit(levels, op, frames)
    elif Trait.REGION in op.traits:
        _region(levels, op, frames)
    else:
        for value in op.given():
            levels.raise_to(levels.values, value.id, FULL)
        for body in op.blocks():
            _block(levels, body, frames)
        if (result := op.defines()) is not None:
            levels.raise_to(levels.values, result.id, _result(levels, op))


def _context(levels: Levels, frames: Frames) -> int:
    level = SCALAR
    for key in frames:
        level |= levels.bodies.get(key, SCALAR)
    return level


def _diverge(levels: Levels, key: tuple[int, int], level: int) -> None:
    if levels.bodies.get(key, SCALAR) | level != levels.bodies.get(key):
        levels.bodies[key] = levels.bodies.get(key, SCALAR) | level
        levels.changed = True


def _region(levels: Levels, op: ops.Op, frames: Frames) -> None:
    inside = SCALAR
    if isinstance(op, ops.If):
        inside = levels.of(op.cond)
    elif isinstance(op, ops.For):
        step = levels.of(op.step) if isinstance(op.step, Value) else SCALAR
        # Lanes that stop earlier are masked, so what bounds a loop varies its body, not its variable.
        levels.raise_to(levels.values, op.iv.id, levels.of(op.start) | step)
        inside = levels.of(op.stop) | levels.of(op.iv)
    for arm, body in enumerate(op.blocks()):
        key = (id(op), arm)
        _diverge(levels, key, inside)
        _block(levels, body, (*frames, key))


def _exit(levels: Levels, op: ops.Exit, frames: Frames) -> None:
    if op.target is None:
        return                                          # whoever returned is gone
    target = (id(op.target), 0)
    if target in frames:
        # Lanes leave the region apart, so what follows in it is as divergent as the conditions around the jump.
        _diverge(levels, target, _context(levels, frames[frames.index(target) + 1:]))


def _result(levels: Levels, op: ops.Op) -> int:
    if isinstance(op, ops.Special):
        return _special(levels.func, op.kind)
    if Trait.ARITHMETIC in op.traits:
        return levels.join(tuple(op.operands()))
    if isinstance(op, ops.Read):
        return levels.of_var(op.var)
    if isinstance(op, ops.MapShared):
        return BLOCK | levels.of(op.rank)
    if isinstance(op, ops.Load):
        return FULL if op.order is not None else _loaded(levels, op.ref)     # threads may see different values
    if isinstance(op, ops.Vote):
        return THREAD | levels.of(op.pred)
    if isinstance(op, (ops.Redux, ops.Match)):
        return THREAD | levels.of(op.value)
    if isinstance(op, ops.Elect):
        return THREAD
    if isinstance(op, (ops.Atomic, ops.Shuffle, ops.Reduce, ops.Find, ops.InlineEffect, ops.MbarrierTest)):
        return FULL
    raise UnsupportedError(f"the simulator does not know the operation {type(op).__name__}", locs=(op.loc,))


def _loaded(levels: Levels, ref: Ref) -> int:
    if ref.buffer.space is Space.REGISTER:
        return FULL
    base = SCALAR if ref.buffer.base is None else levels.of(ref.buffer.base)
    return levels.of(ref.offset) | base | (BLOCK if ref.buffer.space is Space.SHARED else SCALAR)


def _special(func: Func, kind: str) -> int:
    name, _, axis = kind.partition("_")
    if name == "thread":
        return THREAD if func.block_dim["xyz".index(axis)] > 1 else SCALAR
    return BLOCK if name in ("block", "cluster") else SCALAR
