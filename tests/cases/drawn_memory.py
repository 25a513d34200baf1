"""Arrays of drawn values in drawn memory: any order, gaps, steps, offsets, repeated and overlapping modes, torch too.

In: a generator of numbers.  Out: ``Memory``, whose arrays a kernel gets; then what it may not have touched is compared.

    memory = Memory(rng); x, out = memory.read((3, 40), "bf16"), memory.written((3, 40), "f32")
    softmax(out, x); memory.check()

Around what is written, and in it, all bits are ones: NaN, or -1.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import torch

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32,
         "i64": np.int64, "i8": np.int8, "bool": np.bool_, "e4m3": ml_dtypes.float8_e4m3fn}
TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64",
         "i8": "int8", "bool": "bool", "e4m3": "float8_e4m3fn"}
EPS = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}
"""Half of the distance of numbers near 1."""
LARGEST = {name: float(ml_dtypes.finfo(TYPES[name]).max) for name in EPS}
SMALLEST = {name: float(ml_dtypes.finfo(TYPES[name]).smallest_subnormal) for name in EPS}
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 128, 129, 257)


def shape_of(rng: np.random.Generator, most: int = 1500, fewest: int = 1, longest: int = 5) -> tuple[int, ...]:
    """A shape of up to five modes, with few elements; every twelfth is empty."""
    while True:
        rank = int(rng.integers(fewest, longest + 1))
        shape = tuple(int(n) for n in rng.choice(EXTENTS, rank))
        if math.prod(max(n, 1) for n in shape) <= most and (0 not in shape or rng.random() < 0.3):
            return shape


KINDS = ("normal", "normal", "normal", "peaked", "tiny", "denormal", "large", "equal", "zeros", "whole", "nan", "inf",
         "-inf", "infinities")


def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str, kind: str) -> np.ndarray:
    """Numbers of a kind; ``large`` ones have squares that the dtype has and whose sums float32 has."""
    x = rng.standard_normal(shape)
    if kind == "peaked":
        x = np.where(rng.random(shape) < 0.1, 40 * x, x)
    elif kind == "tiny":
        x = x * 1e-4
    elif kind == "denormal":
        x = np.rint(8 * x) * SMALLEST[name]
    elif kind == "large":
        x = x * min(100.0, math.sqrt(LARGEST[name]) / 8)
    elif kind == "equal":
        x = np.full(shape, rng.standard_normal())
    elif kind == "zeros":
        x = np.where(rng.random(shape) < 0.5, -0.0, 0.0)
    elif kind == "whole":
        x = np.rint(3 * x)
    elif kind != "normal":
        strange = {"nan": [np.nan], "inf": [np.inf], "-inf": [-np.inf], "infinities": [np.inf, -np.inf]}[kind]
        x = np.where(rng.random(shape) < rng.choice([0.02, 0.3]), rng.choice(strange, shape), x)
    return x.astype(TYPES[name])


class Memory:
    """The arrays of one call; those of the library "cuda" are torch's on a GPU, and views of them hold what is there
    after ``check``."""

    libraries: ClassVar[tuple[str, ...]] = ("numpy", "numpy", "torch")
    """Of which one is drawn."""

    def __init__(self, rng: np.random.Generator, library: str = "") -> None:
        self.rng, self.library = rng, library or str(rng.choice(self.libraries))
        self.arrays: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        self._there: list[tuple[np.ndarray, torch.Tensor]] = []         # memory here, and that on the GPU

    def _place(self, shape: tuple[int, ...], *, read: bool) -> tuple[list[int], int, int]:
        """Strides, the first element, and how many elements of memory there are."""
        rng, rank = self.rng, len(shape)
        order = rng.permutation(rank) if rng.random() < 0.4 else np.arange(rank)[::-1]
        plain = rng.random() < 0.35
        strides, reach = [0] * rank, 1
        for mode in order:
            step = 1 if plain or rng.random() < 0.75 else int(rng.choice([2, 3]))
            strides[mode] = reach * step
            gap = 0 if plain or rng.random() < 0.6 else int(rng.choice([1, 3, 8, 16]))
            reach = reach * step * max(shape[mode], 1) + gap
            if read and rng.random() < 0.1:
                reach, strides[mode] = max(1, reach // max(1, shape[mode] * step)), 0
        if read and rank > 1 and rng.random() < 0.05:
            strides[int(rng.integers(rank))] = 1                        # windows
        first = 0 if plain and rng.random() < 0.7 else int(rng.choice([0, 1, 3, 4, 8]))
        last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
        return strides, first, first + last + 1 + int(rng.integers(0, 9))

    def _make(self, shape: tuple[int, ...], name: str, values: np.ndarray | None, *, read: bool) -> tuple[Any, Any]:
        """(the array of the library, the same as an array of NumPy)."""
        strides, first, count = self._place(shape, read=read)
        size = np.dtype(TYPES[name]).itemsize
        raw = np.full(count * size + 16, 0xFF, np.uint8)
        raw = raw[-raw.ctypes.data % 16:][:count * size]
        view = np.lib.stride_tricks.as_strided(raw.view(TYPES[name])[first:], shape, [step * size for step in strides])
        if values is not None and values.size:
            view[...] = values
        self.arrays.append((raw, raw.copy(), None if read else view))
        if self.library == "numpy":
            return view, view
        there = torch.from_numpy(raw)
        if self.library == "cuda":
            there = there.cuda()
            self._there.append((raw, there))
        memory = there.view(getattr(torch, TORCH[name]))
        return memory.as_strided(shape, strides, first), view

    def read(self, shape: tuple[int, ...], name: str, kind: str = "normal") -> tuple[Any, np.ndarray]:
        """An input of drawn numbers, and its elements as they are."""
        return self.given(numbers(self.rng, shape, name, kind), name)

    def given(self, values: np.ndarray, name: str) -> tuple[Any, np.ndarray]:
        """An input of these values where memory is not shared by several."""
        x, view = self._make(values.shape, name, values, read=name not in ("i32", "i64", "bool"))
        return x, view.copy()

    def written(self, shape: tuple[int, ...], name: str) -> tuple[Any, np.ndarray]:
        """An output, and a view of what it will hold."""
        return self._make(shape, name, None, read=False)

    def in_place(self, values: np.ndarray, name: str) -> tuple[Any, np.ndarray, np.ndarray]:
        """An input that is an output, too: the array, a view of it, and its elements before."""
        x, view = self._make(values.shape, name, values, read=False)
        return x, view, view.copy()

    def check(self) -> None:
        """AssertionError where an input was written, or memory around an output."""
        for raw, there in self._there:
            raw[...] = there.cpu().numpy()
        for raw, before, view in self.arrays:
            if view is None:
                assert np.array_equal(raw, before), "an input was written"
            else:
                kept = view.copy()
                view[...] = 0
                now = raw.copy()
                raw[...] = before
                view[...] = 0
                assert np.array_equal(now, raw), "memory around an output was written"
                view[...] = kept


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    """Rounded once to a dtype; ml_dtypes takes float64 to bfloat16 by way of float32."""
    if name == "bf16":
        step = np.exp2(np.maximum(np.frexp(x)[1], -125) - 8.0)
        x = np.where(np.isfinite(x), np.rint(x / step) * step, x)
    return wide(x.astype(TYPES[name]))


def name_of(x: np.ndarray) -> str:
    """The name of an array's dtype."""
    return next(name for name, dtype in TYPES.items() if x.dtype == dtype)


def near(got: np.ndarray, want: np.ndarray, error: Any, what: str) -> None:
    """AssertionError unless got is the rounding of a number within ``error`` (absolute) of want; NaN for NaN."""
    name = name_of(got)
    assert got.shape == np.shape(want), f"{what}: {got.shape}, not {np.shape(want)}"
    with np.errstate(all="ignore"):
        found, want, error = wide(got), np.asarray(want, np.float64), np.nan_to_num(np.asarray(error, np.float64))
        low, high = (rounded(want + side * error, name) for side in (-1, 1))
        wrong = ~((low <= found) & (found <= high)) & ~(np.isnan(want) & np.isnan(found))
    if wrong.any():
        at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))[:wrong.ndim]
        raise AssertionError(f"{what}: {int(wrong.sum())} of {wrong.size} in {name}; {list(at)} is {found[at]}, not "
                             f"{low[at]} to {high[at]}")
