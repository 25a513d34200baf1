"""What library classes with mbarriers share: statements of one thread, and names for the barriers.

In: a traced condition; mbarrier arrays.  Out: a context manager, inside of which statements run where it holds.

    with OnlyIf(linear_thread() == 0): mbarrier_init(...)

Nothing that is computed inside of it can be used behind it.
"""

from __future__ import annotations

from moye.lang.branches import DynamicIf
from moye.lang.builtins import linear_thread
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.tensor import AUTO, Tensor


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


def name_barriers(name: str, **barriers: Tensor) -> None:
    """Call each array ``{name}_{its word}``, if no variable has named it before."""
    for word, bars in barriers.items():
        if bars.buffer.name.startswith(AUTO):
            bars.buffer.name = f"{name}_{word}"
