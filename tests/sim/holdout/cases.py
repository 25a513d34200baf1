"""Kernels with one fault each, their right twins, and right ones that look wrong: how they are listed and run.

In: functions ``kernel(..., bad)`` under ``@faulty("D2", ...)`` and kernels without ``bad`` under ``@right(...)``.
Out: ``CASES`` of a module, and ``outcome(case, bad)``: the codes that ``mo.check`` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import moye as mo


@dataclass(frozen=True)
class Case:
    """One kernel with the launch that shows its fault; ``codes`` is empty where it has none."""

    kernel: Any
    codes: tuple[str, ...]
    args: Callable[[], tuple[Any, ...]]
    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = 32
    cluster: int = 1
    first: Any = None
    """A kernel that is launched before it with the same arguments; then it is a dependent launch."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)


class Table:
    """The cases of one module, in order."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def faulty(self, codes: str, args: Callable[[], tuple[Any, ...]], **launch: Any) -> Callable[[Any], Any]:
        """A kernel whose last parameter says whether it has the fault; any of ``codes`` is a class that fits."""
        def add(kernel: Any) -> Any:
            self.cases.append(Case(kernel, tuple(codes.split()), args, **launch))
            return kernel

        return add

    def right(self, args: Callable[[], tuple[Any, ...]], **launch: Any) -> Callable[[Any], Any]:
        """A kernel that has no fault."""
        return self.faulty("", args, **launch)


def outcome(case: Case, bad: bool) -> Any:
    """The report of the faulty kernel or of its right twin."""
    args = (*case.args(), bad) if case.codes else case.args()
    if case.first is not None:
        mo.check(case.first, lints=False).launch(*case.args(), grid=case.grid, block=case.block)
    options = {"lints": False, **case.options}
    return mo.check(case.kernel, **options).launch(*args, grid=case.grid, block=case.block, cluster=case.cluster,
                                                   dependent=case.first is not None)


def ramp(*shape: int, dtype: Any = np.float32, order: Any = "F") -> np.ndarray:
    """An array of which each element differs from its neighbours."""
    return np.asfortranarray(np.arange(int(np.prod(shape))).reshape(shape) % 97 + 1).astype(dtype, order=order)


def zeros(*shape: int, dtype: Any = np.float32, order: Any = "F") -> np.ndarray:
    """An array of zeros."""
    return np.zeros(shape, dtype, order=order)


def codes(report: Any) -> set[str]:
    """The classes that a report tells: of findings, and of the one lint that is a class of the catalogue."""
    return {finding.code for finding in report.findings} | {lint.code for lint in report.lints if lint.code == "A6"}
