"""A program of the fuzzer, and its arguments: arrays and numbers drawn from its seed and their names alone.

In: ``Program``.  Out: what is passed, in the order of its parameters.

>>> arguments(draw(7))

A parameter's name says what it is: ``a_i8`` (64 elements) and ``m_i8`` (8 by 16) are read, ``o_i8`` (threads by slots),
``q_i8`` (4 by threads) and ``z_i8`` (16, by atomics) written, ``n`` is an int32 from 0 to 20, ``w`` an int64, ``x`` a
float32, ``c`` static.
"""

from __future__ import annotations

import ast
import random
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.scalars import NAMES, Num, bf16, family, limits

SLOTS = 24
LENGTH, ROWS, COLUMNS = 64, 8, 16


@dataclass
class Program:
    source: str
    seed: int
    grid: int
    block: int
    features: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"fuzz_{self.seed}"

    @property
    def parameters(self) -> list[str]:
        kernel = next(n for n in ast.parse(self.source).body if isinstance(n, ast.FunctionDef) and n.name == self.name)
        return [a.arg for a in kernel.args.args]


def array(seed: int, name: str, threads: int) -> np.ndarray:
    """The array that a parameter's name stands for, as float64 or integers that its dtype holds."""
    kind, t = name.split("_")
    shape = {"a": (LENGTH,), "m": (ROWS, COLUMNS), "o": (threads, SLOTS), "q": (4, threads), "z": (16,)}[kind]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    numpy_type = {"bool": "bool", "f16": "float16", "bf16": "float32", "f32": "float32", "f64": "float64"}.get(
        t, NAMES[t])
    if kind in "oqz":
        return np.zeros(shape, numpy_type, order="F")
    if t == "bool":
        return np.asfortranarray(rng.integers(0, 2, shape).astype(bool))
    if family(t) == "f":
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 6, shape)
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1e-7, 60000.0], shape)
        values = np.where(rng.random(shape) < 0.15, special, values)
        if t == "bf16":
            values = np.vectorize(bf16)(values)
        return np.asfortranarray(values.astype(numpy_type))
    low, high = limits(t)
    wide = rng.integers(low, high, shape, dtype=numpy_type, endpoint=True)
    small = rng.integers(max(low, -20), 21, shape).astype(numpy_type)
    ends = rng.choice(np.array([low, low + 1, high - 1, high], numpy_type), shape)
    way = rng.random(shape)
    return np.asfortranarray(np.where(way < 0.06, ends, np.where(way < 0.3, wide, small)))


def number(seed: int, name: str) -> Num | int:
    """The scalar that a parameter's name stands for; a plain int for the static one."""
    rng = random.Random(f"{seed} {name}")
    if name == "n":
        return Num("i32", rng.randint(0, 20))
    if name == "w":
        return Num("i64", rng.choice([1 << 40, (1 << 33) + 5, (1 << 40) + 12345]))
    return Num("f32", rng.choice([0.5, -1.25, 3.0])) if name == "x" else rng.randint(0, 4)


def arguments(program: Program) -> list[Any]:
    """In the order of the parameters: (array, dtype), Num, or an int."""
    threads = program.grid * program.block
    return [(array(program.seed, p, threads), p.split("_")[1]) if "_" in p else number(program.seed, p)
            for p in program.parameters]
