"""examples/export: kernels as C, and the program in C++ that runs them, on a CUDA driver that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import exported_c
from moye import cli

EXAMPLE = Path(__file__).parents[1] / "examples" / "export"
TOLD = ("saxpy: largest error", "product: largest error", "refused: saxpy: x does not begin at a multiple of 16 bytes")


def moye(*args):
    with pytest.raises(SystemExit) as left:
        cli.main([str(x) for x in args])
    return left.value.code


def ran(program, **env):
    done = subprocess.run([program], env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_the_program_runs(tmp_path, capsys):
    exported_c.require_compiler()
    assert moye("build", EXAMPLE / "kernels.py", "-o", tmp_path / "kernels.c", "--arch", "sm_90a") == 0
    assert capsys.readouterr().out == f"{tmp_path}/kernels.h\n{tmp_path}/kernels.c: saxpy, product\n"
    subprocess.run(["gcc", "-std=c99", *exported_c.FLAGS, "-c", "kernels.c", "-o", "kernels.o"], cwd=tmp_path,
                   check=True)
    subprocess.run(["g++", "-std=c++17", *exported_c.FLAGS, "-I.", f"-I{EXAMPLE}", EXAMPLE / "main.cpp", "kernels.o",
                    "-o", "main", "-ldl", "-lpthread"], cwd=tmp_path, check=True)
    code, lines = ran(tmp_path / "main", LD_LIBRARY_PATH=str(exported_c.fake_driver()), FAKE_CUDA_RUN="1")
    assert code == 0 and [line.startswith(told) for line, told in zip(lines, TOLD, strict=True)] == [True] * 3
    code, lines = ran(tmp_path / "main", LD_LIBRARY_PATH=str(exported_c.fake_driver()))
    assert code == 1, "a driver that runs nothing leaves wrong results, and the program sees them"
    code, lines = ran(tmp_path / "main", LD_LIBRARY_PATH=str(exported_c.fake_driver()), FAKE_CUDA_ARCH="75")
    assert code == 1 and lines[0] == "no specialisation that fits has code for the device of the current context"


@pytest.mark.slow
def test_cmake_builds_it(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    exported_c.require_compiler()
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    for command in (["cmake", "-S", EXAMPLE, "-B", tmp_path, f"-DMOYE={sys.executable} -m moye.cli"],
                    ["cmake", "--build", tmp_path]):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    code, _ = ran(tmp_path / "export_example", LD_LIBRARY_PATH=str(exported_c.fake_driver()), FAKE_CUDA_RUN="1")
    assert code == 0
