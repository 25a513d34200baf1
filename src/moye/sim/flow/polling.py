"""Which loops wait for memory that others change.

In: a loop.  Out: ``polls``.

    while mo.load(flag, 0) == 0: pass
"""

from __future__ import annotations

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Literal, Operand
from moye.ir.traits import Trait


def polls(op: ops.Op) -> bool:
    """Whether a loop reads memory that others may change, to see whether it may go on."""
    if not isinstance(op, (ops.Loop, ops.For)):
        return False
    body = list(op.body.walk())
    if not any(isinstance(inner, ops.Exit) and inner.target is op and inner.kind == "break" for inner in body) and \
            isinstance(op, ops.For):
        return False
    inside = {id(inner) for inner in body} | {id(inner.iv) for inner in body if isinstance(inner, ops.For)}
    for inner in body:
        if isinstance(inner, (ops.Atomic, ops.MbarrierTest)) or (isinstance(inner, ops.Load) and ops.is_ordered(inner)):
            return True
        # A load from the same place in every pass waits for a value; one that walks on is work, and ends by itself.
        if isinstance(inner, ops.Load) and isinstance(op, ops.Loop) and inner.ref.buffer.space is not Space.REGISTER \
                and _invariant(inner.ref.offset, inside):
            return True
    return False


def _invariant(operand: Operand, inside: set[int]) -> bool:
    if isinstance(operand, Literal) or operand.op is None:
        return id(operand) not in inside                # a parameter, or the variable of an outer loop
    if id(operand.op) not in inside:
        return True
    return Trait.PURE in operand.op.traits and all(_invariant(child, inside) for child in operand.op.operands())
