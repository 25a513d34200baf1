"""What is written as C: functions, their parameters, and the specialisations that each chooses among.

In: (from ``moye.runtime.exporting``) plain facts.  Out: records that ``header`` and ``source`` read.

    Function("saxpy", [TensorArgument("y", float32, 1, True), Number("a", float32)], [case], grid=None)
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.cuda.printing.printer import Printed
from moye.dtypes import DType

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An array: in C a pointer, its extents and its strides in elements.  ``name`` is the C name."""

    name: str
    dtype: DType
    rank: int
    written: bool


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar argument."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Selector:
    """A static integer that specialisations differ in: the C function takes it, and chooses by it."""

    name: str


Argument = TensorArgument | Number | Selector


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold: a C expression over the arguments and ``grid``, and what is told if it does not.

    ``fallible`` expressions set ``bad`` where they have no value.
    """

    holds: str
    message: str
    fallible: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """A cubin, and the architecture that it is for."""

    arch: str
    cubin: bytes


@dataclass(frozen=True, slots=True)
class Case:
    """One specialisation.  ``params`` has the argument of each of the kernel's parameters, by its position there."""

    printed: Printed
    params: tuple[Argument, ...]
    codes: tuple[Code, ...]
    conditions: tuple[Condition, ...]
    block: Dim3
    cluster: Dim3
    smem: int
    """Bytes of dynamic shared memory."""
    dependent: bool
    told: str
    """One line about it for people."""


@dataclass(frozen=True, slots=True)
class Function:
    """One C function: the first of ``cases`` that fits is launched.

    ``grid`` has three C expressions over the arguments, and ``grid_told`` what people read of them; without it the
    caller passes the grid.
    """

    name: str
    kernel: str
    arguments: tuple[Argument, ...]
    cases: tuple[Case, ...]
    grid: tuple[str, str, str] | None = None
    grid_told: tuple[str, ...] = ()
