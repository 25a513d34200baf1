"""Structured control flow as C++: if / else if, for, while, blocks left by goto.

In: If, For, Loop, Scope, Exit, and the functions that print a block and a statement.  Out: lines.

>>> loop(kernel, op, run, statement)      # while (i < n) { ... }

What a branch or a loop changes is evaluated before it if it is still needed (``Values.entering``, ``looping``).
"""

from __future__ import annotations

from collections.abc import Callable

from moye.cuda.expressions import Text, negated
from moye.cuda.kernel import Kernel
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Operand, Value

Run = Callable[[Kernel, Block], None]
Statement = Callable[[Kernel, ops.Op], None]


def _live(kernel: Kernel, block: Block) -> list[ops.Op]:
    return [op for op in block.ops if id(op) in kernel.uses.live]


def _inverted(kernel: Kernel, cond: Operand) -> Text:
    """The text of ``not cond``."""
    op = cond.op if isinstance(cond, Value) else None
    integers = isinstance(op, ops.Binary) and op.a.dtype.is_integer
    return negated(kernel.values.operand(cond), integers)


# --- if --------------------------------------------------------------------------------------------------------------


def if_(kernel: Kernel, op: ops.If, run: Run, statement: Statement, *, before: str = "") -> None:
    """``if (cond) { ... } else if ... else { ... }``; ``before`` is the ``} else `` that it continues."""
    writer, values = kernel.writer, kernel.values
    then, orelse = _live(kernel, op.then), _live(kernel, op.orelse)
    cond = values.operand(op.cond) if then else _inverted(kernel, op.cond)
    values.entering(op.then, op.orelse)
    (_continue if before else writer.open)(*((kernel, before) if before else ()), f"if ({cond.text}) {{")
    run(kernel, op.then if then else op.orelse)
    if then and orelse:
        _else(kernel, orelse, run, statement)
    writer.close()


def _else(kernel: Kernel, orelse: list[ops.Op], run: Run, statement: Statement) -> None:
    """The else branch; where it is nothing but another if, an else if."""
    pass
