"""The page's example of adding an operation, done to a copy of moye as the page says: it prints, runs, is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```py\n# (src/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = (ROOT / "docs" / "architecture.md").read_text().split("## Adding an operation")[1].split("\n## ")[0]
BLOCKS = dict(BLOCK.findall(SECTION))
USE = """
import numpy as np
import moye as mo
from moye.dtypes import float32, uint32
from moye.ir import ops
from moye.ir.nodes import Literal
from moye.ir.rules import broken
from moye.lang.builtins import nanosleep
from moye.cuda.printing.printer import print_kernel

@mo.kernel
def sleeping(x, ns):
    nanosleep(ns)
    nanosleep(20)
    x[mo.thread_idx().x] = 1.0

x = np.zeros(32, np.float32)
report = mo.check(sleeping)[1, 32](x, np.uint32(5))
assert report.ok and (x == 1).all(), report
print(print_kernel(sleeping.trace(x, np.uint32(5), block=32)).source)
print(broken(ops.NanoSleep(duration=Literal(1.0, float32))))
"""


def changed(folder, files):
    """A copy of the sources with these blocks: at the end, or before the line that refuses what lacks a function."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in files:
        before, line, after = (folder / name).read_text().partition("\nops.need_all(")
        (folder / name).write_text(f"{before}\n\n{BLOCKS[name]}\n{line}{after}")
    script = folder / "use.py"
    script.write_text(USE)
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=folder, check=False,
                          env={"PYTHONPATH": str(folder / "src")})


def test_the_operation_of_the_page(tmp_path):
    done = changed(tmp_path, BLOCKS)
    assert done.returncode == 0, done.stderr
    assert "__nanosleep(ns);" in done.stdout
    assert "__nanosleep(20u);" in done.stdout
    assert "sleeps float32, not uint32" in done.stdout


@pytest.mark.parametrize(("name", "who"), [
    ("src/moye/ir/rules.py", "verifier"), ("src/moye/cuda/printing/statements.py", "CUDA printer"),
    ("src/moye/sim/generate/operations.py", "simulator")])
def test_a_function_that_is_missing_is_told_when_moye_is_imported(name, who, tmp_path):
    done = changed(tmp_path, BLOCKS.keys() - {name})
    assert done.returncode == 1
    assert f"the {who} has no function for NanoSleep" in done.stderr
