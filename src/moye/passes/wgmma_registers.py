"""Func -> Func whose wgmma fences and waits know the registers that must be settled there.

Contract: ``WgmmaWait.results`` are the accumulators of the groups that it completes and no group in flight has;
``WgmmaFence.registers`` are the operands of the products after it that other ops have written.  The printer keeps
accesses to them on their side of the instruction, which the C++ compiler does not do by itself.  Loop bodies are walked
twice, so that what an iteration leaves in flight reaches the waits before it.  Idempotent.  In place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func

Buffers = dict[int, Buffer]


def settle(func: Func) -> Func:
    """Fill in the registers of every fence and wait."""
    _Walk().block(func.body)
    return func


@dataclass(slots=True)
class _Walk:
    """What is in flight at a point: accumulators by committed group, the oldest first; then those that no group has
    yet."""

    groups: list[Buffers] = field(default_factory=list)
    uncommitted: Buffers = field(default_factory=dict)
    written: Buffers = field(default_factory=dict)
    fence: ops.WgmmaFence | None = None

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: ops.Op) -> None:
        match op:
            case ops.Wgmma():
                self.product(op)
            case ops.WgmmaFence():
                self.fence = op
            case ops.WgmmaCommit():
                self.groups.append(self.uncommitted)
                self.uncommitted = {}
            case ops.WgmmaWait():
                self.wait(op)
            case ops.If():
                self.branches(op)
            case ops.For() | ops.Loop():
                # Twice: what the end of one pass leaves in flight is in flight at the start of the next.
                self.block(op.body)
                self.block(op.body)
            case ops.Map():
                self.written[op.dst.buffer.id] = op.dst.buffer
            case _:
                self.written.update({ref.buffer.id: ref.buffer for ref, written in op.refs() if written})
                for block in op.blocks():
                    self.block(block)

    def product(self, op: ops.Wgmma) -> None:
        self.uncommitted[op.d.buffer.id] = op.d.buffer
        for ref in (op.a, op.d):
            known = self.written.pop(ref.buffer.id, None)
            if known is not None and known.space is Space.REGISTER and self.fence is not None:
                self.fence.registers = _joined(self.fence.registers, {known.id: known})

    def wait(self, op: ops.WgmmaWait) -> None:
        # wgmma.wait_group n leaves at most the n newest groups in flight.
        done, flying = (self.groups[:-op.pending], self.groups[-op.pending:]) if op.pending else (self.groups, [])
        busy = {key for group in (*flying, self.uncommitted) for key in group}
        complete = {key: buffer for group in done for key, buffer in group.items() if key not in busy}
        op.results = _joined(op.results, complete)
        self.groups = flying

    def branches(self, op: ops.If) -> None:
        """Walk both branches, and join what may be in flight after either."""
        groups, uncommitted, fence = list(self.groups), dict(self.uncommitted), self.fence
        self.block(op.then)
        after = self.groups, self.uncommitted, self.fence
        self.groups, self.uncommitted, self.fence = groups, uncommitted, fence
        self.block(op.orelse)
        nothing: Buffers = {}
        # Waits count groups from the newest, so the branches are joined from that end.
        newest = zip_longest(reversed(after[0]), reversed(self.groups), fillvalue=nothing)
        self.groups = [{**a, **b} for a, b in newest][::-1]
        self.uncommitted = {**after[1], **self.uncommitted}
        self.fence = self.fence if self.fence is not fence else after[2]


def _joined(known: tuple[Buffer, ...], more: Buffers) -> tuple[Buffer, ...]:
    have = {buffer.id for buffer in known}
    return (*known, *(buffer for key, buffer in more.items() if key not in have))
