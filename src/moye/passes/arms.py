"""Func -> Func whose early returns of inlined functions are arms of conditions, where they can be.

Contract: what follows an ``if`` one of whose arms leaves the Scope becomes the other arm, and a Scope that nothing
leaves any longer is its body.  The compiler then chooses among values where it would jump.  Returns from inside of
loops stay jumps, and so do returns of the kernel itself, and jumps that would nest deeper than ``_DEEPEST``.  In place.

    if (v < lo) { result = lo; goto leave; }            # becomes
    result = v;
    if (v < lo) { result = lo; } else { result = v; }
"""

from __future__ import annotations

from moye.ir import ops
from moye.ir.nodes import Block, Func

_DEEPEST = 16
"""The arms in each other that one Scope becomes: an unrolled loop of a hundred turns may have a jump in each."""


def structure(func: Func) -> Func:
    """Rewrite every Scope, innermost first."""
    _block(func.body)
    return func


def _block(block: Block) -> None:
    found: list[ops.Op] = []
    for op in block.ops:
        for inner in op.blocks():
            _block(inner)
        if isinstance(op, ops.Scope):
            _ends(op.body, op, _DEEPEST)
            left = any(isinstance(each, ops.Exit) and each.target is op for each in op.body.walk())
            found += [op] if left else op.body.ops
        else:
            found.append(op)
    block.ops = found


def _ends(block: Block, scope: ops.Scope, levels: int) -> None:
    """Rewrite a block at whose end the Scope ends, with at most so many levels of arms."""
    if levels == 0:
        return
    for at, op in enumerate(block.ops):
        if not isinstance(op, ops.If):
            continue
        behind = block.ops[at + 1:]
        if behind and not _leaves(op.then, scope) and not _leaves(op.orelse, scope):
            continue
        other = op.orelse if _leaves(op.then, scope) else op.then
        if not other.ops or not isinstance(other.ops[-1], ops.Exit):    # else nobody comes to what is behind
            other.ops += behind
        block.ops = block.ops[:at + 1]
        _ends(op.then, scope, levels - 1)
        _ends(op.orelse, scope, levels - 1)
        return
    if _leaves(block, scope):
        block.ops = block.ops[:-1]


def _leaves(block: Block, scope: ops.Scope) -> bool:
    last = block.ops[-1] if block.ops else None
    return isinstance(last, ops.Exit) and last.target is scope
