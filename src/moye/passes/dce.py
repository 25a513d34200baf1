"""Func -> Func without what is not used: pure ops, reads and loads without users, register tensors never read.

Contract: effects stay (stores to global and shared memory, barriers, prints, jumps); a load from memory whose value is
unused goes.  Variables and register tensors live only through uses that themselves matter: an accumulator that nobody
reads goes.  Guards are evaluated by the launch and keep nothing in the body.  Idempotent.  Runs in place.
"""

from __future__ import annotations

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Operand, Value
from moye.ir.traits import Trait


def eliminate(func: Func) -> Func:
    """Remove dead ops."""
    marker = _Marker()
    before = -1
    # A use in a later turn of a loop may make a variable live only after its assignments were passed, so go again.
    while marker.size != before:
        before = marker.size
        marker.block(func.body)
    marker.sweep(func.body)
    alive = {op.buffer.id for op in func.body.walk() if isinstance(op, ops.Alloc)}
    func.buffers = [b for b in func.buffers if b.id in alive]
    return func


class _Marker:
    """Marks what is needed, backwards; again while variables or register tensors come to life."""

    def __init__(self) -> None:
        self.kept: set[int] = set()
        self.values: set[int] = set()
        self.variables: set[int] = set()
        self.buffers: set[int] = set()

    @property
    def size(self) -> int:
        """The marks that only a further walk can make use of."""
        return len(self.variables) + len(self.buffers)

    def block(self, block: Block) -> bool:
        """Mark the ops of a block; whether any is needed."""
        needed = False
        for position, op in reversed(list(enumerate(block.ops))):
            if isinstance(op, ops.Bounds) and not self.judged(op, block.ops[position + 1:]):
                continue
            if self.op(op):
                self.kept.add(id(op))
                needed = True
        return needed

    def judged(self, op: ops.Bounds, behind: list[ops.Op]) -> bool:
        """Whether the access that it is about, the next one to its buffer in this block, is needed."""
        return next((id(other) in self.kept for other in behind if _touches(other, op.buffer)), True)

    def op(self, op: ops.Op) -> bool:
        """Whether an op is needed; if it is, what it uses is needed too."""
        if isinstance(op, ops.Assign):
            # An assignment matters pair by pair: a variable that is never read keeps nothing alive.
            live = [source for var, source in op.pairs if var.id in self.variables]
            self.use(*live)
            return bool(live)
        result = op.defines()
        if Trait.REGION in op.traits and not isinstance(op, ops.Loop):  # (that one may not end)
            needed = [self.block(block) for block in op.blocks()]
            if not any(needed):
                return False
        elif Trait.REMOVABLE in op.traits and result is not None:
            if result.id not in self.values and not ops.is_ordered(op):
                return False
        elif isinstance(op, ops.Declare):
            if op.var.id not in self.variables:
                return False
        elif isinstance(op, ops.Alloc):
            return self.alive(op.buffer)
        elif Trait.WRITER in op.traits and not any(self.alive(ref.buffer) for ref, written in op.refs() if written):
            return False
        else:
            self.everything(op)
        self.use(*op.operands())
        self.buffers.update(ref.buffer.id for ref, written in op.refs() if not written)
        if isinstance(op, ops.Read):
            self.variables.add(op.var.id)
        return True

    def everything(self, op: ops.Op) -> None:
        """The body: of a Map what its value needs, of a Loop what matters (the loop itself may not end, and stays)."""
        self.use(*op.operands(), *op.computed())
        for block in op.blocks():
            self.block(block)

    def use(self, *operands: Operand) -> None:
        self.values.update(o.id for o in operands if isinstance(o, Value))

    def alive(self, buffer: Buffer) -> bool:
        return buffer.space is not Space.REGISTER or buffer.id in self.buffers

    def sweep(self, block: Block) -> None:
        """Remove what was not marked."""
        block.ops = [op for op in block.ops if id(op) in self.kept]
        for op in block.ops:
            if isinstance(op, ops.Assign):
                op.pairs = tuple((v, source) for v, source in op.pairs if v.id in self.variables)
            for inner in op.blocks():
                self.sweep(inner)


def _touches(op: ops.Op, buffer: Buffer) -> bool:
    return any(ref.buffer is buffer for ref, _ in op.refs())
