"""The kernels of the examples as test cases: each with its operands, its result in float64, and its source.

``case.run(M, N, K, kernel=...)`` launches one kernel on poisoned outputs and returns (the launch's result, the error
against the operands as the MMA sees them).
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
BARRIER = re.compile(r"^( +)(mo\.(?:sync_threads|cp_async_wait)\(\))$")


@cache
def load(stem):
    spec = importlib.util.spec_from_file_location(f"kernels_{Path(stem).name}", EXAMPLES / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tf32(x, half):
    """float32 with its low 13 bits cut off, rounded before by adding half of the last that stays."""
    return ((x.view(np.uint32) + np.uint32(half)) & np.uint32(0xFFFFE000)).view(np.float32)


NARROWED = {"float32": lambda x: x, "rounded": lambda x: tf32(x, 0x1000), "cut": lambda x: tf32(x, 0)}


@dataclass(frozen=True)
class Case:
    """A matmul of the examples, and the options that its host function takes after A, B and C."""

    name: str
    stem: str
    options: tuple = ()
    orders: str = "FF"              # of A and B
    bK: int = 8                     # of a k-tile
    operands: str = "float32"       # as the MMA sees them: see NARROWED

    @property
    def module(self):
        return load(self.stem)

    @property
    def kernel(self):
        return self.module.matmul_kernel

    @property
    def path(self):
        return EXAMPLES / f"{self.stem}.py"

    def run(self, M, N, K, kernel=None, module=None):
        rng = np.random.default_rng([M, N, K])
        A, B = (np.asarray(rng.standard_normal((n, K), np.float32), order=order)
                for n, order in zip((M, N), self.orders, strict=True))
        C = np.full((M, N), np.nan, np.float32, order="F")
        result = (module or self.module).matmul(A, B, C, *self.options, kernel=kernel or self.kernel)
        A, B = map(NARROWED[self.operands], (A, B))
        expected = A.astype(np.float64) @ B.T.astype(np.float64)
        return result, np.linalg.norm(C - expected) / np.linalg.norm(expected)

    def lines(self, pattern):
        """The numbers of the example's lines that match."""
        return [n for n, line in enumerate(self.path.read_text().splitlines(), 1) if re.search(pattern, line)]


MATMULS = [
    Case("tiled", "03_matmul_tiled"),
    Case("async_1x1", "04_matmul_async", ((1, 1),)),
    Case("async_4x1", "04_matmul_async", ((4, 1),)),
    Case("vectorized", "05_matmul_vectorized"),
    Case("overlapped_16x16_3", "06_matmul_overlapped", ((16, 16), False)),
    Case("overlapped_16x16_4", "06_matmul_overlapped", ((16, 16), True)),
    Case("overlapped_32x8_3", "06_matmul_overlapped", ((32, 8), False)),
    Case("overlapped_32x8_4", "06_matmul_overlapped", ((32, 8), True)),
    Case("double_buffered", "09_matmul_double_buffered"),
    Case("tensor_core", "10_matmul_tensor_core", orders="FC", operands="rounded"),
    Case("ldmatrix_k", "11_matmul_ldmatrix", ("k",), orders="CC", operands="cut"),
    Case("ldmatrix_m", "11_matmul_ldmatrix", ("m",), orders="FC", operands="cut"),
    Case("tensor_core_double_buffered", "12_matmul_tensor_core_double_buffered", orders="FC", bK=16, operands="cut"),
]


@pytest.fixture(params=MATMULS, ids=lambda case: case.name)
def matmul(request):
    """Every matmul of the examples."""
    return request.param


@pytest.fixture
def broken():
    """The matmul without its barrier, and its twin."""
    return Case("broken", "broken/d3_missing_barrier"), Case("fixed", "broken/d3_missing_barrier_fixed")


def without_line(path, number):
    """The module of an example in which one statement is ``pass``; its source is known to linecache."""
    lines = path.read_text().splitlines(keepends=True)
    lines[number - 1] = re.sub(r"\S.*", "pass", lines[number - 1])
    name = f"<{path.name} without line {number}>"
    text = "".join(lines)
    linecache.cache[name] = (len(text), None, lines, name)
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def barriers():
    """(case, line number, statement) of every barrier and wait of every example's matmul."""
    for case in {case.stem: case for case in MATMULS}.values():
        for number, line in enumerate(case.path.read_text().splitlines(), 1):
            if match := BARRIER.match(line):
                yield case, number, match[2]


@pytest.fixture(params=list(barriers()), ids=lambda b: f"{b[0].stem}-{b[1]}-{b[2][3:-2]}")
def barrier(request):
    """Every barrier and wait of the matmuls, as (case, the module without it, line number, statement)."""
    case, number, statement = request.param
    return case, without_line(case.path, number), number, statement


@pytest.fixture
def example():
    """Any example as a module, by file name."""
    return load


@pytest.fixture
def mutate():
    """``mutate(stem, number)``: the example without one statement."""
    return lambda stem, number: without_line(EXAMPLES / f"{stem}.py", number)
