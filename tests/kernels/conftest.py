"""The kernels of the examples as test cases: each with its operands, its result in float64, and its source.

``case.run(M, N, K, kernel=...)`` launches one kernel on poisoned outputs and returns (the launch's result, the error).
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


@dataclass(frozen=True)
class Case:
    """A matmul of the examples, and the options that its host function takes after A, B and C."""

    name: str
    stem: str
    options: tuple = ()

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
        A, B = (np.asfortranarray(rng.standard_normal((n, K), np.float32)) for n in (M, N))
        C = np.full((M, N), np.nan, np.float32, order="F")
        result = (module or self.module).matmul(A, B, C, *self.options, kernel=kernel or self.kernel)
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
