"""The steps of docs/attention.md on the GPU against float64, and their benchmark at a small size."""

from __future__ import annotations

import csv
import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "attention"
sys.path.insert(0, str(FOLDER))
STEPS = sorted(path.stem for path in FOLDER.glob("step_*.py"))
BENCHMARK = ROOT / "benchmarks" / "attention_steps.py"


def needs_hopper(name):
    if int(name[5]) >= 5 and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs sm_90a")


@pytest.mark.parametrize("shape", [(1, 128, 128), (3, 256, 640), (16, 1024, 1024)])
@pytest.mark.parametrize("name", STEPS)
def test_a_step(name, shape):
    needs_hopper(name)
    heads, queries, keys = shape
    causal = "causal" in name
    q, k, v = (torch.randn(heads, rows, 128, device="cuda").bfloat16()
               for rows in (keys if causal else queries, keys, keys))
    scores = q.double() @ k.double().mT / math.sqrt(128)
    if causal:
        scores.masked_fill_(~torch.ones_like(scores[0], dtype=torch.bool).tril(), -math.inf)
    expected = torch.softmax(scores, 2) @ v.double()
    for _ in range(3):                                  # a race would not show each time
        out = torch.full_like(q, math.nan)
        importlib.import_module(name).attention(out, q, k, v)
        assert float((out.double() - expected).norm()) < 6e-3 * float(expected.norm())


@pytest.mark.alone
def test_the_benchmark(tmp_path):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs sm_90a")
    file = tmp_path / "steps.csv"
    small = ["--heads", "4", "--seqlen", "1024", "--rounds", "2"]
    done = subprocess.run([sys.executable, BENCHMARK, *small, "--csv", file], capture_output=True,
                          text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["name"] for row in rows] == [*STEPS[:-1], "attention", "cuDNN", STEPS[-1], "attention, causal",
                                             "cuDNN, causal"]
    assert all(float(row["ms"]) > 0 and float(row["error"]) < 6e-3 for row in rows)
    assert all(float(row["of_cudnn"]) == 1 for row in rows if row["name"].startswith("cuDNN"))
