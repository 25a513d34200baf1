"""What a type checker knows of moye: the stub is that of the sources, right programs pass mypy, wrong ones do not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import moye as mo

ROOT = Path(__file__).parents[1]


def _maker():
    spec = importlib.util.spec_from_file_location("make_stub", ROOT / "docs" / "make_stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_is_current():
    made = _maker()
    assert made.STUB.read_text() == made.stub(), "run docs/make_stub.py"


RIGHT = '''
import moye as mo


@mo.kernel
def scaled(A: mo.Tensor, B: mo.Tensor, plan: mo.Constexpr, factor: float) -> None:
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    tile = mo.tile(A, (128,), (mo.block_idx().x,))
    part = mo.fragment(4, mo.float32)
    mo.copyto(part, tile)
    mo.copyto(plan.copy, part, tile, pred=i < 4)
    for k in mo.static_range(mo.size(part)):
        part[k] = part[k] * factor
    for k in mo.range(mo.size(A), unroll=4):
        B[k] = mo.exp(part[0]) + mo.min(k, 3)
    mo.gemm(plan.mma, part[:, 0], part[:, 1], part)


def host(A: object, B: object) -> None:
    layout = mo.make_layout((4, 8), (8, 1))
    rows: int = mo.size(layout, 0)
    first: int = mo.shape(layout)[0]
    scaled[rows // 2, 128](A, B, layout, 2.0)
    report: mo.Report = mo.check(scaled)[1, 128](A, B, layout, 2.0)
    assert report.ok and first
    mo.recast(layout, 16, 8).shape
'''
WRONG = {
    "a name that is not there": ("mo.no_such_thing", 'has no attribute "no_such_thing"'),
    "of the algebra, too": ("mo.layout.no_such_thing", 'has no attribute "no_such_thing"'),
    "one tensor to copy": ("def a(x: mo.Tensor) -> None: mo.copyto(x)", "copyto"),
    "a copy of a number": ("def b(x: mo.Tensor) -> None: mo.copyto(x, 3)", "copyto"),
    "an unknown option": ("def c(x: mo.Tensor) -> None: mo.copyto(x, x, predicate=True)", "copyto"),
    "a barrier for an ordinary copy": ("def d(x: mo.Tensor) -> None: mo.copyto(x, x, barrier=(x, 0))", "copyto"),
    "two operands of a product": ("def e(x: mo.Tensor, m: mo.TiledMMA) -> None: mo.gemm(m, x, x)", "gemm"),
    "a dtype by its name": ("mo.fragment(4, 'float32')", "incompatible type"),
    "a layout for a tensor": ("mo.recast(mo.make_layout(4), mo.float32)", "recast"),
}


def _mypy(text: str, folder: Path) -> str:
    """What mypy says of a program, with the settings and so with the cache of ``make lint``."""
    path = folder / "program.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", str(path)], capture_output=True,
                          text=True, cwd=ROOT, env={"PATH": ""}, check=False)
    lines = [line[line.index("program.py:"):] for line in done.stdout.splitlines() if "program.py:" in line]
    return "\n".join(lines) + done.stderr


@pytest.mark.slow
def test_a_right_program_passes(tmp_path):
    assert _mypy(RIGHT, tmp_path) == ""


@pytest.mark.slow
def test_wrong_programs_are_told(tmp_path):
    text = "import moye as mo\n" + "".join(f"{line}\n" for line, _ in WRONG.values())
    told = _mypy(text, tmp_path)
    for number, (name, (_, words)) in enumerate(WRONG.items(), start=2):
        lines = [line for line in told.splitlines() if f"program.py:{number}:" in line]
        assert any(words in line for line in lines), f"{name}: {told}"


@pytest.mark.parametrize("name", mo.__all__)
def test_every_public_name_is_there(name):
    assert hasattr(mo, name)
