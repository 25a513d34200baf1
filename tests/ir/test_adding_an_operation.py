"""The page's example of adding an operation: its blocks are those of the sources, and moye misses each that is gone."""

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
from moye.cuda.printing.printer import print_kernel

@mo.kernel
def sleeping(x, ns):
    mo.nanosleep(ns)
    x[mo.thread_idx().x] = 1.0

x = np.zeros(32, np.float32)
report = mo.check(sleeping)[1, 32](x, np.uint32(5))
assert report.ok and (x == 1).all(), report
print(print_kernel(sleeping.trace(x, np.uint32(5), block=32)).source)
"""


def without(folder, *gone):
    """What a program says with a copy of moye that lacks the blocks of these files."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in gone:
        text = (folder / name).read_text()
        assert BLOCKS[name] in text, f"{name} has other lines than the page"
        (folder / name).write_text(text.replace(BLOCKS[name], ""))
    script = folder / "use.py"
    script.write_text(USE)
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=folder, check=False,
                          env={"PYTHONPATH": str(folder / "src")})


def test_the_operation_of_the_page(tmp_path):
    assert len(BLOCKS) == 5
    done = without(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "__nanosleep(ns);" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("name", "says"), [
    ("src/moye/ir/effects.py", "has no attribute 'NanoSleep'"),
    ("src/moye/ir/rules.py", "the verifier has no function for NanoSleep"),
    ("src/moye/cuda/printing/statements.py", "the CUDA printer has no function for NanoSleep"),
    ("src/moye/sim/generate/operations.py", "the simulator has no function for NanoSleep"),
    ("src/moye/lang/builtins.py", "has no attribute 'nanosleep'")])
def test_a_part_that_is_missing_is_told(name, says, tmp_path):
    done = without(tmp_path, name)
    assert done.returncode == 1
    assert says in done.stderr
