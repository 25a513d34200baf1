"""Functions of math on extreme numbers: the simulator and the emulator agree about NaN, infinities and zeros.

    python tests/fuzz/approximate.py 1000 20            # first seed, turns over all functions and dtypes

In: a seed.  Out: what differs.  Numbers are compared up to a few units in the last place, since the functions of the
GPU are as accurate as CUDA says; where a function is steep, such as lgamma beside its zeros, only what kind of number
it gives.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, functions, on_emulator
from fuzz.extremes import NUMPY, THREADS, number

ONE = ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "asin", "acos",
       "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log1p", "expm1", "erfc", "erfinv", "lgamma", "tgamma",
       "cbrt", "sigmoid", "rcp", "relu", "gelu", "silu")
TWO = ("atan2", "hypot", "pow", "divide")
FAST = ("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid", "rcp")
TEXTS = (*(f"mo.{f}(x)" for f in ONE), *(f"mo.{f}(x, y)" for f in TWO), *(f"mo.{f}(x, fast=True)" for f in FAST),
         "mo.divide(x, y, fast=True)", "x ** 3", "x ** 0.5", "x ** -1", "x ** -0.5", "mo.pow(x, 2)", "mo.pow(2.0, x)")
STEEP = ("lgamma", "gelu", "silu", "sigmoid")
"""Small numbers of these may underflow, or lose digits in a difference."""
TYPES = ("f16", "bf16", "f32", "f64")
LINES = 12


def kernels(seed: int) -> Iterator[tuple[str, tuple[str, ...], extremes.Kernel]]:
    """Every function of each dtype, some in one kernel."""
    rng = random.Random(f"approximate {seed}")
    for t in TYPES:
        for first in range(0, len(TEXTS), LINES):
            texts = TEXTS[first:first + LINES]
            given = [np.array([_drawn(rng, t) for _ in range(THREADS)], np.float64).astype(NUMPY[t]) for _ in "xy"]
            names = ["a", "b", *(f"o{i}" for i in range(len(texts)))]
            key = f"{seed}{t}{first}"
            body = ["i = mo.thread_idx().x", "x, y = a[i], b[i]",
                    *(f"o{i}[i] = {text}" for i, text in enumerate(texts))]
            source = f"import moye as mo\n\n\n@mo.kernel\ndef extremes_{key}({', '.join(names)}):\n" + "".join(
                f"    {line}\n" for line in body)
            arrays = [*given, *(np.zeros(THREADS, NUMPY[t]) for _ in texts)]
            yield t, texts, extremes.Kernel(key, source, [], names, arrays)  # type: ignore[arg-type]


def _drawn(rng: random.Random, t: str) -> float:
    if rng.random() < 0.6:
        return float(number(rng, t))
    return functions.rounded(rng.uniform(-10, 10) * rng.choice([1, 1, 10, 1e-3, 1e-6]), t)


def judged(seed: int) -> list[str]:
    """What is wrong with any function, a text each."""
    drawn = {one.name: (t, texts) for t, texts, one in kernels(seed)}
    return extremes.answers([one for _, _, one in kernels(seed)], on_emulator.ARCH,
                            lambda one, x, y: _differ(*drawn[one.name], x, y))


def _differ(t: str, texts: tuple[str, ...], simulated: list[Any], emulated: list[Any]) -> list[str]:
    told = []
    x, y = simulated[:2]
    for text, ours, theirs in zip(texts, simulated[2:], emulated[2:], strict=True):
        at = _apart(ours, theirs, t, any(name in text for name in STEEP))
        if at is not None:
            told.append(f"{text} of {t} {x[at]}, {y[at]} is {ours[at]} in the simulator, {theirs[at]} in the emulator")
    return told


def _apart(ours: Any, theirs: Any, t: str, steep: bool) -> int | None:
    """The first two that are no neighbours, or of which one alone is no number."""
    a, b = (v.astype(np.float64) for v in (ours, theirs))
    apart = 1.01 if t in ("f16", "bf16") else 8
    with np.errstate(all="ignore"):
        one = np.maximum(np.abs(a) * 2.0 ** -7, 2.0 ** -133) if t == "bf16" else \
            np.spacing(np.abs(ours)).astype(np.float64)
        near = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
        near |= np.isfinite(a) & np.isfinite(b) & (steep | (np.abs(a - b) <= apart * one))
        near &= ~((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)))
    return None if near.all() else int(np.argmin(near))


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, int, lambda seeds: judged(seeds[0]), 1))
