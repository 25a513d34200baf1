"""Drawn arrays of rows: shapes, strides, dtypes and offsets, with poison around and between what counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.float64)
COLUMNS = (1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 511, 512, 520, 777, 1024, 1101, 2049)


@dataclass(frozen=True)
class Layouts:
    """How arrays of one shape (..., columns) lie in memory; each has its own place, not its own shape."""

    shape: tuple[int, ...]
    kinds: tuple[str, ...] = ("C", "offset", "padded", "swapped", "columns")

    def make(self, rng: np.random.Generator, dtype: object, kind: str | None = None) -> np.ndarray:
        """An array of NaN of this shape: contiguous, begun at an odd element, with pitch, or with modes exchanged."""
        kind = kind or str(rng.choice(self.kinds))
        extra, shape = int(rng.integers(0, 9)), self.shape
        if kind == "columns":                                           # the last mode has another stride
            return np.full((*shape[:-1], shape[-1], 2), np.nan, dtype)[..., 0]
        if kind == "padded":
            return np.full((*shape[:-1], shape[-1] + extra), np.nan, dtype)[..., :shape[-1]]
        if kind == "swapped" and len(shape) > 2:                        # no single stride of rows
            return np.full((shape[1], shape[0], *shape[2:]), np.nan, dtype).swapaxes(0, 1)
        room = np.full(math.prod(shape) + extra, np.nan, dtype)
        return room[extra if kind == "offset" else 0:][:math.prod(shape)].reshape(shape)

    def normal(self, rng: np.random.Generator, dtype: object, kind: str | None = None) -> np.ndarray:
        """The same with normal numbers."""
        x = self.make(rng, dtype, kind)
        x[...] = rng.standard_normal(self.shape).astype(dtype)
        return x


def drawn_shape(rng: np.random.Generator, columns: tuple[int, ...] = COLUMNS) -> tuple[int, ...]:
    """One to four modes, of which the last is the row."""
    n = int(rng.choice(columns))
    modes = int(rng.integers(1, 5))
    return (*(int(rng.integers(1, 5 if modes > 2 else 20)) for _ in range(modes - 1)), n)
