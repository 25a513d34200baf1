"""A condition of the kernel around statements of a library class: what ``if`` is in a kernel.

In: a traced condition.  Out: a context manager; what is traced inside of it runs where the condition holds.

    with OnlyIf(linear_thread() == 0): mbarrier_init(...)

Nothing that is computed inside of it can be used behind it.
"""

from __future__ import annotations

from moye.lang.branches import DynamicIf
from moye.lang.builtins import linear_thread
from moye.tensor.expr import Expr, Scalar, operand_of


class OnlyIf:
    """Trace the statements of a ``with`` block under a condition.

    A class, and no generator: frames of contextlib would be in the program points.
    """

    def __init__(self, condition: Scalar) -> None:
        self._branch = DynamicIf(Expr(operand_of(condition)), ())

    def __enter__(self) -> None:
        self._branch.then({})

    def __exit__(self, *_: object) -> None:
        self._branch.end_then({})
        self._branch.orelse()
        self._branch.end_else({})
        self._branch.merge({})


def in_first_thread() -> OnlyIf:
    """Under the condition that it is thread 0 of the block."""
    return OnlyIf(linear_thread() == 0)
