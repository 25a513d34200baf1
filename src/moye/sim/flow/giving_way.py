"""Where threads give way in some schedules, so that others come in between: found once, from the Func.

In: a Func.  Out: ``sites``: by the ids of operations what they are: a ``fence`` by fence.sc, of which there is one
order; in kernels whose threads poll also a ``store`` of a flag, or a ``look`` at one that does not wait.

    mo.store(generation, 0, g + 1); mo.store(count, 0, 0, order="relaxed")      # another block may count in between
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal as OneOf

from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value
from moye.sim.flow.once import once_per_func
from moye.sim.flow.polling import polls

Way = OneOf["fence", "store", "look"]


@once_per_func
def sites(func: Func) -> Mapping[int, Way]:
    """What each operation is before which threads give way, by its id."""
    walked = list(func.body.walk())
    used = {operand.id for op in walked for operand in _all_operands(op) if isinstance(operand, Value)}
    flags = any(polls(op) for op in walked)
    found = ((id(op), _way(op, polled, used, flags=flags)) for op, polled in _walk(func.body, False))
    return {number: way for number, way in found if way is not None}


def _all_operands(op: ops.Op) -> Iterator[Operand]:
    yield from op.operands()
    yield from op.computed()


def _walk(block: Block, polled: bool) -> Iterator[tuple[ops.Op, bool]]:
    """The operations of control flow, and whether a loop around them polls."""
    for op in block:
        yield op, polled
        if isinstance(op, (ops.If, ops.For, ops.Loop, ops.Scope)):
            for inner in op.blocks():
                yield from _walk(inner, polled or polls(op))


def _way(op: ops.Op, polled: bool, used: set[int], *, flags: bool) -> Way | None:
    if getattr(op, "order", None) == "seq_cst":         # a fence.sc, or printed with one before it
        return "fence"
    if not flags:
        return None
    if isinstance(op, ops.Store) and ops.is_ordered(op):
        return "store"
    if isinstance(op, ops.Atomic) and (op.kind == "exch" or op.result.id not in used):
        return "store"
    return "look" if isinstance(op, ops.Load) and ops.is_ordered(op) and not polled else None
