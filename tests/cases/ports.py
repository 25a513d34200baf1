"""What a program of another system needs as a test: a launch, and arguments of a drawn size with what must come out.

In: a name, a function that launches, one that draws.  Out: a record for the tests of the simulator and of the GPU.

    Port("spmv", spmv, draw_spmv)       # draw_spmv(rng, 100) -> ((y, ...), {0: wanted})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Drawn = tuple[tuple[Any, ...], Mapping[int, Any]]


@dataclass(frozen=True)
class Port:
    """``draw(rng, size)`` gives the arguments of ``launch``, and what some of them are afterwards, by number."""

    name: str
    launch: Callable[..., None]
    draw: Callable[[np.random.Generator, int], Drawn]
    sizes: tuple[int, int] = (37, 100)
    large: int = 1000
    tolerance: float = 1e-4
    """Of each element, absolute and relative."""

    def __str__(self) -> str:
        return self.name

    def judge(self, found: Any, wanted: Mapping[int, Any]) -> None:
        """AssertionError where a result is not what NumPy finds in float64."""
        for number, exact in wanted.items():
            got = np.asarray(found[number], np.float64)
            assert got.shape == np.shape(exact), f"{self.name}, argument {number}: {got.shape}, not {np.shape(exact)}"
            off = np.abs(got - exact) > self.tolerance * (1 + np.abs(exact))
            assert not (off | np.isnan(got)).any(), f"{self.name}: {int(off.sum())} of argument {number} differ"


def floats(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Any:
    """Normally distributed numbers."""
    return rng.standard_normal(shape).astype(dtype)
