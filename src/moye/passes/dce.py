"""Func -> Func without what nobody uses: pure ops, reads and loads without users, register tensors never read.

Contract: effects stay (stores to global and shared memory, barriers, prints, jumps); a load from memory whose value is
unused goes.  Idempotent.  Runs in place.
"""

from __future__ import annotations

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Func, Value


def eliminate(func: Func) -> Func:
    """Remove dead ops until nothing changes."""
    while _sweep(func):
        pass
    alive = {id(op.buffer) for op in func.body.walk() if isinstance(op, ops.Alloc)}
    func.buffers = [b for b in func.buffers if id(b) in alive]
    return func


def _sweep(func: Func) -> bool:
    used, read, set_vars = _uses(func)
    return _clean(func.body, used, read, set_vars)


def _uses(func: Func) -> tuple[set[int], set[int], set[int]]:
    """Ids of values used, of buffers read, of variables read."""
    values: set[int] = set()
    buffers: set[int] = set()
    variables: set[int] = set()
    for guard in func.guards:
        for operand in (guard.cond, *guard.fields.values()):
            _mark(operand, values)
    for op in func.body.walk():
        values.update(o.id for o in op.operands() if isinstance(o, Value))
        for ref, written in op.refs():
            if not written or ref.buffer.space is not Space.REGISTER:
                buffers.add(ref.buffer.id)
        if isinstance(op, ops.Read):
            variables.add(op.var.id)
        elif isinstance(op, ops.Atomic):
            buffers.add(op.ref.buffer.id)
    return values, buffers, variables


def _mark(operand: object, values: set[int]) -> None:
    """Guards keep the ops that make them."""
    if isinstance(operand, Value) and operand.id not in values:
        values.add(operand.id)
        if operand.op is not None:
            for inner in operand.op.operands():
                _mark(inner, values)


def _clean(block: Block, used: set[int], read: set[int], variables: set[int]) -> bool:
    kept: list[ops.Op] = []
    changed = False
    for op in block.ops:
        for inner in op.blocks():
            changed |= _clean(inner, used, read, variables)
        replacement = _keep(op, used, read, variables)
        if replacement is None:
            changed = True
        else:
            kept.append(op)
    block.ops = kept
    return changed


def _keep(op: ops.Op, used: set[int], read: set[int], variables: set[int]) -> ops.Op | None:
    if isinstance(op, (ops.Special, ops.Binary, ops.Unary, ops.Select, ops.Cast, ops.Read, ops.Reduce)):
        return op if op.result.id in used else None
    if isinstance(op, ops.Load):
        return op if op.result.id in used or op.order is not None else None
    if isinstance(op, (ops.Store, ops.Copy, ops.Map, ops.Gemm)):
        target = op.ref if isinstance(op, ops.Store) else op.dst if isinstance(op, (ops.Copy, ops.Map)) else op.d
        dead = target.buffer.space is Space.REGISTER and target.buffer.id not in read
        return None if dead else op
    if isinstance(op, ops.Alloc):
        return op if op.buffer.space is not Space.REGISTER or op.buffer.id in read else None
    if isinstance(op, ops.Declare):
        return op if op.var.id in variables else None
    if isinstance(op, ops.Assign):
        op.pairs = tuple((v, o) for v, o in op.pairs if v.id in variables)
        return op if op.pairs else None
    if isinstance(op, ops.If):
        return op if op.then.ops or op.orelse.ops else None
    return op
