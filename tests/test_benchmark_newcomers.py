"""What of benchmarks/newcomers.py needs no GPU: each pair's kernel is right and clean, its twin compiles, the table."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import moye as mo

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "newcomers.py"       # tests/cases has a module of that name
spec = importlib.util.spec_from_file_location("benchmark_newcomers", SCRIPT)
benchmark = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)


@pytest.mark.parametrize("name", benchmark.NAMES)
def test_kernels_are_right_and_clean(name):
    case = benchmark.load(name, small=True)
    expected = case.expected()
    report = mo.check(case.kernel)[case.grid, case.block](*case.arguments)
    assert report.ok, report
    got = [case.arguments[at] for at in case.outputs]
    assert case.right(got, expected), case.errors(got, expected)


def test_every_kernel_has_a_twin():
    assert {path.stem for path in benchmark.HERE.glob("*.cu")} == set(benchmark.NAMES)
    assert all(f"{name}(" in (benchmark.HERE / f"{name}.cu").read_text() for name in benchmark.NAMES)


def test_what_is_not_written_is_wrong():
    case = benchmark.load("saxpy", small=True)
    expected = case.expected()
    got = expected[0].copy()
    assert case.right([got], expected)
    got[7] = np.nan
    assert not case.right([got], expected)
    got[7] = 100
    assert not case.right([got], expected)


def test_machine_code(capsys, tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc")
    benchmark.main(["--only", "stencil_2d", "--csv", str(tmp_path / "code.csv")])
    table = capsys.readouterr().out
    assert "stencil_2d" in table and "1 pairs" in table
    lines = (tmp_path / "code.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("pair,program,registers,local,")


def test_formats_of_the_twins_arguments():
    assert benchmark.formats(benchmark.load("philox", small=True)) == ("P", "q")
    assert benchmark.formats(benchmark.load("saxpy", small=True)) == ("P", "P", "f", "i")
