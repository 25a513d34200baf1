"""Time and peak memory of the 2048x2048x256 double-buffered matmul in the simulator, with and without checks.

Each run is a process of its own, from the first launch on (tracing included, imports excluded); medians are printed.

    python benchmarks/simulator.py [runs]
"""

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import moye as mo

EXAMPLE = Path(__file__).parents[1] / "examples" / "09_matmul_double_buffered.py"
MODES = {"every check (mo.check)": "all", "default checks": "1", "no checks (MOYE_CHECK=0)": "0"}
M, N, K = 2048, 2048, 256


def measure(mode):
    """One launch in this process: seconds, peak bytes of the process, relative error."""
    os.environ["MOYE_CHECK"] = "1" if mode == "all" else mode
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    import moye.sim.machine.machine  # noqa: F401  the simulator is imported by the first launch

    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.standard_normal((n, K), np.float32)) for n in (M, N))
    C = np.full((M, N), np.nan, np.float32, order="F")
    kernel = mo.check(example.matmul_kernel) if mode == "all" else example.matmul_kernel
    start = time.perf_counter()
    report = example.matmul(A, B, C, kernel)
    seconds = time.perf_counter() - start
    assert report is None or report.ok, str(report)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    return seconds, peak, float(np.linalg.norm(C - expected) / np.linalg.norm(expected))


def main(runs=5):
    print(f"double-buffered matmul {M}x{N}x{K} in the simulator, {os.cpu_count()} cores, median of {runs} processes")
    for title, mode in MODES.items():
        results = []
        for _ in range(runs):
            command = [sys.executable, __file__, "--child", mode]
            results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        seconds, peaks, errors = zip(*results, strict=True)
        print(f"  {title:26} {statistics.median(seconds):6.2f} s ({min(seconds):.2f} .. {max(seconds):.2f})   "
              f"peak memory {max(peaks) / 1e9:.2f} GB   relative error {max(errors):.1e}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:]))
