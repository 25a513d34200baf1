"""Every op class and the function that prints it, by which blocks and statements are printed.

In: ops in program order.  Out: lines in the kernel's writer.

    run(kernel, func.body)

The functions register themselves; ``statements.py`` imports them all, and refuses to start where an op has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from moye.cuda.printing.context import Kernel
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Block

O = TypeVar("O", bound=ops.Op)  # noqa: E741
PRINTERS: dict[type[ops.Op], Callable[[Kernel, ops.Op], None]] = {}


def prints(kind: type[O]) -> Callable[[Callable[[Kernel, O], None]], Callable[[Kernel, O], None]]:
    """The function that prints ops of this class."""
    def note(function: Callable[[Kernel, O], None]) -> Callable[[Kernel, O], None]:
        PRINTERS[kind] = function  # type: ignore[assignment]
        return function
    return note


def run(kernel: Kernel, block: Block) -> None:
    """Print the live ops of a block."""
    for op in block.ops:
        if id(op) in kernel.uses.live:
            statement(kernel, op)


def statement(kernel: Kernel, op: ops.Op) -> None:
    """Print one op."""
    printer = PRINTERS.get(type(op))
    if printer is None:
        raise UnsupportedError(f"the CUDA printer does not know {type(op).__name__}", locs=(op.loc,))
    kernel.values.now = kernel.uses.index[id(op)]
    kernel.writer.at(op.loc, op.trips)
    kernel.helpers.at = op.loc
    try:
        printer(kernel, op)
    except UnsupportedError as error:
        error.at(op.loc)
        raise
