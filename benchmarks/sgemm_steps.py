"""The ten steps of the tutorial's SGEMM (docs/learn/05_sgemm.py) on the GPU, beside cuBLAS fp32 (TF32 off).

Interleaved in one process; random-normal data; L2 flushed before every launch; medians.  Every result is compared with
float64 on a poisoned output first.  It writes benchmarks/data/sgemm_steps.csv, which the chapter shows.

    python benchmarks/sgemm_steps.py [extent] [rounds]      # 4096 and 30; then: python docs/make_learn.py 05
"""

import csv
import math
import runpy
import sys
from pathlib import Path

import torch

import moye as mo
from moye.testing import interleave

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "data" / "sgemm_steps.csv"


def column_major(rows, columns):
    return torch.randn(columns, rows, device="cuda").T


def right(name, function, A, B, expected):
    """The launch of a step, after its result was compared."""
    C = torch.full((B.shape[0], A.shape[0]), math.nan, device="cuda").T

    def launch():
        function(A, B, C, run=lambda kernel: kernel)

    launch()
    error = float((C.double() - expected).norm() / expected.norm())
    if not error < 1e-5:
        sys.exit(f"{name}: relative error {error}")
    return launch


def main(extent=4096, rounds=30):
    torch.backends.cuda.matmul.allow_tf32 = False
    steps = runpy.run_path(str(ROOT / "docs" / "learn" / "05_sgemm.py"))["STEPS"]
    A, B = column_major(extent, extent), column_major(extent, extent)
    expected = A.double() @ B.double().T
    launches = {name: right(name, function, A, B, expected) for name, function in steps.items()}
    out = torch.empty(extent, extent, device="cuda").T
    del expected
    ms = interleave({**launches, "cuBLAS": lambda: torch.mm(A, B.T, out=out)}, rounds)
    rows = [{"step": name, "extent": extent, "ms": f"{each:.4f}", "tflops": f"{2e-9 * extent ** 3 / each:.2f}",
             "device": mo.testing.device()} for name, each in ms.items()]
    for row in rows:
        print(f"{row['step']:8} {row['ms']:>10} ms {row['tflops']:>8} TFLOP/s")
    with TABLE.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
