"""The benchmarks of products run, their results are right, and their files can be read."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.alone
GEMM = Path(__file__).parents[2] / "benchmarks" / "gemm.py"


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


def rows_of(folder, name, *arguments):
    """The lines of the CSV that a run leaves."""
    done = subprocess.run([sys.executable, GEMM, "--out", folder, *arguments], capture_output=True, text=True,
                          timeout=500, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def test_every_kind_of_operands(tmp_path):
    rows = rows_of(tmp_path, "gemm.csv", "--rounds", "3", "--only", "main .* 4096x4096x4096")
    assert [row["kind"] for row in rows] == ["bf16", "f16", "e4m3 fast", "e4m3 promoted", "tf32", "s8"]
    for row in rows:
        assert row["why"] == "" and re.search(r"\d+x\d+x\d+", row["kernels"]), row
        assert 0.2 < float(row["ratio"]) < 5 and float(row["error_ratio"]) <= 1.1, row
        assert float(row["moye_us"]) * float(row["moye_tflops"]) == pytest.approx(2e-6 * 4096**3, rel=1e-4)


def test_odd_shapes(tmp_path):
    rows = rows_of(tmp_path, "gemm.csv", "--rounds", "3", "--only", "forty bf16 (1|1000)x(512|4098)x")
    assert len(rows) == 8 and {row["tma"] for row in rows} == {"0", "1"}
    assert all(float(row["error_ratio"]) <= 1.1 for row in rows)


def test_the_steady_state(tmp_path):
    row, = rows_of(tmp_path, "gemm_steady.csv", "--steady", "--only", "bf16 8192x8192x8192")
    assert 0.2 < float(row["ratio"]) < 5
    for side in ("moye", "cublas"):
        assert 300 < float(row[f"{side}_mhz"]) < 3000 and 100 < float(row[f"{side}_watts"]) < 1500
