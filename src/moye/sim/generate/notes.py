"""The line of a generated program that tells the timeline's tape that a statement runs.

In: an op, and the statements that a timeline shows.  Out: one line of Python source, or nothing.
"""

from __future__ import annotations

from moye.ir import ops
from moye.ir.nodes import Extent, TileRef, Value
from moye.sim.flow.segments import name_of
from moye.sim.generate.writer import Writer
from moye.sim.timeline.statements import Statements, space_of


def note(w: Writer, statements: Statements, op: ops.Op) -> str:
    """The line that tells the tape that ``op`` runs now; empty for an op that is not shown."""
    statement = statements.of(op)
    if statement is None:
        return ""
    trips = "".join(f"{name_of(variable)}, " for variable in statements.loops[id(op)])
    place = "None"
    if statement.place is not None:
        ref = statement.place
        strides = _listed(w, ref.strides if isinstance(ref, TileRef) else ())
        place = f"({w.operand(ref.offset)}, {strides}, {_listed(w, space_of(op)[0])})"
    pred = "None"
    if isinstance(op, ops.Copy) and op.pred is not None and not isinstance(op.pred, TileRef) and not op.zero_fill:
        pred = w.operand(op.pred)
    return f"if B.tape: B.tape.note({statement.number}, {w.mask}, ({trips}), {place}, {pred})"


def _listed(w: Writer, extents: tuple[Extent, ...]) -> str:
    return f"({''.join(f'{w.operand(e)}, ' for e in extents if isinstance(e, Value))})"
