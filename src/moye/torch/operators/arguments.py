"""What operators ask of arguments before they look at them: that tensors are tensors, and numbers numbers.

In: arguments of a call, by name.  Out: a number of Python's, or ArgumentError in one sentence.

    require_tensors("linear", x=x, weight=weight); scale = number("softmax", "scale", scale)

All else is refused by the kernels' host functions, or by torch, which knows the types of an operator's arguments.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from moye.errors import ArgumentError
from moye.kernels.options import real


def require_tensors(who: str, *, modes: int | None = None, **given: Any) -> None:
    """ArgumentError for an argument that is no tensor, or has another number of modes."""
    for name, x in given.items():
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{who}: {name} is a {type(x).__name__}, and no tensor")
        if modes is not None and x.dim() != modes:
            raise ArgumentError(f"{who}: {name} has shape {tuple(x.shape)}, and must have {modes} modes")


def number(who: str, name: str, x: Any) -> float:
    """A float; those of Python, which torch.compile may not know yet, are left as they are."""
    return x if isinstance(x, float) else real(who, name, x)
