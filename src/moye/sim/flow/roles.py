"""Roles of a kernel: branches on the thread's index both of whose sides synchronise on their own.

In: a Func and its block barriers.  Out: the branch that makes one part of one role, and what else is in that role.

    role_of(func, sync).loc.line        # of ``if mo.warpgroup_idx() == 0:``
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value
from moye.ir.traits import Trait

_THREAD = ("thread_x", "thread_y", "thread_z")


def role_of(func: Func, op: ops.Op) -> ops.If | None:
    """The innermost branch on the thread's index around ``op`` whose two sides are roles; None if there is none."""
    around = [branch for branch in _around(func.body, op) if _by_thread(branch.cond) and _two_sided(branch)]
    return around[-1] if around else None


def is_open(func: Func, op: ops.Op) -> bool:
    """Whether no branch is around ``op``, and none leads past it."""
    past = (exit for exit in func.body.walk() if isinstance(exit, ops.Exit)
            and (exit.target is None or _inside(exit.target.body, op)))
    return not any(True for _ in _around(func.body, op)) and not any(True for _ in past)


def leads_to(func: Func, op: ops.Op, kind: type[ops.Op]) -> bool:
    """Whether an op of this class follows ``op`` on the way to the end, past no exit."""
    return _follows(func.body, op, kind) is True


def _follows(block: Block, op: ops.Op, kind: type[ops.Op]) -> bool | None:
    """None means that neither such an op nor an exit follows in the block, or that ``op`` is not in it."""
    for place, outer in enumerate(block.ops):
        inside = [inner for inner in outer.blocks() if _inside(inner, op)]
        if outer is not op and not inside:
            continue
        found = next((known for inner in inside if (known := _follows(inner, op, kind)) is not None), None)
        for later in block.ops[place + 1:] if found is None else ():
            if isinstance(later, kind) or any(isinstance(x, kind) for b in later.blocks() for x in b.walk()):
                return True
            if isinstance(later, ops.Exit):
                return False
        return found
    return None


def same_side(branch: ops.If, a: ops.Op, b: ops.Op) -> bool:
    """Whether both ops are on one side of a branch."""
    return any(_inside(side, a) and _inside(side, b) for side in branch.blocks())


def one_role(func: Func, met: Sequence[tuple[ops.Op, Sequence[int]]]) -> ops.If | None:
    """The branch one side of which holds one of these barriers and none of the others, whose warps are others too."""
    for op, threads in met:
        branch, warps = role_of(func, op), _warps(threads)
        if branch is not None and not any(same_side(branch, op, other) or warps & _warps(there)
                                          for other, there in met if other is not op):
            return branch
    return None


def _warps(threads: Sequence[int]) -> set[int]:
    return {thread // WARP for thread in threads}


def _around(block: Block, op: ops.Op) -> Iterator[ops.If]:
    """The branches around an op, outermost first."""
    for outer in block.ops:
        if any(_inside(inner, op) for inner in outer.blocks()):
            if isinstance(outer, ops.If):
                yield outer
            for inner in outer.blocks():
                yield from _around(inner, op)


def _inside(block: Block, op: ops.Op) -> bool:
    return any(other is op for other in block.walk())


def _two_sided(branch: ops.If) -> bool:
    return all(any(Trait.SIGNALS in op.traits for op in side.walk()) for side in branch.blocks())


def _by_thread(operand: Operand) -> bool:
    """Whether an operand is made of the thread's index and constants alone."""
    if not isinstance(operand, Value):
        return True
    if isinstance(operand.op, ops.Special):
        return operand.op.kind in _THREAD
    op = operand.op
    return op is not None and Trait.ARITHMETIC in op.traits and all(_by_thread(part) for part in op.operands())
