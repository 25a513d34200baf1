"""What a call is drawn from: choices, extents, arrays in poisoned memory; and whether what came out is near enough.

In: a seed.  Out: a ``Draw``.

    draw = Draw(7, "rope"); x = draw.given(draw.normal((3, 40)), "bf16"); out = draw.room(x.shape, "bf16")
    kernels.softmax(out, x); draw.near("out", out, want, noise); draw.intact()

All bits around and between the elements of an array are ones, and stay so; what was given stays as it is.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}
UNIT = {"bf16": 2.0 ** -8, "f16": 2.0 ** -11, "f32": 2.0 ** -24, "f64": 2.0 ** -53}
"""What one rounding may cost, relative."""
LEAST = {"bf16": 2.0 ** -133, "f16": 2.0 ** -25, "f32": 2.0 ** -126, "f64": 2.0 ** -1022}
"""The same of numbers smaller than all normal ones; float32 may flush them to zero."""
NAMES = {np.dtype(dtype): name for name, dtype in FLOATS.items()}


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def eps_of(*arrays: Any) -> float:
    """The unit roundoff of what computes: float64 where an array has it, else float32."""
    return UNIT["f64" if any(x is not None and x.dtype == np.float64 for x in arrays) else "f32"]


def coarsest(*arrays: Any) -> float:
    """The unit roundoff of float32 unless all arrays have float64."""
    return UNIT["f64" if all(x is None or x.dtype == np.float64 for x in arrays) else "f32"]


class Draw:
    """One call of one family: the same seed draws the same."""

    def __init__(self, seed: int, family: str) -> None:
        self.rng = np.random.default_rng([seed, zlib.crc32(family.encode())])
        self.plain = self.one(1.0, 1.0, 0.6, 0.1)       # how often an array is contiguous; all are in half of the calls
        self.mixed = self.chance(0.25)                  # whether arrays of a call may have other dtypes
        self.notes: list[str] = [f"plain={self.plain} mixed={self.mixed}"]
        self._given: list[tuple[Any, Any]] = []
        self._rooms: list[tuple[Any, Any]] = []

    # --- choices -----------------------------------------------------------------------------------------------------

    def one(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def note(self, **what: Any) -> None:
        """To be told where the call fails."""
        self.notes += [f"{name}={value}" for name, value in what.items()]

    def dtype(self) -> str:
        """Of 16 bits more often: elements are then computed two at a time."""
        return str(self.one("bf16", "f16", "bf16", "f16", "f32", "f64"))

    def beside(self, name: str, *others: str) -> str:
        """The same dtype; in some calls another one (or one of ``others``)."""
        return str(self.one(name, *(others or FLOATS))) if self.mixed else name

    def columns(self, most: int = 9000) -> int:
        """Often odd, often next to a power of two, seldom long; the longest are for clusters to share."""
        way = self.rng.random()
        if way > 0.9 and most >= 9000:
            return int(self.one(16384, 16385, 20001, 33000, 50008, 70001))
        if way < 0.3:
            return self.whole(1, 70)
        if way < 0.65:
            near = [1 << i for i in range(4, 14) if 1 << i <= most]
            return int(max(1, min(most, self.one(*near) + self.one(-8, -1, 0, 1, 3, 8))))
        return round(math.exp(self.rng.uniform(math.log(1), math.log(most))))

    def rows(self, columns: int, most: int = 60000) -> int:
        """One row, a few, odd numbers of them."""
        return max(1, min(self.one(1, 1, 2, 3, 5, 9, 17, 37, 64, 150), most // max(1, columns)))

    def shape(self, most: int = 60000, columns: int = 9000) -> tuple[int, ...]:
        """One to three modes, of at most so many elements."""
        n = self.columns(columns)
        rows = self.rows(n, most)
        if self.chance(0.15):
            return (n,)
        return (rows, n) if self.chance(0.7) else (self.one(1, 2, 3), -(-rows // 3), n)

    # --- arrays ------------------------------------------------------------------------------------------------------

    def normal(self, shape: Sequence[int], scale: float = 1.0) -> Any:
        return self.rng.standard_normal(shape) * scale

    def given(self, values: Any, dtype: Any = None, plain: float | None = None) -> Any:
        """An array of these values, which is only read."""
        x, memory = self._made(np.shape(values), self._dtype(dtype, values), plain)
        x[...] = np.asarray(values).astype(x.dtype)
        self._given.append((memory, memory.copy()))
        return x

    def room(self, shape: Sequence[int], dtype: Any, plain: float | None = None, values: Any = None) -> Any:
        """An array to be written, with values before if it is read as well."""
        x, memory = self._made(tuple(shape), self._dtype(dtype, values), plain)
        if values is not None:
            x[...] = np.asarray(values).astype(x.dtype)
        self._rooms.append((x, memory))
        return x

    def _dtype(self, dtype: Any, values: Any) -> Any:
        return np.dtype(FLOATS.get(dtype, dtype) if dtype is not None else np.asarray(values).dtype)

    def _made(self, shape: Sequence[int], dtype: Any, plain: float | None) -> tuple[Any, Any]:
        """Contiguous, or begun anywhere, in lines that are longer, in another order, with steps."""
        rank, size = len(shape), dtype.itemsize
        order, steps, gaps, first = list(range(rank)), [1] * rank, [0] * rank, 0
        if rank and not self.chance(self.plain if plain is None else plain):
            how = self.one("begun", "gaps", "aligned", "order", "steps")
            first = self.whole(0, 9) if how != "aligned" else 16 // size
            if how in ("order", "steps"):
                order = [int(i) for i in self.rng.permutation(rank)]
            if how in ("gaps", "order"):
                gaps = [self.one(0, 1, 3, 8) for _ in shape]
            if how == "aligned":
                gaps[-1] = -shape[-1] % (16 // size)
            if how == "steps":
                steps = [self.one(1, 2) for _ in shape]
        strides, apart = [0] * rank, 1
        for i in reversed(order):
            strides[i], apart = apart * steps[i], apart * (shape[i] * steps[i] + gaps[i])
        raw = np.full((first + max(1, apart)) * size + 256, 255, np.uint8)
        memory = raw[-raw.ctypes.data % 128:][:(first + max(1, apart)) * size + 16]
        return np.ndarray(shape, dtype, memory, first * size, [n * size for n in strides]), memory

    # --- what came out -----------------------------------------------------------------------------------------------

    def near(self, name: str, got: Any, want: Any, noise: Any = 0.0, dtype: str = "") -> None:
        """Each element is the rounding of what lies within ``noise`` of what is wanted; infinities and NaN agree."""
        got, want, dtype = np.asarray(got), wide(want), dtype or NAMES[np.asarray(got).dtype]
        assert got.shape == want.shape, f"{name} has shape {got.shape}, not {want.shape}"
        noise = np.broadcast_to(np.asarray(noise, np.float64), want.shape)
        with np.errstate(all="ignore"):
            error = np.abs(wide(got) - want)
            allowed = noise + (1.01 * UNIT[dtype]) * (np.abs(want) + noise) + LEAST[dtype]
            most = {"f16": 65504.0, "f32": 3.4e38}.get(dtype, np.inf)
            same = (wide(got) == want) | (np.isnan(want) & np.isnan(wide(got))) | (
                np.isinf(wide(got)) & (wide(got) * want > 0) & (np.abs(want) + allowed > most))
        wrong = ~(same | (np.isfinite(want) & (error <= allowed)))
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            raise AssertionError(f"{name}: {int(wrong.sum())} of {wrong.size} are wrong, {name}{list(at)} is "
                                 f"{wide(got)[at]} and not {want[at]} +- {allowed[at]:.1e}")

    def equal(self, name: str, got: Any, want: Any) -> None:
        """The same bits."""
        got, want = np.ascontiguousarray(got), np.ascontiguousarray(want, np.asarray(got).dtype)
        assert got.shape == want.shape, f"{name} has shape {got.shape}, not {want.shape}"
        bits = f"u{got.dtype.itemsize}"
        wrong = got.view(bits) != want.view(bits)
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            raise AssertionError(f"{name}: {int(wrong.sum())} of {wrong.size} are wrong, {name}{list(at)} is {got[at]} "
                                 f"and not {want[at]}")

    def intact(self) -> None:
        """Nothing was written but the elements of outputs."""
        for memory, before in self._given:
            assert np.array_equal(memory, before), "an array that is only read was written"
        for x, memory in self._rooms:
            x.view(f"u{x.dtype.itemsize}")[...] = (1 << 8 * x.dtype.itemsize) - 1
            assert (memory == 255).all(), "something around an output was written"
