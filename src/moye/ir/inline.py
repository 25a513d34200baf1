"""Pieces of PTX or CUDA C++ that a kernel calls, for what moye has no operation for.

In: a ``Snippet``, the text with the dtypes that it takes and gives, and what it means in NumPy.  Out: operations.

    Inline(result=x, snippet=snippet, arguments=(a, b))

A snippet with one result defines it; of several, ``InlinePart`` takes the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from moye.dtypes import DType
from moye.ir.nodes import Op, Operand, Value
from moye.ir.operation import attribute, defined, operand, operation
from moye.ir.traits import Trait

__all__ = ["Inline", "InlineEffect", "InlinePart", "Snippet"]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text in another language, with what it takes and gives.

    In PTX, ``%0``, ``%1``... are the results and then the operands.  In CUDA C++ the operands are ``x0``, ``x1``...,
    and the text assigns the results ``y0``, ``y1``...  ``meaning`` takes one NumPy array for each operand and gives
    one for each result; without it only a GPU can run the snippet.
    """

    language: OneOf["ptx", "cuda"]
    name: str
    text: str
    takes: tuple[DType, ...]
    gives: tuple[DType, ...]
    meaning: Callable[..., Any] | None = None
    memory: bool = False
    arch: int = 80

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"inline_{self.language}({text if len(text) <= 60 else text[:57] + '...'!r})"


@operation(Trait.ARITHMETIC)
class Inline(Op):
    """A snippet that is a function of its operands; ``result`` is the first that it gives."""

    result: Value = defined()
    snippet: Snippet = attribute()
    arguments: tuple[Operand, ...] = operand()


@operation(Trait.ORDERS_MEMORY, Trait.HANDS_OVER)
class InlineEffect(Op):
    """A snippet that happens where it stands, once each time; it may give nothing."""

    result: Value | None = defined()
    snippet: Snippet = attribute()
    arguments: tuple[Operand, ...] = operand()


@operation(Trait.ARITHMETIC)
class InlinePart(Op):
    """Result ``index`` (from 1) of the snippet whose first result is ``first``, right behind it."""

    result: Value = defined()
    first: Operand = operand()
    index: int = attribute()
