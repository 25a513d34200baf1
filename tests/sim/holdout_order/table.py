"""A table of small programs: each takes a flag that puts one fault in, and is right without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F32, I32, I64 = np.float32, np.int32, np.int64


@dataclass(frozen=True)
class Case:
    """``codes``: the classes that the fault may have; ``text``: what its message says; ``only``: one of both twins."""

    name: str
    kernel: Any
    codes: frozenset[str]
    arguments: Callable[[], Any]
    grid: Any
    block: int
    cluster: int
    text: str
    only: bool | None
    expect: Callable[..., Any] | None
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def twins(self) -> Iterable[bool]:
        return (True, False) if self.only is None else (self.only,)


class Table(list[Case]):
    """The cases of one module."""

    def case(self, kernel: Any, codes: str, arguments: Callable[[], Any], *, grid: Any = 1, block: int = 32,
             cluster: int = 1, text: str = "", only: bool | None = None, name: str = "",
             expect: Callable[..., Any] | None = None, **how: Any) -> None:
        self.append(Case(name or kernel.__name__, kernel, frozenset(codes.split()), arguments, grid, block, cluster,
                         text, only, expect, how))

    def right(self, kernel: Any, arguments: Callable[[], Any], **how: Any) -> None:
        """One that is right, though it looks as if it were not."""
        self.case(kernel, "", arguments, only=False, **how)


def count(*shape: int, dtype: Any = F32) -> np.ndarray:
    """0, 1, 2 and so on, row by row."""
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def zeros(*shape: int, dtype: Any = I32) -> np.ndarray:
    return np.zeros(shape, dtype)
